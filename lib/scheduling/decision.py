"""What was decided for a pod, and why."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lib.kube.objects import Pod


@dataclass(frozen=True)
class Rejection:
    """The plugin that ruled a node out, and its reasons."""

    plugin: str
    reasons: Sequence[str]


@dataclass(frozen=True)
class Decision:
    """The node for a pod, or none.

    feasible: names of the nodes that every filter let pass. rejected: the others, with who rejected them.
    """

    pod: Pod
    node_name: str | None
    feasible: Sequence[str]
    rejected: dict[str, Rejection]

    @property
    def message(self) -> str:
        """The decision in the words of kube-scheduler's events (framework/types.go, FitError.Error)."""
        if self.node_name:
            return f"Successfully assigned {self.pod} to {self.node_name}"
        if not self.rejected:
            return "no nodes available to schedule pods"
        reasons = Counter(reason for each in self.rejected.values() for reason in each.reasons)
        # kube-scheduler sorts the finished words, so "10 …" comes before "2 …".
        counted = sorted(f"{count} {reason}" for reason, count in reasons.items())
        return f"0/{len(self.rejected)} nodes are available: {', '.join(counted)}."
