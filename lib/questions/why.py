"""`why`: why a pod has no node, and what would help; or why it is on its node, and if it would stay there."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lib.kube.objects import Event, Pod, PodGroupRef
from lib.kube.system import MACHINE
from lib.questions.deciding import Decider, node_of, queue_order, without_node
from lib.questions.device_claims import knows_devices
from lib.questions.events import Said, last_said
from lib.questions.explaining import Explaining
from lib.questions.leaving import leaving_text, makes_room
from lib.questions.snapshot import Snapshot
from lib.questions.suggestions import Suggestion, suggest, with_fixes
from lib.questions.verdict import Verdict, verdict
from lib.questions.volumes import ToProvision, to_provision
from lib.scheduling.decision import PLACED, Decision, Outcome
from lib.scheduling.groups.quorum import Quorum, quorum_of
from lib.scheduling.pod_groups import FOR_ITS_GROUP, group_of
from lib.scheduling.text import Line


@dataclass
class RejectedNodes:
    """Nodes that one plugin rejected for the same reasons, with details and their nodes."""

    plugin: str
    reasons: tuple[str, ...]
    nodes: list[str] = field(default_factory=list)
    details: dict[tuple[str, ...], list[str]] = field(default_factory=lambda: defaultdict(list))


@dataclass
class Why:
    """The answer.

    pod: as it is; decision: where it would go now. bound_to: its node, "" while it waits. gated: why no
    scheduler may place it yet. details: by rejected node, the details of its rejection. suggestions: what
    would help, if it fits nowhere. said: its scheduler's last message. events_known: whether its events were
    read. to_provision: the claims whose volumes aren't there yet. group: the group with which it is placed;
    rule: when that is. waits_for: if it waits for another pod of the group, why that one has no node.
    leaving: by node on which it fits once pods have left that are being deleted, these pods. now: the time.
    """

    pod: Pod
    decision: Decision
    profile: str
    bound_to: str = ""
    gated: str = ""
    details: Mapping[str, Sequence[str]] = field(default_factory=dict)
    suggestions: Sequence[Suggestion] = ()
    said: Said | None = None
    events_known: bool = False
    to_provision: Sequence[ToProvision] = ()
    group: str = ""
    rule: str = ""
    waits_for: "Why | None" = None
    leaving: Mapping[str, Sequence[Pod]] = field(default_factory=dict)
    now: datetime = field(default_factory=MACHINE.now)

    @property
    def waits_for_group(self) -> bool:
        """Whether it has no node because the other pods of its group have none, or aren't there."""
        return self.decision.rejecting_plugin in FOR_ITS_GROUP

    @property
    def yes(self) -> bool:
        """Whether it has a node, or would get one, even if by preemption."""
        return bool(self.bound_to or (node_of(self.decision) and not self.gated))

    @property
    def verdict(self) -> Verdict:
        """Whether it has a node, or would get one; unknown if that depends on devices that can't be seen."""
        return verdict(self.yes, sure=self.yes or knows_devices(self.decision))

    @property
    def groups(self) -> list[RejectedNodes]:
        """The rejected nodes by reason, the most frequent first; in each, the most frequent details first."""
        found: dict[tuple[str, tuple[str, ...]], RejectedNodes] = {}
        for name, rejection in self.decision.rejected.items():
            key = rejection.plugin, rejection.status.reasons
            group = found.setdefault(key, RejectedNodes(*key))
            group.nodes.append(name)
            group.details[tuple(self.details.get(name, ()))].append(name)
        return sorted(found.values(), key=lambda group: (-len(group.nodes), group.plugin))

    def as_json(self) -> dict[str, Any]:
        """The whole answer."""
        decision = self.decision
        nodes: dict[str, Any] = {
            name: {
                "rejected_by": rejection.plugin,
                "reasons": rejection.status.reasons,
                "details": [str(line) for line in self.details.get(name, ())],
                "lacks": [line.numbers for line in self.details.get(name, ()) if isinstance(line, Line)],
            }
            for name, rejection in decision.rejected.items()
        }
        for name, total in decision.totals.items():
            nodes[name] = {"scores": decision.scores[name], "total": total}
        return {
            "question": "why",
            "answer": self.verdict.word,
            "pod": str(self.pod),
            "scheduler": self.pod.spec.scheduler_name,
            "profile": self.profile,
            "bound_to": self.bound_to or None,
            "gated": self.gated or None,
            "outcome": decision.outcome,
            "node": decision.node_name if decision.outcome in PLACED else None,
            "message": decision.message,
            "nominated": decision.nominated or None,
            "victims": [str(victim) for victim in decision.victims],
            "nodes": dict(sorted(nodes.items())),
            "suggestions": [
                {"changes": [fix.words for fix in suggestion.fixes], "nodes": suggestion.fits_on}
                for suggestion in self.suggestions
            ],
            "leaving": {
                name: {str(pod): leaving_text(pod, self.now) for pod in pods}
                for name, pods in self.leaving.items()
            },
            "said": self.said,
            "to_provision": [claim.as_json() for claim in self.to_provision],
            "group": self.group or None,
            "waits_for": self.waits_for and self.waits_for.as_json(),
        }


