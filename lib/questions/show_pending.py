"""Prints, for people, why pods wait, by cause."""

from datetime import datetime

from lib.questions.events import age
from lib.questions.page import Page
from lib.questions.pending import Cause, Pending, Uncreated, missing_text
from lib.questions.show import some
from lib.questions.show_why import show_nowhere
from lib.scheduling.text import count, names, verb

FIRST = 3
"""So many changes that help are shown, unless -o wide."""


def show_pending(pending: Pending, page: Page, now: datetime) -> None:
    """How many pods wait, what helps most, and each cause."""
    page.heading(_headline(pending))
    if pending.would_be_placed:
        pods = [str(pod) for pod in pending.would_be_placed]
        page.line(f"{count(len(pods), 'pod')} would get a node now: {names(pods, 1000 if page.wide else 3)}.")
    for scheduler, unheeded in pending.unheeded.items():
        page.line(f"{scheduler} has said nothing of {len(unheeded):,} of these: is it running?")
    alike: dict[object, list[Uncreated]] = {}
    for creator in pending.uncreated:
        alike.setdefault(creator.cause, []).append(creator)
    for creators in some([*alike.values()], page):
        last = max(creators, key=lambda each: str(each.said.at))
        ago = f"{age(last.said.at, now)} ago: " if last.said.at else ""
        page.line(f"{missing_text(creators)}. {ago}{last.reason}.")
    if helps := pending.helps if page.wide else pending.best:
        page.line("What would help most:", gap=True)
        page.items(
            f"{each.suggestion.words}: {each.pods:,} of {count(pending.waiting, 'pod')} would have a node"
            for each in (helps if page.wide else helps[:FIRST])
            if each.pods
        )
    for cause in pending.causes:
        _show_cause(cause, page)


def _show_cause(cause: Cause, page: Page) -> None:
    pods = [str(pod) for pod in cause.pods]
    waits = verb(len(pods), "waits", "wait")
    whose = verb(len(pods), "its", "their")
    what = f" for {whose} volumes" if cause.why.to_provision else ""
    page.heading(
        f"{count(len(pods), 'pod')} {waits}{what}: {names(pods, 1000 if page.wide else 4)}", gap=True
    )
    if not cause.why.to_provision:
        show_nowhere(cause.why, page)
    for each in cause.why.to_provision:
        page.line(f"{each.text}.", indent=2)


def _headline(pending: Pending) -> str:
    reasons = len(pending.causes) + len({each.cause for each in pending.uncreated})
    have = f"{count(pending.placed, 'pod')} {verb(pending.placed, 'has', 'have')} a node"
    if not pending.waiting and not pending.uncreated:
        return f"No pod waits in vain; {have}"
    if not pending.waiting:
        return f"{count(len(pending.uncreated), 'controller')} can't create pods; {have}"
    return f"{count(pending.waiting, 'pod')} {verb(pending.waiting, 'waits', 'wait')}, for " + (
        f"{count(reasons, 'reason')}; {have}"
    )
