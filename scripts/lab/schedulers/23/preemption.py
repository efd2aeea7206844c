"""Preemption: for a pod that fits nowhere, pods of lower priority are evicted from a node."""

import cluster
import framework
from cluster import nodes, pods


def priority_of(pod):
    return pod["spec"].get("priority", 0)


class DefaultPreemption:
    """nominated: by uid, the nodes for which pods wait, until their victims are gone."""

    def __init__(self):
        self.nominated = {}

    def filter(self, state, pod, node):
        """Leave the room of pods that are nominated to this node, and aren't less important."""
        others = [
            pods[uid] for uid in self.waiting_for(node["metadata"]["name"]) if uid != pod["metadata"]["uid"]
        ]
        others = [each for each in others if priority_of(each) >= priority_of(pod)]
        there = [
            each for each in cluster.pods_on(node) if each["metadata"]["uid"] not in state.get("without", ())
        ]
        return None if cluster.have_room([*there, *others, pod], node) else "Insufficient resources"

    def waiting_for(self, node):
        still = {
            uid: name
            for uid, name in self.nominated.items()
            if uid in pods and not cluster.node_of(pods[uid])
        }
        self.nominated = still
        return [uid for uid, name in still.items() if name == node]

    def post_filter(self, pod):
        """Evict the victims on the node where that does the least harm, and nominate the pod to it."""
        uid = pod["metadata"]["uid"]
        if pod["spec"].get("preemptionPolicy") == "Never" or self.has_victims_that_leave(pod):
            return
        found = [(self.victims_on(pod, node), name) for name, node in nodes.items()]
        possible = [(harm(victims), name, victims) for victims, name in found if victims]
        if not possible:
            return
        _, name, victims = min(possible, key=lambda each: each[0])
        self.nominated[uid] = name
        patch = {"status": {"nominatedNodeName": name}}
        merge = {"Content-Type": "application/merge-patch+json"}
        cluster.ask("PATCH", f"{cluster.path_of(pod)}/status", json=patch, headers=merge)
        for each in victims:
            cluster.tell(each, "Normal", "Preempted", f"Preempted by pod {uid} on node {name}")
            cluster.ask("DELETE", cluster.path_of(each))

    def has_victims_that_leave(self, pod):
        """Whether a less important pod on its nominated node is being deleted already."""
        node = nodes.get(self.nominated.get(pod["metadata"]["uid"]))
        there = cluster.pods_on(node) if node else []
        return any(
            "deletionTimestamp" in each["metadata"] and priority_of(each) < priority_of(pod) for each in there
        )

    def victims_on(self, pod, node):
        """The fewest pods of lower priority without which the pod fits; none if that doesn't help."""
        lower = [each for each in cluster.pods_on(node) if priority_of(each) < priority_of(pod)]
        without = {each["metadata"]["uid"] for each in lower}
        if framework.rejection({"without": without}, pod, node):
            return []
        for each in sorted(lower, key=priority_of, reverse=True):  # keep the most important ones, if possible
            without.remove(each["metadata"]["uid"])
            if framework.rejection({"without": without}, pod, node):
                without.add(each["metadata"]["uid"])
        return [each for each in lower if each["metadata"]["uid"] in without]


def harm(victims):
    priorities = [priority_of(each) for each in victims]
    return max(priorities), sum(priorities), len(priorities)
