"""Lists claims and what they depend on: volumes, or devices."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lib.kube.api import Api
from lib.kube.changes import AnyChange
from lib.kube.claim_kinds import ClaimKinds
from lib.kube.decoding import Listing
from lib.kube.errors import ApiError, ForbiddenError, LostAnswerError, UnreachableError
from lib.kube.lookup import ALL, Lookup, PendingError
from lib.kube.paths import Narrowing
from lib.kube.store import Store


def unseen(what: str, errors: Iterable[ApiError]) -> str:
    """The message for pods with volumes, or devices, when something about them can't be listed."""
    said = "; ".join(map(str, errors))
    return f"{what} can't be read: {said}" if said else ""


@dataclass
class _Found:
    """What was listed, by path, and why the rest wasn't."""

    listings: dict[str, Listing[Any]]
    errors: list[ApiError]


class PolledClaims:
    """Lists all of it, and compares. A thread makes the lists.

    unseen: why it can't be listed; "" if it can. is_pending: whether it is still being listed. is_known:
    whether the last list has come, with all of it.
    """

    def __init__(self, api: Api, namespaces: Sequence[str], kinds: ClaimKinds) -> None:
        self.unseen = ""
        self.is_pending = False
        self.is_known = False
        self._kinds = kinds
        self._api = api.with_short_timeouts()
        self._narrowing = Narrowing(namespaces if kinds.by_namespace else ())
        self._lookup = Lookup(kinds.what, self._list, system=api.system)
        self._stores = defaultdict[str, Store[Any]](Store[Any])  # by path

    def list(self, patience: float) -> Mapping[str, Listing[Any]]:
        """All of it, by path; empty if a part can't be read, or wasn't within so many seconds.

        UnreachableError when nothing answers.
        """
        self._lookup.begin([ALL])
        self._lookup.wait(self._api.system.monotonic() + patience)
        found = self._lookup.of(ALL)
        self.is_pending = isinstance(found, PendingError)
        if self.is_pending:
            self.is_known = False
            return {}
        errors = [found] if isinstance(found, ApiError) else found.errors
        self.unseen = unseen(self._kinds.what, errors)
        self.is_known = not errors
        return {} if isinstance(found, ApiError) or errors else found.listings

    def _list(self, _: str) -> _Found:
        found = _Found({}, [])
        claims, others = self._kinds.kinds()
        for path, kind in {self._kinds.claims: claims, **others}.items():
            try:
                listed = self._claims(kind) if kind is claims else self._api.list(path, kind)
                found.listings[path] = listed
            except UnreachableError:
                raise
            except ApiError as error:  # only the pods that need it have to wait
                found.errors.append(error)
                if isinstance(error, LostAnswerError):  # the others may take as long
                    break
        return found

    def _claims(self, kind: type[Any]) -> Listing[Any]:
        """The claims: of all namespaces if we may list them, else of those that are served."""
        everywhere = self._kinds.claims
        try:
            return self._api.list_each(self._narrowing.paths(everywhere), kind)
        except ForbiddenError as error:
            self._narrowing.do_without(everywhere, error, self._kinds.unseen_elsewhere)
            return self._api.list_each(self._narrowing.paths(everywhere), kind)

    def changes(self, listings: Mapping[str, Listing[Any]]) -> Iterator[AnyChange]:
        """The changes since the last call."""
        for path, listing in listings.items():
            yield from self._stores[path].replace(listing.items)
