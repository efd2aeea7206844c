"""NodeNumber: a node whose name ends in the same digit as the pod's scores 10.

The pod is held as many seconds as its node's digit says. A pod whose name ends in no digit isn't scored.
"""

import pytest
from objects import node, pod
from plugin_harness import NOT_ASKED, scores

from lib.scheduling.cache import Cache
from lib.scheduling.plugins.node_number import NodeNumber
from lib.scheduling.status import Code

NODES = ["n1", "n2", "n12", "n"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("web-1", {"n": 0, "n1": 10, "n12": 0, "n2": 0}),
        ("web-2", {"n": 0, "n1": 0, "n12": 10, "n2": 10}),  # the last digit alone
        ("web-12", {"n": 0, "n1": 0, "n12": 10, "n2": 10}),
        ("web-0", {"n": 0, "n1": 0, "n12": 0, "n2": 0}),
        ("web", NOT_ASKED),
        ("1-web", NOT_ASKED),
        ("web-²", NOT_ASKED),  # a number, but no digit of a name
        ("web-٣", NOT_ASKED),
    ],
)
def test_the_same_digit_scores_10(name: str, expected: dict[str, int] | str) -> None:
    assert scores(NodeNumber(), pod(name), Cache([node(each) for each in NODES], [])) == expected


@pytest.mark.parametrize(
    ("node_name", "waited", "held"),
    [
        ("n3", 0, True),
        ("n3", 2.9, True),
        ("n3", 3, False),
        ("n3", 60, False),
        ("n13", 3, False),
        ("n0", 0, False),
        ("n", 0, False),
    ],
)
def test_a_pod_is_held_for_its_nodes_digit_in_seconds(node_name: str, waited: float, held: bool) -> None:
    status = NodeNumber().permit({}, pod("web-3"), node_name, waited)
    assert (status is not None and status.code == Code.WAIT) == held
    assert not status or status.reasons == ("waits 3 s for n3",)
