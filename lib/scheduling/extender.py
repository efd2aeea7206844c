"""Extenders: programs outside the scheduler that it calls over HTTP, in kube-scheduler's wire format.

An extender is called only for its verbs: filter nodes, prioritize the others, choose victims of preemption,
and bind a pod. The HTTP client is passed in.

Source: pkg/scheduler/extender.go and k8s.io/kube-scheduler/extender/v1/types.go; what is configured,
https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/#Extender
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import msgspec

from lib.kube.objects import UNREADABLE, Node, ObjectMeta, Pod
from lib.scheduling.cache import Cache
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.preemption.victims import Victims
from lib.scheduling.status import MAX_NODE_SCORE, ExtenderError, Status, unresolvable, unschedulable

MAX_EXTENDER_PRIORITY = 10
"""The highest score of an extender; it is scaled to that of plugins."""

LEFT_OUT = "node(s) were left out by extender {}"
"""The reason for nodes that an extender left out without a reason."""

T = TypeVar("T")


class Wire(Protocol):
    """The connection to an extender, and the source of full objects for it. Methods raise ExtenderError."""

    def send(self, url: str, body: bytes) -> bytes:
        """POST JSON; returns the answer's JSON."""

    def whole_pod(self, pod: Pod) -> msgspec.Raw:
        """A pod with all its fields."""

    def whole_nodes(self, nodes: Sequence[Node]) -> list[msgspec.Raw]:
        """Nodes with all their fields, in the same order."""


# --- what is sent ---------------------------------------------------------------------------------------


class _Sent(msgspec.Struct, rename="pascal"):
    """Base of what is sent: field names as in Go."""


class _NodeList(msgspec.Struct):
    items: list[msgspec.Raw]
    metadata: dict[str, str] = {}


class _ExtenderArgs(_Sent):
    pod: msgspec.Raw
    nodes: _NodeList | None = None
    node_names: list[str] | None = None


class _MetaPod(_Sent):
    uid: str = msgspec.field(name="UID")


class _Victims(_Sent):
    pods: list[msgspec.Raw] | list[_MetaPod]
    num_pdb_violations: int = msgspec.field(name="NumPDBViolations")


class _PreemptionArgs(_Sent):
    pod: msgspec.Raw
    node_name_to_victims: dict[str, _Victims] | None = None
    node_name_to_meta_victims: dict[str, _Victims] | None = None


class _BindingArgs(_Sent):
    pod_name: str
    pod_namespace: str
    pod_uid: str = msgspec.field(name="PodUID")
    node: str


# --- what is answered: as in Go, field names may be in any case -----------------------------------------


class _Answer(msgspec.Struct, rename=str.lower):
    """Base of answers; its field names are in lower case."""


class _NamedNode(msgspec.Struct):
    metadata: ObjectMeta


class _NodesByName(msgspec.Struct):
    items: list[_NamedNode] | None = None


class _FilterResult(_Answer):
    nodes: _NodesByName | None = None
    node_names: list[str] | None = msgspec.field(default=None, name="nodenames")
    failed_nodes: dict[str, str] | None = msgspec.field(default=None, name="failednodes")
    unresolvable: dict[str, str] | None = msgspec.field(default=None, name="failedandunresolvablenodes")
    error: str = ""


class _HostPriority(_Answer):
    host: str
    score: int


class _PreemptionResult(_Answer):
    victims: dict[str, dict[str, Any]] | None = msgspec.field(default=None, name="nodenametometavictims")


class _MetaVictims(_Answer):
    pods: list[dict[str, str]] | None = None
    violations: int = msgspec.field(default=0, name="numpdbviolations")


class _BindingResult(_Answer):
    error: str = ""


def _read(raw: Any, kind: type[T]) -> T:
    """Decode an object, or a list of them, whose field names may be in any case."""
    if isinstance(raw, list):
        return msgspec.convert([_folded(item) for item in raw], kind)
    return msgspec.convert(_folded(raw), kind)


def _folded(raw: Any) -> Any:
    return {name.lower(): value for name, value in raw.items()} if isinstance(raw, dict) else raw


# --- one extender, and all of them ----------------------------------------------------------------------


