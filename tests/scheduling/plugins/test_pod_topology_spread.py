"""PodTopologySpread: matching pods are spread evenly over domains, the values of a node label.

With DoNotSchedule a node is out if its domain would have over maxSkew more matching pods than the domain with
the fewest. With ScheduleAnyway it scores: the fewest matching pods get 100. A pod without constraints of its
own has the default ones, if a service or its controller tells which pods are like it.

Figures as in podtopologyspread/filtering_test.go and scoring_test.go.
"""

from typing import Any

import pytest
from objects import node, read
from plugin_harness import (
    HOSTNAME,
    NOT_ASKED,
    fitting,
    labelled,
    raw_scores,
    reasons,
    running,
    scores,
    selecting,
    taint,
    zones,
)

from lib.kube.changes import Change, Kind
from lib.kube.objects import LabelSelector, Node, Pod, Service, TopologySpreadConstraint
from lib.scheduling.cache import Cache
from lib.scheduling.looked_up import LookedUp
from lib.scheduling.plugins.pod_topology_spread import PodTopologySpread
from lib.scheduling.status import SKIP
from lib.scheduling.workloads import Workloads, controller_of

SKEWED = ["node(s) didn't match pod topology spread constraints"]
NO_LABEL = ["node(s) didn't match pod topology spread constraints (missing required label)"]
WEB = selecting("app=web")


def over(key: str, skew: int = 1, selector: Any = WEB, **more: Any) -> dict[str, Any]:
    """A constraint that must hold."""
    said = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", **more}
    return said | ({"labelSelector": selector} if selector is not None else {})


def softly(key: str, skew: int = 1, selector: Any = WEB, **more: Any) -> dict[str, Any]:
    """A constraint that is a wish."""
    return over(key, skew, selector, whenUnsatisfiable="ScheduleAnyway", **more)


def spreading(*constraints: dict[str, Any], labels: str = "app=web", **spec: Any) -> Pod:
    return labelled(labels, topologySpreadConstraints=constraints, **spec)


def fits(asking: Pod, nodes: list[Node], others: list[Pod]) -> str:
    return fitting(PodTopologySpread(), asking, Cache(nodes, others))


HOSTS = zones(east="a b", west="x y")

# --- which nodes are out ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("constraint", "others", "expected"),
    [
        (over("zone"), "", "a b x y"),
        (over("zone"), "a", "x y"),
        (over("zone"), "a a b x y y", "a b x y"),  # 3 and 3
        (over("zone"), "a x x", "a b"),  # 1 and 2
        (over(HOSTNAME), "a a b y y y", "x"),  # 2, 1, 0 and 3
        (over(HOSTNAME, skew=2), "a a b y y y", "b x"),
        (over(HOSTNAME, skew=3), "a a b y y y", "a b x"),
        (over(HOSTNAME, skew=4), "a a b y y y", "a b x y"),
    ],
)
def test_no_domain_gets_too_far_ahead_of_the_one_with_the_fewest_pods(
    constraint: dict[str, Any], others: str, expected: str
) -> None:
    assert fits(spreading(constraint), HOSTS, running(others)) == expected


@pytest.mark.parametrize(
    ("labels", "others", "expected"),
    [
        ("app=web", "a a b y y y", "x"),
        # A pod that doesn't match itself adds nothing to its domain.
        ("app=other", "a a b y y y", "b x"),
        ("app=other", "", "a b x y"),
    ],
)
def test_a_pod_counts_itself_only_if_it_matches(labels: str, others: str, expected: str) -> None:
    assert fits(spreading(over(HOSTNAME), labels=labels), HOSTS, running(others)) == expected


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        (running("a"), "x y"),
        (running("a", "app=other"), "a b x y"),
        (running("a", namespace="elsewhere"), "a b x y"),
        (running("a", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), "a b x y"),  # about to go
    ],
)
def test_only_pods_that_match_and_stay_in_the_same_namespace_count(others: list[Pod], expected: str) -> None:
    assert fits(spreading(over("zone")), HOSTS, others) == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, "a b x y"),  # no selector matches no pod, not even the pod itself
        ({}, "a b x y"),  # an empty one counts no pod, though it matches the pod itself
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, "x y"),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, "a b x y"),
    ],
)
def test_the_selector_says_which_pods_match(selector: Any, expected: str) -> None:
    assert fits(spreading(over("zone", selector=selector)), HOSTS, running("a a")) == expected


