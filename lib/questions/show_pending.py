"""Prints, for people, why pods wait, by cause."""

from datetime import datetime

from lib.questions.events import age
from lib.questions.page import Page
from lib.questions.pending import Cause, Pending, missing_text
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
    for creator in some(pending.uncreated, page):
        ago = f"{age(creator.said.at, now)} ago: " if creator.said.at else ""
        page.line(f"{missing_text(creator)}. {ago}{creator.said.message.rstrip('.')}.")
    helps = [each for each in pending.helps if each.pods]
    if helps:
        page.gap()
        page.line("What would help most:")
        page.items(
            f"{each.suggestion.words}: {each.pods:,} of {count(pending.waiting, 'pod')} would have a node"
            for each in (helps if page.wide else helps[:FIRST])
        )
    for cause in pending.causes:
        _show_cause(cause, page)


def _show_cause(cause: Cause, page: Page) -> None:
    pods = [str(pod) for pod in cause.pods]
    page.gap()
    waits = verb(len(pods), "waits", "wait")
    page.heading(f"{count(len(pods), 'pod')} {waits}: {names(pods, 1000 if page.wide else 4)}")
    show_nowhere(cause.why, page)


def _headline(pending: Pending) -> str:
    have = f"{count(pending.placed, 'pod')} {verb(pending.placed, 'has', 'have')} a node"
    if not pending.waiting and not pending.uncreated:
        return f"No pod waits in vain; {have}"
    reasons = len(pending.causes) + len(pending.uncreated)
    if not pending.waiting:
        return f"{count(len(pending.uncreated), 'controller')} can't create pods; {have}"
    return f"{count(pending.waiting, 'pod')} {verb(pending.waiting, 'waits', 'wait')}, for " + (
        f"{count(reasons, 'reason')}; {have}"
    )
