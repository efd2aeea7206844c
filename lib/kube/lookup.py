"""Lookups beside the loop: when an answer doesn't come, only what needs it has to wait."""

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

MAX_AGE = 10.0
"""Answers that weren't taken for so many seconds are out of date."""

MAX_FAILED = 10_000
"""At most so many failed lookups are remembered."""

ALL = ""
"""The key of a lookup that is the only one of its kind."""

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")


class PendingError(ApiError):
    """An answer hasn't come yet."""


PENDING = PendingError("the API server has not answered yet")


class Lookup(Generic[Key, Found]):
    """Lookups of one kind. A thread makes them one after another; only then further ones are begun.

    In each tick, the loop calls `begin`, then `wait`, and `of` for each answer. name: the thread's. look_up:
    called by the thread; it returns the answer, or raises an ApiError. keep: at most so many answers are kept
    for good; the oldest is dropped first. max_age: in seconds. alike: keys with the same value of it are
    refused alike: there may be thousands, and one answer 403 is enough.
    """

    def __init__(
        self,
        name: str,
        look_up: Callable[[Key], Found],
        *,
        keep: int = 0,
        max_age: float = MAX_AGE,
        alike: Callable[[Key], Hashable] = lambda key: key,
        system: System = MACHINE,
    ) -> None:
        self._name, self._look_up, self._system = name, look_up, system
        self._keep, self._max_age, self._alike = keep, max_age, alike
        self._kept: dict[Key, Found] = {}
        self._taken: dict[Key, Found | ApiError] = {}
        self._failed: dict[Key, None] = {}  # what failed the last time; used by the thread
        self._answers: dict[Key, Found | ApiError] = {}  # written by the thread
        self._end: Future[float] | None = None  # when the thread ended; None if its answers were taken
        self._good: Future[None] = system.future()  # when only what failed the last time is left
        self._is_new = False  # whether it was begun in this tick

    @property
    def is_under_way(self) -> bool:
        """Whether the thread is at work, or has answers that were not taken yet."""
        return self._end is not None

    def begin(self, keys: Iterable[Key]) -> None:
        """Look these up, unless the thread is at work, or has answers that were not taken yet."""
        self._is_new = False
        if self._end and not (
            self._end.done() and self._system.monotonic() - self._end.result() > self._max_age
        ):
            return
        self._taken, self._end = {}, None
        if wanted := [each for each in keys if each not in self._kept]:
            self._answers, self._end, self._is_new = {}, self._system.future(), True
            self._good = self._system.future()
            run = partial(self._run, wanted, self._answers, self._end, self._good)
            self._system.start_thread(run, self._name)

    def wait(self, until: float) -> None:
        """Take the answers that have come. Those to lookups begun in this tick are waited for until then.

        If that isn't for ever, what failed the last time isn't waited for: it may fail slowly again, at each
        tick. UnreachableError if one of these is that: then nothing can be looked up.
        """
        if not self._end:
            return
        if self._is_new:
            with suppress(TimeoutError):
                awaited: Future[Any] = self._end if until == inf else self._good
                awaited.result(min(max(0.0, until - self._system.monotonic()), TIMEOUT_MAX))
        has_ended = self._end.done()  # asked first: what comes later is taken later
        self._taken = self._answers.copy()
        if has_ended:
            self._end.result()  # an unexpected error is raised here
            self._end = None
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

    # --- in the thread ----------------------------------------------------------------------------------

    def _run(
        self,
        keys: list[Key],
        answers: dict[Key, Found | ApiError],
        end: Future[float],
        good: Future[None],
    ) -> None:
        """Look up each key. What failed the last time comes last: it may fail slowly, and time is limited."""
        refused: dict[Hashable, ForbiddenError] = {}
        until = self._system.monotonic() + MAX_SECONDS
        try:
            for key in sorted(keys, key=self._failed.__contains__):
                if key in self._failed and not good.done():
                    good.set_result(None)
                if self._system.monotonic() > until:
                    break
                answers[key] = answer = refused.get(self._alike(key)) or self._answer(key)
                if isinstance(answer, ForbiddenError):
                    refused[self._alike(key)] = answer
                if isinstance(answer, UnreachableError):
                    break
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
                del self._failed[next(iter(self._failed))]
            return error
        self._failed.pop(key, None)
        return found