def test_a_node_without_the_label_is_out_and_its_pods_do_not_count() -> None:
    nodes = [node("a", {"zone": "1"}), node("b"), node("x", {"zone": "2"}), node("y", {"zone": "2"})]
    cluster = Cache(nodes, running("a b b b x x"))
    found = reasons(PodTopologySpread(), spreading(over("zone")), cluster)
    assert found == {"b": NO_LABEL, "x": SKEWED, "y": SKEWED}
    assert reasons(PodTopologySpread(), spreading(over("rack")), cluster) == dict.fromkeys("abxy", NO_LABEL)


# --- fewer domains than there should be ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "key", "min_domains", "others", "expected"),
    [
        # 2, 2 and 1 on nodes, with the pod 3, 3 and 2: less 0 where a domain is missing, else less 1.
        (zones(z="a b c"), HOSTNAME, 4, "a a b b c", "c"),
        (zones(z="a b c"), HOSTNAME, 3, "a a b b c", "a b c"),
        (zones(z="a b c"), HOSTNAME, 2, "a a b b c", "a b c"),
        (zones(z="a b c"), HOSTNAME, None, "a a b b c", "a b c"),
        (zones(one="a b", two="x y"), "zone", 3, "a b x", "x y"),
        (zones(one="a b", two="x y"), "zone", 2, "a b x", "a b x y"),
    ],
)
def test_a_domain_that_is_missing_has_the_fewest_pods(
    nodes: list[Node], key: str, min_domains: int | None, others: str, expected: str
) -> None:
    more = {} if min_domains is None else {"minDomains": min_domains}
    assert fits(spreading(over(key, skew=2, **more)), nodes, running(others)) == expected


# --- which nodes count ------------------------------------------------------------------------------------

IN_ONE = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["1"]}]}
AFFINITY = {
    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [IN_ONE]}}
}


@pytest.mark.parametrize(
    ("policy", "spec", "expected"),
    [
        # c is empty, but the pod can't go there: it doesn't count, unless the policy is to ignore that.
        ({}, {"nodeSelector": {"pool": "1"}}, "b c"),
        ({"nodeAffinityPolicy": "Honor"}, {"nodeSelector": {"pool": "1"}}, "b c"),
        ({"nodeAffinityPolicy": "Ignore"}, {"nodeSelector": {"pool": "1"}}, "c"),
        ({}, {"affinity": AFFINITY}, "b c"),
        ({"nodeAffinityPolicy": "Ignore"}, {"affinity": AFFINITY}, "c"),
        ({}, {}, "c"),
    ],
)
def test_nodes_that_the_pod_does_not_want_do_not_count(
    policy: dict[str, Any], spec: dict[str, Any], expected: str
) -> None:
    """The filter of NodeAffinity keeps the pod off c, not this one."""
    nodes = [node(name, {HOSTNAME: name, "pool": pool}) for name, pool in zip("abc", "112", strict=True)]
    assert fits(spreading(over(HOSTNAME, **policy), **spec), nodes, running("a a b")) == expected


