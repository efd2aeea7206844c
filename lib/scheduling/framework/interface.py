"""The extension points of plugins, with the names of Kubernetes' scheduling framework.

A plugin is a class with a `name` and the methods that it needs, no others. Results for a pod that it needs
at each node go into the CycleState.

Source: k8s.io/kube-scheduler/framework/interface.go; in words,
https://kubernetes.io/docs/concepts/scheduling-eviction/scheduling-framework/
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, cached_property
from reprlib import repr as short
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, TypeVar

from lib.kube.changes import AnyChange
from lib.kube.objects import Node, Pod
from lib.kube.resource_claims import UndoClaim
from lib.kube.resources import Need
from lib.scheduling.status import (
    MAX_NODE_SCORE as MAX_NODE_SCORE,
    SKIP as SKIP,
    BadAnswerError,
    Code as Code,
    CycleState,
    Rejection,
    Status,
    check_texts,
    unresolvable as unresolvable,
    unschedulable as unschedulable,
    wait as wait,
)  # with all that a plugin answers, so that the author of a plugin needs no other module

if TYPE_CHECKING:
    from lib.scheduling.cache import Cache
    from lib.scheduling.node_info import NodeInfo
    from lib.scheduling.node_slice import NodeSlice

ALIKE = "alike"
"""A key in the CycleState. Its value is equal for pods that no filter can tell apart, on any node.

The key is missing if a filter reads more than the pod, the node, and the pods of that node. After a node is
added, changed or deleted, pods get other values.
"""


class Plugin(Protocol):
    """The base of all plugins."""

    @property
    def name(self) -> str:
        """The plugin's name, in weights and in decisions."""


class FromFilesPlugin(Plugin, Protocol):
    """A plugin that is made of functions. Any other plugin is written in the file of its class."""

    @property
    def function_files(self) -> Collection[str]:
        """The paths of the files with its functions."""


class DependsOn(Enum):
    """What a plugin's result for a node depends on, besides the pod: it is kept until that changes."""

    NODES = "nodes"
    """The node's own fields: labels, taints, allocatable; images, also those of other nodes."""
    PODS = "pods"
    """The node's own fields, and the pods on it."""


class SignPlugin(Plugin, Protocol):
    """Gives the same results for pods with the same signature, so that results can be kept.

    A plugin that reads other nodes' pods must not implement it. A plugin without it is called for every pod.
    If all scores are equal, `normalize_score` is called with one of them, for all nodes.
    """

    @property
    def reads(self) -> DependsOn:
        """What its results depend on besides the pod."""

    def sign_pod(self, pod: Pod) -> Hashable:
        """The pod's signature: all that the plugin reads of a pod. Equal signatures mean equal results.

        If the plugin has a `queueing_hint`, too, that is asked once for pods with equal signatures.
        """


class ScoresResourcesPlugin(Plugin, Protocol):
    """Scores nodes by some resources. Devices may serve these: then results depend on which are taken."""

    @property
    def resources(self) -> Mapping[str, int]:
        """The weights of the resources, by name."""


class QueueSortPlugin(Plugin, Protocol):
    """Orders the active pods. A profile has one."""

    def queue_sort(self, pod: Pod) -> Any:
        """A key to sort pods by. The pod with the smallest key is first; with equal keys, the one that waits
        for longest.
        """


class PreEnqueuePlugin(Plugin, Protocol):
    """Says whether a pod may enter the active queue."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """A rejection keeps the pod out."""


class QueueingHintPlugin(Plugin, Protocol):
    """Says which changes could help a pod that it rejected. Without this, any change could."""

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """Whether to try the pod again after this change."""


class EnqueueExtensions(Plugin, Protocol):
    """Says which events could help a pod that it rejected. Its hint isn't asked about other events.

    Source: EnqueueExtensions in staging/src/k8s.io/kube-scheduler/framework/interface.go
    """

    @property
    def events_to_register(self) -> Collection[str]:
        """The names of these events, such as "NodeAdd"; not of changes of the pod itself."""


class HintSignPlugin(Plugin, Protocol):
    """Gives the same hints for pods with the same signature. Plugins that sign pods anyway don't need it."""

    def sign_for_hint(self, pod: Pod) -> Hashable:
        """All that `queueing_hint` reads of a pod, if the change isn't one of the pod itself."""


