"""Never two pods of an application in one rack; a node's label `example.com/rack` names its rack.

    .venv/bin/python poller.py --plugin scripts/examples/spread_by_rack.py
    kubectl label node NAME example.com/rack=r1

It is a class, because it needs the pods in other racks: it finds these once for each pod, in `pre_filter`.
"""

from lib.scheduling.framework.interface import unschedulable

RACK, APP = "example.com/rack", "app"

NO_RACK = unschedulable(f"node(s) had no label {RACK}")
SAME_RACK = unschedulable("node(s) were in a rack that runs the application already")


class SpreadByRack:
    def pre_filter(self, state, pod, cluster):
        app = pod.metadata.labels.get(APP)
        state["SpreadByRack"] = {
            node.labels.get(RACK)
            for node in cluster.nodes.values()
            for other in node.pods
            if app and other.metadata.labels.get(APP) == app
        }

    def filter(self, state, pod, node):
        rack = node.labels.get(RACK)
        if rack is None:
            return NO_RACK
        return SAME_RACK if rack in state["SpreadByRack"] else None