@pytest.mark.parametrize(
    ("policy", "effect", "tolerations", "expected"),
    [
        ({}, "NoSchedule", [], "c"),
        ({"nodeTaintsPolicy": "Ignore"}, "NoSchedule", [], "c"),
        ({"nodeTaintsPolicy": "Honor"}, "NoSchedule", [], "b c"),
        ({"nodeTaintsPolicy": "Honor"}, "NoExecute", [], "b c"),
        ({"nodeTaintsPolicy": "Honor"}, "PreferNoSchedule", [], "c"),
        ({"nodeTaintsPolicy": "Honor"}, "NoSchedule", [{"operator": "Exists"}], "c"),
    ],
)
def test_nodes_that_repel_the_pod_count_unless_told_otherwise(
    policy: dict[str, Any], effect: str, tolerations: list[Any], expected: str
) -> None:
    nodes = [node("a", {HOSTNAME: "a"}), node("b", {HOSTNAME: "b"})]
    nodes.append(node("c", {HOSTNAME: "c"}, taints=[taint(f"old:{effect}")]))
    asking = spreading(over(HOSTNAME, **policy), tolerations=tolerations)
    assert fits(asking, nodes, running("a a b")) == expected


# --- only pods of the same revision -----------------------------------------------------------------------

OLD_AND_NEW = running("a a b", "app=web rev=1") + running("x", "app=web rev=2")


@pytest.mark.parametrize(
    ("labels", "selector", "keys", "expected"),
    [
        ("app=web rev=2", WEB, [], "x y"),  # 3 and 1 pods
        ("app=web rev=2", WEB, ["rev"], "a b"),  # 0 and 1
        ("app=web rev=1", WEB, ["rev"], "x y"),  # 3 and 0
        ("app=web rev=3", WEB, ["rev"], "a b x y"),
        ("app=web", WEB, ["rev"], "x y"),  # a key that the pod hasn't is passed over
        ("app=web rev=2", {}, ["rev"], "a b"),  # with an empty selector they select alone
        ("app=web rev=2", None, ["rev"], "a b x y"),  # no selector still matches nothing
    ],
)
def test_match_label_keys_narrow_the_selector(
    labels: str, selector: Any, keys: list[str], expected: str
) -> None:
    asking = spreading(over("zone", selector=selector, matchLabelKeys=keys), labels=labels)
    assert fits(asking, HOSTS, OLD_AND_NEW) == expected


# --- several constraints ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        (running("a a b y y y"), "x"),  # by zone 3 and 3, by node 2, 1, 0 and 3
        (running("a a b y y y y"), ""),  # by zone a and b, by node x
        (running("a b x y"), "a b x y"),
    ],
)
def test_all_constraints_must_hold(others: list[Pod], expected: str) -> None:
    assert fits(spreading(over("zone"), over(HOSTNAME)), HOSTS, others) == expected


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        # Web by zone, db by node.
        (running("a", "app=web") + running("a y", "app=db"), "x"),
        (running("a", "app=web") + running("x y", "app=db"), ""),
        (running("a b", "app=web") + running("x x y", "app=web") + running("a y", "app=db"), "b"),
    ],
)
def test_each_constraint_counts_its_own_pods(others: list[Pod], expected: str) -> None:
    db = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "both"]}]}
    web = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "both"]}]}
    asking = spreading(over("zone", selector=web), over(HOSTNAME, selector=db), labels="app=both")
    assert fits(asking, HOSTS, others) == expected


def test_a_node_that_lacks_one_of_the_labels_does_not_count_for_the_other() -> None:
    """Neither do b's pods make zone 1 fuller, nor can the pod go there."""
    nodes = [*zones(one="a", two="x"), node("b", {"zone": "one"})]
    cluster = Cache(nodes, running("b b"))
    found = reasons(PodTopologySpread(), spreading(over("zone"), over(HOSTNAME)), cluster)
    assert found == {"b": NO_LABEL}


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [([], SKIP), ([softly("zone")], SKIP), ([over("zone")], None), ([softly("zone"), over("zone")], None)],
)
def test_wishes_do_not_filter(constraints: list[dict[str, Any]], expected: Any) -> None:
    assert PodTopologySpread().pre_filter({}, spreading(*constraints), Cache(HOSTS, [])) == expected


