"""Nominated nodes: room is kept there for pods that preempt others.

Counterpart in kube-scheduler: pkg/scheduler/backend/queue/nominator.go; pkg/scheduler/framework/preemption,
and clearNominatedNode in pkg/scheduler/schedule_one.go
"""

from collections.abc import Collection

from msgspec.structs import replace

from lib.kube.objects import Pod
from lib.scheduling.decision import Decision
from lib.scheduling.pod_life import UNSENT, PodLife, PodLives, pod_key


class Nominator:
    """Nominates pods, and finds the pods that are nominated to a node. Each pod's record has its nomination.

    A pod with reserved room keeps its nomination, as that room may be given back. Meanwhile no room is kept
    for it elsewhere.
    """

    def __init__(self, lives: PodLives) -> None:
        self._lives, self._by_node = lives, lives.nominated

    def add(self, pod: Pod, node_name: str) -> None:
        """Nominate a pod to a node; "" deletes its nomination."""
        if not node_name:
            self.delete(pod)
            return
        life = self._lives.of(pod)
        self._lives.forget_nomination(life)
        if life.pod is not pod:
            self._lives.update(life, pod)
        life.nominated = node_name
        self._lives.index_nomination(life)

    def delete(self, pod: Pod) -> None:
        """Delete a pod's nomination."""
        life = self._lives.get(pod_key(pod))
        if not (life and life.nominated):
            return
        self._lives.forget_nomination(life)
        life.nominated = ""
        self._lives.tidy(life)

    def node_of(self, pod: Pod) -> str | None:
        """The name of the node to which a pod is nominated, unless it has room already."""
        if not self._by_node:
            return None  # as nearly always
        life = self._lives.get(pod_key(pod))
        return life.nominated or None if life and not life.has_room else None

    def nominated_before(self, pod: Pod) -> dict[str, list[Pod]]:
        """By node name, the other pods nominated there whose priority isn't lower than this pod's."""
        found = {}
        if self._by_node:
            key, priority = pod_key(pod), pod.spec.priority
            for name, lives in self._by_node.items():  # without a call for each, as there may be thousands
                before = [
                    life.pod
                    for life in lives.values()
                    if life.pod.spec.priority >= priority and life.key != key
                ]
                if before:
                    found[name] = before
        return found

    def nominated_before_on(self, node_name: str, pod: Pod) -> list[Pod]:
        """The other pods nominated to a node whose priority isn't lower than this pod's."""
        key, priority = pod_key(pod), pod.spec.priority
        others = self._nominated_to(node_name)
        return [life.pod for life in others if life.pod.spec.priority >= priority and life.key != key]

    def less_important(self, pod: Pod, node_name: str) -> list[Pod]:
        """The pods nominated to a node whose priority is lower than this pod's."""
        others = self._nominated_to(node_name)
        return [life.pod for life in others if life.pod.spec.priority < pod.spec.priority]

    def _nominated_to(self, node_name: str) -> Collection[PodLife]:
        return self._by_node.get(node_name, {}).values()

    # --- what a decision does to nominations ------------------------------------------------------------

    def nominate(self, decision: Decision, node_name: str, victims: tuple[Pod, ...]) -> Decision:
        """Nominate the pod to the node that its victims leave (preemption.go, prepareCandidate).

        A victim whose binding isn't sent yet isn't deleted, but gives up its node. A victim that may be bound
        is deleted. Pods of lower priority lose their nomination to the node. They keep it if all victims are
        leaving already, as nothing is done for the pod then (executor.go, prepareCandidateAsync).
        """
        phase_of = self._lives.phase_of
        cleared: tuple[Pod, ...] = ()
        if any(not victim.metadata.deletion_timestamp for victim in victims):
            cleared = tuple(self.less_important(decision.pod, node_name))
        for other in cleared:
            self.delete(other)
        self.add(decision.pod, node_name)
        self._lives.preempt(victims)
        return replace(
            decision,
            nominated=node_name,
            victims=tuple(victim for victim in victims if phase_of(victim) not in UNSENT),
            preempted_held=tuple(victim for victim in victims if phase_of(victim) in UNSENT),
            cleared_nominations=cleared,
        )

    def undo_preemption(self, decision: Decision) -> Decision:
        """Undo a decision's nomination, and evict no pods for it: not all pods of its group have room."""
        if not decision.nominated:
            return decision
        self.delete(decision.pod)
        self._lives.spare(decision.preempted)
        for other in decision.cleared_nominations:
            self.add(other, decision.nominated)
        return replace(decision, nominated="", victims=(), preempted_held=(), cleared_nominations=())

    def end_nomination(self, decision: Decision) -> Decision:
        """An attempt has ended without a node. An earlier nomination ends, too, so its room is free."""
        pod = decision.pod
        was_nominated = self.node_of(pod) or pod.status.nominated_node_name or decision.waits_in
        self.delete(pod)
        return replace(decision, clears_nomination=bool(was_nominated))
