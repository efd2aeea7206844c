"""Makes a cache of a snapshot, as the loop would have it."""

from collections.abc import Iterable
from itertools import chain
from typing import cast, get_args

from lib.kube.devices import DeviceObject
from lib.kube.objects import (
    ControllerRef,
    LabelSelector,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    Service,
    selector_of,
)
from lib.kube.resources import CONTROLLERS
from lib.kube.storage import PersistentVolumeClaim, StorageObject
from lib.questions.snapshot import Snapshot
from lib.scheduling.cache import Cache
from lib.scheduling.looked_up import LookedUp
from lib.scheduling.storage import Storage
from lib.scheduling.workloads import Workloads

UNSEEN = "claims can't be seen, so whether the pod can have its volumes isn't known"
"""The reason against a pod with volumes if claims can't be listed."""

DEVICES_UNSEEN = "what devices there are can't be seen, so whether the pod can have any isn't known"
"""The reason against a pod with resource claims if devices, or claims, can't be listed."""

DEVICE_KINDS: tuple[type[DeviceObject], ...] = get_args(DeviceObject)

STORAGE_KINDS: tuple[type[StorageObject], ...] = get_args(StorageObject)


def cache_of(snapshot: Snapshot) -> Cache:
    """The cache of a snapshot, as the loop would have it."""
    pods = snapshot.of(Pod)
    cache = Cache(
        snapshot.of(Node),
        [pod for pod in pods if pod.spec.node_name],
        _looked_up(snapshot),
    )
    storage: list[Iterable[StorageObject]] = [snapshot.of(kind) for kind in STORAGE_KINDS]
    cache.storage = Storage(chain.from_iterable(storage))
    for kind in DEVICE_KINDS:
        for item in snapshot.of(kind):
            cache.devices.put(item)
    for pod in pods:
        if not pod.spec.node_name and pod.status.nominated_node_name:
            cache.nominator.add(pod, pod.status.nominated_node_name)
    return cache


def _looked_up(snapshot: Snapshot) -> LookedUp:
    forbidden, groups = snapshot.forbidden, cast(list[PodGroup], snapshot.objects.get(PodGroup, []))
    return LookedUp(
        namespaces={
            namespace.metadata.name: namespace.metadata.labels for namespace in snapshot.of(Namespace)
        },
        budgets=None if PodDisruptionBudget in forbidden else snapshot.of(PodDisruptionBudget),
        workloads=Workloads(snapshot.of(Service), selectors_of(snapshot)),
        group_sizes={group.ref: group.needed for group in groups},
        pod_groups_unread=PodGroup not in snapshot.objects,
        storage_unseen=UNSEEN if PersistentVolumeClaim in forbidden else "",
        devices_unseen=DEVICES_UNSEEN if forbidden.intersection(DEVICE_KINDS) else "",
    )


def selectors_of(snapshot: Snapshot) -> dict[ControllerRef, LabelSelector]:
    """The selector of each controller."""
    return {
        ControllerRef(own.namespace, kind.api_version, kind.kind.__name__, own.name, own.uid): selector
        for kind in CONTROLLERS.resources
        for controller in snapshot.of(kind.kind)
        if (own := controller.metadata) and (selector := selector_of(controller))
    }
