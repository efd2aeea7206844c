"""Each filter says whether a pod could fit if others left the node; if not, preemption can't help.

The codes as in each plugin's filter in pkg/scheduler/framework/plugins.
"""

from typing import Any

import pytest
from objects import node, pod
from plugin_harness import HOSTNAME, labelled, running, selecting, statuses, taint

from lib.kube.objects import Node, Pod
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import FilterPlugin
from lib.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from lib.scheduling.plugins.node_affinity import NodeAffinity
from lib.scheduling.plugins.node_name import NodeName
from lib.scheduling.plugins.node_ports import NodePorts
from lib.scheduling.plugins.node_resources_fit import NodeResourcesFit
from lib.scheduling.plugins.node_unschedulable import NodeUnschedulable
from lib.scheduling.plugins.pod_topology_spread import PodTopologySpread
from lib.scheduling.plugins.taint_toleration import TaintToleration
from lib.scheduling.status import Code

MAYBE, NEVER = Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE

HERE = {"topologyKey": HOSTNAME, "labelSelector": selecting("app=web")}
EVENLY = {**HERE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": [HERE]}
PORT = [{"ports": [{"hostPort": 80}]}]


def host(**spec: Any) -> Node:
    return node("n1", {HOSTNAME: "n1"}, **spec)


@pytest.mark.parametrize(
    ("plugin", "asking", "nodes", "others", "expected"),
    [
        (NodeUnschedulable(), pod(), [host(unschedulable=True)], [], NEVER),
        (NodeName(), pod(nodeName="n2"), [host()], [], NEVER),
        (TaintToleration(), pod(), [host(taints=[taint("gpu:NoSchedule")])], [], NEVER),
        (NodeAffinity(), pod(nodeSelector={"disk": "ssd"}), [host()], [], NEVER),
        (NodePorts(), pod(containers=PORT), [host()], [labelled(on="n1", containers=PORT)], MAYBE),
        (NodeResourcesFit(), pod(), [node("n1", has={"pods": "1"})], running("n1"), MAYBE),
        (
            NodeResourcesFit(),
            pod(requests={"cpu": "4"}),
            [host()],
            [pod("other", {"cpu": "1"}, nodeName="n1")],
            MAYBE,
        ),
        # More than the node has, were it empty.
        (NodeResourcesFit(), pod(requests={"cpu": "5"}), [host()], [], NEVER),
        (
            PodTopologySpread(),
            labelled("app=web", topologySpreadConstraints=[EVENLY]),
            [host(), node("n2", {HOSTNAME: "n2"})],
            running("n1"),
            MAYBE,
        ),
        (PodTopologySpread(), labelled(topologySpreadConstraints=[EVENLY]), [node("n1")], [], NEVER),
        (InterPodAffinity(), labelled(affinity={"podAffinity": REQUIRED}), [host()], [], NEVER),
        (
            InterPodAffinity(),
            labelled(affinity={"podAntiAffinity": REQUIRED}),
            [host()],
            running("n1"),
            MAYBE,
        ),
        (
            InterPodAffinity(),
            labelled("app=web"),
            [host()],
            [labelled(on="n1", affinity={"podAntiAffinity": REQUIRED})],
            MAYBE,
        ),
    ],
)
def test_whether_others_leaving_could_help(
    plugin: FilterPlugin, asking: Pod, nodes: list[Node], others: list[Pod], expected: Code
) -> None:
    assert {name: each.code for name, each in statuses(plugin, asking, Cache(nodes, others)).items()} == {
        "n1": expected
    }
