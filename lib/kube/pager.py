"""Reads lists page by page, several lists at once. The next page is requested before one is decoded.

Counterpart: k8s.io/client-go, tools/pager/pager.go
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from select import POLLIN
from typing import Any, Generic, TypeVar

from tenacity import Retrying

from lib.kube.attempt import PendingResponse
from lib.kube.decoding import Listing, Page, continue_of
from lib.kube.errors import AnswerError, ApiError, GoneError, TooLargeError
from lib.kube.system import MACHINE, System

Item = TypeVar("Item")

PAGE = 1000
"""Objects in a page: neither side holds a whole cluster in memory."""

MAX_PAGES = 1000
"""The most pages of a list: more objects than any cluster has."""

MAX_BEGINNINGS = 3
"""How often a list is begun at most: its continue token can expire before the last page is read."""

LISTS_AT_ONCE = 4
"""Lists that are read at once: the API server has other clients, too."""

Begin = Callable[[Mapping[str, str]], PendingResponse[bytes]]
"""Requests a page, by the query's parameters."""

Decode = Callable[[bytes, dict[str, str]], Page[Item]]
"""Decodes a page, and notes objects that can't be decoded."""


class ListPager(Generic[Item]):
    """A list that is read page by page.

    where: names the list in errors. retrying: the retry policy for a page. check: called with its resource
    version; it raises an ApiError if the list is not to be used. failed: the error, if `read_at_once`
    couldn't read the list. pages: how many were read.
    """

    def __init__(
        self,
        where: str,
        selectors: Mapping[str, str],
        begin: Begin,
        retrying: Callable[[], Retrying],
        decode: Decode[Item],
        system: System = MACHINE,
        check: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.failed: ApiError | None = None
        self.is_complete = False
        self.system = system
        self.pending: PendingResponse[bytes] | None = None
        self._where, self._selectors = where, selectors
        self._begin, self._retrying, self._decode, self._check = begin, retrying, decode, check
        self._beginnings = 1
        self.pages = 0
        self._limit = PAGE
        self._token = ""
        self._listing: Listing[Item] = Listing()
        self._given = 0  # how many of its objects `new_items` has returned

    def answer(self) -> Listing[Item]:
        """All objects of the list. Waits for the pages that haven't been read yet."""
        while not (self.is_complete or self.failed):
            self.read_page()
        if self.failed:
            raise self.failed
        return self._listing

    def new_items(self) -> Sequence[Item]:
        """The objects of the pages that were read since the last call."""
        new = self._listing.items[self._given :]
        self._given = len(self._listing.items)
        return new

    def ask(self) -> None:
        """Request the next page without waiting. Errors are raised when the page is read."""
        try:
            self.pending = self._begin(self._query())
        except ApiError:
            self.pending = None

    def read_page(self) -> None:
        """Read the next page, and request the one after it before this one is decoded."""
        self.pages += 1
        if self.pages > MAX_PAGES:
            raise AnswerError(f"{self._where}: the list never ends: after {MAX_PAGES} pages there are more")
        try:
            body = self._retrying()(self._body)
        except TooLargeError:
            if self._limit == 1:
                raise
            self._limit = max(1, self._limit // 10)
            return
        except GoneError:  # the continue token expired between two pages
            if self._beginnings == MAX_BEGINNINGS:
                raise
            self._begin_again()
            return
        if token := continue_of(body):
            if token == self._token:
                raise AnswerError(
                    f"{self._where}: the list never ends: each page has the same continue token"
                )
            self._token = token
            self._limit = min(PAGE, self._limit * 10)  # one page of large objects was an exception
            self.ask()
        page = self._decode(body, self._listing.malformed)
        if not self._listing.resource_version:  # all pages have that of the first
            self._check(page.metadata.resource_version)
        self._listing.items += page.items or []
        self._listing.resource_version = page.metadata.resource_version
        self.is_complete = not token

    def _begin_again(self) -> None:
        self._beginnings += 1
        self._token = ""
        self._listing = Listing()
        self._given = 0

    def _query(self) -> dict[str, str]:
        query = {**self._selectors, "limit": str(self._limit)}
        return {**query, "continue": self._token} if self._token else query

    def _body(self) -> bytes:
        """The next page, not decoded. Requests it if that wasn't done, or if the answer was lost."""
        pending, self.pending = self.pending, None
        return (pending or self._begin(self._query())).answer()


def read_at_once(pagers: Iterable[ListPager[Any]]) -> None:
    """Read several lists at once, until all are complete or one has failed. Then call `answer` of each."""
    for _ in pages_of(pagers):
        pass


def pages_of(pagers: Iterable[ListPager[Any]]) -> Iterator[None]:
    """Read several lists at once; yields after each page, while the next ones are on their way.

    It ends when all lists are complete, or when one has failed.
    """
    pagers = [*pagers]
    if any(pager.failed for pager in pagers):
        return
    to_begin = deque(pager for pager in pagers if not pager.is_complete)
    reading: list[ListPager[Any]] = []
    while to_begin or reading:
        while to_begin and len(reading) < LISTS_AT_ONCE:
            reading.append(to_begin.popleft())
            reading[-1].ask()
        for pager in _with_answer(reading):
            try:
                pager.read_page()
            except ApiError as error:
                pager.failed = error
                return
            yield
        reading = [pager for pager in reading if not pager.is_complete]


def together(pagers: Iterable[ListPager[Item]]) -> Listing[Item]:
    """Several lists as one; its resource version is "" if theirs differ."""
    all_of_them: Listing[Item] = Listing()
    versions: set[str] = set()
    for pager in pagers:
        listing = pager.answer()
        all_of_them.items += listing.items
        all_of_them.malformed |= listing.malformed
        versions.add(listing.resource_version)
    if len(versions) == 1:
        (all_of_them.resource_version,) = versions
    return all_of_them


def _with_answer(pagers: Sequence[ListPager[Any]]) -> Sequence[ListPager[Any]]:
    """The lists whose answer has begun, or is overdue. Waits until there is one."""
    in_flight = {pager.pending.fileno(): pager for pager in pagers if pager.pending}
    if len(in_flight) < len(pagers):
        return [pager for pager in pagers if not pager.pending]
    system = pagers[0].system
    readable = system.poll()
    for number in in_flight:
        readable.register(number, POLLIN)
    due = {pager: pager.pending.due for pager in pagers if pager.pending}
    ready = readable.poll(max(0.0, min(due.values()) - system.monotonic()) * 1000)
    return [in_flight[number] for number, _ in ready] or [min(pagers, key=due.__getitem__)]
