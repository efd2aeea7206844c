"""Prints, for people, which pods of a recording waited, and for what."""

from math import inf

from lib.questions.durations import in_words, time_text
from lib.questions.past import Past, gap_text
from lib.questions.printing import Printer
from lib.questions.waits import Wait
from lib.scheduling.text import count, sentence

FIRST = 3
"""So many changes that help are shown, unless -o wide."""


def show_past(past: Past, out: Printer) -> None:
    """How many pods waited, by cause, what would have helped most, and each pod."""
    began, many = past.time(past.since).astimezone(), len(past.waits)
    who = f"{count(many, 'pod')}{past.where} waited" if many else f"no pod{past.where} waited"
    until = time_text(past.time(past.until), began)
    out.heading(f"From {began:%Y-%m-%d %H:%M:%S} to {until} ({began.tzname()}) {who}")
    if past.quick:
        out.line(f"{count(past.quick, 'other pod')} had a node at once.")
    if never := past.never:
        gone = sum(each.ended < inf for each in never)
        lines = [(gone, "deleted before"), (len(never) - gone, "still without one at the end")]
        out.line(f"No node for {', '.join(f'{number:,} ({what})' for number, what in lines if number)}.")
    for gap in past.gaps:
        out.line(sentence(f"But {gap_text(gap, past.began, began)}"))
    if many == 1:
        _show_one(past.waits[0], past, out)
    elif many:
        rows = [
            [each.cause, f"{each.pods:,}", in_words(each.seconds), in_words(each.longest)]
            for each in past.causes
        ]
        out.table(["waited for", "pods", "together", "longest"], rows, right=(1, 2, 3))
    _show_helps(past, out)
    if many > 1:
        waits = sorted(past.waits, key=lambda each: -each.seconds(past.until))
        shown = out.first(waits)
        out.table(
            ["pod", "waited", "from", "to", "node", "for"],
            [[*_times(each, past), "; ".join(cause for _, cause in each.causes)] for each in shown],
            right=[1],
        )
        out.more(many - len(shown), "more pod")


def _show_one(wait: Wait, past: Past, out: Printer) -> None:
    """What one pod waited for, one after the other."""
    pod, waited, since, ended, node = _times(wait, past)
    out.heading(f"{pod} waited {waited}, from {since} to {ended}; its node: {node}", gap=True)
    out.pairs(
        (
            (f"{time_text(past.time(start), past.time(past.since))}, {in_words(end - start)}", cause)
            for start, end, cause in wait.parts(past.until)
        ),
        numbers=False,
    )


def _show_helps(past: Past, out: Printer) -> None:
    pending = past.pending
    if not pending:
        return
    at = time_text(past.time(past.most_at), past.time(past.since))
    helps = [each for each in (pending.helps if out.wide else pending.best) if each.pods]
    who, tried = f"{count(past.most, 'pod')} waited", pending.waiting + len(pending.would_be_placed)
    of_them = f"the first {pending.waiting:,} pods" if tried < past.most else count(pending.waiting, "pod")
    if not helps:
        what = "no change was found that would have helped" if pending.waiting else "there was room for all"
        out.line(f"At {at}, when {who}, {what}.", gap=True)
        return
    out.line(f"What would have helped most, at {at}, when {who}:", gap=True)
    out.items(
        f"{each.suggestion.words}: {each.pods:,} of {of_them} would have had a node"
        for each in out.first(helps, FIRST)
    )


def _times(wait: Wait, past: Past) -> list[str]:
    """Its pod, how long it waited, from when to when, and its node."""
    beside = past.time(past.since)
    ended = "waits on" if wait.ended == inf else time_text(past.time(wait.ended), beside)
    began = time_text(past.time(wait.began), beside)
    return [wait.pod, in_words(wait.seconds(past.until)), began, ended, wait.node or "none"]
