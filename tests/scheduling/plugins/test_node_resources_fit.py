"""NodeResourcesFit: what a pod requests must still be free on its node, and it may hold so many pods.

Scores compare what would be requested, with the pod, with what the node has: LeastAllocated likes what stays
free, MostAllocated what is used, RequestedToCapacityRatio follows a line of one's own. A container that
requests no cpu or memory is taken to use 100m and 200Mi here, though not where nodes are filtered.

Figures as in noderesources/fit_test.go, least_allocated_test.go, most_allocated_test.go and
requested_to_capacity_ratio_test.go.
"""

from typing import Any

import pytest
from objects import node, pod, read
from plugin_harness import any_name, raw_scores, reasons

from lib.kube.changes import Change, Kind
from lib.kube.devices import DeviceClass
from lib.kube.objects import Node, Pod
from lib.scheduling.cache import Cache
from lib.scheduling.handle import Handle
from lib.scheduling.plugins.node_resources_fit import NodeResourcesFit
from lib.scheduling.resource_scores import Shape, requested_to_capacity_ratio

# --- which nodes are out ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requests", "used", "expected"),
    [
        ({}, {}, []),
        ({"cpu": "4", "memory": "8Gi"}, {}, []),  # all of it
        ({"cpu": "4001m"}, {}, ["Insufficient cpu"]),
        ({"cpu": "1"}, {"cpu": "3"}, []),
        ({"cpu": "1001m"}, {"cpu": "3"}, ["Insufficient cpu"]),
        ({"memory": "1Gi"}, {"memory": "7Gi"}, []),
        ({"memory": "1Gi"}, {"memory": "7169Mi"}, ["Insufficient memory"]),
        ({"cpu": "9", "memory": "9Gi"}, {}, ["Insufficient cpu", "Insufficient memory"]),
        ({"ephemeral-storage": "1"}, {}, ["Insufficient ephemeral-storage"]),
        ({"hugepages-2Mi": "2Mi"}, {}, ["Insufficient hugepages-2Mi"]),
        ({"example.com/gpu": "1"}, {}, ["Insufficient example.com/gpu"]),
        ({"example.com/gpu": "0"}, {}, []),
        ({}, {"cpu": "5"}, []),  # an overfull node takes what asks for nothing
        ({"cpu": "0"}, {"cpu": "5"}, []),
        ({"memory": "1"}, {"cpu": "5"}, []),  # … or for something else
    ],
)
def test_what_is_requested_must_be_free(
    requests: dict[str, str], used: dict[str, str], expected: list[str]
) -> None:
    cluster = Cache([node("n1")], [pod("other", requests=used, nodeName="n1")])
    assert reasons(NodeResourcesFit(), pod(requests=requests), cluster).get("n1", []) == expected


@pytest.mark.parametrize(
    ("served", "has", "expected"),
    [(True, ("1", "0"), True), (False, ("1", "0"), False), (True, ("0", "0"), False)],
)
def test_a_pod_is_woken_if_devices_serve_what_a_node_has_lost(
    served: bool, has: tuple[str, str], expected: bool
) -> None:
    """Its device plugin went: it had too few for the pod, and as long as it had some, devices served none."""
    cluster = Cache()
    if served:
        spec = {"extendedResourceName": "example.com/gpu"}
        cluster.devices.put(read(DeviceClass, {"metadata": {"name": "gpu"}, "spec": spec}))
    before, now = (node("n1", has={"example.com/gpu": each}) for each in has)
    plugin, asking = NodeResourcesFit(handle=Handle(cache=cluster)), pod(requests={"example.com/gpu": "2"})
    assert plugin.queueing_hint(asking, Change(Kind.MODIFIED, now, before)) == expected


def test_reasons_begin_with_cpu_and_memory() -> None:
    """However the pod orders its requests; see fitsRequest in noderesources/fit.go."""
    asking = pod(requests={"example.com/gpu": "1", "memory": "9Gi", "cpu": "9"})
    assert reasons(NodeResourcesFit(), asking, Cache([node("n1")], [])) == {
        "n1": ["Insufficient cpu", "Insufficient memory", "Insufficient example.com/gpu"]
    }


