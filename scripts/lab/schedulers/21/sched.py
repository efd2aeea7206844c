"""Lesson 21: a queue says which pod is tried when. `cluster.py` watches, keeps, and writes."""

import random
import time
from dataclasses import dataclass

import cluster
from cluster import assumed, nodes, pods

FIRST_BACKOFF, LONGEST_BACKOFF = 1, 10  # seconds


@dataclass
class Waiting:
    """A pod in the queue. It is tried when something has woken it, and its backoff is over."""

    attempts: int = 0
    due: float = 0.0
    is_woken: bool = True

    def failed(self):
        self.attempts += 1
        self.due = time.monotonic() + min(FIRST_BACKOFF * 2 ** (self.attempts - 1), LONGEST_BACKOFF)


queue = {}  # by uid


def wake_all():
    for each in queue.values():
        each.is_woken = True


def follow(kind, what, thing):
    """A change may put a pod into the queue, take it out, or wake others."""
    if kind == "nodes":
        wake_all()
    elif what != "DELETED" and waits(thing):
        queue.setdefault(thing["metadata"]["uid"], Waiting()).is_woken = True
    else:
        queue.pop(thing["metadata"]["uid"], None)
        if what == "DELETED" or cluster.is_over(thing):  # its room is free
            wake_all()


def waits(pod):
    is_ours = pod["spec"]["schedulerName"] == cluster.NAME
    return is_ours and not (
        cluster.node_of(pod) or cluster.is_over(pod) or pod["spec"].get("schedulingGates")
    )


def schedule(uid):
    pod, waiting = pods[uid], queue[uid]
    waiting.is_woken = False
    fitting = [name for name, node in nodes.items() if cluster.have_room([*cluster.pods_on(node), pod], node)]
    if not fitting:
        waiting.failed()
        cluster.tell(pod, "Warning", "FailedScheduling", f"0/{len(nodes)} nodes are available")
        return
    node = random.choice(fitting)
    assumed[uid] = node
    del queue[uid]
    if cluster.bind(pod, node):
        cluster.tell_where(pod, node)
    else:  # forget it; if it is still there without a node, try again
        del assumed[uid]
        queue[uid] = waiting
        waiting.failed()
        wake_all()


def run():
    cluster.start()
    while True:
        due = [each.due for each in queue.values() if each.is_woken]
        for change in cluster.changes(max(0, min(due) - time.monotonic()) if due else None):
            follow(*change)
        if len(cluster.listed) == 2:  # nobody is tried before nodes and pods are known
            for uid, each in list(queue.items()):
                if each.is_woken and each.due <= time.monotonic():
                    schedule(uid)


run()
