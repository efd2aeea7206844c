"""The fewer pods of the application in the node's rack, the better.

A class, as it must know what runs on other nodes: it counts once for each pod, before nodes are scored.
"""

from collections import Counter

RACK, APP = "example.com/rack", "app"

WEIGHT = 100


class OneARack:
    def pre_score(self, state, pod, cluster, nodes):
        app = pod.metadata.labels.get(APP)
        state["OneARack"] = Counter(
            node.labels.get(RACK)
            for node in cluster.nodes.values()
            for other in node.pods
            if app and other.metadata.labels.get(APP) == app
        )

    def score(self, state, pod, node):
        return max(0, 100 - 10 * state["OneARack"][node.labels.get(RACK)])
