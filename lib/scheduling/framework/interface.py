"""Extension points: what a plugin may have, under the names of the scheduling framework.

A plugin is a class with a `name` and the methods it needs, no others. What it works out once for a pod it
keeps in the CycleState, and reads there for each node.

Source: k8s.io/kube-scheduler/framework/interface.go; in words,
https://kubernetes.io/docs/concepts/scheduling-eviction/scheduling-framework/
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from reprlib import repr as short
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from lib.kube.changes import AnyChange
from lib.kube.objects import Pod
from lib.kube.storage import PersistentVolume, PersistentVolumeClaim

if TYPE_CHECKING:
    from lib.scheduling.cache import Cache
    from lib.scheduling.node_info import NodeInfo
    from lib.scheduling.node_slice import NodeSlice

CycleState = dict[str, Any]
"""What is known of the pod whose cycle it is. Plugins choose keys that begin with their name."""

ALIKE = "alike"
"""The key in a CycleState of what is equal for pods alike: no filter tells them apart on any node.

It isn't there if a filter reads more than the pod, the node, and the pods of that node. When a node is added,
changed or deleted, pods that come later have another value.
"""

MAX_NODE_SCORE = 100
"""The best a plugin can give a node; the worst is 0."""


class Code(Enum):
    """How a plugin answers when it doesn't just agree; in kube-scheduler's words."""

    UNSCHEDULABLE = "Unschedulable"
    """Not now: something in the cluster may change, or be made to."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = "UnschedulableAndUnresolvable"
    """Not here, and removing other pods would not help."""
    WAIT = "Wait"
    """Permit and PreBind: not yet, ask again at the next tick."""
    SKIP = "Skip"
    """Nothing to do for this pod: don't ask again in this cycle. Of Bind: another plugin shall."""
    DEFAULT_BIND = "post"
    """Of Bind: poller shall, by a POST of the binding."""


@dataclass(frozen=True)
class Status:
    """An answer with its reasons, in words for people. None stands for success.

    limit: of WAIT, after how many seconds the pod is rejected. writes: of PreBind's WAIT, claims and volumes
    that poller is to write first.
    """

    code: Code
    reasons: tuple[str, ...] = ()
    limit: float = 0.0
    writes: tuple[PersistentVolume | PersistentVolumeClaim, ...] = ()


def unschedulable(*reasons: str) -> Status:
    """Not now."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """Not here, whoever else leaves."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def wait(
    *reasons: str,
    limit: float = 900.0,
    writes: Sequence[PersistentVolume | PersistentVolumeClaim] = (),
) -> Status:
    """Not yet; and if not within `limit` seconds, not at all. writes: what poller is to write first."""
    return Status(Code.WAIT, reasons, limit, tuple(writes))


SKIP = Status(Code.SKIP)
DEFAULT_BIND = Status(Code.DEFAULT_BIND)


class BadAnswerError(Exception):
    """A plugin answered what its extension point doesn't allow. The text says what, and of which function."""


class PluginError(Exception):
    """A plugin can't find out what it is asked. The text says who, where and why."""


def checked(answer: Status | None) -> Status | None:
    """The answer of a plugin. BadAnswerError if it is neither None nor a Status with a code and reasons."""
    if answer is None or answer is SKIP:
        return answer
    if not isinstance(answer, Status):
        raise BadAnswerError(f"{short(answer)} is neither None nor a Status")
    if not isinstance(answer.code, Code) or not isinstance(answer.reasons, tuple | list):
        raise BadAnswerError(f"{short(answer)} needs a Code and a tuple of reasons")
    for reason in answer.reasons:
        if not isinstance(reason, str) or not (reason.isascii() or _is_text(reason)):
            raise BadAnswerError(f"{short(reason)} is given as a reason, but isn't text")
    return answer


def _is_text(reason: str) -> bool:
    """Whether UTF-8 can encode a string: a string of Python may hold half of a surrogate pair."""
    try:
        reason.encode()
    except UnicodeEncodeError:
        return False
    return True


@runtime_checkable
class Plugin(Protocol):
    """What all plugins have."""

    @property
    def name(self) -> str:
        """What it is called, in weights and in decisions."""


class DependsOn(Enum):
    """What a plugin's answer about a node depends on, besides the pod: it stands until that changes."""

    NODES = "nodes"
    """The node as it is described: labels, taints, allocatable; images, also those of other nodes."""
    PODS = "pods"
    """The node itself, and the pods that are on it."""


@runtime_checkable
class SignPlugin(Plugin, Protocol):
    """Gives the same answers for pods that it can't tell apart, so that they need be found only once.

    A plugin without this is asked about every pod anew, and so must one be that looks at other nodes' pods.
    Scores of one that has this are normalized alike where they are alike.
    """

    @property
    def reads(self) -> DependsOn:
        """What else its answers depend on."""

    def sign_pod(self, pod: Pod) -> Hashable:
        """All that it reads of a pod; equal for pods that are alike to it."""


@runtime_checkable
class QueueSortPlugin(Plugin, Protocol):
    """Orders the pods that wait. A profile has one."""

    def queue_sort(self, pod: Pod) -> Any:
        """A key to sort pods by: the smallest goes first."""


@runtime_checkable
class PreEnqueuePlugin(Plugin, Protocol):
    """Says whether a pod may be queued at all."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """A rejection keeps the pod out."""


@runtime_checkable
class QueueingHintPlugin(Plugin, Protocol):
    """Says what could help a pod that it rejected; without this, any change could."""

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """Whether it is worth trying the pod again."""


@runtime_checkable
class PreFilterPlugin(Plugin, Protocol):
    """Looks at a pod once, before any node is looked at."""

    def pre_filter(self, state: CycleState, pod: Pod, cache: Cache) -> set[str] | Status | None:
        """Keep what `filter` needs. A set of names: no other node is worth it. SKIP: don't ask `filter`."""


