"""Lists claims, volumes and what they depend on."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lib.kube.api import Api
from lib.kube.changes import AnyStorageChange
from lib.kube.decoding import Listing
from lib.kube.errors import ApiError, ForbiddenError, UnreachableError
from lib.kube.paths import CLAIMS, STORAGE, paths_of
from lib.kube.storage import PersistentVolumeClaim
from lib.kube.store import Store

log = logging.getLogger(__name__)

OTHER_CLAIMS_UNSEEN = "volumes of pods of other namespaces are not counted: %s"


def unseen(errors: Iterable[ApiError]) -> str:
    """The message for pods with volumes, when something about volumes can't be listed."""
    said = "; ".join(map(str, errors))
    return f"volumes can't be read: {said}" if said else ""


class PolledStorage:
    """Lists all of it, and compares. unseen: why it can't be listed; "" if it can."""

    def __init__(self, api: Api, namespaces: Sequence[str]) -> None:
        self.unseen = ""
        self._api = api.hurried()
        self._namespaces = namespaces
        self._claim_paths = [CLAIMS]
        self._stores = {path: Store[Any]() for path in [CLAIMS, *STORAGE]}

    def list(self) -> Mapping[str, Listing[Any]]:
        """All of it, by path; empty if a part can't be read. UnreachableError when nothing answers."""
        found: dict[str, Listing[Any]] = {}
        errors: list[ApiError] = []
        for path, kind in [(CLAIMS, None), *STORAGE.items()]:
            try:
                found[path] = self._api.list(path, kind) if kind else self._claims()
            except UnreachableError:
                raise
            except ApiError as error:  # only the pods with volumes have to wait
                errors.append(error)
        self.unseen = unseen(errors)
        return {} if errors else found

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
