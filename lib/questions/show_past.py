"""Prints, for people, which pods of a recording waited, and for what."""

from math import inf

from lib.questions.durations import in_words, time_text
from lib.questions.moments import Moment
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
        gone = sum(wait.ended < inf for wait in never)
        lines = [(gone, "deleted before"), (len(never) - gone, "still without one at the end")]
        out.line(f"No node for {', '.join(f'{number:,} ({what})' for number, what in lines if number)}.")
    for gap in past.gaps:
        out.line(sentence(f"But {gap_text(gap, past.began, began)}"))
    if many == 1:
        _show_one(past.waits[0], past, out)
    elif many:
        rows = [
            [cause.cause, f"{cause.pods:,}", in_words(cause.seconds), in_words(cause.longest)]
            for cause in past.causes
        ]
        out.table(["waited for", "pods", "together", "longest"], rows, right=(1, 2, 3))
    _show_helps(past, out)
    if many > 1:
        waits = sorted(past.waits, key=lambda wait: -wait.seconds(past.until))
        shown = out.first(waits)
        out.table(
            ["pod", "waited", "from", "to", "node", "for"],
            [[*_times(wait, past), "; ".join(cause for _, cause in wait.causes)] for wait in shown],
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
    moments = past.moments
    if not moments:
        return
    times = [time_text(past.time(moment.at), past.time(past.since)) for moment in moments]
    told = [
        f"{time}: {' and '.join(moment.what)}; {count(moment.waited, 'pod')} waited{_tried(moment)}"
        for time, moment in zip(times, moments, strict=True)
    ]
    helped = {words for moment in moments for words, pods in moment.helped.items() if pods}
    helped = {words for words in helped if out.wide or all(words in moment.helped for moment in moments)}
    by_pods = sorted(helped, key=lambda words: -sum(moment.helped.get(words, 0) for moment in moments))
    what = "What would have helped" if helped else "No change was found that would have helped"
    out.line(f"{what}, tried at {count(len(moments), 'moment')}:", gap=True)
    out.items(told)
    if helped:
        rows = [
            [words, *(_share(moment, words) for moment in moments)] for words in out.first(by_pods, FIRST)
        ]
        out.table(["so many pods would have had a node", *times], rows, right=range(1, len(moments) + 1))


def _tried(moment: Moment) -> str:
    """With how many of the pods it was tried, if not with all."""
    room = "; there was room for all" if not moment.tried else ""
    return f", {len(moment.tried):,} of them tried" if 0 < len(moment.tried) < moment.waited else room


def _share(moment: Moment, words: str) -> str:
    many = moment.helped.get(words)
    return "not tried" if many is None else f"{many:,} of {len(moment.tried):,}"


def _times(wait: Wait, past: Past) -> list[str]:
    """Its pod, how long it waited, from when to when, and its node."""
    beside = past.time(past.since)
    ended = "waits on" if wait.ended == inf else time_text(past.time(wait.ended), beside)
    began = time_text(past.time(wait.began), beside)
    return [wait.pod, in_words(wait.seconds(past.until)), began, ended, wait.node or "none"]
