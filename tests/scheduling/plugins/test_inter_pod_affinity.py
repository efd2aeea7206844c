"""InterPodAffinity: pods that must or would like to be near other pods, or far from them.

Near is where a node has the same value of the term's topology key as the other pod's node. Required terms
filter. Preferred ones score, both those of the pod and those of pods that run; so does the required affinity
of pods that run. The best sum becomes 100, the worst 0.

Figures as in interpodaffinity/filtering_test.go and scoring_test.go.
"""

from typing import Any

import pytest
from objects import node
from plugin_harness import (
    NOT_ASKED,
    fitting,
    labelled,
    raw_scores,
    reasons,
    running,
    scores,
    selecting,
    zones,
)

from lib.kube.changes import Change, Kind
from lib.kube.objects import Node, Pod
from lib.scheduling.cache import Cache
from lib.scheduling.looked_up import LookedUp
from lib.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from lib.scheduling.status import SKIP

TOO_FAR = ["node(s) didn't match pod affinity rules"]
TOO_NEAR = ["node(s) didn't match pod anti-affinity rules"]
UNWELCOME = ["node(s) didn't satisfy existing pods anti-affinity rules"]

NAMESPACES = {"default": {}, "one": {"team": "1"}, "uno": {"team": "1"}, "two": {"team": "2"}}


def term(labels: str, key: str = "zone", **more: Any) -> dict[str, Any]:
    """A term for pods with these labels."""
    return {"topologyKey": key, "labelSelector": selecting(labels), **more}


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def preferred(*terms: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    weighed = [{"weight": weight, "podAffinityTerm": each} for weight, each in terms]
    return {"preferredDuringSchedulingIgnoredDuringExecution": weighed}


def near(*terms: dict[str, Any], labels: str = "", **more: Any) -> Pod:
    """A pod that must be near others."""
    return labelled(labels, affinity={"podAffinity": required(*terms)}, **more)


def far(*terms: dict[str, Any], labels: str = "", **more: Any) -> Pod:
    """A pod that must be far from others."""
    return labelled(labels, affinity={"podAntiAffinity": required(*terms)}, **more)


def cluster_of(nodes: list[Node], others: list[Pod]) -> Cache:
    return Cache(nodes, others, looked_up=LookedUp(NAMESPACES))


def fits(asking: Pod, *others: Pod, nodes: list[Node] | None = None) -> str:
    return fitting(InterPodAffinity(), asking, cluster_of(nodes or HOSTS, list(others)))


HOSTS = zones(east="a b", west="x")
BARE = [*HOSTS, node("bare")]
"""bare has no zone."""

WEB, DB = term("app=web"), term("app=db")


# --- must be near -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "others", "expected"),
    [
        ([WEB], running("a"), "a b"),  # the whole zone is near
        ([WEB], running("a x"), "a b x"),
        ([term("app=web", "kubernetes.io/hostname")], running("a"), "a"),
        ([WEB], running("a", "app=db"), ""),
        ([WEB], [], ""),
        ([WEB], running("bare"), ""),  # a node without the label is nowhere
        # Several terms: one pod must match them all …
        ([WEB, term("rev=1")], running("a", "app=web rev=1") + running("x"), "a b"),
        ([WEB, term("rev=1")], running("a") + running("b", "rev=1"), ""),
        # … and be near by each of their keys.
        ([WEB, term("app=web", "kubernetes.io/hostname")], running("a"), "a"),
    ],
)
def test_a_pod_goes_where_matching_pods_are_near(
    terms: list[dict[str, Any]], others: list[Pod], expected: str
) -> None:
    assert fits(near(*terms), *others, nodes=BARE) == expected


@pytest.mark.parametrize(
    ("labels", "terms", "others", "expected"),
    [
        # Nobody matches yet, but the pod itself does: any node with the label will do.
        ("app=web", [WEB], [], "a b x"),
        ("app=web", [WEB], running("a", "app=db"), "a b x"),
        # Not if there is one already.
        ("app=web", [WEB], running("a"), "a b"),
        # Not if the pod itself doesn't match, or not all of its terms.
        ("app=db", [WEB], [], ""),
        ("app=web", [WEB, DB], [], ""),
        ("app=web rev=1", [WEB, term("rev=1")], [], "a b x"),
        # A pod in another namespace isn't of its kind.
        ("app=web", [WEB], running("a", namespace="one"), "a b x"),
        # One that is nowhere isn't near anything.
        ("app=web", [WEB], running("bare"), "a b x"),
        # It needs the labels of all of its terms.
        ("app=web", [WEB, term("app=web", "rack")], [], ""),
    ],
)
def test_the_first_of_its_kind_goes_anywhere(
    labels: str, terms: list[dict[str, Any]], others: list[Pod], expected: str
) -> None:
    assert fits(near(*terms, labels=labels), *others, nodes=BARE) == expected