@pytest.mark.parametrize(
    ("requests", "used", "expected"),
    [
        ({"example.com/gpu": "2"}, {}, []),
        ({"example.com/gpu": "3"}, {}, ["Insufficient example.com/gpu"]),
        ({"example.com/gpu": "1"}, {"example.com/gpu": "1"}, []),
        ({"example.com/gpu": "2"}, {"example.com/gpu": "1"}, ["Insufficient example.com/gpu"]),
        ({"example.com/fpga": "1"}, {}, ["Insufficient example.com/fpga"]),  # the node has none
    ],
)
def test_extended_resources_are_counted_alike(
    requests: dict[str, str], used: dict[str, str], expected: list[str]
) -> None:
    cluster = Cache([node("n1", has={"example.com/gpu": "2"})], [pod("other", requests=used, nodeName="n1")])
    assert reasons(NodeResourcesFit(), pod(requests=requests), cluster).get("n1", []) == expected


@pytest.mark.parametrize(("room", "fits"), [("1", False), ("2", True), ("0", False)])
def test_a_node_takes_so_many_pods(room: str, fits: bool) -> None:
    cluster = Cache([node("n1", has={"pods": room})], [pod("other", nodeName="n1")])
    assert reasons(NodeResourcesFit(), pod(), cluster) == ({} if fits else {"n1": ["Too many pods"]})


def test_too_many_pods_is_said_first() -> None:
    cluster = Cache([node("n1", has={"pods": "0"})], [])
    found = reasons(NodeResourcesFit(), pod(requests={"cpu": "5"}), cluster)
    assert found == {"n1": ["Too many pods", "Insufficient cpu"]}


def container(cpu: str, **more: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}}, **more}


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({"containers": [container("2"), container("2")]}, True),  # the node has 4
        ({"containers": [container("2"), container("2001m")]}, False),
        # Init containers run before the others, a sidecar beside them.
        ({"containers": [container("4")], "initContainers": [container("4")]}, True),
        ({"containers": [container("1")], "initContainers": [container("5")]}, False),
        ({"containers": [container("4")], "initContainers": [container("1", restartPolicy="Always")]}, False),
        ({"containers": [container("4")], "overhead": {"cpu": "1m"}}, False),
        # What the pod as a whole requests goes before its containers.
        ({"containers": [container("5")], "resources": {"requests": {"cpu": "4"}}}, True),
    ],
)
def test_all_of_a_pod_must_fit(spec: dict[str, Any], fits: bool) -> None:
    found = reasons(NodeResourcesFit(), pod(**spec), Cache([node("n1")], []))
    assert found == ({} if fits else {"n1": ["Insufficient cpu"]})


@pytest.mark.parametrize(
    ("ignored", "groups", "requests", "expected"),
    [
        ("", "", "example.com/gpu", ["Insufficient example.com/gpu"]),
        ("example.com/gpu", "", "example.com/gpu", []),
        ("example.com/fpga", "", "example.com/gpu", ["Insufficient example.com/gpu"]),
        ("", "example.com", "example.com/gpu", []),
        ("", "example", "example.com/gpu", ["Insufficient example.com/gpu"]),  # the whole of the group's name
        ("", "gpu", "example.com/gpu", ["Insufficient example.com/gpu"]),
        ("", "cpu", "cpu", ["Insufficient cpu"]),  # no group
        # Only extended resources can be ignored (v1helper.IsExtendedResourceName).
        ("cpu", "", "cpu", ["Insufficient cpu"]),
        ("", "kubernetes.io", "kubernetes.io/batch", ["Insufficient kubernetes.io/batch"]),
    ],
)
def test_extended_resources_can_be_left_to_others(
    ignored: str, groups: str, requests: str, expected: list[str]
) -> None:
    plugin = NodeResourcesFit(
        ignored_resources=frozenset(ignored.split()), ignored_resource_groups=frozenset(groups.split())
    )
    found = reasons(plugin, pod(requests={requests: "5"}), Cache([node("n1")], []))
    assert found.get("n1", []) == expected


@pytest.mark.parametrize(("ignored", "expected"), [("example.com/gpu", True), ("", False)])
def test_a_new_node_need_not_have_what_is_ignored(ignored: str, expected: bool) -> None:
    plugin, asking = (
        NodeResourcesFit(ignored_resources=frozenset([ignored])),
        pod(requests={"example.com/gpu": "5"}),
    )
    assert plugin.queueing_hint(asking, Change(Kind.ADDED, node("n1"))) == expected


