"""TaintToleration: NoSchedule and NoExecute keep a pod off that doesn't tolerate them.

PreferNoSchedule only advises: each such taint that the pod doesn't tolerate makes the node's score worse. The
node with most of them gets 0, one without any 100.

Figures as in tainttoleration/taint_toleration_test.go.
"""

from typing import Any

import pytest
from objects import node, pod
from plugin_harness import raw_scores, reasons, scores, taint

from lib.scheduling.cache import Cache
from lib.scheduling.plugins.taint_toleration import TaintToleration

TAINTED = ["node(s) had untolerated taint(s)"]


@pytest.mark.parametrize(
    ("taints", "tolerations", "expected"),
    [
        ([], [], []),
        (["gpu=yes:NoSchedule"], [], TAINTED),
        (["gpu=yes:NoExecute"], [], TAINTED),
        (["gpu=yes:PreferNoSchedule"], [], []),  # advice only
        (["gpu=yes:NoSchedule"], [{"key": "gpu", "value": "yes"}], []),  # Equal is the default
        (["gpu=yes:NoSchedule"], [{"key": "gpu", "operator": "", "value": "yes"}], []),
        (["gpu=yes:NoSchedule"], [{"key": "gpu", "operator": "Equal", "value": "no"}], TAINTED),
        (["gpu=yes:NoSchedule"], [{"key": "gpu", "operator": "Exists"}], []),
        (["gpu=yes:NoSchedule"], [{"key": "tpu", "operator": "Exists"}], TAINTED),
        (["gpu=yes:NoSchedule"], [{"operator": "Exists"}], []),  # no key: every taint
        (["gpu=yes:NoSchedule"], [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}], []),
        (["gpu=yes:NoSchedule"], [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}], TAINTED),
        # Every taint must be tolerated.
        (["gpu=yes:NoSchedule", "old:NoExecute"], [{"key": "gpu", "operator": "Exists"}], TAINTED),
        (["old:NoExecute", "gpu=yes:NoSchedule"], [{"key": "gpu", "operator": "Exists"}], TAINTED),
        (["gpu:NoSchedule"], [{"key": "gpu"}], []),  # both values empty
        (["gpu=yes:NoSchedule"], [{"key": "gpu", "operator": "Likes"}], TAINTED),
        # To compare numbers is behind a feature gate that is off.
        (["sla=99:NoSchedule"], [{"key": "sla", "operator": "Gt", "value": "95"}], TAINTED),
    ],
)
def test_every_repelling_taint_must_be_tolerated(
    taints: list[str], tolerations: Any, expected: list[str]
) -> None:
    cluster = Cache([node("n1", taints=[taint(each) for each in taints])], [])
    found = reasons(TaintToleration(), pod(tolerations=tolerations), cluster)
    assert found.get("n1", []) == expected


def tainted(**taints: str) -> Cache:
    return Cache([node(n, taints=[taint(each) for each in t.split()]) for n, t in taints.items()], [])


def tolerating(*texts: str) -> list[dict[str, str]]:
    return [{**taint(text), "operator": "Equal"} for text in texts]


ONE, TWO = "cpu=arm64:PreferNoSchedule", "cpu=arm64:PreferNoSchedule disk=ssd:PreferNoSchedule"


@pytest.mark.parametrize(
    ("tolerations", "nodes", "raw", "normalized"),
    [
        (
            tolerating("foo=bar:PreferNoSchedule"),
            {"a": "foo=bar:PreferNoSchedule", "b": "foo=blah:PreferNoSchedule"},
            {"a": 0, "b": 1},
            {"a": 100, "b": 0},
        ),
        # However many taints are tolerated: it's all the same.
        (
            tolerating("cpu=arm64:PreferNoSchedule", "disk=ssd:PreferNoSchedule"),
            {"a": "", "b": ONE, "c": TWO},
            {"a": 0, "b": 0, "c": 0},
            {"a": 100, "b": 100, "c": 100},
        ),
        # The more that are not, the worse.
        (
            tolerating("foo=bar:PreferNoSchedule"),
            {"a": "", "b": ONE, "c": TWO},
            {"a": 0, "b": 1, "c": 2},
            {"a": 100, "b": 50, "c": 0},
        ),
        # Only PreferNoSchedule counts, of taints …
        ([], {"a": "cpu=arm64:NoSchedule", "b": ONE}, {"a": 0, "b": 1}, {"a": 100, "b": 0}),
        # … and of tolerations: those for NoSchedule don't help.
        (
            tolerating("cpu=arm64:NoSchedule", "disk=ssd:NoSchedule"),
            {"a": "", "b": "cpu=arm64:NoSchedule", "c": TWO},
            {"a": 0, "b": 0, "c": 2},
            {"a": 100, "b": 100, "c": 0},
        ),
        # A toleration without effect is for every effect.
        ([{"key": "cpu", "operator": "Exists"}], {"a": TWO, "b": ONE}, {"a": 1, "b": 0}, {"a": 0, "b": 100}),
        # 100 less a share that is cut off: 1/3 is 33.
        (
            [],
            {"a": ONE, "b": TWO, "c": f"{TWO} old:PreferNoSchedule"},
            {"a": 1, "b": 2, "c": 3},
            {"a": 67, "b": 34, "c": 0},
        ),
    ],
)
def test_the_fewer_advising_taints_the_better(
    tolerations: Any, nodes: dict[str, str], raw: dict[str, int], normalized: dict[str, int]
) -> None:
    asking, cluster = pod(tolerations=tolerations), tainted(**nodes)
    assert raw_scores(TaintToleration(), asking, cluster) == raw
    assert scores(TaintToleration(), asking, cluster) == normalized