class ClaimHintPlugin(Plugin, Protocol):
    """Says which changes of a claim could help only the pods that have it."""

    def helps_owners_alone(self, change: AnyChange) -> bool:
        """Whether `queueing_hint` says no for each pod that neither names the changed claim nor owns it."""


class PreFilterPlugin(Plugin, Protocol):
    """Looks at a pod once, before the nodes are filtered."""

    def pre_filter(self, state: CycleState, pod: Pod, cache: Cache) -> set[str] | Status | None:
        """Keep what `filter` needs in the state.

        A set of names says that only these nodes can fit; SKIP, that `filter` needn't be called.
        """


class FilterPlugin(Plugin, Protocol):
    """Rules nodes out."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """A rejection means that the pod doesn't fit on the node."""


class FilterNodesPlugin(Plugin, Protocol):
    """Rules nodes out, many in one call, which is faster. It needs no `filter`."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[Status | None]:
        """For each node, None or a rejection. Called for a single node, too."""


class NeedingPlugin(Plugin, Protocol):
    """Reads more than nodes and pods.

    What it reads is looked up before a pod is tried, and poller needs the rights to it.
    """

    @property
    def needs(self) -> Collection[Need]:
        """What it may read. `Need.of` says whether a pod needs it."""


class NeedingForPodPlugin(NeedingPlugin, Protocol):
    """Says itself what a pod needs."""

    def needed_for(self, pod: Pod, cache: Cache, scores: bool) -> Iterable[tuple[Need, Hashable]]:
        """What is to be looked up for a pod, each with its key (see `Listers`).

        scores: whether the plugin scores nodes in this profile.
        """


Lines = Iterable[str]
Rejected = Mapping[str, Status]


class ExplainPlugin(Plugin, Protocol):
    """Explains its own rejections, for people who ask `why`: it says what the reasons leave out.

    For most of kube-scheduler's plugins, another class does that: it is in lib/scheduling/explaining.
    """

    def explain(self, state: CycleState, pod: Pod, cache: Cache, node: NodeInfo, status: Status) -> Lines:
        """Why it rejected a node with this status, with names and values: a short line for each reason."""


@dataclass(frozen=True)
class Remedy:
    """A change with which a pod may fit. `why` tries it, and shows it if the pod fits."""

    words: str = ""
    """Such as "without host port 80/TCP". For `removed`, `why` finds the words."""
    edit: Callable[[Pod], Pod | None] = lambda pod: pod
    """Returns a changed copy of the pod; None if the pod can't be changed in this way."""
    nodes: tuple[Node, ...] = ()
    """Changed nodes."""
    removed: tuple[Pod, ...] = ()
    """Pods that leave their nodes."""
    one_of: Hashable = None
    """Of the remedies with the same value, the first that helps is shown."""


Remedies = Iterable[Remedy]


class RemedyPlugin(Plugin, Protocol):
    """Says what may help a pod that fits nowhere, for people who ask `why`."""

    def remedies(self, state: CycleState, pod: Pod, cache: Cache, rejected: Rejected) -> Remedies:
        """Changes with which the pod may fit. rejected: each node's status, also those of other plugins."""


@dataclass(frozen=True)
class PostFilterResult:
    """A node on which the pod will fit when the victims have left it, or why there is none."""

    node_name: str | None
    """Without such a node, it is "", and a nomination of the pod ends. If that can't be found out, it is
    None, and the nomination stays."""
    victims: tuple[Pod, ...] = ()
    """The pods that must leave the node."""
    reasons: tuple[str, ...] = ()
    """Why there is no such node, for the message."""
    rejected_by: frozenset[str] = frozenset()
    """The plugins that would reject the pod even then. So a change that helps with these may help the pod."""