# --- must be far ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "others", "expected"),
    [
        ([WEB], [], "a b bare x"),
        ([WEB], running("a"), "bare x"),
        ([WEB], running("a x"), "bare"),  # where there is no label, nothing is near
        ([WEB], running("bare"), "a b bare x"),
        ([WEB], running("a", "app=db"), "a b bare x"),
        ([term("app=web", "kubernetes.io/hostname")], running("a"), "b bare x"),
        # Any term that matches keeps the pod away.
        ([WEB, DB], running("a") + running("x", "app=db"), "bare"),
        ([term("app=web", "rack"), DB], running("a") + running("x", "app=db"), "a b bare"),
    ],
)
def test_a_pod_keeps_far_from_matching_pods(
    terms: list[dict[str, Any]], others: list[Pod], expected: str
) -> None:
    assert fits(far(*terms), *others, nodes=BARE) == expected


@pytest.mark.parametrize(
    ("other", "labels", "expected"),
    [
        (far(WEB, on="a"), "app=web", "bare x"),
        (far(WEB, on="a"), "app=db", "a b bare x"),
        (far(WEB, on="bare"), "app=web", "a b bare x"),
        (far(WEB, on="a", namespace="one"), "app=web", "a b bare x"),  # it means its own namespace
        (far(DB, WEB, on="a"), "app=web", "bare x"),  # any of its terms
        (far(term("app=web", "rack"), on="a"), "app=web", "a b bare x"),
        (near(WEB, on="a"), "app=web", "a b bare x"),  # its affinity keeps nobody away
    ],
)
def test_a_running_pod_keeps_others_away(other: Pod, labels: str, expected: str) -> None:
    assert fits(labelled(labels), other, nodes=BARE) == expected


@pytest.mark.parametrize(
    ("asking", "others", "expected"),
    [
        (near(WEB), [], {"a": TOO_FAR, "b": TOO_FAR, "x": TOO_FAR}),
        (far(WEB), running("x"), {"x": TOO_NEAR}),
        (labelled("app=web"), [far(WEB, on="x")], {"x": UNWELCOME}),
        # Of several reasons the first in this order is given.
        (
            labelled("app=web", affinity={"podAffinity": required(DB), "podAntiAffinity": required(WEB)}),
            [*running("a"), *running("x", "app=db"), far(WEB, on="x")],
            {"a": TOO_FAR, "b": TOO_FAR, "x": UNWELCOME},
        ),
        (
            labelled("app=web", affinity={"podAffinity": required(DB), "podAntiAffinity": required(WEB)}),
            [*running("x"), *running("x", "app=db"), far(WEB, on="x")],
            {"a": TOO_FAR, "b": TOO_FAR, "x": TOO_NEAR},
        ),
    ],
)
def test_the_reasons(asking: Pod, others: list[Pod], expected: dict[str, list[str]]) -> None:
    assert reasons(InterPodAffinity(), asking, cluster_of(HOSTS, others)) == expected


@pytest.mark.parametrize(
    ("asking", "others", "expected"),
    [
        (labelled("app=web"), running("a x"), SKIP),
        (labelled("app=web"), [far(DB, on="a")], SKIP),
        (labelled("app=web", affinity={"podAffinity": preferred((1, WEB))}), running("a"), SKIP),
        (labelled("app=web"), [far(WEB, on="a")], None),
        (near(WEB), [], None),
        (far(WEB), [], None),
    ],
)
def test_a_pod_that_nothing_is_required_for_is_not_filtered(
    asking: Pod, others: list[Pod], expected: Any
) -> None:
    assert InterPodAffinity().pre_filter({}, asking, cluster_of(HOSTS, others)) == expected


# --- which pods a term means ------------------------------------------------------------------------------

TEAM_1: dict[str, Any] = {"namespaceSelector": selecting("team=1")}