@pytest.mark.parametrize("kind", [Kind.ADDED, Kind.DELETED])
def test_a_node_that_moves_to_another_domain_takes_its_pods_along(kind: Kind) -> None:
    """Also if pods come and go at the same time. Counts are kept from pod to pod."""
    (other,) = running("x")
    cluster = Cache(HOSTS, running("a b y") + [other] * (kind == Kind.DELETED))
    asking = spreading(over("zone"))
    fitting(PodTopologySpread(), asking, cluster)
    (moved,) = zones(west="a")
    cluster.apply(Change(Kind.MODIFIED, moved, HOSTS[0]))
    cluster.apply(Change(kind, other, None if kind == Kind.ADDED else other))
    assert fitting(PodTopologySpread(), asking, cluster) == "b"


# --- which nodes are better -------------------------------------------------------------------------------

MAX_JOURNAL = zones(z="a b c d")


@pytest.mark.parametrize(
    ("constraint", "others", "candidates", "expected"),
    [
        (softly(HOSTNAME), "", "", {"a": 100, "b": 100, "c": 100, "d": 100}),
        (softly(HOSTNAME), "a a b", "a", {"a": 100}),
        (softly(HOSTNAME), "a b", "a b", {"a": 100, "b": 100}),
        (softly(HOSTNAME), "a b", "a b c", {"a": 0, "b": 0, "c": 100}),
        (softly(HOSTNAME), "a a b d d d", "", {"a": 20, "b": 60, "c": 100, "d": 0}),
        # The larger the skew that may be, the less the differences count.
        (softly(HOSTNAME, 2), "a a b d d d", "", {"a": 33, "b": 66, "c": 100, "d": 16}),
        (softly(HOSTNAME, 3), "a a a a b b b c c d", "", {"a": 44, "b": 66, "c": 77, "d": 100}),
        (softly(HOSTNAME, selector=None), "a a b d d d", "", {"a": 100, "b": 100, "c": 100, "d": 100}),
        (softly(HOSTNAME, selector={}), "a a b d d d", "", {"a": 100, "b": 100, "c": 100, "d": 100}),
        # Nodes that aren't candidates don't count as domains: 4, 2 and 1 pods, not d's 3.
        (softly(HOSTNAME), "a a a a b b c d d d", "a b c", {"a": 33, "b": 83, "c": 100}),
        (over(HOSTNAME), "a a b", "", NOT_ASKED),  # what must hold is for the filter
    ],
)
def test_the_fewer_matching_pods_on_a_node_the_better(
    constraint: dict[str, Any], others: str, candidates: str, expected: dict[str, int] | str
) -> None:
    cluster = Cache(MAX_JOURNAL, running(others))
    assert scores(PodTopologySpread(), spreading(constraint), cluster, candidates) == expected


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ([], {"a": 33, "b": 0, "x": 100}),
        (running("a a", namespace="elsewhere"), {"a": 33, "b": 0, "x": 100}),
        (running("a a", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), {"a": 33, "b": 0, "x": 100}),
        (running("a a"), {"a": 0, "b": 40, "x": 100}),
    ],
)
def test_the_same_pods_count_as_in_the_filter(more: list[Pod], expected: dict[str, int]) -> None:
    cluster = Cache(HOSTS, running("a b b") + more)
    assert scores(PodTopologySpread(), spreading(softly(HOSTNAME)), cluster, "a b x") == expected


@pytest.mark.parametrize(
    ("constraints", "others", "candidates", "expected"),
    [
        # The pods of a domain count wherever they are in it: 6 and 4.
        (
            [softly("zone")],
            "a a a a b b x y y y",
            "a b x",
            {"a": 75, "b": 75, "x": 100},
        ),
        # By zone 3 and 6, by node 2 and 2. Both weigh ln(2 + 2): 6.9 and 11.1.
        ([softly("zone"), softly(HOSTNAME)], "a a b x x y y y y", "a x", {"a": 100, "x": 63}),
    ],
)
def test_the_fewer_matching_pods_in_a_zone_the_better(
    constraints: list[dict[str, Any]], others: str, candidates: str, expected: dict[str, int]
) -> None:
    cluster = Cache(HOSTS, running(others))
    assert scores(PodTopologySpread(), spreading(*constraints), cluster, candidates) == expected


