"""`why`: why a pod has no node, and what would help; or why it is on its node, and if it would stay there."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lib.kube.objects import Pod
from lib.questions.deciding import PLACED, Decider, without_node
from lib.questions.events import Event, Said, last_said
from lib.questions.rejections import Details
from lib.questions.snapshot import Snapshot
from lib.questions.suggestions import Suggestion, suggest
from lib.questions.text import QuestionError, names
from lib.scheduling.decision import Decision, Outcome


@dataclass
class Group:
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
    read.
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

    @property
    def yes(self) -> bool:
        """Whether it has a node, or would get one, even if by preemption."""
        found = self.decision.outcome in PLACED or bool(self.decision.nominated)
        return bool(self.bound_to) or (found and not self.gated)

    @property
    def groups(self) -> list[Group]:
        """The rejected nodes by reason, the most frequent first; in each, the most frequent details first."""
        found: dict[tuple[str, tuple[str, ...]], Group] = {}
        for name, rejection in self.decision.rejected.items():
            key = rejection.plugin, rejection.status.reasons
            group = found.setdefault(key, Group(*key))
            group.nodes.append(name)
            group.details[tuple(self.details.get(name, ()))].append(name)
        return sorted(found.values(), key=lambda each: (-len(each.nodes), each.plugin))

    def as_json(self) -> dict[str, Any]:
        """The whole answer."""
        decision = self.decision
        nodes: dict[str, Any] = {
            name: {
                "rejected_by": each.plugin,
                "reasons": each.status.reasons,
                "details": list(self.details.get(name, ())),
            }
            for name, each in decision.rejected.items()
        }
        for name, total in decision.totals.items():
            nodes[name] = {"scores": decision.scores[name], "total": total}
        said = self.said and {
            "by": self.said.by,
            "reason": self.said.reason,
            "message": self.said.message,
            "at": self.said.at,
            "times": self.said.times,
        }
        return {
            "question": "why",
            "answer": "yes" if self.yes else "no",
            "pod": str(self.pod),
            "scheduler": self.pod.spec.scheduler_name,
            "profile": self.profile,
            "bound_to": self.bound_to or None,
            "gated": self.gated or None,
            "outcome": decision.outcome,
            "node": decision.node_name if decision.outcome in PLACED else None,
            "message": decision.message,
            "nominated": decision.nominated or None,
            "victims": [str(each) for each in decision.victims],
            "nodes": dict(sorted(nodes.items())),
            "suggestions": [
                {"changes": [fix.words for fix in each.fixes], "nodes": each.fits_on}
                for each in self.suggestions
            ],
            "said": said,
        }


def find_pod(snapshot: Snapshot, name: str, namespace: str) -> Pod:
    """A pod by `name` or `namespace/name`. QuestionError when there is none."""
    where, slash, its_name = name.rpartition("/")
    where = where if slash else namespace
    pods = snapshot.of(Pod)
    for pod in pods:
        if (pod.metadata.namespace, pod.metadata.name) == (where, its_name):
            return pod
    elsewhere = sorted({pod.metadata.namespace for pod in pods if pod.metadata.name == its_name})
    hint = f"; there is one in {names(elsewhere)}" if elsewhere else ""
    raise QuestionError(f"there is no pod {its_name} in namespace {where} that hasn't finished{hint}")


def why(pod: Pod, snapshot: Snapshot, decider: Decider) -> Why:
    """Decide about a pod as if it had no node yet, and explain the result."""
    bound_to = pod.spec.node_name
    profile = decider.profile_of(pod).scheduler_name
    asked = without_node(pod) if bound_to else pod
    with decider.temporarily(removed=[pod] if bound_to else []):
        decision = decider.ask(asked)
        gated = decider.gated(asked)
        details = Details(decision, decider.cache)
        said_of = {name: details.of(name, each) for name, each in decision.rejected.items()}
        helpless = decision.outcome == Outcome.UNSCHEDULABLE or bool(gated)
        suggestions = suggest(decision, decider) if helpless and not bound_to else []
    events_known = Event in snapshot.objects
    said = last_said(snapshot, pod)
    return Why(pod, decision, profile, bound_to, gated, said_of, suggestions, said, events_known)


def why_nowhere(pod: Pod, decision: Decision, decider: Decider) -> Why:
    """Why a decision found no node for a pod, and what would help, as things are now."""
    details = Details(decision, decider.cache)
    said_of = {name: details.of(name, each) for name, each in decision.rejected.items()}
    profile = decider.profile_of(pod).scheduler_name
    return Why(pod, decision, profile, "", decider.gated(pod), said_of, suggest(decision, decider))
