"""Lists claims, volumes and what they depend on."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lib.kube.api import Api
from lib.kube.changes import AnyStorageChange
from lib.kube.decoding import Listing
from lib.kube.errors import ApiError, ForbiddenError, LostAnswerError, UnreachableError
from lib.kube.lookup import ALL, Lookup, PendingError
from lib.kube.paths import CLAIMS, STORAGE_PATHS, paths_of
from lib.kube.storage import PersistentVolumeClaim
from lib.kube.store import Store

log = logging.getLogger(__name__)

OTHER_CLAIMS_UNSEEN = "volumes of pods of other namespaces are not counted: %s"


def unseen(errors: Iterable[ApiError]) -> str:
    """The message for pods with volumes, when something about volumes can't be listed."""
    said = "; ".join(map(str, errors))
    return f"volumes can't be read: {said}" if said else ""


@dataclass
class _Found:
    """What was listed, by path, and why the rest wasn't."""

    listings: dict[str, Listing[Any]]
    errors: list[ApiError]


class PolledStorage:
    """Lists all of it, and compares. A thread makes the lists.

    unseen: why it can't be listed; "" if it can. is_pending: whether it is still being listed.
    """

    def __init__(self, api: Api, namespaces: Sequence[str]) -> None:
        self.unseen = ""
        self.is_pending = False
        self._api = api.with_short_timeouts()
        self._namespaces = namespaces
        self._lookup = Lookup("storage", self._list, system=api.system)
        self._claim_paths = [CLAIMS]
        self._stores = {path: Store[Any]() for path in [CLAIMS, *STORAGE_PATHS]}

    def list(self, patience: float) -> Mapping[str, Listing[Any]]:
        """All of it, by path; empty if a part can't be read, or wasn't within so many seconds.

        UnreachableError when nothing answers.
        """
        self._lookup.begin([ALL])
        self._lookup.wait(self._api.system.monotonic() + patience)
        found = self._lookup.of(ALL)
        self.is_pending = isinstance(found, PendingError)
        if self.is_pending:
            return {}
        errors = [found] if isinstance(found, ApiError) else found.errors
        self.unseen = unseen(errors)
        return {} if isinstance(found, ApiError) or errors else found.listings

    def _list(self, _: str) -> _Found:
        found = _Found({}, [])
        for path, kind in [(CLAIMS, None), *STORAGE_PATHS.items()]:
            try:
                found.listings[path] = self._api.list(path, kind) if kind else self._claims()
            except UnreachableError:
                raise
            except ApiError as error:  # only the pods with volumes have to wait
                found.errors.append(error)
                if isinstance(error, LostAnswerError):  # the others may take as long
                    break
        return found

    def _claims(self) -> Listing[PersistentVolumeClaim]:
        """The claims: of all namespaces if we may list them, else of those that are served."""
        try:
            return self._api.list_each(self._claim_paths, PersistentVolumeClaim)
        except ForbiddenError as error:
            if not self._namespaces or self._claim_paths != [CLAIMS]:
                raise
            log.warning(OTHER_CLAIMS_UNSEEN, error)
            self._claim_paths = paths_of("persistentvolumeclaims", self._namespaces)
            return self._api.list_each(self._claim_paths, PersistentVolumeClaim)

    def changes(self, listings: Mapping[str, Listing[Any]]) -> Iterator[AnyStorageChange]:
        """The changes since the last call."""
        for path, listing in listings.items():
            yield from self._stores[path].replace(listing.items)
