"""Details of rejections, with names and values, which kube-scheduler's reasons leave out.

The reasons themselves are constants of the plugins in lib/scheduling/plugins.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

from lib.kube.objects import NodeSelectorTerm, Pod, Requirement, Taint
from lib.kube.selectors import matches, matches_node, matches_term, tolerates
from lib.questions import volume_rejections
from lib.questions.text import amount, labels_text, listed, names, taint_text
from lib.scheduling.affinity import Term, terms_of
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Rejection
from lib.scheduling.node_info import ANY_ADDRESS, HostPort, NodeInfo, host_ports
from lib.scheduling.plugins import inter_pod_affinity, node_affinity
from lib.scheduling.plugins.node_resources_fit import TOO_MANY_PODS, amount_left, capacity
from lib.scheduling.plugins.taint_toleration import REPELLING
from lib.scheduling.resources import pod_requests

MOST = 5
"""At most so many pods are named for one reason."""


class Details:
    """The details of a decision's rejections. cache: the cluster at the time of the decision."""

    def __init__(self, decision: Decision, cache: Cache) -> None:
        self._pod, self._state, self._cache = decision.pod, decision.state, cache

    def of(self, node_name: str, rejection: Rejection) -> list[str]:
        """A line for each detail of a node's rejection; none if the reasons say everything."""
        node, reasons = self._cache.nodes[node_name], rejection.status.reasons
        if explain := _EXPLAIN.get(rejection.plugin):
            return list(explain(self, node, reasons))
        if of_volumes := _EXPLAIN_VOLUMES.get(rejection.plugin):
            return list(of_volumes(self._pod, self._cache, node, reasons))
        return []

    # --- the node itself --------------------------------------------------------------------------------

    def _node_unschedulable(self, _node: NodeInfo, _reasons: tuple[str, ...]) -> Iterator[str]:
        yield "cordoned (spec.unschedulable)"

    def _node_name(self, _node: NodeInfo, _reasons: tuple[str, ...]) -> Iterator[str]:
        yield f"the pod names node {self._pod.spec.node_name}"

    def _taint_toleration(self, node: NodeInfo, _reasons: tuple[str, ...]) -> Iterator[str]:
        for taint in untolerated_taints(node.taints, self._pod):
            yield f"taint {taint_text(taint)} is not tolerated"

    def _node_affinity(self, node: NodeInfo, reasons: tuple[str, ...]) -> Iterator[str]:
        if node_affinity.ENFORCED.reasons == reasons:
            yield "the scheduler's configuration requires other nodes (addedAffinity)"
            return
        for key, value in self._pod.spec.node_selector.items():
            if node.labels.get(key) != value:
                yield f"nodeSelector {key}={value}: {has_label(node, key)}"
        affinity = self._pod.spec.affinity.node_affinity
        required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
        if required is None or matches_node(required, node.node):
            return
        if not required.node_selector_terms:
            yield "required node affinity has no terms, and so matches no node"
        for term in required.node_selector_terms:
            yield f"node affinity {term_text(term)}: {why_no_match(term, node)}"

    # --- used by its pods -------------------------------------------------------------------------------

    def _node_ports(self, node: NodeInfo, _reasons: tuple[str, ...]) -> Iterator[str]:
        for wanted in host_ports(self._pod):
            holders = [pod for pod in node.pods if any(clash(wanted, each) for each in host_ports(pod))]
            if holders:
                yield f"host port {port_text(wanted)} is taken by {pods_text(holders)}"

    def _node_resources_fit(self, node: NodeInfo, reasons: tuple[str, ...]) -> Iterator[str]:
        if TOO_MANY_PODS in reasons:
            yield f"has {len(node.pods)} of {capacity(node, 'pods')} pods"
        for name, wanted in pod_requests(self._pod).items():
            if f"Insufficient {name}" not in reasons:
                continue
            total, left = capacity(node, name), amount_left(node, name)
            needs = f"needs {name} {amount(name, wanted)}"
            if not total:
                yield f"{needs}, the node has none"
            elif wanted > total:
                yield f"{needs}, the node has {amount(name, total)} in all"
            elif wanted <= left:  # what is free is kept for nominated pods
                yield f"{needs}, {amount(name, left)} free is kept for {self._nominated_on(node)}"
            else:
                most = max(node.pods, key=lambda pod: pod_requests(pod).get(name, 0))
                has = amount(name, pod_requests(most).get(name, 0))
                free = f"{amount(name, left)} of {amount(name, total)} free"
                yield f"{needs}, {free}: {most} has {has}"

    def _nominated_on(self, node: NodeInfo) -> str:
        return pods_text(self._cache.nominator.nominated_before_on(node.name, self._pod))

    # --- other pods -------------------------------------------------------------------------------------

    def _pod_topology_spread(self, node: NodeInfo, _reasons: tuple[str, ...]) -> Iterator[str]:
        for each in self._state.get("PodTopologySpread/filter", ()):
            key, skew = each.spec.topology_key, each.spec.max_skew
            domain = node.labels.get(key)
            if domain is None:
                yield f"spreading over {key}: the node has no such label"
                continue
            here = each.pods.get(domain, 0)
            if here + each.selects_itself - each.fewest_pods <= skew:
                continue
            emptiest = next((name for name, many in each.pods.items() if many == each.fewest_pods), "")
            least = f"the emptiest{f' ({emptiest})' if emptiest else ''} {each.fewest_pods}"
            if len(each.pods) < (each.spec.min_domains or 1):
                least = f"only {len(each.pods)} of minDomains {each.spec.min_domains} are there"
            yield f"{key}={domain} has {here}, {least}, maxSkew {skew}"

    def _inter_pod_affinity(self, node: NodeInfo, reasons: tuple[str, ...]) -> Iterator[str]:
        if inter_pod_affinity.TOO_NEAR.reasons == reasons:
            for term, near in self._near_of_anti_affinity:
                if found := near.get(node.labels.get(term.topology_key)):
                    yield f"anti-affinity ({term.topology_key}) with {pods_text(found)}"
        elif inter_pod_affinity.UNWELCOME.reasons == reasons:
            for key, unwelcoming in self._unwelcoming.items():
                if found := unwelcoming.get(node.labels.get(key)):
                    yield f"the anti-affinity ({key}) of {pods_text(found)} keeps it away"
        else:
            for term, near in self._near_of_affinity:
                value = node.labels.get(term.topology_key)
                if value is None:
                    yield f"pod affinity: the node has no label {term.topology_key}"
                elif value not in near:
                    where = f"{term.topology_key}={value}"
                    wanted = listed(
                        dict.fromkeys(term_selector_text(each) for each, _ in self._near_of_affinity)
                    )
                    elsewhere = (
                        f"; there are in {names(sorted(map(str, near)))}" if near else ", nor anywhere"
                    )
                    yield f"pod affinity: no pod {wanted} in {where}{elsewhere}"

    @cached_property
    def _near_of_anti_affinity(self) -> list[tuple[Term, Mapping[str | None, list[Pod]]]]:
        return [(term, self._selected(term)) for term in terms_of(self._pod).anti_affinity]

    @cached_property
    def _near_of_affinity(self) -> list[tuple[Term, Mapping[str | None, list[Pod]]]]:
        """Counts by term; a pod counts if all terms match it."""
        terms = terms_of(self._pod).affinity
        return [(term, self._selected(term, *terms)) for term in terms]

    def _selected(self, term: Term, *others: Term) -> Mapping[str | None, list[Pod]]:
        """By the value of its topology key, the pods that a term and the others match."""
        found: dict[str | None, list[Pod]] = defaultdict(list)
        for node in self._cache.nodes.values():
            if term.topology_key in node.labels:
                for pod in node.pods:
                    if all(each.selects(pod, self._cache.namespaces) for each in (term, *others)):
                        found[node.labels[term.topology_key]].append(pod)
        return dict(found)

    @cached_property
    def _unwelcoming(self) -> Mapping[str, Mapping[str | None, list[Pod]]]:
        """The pods whose anti-affinity matches this one, by topology key and its value."""
        found: dict[str, dict[str | None, list[Pod]]] = defaultdict(lambda: defaultdict(list))
        for node in self._cache.nodes.values():
            for other, terms in node.pods_with_affinity:
                for term in terms.anti_affinity:
                    if term.topology_key in node.labels and term.selects(self._pod, self._cache.namespaces):
                        found[term.topology_key][node.labels[term.topology_key]].append(other)
        return {key: dict(each) for key, each in found.items()}


