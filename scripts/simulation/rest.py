"""What must be true when nothing has happened for a while: what fits is placed, nothing is left over."""

from collections.abc import Callable, Collection, Iterable, Iterator
from random import Random
from typing import TypeVar, get_args

import msgspec

from lib.kube.changes import Change, Kind
from lib.kube.devices import DeviceClass, ResourceClaim, ResourceSlice
from lib.kube.objects import Namespace, Node, Object, Pod, PodDisruptionBudget, ReplicaSet, decode_hook
from lib.kube.storage import StorageObject
from lib.questions.snapshot import Snapshot
from lib.questions.snapshot_cache import cache_of
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Outcome
from lib.scheduling.groups.pod_group_cycle import schedule_pod_group
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.pod_life import Phase
from lib.scheduling.queue import batches, why_ended
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.steps import Poller
from scripts.minicluster.resources import RESOURCE_CLAIMS, RESOURCES, Resource
from scripts.minicluster.store import Store

from .evictions import waits_needlessly
from .left_over import uids_in
from .reach import EVERYWHERE, Reach

T = TypeVar("T", bound=Object)

AT_REST = (Phase.OUT, Phase.GATED, Phase.UNSCHEDULABLE, Phase.BACKOFF, Phase.ACTIVE)

KINDS: dict[str, type[Object]] = {
    kind.__name__: kind
    for kind in (Node, Pod, Namespace, PodDisruptionBudget, ReplicaSet, *get_args(StorageObject))
}
DEVICE_KINDS: dict[str, type[Object]] = {
    kind.__name__: kind for kind in (ResourceClaim, DeviceClass, ResourceSlice)
}

TRIES = 5
"""So many errors in a row, and the last one when nothing goes wrong any more, don't end by themselves."""

OF_PODS_THAT_WAIT = ("source", "nodes", "node_list", "_assigned", "_without_node", "lives", "_lives")
"""Parts of a poller that polls: they are not kept up to date while no pod waits."""

STORAGE = "storage", "_storage", "_claims"
DEVICES = "devices", "_devices", "_claims", "unlisted_claims"
"""Parts of a poller that are read only while a pod waits that needs them."""

Found = Callable[[str, str, str], None]
"""Is told the rule, what breaks it, and the pod's name."""


def check_rest(store: Store, pollers: Iterable[tuple[str, Reach, Poller | None]], found: Found) -> None:
    """Compare the cluster with fresh decisions on it, and look at what each poller still remembers.

    pollers: each with its name, and what it serves; None if its parts were not connected.
    """
    there = [(name, reach, poller) for name, reach, poller in pollers if poller]
    served: dict[Reach, set[str]] = {}
    for _, reach, poller in there:
        served.setdefault(reach, set()).update(poller.schedulers)
    waiting = {reach: check_cluster(store, names, found, reach) for reach, names in served.items()}
    for name, reach, poller in there:
        _check_lives(name, poller, waiting[reach], found)
        _check_memory(name, poller, store, waiting[reach], found)


def check_cluster(
    store: Store, schedulers: Collection[str], found: Found, reach: Reach = EVERYWHERE
) -> list[Pod]:
    """Compare the cluster with fresh decisions on it. Returns the pods of these schedulers that wait.

    reach: the namespaces that they serve.
    """
    snapshot = Snapshot()
    for resource in RESOURCES:
        if kind := KINDS.get(resource.kind):
            snapshot.objects[kind] = [*_read(store, resource, kind)]
    pods = snapshot.of(Pod)
    waiting = [
        each
        for each in pods
        if each.spec.scheduler_name in schedulers
        and not each.spec.node_name
        and (not reach.namespaces or each.metadata.namespace in reach.namespaces)
    ]
    _check_liveness(store, snapshot, waiting, schedulers, found, reach)
    for rule, what, about in waits_needlessly(store, schedulers, reach):
        found(rule, what, *about)
    _check_claims(store, {each.metadata.uid for each in pods if each.spec.node_name}, found)
    return waiting


