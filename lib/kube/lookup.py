"""Lookups beside the loop: when an answer doesn't come, only what needs it has to wait."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from math import inf
from threading import TIMEOUT_MAX
from typing import Any, Generic, TypeVar

from lib.kube.errors import ApiError, ForbiddenError, UnreachableError
from lib.kube.system import MACHINE, System

PATIENCE = 0.3
"""Seconds that the loop waits for the answers to lookups that it has just begun: most take milliseconds."""

MAX_SECONDS = 5.0
"""After so many seconds, a thread begins no further lookup. What is left comes first the next time."""

MAX_THREADS = 8
"""So many threads at most look up what belongs to namespaces: each has begun when those before it hung."""

MAX_AGE = 10.0
"""Answers that weren't taken for so many seconds are out of date."""

MAX_FAILED = 10_000
"""At most so many failed lookups are remembered."""

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")


class PendingError(ApiError):
    """An answer hasn't come yet."""


PENDING = PendingError("the API server has not answered yet")


class Lookup(Generic[Key, Found]):
    """Lookups of one kind. A thread makes them one after another; only then further ones are begun.

    If it waits for an answer for long, another thread makes the others: they may be another namespace's.

    In each tick, the loop calls `begin`, then `wait`, and `of` for each answer. name: the thread's. look_up:
    called by the thread; it returns the answer, or raises an ApiError. keep: at most so many answers are kept
    for good; the oldest is dropped first. max_age: in seconds. alike: keys with the same value of it are
    refused alike: there may be thousands, and one answer 403 is enough. threads: how many there may be.
    patient: whether what failed the last time is waited for again: its caller pauses before that.
    """

    def __init__(
        self,
        name: str,
        look_up: Callable[[Key], Found],
        *,
        keep: int = 0,
        max_age: float = MAX_AGE,
        alike: Callable[[Key], Hashable] = lambda key: key,
        threads: int = 1,
        patient: bool = False,
        system: System = MACHINE,
    ) -> None:
        self._name, self._look_up, self._system = name, look_up, system
        self._keep, self._max_age, self._alike = keep, max_age, alike
        self._threads, self._patient = threads, patient
        self._kept: dict[Key, Found] = {}
        self._taken: dict[Key, Found | ApiError] = {}
        self._failed: dict[Key, None] = {}  # what failed the last time; used by the threads
        self._batch: _Batch[Key, Found] | None = None  # None if its answers were taken
        self._is_new = False  # whether a thread was begun in this tick

    @property
    def is_under_way(self) -> bool:
        """Whether a thread is at work, or has answers that were not taken yet."""
        return self._batch is not None

    def begin(self, keys: Iterable[Key]) -> None:
        """Look these up, unless a thread is at work, or has answers that were not taken yet."""
        self._is_new, now, batch = False, self._system.monotonic(), self._batch
        wanted = (key for key in keys if key not in self._kept)
        if batch and not (batch.has_ended and now - batch.ended_at > self._max_age):
            if len(batch.ends) < self._threads and now - batch.busy_since > PATIENCE:
                batch.add(wanted)
                self._start(batch)
            return
        self._taken, self._batch = {}, None
        if due := sorted(wanted, key=self._failed.__contains__):
            self._batch = batch = _Batch(now)
            batch.add(due)
            self._start(batch)

    def _start(self, batch: "_Batch[Key, Found]") -> None:
        if batch.due:
            self._is_new, end, batch.good = True, self._system.future(), self._system.future()
            batch.ends.append(end)
            self._system.start_thread(partial(self._run, batch, end, batch.good), self._name)

    def wait(self, until: float) -> None:
        """Take the answers that have come. Those to lookups begun in this tick are waited for until then.

        If that isn't for ever, what failed the last time isn't waited for: it may fail slowly again, at each
        tick. UnreachableError if one of these is that: then nothing can be looked up.
        """
        if not (batch := self._batch):
            return
        if self._is_new:
            with suppress(TimeoutError):
                awaited: Future[Any] = batch.ends[-1] if self._patient or until == inf else batch.good
                awaited.result(min(max(0.0, until - self._system.monotonic()), TIMEOUT_MAX))
        has_ended = batch.has_ended  # asked first: what comes later is taken later
        self._taken = batch.answers.copy()
        if has_ended:
            for end in batch.ends:
                end.result()  # an unexpected error is raised here
            self._batch = None
        for key, answer in self._taken.items():
            if isinstance(answer, UnreachableError) and self._is_new:
                raise answer
            if self._keep and not isinstance(answer, ApiError):
                self._kept[key] = answer
                if len(self._kept) > self._keep:
                    del self._kept[next(iter(self._kept))]

    def of(self, key: Key) -> Found | ApiError:
        """The answer for a key, or why there is none: PendingError if it hasn't come yet."""
        return self._kept[key] if key in self._kept else self._taken.get(key, PENDING)

    # --- in the threads ---------------------------------------------------------------------------------

    def _run(self, batch: "_Batch[Key, Found]", end: Future[float], good: Future[None]) -> None:
        """Look up each key. What failed the last time comes last: it may fail slowly, and time is limited."""
        try:
            while (key := batch.next(self._system.monotonic())) is not None:
                if key in self._failed and not good.done():
                    good.set_result(None)
                answer = batch.refused.get(self._alike(key)) or self._answer(key)
                batch.answers[key] = answer
                if isinstance(answer, ForbiddenError):
                    batch.refused[self._alike(key)] = answer
                if isinstance(answer, UnreachableError):
                    batch.due.clear()
            end.set_result(self._system.monotonic())
        except BaseException as error:
            end.set_exception(error)
        finally:
            if not good.done():
                good.set_result(None)

    def _answer(self, key: Key) -> Found | ApiError:
        try:
            found = self._look_up(key)
        except ApiError as error:
            self._failed[key] = None
            if len(self._failed) > MAX_FAILED:
                self._failed.pop(next(iter(self._failed)), None)
            return error
        self._failed.pop(key, None)
        return found


class _Batch(Generic[Key, Found]):
    """What is looked up at a time.

    due: what no thread has begun. ends: when each thread ended. good: when only what failed the last time is
    left to the newest one. busy_since: when a key was begun last. until: when no key is begun any more.
    """

    def __init__(self, now: float) -> None:
        self.due: deque[Key] = deque()
        self.answers: dict[Key, Found | ApiError] = {}
        self.refused: dict[Hashable, ForbiddenError] = {}
        self.ends: list[Future[float]] = []
        self.good: Future[None]  # there is a thread as soon as there is a batch
        self.busy_since, self.until = now, now + MAX_SECONDS
        self._known: set[Key] = set()

    def add(self, keys: Iterable[Key]) -> None:
        """Look these up, too."""
        new = [key for key in dict.fromkeys(keys) if key not in self._known]
        self._known.update(new)
        self.due.extend(new)

    def next(self, now: float) -> Key | None:
        """The next one, if there is any and time is left. Any thread may ask."""
        with suppress(IndexError):
            if now <= self.until:
                key = self.due.popleft()
                self.busy_since = now
                return key
        return None

    @property
    def has_ended(self) -> bool:
        """Whether all threads have."""
        return all(end.done() for end in self.ends)

    @property
    def ended_at(self) -> float:
        """When the last one did. An unexpected error is raised."""
        return max(end.result() for end in self.ends)
