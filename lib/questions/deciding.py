"""Decides about a snapshot of a cluster as the loop would, and can undo decisions.

Only this file and snapshot_cache.py, of this package, change lib/scheduling's objects.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from math import inf
from random import Random
from typing import Any

from lib.kube.changes import Change, Kind
from lib.kube.objects import Node, Pod, PodDisruptionBudget, with_parts
from lib.kube.resource_claims import may_need_devices
from lib.kube.storage import StorageObject
from lib.kube.system import MACHINE
from lib.questions import kubelet
from lib.questions.device_claims import knows_devices, release_claims
from lib.questions.errors import CommandLineError
from lib.questions.snapshot import PriorityClass, RuntimeClass, Snapshot
from lib.questions.snapshot_cache import cache_of
from lib.scheduling.attempt import SchedulingAttempt
from lib.scheduling.decision import ASSIGNED, PLACED, Decision, Outcome, counted
from lib.scheduling.disruption_budgets import guards
from lib.scheduling.framework.interface import Plugin, PreEnqueuePlugin, Profile
from lib.scheduling.framework.runtime import describe, raise_if_interrupted
from lib.scheduling.groups.pod_group_cycle import schedule_pod_group
from lib.scheduling.plugins.default_preemption import DefaultPreemption
from lib.scheduling.plugins.pod_topology_spread import PodTopologySpread
from lib.scheduling.pod_groups import group_of
from lib.scheduling.pod_life import pod_key
from lib.scheduling.preemption.victims import Victims, less_important, victims_on
from lib.scheduling.scheduling_cycle import Scheduler
from lib.scheduling.status import Rejection, unresolvable
from lib.scheduling.volumes.claims import has_claims


def without_node(pod: Pod) -> Pod:
    """A copy of a pod as it was before it was bound, with the same name and uid."""
    return with_parts(pod, spec={"node_name": ""}, status={"nominated_node_name": ""})


def queue_order(pod: Pod) -> tuple[int, float, str]:
    """The order in which waiting pods are tried: the highest priority first, then the oldest."""
    created = pod.metadata.creation_timestamp
    return -pod.spec.priority, created.timestamp() if created else inf, str(pod)


def node_of(decision: Decision) -> str:
    """The node that a decision picked, or where it preempts others; "" for none."""
    return decision.nominated or (decision.node_name if decision.outcome in PLACED else "")


@dataclass(frozen=True)
class Placed:
    """What came of placing a pod: its node ("" if it has none, and `message` says why), and the victims.

    unprotected: by victim, the budgets that don't allow its eviction; preemption evicts it nevertheless.
    knows_devices: whether the devices are known that it may need. is_refused: whether the API server doesn't
    even create it.
    """

    pod: Pod
    node_name: str = ""
    message: str = ""
    victims: tuple[Pod, ...] = ()
    unprotected: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    knows_devices: bool = True
    is_refused: bool = False


class Decider:
    """A cluster, and its schedulers.

    A pod's profile is that of the scheduler that it names or, if there is none, the first one.
    scheduler_name: use this profile for all pods. QuestionError when there is no such profile.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        profiles: Sequence[Profile],
        random: Random,
        scheduler_name: str | None = None,
    ) -> None:
        self.cache = cache_of(snapshot)
        self.now = snapshot.taken_at or MACHINE.now()
        self.priorities = snapshot.of(PriorityClass)
        self._runtimes = {
            runtime_class.metadata.name: runtime_class for runtime_class in snapshot.of(RuntimeClass)
        }
        self._random = random
        self._profiles = {profile.scheduler_name: profile for profile in profiles}
        self._first = profiles[0]
        if scheduler_name:
            if scheduler_name not in self._profiles:
                known = ", ".join(self._profiles)
                raise CommandLineError(f"there is no profile {scheduler_name}; there are: {known}")
            self._first = self._profiles[scheduler_name]
            self._profiles = {scheduler_name: self._first}
        self._gates = {profile.scheduler_name: profile.with_point(PreEnqueuePlugin) for profile in profiles}
        self._schedulers: dict[tuple[str, bool, bool], Scheduler] = {}

    def profile_of(self, pod: Pod) -> Profile:
        """The profile that decides about a pod."""
        return self._profiles.get(pod.spec.scheduler_name, self._first)

    def agrees_with_class(self, pod: Pod) -> bool:
        """Whether a pod has the node selector that its RuntimeClass gives it: no edit can leave that out."""
        found = self._runtimes.get(pod.spec.runtime_class_name or "")
        return not found or found.scheduling.node_selector.items() <= pod.spec.node_selector.items()

    # --- questions that change nothing ------------------------------------------------------------------

    def ask(self, pod: Pod) -> Decision:
        """Where a pod would go: with all nodes evaluated, all scores, and the victims of preemption."""
        if self.cache.nominator.node_of(pod):  # evaluate the other nodes, too
            decision = self._ask(pod, self._explainer(pod), anew=True)
            if decision.outcome in PLACED:
                return decision
        return self._ask(pod, self._explainer(pod))

    def ask_together(self, pods: Sequence[Pod]) -> list[Decision]:
        """What would become of the waiting pods of a group: all of them get a node, or none does."""
        schedulers = {pod.spec.scheduler_name: self._explainer(pod) for pod in pods}
        with self._undoing(pods) as decisions:
            decisions += schedule_pod_group(pods, self.cache, schedulers)
        return decisions

    @contextmanager
    def placed(self, pods: Iterable[Pod]) -> Iterator[int]:
        """A block in which pods have a node each, if they fit without preemption. Yields how many do."""
        with self._undoing([*pods]) as decisions:
            decisions += map(self.place_alone, pods)
            yield sum(decision.outcome in PLACED for decision in decisions)

    def fitting(self, pod: Pod) -> list[str]:
        """The nodes on which a pod fits now, without preemption."""
        decision = self.check(pod)
        if decision.outcome not in PLACED:
            return []
        return [name for name in self.cache.nodes if name not in decision.rejected]

    def rejections(self, pod: Pod) -> Mapping[str, Rejection]:
        """By node on which a pod doesn't fit now, the first rejection."""
        return self.check(pod).rejected

    def check(self, pod: Pod) -> Decision:
        """Where a pod would go now without preemption; with all nodes evaluated."""
        return self._ask(pod, self._checker(pod), anew=True)

    def rejection(self, pod: Pod, node_name: str) -> Rejection | None:
        """The first rejection of one node for a pod; cheaper than a question about all nodes."""
        return self._checker(pod).filter_node(pod, self.cache, node_name)

    def gated(self, pod: Pod) -> str:
        """Why a pod must not be queued yet; "" if it may be."""
        for plugin in self._gates[self.profile_of(pod).scheduler_name]:
            try:
                if status := plugin.pre_enqueue(pod):
                    return ", ".join(status.reasons)
            except BaseException as error:
                raise_if_interrupted(error)
                return f"plugin {plugin.name} failed: {describe(error)}"
        return ""

    def _ask(self, pod: Pod, scheduler: Scheduler, *, anew: bool = False) -> Decision:
        """Decide about a pod. anew: as if it were not nominated."""
        with self._undoing([pod]) as decisions:
            if anew:
                self.cache.nominator.add(pod, "")
            decisions.append(scheduler.schedule_one(pod, self.cache))
        return decisions[0]

    @contextmanager
    def _undoing(self, pods: Sequence[Pod]) -> Iterator[list[Decision]]:
        """A block in which these pods are decided on; then its decisions are undone, the last one first.

        Their victims are spared, except those that were leaving before.
        """
        nominator, leaving = self.cache.nominator, set(self.cache.lives.leaving)
        nominated = [nominator.node_of(pod) or "" for pod in pods]
        decisions: list[Decision] = []
        try:
            yield decisions
        finally:
            for decision in reversed(decisions):
                if decision.outcome in PLACED:
                    self._explainer(decision.pod).unreserve_and_forget(decision, self.cache)
            for pod, node_name in zip(pods, nominated, strict=True):
                nominator.add(pod, node_name)
            victims = chain.from_iterable(decision.preempted for decision in decisions)
            self.cache.lives.spare(pod for pod in victims if pod_key(pod) not in leaving)

    # --- decisions that are kept ------------------------------------------------------------------------

    def place(self, batch: Sequence[Pod], *, preempts: bool = True) -> list[Decision]:
        """Place a pod, or a group as a whole; each is assumed before the next decision.

        A pod with scheduling gates isn't placed. preempts: whether others may have to leave.
        """
        for pod in batch:
            if gated := self.gated(pod):
                return [self._gated(pod, gated) for pod in batch]
        schedulers = {pod.spec.scheduler_name: self._scheduler(pod, preempts=preempts) for pod in batch}
        return schedule_pod_group(batch, self.cache, schedulers)

    def place_alone(self, pod: Pod) -> Decision:
        """Place a pod if it fits now, without preemption and without waiting for its group."""
        if gated := self.gated(pod):
            return self._gated(pod, gated)
        return self._scheduler(pod, preempts=False).schedule_one(pod, self.cache)

    def fits_by_node(self, pod: Pod) -> bool:
        """Whether it depends on a node alone that a pod fits, wherever others like it are.

        False if a plugin isn't one of poller's: it may compare nodes.
        """
        spec, profile = pod.spec, self.profile_of(pod)
        spreading = (plugin for plugin in profile.plugins if isinstance(plugin, PodTopologySpread))
        defaults = (plugin.default_constraints for plugin in spreading)
        constraints = (*spec.topology_spread_constraints, *chain.from_iterable(defaults))
        spreads = any(constraint.when_unsatisfiable == "DoNotSchedule" for constraint in constraints)
        by_others = spec.affinity.pod_affinity or spec.affinity.pod_anti_affinity
        alone = group_of(pod) is None and not (spec.volumes and has_claims(pod))
        by_devices = spec.resource_claims or (self.cache.classes_by_resource and may_need_devices(pod))
        return _is_own(profile) and alone and not (spreads or by_others or by_devices or self.gated(pod))

    def place_on(self, pod: Pod, node_name: str, *, preempts: bool = True) -> Decision:
        """Place a pod that names its only node, as a DaemonSet's pods do; evaluates only this node.

        A pod that needs devices is placed as all others are: so it gets them.
        """
        if pod.spec.resource_claims:
            return self.place([pod], preempts=preempts)[0]
        attempt, rejection = SchedulingAttempt(pod, self.cache), self.rejection(pod, node_name)
        if rejection is None:
            self.cache.assume(pod, node_name)
            message = ASSIGNED.format(pod, node_name)
            return attempt.decide(Outcome.SCHEDULED, message, node_name=node_name, feasible=1)
        attempt.rejected[node_name] = rejection
        message = counted(len(self.cache.nodes), attempt.rejected)
        victims: dict[str, Any] = {}
        if preempts and self._may_preempt(pod) and less_important(pod, node_name, self.cache):
            left = self.cache.disruptions_left()
            answer = victims_on(pod, node_name, self.cache, partial(self.rejection, pod), left)
            if isinstance(answer, Victims):
                self.cache.nominator.add(pod, node_name)
                victims = {"nominated": node_name, "victims": answer.pods}
        return attempt.decide(Outcome.UNSCHEDULABLE, message, **victims)

    def place_by_kubelet(self, pod: Pod, node_name: str) -> Decision:
        """Place a pod that names its node itself: only the kubelet there is asked, and nobody leaves."""
        attempt, node = SchedulingAttempt(pod, self.cache), self.cache.nodes.get(node_name)
        if node is None:
            return attempt.decide(Outcome.UNSCHEDULABLE, kubelet.NO_NODE.format(node_name))
        if refused := tuple(kubelet.refusals(pod, node)):
            attempt.rejected[node_name] = Rejection(kubelet.NAME, unresolvable(*refused))
            return attempt.decide(Outcome.UNSCHEDULABLE, refused[0])
        self.cache.assume(pod, node_name)
        message = ASSIGNED.format(pod, node_name)
        return attempt.decide(Outcome.SCHEDULED, message, node_name=node_name, feasible=1)

    def _gated(self, pod: Pod, why: str) -> Decision:
        return SchedulingAttempt(pod, self.cache).decide(Outcome.UNSCHEDULABLE, why)

    def _may_preempt(self, pod: Pod) -> bool:
        has_it = any(isinstance(plugin, DefaultPreemption) for plugin in self.profile_of(pod).plugins)
        return has_it and pod.spec.preemption_policy != "Never" and self.cache.looked_up.budgets is not None

    def _explainer(self, pod: Pod) -> Scheduler:
        """A scheduler that evaluates all nodes, and keeps all scores."""
        return self._scheduler(pod, all_nodes=True)

    def _checker(self, pod: Pod) -> Scheduler:
        """A scheduler that evaluates all nodes, without preemption."""
        return self._scheduler(pod, all_nodes=True, preempts=False)

    def _scheduler(self, pod: Pod, *, all_nodes: bool = False, preempts: bool = True) -> Scheduler:
        """By default as in the loop: it stops when it has enough feasible nodes, and preempts."""
        profile = self.profile_of(pod)
        key = profile.scheduler_name, all_nodes, preempts
        if key not in self._schedulers:
            profile = profile if preempts else _peaceful(profile)
            profile = replace(profile, percentage_of_nodes_to_score=100) if all_nodes else profile
            if all_nodes and not preempts and _is_own(profile):  # nobody asks which node is the best
                profile = replace(profile, weights={})
            random = Random(0) if all_nodes and not preempts else self._random  # noqa: S311  # for ties
            self._schedulers[key] = Scheduler(profile, random, in_full=all_nodes and preempts)
        return self._schedulers[key]

    def settle(self, decision: Decision) -> Placed:
        """Evict the victims of a decision, if it has some, and place the pod on their node."""
        pod, node_name, unprotected = decision.pod, node_of(decision), {}
        if decision.nominated:
            unprotected = self.leave(decision.preempted)
            self.cache.nominator.add(pod, "")
            self.cache.assume(pod, node_name)
        message = "" if node_name else decision.message
        return Placed(pod, node_name, message, decision.preempted, unprotected, knows_devices(decision))

    def leave(self, pods: Iterable[Pod]) -> dict[str, tuple[str, ...]]:
        """Remove pods for good, and charge their disruption budgets.

        Returns, by pod, the budgets that don't allow its eviction.
        """
        unprotected = {}
        for pod in pods:
            if full := tuple(
                str(budget) for budget in self.guards_of(pod) if not budget.status.disruptions_allowed
            ):
                unprotected[str(pod)] = full
            self.remove(pod)
            self._charge(pod, 1)
        return unprotected

    def guards_of(self, pod: Pod) -> list[PodDisruptionBudget]:
        """The disruption budgets that the API server asks before it evicts a pod."""
        return [budget for budget in self.cache.looked_up.budgets or () if guards(budget, pod)]

    def recover(self, pods: Iterable[Pod]) -> None:
        """Give pods that have left back to their disruption budgets: others run in their place."""
        for pod in pods:
            self._charge(pod, -1)

    def _charge(self, pod: Pod, disruptions: int) -> None:
        if budgets := self.cache.looked_up.budgets:
            charged = [_charged(budget, pod, disruptions) for budget in budgets]
            self.cache.looked_up = replace(self.cache.looked_up, budgets=charged)

    # --- changes of the cluster -------------------------------------------------------------------------

    def remove(self, pod: Pod) -> None:
        """Remove a pod, whether it is bound or was only placed here."""
        if pod.spec.node_name:
            self.cache.apply(Change(Kind.DELETED, pod))
            if pod.spec.resource_claims:
                release_claims(pod, self.cache)
        else:
            self.cache.forget(pod)

    def add(self, pod: Pod) -> None:
        """Add a pod to its node."""
        self.cache.apply(Change(Kind.ADDED, pod))

    def apply(self, change: Change[Any]) -> None:
        """Something has happened to a node or a pod."""
        changed = change.object
        self.cache.apply(change)
        if isinstance(changed, Pod) and not changed.spec.node_name:
            gone = change.kind == Kind.DELETED
            self.cache.nominator.add(changed, "" if gone else changed.status.nominated_node_name)

    def set_node(self, node: Node) -> None:
        """Add or replace a node."""
        self.cache.apply(Change(Kind.MODIFIED, node))

    @contextmanager
    def trying(self) -> Iterator[tuple[Callable[[Pod], str], Callable[[Pod], None]]]:
        """A block with two functions: one places a pod without preemption, and returns its node, "" for none;
        the other removes a pod. At its end, all is undone.
        """
        with ExitStack() as undoing:

            def place(pod: Pod) -> str:
                if node_name := node_of(self.place_alone(pod)):
                    undoing.callback(self.remove, pod)
                return node_name

            def remove(pod: Pod) -> None:
                undoing.callback(self._put_back(pod))
                self.remove(pod)

            yield place, remove

    def _put_back(self, pod: Pod) -> Callable[[], object]:
        """What brings a pod back after it was removed."""
        if pod.spec.node_name:
            return partial(self.add, pod)
        return partial(self.cache.assume, pod, self.cache.node_of(pod))  # it was only placed here, not bound

    @contextmanager
    def temporarily(
        self,
        removed: Sequence[Pod] = (),
        nodes: Collection[Node] = (),
        added: Collection[Pod] = (),
        storage: Collection[StorageObject] = (),
    ) -> Iterator[None]:
        """A block in which the cluster is changed. At its end, all changes are undone.

        removed: pods to remove. nodes: nodes to add or replace. added: pods to add to them.
        storage: drivers, claims and volumes to add.
        """
        with ExitStack() as undoing:
            for pod in reversed(removed):  # so they come back in their order
                undoing.callback(self._put_back(pod))
                self.remove(pod)
            for node in nodes:
                before = self.cache.nodes.get(node.metadata.name)
                change = Change(Kind.MODIFIED, before.node) if before else Change(Kind.DELETED, node)
                undoing.callback(self.cache.apply, change)
                self.set_node(node)
            for pod in added:
                undoing.callback(self.remove, pod)
                self.add(pod)
            for stored in storage:
                undoing.callback(self.cache.storage.delete, stored)
                self.cache.storage.put(stored)
            yield


def _charged(budget: PodDisruptionBudget, pod: Pod, disruptions: int) -> PodDisruptionBudget:
    """The budget after so many disruptions of a pod, or after its recovery."""
    if not guards(budget, pod):
        return budget
    allowed = max(budget.status.disruptions_allowed - disruptions, 0)
    return with_parts(budget, status={"disruptions_allowed": allowed})


def _is_own(profile: Profile) -> bool:
    """Whether all of its plugins are poller's."""
    return all(type(plugin).__module__.startswith("lib.scheduling.plugins.") for plugin in profile.plugins)


def _peaceful(profile: Profile) -> Profile:
    """The profile without preemption."""
    return replace(
        profile,
        plugins=_without_preemption(profile.plugins),
        points={name: _without_preemption(plugins) for name, plugins in profile.points.items()},
    )


def _without_preemption(plugins: Iterable[Plugin]) -> tuple[Plugin, ...]:
    return tuple(plugin for plugin in plugins if not isinstance(plugin, DefaultPreemption))