FOO, BAR = selecting("foo=1"), selecting("bar=1")
BOTH = "foo=1 bar=1"


@pytest.mark.parametrize(
    ("others", "candidates", "expected"),
    [
        # Foo by zone 2, 2, 1 and 1; bar by node 0, 1, 0 and 1.
        (
            running("a y", "foo=1") + running("b", BOTH) + running("y", "bar=1"),
            "a b x y",
            {"a": 60, "b": 20, "x": 100, "y": 60},
        ),
        # 0, 0, 2 and 2; 0, 1, 0 and 1.
        (
            running("b", "bar=1") + running("x", "foo=1") + running("y", BOTH),
            "a b x y",
            {"a": 100, "b": 60, "x": 40, "y": 0},
        ),
        # y's pods count in its zone, though y is no candidate.
        (
            running("a y", "foo=1") + running("b", BOTH) + running("y", "bar=1"),
            "a b x",
            {"a": 50, "b": 25, "x": 100},
        ),
    ],
)
def test_several_wishes_add_up(others: list[Pod], candidates: str, expected: dict[str, int]) -> None:
    asking = spreading(softly("zone", selector=FOO), softly(HOSTNAME, selector=BAR), labels=BOTH)
    assert scores(PodTopologySpread(), asking, Cache(HOSTS, others), candidates) == expected


@pytest.mark.parametrize(
    ("constraint", "candidates", "expected"),
    [
        # 3 pods, weighed by the logarithm of the number of domains and 2 …
        (softly("zone"), "a", {"a": 3}),  # 3 x ln(1 + 2) = 3.3
        (softly("zone"), "a x", {"a": 4, "x": 0}),  # 3 x ln(2 + 2) = 4.2
        (softly(HOSTNAME), "a b x", {"a": 5, "b": 0, "x": 0}),  # 3 x ln(3 + 2) = 4.8
        (softly(HOSTNAME), "a b x y", {"a": 5, "b": 0, "x": 0, "y": 0}),  # 3 x ln(4 + 2) = 5.4
        # … and maxSkew less 1 on top.
        (softly("zone", 5), "a x", {"a": 8, "x": 4}),
    ],
)
def test_pods_weigh_more_where_there_are_many_domains(
    constraint: dict[str, Any], candidates: str, expected: dict[str, int]
) -> None:
    cluster = Cache(HOSTS, running("a a a"))
    assert raw_scores(PodTopologySpread(), spreading(constraint), cluster, candidates) == expected


def test_a_node_that_lacks_a_label_is_not_scored() -> None:
    """The worst for b; a and x are scored by 4 pods and 1 over two nodes, not three."""
    nodes = [node("a", {HOSTNAME: "a"}), node("b", {"n": "b"}), node("x", {HOSTNAME: "x"})]
    cluster = Cache(nodes, running("a a a a b b x"))
    found = scores(PodTopologySpread(), spreading(softly(HOSTNAME)), cluster)
    assert found == {"a": 16, "b": 0, "x": 100}
    found = scores(PodTopologySpread(), spreading(softly("rack")), cluster)
    assert found == {"a": 0, "b": 0, "x": 0}


def test_the_pods_of_a_node_that_lacks_one_of_the_labels_do_not_count() -> None:
    """b's pods would be in zone one, but b has no hostname."""
    nodes = [*zones(one="a", two="x"), node("b", {"zone": "one"})]
    asking = spreading(softly("zone"), softly(HOSTNAME))
    cluster = Cache(nodes, running("b b"))
    assert raw_scores(PodTopologySpread(), asking, cluster) == {"a": 0, "b": 0, "x": 0}


