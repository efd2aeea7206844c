"""More faults in poller itself: something is left out of its filters, preemption, volumes and so on."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from lib.kube import pod_writes
from lib.kube.changes import AnyChange, Kind
from lib.kube.lease import Candidate
from lib.kube.objects import Event, Node, Pod
from lib.kube.store import Store
from lib.kube.write import Request, Write
from lib.scheduling.cache import Cache, RemovedPods
from lib.scheduling.devices.cluster_devices import ClusterDevices
from lib.scheduling.devices.pod_devices import PodDevices
from lib.scheduling.kept import Journal
from lib.scheduling.nominator import Nominator
from lib.scheduling.plugins.dynamic_resources import DynamicResources
from lib.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from lib.scheduling.plugins.node_affinity import NodeAffinity
from lib.scheduling.plugins.node_ports import NodePorts
from lib.scheduling.plugins.node_resources_fit import NodeResourcesFit
from lib.scheduling.plugins.node_unschedulable import NodeUnschedulable
from lib.scheduling.plugins.pod_topology_spread import PodTopologySpread
from lib.scheduling.plugins.taint_toleration import TaintToleration
from lib.scheduling.plugins.volume_binding import VolumeBinding
from lib.scheduling.pod_life import Phase, pod_key
from lib.scheduling.preemption import search, victims
from lib.scheduling.preemption.victims import Victims
from lib.scheduling.queue import SchedulingQueue
from lib.scheduling.transitions import SHOWN, Seen
from lib.service.steps import Poller
from lib.service.writes import writes as writes_module

from .changed import changed

Mutation = Callable[[], Iterable[AbstractContextManager[Any]]]

Patches = Iterable[AbstractContextManager[Any]]


def _all_accepted(_plugin: Any, _state: Any, _pod: Pod, nodes: Any) -> list[None]:
    return [None] * len(nodes)


# --- filters ----------------------------------------------------------------------------------------------


def _taints_ignored() -> Patches:
    yield patch.object(TaintToleration, "filter_nodes", _all_accepted)


def _cordons_ignored() -> Patches:
    yield patch.object(NodeUnschedulable, "filter", lambda *_: None)


def _node_selectors_ignored() -> Patches:
    yield patch.object(NodeAffinity, "filter", lambda *_: None)


def _host_ports_ignored() -> Patches:
    yield patch.object(NodePorts, "filter", lambda *_: None)


def _spread_ignored() -> Patches:
    yield patch.object(PodTopologySpread, "filter_nodes", _all_accepted)


def _affinity_ignored() -> Patches:
    yield patch.object(InterPodAffinity, "filter_nodes", _all_accepted)


def _resources_ignored() -> Patches:
    yield patch.object(NodeResourcesFit, "filter_nodes", _all_accepted)


# --- the cache --------------------------------------------------------------------------------------------


def _gone_nodes_kept() -> Patches:
    """A node that has gone is still picked."""
    real = Cache.apply

    def apply(self: Cache, change: AnyChange) -> None:
        if not (isinstance(change.object, Node) and change.kind == Kind.DELETED):
            real(self, change)

    yield patch.object(Cache, "apply", apply)


def _other_schedulers_pods_not_counted() -> Patches:
    real = Cache.apply

    def apply(self: Cache, change: AnyChange) -> None:
        pod = change.object
        if not (isinstance(pod, Pod) and pod.spec.scheduler_name == "simple-scheduler"):
            real(self, change)

    yield patch.object(Cache, "apply", apply)


def _terminating_pods_not_counted() -> Patches:
    """A pod that is being deleted gives its room back at once."""
    real = Cache._put

    def put(self: Cache, pod: Pod, node_name: str) -> None:
        if pod.metadata.deletion_timestamp:
            self._take_away(pod)
        else:
            real(self, pod, node_name)

    yield patch.object(Cache, "_put", put)


def _resizes_not_seen() -> Patches:
    """A pod on a node requests what it requested at first."""
    real = Cache._put

    def put(self: Cache, pod: Pod, node_name: str) -> None:
        if pod_key(pod) not in self._assigned:
            real(self, pod, node_name)

    yield patch.object(Cache, "_put", put)


def _room_never_given_back() -> Patches:
    """A pod whose binding failed still counts on its node."""

    def forget(self: Cache, pod: Pod) -> None:
        if (life := self.lives.get(pod_key(pod))) and life.has_room:
            self.lives.forget(life)

    yield patch.object(Cache, "forget", forget)


def _kept_results_outdated() -> Patches:
    """What was found out about a node is kept when its pods change."""
    yield patch.object(Journal, "add", lambda *_: None)


def _deletions_not_seen() -> Patches:
    """An object that is missing in a list, or was deleted, is still there."""
    real = Store.update

    def update(self: Store[Any], key: str, new: Any) -> Any:
        return iter(()) if new is None else real(self, key, new)

    yield patch.object(Store, "update", update)


# --- preemption -------------------------------------------------------------------------------------------


def _nominated_room_given_away() -> Patches:
    yield patch.object(Nominator, "nominated_before", lambda *_: {})
    yield patch.object(Nominator, "nominated_before_on", lambda *_: [])


def _nobody_spared() -> Patches:
    """All pods of a node that matter less are evicted."""
    real = victims.victims_on

    def victims_on(pod: Pod, node_name: str, cache: Cache, *rest: Any) -> Any:
        found = real(pod, node_name, cache, *rest)
        if isinstance(found, Victims):
            return Victims(node_name, (*victims.less_important(pod, node_name, cache),), 0)
        return found

    yield patch.object(search, "victims_on", victims_on)


def _most_important_evicted() -> Patches:
    """Of several nodes, that is taken where preemption does the most harm."""
    yield patch.object(
        search.VictimSearch,
        "best",
        lambda self, enough: max(self.candidates(1000).values(), key=lambda each: each.harm, default=None),
    )
    yield patch.object(search.VictimSearch, "likely_best", lambda self: None)


def _victims_that_leave_not_awaited() -> Patches:
    """More pods are evicted while the first ones leave."""
    yield patch.object(search, "victims_are_leaving", lambda *_: False)


def _equals_evicted() -> Patches:
    """Pods of the same priority are evicted, too."""

    def less_important(pod: Pod, node_name: str, cache: Cache) -> list[Pod]:
        return [each for each in cache.nodes[node_name].pods if each.spec.priority <= pod.spec.priority]

    yield patch.object(victims, "less_important", less_important)
    yield patch.object(search, "less_important", less_important)


def _removed_pods_lost() -> Patches:
    """Pods that are removed for a try don't come back."""
    yield patch.object(RemovedPods, "give_back", lambda *_: None)


