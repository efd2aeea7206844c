"""NodeName: a pod that names its node goes nowhere else.

Figures as in nodename/node_name_test.go.
"""

import pytest
from objects import node, pod
from plugin_harness import reasons

from lib.scheduling.cache import Cache
from lib.scheduling.plugins.node_name import NodeName

OTHER = ["node(s) didn't match the requested node name"]


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("", {}),
        ("foo", {"bar": OTHER}),
        ("fo", {"foo": OTHER, "bar": OTHER}),  # a name, not the beginning of one
    ],
)
def test_only_the_named_node_fits(named: str, expected: dict[str, list[str]]) -> None:
    cluster = Cache([node("foo"), node("bar")], [])
    assert reasons(NodeName(), pod(nodeName=named), cluster) == expected
