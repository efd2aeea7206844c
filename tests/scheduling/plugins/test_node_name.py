"""NodeName: a pod that names its node goes nowhere else.

Figures as in nodename/node_name_test.go.
"""

import pytest
from objects import node, pod
from plugin_harness import reasons

from lib.kube.changes import Change, Kind
from lib.kube.objects import Node
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


@pytest.mark.parametrize(
    ("change", "helps"),
    [
        (Change(Kind.ADDED, node("foo")), True),
        (Change(Kind.ADDED, node("bar")), False),
        (Change(Kind.DELETED, node("foo")), False),
    ],
)
def test_the_named_node_helps(change: Change[Node], helps: bool) -> None:
    assert NodeName().queueing_hint(pod(nodeName="foo"), change) is helps