@pytest.mark.parametrize(
    ("meant", "own", "seen"),
    [
        ({}, "one", "one"),  # by default the pod's own namespace
        ({}, "default", "default"),
        ({"namespaces": ["two"]}, "one", "two"),
        ({"namespaces": ["one", "two"]}, "default", "one two"),
        (TEAM_1, "two", "one uno"),
        ({"namespaces": ["two"], **TEAM_1}, "default", "one two uno"),  # either
        ({"namespaceSelector": {}}, "two", "default one two uno"),  # an empty selector means all
        ({"namespaceSelector": selecting("team=3")}, "one", ""),
        ({"namespaces": []}, "one", "one"),
    ],
)
def test_a_term_means_pods_of_some_namespaces(meant: dict[str, Any], own: str, seen: str) -> None:
    """The same for the pod's terms and for those of pods that run."""
    web = term("app=web", **meant)
    near_one = [
        name
        for name in sorted(NAMESPACES)
        if fits(near(web, namespace=own), *running("a", namespace=name)) == "a b"
    ]
    kept_away_by = [
        name
        for name in sorted(NAMESPACES)
        if fits(far(web, namespace=own), *running("a", namespace=name)) == "x"
    ]
    keeps_away = [
        name
        for name in sorted(NAMESPACES)
        if fits(labelled("app=web", namespace=name), far(web, namespace=own, on="a")) == "x"
    ]
    assert " ".join(near_one) == " ".join(kept_away_by) == " ".join(keeps_away) == seen


