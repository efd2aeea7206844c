"""An attempt to schedule a pod: what is being worked out in its scheduling cycle."""

from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping, Set
from typing import Any

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.framework.runtime import PreFilterAnswer
from lib.scheduling.pod_life import pod_key
from lib.scheduling.result_cache import PluginResults
from lib.scheduling.status import SKIP, CycleState, Rejection, rejection_by, unresolvable

NOT_ALLOWED = "node(s) didn't satisfy plugin(s) [{}]"
"""The reason for nodes that a PreFilter plugin didn't name."""


class SchedulingAttempt:
    """One attempt at a pod. The steps of its cycle note here what they find out; `decide` ends it."""

    results: PluginResults
    """The kept results for pods like this one. The cycle's first step sets them."""

    def __init__(self, pod: Pod, cache: Cache, began: float = 0.0) -> None:
        self.pod, self.cache, self.began = pod, cache, began
        self.state: CycleState = {}
        """The plugins' own data."""
        self.skipped: set[str] = set()
        """The plugins whose PreFilter said that their Filter has nothing to do."""
        self.allowed_nodes: dict[str, Set[str]] = {}
        """By PreFilter plugin, the names of the only nodes that it allows."""
        self.nominated: Mapping[str, list[Pod]] = {}
        """By node name, the pods nominated there for which this one leaves room. Filter sets it."""
        self.rejection: Rejection | None = None
        """The rejection by a PreFilter plugin, if the pod fits nowhere."""
        self.rejected: MutableMapping[str, Rejection] = {}
        """By node, why it doesn't fit."""
        self.decision: Decision | None = None
        """The decision, as soon as a node is picked."""

    def decide(self, outcome: Outcome, message: str, **more: Any) -> Decision:
        """The decision that ends this attempt. more: further fields of it."""
        life = self.cache.lives.get(pod_key(self.pod))
        if life:
            more |= {"attempt": life.attempts + 1, "queued": life.queued, "flushed": life.flushed}
        return Decision(
            self.pod,
            outcome,
            message,
            all_nodes=len(self.cache.nodes),
            rejected=self.rejected,
            state=self.state,
            began=self.began,
            **more,
        )

    def note_pre_filter(self, answers: Mapping[str, PreFilterAnswer]) -> Rejection | None:
        """Note what PreFilter plugins answered. Returns the rejection, if the pod fits nowhere."""
        for plugin, answer in answers.items():
            if answer is None:
                continue
            if answer is SKIP or answer == SKIP:
                self.skipped.add(plugin)
            elif isinstance(answer, Set):
                self.allowed_nodes[plugin] = answer
            else:
                self.rejection = Rejection(plugin, answer)
        return self.rejection

    def not_allowed_on(self, node_name: str) -> Rejection | None:
        """The rejection by the first plugin that doesn't allow a node; None if all do."""
        for plugin, names in self.allowed_nodes.items():
            if node_name not in names:
                return _not_allowed_by(plugin)
        return None

    def reject_not_allowed(self) -> list[int]:
        """Reject the nodes that a plugin doesn't allow, without a visit to each.

        Returns the indexes in `Cache.node_list` of the others.
        """
        index = self.cache.node_index
        (plugin, names), *more = self.allowed_nodes.items()
        rejected = {**self.rejected}
        if more:
            rejected |= {name: why for name in names if name in index and (why := self.not_allowed_on(name))}
        common = CommonRejection(_not_allowed_by(plugin), index, names)
        self.rejected = ChainMap(rejected, common)  # type: ignore[arg-type]  # writes go to the first map only
        return sorted(index[name] for name in names if name in index and not (more and name in rejected))


class CommonRejection(Mapping[str, Rejection]):
    """One rejection for all nodes except some, by name. It needs no memory for each of them.

    node_names: of all nodes, in order; it must not change. exempt: the names of the nodes without this
    rejection; unknown names do no harm.
    """

    def __init__(self, rejection: Rejection, node_names: Mapping[str, object], exempt: Set[str]) -> None:
        self._rejection, self._node_names, self._exempt = rejection, node_names, exempt

    def __getitem__(self, node_name: str) -> Rejection:
        if node_name in self._exempt or node_name not in self._node_names:
            raise KeyError(node_name)
        return self._rejection

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._node_names if name not in self._exempt)

    def __len__(self) -> int:
        return len(self._node_names) - sum(name in self._node_names for name in self._exempt)


def _not_allowed_by(plugin: str) -> Rejection:
    return rejection_by(plugin, unresolvable(NOT_ALLOWED.format(plugin)))