def check_post_filter(answer: PostFilterResult) -> None:
    """BadAnswerError if it names a node, gives reasons, or names plugins otherwise than as text."""
    check_texts([answer.node_name or ""], "a node")
    check_texts(answer.reasons, "a reason")
    if not isinstance(answer.rejected_by, frozenset | set):
        raise BadAnswerError(f"{short(answer.rejected_by)} is given for rejected_by, but isn't a set")
    check_texts(answer.rejected_by, "a plugin")


class PostFilterPlugin(Plugin, Protocol):
    """Runs when no node fits, and may make one fit."""

    def post_filter(
        self,
        state: CycleState,
        pod: Pod,
        cache: Cache,
        rejected: Mapping[str, Rejection],
        why_not: Callable[[str], Rejection | None],
    ) -> PostFilterResult | Status | None:
        """With a rejection, the pod keeps its nomination, and the reasons are added to the message.

        why_not: runs all filters for a node; returns the first rejection.
        """


class PreScorePlugin(Plugin, Protocol):
    """Looks at the feasible nodes, before they are scored."""

    def pre_score(
        self, state: CycleState, pod: Pod, cache: Cache, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        """Keep what `score` needs in the state. SKIP says that `score` needn't be called."""


class ScorePlugin(Plugin, Protocol):
    """Says how good a node is."""

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """From 0 to MAX_NODE_SCORE; any whole number if the plugin has `normalize_score`."""


class ScoreNodesPlugin(Plugin, Protocol):
    """Says how good nodes are, many in one call, which is faster. It needs no `score`."""

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[int]:
        """A score for each node, as of `score`. Called for a single node, too."""


class NormalizeScorePlugin(Plugin, Protocol):
    """Brings all its scores into the range from 0 to 100.

    A true attribute `equal_stay_equal` says that nodes with equal scores always stay equal. Then, when the
    scores of all nodes are equal, the plugin may be given only one of them, with "" as the node's name.
    """

    def normalize_score(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> None:
        """Change the scores, by node name, in place."""


class AnnotatePlugin(Plugin, Protocol):
    """Writes on a pod what the pod got on its node, such as which GPU."""

    def annotate(self, state: CycleState, pod: Pod, node: NodeInfo) -> Mapping[str, str]:
        """Annotations that the pod gets with its binding to this node, on which it isn't counted yet."""


class ReservePlugin(Plugin, Protocol):
    """Runs when a pod is assumed on a node, before it is bound there."""

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """A rejection ends the pod's cycle."""


class UnreservePlugin(Plugin, Protocol):
    """Undoes Reserve, when the pod is not bound there."""

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> Sequence[UndoClaim] | None:
        """Undo `reserve`, even if it wasn't called or failed. It must not fail.

        Returns what is to be written for that, if PreBind had something written.
        """


class PermitPlugin(Plugin, Protocol):
    """Approves the node, rejects it, or has the pod wait."""

    def permit(self, state: CycleState, pod: Pod, node_name: str, waited: float) -> Status | None:
        """WAIT keeps the node reserved, and Permit is called again (`SchedulingQueue.held`).

        waited: how long the pod has waited, in seconds.
        """


class PreBindPlugin(Plugin, Protocol):
    """Does what must be done before a pod is bound."""

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """A rejection means that the pod is not bound. After WAIT, PreBind is called again
        (`SchedulingQueue.held`).
        """


class BindPlugin(Plugin, Protocol):
    """Binds a pod, or leaves that to poller."""

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """SKIP leaves it to the next plugin, DEFAULT_BIND to poller."""


class PostBindPlugin(Plugin, Protocol):
    """Runs after a pod was bound."""

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Clean up."""


P = TypeVar("P", bound=Plugin)


def implements(plugin: object, kind: type[P]) -> TypeGuard[P]:
    """Whether a plugin has all methods and attributes of a kind of plugins.

    `isinstance` would say the same of a protocol, but Python 3.11 looks through the protocol each time.
    """
    return all(getattr(plugin, name, None) is not None for name in _members(kind))


@cache
def _members(kind: type) -> tuple[str, ...]:
    return tuple({name for base in kind.__mro__ for name in vars(base) if not name.startswith("_")})


EXTENSION_POINTS: Mapping[str, tuple[type[Plugin], ...]] = {
    "preEnqueue": (PreEnqueuePlugin,),
    "queueSort": (QueueSortPlugin,),
    "preFilter": (PreFilterPlugin,),
    "filter": (FilterPlugin, FilterNodesPlugin),
    "postFilter": (PostFilterPlugin,),
    "preScore": (PreScorePlugin,),
    "score": (ScorePlugin, ScoreNodesPlugin, NormalizeScorePlugin),
    "reserve": (ReservePlugin, UnreservePlugin),
    "permit": (PermitPlugin,),
    "preBind": (PreBindPlugin,),
    "bind": (BindPlugin,),
    "postBind": (PostBindPlugin,),
}
"""The kinds of plugins at each extension point, by the point's name in a configuration.

The other kinds have no extension point. SignPlugin, QueueingHintPlugin, EnqueueExtensions, HintSignPlugin and
ClaimHintPlugin describe a plugin. AnnotatePlugin is poller's own. ExplainPlugin and RemedyPlugin are for
people who ask.
"""


@dataclass(frozen=True)
class Profile:
    """A scheduler name, and how pods that name it are scheduled."""

    scheduler_name: str
    plugins: tuple[Plugin, ...]
    """All plugins, in the order in which they are called."""
    weights: Mapping[str, int]
    """By plugin name, the factor of its scores. A plugin without a weight doesn't score."""
    percentage_of_nodes_to_score: int = 0
    """How many feasible nodes are enough; 0 makes it depend on the size of the cluster."""
    points: Mapping[str, tuple[Plugin, ...]] = field(default_factory=dict)
    """By extension point, the plugins that are called there, in order. At any other point, those of `plugins`
    are called that have its methods."""

    @cached_property
    def needs(self) -> tuple[Need, ...]:
        """What the plugins may read besides nodes and pods."""
        needs = [need for plugin in self.with_point(NeedingPlugin) for need in plugin.needs]
        return tuple(dict.fromkeys(needs))

    @cached_property
    def plain_needs(self) -> tuple[Need, ...]:
        """The needs of plugins that leave it to `Need.of` which pods have them."""
        plain = [
            plugin for plugin in self.with_point(NeedingPlugin) if not implements(plugin, NeedingForPodPlugin)
        ]
        return tuple(dict.fromkeys([need for plugin in plain for need in plugin.needs]))

    @cached_property
    def needing(self) -> tuple[NeedingForPodPlugin, ...]:
        """The plugins that say themselves what a pod needs."""
        return tuple(plugin for plugin in self.with_point(NeedingForPodPlugin) if plugin.needs)

    @cached_property
    def reserving(self) -> frozenset[str]:
        """The names of the plugins that reserve more than room for a pod."""
        return frozenset(plugin.name for plugin in self.with_point(UnreservePlugin))

    def with_point(self, *kinds: type[P]) -> list[P]:
        """The plugins that are called at an extension point, in order. kinds: one or more of its kinds."""
        if kinds not in self._at_point:
            names = [name for name, all_kinds in EXTENSION_POINTS.items() if kinds[0] in all_kinds]
            asked = self.points.get(names[0], self.plugins) if names else self.plugins
            self._at_point[kinds] = [
                plugin for plugin in asked if any(implements(plugin, kind) for kind in kinds)
            ]
        return [*self._at_point[kinds]]

    @cached_property
    def _at_point(self) -> dict[tuple[type, ...], list[Any]]:
        return {}

    def filters(self) -> list[Plugin]:
        """The plugins that rule nodes out, in order."""
        return self.with_point(FilterPlugin, FilterNodesPlugin)

    def scorers(self) -> list[Plugin]:
        """The plugins that score nodes and have a weight."""
        plugins: list[Plugin] = self.with_point(ScorePlugin, ScoreNodesPlugin)
        return [plugin for plugin in plugins if plugin.name in self.weights]
