"""Decides about a snapshot of a cluster as the loop would, and takes decisions back.

With snapshot_cache.py the only file here that changes what lib/scheduling keeps.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from random import Random

import msgspec

from lib.kube.changes import Change, Kind
from lib.kube.objects import (
    Node,
    Pod,
    PodDisruptionBudget,
)
from lib.questions.snapshot import Snapshot
from lib.questions.snapshot_cache import cache_of
from lib.questions.text import QuestionError
from lib.scheduling.decision import Decision, Outcome, Rejection
from lib.scheduling.framework.interface import Plugin, PreEnqueuePlugin, Profile, Status
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.plugins.default_preemption import DefaultPreemption
from lib.scheduling.pod_group_cycle import schedule_pod_group
from lib.scheduling.pod_groups import batches
from lib.scheduling.preemption import Victims, covers, less_important, victims_on
from lib.scheduling.scheduling_cycle import Scheduler

PLACED = (Outcome.SCHEDULED, Outcome.WAITING)
"""Outcomes of pods that have a node, if only held for them."""


def without_node(pod: Pod) -> Pod:
    """A pod as it was before it was bound; another object, which has the same name and uid."""
    return msgspec.structs.replace(
        pod,
        spec=msgspec.structs.replace(pod.spec, node_name=""),
        status=msgspec.structs.replace(pod.status, nominated_node_name=""),
    )


class Decider:
    """A cluster, and the schedulers that decide about it.

    A pod is decided about by the profile of the scheduler that it names; if there is none of that name, by
    the first. scheduler_name: decide about all pods by this one. QuestionError when there is no such profile.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        profiles: Sequence[Profile],
        random: Random,
        scheduler_name: str | None = None,
    ) -> None:
        self.cache = cache_of(snapshot)
        self._random = random
        self._profiles = {each.scheduler_name: each for each in profiles}
        self._first = profiles[0]
        if scheduler_name:
            if scheduler_name not in self._profiles:
                known = ", ".join(self._profiles)
                raise QuestionError(f"there is no profile {scheduler_name}; there are: {known}")
            self._first = self._profiles[scheduler_name]
            self._profiles = {scheduler_name: self._first}
        self._gates: dict[str, list[PreEnqueuePlugin]] = {}
        self._looping: dict[str, Scheduler] = {}
        self._explaining: dict[str, Scheduler] = {}
        self._checking: dict[str, Scheduler] = {}

    def profile_of(self, pod: Pod) -> Profile:
        """The profile that decides about a pod."""
        return self._profiles.get(pod.spec.scheduler_name, self._first)

    # --- questions that leave everything as it is -------------------------------------------------------

    def ask(self, pod: Pod) -> Decision:
        """Where a pod would go: all nodes looked at, all scores noted, and who would have to leave."""
        nominated = self.cache.nominator.node_of(pod)
        if nominated:  # look at the other nodes, too
            with self._not_nominated(pod):
                decision = self._ask(pod, self._explainer(pod))
            if decision.outcome in PLACED:
                return decision
        return self._ask(pod, self._explainer(pod))

    def fitting(self, pod: Pod) -> list[str]:
        """The nodes on which a pod fits as things are, and nobody has to leave for it."""
        with self._not_nominated(pod):
            decision = self._ask(pod, self._checker(pod))
        if decision.outcome not in PLACED:
            return []
        return [name for name in self.cache.nodes if name not in decision.rejected]

    def rejection(self, pod: Pod, node_name: str) -> Rejection | None:
        """Who is the first to rule one node out for a pod; cheaper than to ask about all nodes."""
        return self._checker(pod).filter_node(pod, self.cache, node_name)

    def gated(self, pod: Pod) -> str:
        """Why a pod must not be queued yet; "" if it may."""
        profile = self.profile_of(pod)
        if profile.scheduler_name not in self._gates:
            self._gates[profile.scheduler_name] = profile.with_point(PreEnqueuePlugin)
        for plugin in self._gates[profile.scheduler_name]:
            if status := plugin.pre_enqueue(pod):
                return ", ".join(status.reasons)
        return ""

    def _status(self, pod: Pod, node_name: str) -> Status | None:
        rejection = self.rejection(pod, node_name)
        return rejection.status if rejection else None

    def _ask(self, pod: Pod, scheduler: Scheduler) -> Decision:
        """Decide, and take it back."""
        nominated, leaving = self.cache.nominator.node_of(pod), set(self.cache.leaving)
        decision = scheduler.schedule_one(pod, self.cache)
        if decision.outcome in PLACED:
            scheduler.unreserve_and_forget(decision, self.cache)
        self.cache.nominator.add(pod, nominated or "")
        self.cache.leaving = leaving
        return decision

    @contextmanager
    def _not_nominated(self, pod: Pod) -> Iterator[None]:
        nominated = self.cache.nominator.node_of(pod)
        self.cache.nominator.add(pod, "")
        try:
            yield
        finally:
            self.cache.nominator.add(pod, nominated or "")

    # --- what is decided, and stays so ------------------------------------------------------------------

    def batches(self, pods: Iterable[Pod]) -> Iterator[list[Pod]]:
        """Pods in their order, those of a group together."""
        return batches(pods)

    def place(self, batch: Sequence[Pod]) -> list[Decision]:
        """Place a pod, or a group as a whole; each is counted before the next is decided on.

        A pod that has gates is placed nowhere.
        """
        for pod in batch:
            if gated := self.gated(pod):
                return [
                    Decision(each, Outcome.UNSCHEDULABLE, all_nodes=len(self.cache.nodes), reason=gated)
                    for each in batch
                ]
        schedulers = {pod.spec.scheduler_name: self.scheduler_of(pod) for pod in batch}
        return schedule_pod_group(batch, self.cache, schedulers)

    def place_alone(self, pod: Pod) -> Decision:
        """Place a pod if it fits as things are: nobody leaves for it, and no group is waited for."""
        if gated := self.gated(pod):
            return Decision(pod, Outcome.UNSCHEDULABLE, all_nodes=len(self.cache.nodes), reason=gated)
        return self._checker(pod).schedule_one(pod, self.cache)

    def place_on(self, pod: Pod, node_name: str) -> Decision:
        """Place a pod that names its only node, as a DaemonSet's do, without a look at the others."""
        all_nodes = len(self.cache.nodes)
        rejection = self.rejection(pod, node_name)
        if rejection is None:
            self.cache.assume(pod, node_name)
            return Decision(pod, Outcome.SCHEDULED, node_name, all_nodes, feasible=1)
        decision = Decision(pod, Outcome.UNSCHEDULABLE, all_nodes=all_nodes, rejected={node_name: rejection})
        if self._may_preempt(pod) and less_important(pod, node_name, self.cache):
            answer = victims_on(pod, node_name, self.cache, lambda node: self._status(pod, node))
            if isinstance(answer, Victims):
                decision.nominated, decision.victims = node_name, answer.pods
                self.cache.nominator.add(pod, node_name)
        return decision

    def _may_preempt(self, pod: Pod) -> bool:
        has_it = any(isinstance(each, DefaultPreemption) for each in self.profile_of(pod).plugins)
        return has_it and pod.spec.preemption_policy != "Never" and self.cache.budgets is not None

    def scheduler_of(self, pod: Pod) -> Scheduler:
        """Decides as the loop does: enough feasible nodes are enough."""
        profile = self.profile_of(pod)
        name = profile.scheduler_name
        if name not in self._looping:
            self._looping[name] = Scheduler(profile, self._random, in_full=False)
        return self._looping[name]

    def _explainer(self, pod: Pod) -> Scheduler:
        """Decides by all nodes, and notes everything."""
        profile = replace(self.profile_of(pod), percentage_of_nodes_to_score=100)
        name = profile.scheduler_name
        if name not in self._explaining:
            self._explaining[name] = Scheduler(profile, self._random)
        return self._explaining[name]

    def _checker(self, pod: Pod) -> Scheduler:
        """Decides by all nodes, and has nobody leave."""
        profile = self.profile_of(pod)
        if profile.scheduler_name not in self._checking:
            alone = replace(
                profile,
                percentage_of_nodes_to_score=100,
                plugins=_without_preemption(profile.plugins),
                points={name: _without_preemption(each) for name, each in profile.points.items()},
            )
            self._checking[profile.scheduler_name] = Scheduler(alone, Random(0), in_full=False)
        return self._checking[profile.scheduler_name]

    def evict(self, decision: Decision) -> None:
        """Have the victims of a decision leave, and count the pod where they were."""
        self.leave(decision.victims)
        self.cache.nominator.add(decision.pod, "")
        self.cache.assume(decision.pod, decision.nominated)

    def violated(self, pod: Pod) -> list[PodDisruptionBudget]:
        """The budgets that don't allow a pod to be disrupted now."""
        budgets = self.cache.budgets or ()
        return [each for each in budgets if covers(each, pod) and each.status.disruptions_allowed < 1]

    def leave(self, pods: Iterable[Pod]) -> None:
        """Have pods leave their nodes for good, at the cost of their disruption budgets."""
        for pod in pods:
            self.remove(pod)
            if self.cache.budgets:
                self.cache.budgets = [_charged(each, pod) for each in self.cache.budgets]

    # --- a cluster that is otherwise --------------------------------------------------------------------

    def remove(self, pod: Pod) -> None:
        """Count a pod no longer, whether it is bound or was only placed here."""
        if pod.spec.node_name:
            self.cache.apply(Change(Kind.DELETED, pod))
        else:
            self.cache.forget(pod)

    def add(self, pod: Pod) -> None:
        """Count a pod on its node."""
        self.cache.apply(Change(Kind.ADDED, pod))

    def set_node(self, node: Node) -> None:
        """Have a node as it is described here."""
        self.cache.apply(Change(Kind.MODIFIED, node))

    def remove_node(self, name: str) -> None:
        """Have a node no longer."""
        self.cache.apply(Change(Kind.DELETED, self.cache.nodes[name].node))

    @contextmanager
    def otherwise(
        self, gone: Collection[Pod] = (), nodes: Collection[Node] = (), come: Collection[Pod] = ()
    ) -> Iterator[None]:
        """See how things would be; all is as before when the block ends.

        gone: pods that have left. nodes: more of them, or some described otherwise. come: pods on them.
        """
        before = {each.metadata.name: self.cache.nodes.get(each.metadata.name) for each in nodes}
        places = [(pod, self.cache.node_of(pod)) for pod in gone]
        for pod in gone:
            self.remove(pod)
        for node in nodes:
            self.set_node(node)
        for pod in come:
            self.add(pod)
        try:
            yield
        finally:
            for pod in come:
                self.remove(pod)
            for name, info in before.items():
                if info:
                    self.set_node(info.node)
                else:
                    self.remove_node(name)
            for pod, node_name in places:
                if pod.spec.node_name:
                    self.add(pod)
                else:  # it was placed here, and is bound nowhere
                    self.cache.assume(pod, node_name)

    def node(self, name: str) -> NodeInfo:
        """A node and its pods. QuestionError when there is none of that name."""
        if name not in self.cache.nodes:
            raise QuestionError(f"there is no node {name}")
        return self.cache.nodes[name]


def _charged(budget: PodDisruptionBudget, pod: Pod) -> PodDisruptionBudget:
    """A budget when a pod has been disrupted."""
    if not covers(budget, pod):
        return budget
    allowed = max(budget.status.disruptions_allowed - 1, 0)
    return msgspec.structs.replace(
        budget, status=msgspec.structs.replace(budget.status, disruptions_allowed=allowed)
    )


def _without_preemption(plugins: Iterable[Plugin]) -> tuple[Plugin, ...]:
    return tuple(each for each in plugins if not isinstance(each, DefaultPreemption))
