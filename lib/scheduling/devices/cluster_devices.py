"""What is known of devices: claims, classes and slices, and which devices are taken.

Counterpart in kube-scheduler: pkg/scheduler/framework/plugins/dynamicresources, dra_manager.go and
allocateddevices.go; for classes that serve extended resources, k8s.io/dynamic-resource-allocation,
deviceclass/extendedresourcecache
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from lib.kube.changes import AnyChange, Change, Kind, is_older
from lib.kube.devices import AllocationResult, Device, DeviceClass, DeviceObject, ResourceClaim, ResourceSlice
from lib.kube.resource_claims import DEVICE_CLASS_PREFIX
from lib.scheduling.devices.kept_answers import KeptAnswers
from lib.scheduling.devices.pools import DeviceId, Pools
from lib.scheduling.devices.search_time import SearchTime
from lib.scheduling.devices.selectors import SelectorError, Selectors, evaluate
from lib.scheduling.devices.taken import Taken
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.storage import AssumeCache, namespaced_name


class DeviceUse(NamedTuple):
    """How many of the devices that serve a resource on a node are taken, and how many there are."""

    taken: int
    capacity: int


class ClusterDevices:
    """Claims, classes and slices of the cluster."""

    def __init__(self) -> None:
        self.claims = AssumeCache[ResourceClaim]()
        """As the API server has them, or as they were just written; by namespace/name."""
        self.classes: dict[str, DeviceClass] = {}
        """By name."""
        self.slices: dict[str, ResourceSlice] = {}
        """By name."""
        self.served: dict[str, str] = {}
        """The name of the class that serves an extended resource, by the resource's name."""
        self.pending: dict[str, AllocationResult] = {}
        """What claims get in a binding that is under way, by the claim's uid."""
        self.unlisted: dict[str, ResourceClaim] = {}
        """Claims that poller has made, and that no list or watch has shown yet; by namespace/name."""
        self.taken = Taken()
        self.selectors = Selectors()
        self.answers = KeptAnswers()
        """Which claims get their devices on which nodes."""
        self.search_time = SearchTime()
        """What is left for searches that take long."""
        self._of_classes: dict[tuple[str, str], tuple[Mapping[str, str], Sequence[DeviceId]]] = {}
        """By the names of a class and a node: the node's labels, and the devices."""
        self._searches = 0
        self._counted: dict[str, AllocationResult] = {}
        """What is taken, by namespace/name of the claim."""
        self._pools: Pools | None = None

    def put(self, thing: DeviceObject) -> bool:
        """Store an object as the API server has it. Returns whether other resources are served now."""
        match thing:
            case ResourceClaim():
                self.claims.put(thing)
                self.unlisted.pop(namespaced_name(thing.metadata), None)
                self._count(thing)
            case ResourceSlice():
                self.slices[thing.metadata.name] = thing
                self._look_again()
            case DeviceClass():
                self.classes[thing.metadata.name] = thing
                return self._serve_again()
        return False

    def delete(self, thing: DeviceObject) -> bool:
        """Remove an object that the API server has deleted. Returns the same as `put`."""
        match thing:
            case ResourceClaim():
                self.forget(thing)
            case ResourceSlice():
                self.slices.pop(thing.metadata.name, None)
                self._look_again()
            case DeviceClass():
                self.classes.pop(thing.metadata.name, None)
                return self._serve_again()
        return False

    def _look_again(self) -> None:
        """The slices have changed: pools, and which devices are selected, are found anew."""
        self._pools, self.selectors = None, Selectors()
        self._search_again()

    def _search_again(self) -> None:
        """What was found by searches may be no longer so."""
        self._of_classes.clear()
        self._searches += 1
        self.search_time.devices_may_be_there()
        self.answers.clear()
        self.taken.changes.clear()  # the answers alone used these numbers, and pools come and go

    def _serve_again(self) -> bool:
        """Note which class serves which resource: of several, the newest; of these, the first by name."""
        self._search_again()
        before, self.served = self.served, {}
        for name in self.classes:
            self.served[DEVICE_CLASS_PREFIX + name] = name
        for kind in sorted(self.classes.values(), key=_newest_last):
            if resource := kind.spec.extended_resource_name:
                self.served[resource] = kind.metadata.name
        return before != self.served

    def claim(self, namespace: str, name: str) -> ResourceClaim | None:
        """A claim, as it was written last."""
        return self.claims.get(f"{namespace}/{name}")

    def with_own_writes(self, change: AnyChange) -> AnyChange:
        """See `Cache.with_own_writes`."""
        now = change.object
        if not isinstance(now, ResourceClaim):
            return change
        known = self.claims.get(namespaced_name(now.metadata))
        if known and known.status.allocation and (change.kind == Kind.DELETED or not now.status.allocation):
            return Change(change.kind, now, known)
        return change

    @property
    def pools(self) -> Pools:
        """The pools of all slices."""
        if self._pools is None:
            self._pools = Pools(self.slices.values())
        return self._pools

    @property
    def version(self) -> tuple[int, int]:
        """It changes whenever devices or classes change, or a device is taken or given back."""
        return self._searches, self.taken.version

    def use(self, resource: str, node: NodeInfo) -> DeviceUse:
        """How many of the devices that serve a resource on a node are taken, and how many there are.

        Source: calculateDRAResourceTotals in pkg/scheduler/framework/plugins/noderesources,
        resource_allocation.go
        """
        kind = self.classes[self.served[resource]]
        key = kind.metadata.name, node.name
        labels, found = self._of_classes.get(key, (None, ()))
        if labels is not node.labels:
            found = self._of_class(kind, node)
            self._of_classes[key] = node.labels, found
        return DeviceUse(sum(device in self.taken for device in found), len(found))

    def _of_class(self, kind: DeviceClass, node: NodeInfo) -> Sequence[DeviceId]:
        """The devices on a node; none if a selector fails for one of them, as in kube-scheduler."""
        offered = self.pools.offered(node)
        try:
            return [
                device.id for device in offered if self._is_selected(kind, device.device, device.id.driver)
            ]
        except SelectorError:
            return ()

    def _is_selected(self, kind: DeviceClass, device: Device, driver: str) -> bool:
        expressions = (selector.cel.expression for selector in kind.spec.selectors if selector.cel)
        if not device.allow_multiple_allocations:
            return all(self.selectors.match(expression, device, driver) for expression in expressions)
        seen = replace(device, allow_multiple_allocations=False)  # kube-scheduler doesn't hand this over here
        return all(evaluate(expression, seen, driver) for expression in expressions)

    # --- what is taken ----------------------------------------------------------------------------------

    def reserve(self, uid: str, allocation: AllocationResult) -> None:
        """Count what a claim gets, before that is written. uid: of the claim."""
        self.unreserve(uid)
        self.pending[uid] = allocation
        self.taken.add(allocation)

    def unreserve(self, uid: str) -> None:
        """An allocation will not be written."""
        if self._forget_pending(uid):
            self.search_time.devices_may_be_there()

    def _forget_pending(self, uid: str) -> bool:
        allocation = self.pending.pop(uid, None)
        if allocation:
            self.taken.remove(allocation)
        return allocation is not None

    def written(self, claim: ResourceClaim, reserved_as: str) -> None:
        """A claim was written: this is how the API server has it now. reserved_as: its uid before.

        If that is "", the answer may be late: it doesn't bring back a claim that is gone. A newer version
        that is known already stays.
        """
        key, version = namespaced_name(claim.metadata), claim.metadata.resource_version
        self._forget_pending(reserved_as)
        known = self.claims.get(key)
        if known is None and reserved_as:
            self.claims.put(claim)
            self.unlisted[key] = claim
        elif known is None or is_older(version, known.metadata.resource_version):
            return
        self.claims.assume(claim)
        self._count(claim)

    def forget(self, claim: ResourceClaim) -> None:
        """A claim is deleted, or is going to be."""
        self.claims.delete(namespaced_name(claim.metadata))
        self.unlisted.pop(namespaced_name(claim.metadata), None)
        self._count(claim)

    def _count(self, changed: ResourceClaim) -> None:
        """Count what a claim has now, instead of what it had before."""
        key = namespaced_name(changed.metadata)
        claim, before = self.claims.get(key), self._counted.pop(key, None)
        now = claim.status.allocation if claim else None
        if now:
            self._counted[key] = now
        if now != before:
            if before:
                self.taken.remove(before)
                self.search_time.devices_may_be_there()
            if now:
                self.taken.add(now)


def _newest_last(kind: DeviceClass) -> tuple[float, list[int]]:
    created = kind.metadata.creation_timestamp
    return created.timestamp() if created else 0.0, [-ord(letter) for letter in kind.metadata.name]