@runtime_checkable
class FilterPlugin(Plugin, Protocol):
    """Rules nodes out."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """A rejection rules the node out."""


@runtime_checkable
class FilterNodesPlugin(FilterPlugin, Protocol):
    """Can be asked about many nodes at once, too, which is faster. Who overrides one overrides both."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[Status | None]:
        """What `filter` says of each."""


@dataclass(frozen=True)
class PostFilterResult:
    """A node on which the pod will fit, when these pods have left it."""

    node_name: str
    victims: tuple[Pod, ...] = ()


@runtime_checkable
class PostFilterPlugin(Plugin, Protocol):
    """Is asked when no node is left, and may make one fit."""

    def post_filter(
        self,
        state: CycleState,
        pod: Pod,
        cache: Cache,
        rejected: Mapping[str, Status],
        why_not: Callable[[str], Status | None],
    ) -> PostFilterResult | Status | None:
        """A rejection's reasons end the message. `why_not` asks all filters about a node."""


@runtime_checkable
class PreScorePlugin(Plugin, Protocol):
    """Looks at the nodes that are left, before they are scored."""

    def pre_score(
        self, state: CycleState, pod: Pod, cache: Cache, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        """Keep what `score` needs; SKIP leaves `score` out."""


@runtime_checkable
class ScorePlugin(Plugin, Protocol):
    """Says how good a node is."""

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """0 to MAX_NODE_SCORE; any number, if the plugin has `normalize_score`."""


@runtime_checkable
class ScoreNodesPlugin(ScorePlugin, Protocol):
    """Can be asked about many nodes at once, too, which is faster. Who overrides one overrides both."""

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[int]:
        """What `score` says of each."""


@runtime_checkable
class NormalizeScorePlugin(ScorePlugin, Protocol):
    """Brings its scores into the range when it has seen them all."""

    def normalize_score(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> None:
        """Change the scores, by node name, in place."""


@runtime_checkable
class ReservePlugin(Plugin, Protocol):
    """Is told when a pod is counted on a node, before it is bound there."""

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """A rejection ends the pod's cycle."""


@runtime_checkable
class UnreservePlugin(Plugin, Protocol):
    """Is told when that came to nothing."""

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undo `reserve`, also one that was never done or that failed. May not fail itself."""


@runtime_checkable
class PermitPlugin(Plugin, Protocol):
    """Has the last word before the binding."""

    def permit(self, state: CycleState, pod: Pod, node_name: str, waited: float) -> Status | None:
        """WAIT holds the node for the pod and asks again at the next tick; `waited` is in seconds."""


@runtime_checkable
class PreBindPlugin(Plugin, Protocol):
    """Does what must be done before a pod is bound."""

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """A rejection means that the pod is not bound. WAIT: the plugin is asked again at the next tick."""


@runtime_checkable
class BindPlugin(Plugin, Protocol):
    """Binds a pod, or leaves that to poller."""

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """SKIP leaves it to the next one, POST to poller."""


@runtime_checkable
class PostBindPlugin(Plugin, Protocol):
    """Is told of a pod that was bound."""

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Tidy up."""


P = TypeVar("P", bound=Plugin)

EXTENSION_POINTS: Mapping[str, tuple[type[Plugin], ...]] = {
    "preEnqueue": (PreEnqueuePlugin,),
    "queueSort": (QueueSortPlugin,),
    "preFilter": (PreFilterPlugin,),
    "filter": (FilterPlugin,),
    "postFilter": (PostFilterPlugin,),
    "preScore": (PreScorePlugin,),
    "score": (ScorePlugin, NormalizeScorePlugin),
    "reserve": (ReservePlugin, UnreservePlugin),
    "permit": (PermitPlugin,),
    "preBind": (PreBindPlugin,),
    "bind": (BindPlugin,),
    "postBind": (PostBindPlugin,),
}
"""What is asked in each part of a pod's way, under the name that a configuration has for it.

SignPlugin and QueueingHintPlugin are in none: they speak for a plugin wherever else it is asked. Nor are
FilterNodesPlugin and ScoreNodesPlugin: who has them is asked at "filter" and "score" as any other.
"""


@dataclass(frozen=True)
class Profile:
    """A scheduler name, and how pods that name it are placed.

    plugins: in the order in which they are asked. weights: what scores are multiplied by, by plugin name; a
    plugin without a weight isn't asked to score. percentage_of_nodes_to_score: how many feasible nodes are
    enough; 0 lets the size of the cluster decide. points: who is asked at an extension point, and in which
    order, where that isn't everyone who has it, in the order of `plugins`.
    """

    scheduler_name: str
    plugins: tuple[Plugin, ...]
    weights: Mapping[str, int]
    percentage_of_nodes_to_score: int = 0
    points: Mapping[str, tuple[Plugin, ...]] = field(default_factory=dict)

    def with_point(self, kind: type[P]) -> list[P]:
        """The plugins that are asked at an extension point, such as FilterPlugin, in order."""
        names = [name for name, kinds in EXTENSION_POINTS.items() if kind in kinds]
        asked = self.points.get(names[0], self.plugins) if names else self.plugins
        return [plugin for plugin in asked if isinstance(plugin, kind)]

    def scoring(self, kind: type[P]) -> list[P]:
        """The plugins with an extension point that serves scoring."""
        return [plugin for plugin in self.with_point(kind) if plugin.name in self.weights]
