"""NodeAffinity: a pod goes only where its nodeSelector and one of its required terms match.

Within a term, all must hold; of the terms, one. If every term names nodes, no others are looked at. Preferred
terms add their weights; the largest sum becomes 100, the others keep the proportion.

Figures as in nodeaffinity/node_affinity_test.go.
"""

from typing import Any

import pytest
from objects import node, pod, read
from plugin_harness import NOT_ASKED, fitting, raw_scores, reasons, scores

from lib.kube import objects
from lib.kube.changes import Change, Kind
from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.plugins.node_affinity import NodeAffinity
from lib.scheduling.status import SKIP, Status, unresolvable

UNWANTED = ["node(s) didn't match Pod's node affinity/selector"]
LABELS = {"disk": "ssd", "zone": "a", "cores": "16", "serial": "0" * 20 + "16"}


def expressions(*found: tuple[str, ...]) -> list[dict[str, Any]]:
    return [{"key": key, "operator": operator, "values": values} for key, operator, *values in found]


def term(*found: tuple[str, ...]) -> dict[str, Any]:
    return {"matchExpressions": expressions(*found)}


def named(*names: str, operator: str = "In") -> dict[str, Any]:
    """A term that names nodes; of several names, all must hold."""
    return {"matchFields": expressions(*(("metadata.name", operator, name) for name in names))}


def requiring(*terms: dict[str, Any], **spec: Any) -> Pod:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return pod(affinity={"nodeAffinity": required}, **spec)


# --- which nodes are out ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({}, []),
        ({"disk": "ssd"}, []),
        ({"disk": "ssd", "zone": "a"}, []),
        ({"disk": "hdd"}, UNWANTED),
        ({"disk": "ssd", "zone": "b"}, UNWANTED),
        ({"absent": ""}, UNWANTED),
    ],
)
def test_all_of_a_node_selector_must_match(selector: dict[str, str], expected: list[str]) -> None:
    found = reasons(NodeAffinity(), pod(nodeSelector=selector), Cache([node("n1", LABELS)], []))
    assert found.get("n1", []) == expected


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        ([term(("disk", "In", "ssd", "nvme"))], True),
        ([term(("disk", "In", "hdd"))], False),
        ([term(("disk", "NotIn", "hdd"))], True),
        ([term(("disk", "NotIn", "hdd", "ssd"))], False),
        ([term(("absent", "NotIn", "x"))], True),  # what isn't there isn't among them
        ([term(("disk", "Exists"))], True),
        ([term(("absent", "Exists"))], False),
        ([term(("absent", "DoesNotExist"))], True),
        ([term(("disk", "DoesNotExist"))], False),
        ([term(("cores", "Gt", "8"))], True),  # as numbers, not as text
        ([term(("cores", "Gt", "16"))], False),
        ([term(("cores", "Lt", "17"))], True),
        ([term(("cores", "Lt", "16"))], False),
        ([term(("serial", "Gt", "15"))], True),
        ([term(("serial", "Lt", "9" * 19))], False),  # more than 64 bits
        ([term(("zone", "Gt", "1"))], False),  # no number
        ([term(("absent", "Lt", "1"))], False),
        ([term(("disk", "Resembles", "ssd"))], False),
        ([term(("disk", "In", "ssd"), ("zone", "In", "b"))], False),  # within a term, all
        ([term(("disk", "In", "hdd")), term(("zone", "In", "a"))], True),  # of the terms, one
        ([term()], False),  # an empty term matches nothing
        ([term(), term(("zone", "In", "a"))], True),
        ([], False),
        ([named("n1")], True),
        ([named("n2")], False),
        ([named("n1", operator="NotIn")], False),
        ([named("n2", operator="NotIn")], True),
        ([named("n1") | term(("zone", "In", "b"))], False),  # fields and labels both
        ([named("n1"), term(("zone", "In", "b"))], True),
    ],
)
def test_one_required_term_must_match(terms: Any, fits: bool) -> None:
    found = reasons(NodeAffinity(), requiring(*terms), Cache([node("n1", LABELS)], []))
    assert found.get("n1", []) == ([] if fits else UNWANTED)


def test_node_selector_and_required_terms_must_both_match() -> None:
    nodes = [node("a", {"zone": "a", "disk": "ssd"}), node("b", {"zone": "a"}), node("c", {"disk": "ssd"})]
    asking = requiring(term(("zone", "In", "a")), nodeSelector={"disk": "ssd"})
    assert fitting(NodeAffinity(), asking, Cache(nodes, [])) == "a"


@pytest.mark.parametrize("cores", ["1_6", "99999999999999999999"])
def test_what_is_no_64_bit_integer_is_not_greater(cores: str) -> None:
    """Apimachinery's pkg/labels/selector.go reads labels with ParseInt, in base 10 and 64 bits."""
    asking = requiring(term(("cores", "Gt", "8")))
    assert reasons(NodeAffinity(), asking, Cache([node("n1", {"cores": cores})], [])) == {"n1": UNWANTED}


# --- which nodes are worth a look -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asking", "expected"),
    [
        (pod(), SKIP),  # nothing to filter by
        (pod(nodeSelector={"disk": "ssd"}), None),  # any node may match
        (requiring(term(("zone", "In", "a"))), None),
        (requiring(named("n1")), {"n1"}),
        (requiring(named("n1") | term(("zone", "In", "a"))), {"n1"}),
        (requiring(named("n1"), named("n2")), {"n1", "n2"}),  # of the terms, one
        (requiring(named("n1"), term(("zone", "In", "a"))), None),  # the other term may mean any node
        (requiring(named("n1", operator="NotIn")), None),
        (requiring(named("n1", "n2")), unresolvable("pod affinity terms conflict")),  # within a term, all
        (requiring(named("n1", "n2"), named("n3")), {"n3"}),
        (requiring(named("n1", "n2"), named("n3", "n4")), unresolvable("pod affinity terms conflict")),
        # What is preferred is for scores.
        (pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}), SKIP),
        (requiring(), None),
    ],
)
def test_terms_that_all_name_nodes_leave_only_those(asking: Pod, expected: set[str] | Status | None) -> None:
    cluster = Cache([node(name) for name in ("n1", "n2", "n3")], [])
    assert NodeAffinity().pre_filter({}, asking, cluster) == expected


