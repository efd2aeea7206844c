"""Policies of plain functions: a file's functions become a plugin."""

import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from lib.kube.changes import AnyChange, Kind
from lib.kube.objects import Node, Pod
from lib.scheduling import edits
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import DependsOn, Lines, Plugin, Rejected, Remedies, Remedy
from lib.scheduling.hints import changed_itself
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.policies.answers import IN_PLACE, SIGNATURE, is_hashable, is_several, wrong
from lib.scheduling.policies.views import NodeView, PodView
from lib.scheduling.status import MAX_NODE_SCORE, BadAnswerError, CycleState, Status, unschedulable

Function = Callable[..., Any]


class FunctionPolicy:
    """The functions of a file as one plugin. Its class has the extension points of these functions."""

    def __init__(self, name: str, functions: Mapping[str, Function]) -> None:
        self.name = name
        self.functions = functions
        state = functions.get("state")
        self._state = (lambda node: state(NodeView(node))) if state else None

    @property
    def function_files(self) -> set[str]:
        """The files that define the functions: the policy's own, and those that it imports some from."""
        codes = (getattr(inspect.unwrap(function), "__code__", None) for function in self.functions.values())
        return {code.co_filename for code in codes if code}

    def _node(self, node: NodeInfo) -> NodeView:
        return NodeView(node, self._state(node)) if self._state else NodeView(node)

    def _nodes(self, nodes: NodeSlice) -> Iterable[NodeView]:
        """The nodes as functions get them. What the policy's `state(node)` made of each is kept."""
        return map(NodeView, nodes, nodes.values(self._state)) if self._state else map(NodeView, nodes)

    def _bad(self, name: str, answer: object, about: str, wanted: str) -> BadAnswerError:
        return wrong(self.functions[name], answer, wanted, about)


