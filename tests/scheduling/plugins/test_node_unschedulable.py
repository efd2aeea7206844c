"""NodeUnschedulable: a cordoned node takes only pods that tolerate the taint that cordoning stands for.

Figures as in nodeunschedulable/node_unschedulable_test.go.
"""

from typing import Any

import pytest
from objects import node, pod
from plugin_harness import reasons

from lib.scheduling.cache import Cache
from lib.scheduling.plugins.node_unschedulable import NodeUnschedulable

CORDONED = {"n1": ["node(s) were unschedulable"]}
KEY = "node.kubernetes.io/unschedulable"


@pytest.mark.parametrize(
    ("cordoned", "tolerations", "expected"),
    [
        (False, [], {}),
        (True, [], CORDONED),
        (True, [{"key": KEY, "operator": "Exists"}], {}),
        (True, [{"key": KEY, "operator": "Exists", "effect": "NoSchedule"}], {}),
        (True, [{"operator": "Exists"}], {}),
        (True, [{"key": KEY, "operator": "Exists", "effect": "NoExecute"}], CORDONED),
        (True, [{"key": "something-else", "operator": "Exists"}], CORDONED),
    ],
)
def test_a_cordoned_node_takes_only_what_tolerates_that(
    cordoned: bool, tolerations: Any, expected: dict[str, list[str]]
) -> None:
    cluster = Cache([node("n1", unschedulable=cordoned)], [])
    assert reasons(NodeUnschedulable(), pod(tolerations=tolerations), cluster) == expected