@pytest.mark.parametrize(
    ("more", "spec", "expected"),
    [
        # c is a domain of its own. Where its node doesn't count it has no pods, else 1.
        ({}, {"nodeSelector": {"pool": "1"}}, {"a": 0, "b": 33, "c": 100}),
        ({"nodeAffinityPolicy": "Ignore"}, {"nodeSelector": {"pool": "1"}}, {"a": 66, "b": 100, "c": 100}),
        ({"nodeTaintsPolicy": "Honor"}, {}, {"a": 0, "b": 33, "c": 100}),
        ({}, {}, {"a": 66, "b": 100, "c": 100}),
        # By hostname a node's pods count in any case.
        ({"topologyKey": HOSTNAME}, {"nodeSelector": {"pool": "1"}}, {"a": 66, "b": 100, "c": 100}),
    ],
)
def test_nodes_count_or_not_as_in_the_filter(
    more: dict[str, str], spec: dict[str, Any], expected: dict[str, int]
) -> None:
    nodes = [node(name, {"rack": name, HOSTNAME: name, "pool": "1"}) for name in "ab"]
    nodes.append(node("c", {"rack": "c", HOSTNAME: "c"}, taints=[taint("old:NoSchedule")]))
    asking = spreading(softly("rack") | more, **spec)
    assert scores(PodTopologySpread(), asking, Cache(nodes, running("a a b c"))) == expected


def test_match_label_keys_narrow_the_wish() -> None:
    asking = spreading(softly("zone", matchLabelKeys=["rev"]), labels="app=web rev=2")
    cluster = Cache(HOSTS, OLD_AND_NEW)
    assert raw_scores(PodTopologySpread(), asking, cluster) == {"a": 0, "b": 0, "x": 1, "y": 1}


# --- default constraints ----------------------------------------------------------------------------------


def service(selector: str, namespace: str = "default") -> Service:
    made: Service = read(
        Service,
        {"metadata": {"namespace": namespace}, "spec": {"selector": selecting(selector)["matchLabels"]}},
    )
    return made


def default_scores(
    asking: Pod, nodes: list[Node], others: str, workloads: Workloads, plugin: PodTopologySpread | None = None
) -> dict[str, int] | str:
    cluster = Cache(nodes, running(others), looked_up=LookedUp(workloads=workloads))
    return scores(plugin or PodTopologySpread(), asking, cluster)


ZONE = "topology.kubernetes.io/zone"
SERVED = Workloads(services=[service("app=web")])
OWNED = {"ownerReferences": [{"kind": "ReplicaSet", "name": "web-1", "uid": "u1", "controller": True}]}
OWNER = Workloads(selectors={controller_of(labelled(metadata=OWNED)): LabelSelector({"app": "web"})})
EVEN = {"a": 44, "b": 66, "c": 77, "d": 100}
FOUR_TO_ONE = "a a a a b b b c c d"


@pytest.mark.parametrize(
    ("asking", "workloads", "expected"),
    [
        # As by one constraint over nodes with a skew of 3: the nodes have no zone.
        (labelled("app=web"), SERVED, EVEN),
        (labelled("app=web", metadata=OWNED), OWNER, EVEN),
        # A pod that belongs with none isn't spread.
        (labelled("app=web"), Workloads(), NOT_ASKED),
        (labelled("app=other"), SERVED, NOT_ASKED),
        (labelled("app=web", namespace="elsewhere"), SERVED, NOT_ASKED),
        (labelled("app=web"), OWNER, NOT_ASKED),
        (labelled("app=web", metadata=OWNED), Workloads(), NOT_ASKED),
        # A pod with constraints of its own has no default ones, of whichever kind its own are.
        (spreading(softly(HOSTNAME)), SERVED, {"a": 28, "b": 57, "c": 71, "d": 100}),
        (spreading(over("zone")), SERVED, NOT_ASKED),
    ],
)
def test_a_pod_of_a_service_or_controller_is_spread_by_default(
    asking: Pod, workloads: Workloads, expected: dict[str, int] | str
) -> None:
    nodes = [node(name, {HOSTNAME: name}) for name in "abcd"]
    assert default_scores(asking, nodes, FOUR_TO_ONE, workloads) == expected