@pytest.mark.parametrize(
    ("selector", "meant"),
    [
        ({"labelSelector": {}}, True),  # an empty selector means every pod
        ({}, False),  # none means no pod
        ({"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}, True),
        (
            {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}},
            False,
        ),
        (
            {"labelSelector": {"matchExpressions": [{"key": "abc", "operator": "NotIn", "values": ["web"]}]}},
            True,
        ),
    ],
)
def test_the_selector_says_which_pods_are_meant(selector: dict[str, Any], meant: bool) -> None:
    asking = far({"topologyKey": "zone", **selector})
    assert fits(asking, *running("a")) == ("x" if meant else "a b x")


@pytest.mark.parametrize(
    ("keys", "labels", "expected"),
    [
        # Web of revision 1 is in the east, of revision 2 in the west.
        ({}, "rev=1", ""),
        ({"matchLabelKeys": ["rev"]}, "rev=1", "x"),
        ({"matchLabelKeys": ["rev"]}, "rev=2", "a b"),
        ({"mismatchLabelKeys": ["rev"]}, "rev=1", "a b"),
        ({"mismatchLabelKeys": ["rev"]}, "rev=2", "x"),
        ({"matchLabelKeys": ["rev"]}, "rev=3", "a b x"),
        ({"mismatchLabelKeys": ["rev"]}, "rev=3", ""),
        # A key that the pod hasn't is passed over.
        ({"matchLabelKeys": ["rev"]}, "", ""),
        ({"mismatchLabelKeys": ["rev"]}, "", ""),
    ],
)
def test_label_keys_narrow_the_selector(keys: dict[str, Any], labels: str, expected: str) -> None:
    others = running("a", "app=web rev=1") + running("x", "app=web rev=2")
    assert fits(far(term("app=web", **keys), labels=labels), *others) == expected


def test_label_keys_that_the_api_server_has_merged_already_change_nothing() -> None:
    """The API server adds them to the selector when the pod is created."""
    merged = {"matchExpressions": [{"key": "rev", "operator": "In", "values": ["1"]}], **selecting("app=web")}
    asking = far(term("", labelSelector=merged, matchLabelKeys=["rev"]), labels="rev=1")
    assert fits(asking, *running("a", "app=web rev=1"), *running("x", "app=web rev=2")) == "x"


def test_label_keys_mean_the_labels_that_the_pod_was_created_with() -> None:
    """A pod's label can be changed later. kube-scheduler never looks at the keys, only at the selector."""
    merged = {"matchExpressions": [{"key": "rev", "operator": "In", "values": ["1"]}], **selecting("app=web")}
    relabelled = far(term("", labelSelector=merged, matchLabelKeys=["rev"]), labels="rev=2", on="a")
    assert fits(labelled("app=web rev=1"), relabelled) == "x"


# --- would like to be near, or far ------------------------------------------------------------------------


def liking(*terms: tuple[int, dict[str, Any]], labels: str = "", **more: Any) -> Pod:
    return labelled(labels, affinity={"podAffinity": preferred(*terms)}, **more)


def disliking(*terms: tuple[int, dict[str, Any]], labels: str = "", **more: Any) -> Pod:
    return labelled(labels, affinity={"podAntiAffinity": preferred(*terms)}, **more)


@pytest.mark.parametrize(
    ("asking", "others", "raw", "normalized"),
    [
        (
            liking((5, WEB)),
            running("a"),
            {"a": 5, "b": 5, "bare": 0, "x": 0},
            {"a": 100, "b": 100, "bare": 0, "x": 0},
        ),
        # For each pod once: three in the east, one in the west.
        (
            liking((6, WEB)),
            running("a a b x"),
            {"a": 18, "b": 18, "bare": 0, "x": 6},
            {"a": 100, "b": 100, "bare": 0, "x": 33},
        ),
        # A pod may match several terms, with different keys.
        (
            liking((8, WEB), (2, term("rev=1", "kubernetes.io/hostname"))),
            running("a", "app=web rev=1"),
            {"a": 10, "b": 8, "bare": 0, "x": 0},
            {"a": 100, "b": 80, "bare": 0, "x": 0},
        ),
        # What is disliked counts against a node: the worst is 0 all the same.
        (
            disliking((5, WEB)),
            running("a a x"),
            {"a": -10, "b": -10, "bare": 0, "x": -5},
            {"a": 0, "b": 0, "bare": 100, "x": 50},
        ),
        (
            labelled(affinity={"podAffinity": preferred((8, WEB)), "podAntiAffinity": preferred((5, DB))}),
            running("a") + running("b x", "app=db"),
            {"a": 3, "b": 3, "bare": 0, "x": -5},
            {"a": 100, "b": 100, "bare": 62, "x": 0},
        ),
        # No pod is anywhere by that key, and nobody runs who wishes for this pod.
        (
            liking((5, term("app=web", "kubernetes.io/os"))),
            [*running("a"), liking((1, DB), on="x")],
            NOT_ASKED,
            NOT_ASKED,
        ),
        (liking((5, WEB)), running("a", "app=db"), NOT_ASKED, NOT_ASKED),
        (liking((5, WEB)), running("a", namespace="one"), NOT_ASKED, NOT_ASKED),
        (liking((5, WEB)), running("bare"), NOT_ASKED, NOT_ASKED),
        # The wishes of the pod's required terms are for the filter.
        (near(WEB), running("a"), NOT_ASKED, NOT_ASKED),
    ],
)
def test_what_the_pod_prefers(
    asking: Pod,
    others: list[Pod],
    raw: dict[str, int] | str,
    normalized: dict[str, int] | str,
) -> None:
    cluster = cluster_of(BARE, others)
    assert raw_scores(InterPodAffinity(), asking, cluster) == raw
    assert scores(InterPodAffinity(), asking, cluster) == normalized


@pytest.mark.parametrize(
    ("others", "raw"),
    [
        ([liking((5, WEB), on="a")], {"a": 5, "b": 5, "bare": 0, "x": 0}),
        ([disliking((5, WEB), on="a")], {"a": -5, "b": -5, "bare": 0, "x": 0}),
        ([liking((5, WEB), (2, DB), on="a"), liking((3, WEB), on="x")], {"a": 5, "b": 5, "bare": 0, "x": 3}),
        ([liking((5, WEB), on="a"), disliking((5, WEB), on="b")], {"a": 0, "b": 0, "bare": 0, "x": 0}),
        ([liking((5, DB), on="a")], NOT_ASKED),
        ([liking((5, WEB), on="a", namespace="one")], NOT_ASKED),
        ([liking((5, WEB), on="bare")], NOT_ASKED),
        # Those in another namespace may mean this one.
        (
            [liking((5, term("app=web", namespaceSelector={})), on="a", namespace="one")],
            {"a": 5, "b": 5, "bare": 0, "x": 0},
        ),
    ],
)
def test_what_running_pods_prefer(others: list[Pod], raw: dict[str, int] | str) -> None:
    assert raw_scores(InterPodAffinity(), labelled("app=web"), cluster_of(BARE, others)) == raw


def test_both_sides_wishes_add_up() -> None:
    """8 for the pod's wish, 3 for that of the pod that it wants to be near."""
    cluster = cluster_of(HOSTS, [liking((3, DB), labels="app=web", on="a"), *running("x")])
    found = raw_scores(InterPodAffinity(), liking((8, WEB), labels="app=db"), cluster)
    assert found == {"a": 11, "b": 11, "x": 8}


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        # The affinity of both zones' pods is alike: all 100 where one node is worse, else all 0.
        ([near(WEB, on="a"), near(WEB, on="x")], {"a": 100, "b": 100, "bare": 0, "x": 100}),
        ([liking((5, WEB), on="a"), disliking((5, WEB), on="b")], {"a": 0, "b": 0, "bare": 0, "x": 0}),
    ],
)
def test_when_all_are_alike_all_get_0(others: list[Pod], expected: dict[str, int]) -> None:
    assert scores(InterPodAffinity(), labelled("app=web"), cluster_of(BARE, others)) == expected