# --- volumes, devices, groups, permit ---------------------------------------------------------------------


def _volumes_out_of_reach() -> Patches:
    yield patch.object(VolumeBinding, "_rejection", lambda *_: None)


def _bound_before_its_volumes() -> Patches:
    yield patch.object(VolumeBinding, "pre_bind", lambda *_: None)


def _volumes_kept_for_nobody() -> Patches:
    """A volume that was assumed stays taken when the decision is undone."""
    yield patch.object(VolumeBinding, "unreserve", lambda *_: None)


def _devices_given_twice() -> Patches:
    """A device counts as taken only when that is written."""
    yield patch.object(ClusterDevices, "reserve", lambda *_: None)


def _devices_taken_not_counted() -> Patches:
    yield patch.object(ClusterDevices, "_count", lambda *_: None)


def _bound_before_its_devices() -> Patches:
    yield patch.object(DynamicResources, "pre_bind", lambda *_: None)


def _devices_not_given_back() -> Patches:
    yield patch.object(PodDevices, "unreserve", lambda *_: [])


def _groups_in_part() -> Patches:
    """A group is placed when one pod of it is there."""
    from lib.scheduling.groups import quorum

    yield patch.object(quorum, "_annotated", lambda *_: quorum.Quorum(1, all_or_none=True))


def _permit_asked_once() -> Patches:
    """A pod that waits at Permit waits for ever."""
    yield patch.object(Poller, "_recheck_permit", lambda *_: [])


def _held_pods_survive_their_deletion() -> Patches:
    yield patch.dict(SHOWN, {Phase.HELD: dict.fromkeys(Seen, ())})


# --- queue, lease, events ---------------------------------------------------------------------------------


def _fit_never_wakes() -> Patches:
    """The hint of NodeResourcesFit says that no change helps."""
    yield patch.object(NodeResourcesFit, "queueing_hint", lambda *_: False)


def _victims_departure_not_noticed() -> Patches:
    yield patch.object(SchedulingQueue, "_victim_left", lambda *_: None)


def _finished_pods_kept_in_queue() -> Patches:
    """A pod that is seen on a node stays in the queue."""
    yield patch.object(SchedulingQueue, "drop", lambda *_: None)


def _lease_taken_early() -> Patches:
    """Another's lease is taken before it has expired."""
    real = Candidate._see

    def see(self: Candidate, spec: Any) -> None:
        real(self, spec)
        self._seen_since = -1e9

    yield patch.object(Candidate, "_see", see)


def _leader_goes_on_when_it_lost() -> Patches:
    """Who has lost the lease to another goes on until its time is over."""
    yield patch.object(Candidate, "_lose", lambda *_: None)


def _event_without_uid() -> Patches:
    """The event of a bound pod doesn't say which pod of its name is meant."""
    real = pod_writes.record

    def leave_out(request: Request) -> None:
        if isinstance(request.body, Event):
            request.body.involved_object.uid = ""

    def record(*given: Any) -> Write[Any]:
        return changed(real(*given), leave_out)

    yield patch.object(writes_module, "record", record)


def _event_left_out() -> Patches:
    """Of two bound pods, one gets no event."""
    real, numbers = pod_writes.record, [0]

    def record(*given: Any) -> Write[Any]:
        numbers[0] += 1
        if numbers[0] % 2:
            yield from real(*given)

    yield patch.object(writes_module, "record", record)


MORE_MUTATIONS: dict[str, Mutation] = {
    name.strip("_").replace("_", "-"): made
    for name, made in globals().copy().items()
    if name.startswith("_") and getattr(made, "__annotations__", {}).get("return") is Patches
}