@pytest.mark.parametrize(
    ("placed", "others", "raw"),
    [
        # Nodes with ln(3 + 2) and 2 on top, zones with ln(2 + 2) and 4.
        ("a=1 b=1 c=2", "a a c", {"a": 12, "b": 9, "c": 9}),
        # A node without a zone is scored by its pods alone; as a candidate, though, it is a zone.
        ("a=1 b=", "a", {"a": 9, "b": 2}),
    ],
)
def test_by_default_nodes_and_zones_count(placed: str, others: str, raw: dict[str, int]) -> None:
    labels = dict(each.split("=") for each in placed.split())
    nodes = [node(n, {HOSTNAME: n} | ({ZONE: zone} if zone else {})) for n, zone in labels.items()]
    cluster = Cache(nodes, running(others), looked_up=LookedUp(workloads=SERVED))
    assert raw_scores(PodTopologySpread(), labelled("app=web"), cluster) == raw


def test_by_default_nothing_must_hold() -> None:
    cluster = Cache(HOSTS, running("a a a a a a a"), looked_up=LookedUp(workloads=SERVED))
    assert fitting(PodTopologySpread(), labelled("app=web"), cluster) == "a b x y"


def test_defaults_of_ones_own_replace_the_systems() -> None:
    soft = TopologySpreadConstraint("zone", when_unsatisfiable="ScheduleAnyway")
    plugin = PodTopologySpread(default_constraints=(soft,))
    asking = labelled("app=web")
    found = default_scores(asking, HOSTS, "a a a x", SERVED, plugin)
    assert found == {"a": 25, "b": 25, "x": 100, "y": 100}
    assert default_scores(asking, HOSTS, "a a a x", Workloads(), plugin) == NOT_ASKED
    assert (
        default_scores(asking, HOSTS, "a a a x", SERVED, PodTopologySpread(default_constraints=()))
        == NOT_ASKED
    )
    # Where the system's own defaults put up with nodes without a zone, these don't.
    bare = [*HOSTS, node("bare", {HOSTNAME: "bare"})]
    assert default_scores(asking, bare, "a a a x", SERVED, plugin) == {**found, "bare": 0}


@pytest.mark.parametrize(
    ("asking", "workloads", "expected"),
    [
        (labelled("app=web"), SERVED, "x y"),
        (labelled("app=web"), Workloads(), "a b x y"),
        (spreading(over("zone", 5)), SERVED, "a b x y"),  # its own instead
    ],
)
def test_defaults_of_ones_own_may_be_musts(asking: Pod, workloads: Workloads, expected: str) -> None:
    plugin = PodTopologySpread(default_constraints=(TopologySpreadConstraint("zone"),))
    assert (
        fitting(plugin, asking, Cache(HOSTS, running("a"), looked_up=LookedUp(workloads=workloads)))
        == expected
    )


@pytest.mark.parametrize(
    ("taints_policy", "labels", "spec", "helps"),
    [
        ("Ignore", "app=mail", {}, True),  # another service may select it
        ("Ignore", "app=web", {"tolerations": [{"operator": "Exists"}]}, False),
        ("Honor", "app=web", {"tolerations": [{"operator": "Exists"}]}, True),
        ("Honor", "app=web", {}, False),
    ],
)
def test_a_pod_that_defaults_keep_off_may_help_itself(
    taints_policy: str, labels: str, spec: dict[str, Any], helps: bool
) -> None:
    default = TopologySpreadConstraint("zone", node_taints_policy=taints_policy)
    before = labelled("app=web", metadata={"uid": "web"})
    change = Change(Kind.MODIFIED, labelled(labels, metadata={"uid": "web"}, **spec), before)
    hint = PodTopologySpread(default_constraints=(default,)).queueing_hint
    assert hint(change.object, change) is helps
