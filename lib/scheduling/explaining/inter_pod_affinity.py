"""Which pods are too near, keep a pod away, or should be near."""

from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property, partial
from itertools import islice

from lib.kube.objects import LabelSelector, Pod, PodAffinityTerm
from lib.scheduling import edits
from lib.scheduling.affinity import Term, terms_of
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import Lines, Rejected, Remedies, Remedy
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.plugins.inter_pod_affinity import TOO_FAR, TOO_NEAR, UNWELCOME
from lib.scheduling.status import CycleState, Status
from lib.scheduling.text import labels_text, listed, names, pods_text, requirement_text
from lib.scheduling.workloads import belongs_to_node

MOST_IN_THE_WAY = 12
"""At most so many pods are named as being in the way."""


class InterPodAffinityExplainer:
    """Explains InterPodAffinity."""

    name = "InterPodAffinity"

    def explain(self, state: CycleState, pod: Pod, cache: Cache, node: NodeInfo, status: Status) -> Lines:
        """The pods that are too near, that keep it away, or that it should be near to."""
        around: _Around = state.get(f"{self.name}/around") or _Around(pod, cache)
        state[f"{self.name}/around"] = around
        if status.reasons == TOO_NEAR.reasons:
            for term, near in around.near_of_anti_affinity:
                if pods := near.get(node.labels.get(term.topology_key)):
                    yield f"anti-affinity ({term.topology_key}) with {pods_text(pods)}"
        elif status.reasons == UNWELCOME.reasons:
            for key, unwelcoming in around.unwelcoming.items():
                if pods := unwelcoming.get(node.labels.get(key)):
                    yield f"the anti-affinity ({key}) of {pods_text(pods)} keeps it away"
        else:
            for term, near in around.near_of_affinity:
                value = node.labels.get(term.topology_key)
                if value is None:
                    yield f"pod affinity: the node has no label {term.topology_key}"
                elif value not in near:
                    where = f"{term.topology_key}={value}"
                    wanted = listed(dict.fromkeys(_term_text(term) for term, _ in around.near_of_affinity))
                    elsewhere = f"; some are in {names(sorted(map(str, near)))}" if near else ", nor anywhere"
                    yield f"pod affinity: no pod {wanted} in {where}{elsewhere}"

    def remedies(self, state: CycleState, pod: Pod, cache: Cache, rejected: Rejected) -> Remedies:
        """Leave out a required term; or remove a pod that is too near."""
        for which, name in (("pod_affinity", "pod affinity"), ("pod_anti_affinity", "anti-affinity")):
            affinity = getattr(pod.spec.affinity, which)
            by_words: dict[str, list[PodAffinityTerm]] = defaultdict(list)
            for term in affinity.required_during_scheduling_ignored_during_execution if affinity else ():
                to = f" to {text}" if (text := _selector_text(term.label_selector)) else ""
                by_words[f"without the required {name}{to} ({term.topology_key})"].append(term)
            for words, terms in by_words.items():
                yield Remedy(words, partial(edits.without_required_terms, which=which, terms=terms))
        near = [node for node in cache.node_list if rejected.get(node.name) in (TOO_FAR, TOO_NEAR, UNWELCOME)]
        in_the_way = (
            other
            for node in near
            for other in node.pods
            if _are_apart(pod, other, cache) and not belongs_to_node(other)
        )
        yield from (Remedy(removed=(other,)) for other in islice(in_the_way, MOST_IN_THE_WAY))


class _Around:
    """The pods that terms match, by the values of topology keys."""

    def __init__(self, pod: Pod, cache: Cache) -> None:
        self._pod, self._cache = pod, cache

    @cached_property
    def near_of_anti_affinity(self) -> list[tuple[Term, Mapping[str | None, list[Pod]]]]:
        return [(term, self._selected(term)) for term in terms_of(self._pod).anti_affinity]

    @cached_property
    def near_of_affinity(self) -> list[tuple[Term, Mapping[str | None, list[Pod]]]]:
        """For each term, the pods that all terms match."""
        terms = terms_of(self._pod).affinity
        return [(term, self._selected(term, *terms)) for term in terms]

    def _selected(self, term: Term, *others: Term) -> Mapping[str | None, list[Pod]]:
        """By the value of its topology key, the pods that a term and the others match."""
        terms, namespaces = (term, *others), self._cache.looked_up.namespaces
        selected: dict[str | None, list[Pod]] = defaultdict(list)
        for node in self._cache.nodes.values():
            if term.topology_key in node.labels:
                pods = selected[node.labels[term.topology_key]]
                pods += [pod for pod in node.pods if all(term.selects(pod, namespaces) for term in terms)]
        return {value: pods for value, pods in selected.items() if pods}

    @cached_property
    def unwelcoming(self) -> Mapping[str, Mapping[str | None, list[Pod]]]:
        """The pods whose anti-affinity matches this one, by topology key and its value."""
        by_key: dict[str, dict[str | None, list[Pod]]] = defaultdict(lambda: defaultdict(list))
        for node in self._cache.nodes.values():
            for other, terms in node.pods_with_affinity:
                for term in terms.anti_affinity:
                    if term.topology_key in node.labels and term.selects(
                        self._pod, self._cache.looked_up.namespaces
                    ):
                        by_key[term.topology_key][node.labels[term.topology_key]].append(other)
        return {key: dict(by_value) for key, by_value in by_key.items()}


def _are_apart(pod: Pod, other: Pod, cache: Cache) -> bool:
    """Whether the required anti-affinity of one of two pods matches the other."""
    far = any(term.selects(other, cache.looked_up.namespaces) for term in terms_of(pod).anti_affinity)
    return far or any(term.selects(pod, cache.looked_up.namespaces) for term in terms_of(other).anti_affinity)


def _term_text(term: Term) -> str:
    """Which pods a pod affinity term matches."""
    if term.selector is None:
        return "(no pod is selected)"
    where = f" of {names(sorted(term.namespaces))}" if term.namespaces else " of the namespaces selected"
    text = _selector_text(term.selector)
    return f"with {text}{where}" if text else f"at all{where}"


def _selector_text(selector: LabelSelector | None) -> str:
    """The labels and expressions of a selector; "" if it has none."""
    if selector is None:
        return ""
    parts = [labels_text(selector.match_labels)] if selector.match_labels else []
    return listed([*parts, *map(requirement_text, selector.match_expressions)])