@dataclass(frozen=True)
class Extender:
    """One extender. It is called only for the verbs that aren't empty."""

    url_prefix: str
    """A verb is appended to it. It is also the extender's name."""
    wire: Wire
    filter_verb: str = ""
    prioritize_verb: str = ""
    preempt_verb: str = ""
    bind_verb: str = ""
    weight: int = 1
    """The factor of its scores."""
    node_cache_capable: bool = False
    """Whether it knows the nodes, so that only their names are sent."""
    managed_resources: frozenset[str] = frozenset()
    """It is called only for pods that request one of these; empty for all pods."""
    ignored_resources: frozenset[str] = frozenset()
    """The managed resources that NodeResourcesFit ignores."""
    ignorable: bool = False
    """Whether pods are scheduled without it if it fails."""

    def is_interested(self, pod: Pod) -> bool:
        """Whether it is called for a pod. Requests are enough: the API server adds one for each limit."""
        containers = [*pod.spec.containers, *pod.spec.init_containers]
        return not self.managed_resources or any(
            self.managed_resources & container.resources.requests.keys() for container in containers
        )

    def filter(self, pod: Pod, nodes: Sequence[NodeInfo]) -> dict[str, Status]:
        """By name, why nodes are rejected."""
        result = self._ask(self.filter_verb, self._args(pod, nodes), _FilterResult)
        if result.error:
            raise self._error(self.filter_verb, f"says: {result.error}")
        passed = self._passed(result)
        if strange := passed - {node.name for node in nodes}:
            names = ", ".join(sorted(strange))
            raise self._error(self.filter_verb, f"lets nodes pass it wasn't sent: {names}")
        never, not_now = result.unresolvable or {}, result.failed_nodes or {}
        refused = {node.name: unresolvable(LEFT_OUT.format(self.url_prefix)) for node in nodes}
        refused |= {name: unschedulable(why) for name, why in not_now.items()}
        refused |= {name: unresolvable(why) for name, why in never.items()}
        return {name: status for name, status in refused.items() if name not in passed}

    def _passed(self, result: _FilterResult) -> set[str]:
        if self.node_cache_capable and result.node_names is not None:
            return set(result.node_names)
        return {node.metadata.name for node in (result.nodes and result.nodes.items) or ()}

    def prioritize(self, pod: Pod, nodes: Sequence[NodeInfo]) -> dict[str, int]:
        """Nodes' scores by name: weighted, and scaled to the plugins' range."""
        priorities = self._ask(self.prioritize_verb, self._args(pod, nodes), list[_HostPriority])
        scale = self.weight * (MAX_NODE_SCORE // MAX_EXTENDER_PRIORITY)
        return {priority.host: priority.score * scale for priority in priorities}

    def process_preemption(
        self, pod: Pod, candidates: Mapping[str, Victims], cache: Cache
    ) -> dict[str, Victims]:
        """The extender's choice among the candidates for preemption: by node name, the victims."""
        sent = {name: self._as_sent(victims) for name, victims in candidates.items()}
        whole_pod = self.wire.whole_pod(pod)
        if self.node_cache_capable:
            args = _PreemptionArgs(whole_pod, node_name_to_meta_victims=sent)
        else:
            args = _PreemptionArgs(whole_pod, node_name_to_victims=sent)
        result = self._ask(self.preempt_verb, args, _PreemptionResult)
        with self._reading(self.preempt_verb):
            answered = {name: _read(raw, _MetaVictims) for name, raw in (result.victims or {}).items()}
        chosen = {}
        for name, victims in answered.items():
            pods = [self._pod_on(name, _folded(raw).get("uid", ""), cache) for raw in victims.pods or ()]
            if pods:
                chosen[name] = Victims(name, tuple(pods), victims.violations)
            elif not self.ignorable:
                raise self._error(self.preempt_verb, f"names no victim on node {name}")
        return chosen

    def _as_sent(self, victims: Victims) -> _Victims:
        if self.node_cache_capable:
            return _Victims([_MetaPod(pod.metadata.uid) for pod in victims.pods], victims.violations)
        return _Victims([self.wire.whole_pod(pod) for pod in victims.pods], victims.violations)

    def _pod_on(self, node_name: str, uid: str, cache: Cache) -> Pod:
        for pod in cache.nodes[node_name].pods if node_name in cache.nodes else ():
            if pod.metadata.uid == uid and cache.may_evict(pod):
                return pod
        where = f"pod {uid!r} on node {node_name}"
        raise self._error(self.preempt_verb, f"would preempt {where}, where we may evict no such pod")

    def bind(self, pod: Pod, node_name: str) -> None:
        """Let the extender bind a pod."""
        metadata = pod.metadata
        args = _BindingArgs(metadata.name, metadata.namespace, metadata.uid, node_name)
        if error := self._ask(self.bind_verb, args, _BindingResult).error:
            raise self._error(self.bind_verb, f"says: {error}")

    def _args(self, pod: Pod, nodes: Sequence[NodeInfo]) -> _ExtenderArgs:
        whole_pod = self.wire.whole_pod(pod)
        if self.node_cache_capable:
            return _ExtenderArgs(whole_pod, node_names=[node.name for node in nodes])
        return _ExtenderArgs(whole_pod, _NodeList(self.wire.whole_nodes([node.node for node in nodes])))

    def _url(self, verb: str) -> str:
        return f"{self.url_prefix.rstrip('/')}/{verb}"

    def _ask(self, verb: str, args: _Sent, answer: type[T]) -> T:
        body = self.wire.send(self._url(verb), msgspec.json.encode(args))
        with self._reading(verb):
            return _read(msgspec.json.decode(body), answer)

    @contextmanager
    def _reading(self, verb: str) -> Iterator[None]:
        try:
            yield
        except UNREADABLE as error:
            raise self._error(verb, f"answered something else: {error}") from error

    def _error(self, verb: str, what: str) -> ExtenderError:
        return ExtenderError(f"extender {self._url(verb)} {what}")