_EXPLAIN: Mapping[str, Callable[[Details, NodeInfo, tuple[str, ...]], Iterator[str]]] = {
    "NodeUnschedulable": Details._node_unschedulable,
    "NodeName": Details._node_name,
    "TaintToleration": Details._taint_toleration,
    "NodeAffinity": Details._node_affinity,
    "NodePorts": Details._node_ports,
    "NodeResourcesFit": Details._node_resources_fit,
    "PodTopologySpread": Details._pod_topology_spread,
    "InterPodAffinity": Details._inter_pod_affinity,
}
"""By plugin. For plugins that are neither here nor in volume_rejections.py, only their reasons are shown."""

_EXPLAIN_VOLUMES: Mapping[str, Callable[[Pod, Cache, NodeInfo, tuple[str, ...]], Iterator[str]]] = {
    "VolumeBinding": volume_rejections.volume_binding,
    "VolumeZone": volume_rejections.volume_zone,
    "VolumeRestrictions": volume_rejections.volume_restrictions,
    "NodeVolumeLimits": volume_rejections.node_volume_limits,
}


# --- words ------------------------------------------------------------------------------------------------


def untolerated_taints(taints: Iterable[Taint], pod: Pod) -> list[Taint]:
    """All taints that keep a pod off a node."""
    return [
        taint
        for taint in taints
        if taint.effect in REPELLING and not any(tolerates(each, taint) for each in pod.spec.tolerations)
    ]