def _check_liveness(
    store: Store,
    snapshot: Snapshot,
    waiting: list[Pod],
    names: Collection[str],
    found: Found,
    reach: Reach,
) -> None:
    """No pod waits that a fresh decision would place, or that could preempt others."""
    schedulers = {name: Scheduler(default_profile(name), Random(1)) for name in names}
    ready = [each for each in waiting if not (each.spec.scheduling_gates or why_ended(each))]
    nodes = {each.metadata.name for each in snapshot.of(Node)}
    for batch in batches(ready):
        cache = _fresh_cache(store, snapshot)
        cache._served = reach.namespaces
        for pod in batch:
            cache.nominator.delete(pod)
        for decision in schedule_pod_group(batch, cache, schedulers):
            pod = decision.pod
            if decision.outcome == Outcome.SCHEDULED:
                what = f"pod {pod} waits, though it fits on {decision.node_name}"
                found("liveness", what, pod.metadata.name)
            elif decision.victims:
                what = f"pod {pod} waits, though it could preempt others on {decision.nominated}"
                found("liveness", what, pod.metadata.name)
    for pod in ready:
        node = pod.status.nominated_node_name
        if node and node not in nodes:
            what = f"pod {pod} is nominated to {node}, which isn't there"
            found("nothing left over", what, pod.metadata.name)


def _fresh_cache(store: Store, snapshot: Snapshot) -> Cache:
    over = [each for each in snapshot.of(Pod) if each.status.phase in ("Succeeded", "Failed")]
    there = Snapshot({**snapshot.objects, Pod: [each for each in snapshot.of(Pod) if each not in over]})
    cache = cache_of(there)
    for resource in RESOURCES:
        if kind := DEVICE_KINDS.get(resource.kind):
            for each in _read(store, resource, kind):
                cache.apply(Change(Kind.ADDED, each))  # type: ignore[arg-type, type-var]
    cache.knows_claims = True
    return cache


def _check_claims(store: Store, bound: set[str], found: Found) -> None:
    """No claim is reserved for a pod that wasn't bound."""
    for claim in store.every(RESOURCE_CLAIMS):
        for user in (claim.content.get("status") or {}).get("reservedFor") or ():
            if user["uid"] not in bound:
                what = f"claim {claim.key[1]} is reserved for pod {user['name']}, which isn't bound"
                found("nothing left over", what, user["name"])


def _check_lives(name: str, poller: Poller, waiting: list[Pod], found: Found) -> None:
    """A poller that leads remembers no pod but those that wait."""
    known = {each.metadata.uid for each in waiting}
    for phase in Phase:
        waits = any(each.spec.scheduler_name in poller.schedulers for each in waiting)
        if phase == Phase.BOUND and not waits and not poller.options.watch:
            continue  # polling reads no other pods while none waits
        for life in poller.lives.in_phase(phase) if poller.leads() else ():
            if phase not in AT_REST or (phase != Phase.OUT and life.pod.metadata.uid not in known):
                what = f"{name} remembers pod {life.pod} as {phase.value}"
                found("nothing left over", what, life.pod.metadata.name)
            elif life.errors >= TRIES:
                what = f"{name} tried pod {life.pod} {life.errors} times, each with an error: {life.reason}"
                found("liveness", what, life.pod.metadata.name)


def _check_memory(name: str, poller: Poller, store: Store, waiting: list[Pod], found: Found) -> None:
    """Nothing in a poller's memory names an object that has gone, of those that it reads now."""
    mine = [each for each in waiting if each.spec.scheduler_name in poller.schedulers]
    unread = set() if mine or poller.options.watch else {*OF_PODS_THAT_WAIT}
    unread |= set() if any(each.spec.volumes for each in mine) else {*STORAGE}
    unread |= set() if any(each.spec.resource_claims for each in mine) else {*DEVICES}
    there = {each.metadata["uid"] for resource in RESOURCES for each in store.every(resource)}
    for place in sorted({place for uid, place in uids_in(poller, unread) if uid not in there}):
        found("nothing left over", f"{name} remembers what has gone in {place}", place)


def _read(store: Store, resource: Resource, kind: type[T]) -> Iterator[T]:
    for each in store.every(resource):
        body = each.full_json if kind.__struct_config__.tag else each.json
        yield msgspec.json.decode(body, type=kind, dec_hook=decode_hook)