def why(pod: Pod, snapshot: Snapshot, decider: Decider, *, suggestions: bool = True) -> Why:
    """Decide about a pod as if it had no node yet, and explain the result.

    suggestions: whether to look for what would help.
    """
    found = _why_alone(pod, snapshot, decider, look_for=suggestions)
    group = group_of(pod)
    if group and not pod.spec.node_name and not found.gated:
        found.group = group.name
        quorum = quorum_of([pod], group, decider.cache)
        found.rule = quorum.rule if isinstance(quorum, Quorum) else ""
        _with_its_group(found, _waiting_members(group, snapshot, decider), decider)
    return found


def _why_alone(pod: Pod, snapshot: Snapshot, decider: Decider, *, look_for: bool) -> Why:
    bound_to = pod.spec.node_name
    with decider.temporarily(removed=[pod] if bound_to else []):
        decision = decider.ask(without_node(pod) if bound_to else pod)
        helpless = decision.outcome == Outcome.UNSCHEDULABLE or bool(decider.gated(pod))
        found = why_nowhere(pod, decision, decider, suggestions=look_for and helpless and not bound_to)
    found.bound_to, found.events_known = bound_to, Event in snapshot.objects
    found.said = last_said(snapshot, pod)
    found.to_provision = [] if bound_to else to_provision(pod, decider.cache.storage, snapshot)
    return found


def _waiting_members(group: PodGroupRef, snapshot: Snapshot, decider: Decider) -> list[Pod]:
    """The pods of a group that a scheduler would try, in its order."""
    waiting = [
        pod
        for pod in snapshot.of(Pod)
        if group_of(pod) == group
        and not (pod.metadata.deletion_timestamp or pod.spec.node_name or decider.gated(pod))
    ]
    return sorted(waiting, key=queue_order)


def _with_its_group(found: Why, members: Sequence[Pod], decider: Decider) -> None:
    """Decide about all pods of a waiting pod's group; the answer is then what becomes of it among them."""
    if found.pod not in members:
        return  # it is being deleted
    decisions = decider.ask_together(members)
    found.decision = decisions[members.index(found.pod)]
    found.details, found.suggestions = {}, []
    rejected_itself = [
        pod for pod, decision in zip(members, decisions, strict=True) if _fits_nowhere(decision)
    ]
    if found.yes or not rejected_itself:
        return  # it has a node, or other pods of the group are still to come
    first = members.index(found.pod if found.pod in rejected_itself else rejected_itself[0])
    with decider.placed(members[:first]):
        fails = why_nowhere(members[first], decider.ask(members[first]), decider)
    fails.suggestions = [
        suggestion for suggestion in fails.suggestions if _helps_group(suggestion, members, first, decider)
    ]
    if members[first] is found.pod:
        found.decision, found.details, found.suggestions = fails.decision, fails.details, fails.suggestions
    else:
        found.waits_for = fails


def _fits_nowhere(decision: Decision) -> bool:
    """Whether a pod of a group has no node for a reason of its own, and not because of its group."""
    return not node_of(decision) and decision.rejecting_plugin not in FOR_ITS_GROUP


def _helps_group(suggestion: Suggestion, members: Sequence[Pod], asked: int, decider: Decider) -> bool:
    """Whether a group gets nodes, that pod too, with a suggestion for it, made to all with its controller."""
    if any(pod in members for fix in suggestion.fixes for pod in fix.removed):
        return False
    pods = [pod for pod in suggestion.made_to(members, members[asked]) if pod]
    if len(pods) < len(members):
        return False
    with with_fixes(decider, suggestion.fixes):
        return bool(node_of(decider.ask_together(pods)[asked]))


def why_nowhere(pod: Pod, decision: Decision, decider: Decider, *, suggestions: bool = True) -> Why:
    """Why a decision found no node for a pod, and what would help, as things are now.

    suggestions: whether to look for what would help.
    """
    profile = decider.profile_of(pod)
    details = Explaining(decision, profile, decider.cache).details()
    would_help = suggest(decision, decider) if suggestions else []
    leaving = dict(makes_room(decision, decider)) if suggestions else {}
    gone = {id(pod) for pods in leaving.values() for pod in pods}
    would_help = [
        suggestion
        for suggestion in would_help
        if not suggestion.removed or any(id(pod) not in gone for pod in suggestion.removed)
    ]
    gated = decider.gated(pod)
    return Why(
        pod,
        decision,
        profile.scheduler_name,
        gated=gated,
        details=details,
        suggestions=would_help,
        leaving=leaving,
        now=decider.now,
    )
