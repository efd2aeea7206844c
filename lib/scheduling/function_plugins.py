"""Policies: plain functions as plugins."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from reprlib import repr as short
from typing import Any

from lib.kube.objects import Pod
from lib.scheduling import edits
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import (
    MAX_NODE_SCORE,
    BadAnswerError,
    CycleState,
    Lines,
    Rejected,
    Remedies,
    Remedy,
    Status,
    unschedulable,
)
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.views import NodeView, PodView

_view = lru_cache(maxsize=1)(PodView)  # a pod's node after node is asked for


class _Function:
    function: Callable[..., object]

    @property
    def file(self) -> str:
        """The file that defines the function."""
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        return code.co_filename if code else ""

    def _bad(self, answer: object, node: NodeInfo, wanted: str) -> BadAnswerError:
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        where = f" at {Path(code.co_filename).name}:{code.co_firstlineno}" if code else ""
        name = getattr(self.function, "__name__", "the function")
        said = f"{name}{where} returned {short(answer)} for node {node.name}"
        return BadAnswerError(f"{said}, not {wanted}")


@dataclass(frozen=True)
class FilterFunction(_Function):
    """`filter(pod, node) -> bool | str` as a plugin: True lets the node pass, a string says why not."""

    name: str
    function: Callable[[PodView, NodeView], bool | str]
    explaining: Callable[[PodView, NodeView], Lines | None] | None = None
    remedying: Callable[[PodView, list[NodeView]], Iterable[tuple[str, Mapping[str, Any]]]] | None = None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a node that the function rejects. BadAnswerError when it returns something else."""
        answer = self.function(_view(pod), NodeView(node))
        if answer is True:
            return None
        if answer is False or isinstance(answer, str):
            return unschedulable(answer or f"node(s) were rejected by {self.name}")
        raise self._bad(answer, node, "True, False or a reason")

    def explain(self, state: CycleState, pod: Pod, cache: Cache, node: NodeInfo, status: Status) -> Lines:
        """What the policy's `explain(pod, node)` says: a line, or several."""
        return (self.explaining and self.explaining(_view(pod), NodeView(node))) or ()

    def remedies(self, state: CycleState, pod: Pod, cache: Cache, rejected: Rejected) -> Remedies:
        """What the policy's `remedies(pod, nodes)` yields: words, and patches of the pod and of nodes.

        nodes: those that the policy rejects.
        """
        if not self.remedying:
            return
        nodes = [NodeView(node) for node in cache.node_list if self.filter(state, pod, node)]
        for words, patch in self.remedying(_view(pod), nodes):
            if more := patch.keys() - {"pod", "nodes"}:
                raise BadAnswerError(f"{words!r} has {', '.join(sorted(more))}, and not only pod and nodes")
            of_nodes = patch.get("nodes", {})
            if unknown := of_nodes.keys() - cache.nodes.keys():
                raise BadAnswerError(f"{words!r} changes {', '.join(sorted(unknown))}: there is no such node")
            changed = tuple(edits.patched(cache.nodes[name].node, each) for name, each in of_nodes.items())
            yield Remedy(words, partial(edits.patched, patch=patch.get("pod", {})), changed)


@dataclass(frozen=True)
class ScoreFunction(_Function):
    """`score(pod, node) -> int`, 0 to 100, as a plugin."""

    name: str
    function: Callable[[PodView, NodeView], int]

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """The function's score. BadAnswerError when it isn't a whole number from 0 to 100."""
        answer = self.function(_view(pod), NodeView(node))
        if isinstance(answer, int) and 0 <= answer <= MAX_NODE_SCORE:
            return answer
        raise self._bad(answer, node, f"a whole number from 0 to {MAX_NODE_SCORE}")