# --- which nodes are better -------------------------------------------------------------------------------

GPU = "example.com/gpu"


def amounts(text: str) -> dict[str, str]:
    """Amounts from `cpu memory`, or `cpu memory gpu`."""
    return dict(zip(("cpu", "memory", GPU), text.split(), strict=False))


def sized(**sizes: str) -> list[Node]:
    return [node(name, has=amounts(size)) for name, size in sizes.items()]


def using(requests: str, on: str = "") -> Pod:
    return pod(any_name(), requests=amounts(requests), nodeName=on)


NOTHING = pod(containers=[])
TWO_CONTAINERS = pod(
    containers=[{"resources": {"requests": amounts(each)}} for each in ("1000 2000", "2000 3000")]
)


@pytest.mark.parametrize(
    ("asking", "nodes", "others", "least", "most"),
    [
        (NOTHING, sized(a="4000 10000", b="4000 10000"), [], {"a": 100, "b": 100}, {"a": 0, "b": 0}),
        # a: cpu 25 % free, memory 50 %: 37, cut off. b: 50 % of both.
        (
            TWO_CONTAINERS,
            sized(a="4000 10000", b="6000 10000"),
            [],
            {"a": 37, "b": 50},
            {"a": 62, "b": 50},
        ),
        # What runs there counts, too.
        (
            NOTHING,
            sized(a="10000 20000", b="10000 20000"),
            [using("3000 0", "a"), using("3000 0", "a"), using("3000 0", "b"), using("3000 5000", "b")],
            {"a": 70, "b": 57},
            {"a": 30, "b": 42},
        ),
        (
            TWO_CONTAINERS,
            sized(a="10000 20000", b="10000 20000"),
            [using("3000 0", "a"), using("3000 5000", "b")],
            {"a": 57, "b": 45},
            {"a": 42, "b": 55},
        ),
        (
            TWO_CONTAINERS,
            sized(a="10000 20000", b="10000 50000"),
            [using("3000 0", "a"), using("3000 5000", "b")],
            {"a": 57, "b": 60},
            {"a": 42, "b": 40},
        ),
        # More than there is: nothing free, all used.
        (
            using("3000 0"),
            sized(a="4000 10000", b="4000 10000"),
            [using("3000 0", "a"), using("3000 5000", "b")],
            {"a": 50, "b": 25},
            {"a": 50, "b": 75},
        ),
        (
            using("5000 9000"),
            sized(a="5000 10000", b="10000 9000"),
            [],
            {"a": 5, "b": 25},
            {"a": 95, "b": 75},
        ),
        # A node that has nothing.
        (NOTHING, sized(a="0 0"), [using("3000 5000", "a")], {"a": 0}, {"a": 0}),
        # What a node hasn't doesn't count.
        (using("3 1"), sized(a="6 0"), [], {"a": 50}, {"a": 50}),
    ],
)
def test_least_or_most_allocated(
    asking: Pod, nodes: list[Node], others: list[Pod], least: dict[str, int], most: dict[str, int]
) -> None:
    cluster = Cache(nodes, others)
    assert raw_scores(NodeResourcesFit(), asking, cluster) == least
    assert raw_scores(NodeResourcesFit(strategy="MostAllocated"), asking, cluster) == most


@pytest.mark.parametrize(
    ("strategy", "weights", "expected"),
    [
        ("LeastAllocated", {"memory": 2, "cpu": 1}, {"a": 41, "b": 50}),  # (25 + 2 x 50) / 3
        ("MostAllocated", {"memory": 2, "cpu": 1}, {"a": 58, "b": 50}),  # (75 + 2 x 50) / 3
        ("LeastAllocated", {"cpu": 1}, {"a": 25, "b": 50}),
        ("LeastAllocated", {"memory": 5}, {"a": 50, "b": 50}),
    ],
)
def test_resources_can_weigh_differently(
    strategy: str, weights: dict[str, int], expected: dict[str, int]
) -> None:
    plugin = NodeResourcesFit(strategy=strategy, resources=weights)
    assert raw_scores(plugin, TWO_CONTAINERS, Cache(sized(a="4000 10000", b="6000 10000"), [])) == expected


