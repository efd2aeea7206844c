"""Claims, and what they depend on: volumes, or devices. They are read only while a pod needs them.

The informer watches them (watched_claims.py); polling lists them.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lib.kube.api import Api
from lib.kube.changes import AnyChange, Change, Kind, is_older
from lib.kube.decoding import Listing
from lib.kube.errors import ApiError, LostAnswerError, UnreachableError
from lib.kube.lookup import Lookup, PendingError
from lib.kube.reading import Reading
from lib.kube.resources import ALL, Need
from lib.kube.store import Store, key_of


class Claims(ABC):
    """What is known of claims, of volumes or of devices.

    need: which of them; its first resource is that of the claims. unseen: why they can't be read; "" if they
    can. unlisted: claims that poller itself has made, and that no list or watch has shown yet.
    """

    def __init__(self, api: Api, need: Need) -> None:
        self.unseen = ""
        self.unlisted: Mapping[str, Any] = {}
        self.need = need
        self._api = api.with_short_timeouts()

    @property
    @abstractmethod
    def is_pending(self) -> bool:
        """Whether a part of what is needed isn't known yet, though no error is known either."""

    @property
    @abstractmethod
    def is_known(self) -> bool:
        """Whether all of it was read."""

    def _note_errors(self, errors: str) -> None:
        self.unseen = f"{self.need.claimed} can't be read: {errors}" if errors else ""


class PolledClaims(Claims):
    """Lists all of it, and compares. A thread makes the lists."""

    def __init__(self, api: Api, namespaces: Sequence[str], need: Need) -> None:
        super().__init__(api, need)
        self._readings = [Reading(self._api, resource, namespaces) for resource in need.resources]
        self._lookup = Lookup(need.claimed, self._list, system=api.system)
        self._stores = defaultdict[str, Store[Any]](Store[Any])  # by path

    @property
    def is_pending(self) -> bool:
        """Whether it is still being listed."""
        return isinstance(self._lookup.of(ALL), PendingError)

    @property
    def is_known(self) -> bool:
        """Whether the last list has come, with all of it."""
        return not isinstance(self._lookup.of(ALL), ApiError)

    def list(self, patience: float) -> Mapping[str, Listing[Any]]:
        """All of it, by path; empty if a part can't be read, or wasn't within so many seconds.

        UnreachableError when nothing answers.
        """
        self._lookup.begin([ALL])
        self._lookup.wait(self._api.system.monotonic() + patience)
        found = self._lookup.of(ALL)
        if not isinstance(found, PendingError):
            self._note_errors(str(found) if isinstance(found, ApiError) else "")
        return {} if isinstance(found, ApiError) else found

    def _list(self, _: str) -> Mapping[str, Listing[Any]]:
        """All of it, by path. ApiError with all that is wrong when a part can't be read."""
        listings: dict[str, Listing[Any]] = {}
        errors: list[str] = []
        for reading in self._readings:
            try:
                listings[reading.resource.path] = reading.list()
            except UnreachableError:
                raise
            except ApiError as error:
                errors.append(str(error))
                if isinstance(error, LostAnswerError):  # the others may take as long
                    break
        if errors:  # only the pods that need it have to wait
            raise ApiError("; ".join(errors))
        return listings

    def changes(self, listings: Mapping[str, Listing[Any]]) -> Iterator[AnyChange]:
        """The changes since the last call. An unlisted claim is gone if a later list is without it."""
        for path, listing in listings.items():
            yield from self._stores[path].replace(listing.items)
            for written in self.unlisted.values() if path == self.need.resources[0].path else ():
                made, listed = written.metadata.resource_version, listing.resource_version
                if key_of(written.metadata) not in self._stores[path] and not is_older(listed, made):
                    yield Change(Kind.DELETED, written, written)