class _Filter(FunctionPolicy):
    """`filter(pod, node) -> bool | str`: True lets the node pass, a string says why not."""

    def filter_nodes(self, _: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[Status | None]:
        """Reject nodes that the function rejects. BadAnswerError when it returns something else."""
        view = PodView(pod)
        return [self._status(view, node) for node in self._nodes(nodes)]

    def _status(self, pod: PodView, node: NodeView) -> Status | None:
        answer = self.functions["filter"](pod, node)
        if answer is True:
            return None
        if answer is False or isinstance(answer, str):
            return unschedulable(answer or f"node(s) were rejected by {self.name}")
        raise self._bad("filter", answer, f"for node {node.name}", "True, False or a reason")


class _Explain(FunctionPolicy):
    """`explain(pod, node)`: a line, or several, about a node that `filter` rejects."""

    def explain(self, state: CycleState, pod: Pod, cache: Cache, node: NodeInfo, status: Status) -> Lines:
        """What the function says."""
        answer = self.functions["explain"](PodView(pod), self._node(node))
        if answer is None:
            return ()
        lines = [answer] if isinstance(answer, str) else [*answer] if is_several(answer) else [None]
        if all(isinstance(line, str) for line in lines):
            return filter(None, lines)
        raise self._bad("explain", answer, f"for node {node.name}", "a line, or several")


class _Remedies(_Filter):
    """`remedies(pod, nodes)` yields words, and patches of the pod and of nodes with which it may fit."""

    def remedies(self, state: CycleState, pod: Pod, cache: Cache, rejected: Rejected) -> Remedies:
        """The remedies for the nodes that the policy rejects."""
        view, nodes = PodView(pod), [self._node(node) for node in cache.node_list]
        rejecting = [node for node in nodes if self._status(view, node)]
        answer = self.functions["remedies"](view, rejecting)
        if not is_several(answer):
            raise self._bad("remedies", answer, f"for pod {pod}", CHANGES)
        for change in answer:
            if not _is_change(change):
                raise self._bad("remedies", change, f"for pod {pod}", CHANGES)
            words, patch = change
            if more := patch.keys() - {"pod", "nodes"}:
                raise BadAnswerError(f"{words!r} has {', '.join(sorted(more))}, and not only pod and nodes")
            of_nodes = patch.get("nodes", {})
            if unknown := of_nodes.keys() - cache.nodes.keys():
                raise BadAnswerError(f"{words!r} changes {', '.join(sorted(unknown))}: there is no such node")
            changed = tuple(
                edits.patched(cache.nodes[name].node, fields) for name, fields in of_nodes.items()
            )
            yield Remedy(words, partial(edits.patched, patch=patch.get("pod", {})), changed)


CHANGES = 'words and a patch for each change, such as ("without the label a", {"pod": {...}})'


def _is_change(change: object) -> bool:
    if not isinstance(change, tuple) or len(change) != 2:
        return False
    words, patch = change
    if not isinstance(words, str) or not isinstance(patch, dict):
        return False
    nodes = patch.get("nodes", {})
    is_dict = isinstance(nodes, dict)
    return is_dict and all(isinstance(fields, dict) for fields in [*patch.values(), *nodes.values()])


class _Score(FunctionPolicy):
    """`score(pod, node) -> int`, from 0 to 100; with `normalize`, any whole number."""

    def score_nodes(self, _: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[int]:
        """The function's scores. BadAnswerError when one isn't such a number."""
        view = PodView(pod)
        return [self._score(view, node) for node in self._nodes(nodes)]

    def _score(self, pod: PodView, node: NodeView) -> int:
        answer = self.functions["score"](pod, node)
        free = "normalize" in self.functions
        if isinstance(answer, int) and (free or 0 <= answer <= MAX_NODE_SCORE):
            return answer
        wanted = "a whole number" if free else f"a whole number from 0 to {MAX_NODE_SCORE}"
        raise self._bad("score", answer, f"for node {node.name}", wanted)


class _Normalize(FunctionPolicy):
    """`normalize(pod, scores)` changes the scores, by node name, so that they are from 0 to 100."""

    def normalize_score(self, _: CycleState, pod: Pod, scores: dict[str, int]) -> None:
        """Call the function. BadAnswerError when it returns something: that would be lost."""
        answer = self.functions["normalize"](PodView(pod), scores)
        if answer is not None and answer is not scores:
            raise self._bad("normalize", answer, f"for pod {pod}", IN_PLACE)


class _Sign(FunctionPolicy):
    """`sign(pod)`: equal for pods that the other functions can't tell apart. Their answers are kept."""

    reads = DependsOn.PODS

    def sign_pod(self, pod: Pod) -> Hashable:
        """The function's answer. BadAnswerError when it can't be compared, such as a list."""
        answer = self.functions["sign"](PodView(pod))
        if not is_hashable(answer):
            raise self._bad("sign", answer, f"for pod {pod}", SIGNATURE[1])
        return answer  # type: ignore[no-any-return]


class _Annotate(FunctionPolicy):
    """`annotate(pod, node) -> dict`: annotations that a pod gets with its binding to this node."""

    def annotate(self, _: CycleState, pod: Pod, node: NodeInfo) -> Mapping[str, str]:
        """The function's answer. BadAnswerError when it isn't a dict of strings."""
        answer = self.functions["annotate"](PodView(pod), self._node(node))
        if isinstance(answer, dict) and all(isinstance(text, str) for text in chain(*answer.items())):
            return answer
        raise self._bad("annotate", answer, f"for node {node.name}", "a dict of strings")


class _QueueingHint(FunctionPolicy):
    """`queueing_hint(pod, change, about)`: whether a change could help a pod that `filter` rejected.

    change: such as "pod deleted" or "node added". about: the changed pod, or the changed node without its
    pods; None if another object has changed.
    """

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """The function's answer; True for a change of the pod itself. BadAnswerError when it isn't a bool."""
        if changed_itself(pod, change):
            return True
        changed = change.object
        what = f"{type(changed).__name__.lower()} {_what_happened(change)}"
        about = PodView(changed) if isinstance(changed, Pod) else None
        node = NodeView(NodeInfo(changed)) if isinstance(changed, Node) else None
        answer = self.functions["queueing_hint"](PodView(pod), what, about or node)
        if not isinstance(answer, bool):
            raise self._bad("queueing_hint", answer, f"for {what!r}", "True or False")
        return answer


def _what_happened(change: AnyChange) -> str:
    """What happened to an object, in one word. A pod that gets its node counts as added."""
    before = change.before
    if change.kind == Kind.MODIFIED and isinstance(before, Pod) and not before.spec.node_name:
        return Kind.ADDED.value
    return change.kind.value


class _Prepare(FunctionPolicy):
    """`prepare(pods)` is called once, before the first decision, with all pods that are known."""

    _is_prepared = False

    def prepare(self, pods: Iterable[Pod]) -> None:
        """Call the function. A replay does so with the pods that will come."""
        answer = self.functions["prepare"]([PodView(pod) for pod in pods])
        if answer is not None:
            raise self._bad("prepare", answer, "", "None: what it finds out is kept in the file's variables")
        self._is_prepared = True

    def pre_filter(self, _: CycleState, pod: Pod, cache: Cache) -> None:
        """Call the function before the first decision, with the pods on nodes and the one to be placed."""
        if not self._is_prepared:
            self.prepare([*chain.from_iterable(node.pods for node in cache.node_list), pod])


POINTS: Mapping[str, type[FunctionPolicy]] = {
    "prepare": _Prepare,
    "filter": _Filter,
    "explain": _Explain,
    "remedies": _Remedies,
    "score": _Score,
    "normalize": _Normalize,
    "sign": _Sign,
    "annotate": _Annotate,
    "queueing_hint": _QueueingHint,
}
"""The class for each function that a policy may have, besides `state`."""


def plugin_of(name: str, functions: Mapping[str, Function]) -> Plugin:
    """A plugin with the extension points of these functions."""
    # Classes that are derived from others come before these.
    bases = sorted(
        (POINTS[point] for point in functions if point in POINTS), key=lambda kind: -len(kind.__mro__)
    )
    made: Plugin = type("FunctionPolicy", tuple(bases), {})(name, functions)
    return made