@pytest.mark.parametrize(
    ("weight", "others", "raw"),
    [
        (1, [near(WEB, on="a")], {"a": 1, "b": 1, "x": 0}),
        (100, [near(WEB, on="a")], {"a": 100, "b": 100, "x": 0}),
        (5, [near(WEB, on="a"), near(WEB, WEB, on="x")], {"a": 5, "b": 5, "x": 10}),
        (0, [near(WEB, on="a")], NOT_ASKED),
        (0, [near(WEB, on="a"), liking((2, WEB), on="x")], {"a": 0, "b": 0, "x": 2}),
        (1, [near(DB, on="a")], NOT_ASKED),
        (1, [far(DB, on="a")], NOT_ASKED),  # anti-affinity is for the filter
    ],
)
def test_required_affinity_of_running_pods_has_a_weight_of_its_own(
    weight: int, others: list[Pod], raw: dict[str, int] | str
) -> None:
    plugin = InterPodAffinity(hard_pod_affinity_weight=weight)
    assert raw_scores(plugin, labelled("app=web"), cluster_of(HOSTS, others)) == raw


BOTH_WAYS = term("service=s1", namespaces=["default", "two"], **TEAM_1)


@pytest.mark.parametrize(
    ("namespace", "seen"), [("default", True), ("one", True), ("two", True), ("x", False)]
)
def test_required_affinity_of_running_pods_means_some_namespaces(namespace: str, seen: bool) -> None:
    cluster = cluster_of(HOSTS, [near(BOTH_WAYS, on="a", namespace="uno")])
    found = raw_scores(InterPodAffinity(), labelled("service=s1", namespace=namespace), cluster)
    assert found == ({"a": 1, "b": 1, "x": 0} if seen else NOT_ASKED)


@pytest.mark.parametrize(
    ("ignore", "asking", "expected"),
    [
        (False, labelled("app=web"), {"a": 5, "b": 5, "x": 1}),
        (True, labelled("app=web"), NOT_ASKED),
        # A pod with wishes of its own hears those of the others, too; this one's match nobody.
        (True, liking((7, term("app=cache")), labels="app=web"), {"a": 5, "b": 5, "x": 1}),
        (True, disliking((7, term("app=cache")), labels="app=web"), {"a": 5, "b": 5, "x": 1}),
        (True, near(WEB, labels="app=web"), NOT_ASKED),  # only wishes count
    ],
)
def test_wishes_of_running_pods_can_be_ignored(
    ignore: bool, asking: Pod, expected: dict[str, int] | str
) -> None:
    plugin = InterPodAffinity(ignore_preferred_terms_of_existing_pods=ignore)
    cluster = cluster_of(HOSTS, [liking((5, WEB), on="a"), near(WEB, on="x")])
    assert raw_scores(plugin, asking, cluster) == expected


@pytest.mark.parametrize(
    ("meant", "own", "seen"),
    [
        ({}, "one", "one"),
        ({"namespaces": ["two"]}, "one", "two"),
        ({"namespaces": ["two"], **TEAM_1}, "default", "one two uno"),
        ({"namespaceSelector": {}}, "two", "default one two uno"),
    ],
)
def test_wishes_mean_pods_of_some_namespaces(meant: dict[str, Any], own: str, seen: str) -> None:
    asking = liking((1, term("app=web", **meant)), namespace=own)
    found = [
        name
        for name in sorted(NAMESPACES)
        if raw_scores(InterPodAffinity(), asking, cluster_of(HOSTS, running("a", namespace=name)))
        != NOT_ASKED
    ]
    assert " ".join(found) == seen


# --- what could help --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "now", "helps"),
    [
        ("app=db team=red", "app=web team=blue", True),
        ("app=db team=red", "app=web team=red", True),
        ("app=db team=red", "app=db team=blue", True),
        (
            "app=db team=blue",
            "app=web team=red",
            True,
        ),  # kube-scheduler says no, though a node may be free now
        ("app=db team=blue", "app=db team=red", False),
        ("app=web team=blue", "app=db team=red", False),
        ("app=web team=blue", "app=api team=blue", False),
    ],
)
def test_each_term_is_asked_whether_new_labels_help(before: str, now: str, helps: bool) -> None:
    """A pod that one term matches no longer may make a node free, even if another term still matches it."""
    spec = far(term("app=db", "host"), term("team=red", "rack"))
    change = Change(Kind.MODIFIED, labelled(now, on="a"), labelled(before, on="a"))
    assert InterPodAffinity().queueing_hint(spec, change) is helps
