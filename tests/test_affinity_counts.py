"""The kept counts of the pods that affinity terms match are the same as counts from scratch."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from objects import node, read

from lib.kube.changes import Change, Kind
from lib.kube.objects import Pod
from lib.scheduling.affinity import Term, terms_of
from lib.scheduling.affinity_counts import held_terms, meant_pods
from lib.scheduling.cache import Cache

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HOLDERS = {
    "required": "affinity",
    "required_anti": "anti_affinity",
    "preferred": "preferred",
    "preferred_anti": "preferred_anti",
}
"""How HeldTerms calls each kind of terms, and how Terms does."""

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
        st.tuples(st.just("label"), teams),
        st.tuples(st.just("move"), st.integers(0, 3), st.sampled_from(["a", "b", ""])),
    ),
    max_size=12,
)


def a_node(i: int, zone: str) -> Any:
    return node(f"n{i}", {HOST: f"n{i}"} | ({ZONE: zone} if zone else {}))


def a_pod(name: str, wanted: dict[str, Any]) -> Pod:
    metadata = {
        "namespace": wanted["namespace"],
        "name": name,
        "uid": name,
        "labels": {"app": wanted["app"], "tier": "x"},
    }
    found: Pod = read(Pod, {"metadata": metadata, "spec": {"affinity": wanted["affinity"]}})
    return found


def anew(cache: Cache, group: tuple[Term, ...]) -> list[Counter[str]]:
    """How many pods all of these terms mean, by topology value, each counted."""
    found: list[Counter[str]] = [Counter() for _ in group]
    for each in cache.nodes.values():
        for pod in each.pods:
            if all(term.selects(pod, cache.namespaces) for term in group):
                for term, counts in zip(group, found, strict=True):
                    if term.topology_key in each.labels:
                        counts[each.labels[term.topology_key]] += 1
    return found


def held_anew(cache: Cache, kind: str, pod: Pod) -> Counter[tuple[str, int, str]]:
    """Terms that mean a pod, each as often as it is held, by key, weight and topology value."""
    return Counter(
        (term.topology_key, term.weight, each.labels[term.topology_key])
        for each in cache.nodes.values()
        for holder in each.pods
        for term in getattr(terms_of(holder), kind)
        if term.selects(pod, cache.namespaces) and term.topology_key in each.labels
    )


def held(cache: Cache, kind: str, pod: Pod) -> Counter[tuple[str, int, str]]:
    found: Counter[tuple[str, int, str]] = Counter()
    for term, counts in getattr(held_terms(cache), kind)(pod):
        for value, count in counts.items():
            found[term.topology_key, term.weight, value] += count
    return found


@settings(deadline=None, max_examples=150)
@given(pods, steps)
def test_what_is_kept_is_what_would_be_counted_anew(asked: dict[str, Any], happens: Any) -> None:
    cache = Cache([a_node(i, "ab"[i % 2]) for i in range(4)])
    placed: list[Pod] = []
    pod = a_pod("asked", asked)
    own = terms_of(pod)
    alone = [(each,) for each in (*own.anti_affinity, *own.preferred, *own.preferred_anti)]
    for i, (what, *about) in enumerate([("begin",), *happens]):
        if what == "place":
            placed.append(a_pod(f"p{i}", about[0]))
            cache.assume(placed[-1], f"n{about[1]}")
        elif what == "remove" and placed:
            cache.forget(placed.pop(about[0] % len(placed)))
        elif what == "label":
            cache.namespaces = {name: {"team": team} for name, team in about[0].items()}
        elif what == "move":
            cache.apply(Change(Kind.MODIFIED, a_node(*about), None))
        for group in (own.affinity, *alone):
            assert meant_pods(cache, group) == anew(cache, group)
        for ours, theirs in HOLDERS.items():
            assert held(cache, ours, pod) == held_anew(cache, theirs, pod)
        assert held_terms(cache).read_namespaces == any(terms_of(each).look_at_namespaces for each in placed)


def test_a_pod_taken_out_for_a_try_is_not_counted_meanwhile() -> None:
    web = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}}
    pod = a_pod("p", {"namespace": "one", "app": "web", "affinity": {"podAntiAffinity": {REQUIRED: [web]}}})
    cache = Cache([a_node(0, "a")])
    cache.assume(pod, "n0")
    own = terms_of(pod).anti_affinity
    assert meant_pods(cache, own) == [{"n0": 1}]
    with cache.without([pod]):
        assert meant_pods(cache, own) == [{}]
        assert not list(held_terms(cache).required_anti(pod))
    assert meant_pods(cache, own) == [{"n0": 1}]
    assert [counts for _, counts in held_terms(cache).required_anti(pod)] == [{"n0": 1}]