def clash(one: HostPort, other: HostPort) -> bool:
    """Whether two host ports conflict: same protocol and port, and overlapping addresses."""
    return one[1:] == other[1:] and (one[0] == other[0] or ANY_ADDRESS in (one[0], other[0]))


def port_text(port: HostPort) -> str:
    """A host port as people write it: 8080/TCP, with its address if it has one."""
    address, protocol, number = port
    return f"{number}/{protocol}" if address == ANY_ADDRESS else f"{address}:{number}/{protocol}"


def pods_text(pods: Iterable[Pod]) -> str:
    """Pods by their names; if there are many, only some of them."""
    return names([str(pod) for pod in pods], MOST)


def has_label(node: NodeInfo, key: str) -> str:
    """A node's value of a label."""
    return f"the node has {key}={node.labels[key]}" if key in node.labels else "the node has no such label"


def requirement_text(requirement: Requirement) -> str:
    """`zone In [a, b]`."""
    values = f" [{', '.join(requirement.values)}]" if requirement.values else ""
    return f"{requirement.key} {requirement.operator}{values}"


def term_text(term: NodeSelectorTerm) -> str:
    """A term of a node selector."""
    parts = [*term.match_expressions, *term.match_fields]
    return listed(map(requirement_text, parts)) if parts else "(an empty term)"


def why_no_match(term: NodeSelectorTerm, node: NodeInfo) -> str:
    """The part of a term that a node doesn't match."""
    if not term.match_expressions and not term.match_fields:
        return "an empty term matches no node"
    assert not matches_term(term, node.node)
    missing = [has_label(node, each.key) for each in term.match_expressions if not matches(each, node.labels)]
    fields = {"metadata.name": node.name}
    missing += [f"the node is {node.name}" for each in term.match_fields if not matches(each, fields)]
    return listed(missing)


def term_selector_text(term: Term) -> str:
    """Which pods a pod affinity term matches."""
    if term.selector is None:
        return "(no pod is selected)"
    parts = [labels_text(term.selector.match_labels)] if term.selector.match_labels else []
    parts += map(requirement_text, term.selector.match_expressions)
    where = f" of {names(sorted(term.namespaces))}" if term.namespaces else " of the namespaces selected"
    return f"with {listed(parts)}{where}" if parts else f"at all{where}"
