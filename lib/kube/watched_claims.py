"""Watches claims and what they depend on, while unassigned pods need them: volumes, or devices."""

from collections.abc import Iterable, Sequence
from queue import Queue
from typing import Any

from lib.kube.api import Api
from lib.kube.changes import AnyChange, Change, Kind, unassigned_pod
from lib.kube.claims import Claims
from lib.kube.errors import ForbiddenError
from lib.kube.lookup import Lookup, PendingError
from lib.kube.reflector import Reflector, WatchLine
from lib.kube.resources import Need
from lib.kube.watched import Watched

FAILED_PAUSE = 1.0
"""Seconds until a failed watch is tried again: the right may be granted meanwhile."""

LINGER = 60.0
"""Seconds for which the watches stay open after the last need: where such pods come and go, the next one
needs no lists."""


class WatchedClaims(Claims):
    """What is watched of claims, as long as pods need them, and for a while after that.

    lines: the informer's queue of watch lines.
    """

    def __init__(self, api: Api, namespaces: Sequence[str], need: Need, lines: "Queue[WatchLine]") -> None:
        super().__init__(api, need)
        self._watched = [Watched(self._api, resource, namespaces, lines) for resource in need.resources]
        self._opening = Lookup[Reflector[Any], None](
            f"watches of {need.claimed}", Reflector.open_beside, patient=True, system=api.system
        )
        self._needed_by: set[str] = set()  # uids of pods
        self._last_needed: float | None = None  # None while nothing is watched

    @property
    def reflectors(self) -> Sequence[Reflector[Any]]:
        """The reflectors whose watches matter now."""
        return (
            () if self._last_needed is None else [r for watched in self._watched for r in watched.reflectors]
        )

    @property
    def to_open(self) -> Sequence[Reflector[Any]]:
        """The reflectors whose watches `open_due_watches` opens when they are due."""
        return () if self.is_opening else self.reflectors

    @property
    def is_pending(self) -> bool:
        """Whether a part of what is needed isn't known yet, though no error is known either."""
        return self.is_opening or self._is_unknown(self.reflectors)

    @property
    def is_known(self) -> bool:
        """Whether all of it was read, and a watch tells of changes."""
        reflectors = self.reflectors
        return bool(reflectors) and all(reflector.is_listed for reflector in reflectors)

    @property
    def is_due(self) -> bool:
        """Whether `open_due_watches` finds out more at once."""
        return self._is_unknown(reflector for reflector in self.to_open if reflector.pause == 0)

    def _is_unknown(self, reflectors: Iterable[Reflector[Any]]) -> bool:
        return any(not reflector.is_listed and not reflector.failed for reflector in reflectors)

    def note_needs(self, changes: Iterable[AnyChange]) -> None:
        """Note which pods need them."""
        for change in changes:
            if pod := unassigned_pod(change):
                needed = change.kind != Kind.DELETED and self.need.of(pod)
                (self._needed_by.add if needed else self._needed_by.discard)(pod.metadata.uid)
        if self._needed_by:
            self._last_needed = self._api.system.monotonic()

    @property
    def is_opening(self) -> bool:
        """Whether a thread opens watches. Call `open_due_watches` again when it has ended."""
        return self._opening.is_under_way

    def open_due_watches(self, patience: float) -> Sequence[Change[Any]]:
        """Open the watches that are due. If no pod has needed them for a while, close all.

        A thread opens them; patience: the seconds to wait for it. Returns the changes, if claims of other
        namespaces may not be read any more: they are gone.
        """
        now = self._api.system.monotonic()
        if self._needed_by:
            self._last_needed = now
        if self._last_needed is None or now >= self._last_needed + LINGER:
            self._close()
            return ()
        if not self.is_opening:
            for watched in self._watched:
                watched.widen()
        self._open(now + patience)
        refused = [
            watched for watched in self._watched if watched.is_everywhere and self._is_refused(watched)
        ]
        gone = [change for watched in refused for change in watched.narrow()]
        if refused:
            self._open(now + patience)
        self._note_errors(
            "; ".join(str(reflector.failed) for reflector in self.reflectors if reflector.failed)
        )
        return gone

    def _is_refused(self, watched: Watched) -> bool:
        error = watched.reflectors[0].failed
        return isinstance(error, ForbiddenError) and watched.may_do_without(error)

    def _close(self) -> None:
        self._last_needed = None
        self._opening.wait(0)
        if not self.is_opening:
            for watched in self._watched:
                watched.close()

    def _open(self, until: float) -> None:
        """Open watches; note why some can't be opened, as far as that is known now."""
        self._opening.begin(
            reflector for reflector in self.reflectors if reflector.pause == 0 and not reflector.trouble
        )
        self._opening.wait(until)
        for reflector in self.reflectors:
            error, reflector.trouble = reflector.trouble or self._opening.of(reflector), None
            # It may be open, though its answer was lost with another's error.
            if reflector.pause is None or not error:
                reflector.failed = None
            elif not isinstance(error, PendingError):  # only the pods that need it have to wait
                reflector.retry_in(FAILED_PAUSE)
                reflector.failed = error
        for watched in self._watched:
            watched.note_open()
