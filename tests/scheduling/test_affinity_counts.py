"""The kept counts of the pods that affinity terms match are the same as counts from scratch."""

from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings, strategies as st
from objects import node, read

from lib.kube.changes import Change, Kind
from lib.kube.objects import Pod
from lib.scheduling.affinity import KINDS, Term, terms_of
from lib.scheduling.affinity_counts import existing_pods_terms, pods_of_all, pods_of_each
from lib.scheduling.cache import Cache
from lib.scheduling.looked_up import LookedUp

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

apps = st.sampled_from(["web", "db"])
teams = st.dictionaries(st.sampled_from(["one", "two"]), st.sampled_from(["a", "b"]))
selectors = st.one_of(
    st.builds(lambda app: {"matchLabels": {"app": app}}, apps),
    st.just({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}),
    st.just({}),
    st.none(),
)
where = st.sampled_from([{}, {"namespaces": ["one"]}, {"namespaceSelector": {"matchLabels": {"team": "a"}}}])
terms = st.builds(
    lambda key, selector, where: {"topologyKey": key, "labelSelector": selector, **where},
    *(st.sampled_from([ZONE, HOST]), selectors, where),
)
weighted = st.builds(
    lambda term, weight: {"weight": weight, "podAffinityTerm": term}, terms, st.integers(1, 2)
)
affinities = st.fixed_dictionaries(
    {}, optional={REQUIRED: st.lists(terms, max_size=2), PREFERRED: st.lists(weighted, max_size=2)}
)
pods = st.fixed_dictionaries(
    {
        "namespace": st.sampled_from(["one", "two"]),
        "app": apps,
        "affinity": st.fixed_dictionaries(
            {}, optional={"podAffinity": affinities, "podAntiAffinity": affinities}
        ),
    }
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("place"), pods, st.integers(0, 3)),
        st.tuples(st.just("remove"), st.integers(0, 9)),
        st.tuples(st.just("update"), st.integers(0, 9), pods),
        st.tuples(st.just("label"), teams),
        st.tuples(st.just("move"), st.integers(0, 3), st.sampled_from(["a", "b", ""])),
    ),
    max_size=12,
)


def a_node(i: int, zone: str) -> Any:
    return node(f"n{i}", {HOST: f"n{i}"} | ({ZONE: zone} if zone else {}))


def on_node(pod: Pod, node_name: str) -> Pod:
    pod.spec.node_name = node_name
    return pod


def a_pod(name: str, wanted: dict[str, Any]) -> Pod:
    metadata = {
        "namespace": wanted["namespace"],
        "name": name,
        "uid": name,
        "labels": {"app": wanted["app"], "tier": "x"},
    }
    found: Pod = read(Pod, {"metadata": metadata, "spec": {"affinity": wanted["affinity"]}})
    return found


def anew(cache: Cache, group: tuple[Term, ...], *, every: bool) -> dict[str, dict[str, int]]:
    """Pods that match all terms, or the sums of the weights of those that match, by topology."""
    found: dict[str, Counter[str]] = {}
    for each in cache.nodes.values():
        for pod in each.pods:
            matching = [term for term in group if term.selects(pod, cache.looked_up.namespaces)]
            if every and len(matching) < len(group):
                continue
            weights = Counter[str]()
            for term in matching:
                weights[term.topology_key] = 1 if every else weights[term.topology_key] + (term.weight or 1)
            for key, weight in weights.items():
                if key in each.labels:
                    found.setdefault(key, Counter())[each.labels[key]] += weight
    return {key: dict(counts) for key, counts in found.items()}


def held_anew(cache: Cache, kind: str, pod: Pod) -> dict[str, dict[str, int]]:
    """The sums of the weights of the terms that match a pod, by topology."""
    found: dict[str, Counter[str]] = {}
    for each in cache.nodes.values():
        for holder in each.pods:
            for term in getattr(terms_of(holder), kind):
                if term.selects(pod, cache.looked_up.namespaces) and term.topology_key in each.labels:
                    counts = found.setdefault(term.topology_key, Counter())
                    counts[each.labels[term.topology_key]] += term.weight or 1
    return {key: dict(counts) for key, counts in found.items()}


@pytest.mark.parametrize("few", [0, 8])
@settings(deadline=None, max_examples=100)
@given(pods, steps)
def test_what_is_kept_is_what_would_be_counted_anew(few: int, asked: dict[str, Any], happens: Any) -> None:
    with patch("lib.scheduling.affinity_counts.FEW", few):  # with more terms, pods are sorted by their labels
        compare(asked, happens)


def compare(asked: dict[str, Any], happens: Any) -> None:
    cache = Cache([a_node(i, "ab"[i % 2]) for i in range(4)])
    placed: list[Pod] = []
    pod = a_pod("asked", asked)
    own = terms_of(pod)
    for i, (what, *about) in enumerate([("begin",), *happens]):
        if what == "place":
            placed.append(a_pod(f"p{i}", about[0]))
            cache.assume(placed[-1], f"n{about[1]}")
        elif what == "remove" and placed:
            gone = placed.pop(about[0] % len(placed))
            cache.apply(Change(Kind.DELETED, on_node(gone, cache.node_of(gone))))
        elif what == "label":
            cache.looked_up = LookedUp({name: {"team": team} for name, team in about[0].items()})
        elif what == "update" and placed:
            before = placed.pop(about[0] % len(placed))
            placed.append(on_node(a_pod(before.metadata.name, about[1]), cache.node_of(before)))
            cache.apply(Change(Kind.MODIFIED, placed[-1], before))
        elif what == "move":
            cache.apply(Change(Kind.MODIFIED, a_node(*about), None))
        if own.affinity:
            assert pods_of_all(cache, own.affinity).counts == anew(cache, own.affinity, every=True)
        for group in (own.anti_affinity, own.preferred, own.preferred_anti):
            assert pods_of_each(cache, group) == anew(cache, group, every=False)
        for kind in KINDS:
            assert existing_pods_terms(cache).that_match(pod, kind) == held_anew(cache, kind, pod)
        assert existing_pods_terms(cache).read_namespaces == any(
            terms_of(each).look_at_namespaces for each in placed
        )


def test_a_pod_taken_out_for_a_try_is_not_counted_meanwhile() -> None:
    web = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}}
    pod = a_pod("p", {"namespace": "one", "app": "web", "affinity": {"podAntiAffinity": {REQUIRED: [web]}}})
    cache = Cache([a_node(0, "a")])
    cache.assume(pod, "n0")
    own = terms_of(pod).anti_affinity
    assert pods_of_each(cache, own) == {HOST: {"n0": 1}}
    with cache.without([pod]):
        assert pods_of_each(cache, own) == {}
        assert not existing_pods_terms(cache).that_match(pod, "anti_affinity")
    assert pods_of_each(cache, own) == {HOST: {"n0": 1}}
    assert existing_pods_terms(cache).that_match(pod, "anti_affinity") == {HOST: {"n0": 1}}