@pytest.mark.parametrize(
    ("strategy", "requests", "expected"),
    [
        # Not requested: not scored, whether there is any or not.
        ("LeastAllocated", "3000 5000", {"a": 50, "b": 50, "none": 50}),
        ("MostAllocated", "3000 5000", {"a": 50, "b": 50, "none": 50}),
        # Requested: 2 of 4 or of 10.
        ("LeastAllocated", "3000 5000 2", {"a": 50, "b": 60, "none": 50}),
        ("MostAllocated", "3000 5000 2", {"a": 50, "b": 40, "none": 50}),
    ],
)
def test_an_extended_resource_is_scored_if_it_is_requested(
    strategy: str, requests: str, expected: dict[str, int]
) -> None:
    plugin = NodeResourcesFit(strategy=strategy, resources={"cpu": 1, "memory": 1, GPU: 1})
    nodes = sized(a="6000 10000 4", b="6000 10000 10", none="6000 10000")
    assert raw_scores(plugin, using(requests), Cache(nodes, [])) == expected


def test_what_runs_counts_of_extended_resources_too() -> None:
    plugin = NodeResourcesFit(resources={GPU: 1})
    cluster = Cache(sized(a="4 4 10"), [using("0 0 3", "a")])
    assert raw_scores(plugin, using("0 0 2"), cluster) == {"a": 50}


# --- containers that request nothing ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asking", "others", "expected"),
    [
        # cpu 300m of 250m: all of it, memory 600Mi of 1000Mi.
        (pod(), [pod(any_name(), nodeName="a"), pod(any_name(), nodeName="a")], 80),
        (pod(), [], 30),  # 40 % and 20 %
        # Each container has its share, and an explicit 0 is none.
        (pod(containers=[{}, {}]), [], 60),
        (pod(requests={"cpu": "0", "memory": "0"}), [], 0),
        (pod(requests={"cpu": "200m"}), [], 50),  # 80 % and 20 %: what is missing is filled in
        # An init container is filled in as well, but it doesn't run beside the others.
        (pod(containers=[{}], initContainers=[{}]), [], 30),
        (pod(containers=[{}], initContainers=[{"restartPolicy": "Always"}]), [], 60),
    ],
)
def test_a_container_that_requests_nothing_is_taken_to_use_a_little(
    asking: Pod, others: list[Pod], expected: int
) -> None:
    plugin = NodeResourcesFit(strategy="MostAllocated")
    cluster = Cache([node("a", has={"cpu": "250m", "memory": "1000Mi"})], others)
    assert raw_scores(plugin, asking, cluster) == {"a": expected}


def test_pod_level_requests_of_the_pod_itself_do_not_count() -> None:
    """kube-scheduler 1.36's answers. Those of pods that have a node do."""
    whole = {"requests": {"cpu": "2", "memory": "4Gi"}}
    small, large = node("small", has={"cpu": "4"}), node("large", has={"cpu": "16", "memory": "64Gi"})
    cluster = Cache([small, large], [pod("e", {"cpu": "6", "memory": "24Gi"}, nodeName="large")])
    assert raw_scores(NodeResourcesFit(), pod(resources=whole), cluster) == {"small": 97, "large": 61}
    full = Cache([small], [pod("e", resources=whole, nodeName="small")])
    assert raw_scores(NodeResourcesFit(), pod(), full) == {"small": 47}


def test_nothing_is_filled_in_where_nodes_are_filtered() -> None:
    cluster = Cache(
        [node("a", has={"cpu": "100m"})], [pod(any_name(), nodeName="a"), pod(any_name(), nodeName="a")]
    )
    assert reasons(NodeResourcesFit(), pod(requests={"cpu": "100m"}), cluster) == {}


def test_nothing_is_filled_in_of_other_resources() -> None:
    plugin = NodeResourcesFit(resources={"ephemeral-storage": 1})
    cluster = Cache([node("a", has={"ephemeral-storage": "1Gi"})], [pod(any_name(), nodeName="a")])
    assert raw_scores(plugin, pod(), cluster) == {"a": 100}


