"""The arguments of a policy's functions: amounts in one unit, 0 for missing ones, and errors that help."""

from typing import Any

import pytest
from objects import node, pod

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache, NodeInfo
from lib.scheduling.policies.views import NodeView, PodView

WEB = {
    "containers": [
        {
            "name": "main",
            "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "200m"}},
        },
        {"name": "side", "resources": {"requests": {"cpu": "0.5"}}},
    ],
    "initContainers": [{"name": "init", "resources": {"requests": {"memory": "2Gi"}}}],
    "overhead": {"cpu": "10m"},
}


def a_pod() -> Pod:
    return pod("web", **WEB)


def a_node(*running: Pod) -> NodeInfo:
    return Cache([node("n1", has={"example.com/gpu": "2"})], running).nodes["n1"]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        # As kube-scheduler sums them up: containers, or the largest init container; and the overhead.
        ("pod.requests['cpu']", 610),
        ("pod.requests['memory']", 2 * 2**30),
        ("pod.requests['example.com/gpu']", 0),
        ("pod.spec.containers[0].resources.requests['cpu']", 100),
        ("pod.spec.containers[1].resources.requests['memory']", 0),
        ("pod.spec.containers[0].resources.limits['cpu']", 200),
        ("pod.spec.containers[0].resources.limits['memory']", 0),
        ("pod.spec.overhead['cpu']", 10),
        ("pod.metadata.finalizers", ()),
        ("node.allocatable['cpu']", 4000),
        ("node.status.allocatable['cpu']", 4000),
        ("node.allocatable['nvidia.com/gpu']", 0),
        ("empty.requested['cpu']", 0),
        ("empty.requested.get('cpu')", 0),
        ("empty.requested.get('cpu', 7)", 7),
        ("dict(empty.requested)", {"pods": 0}),
        ("node.requested['cpu']", 1500),
        ("node.requested['pods']", 1),
        ("node.free['cpu']", 2500),
        ("node.free['example.com/gpu']", 2),
        ("node.free['pods']", 109),
        ("pod.requests.fits_into(node.free)", True),
        ("pod.requests.fits_into({'cpu': 609, 'memory': 2**40})", False),
        ("'cpu' in pod.requests, 'gpu' in pod.requests", (True, False)),
        ("repr(pod.requests)", "{'cpu': 610, 'memory': 2147483648}"),
        ("pod.metadata.name, pod.name, pod.namespace", ("web", "web", "default")),
        ("[each.name for each in node.pods]", ["old"]),
        ("node.pods[0].node_name", "n1"),
        ("node.pods[0] in node.pods, pod in node.pods", (True, False)),
        (
            "repr(pod)",
            "Pod(namespace='default', name='web', requests={'cpu': 610, 'memory': 2147483648})",
        ),
        (
            "repr(empty)",
            "Node(name='n1', allocatable={'cpu': 4000, 'memory': 8589934592, 'pods': 110, "
            "'example.com/gpu': 2}, requested={'pods': 0})",
        ),
    ],
)
def test_what_a_policy_reads(expression: str, value: Any) -> None:
    running = pod("old", requests={"cpu": "1500m"}, nodeName="n1")
    views = {"pod": PodView(a_pod()), "node": NodeView(a_node(running)), "empty": NodeView(a_node())}
    assert eval(expression, views) == value


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("pod.nodeName", "pod has no nodeName; did you mean node_name?"),
        ("pod.nmae", "pod has no nmae; did you mean name?"),
        ("pod.containers", "pod has no containers; did you mean spec.containers?"),
        ("pod.schedulerName", "pod has no schedulerName; did you mean spec.scheduler_name?"),
        ("pod.spec.nodeSelector", "podspec has no nodeSelector; did you mean node_selector?"),
        ("node.request", "node has no request; did you mean requested?"),
        ("node.zzz", "node has no zzz; it has allocatable, annotations, free, images, labels"),
    ],
)
def test_a_field_that_is_not_there_is_answered_with_the_one_that_was_meant(
    expression: str, said: str
) -> None:
    with pytest.raises(AttributeError) as raised:
        eval(expression, {"pod": PodView(a_pod()), "node": NodeView(a_node())})
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("node.free > 5", "'>' not supported between instances of 'resources' and 'int'"),
        ("node.free - pod.requests", "unsupported operand type(s) for -: 'resources' and 'resources'"),
        ("node['cpu']", "'node' object is not subscriptable"),
        ("pod + 1", "unsupported operand type(s) for +: 'pod' and 'int'"),
        ("[*pod.spec]", "Value after * must be an iterable, not object"),
    ],
)
def test_pythons_errors_call_things_as_a_policy_does(expression: str, said: str) -> None:
    with pytest.raises(TypeError) as raised:
        eval(expression, {"pod": PodView(a_pod()), "node": NodeView(a_node())})
    assert str(raised.value) == said
