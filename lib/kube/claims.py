"""Claims, and what they depend on: volumes, or devices. They are read only while a pod needs them.

The informer watches them (watched_claims.py); polling lists them.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lib.kube.api import Api
from lib.kube.changes import AnyChange, Change, Kind, is_older
from lib.kube.decoding import Listing
from lib.kube.errors import ApiError, ForbiddenError, LostAnswerError, UnreachableError
from lib.kube.lookup import ALL, Lookup, PendingError
from lib.kube.objects import Pod
from lib.kube.paths import CLAIMS, DEVICES_API, RESOURCE_CLAIMS, STORAGE_PATHS, Narrowing
from lib.kube.resource_claims import may_need_devices
from lib.kube.storage import PersistentVolumeClaim, needs_storage
from lib.kube.store import Store, key_of


@dataclass(frozen=True)
class ClaimKinds:
    """Which kinds are read.

    what: a word for what is claimed. needed_by: whether the scheduling of a pod depends on them. claims: the
    path of all claims. kinds: returns the kind of claims, and the other kinds by their paths; they are
    imported only then. by_namespace: whether to go on with the claims of the served namespaces if those of
    others can't be read.
    """

    what: str
    needed_by: Callable[[Pod], bool]
    claims: str
    kinds: Callable[[], tuple[type[Any], Mapping[str, type[Any]]]]
    by_namespace: bool

    @property
    def unseen_elsewhere(self) -> str:
        """What is logged when the claims of other namespaces can't be read."""
        return f"{self.what} of pods of other namespaces are not counted"


def _device_kinds() -> tuple[type[Any], Mapping[str, type[Any]]]:
    from lib.kube.devices import DeviceClass, ResourceClaim, ResourceSlice  # here, as few clusters need them

    others = {f"{DEVICES_API}/deviceclasses": DeviceClass, f"{DEVICES_API}/resourceslices": ResourceSlice}
    return ResourceClaim, others


VOLUMES = ClaimKinds("volumes", needs_storage, CLAIMS, lambda: (PersistentVolumeClaim, STORAGE_PATHS), True)

DEVICES = ClaimKinds("devices", may_need_devices, RESOURCE_CLAIMS, _device_kinds, False)
"""A device that another namespace's claim has must not be given away: so all claims are needed."""


class Claims(ABC):
    """What is known of claims of some kinds.

    unseen: why they can't be read; "" if they can. unlisted: claims that poller itself has made, and that no
    list or watch has shown yet.
    """

    def __init__(self, api: Api, namespaces: Sequence[str], kinds: ClaimKinds) -> None:
        self.unseen = ""
        self.unlisted: Mapping[str, Any] = {}
        self.kinds = kinds
        self._api = api.with_short_timeouts()
        self._narrowing = Narrowing(namespaces if kinds.by_namespace else (), api.system)

    @property
    @abstractmethod
    def is_pending(self) -> bool:
        """Whether a part of what is needed isn't known yet, though no error is known either."""

    @property
    @abstractmethod
    def is_known(self) -> bool:
        """Whether all of it was read."""

    def _note_errors(self, errors: str) -> None:
        self.unseen = f"{self.kinds.what} can't be read: {errors}" if errors else ""


class PolledClaims(Claims):
    """Lists all of it, and compares. A thread makes the lists."""

    def __init__(self, api: Api, namespaces: Sequence[str], kinds: ClaimKinds) -> None:
        super().__init__(api, namespaces, kinds)
        self._lookup = Lookup(kinds.what, self._list, system=api.system)
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
        claims, others = self.kinds.kinds()
        for path, kind in {self.kinds.claims: claims, **others}.items():
            try:
                listings[path] = self._claims(kind) if kind is claims else self._api.list(path, kind)
            except UnreachableError:
                raise
            except ApiError as error:
                errors.append(str(error))
                if isinstance(error, LostAnswerError):  # the others may take as long
                    break
        if errors:  # only the pods that need it have to wait
            raise ApiError("; ".join(errors))
        return listings

    def _claims(self, kind: type[Any]) -> Listing[Any]:
        """The claims: of all namespaces if we may list them, else of those that are served."""
        everywhere = self.kinds.claims
        paths = self._narrowing.paths(everywhere)
        try:
            found = self._api.list_each(paths, kind)
        except ForbiddenError as error:
            self._narrowing.do_without(everywhere, error, self.kinds.unseen_elsewhere)
            return self._api.list_each(self._narrowing.paths(everywhere), kind)
        for path in paths:
            self._narrowing.was_read(path)
        return found

    def changes(self, listings: Mapping[str, Listing[Any]]) -> Iterator[AnyChange]:
        """The changes since the last call. An unlisted claim is gone if a later list is without it."""
        for path, listing in listings.items():
            yield from self._stores[path].replace(listing.items)
            for each in self.unlisted.values() if path == self.kinds.claims else ():
                made, listed = each.metadata.resource_version, listing.resource_version
                if key_of(each.metadata) not in self._stores[path] and not is_older(listed, made):
                    yield Change(Kind.DELETED, each, each)
