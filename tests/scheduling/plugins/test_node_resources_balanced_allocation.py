"""NodeResourcesBalancedAllocation: with the pod, a node's resources should be used as evenly as can be.

Even is 100 less the standard deviation of the shares used. The score is 75, and half of what the pod adds to
that or takes from it.

Figures as in noderesources/balanced_allocation_test.go.
"""

import pytest
from objects import node, pod
from plugin_harness import NOT_ASKED, any_name, raw_scores

from lib.kube.objects import Node, Pod
from lib.scheduling.cache import Cache
from lib.scheduling.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation

GPU = "nvidia.com/gpu"
THREE = {"cpu": 1, "memory": 1, GPU: 1}


def amounts(text: str) -> dict[str, str]:
    """Amounts from `cpu memory`, or `cpu memory gpu`; cpu in thousandths."""
    cpu, *rest = text.split()
    return {"cpu": f"{cpu}m"} | dict(zip(("memory", GPU), rest, strict=False))


def sized(**sizes: str) -> list[Node]:
    return [node(name, has=amounts(size)) for name, size in sizes.items()]


def using(requests: str, on: str = "") -> Pod:
    return pod(any_name(), requests=amounts(requests), nodeName=on)


@pytest.mark.parametrize(
    ("asking", "nodes", "others", "expected"),
    [
        # a: from 0 and 0 % to 75 and 50 %, 87 less 100. b: 50 and 50 %.
        (using("3000 5000"), sized(a="4000 10000", b="6000 10000"), [], {"a": 68, "b": 75}),
        # a: 30 and 0 % to 60 and 25 %, 82 less 85. b: 30 and 25 % to 60 and 50 %, 95 less 97.
        (
            using("3000 5000"),
            sized(a="10000 20000", b="10000 20000"),
            [using("3000 0", "a"), using("3000 5000", "b")],
            {"a": 73, "b": 74},
        ),
        # b: 30 and 10 % to 60 and 20 %, 80 less 90.
        (
            using("3000 5000"),
            sized(a="10000 20000", b="10000 50000"),
            [using("3000 0", "a"), using("3000 5000", "b")],
            {"a": 73, "b": 70},
        ),
        # The best and the worst: a goes from 100 and 0 % to 100 and 100 %, b from 0 and 0 % to 0 and 100 %.
        (using("0 5000"), sized(a="3000 5000", b="3000 5000"), [using("3000 0", "a")], {"a": 100, "b": 50}),
        (
            using("3000 0"),
            sized(a="6000 10000", b="6000 10000"),
            [using("3000 0", "a"), using("3000 5000", "b")],
            {"a": 62, "b": 62},
        ),
        # More than there is counts as all of it: 100 and 100 %.
        (using("9000 9000"), sized(a="3000 5000"), [], {"a": 75}),
        # … before the pod comes, too: from 100 and 0 %.
        (using("0 5000"), sized(a="3000 5000"), [using("6000 0", "a")], {"a": 100}),
        # One resource alone is always even.
        (using("3000 0"), sized(a="3000 0"), [], {"a": 75}),
    ],
)
def test_the_evener_with_the_pod_than_without_the_better(
    asking: Pod, nodes: list[Node], others: list[Pod], expected: dict[str, int]
) -> None:
    assert raw_scores(NodeResourcesBalancedAllocation(), asking, Cache(nodes, others)) == expected


@pytest.mark.parametrize(
    ("asking", "nodes", "others", "expected"),
    [
        # cpu 85.7 %, memory 12.5 %. a's gpu from 37.5 to 50 %, 70 less 69; b's from 0 to 12.5 %, 65 less 62.
        (
            using("0 0 1"),
            sized(a="3500 40000 8", b="3500 40000 8"),
            [using("3000 5000 3", "a"), using("3000 5000", "b")],
            {"a": 75, "b": 76},
        ),
        # An extended resource that isn't requested is left out, though it is all in use.
        (using("2000 2000"), sized(a="4000 4000 8"), [using("0 0 8", "a")], {"a": 75}),
        (using("3000 5000"), sized(a="3500 40000 8", b="3500 40000"), [], {"a": 56, "b": 56}),
    ],
)
def test_of_three_resources(
    asking: Pod, nodes: list[Node], others: list[Pod], expected: dict[str, int]
) -> None:
    plugin = NodeResourcesBalancedAllocation(resources=THREE)
    assert raw_scores(plugin, asking, Cache(nodes, others)) == expected


@pytest.mark.parametrize(
    ("asking", "plugin", "scored"),
    [
        (pod(), NodeResourcesBalancedAllocation(), False),
        (using("0 0"), NodeResourcesBalancedAllocation(), False),
        (using("1 0"), NodeResourcesBalancedAllocation(), True),
        (pod(requests={"cpu": "1u"}), NodeResourcesBalancedAllocation(), True),  # rounded up
        # What isn't looked at doesn't count.
        (pod(requests={GPU: "1"}), NodeResourcesBalancedAllocation(), False),
        (pod(requests={GPU: "1"}), NodeResourcesBalancedAllocation(resources=THREE), True),
    ],
)
def test_a_pod_that_requests_nothing_is_not_scored(
    asking: Pod, plugin: NodeResourcesBalancedAllocation, scored: bool
) -> None:
    """All such pods would go where others balance the node best."""
    assert (raw_scores(plugin, asking, Cache([node("a")], [])) != NOT_ASKED) == scored


def test_nothing_is_filled_in_for_what_requests_nothing() -> None:
    """Unlike NodeResourcesFit, which takes the other pod to use all of this cpu."""
    cluster = Cache(sized(a="100 1000"), [pod(any_name(), nodeName="a")])
    assert raw_scores(NodeResourcesBalancedAllocation(), using("100 1000"), cluster) == {"a": 75}
    assert raw_scores(NodeResourcesBalancedAllocation(), using("100 0"), cluster) == {"a": 50}
