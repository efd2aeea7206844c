"""metrics.k8s.io/v1beta1: what nodes use, as metrics-server tells it. Only the list of nodes is there.

A node uses what its annotation minicluster/usage says, such as {"cpu": "1500m", "memory": "2Gi"}. Without it,
the node has no metrics yet.
"""

import json
from datetime import UTC, datetime

from .resources import NODES
from .store import Object, Store

USAGE = "minicluster/usage"


def node_metrics(store: Store) -> Object:
    """The metrics of all nodes that have some."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    items = [
        {
            "metadata": {"name": node.metadata["name"], "creationTimestamp": now},
            "timestamp": now,
            "window": "30s",
            "usage": json.loads(node.metadata["annotations"][USAGE]),
        }
        for node in store.every(NODES)
        if USAGE in node.metadata.get("annotations", {})
    ]
    return {"kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items}