# --- which nodes are liked --------------------------------------------------------------------------------


def preferring(*terms: tuple[int, dict[str, Any]]) -> Pod:
    preferred = [{"weight": weight, "preference": preference} for weight, preference in terms]
    return pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}})


BAR = term(("foo", "In", "bar"))
VALUE = term(("key", "In", "value"))
ALL = term(("foo", "In", "bar"), ("key", "In", "value"), ("az", "In", "az1"))
NODES = {
    "foo": {"foo": "bar"},
    "key": {"key": "value"},
    "az": {"az": "az1"},
    "all": {"foo": "bar", "key": "value", "az": "az1"},
}


@pytest.mark.parametrize(
    ("asking", "candidates", "raw", "normalized"),
    [
        (pod(), "foo key", NOT_ASKED, NOT_ASKED),
        (requiring(BAR), "foo key", NOT_ASKED, NOT_ASKED),  # what is required is for the filter
        (preferring((2, BAR)), "key az", {"key": 0, "az": 0}, {"key": 0, "az": 0}),
        (preferring((2, BAR)), "foo key az", {"foo": 2, "key": 0, "az": 0}, {"foo": 100, "key": 0, "az": 0}),
        # The sums 2, 4 and 11 in hundredths of the largest, cut off.
        (
            preferring((2, BAR), (4, VALUE), (5, ALL)),
            "foo key all",
            {"foo": 2, "key": 4, "all": 11},
            {"foo": 18, "key": 36, "all": 100},
        ),
        # An empty preference matches no node, where an empty selector would match all.
        (preferring((7, term()), (2, BAR)), "foo key", {"foo": 2, "key": 0}, {"foo": 100, "key": 0}),
        (preferring((3, named("az"))), "az foo", {"az": 3, "foo": 0}, {"az": 100, "foo": 0}),
    ],
)
def test_weights_of_preferred_terms_add_up(
    asking: Pod, candidates: str, raw: dict[str, int] | str, normalized: dict[str, int] | str
) -> None:
    cluster = Cache([node(name, labels) for name, labels in NODES.items()], [])
    assert raw_scores(NodeAffinity(), asking, cluster, candidates) == raw
    assert scores(NodeAffinity(), asking, cluster, candidates) == normalized


# --- what is added for every pod --------------------------------------------------------------------------


def adding(*required: dict[str, Any], preferred: Any = ()) -> NodeAffinity:
    """A plugin whose configuration has these terms."""
    terms: dict[str, Any] = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": required}
    }
    liked = [{"weight": weight, "preference": preference} for weight, preference in preferred]
    terms[PREFERRED] = liked
    return NodeAffinity(read(objects.NodeAffinity, terms if required else {PREFERRED: liked}))


PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ENFORCED = ["node(s) didn't match scheduler-enforced node affinity"]


@pytest.mark.parametrize(
    ("asking", "expected"),
    [
        (pod(), {"key": ENFORCED, "az": ENFORCED}),
        # What the configuration enforces comes first.
        (pod(nodeSelector={"key": "value"}), {"foo": UNWANTED, "key": ENFORCED, "az": ENFORCED}),
        (requiring(VALUE), {"foo": UNWANTED, "key": ENFORCED, "az": ENFORCED}),
    ],
)
def test_added_terms_must_match_besides_the_pods_own(asking: Pod, expected: Any) -> None:
    cluster = Cache([node(name, labels) for name, labels in NODES.items()], [])
    assert reasons(adding(BAR), asking, cluster) == expected


def test_a_pod_without_wishes_is_skipped_only_if_nothing_is_added() -> None:
    cluster = Cache([node("n1")], [])
    assert adding(BAR).pre_filter({}, pod(), cluster) is None
    assert adding(preferred=[(1, BAR)]).pre_filter({}, pod(), cluster) == SKIP
    assert adding(BAR).pre_score({}, pod(), cluster, [*cluster.nodes.values()]) == SKIP


@pytest.mark.parametrize(
    ("asking", "raw"),
    [(pod(), {"foo": 2, "key": 0, "all": 2}), (preferring((4, VALUE)), {"foo": 2, "key": 4, "all": 6})],
)
def test_added_preferences_count_besides_the_pods_own(asking: Pod, raw: dict[str, int]) -> None:
    cluster = Cache([node(name, labels) for name, labels in NODES.items()], [])
    assert raw_scores(adding(preferred=[(2, BAR)]), asking, cluster, "foo key all") == raw


@pytest.mark.parametrize(
    ("now", "before", "helps"),
    [
        ("foo", None, True),
        ("key", None, False),
        ("foo", "key", True),
        ("foo", "foo", False),
        ("key", "foo", False),
    ],
)
def test_only_a_node_that_the_added_terms_match_helps(now: str, before: str | None, helps: bool) -> None:
    old = node("n1", NODES[before]) if before else None
    change = Change(Kind.MODIFIED if old else Kind.ADDED, node("n1", NODES[now]), old)
    assert adding(BAR).queueing_hint(pod(), change) == helps