# --- a line of one's own ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "points"),
    [
        # Level before the first point and behind the last.
        (((10, 1), (90, 9)), {0: 10, 9: 10, 10: 10, 15: 15, 19: 19, 20: 20, 89: 89, 90: 90, 99: 90, 100: 90}),
        (((0, 2), (40, 10), (100, 0)), {0: 20, 20: 60, 30: 80, 40: 100, 70: 50, 100: 0}),
        (((0, 2), (40, 2), (100, 2)), {0: 20, 20: 20, 40: 20, 70: 20, 100: 20}),
        # Cut off towards the point before, up or down.
        (((0, 0), (30, 1)), {1: 0, 2: 0, 3: 1, 29: 9, 30: 10}),
        (((0, 1), (30, 0)), {1: 10, 2: 10, 3: 9, 29: 1, 30: 0}),
        # More than there is counts as all of it.
        (((0, 0), (100, 10)), {110: 100, 1000: 100}),
    ],
)
def test_points_are_joined_by_lines(shape: Shape, points: dict[int, int]) -> None:
    uses = [(used, 100) for used in points]
    assert requested_to_capacity_ratio(shape, 0, uses) == [*points.values()]


def test_the_share_used_is_cut_off_to_hundredths() -> None:
    assert requested_to_capacity_ratio(((0, 0), (100, 10)), 1, [(1, 3)]) == [66]


FALLING: Shape = ((0, 10), (100, 0))


@pytest.mark.parametrize(
    ("asking", "nodes", "others", "expected"),
    [
        (NOTHING, sized(a="4000 10000", b="4000 10000"), [], {"a": 100, "b": 100}),
        # 37.5 is rounded, where the other strategies cut off.
        (TWO_CONTAINERS, sized(a="4000 10000", b="6000 10000"), [], {"a": 38, "b": 50}),
        (
            NOTHING,
            sized(a="4000 10000", b="6000 10000"),
            [using("3000 5000", "a"), using("3000 5000", "b")],
            {"a": 38, "b": 50},
        ),
        # What scores 0 doesn't weigh: cpu is used up, memory alone counts.
        (using("4000 5000"), sized(a="4000 10000"), [], {"a": 50}),
        (using("4000 10000"), sized(a="4000 10000"), [], {"a": 0}),
    ],
)
def test_a_falling_line_likes_empty_nodes(
    asking: Pod, nodes: list[Node], others: list[Pod], expected: dict[str, int]
) -> None:
    plugin = NodeResourcesFit(strategy="RequestedToCapacityRatio", shape=FALLING)
    assert raw_scores(plugin, asking, Cache(nodes, others)) == expected


def devices(foo: int, bar: int, on: str = "") -> Pod:
    wants = {"intel.com/foo": str(foo), "intel.com/bar": str(bar)}
    return pod(any_name(), requests={name: each for name, each in wants.items() if each != "0"}, nodeName=on)


@pytest.mark.parametrize(
    ("asking", "others", "foo_only", "both"),
    [
        (devices(0, 0), [], {"a": 0, "b": 0}, {"a": 0, "b": 0}),
        # Of foo 2/8 and 2/4, of bar 2/4 and 2/8: (2 x 3 + 5 x 5) / 8 = 3.9, (5 x 3 + 2 x 5) / 8 = 3.1.
        (devices(2, 2), [], {"a": 2, "b": 5}, {"a": 4, "b": 3}),
        (devices(2, 2), [devices(2, 0, "b")], {"a": 2, "b": 10}, {"a": 4, "b": 5}),
        (devices(2, 2), [devices(4, 2, "b")], {"a": 2, "b": 10}, {"a": 4, "b": 7}),
        (devices(4, 2), [], {"a": 5, "b": 10}, {"a": 5, "b": 5}),
    ],
)
def test_a_rising_line_packs_extended_resources(
    asking: Pod, others: list[Pod], foo_only: dict[str, int], both: dict[str, int]
) -> None:
    rising: Shape = ((0, 0), (100, 1))
    nodes = [
        node("a", has={"intel.com/foo": "8", "intel.com/bar": "4"}),
        node("b", has={"intel.com/foo": "4", "intel.com/bar": "8"}),
    ]
    for weights, expected in (
        ({"intel.com/foo": 1}, foo_only),
        ({"intel.com/foo": 3, "intel.com/bar": 5}, both),
    ):
        plugin = NodeResourcesFit(strategy="RequestedToCapacityRatio", shape=rising, resources=weights)
        assert raw_scores(plugin, asking, Cache(nodes, others)) == expected
