"""The queue and the scheduling cycle, with extension points: plugins say where a pod goes, and when."""

import random
import time
from collections import Counter
from dataclasses import dataclass

import cluster
from cluster import assumed, nodes, pods

FIRST_BACKOFF, LONGEST_BACKOFF = 1, 10  # seconds
EVERY = 0.1  # seconds; so often pods that wait for Permit are asked about


@dataclass
class Waiting:
    """A pod in the queue. It is tried when something has woken it, and its backoff is over."""

    attempts: int = 0
    due: float = 0.0
    is_woken: bool = True


@dataclass
class Held:
    """A pod with a node that Permit lets wait. since: when the node was assumed."""

    waiting: Waiting
    node: str
    since: float


plugins = []  # in order
queue, held = {}, {}  # by uid


def having(point):
    """The plugins that have a method for an extension point."""
    return [each for each in plugins if hasattr(each, point)]


# --- the queue ----------------------------------------------------------------------------------------------


def wake_all():
    for each in queue.values():
        each.is_woken = True


def follow(kind, what, thing):
    """A change may put a pod into the queue, take it out, or wake others."""
    if kind == "nodes":
        wake_all()
        return
    uid = thing["metadata"]["uid"]
    if what != "DELETED" and waits(thing):
        queue.setdefault(uid, Waiting()).is_woken = True
        return
    queue.pop(uid, None)
    if what == "DELETED" or thing["spec"].get("nodeName"):
        held.pop(uid, None)
    if what == "DELETED" or cluster.is_over(thing):  # its room is free
        wake_all()


def waits(pod):
    is_ours = pod["spec"]["schedulerName"] == cluster.NAME
    return is_ours and not (
        cluster.node_of(pod) or cluster.is_over(pod) or pod["spec"].get("schedulingGates")
    )


def failed(uid, waiting, why):
    """Put a pod back into the queue, and tell its owner why."""
    waiting.attempts += 1
    waiting.due = time.monotonic() + min(FIRST_BACKOFF * 2 ** (waiting.attempts - 1), LONGEST_BACKOFF)
    waiting.is_woken = False
    queue[uid] = waiting
    cluster.tell(pods[uid], "Warning", "FailedScheduling", why)


# --- the scheduling cycle: Filter, PreScore, Score, Permit; PostFilter is for lesson 23 --------------------


def schedule(uid):
    pod, waiting, state = pods[uid], queue[uid], {}
    reasons = {name: rejection(state, pod, node) for name, node in nodes.items()}
    feasible = [nodes[name] for name, reason in reasons.items() if not reason]
    if feasible:
        del queue[uid]
        assumed[uid] = best(state, pod, feasible)
        held[uid] = Held(waiting, assumed[uid], time.monotonic())
        return
    counted = ", ".join(f"{count} {reason}" for reason, count in sorted(Counter(reasons.values()).items()))
    failed(uid, waiting, f"0/{len(nodes)} nodes are available: {counted}.")
    for plugin in having("post_filter"):
        plugin.post_filter(pod)


def rejection(state, pod, node):
    """The reason of the first plugin that rejects the node; None if all let the pod in."""
    return next(filter(None, (plugin.filter(state, pod, node) for plugin in having("filter"))), None)


def best(state, pod, feasible):
    """The name of the node with the highest sum of weighted scores; of several, one at random."""
    totals = Counter({node["metadata"]["name"]: 0 for node in feasible})
    for plugin in having("score"):
        if hasattr(plugin, "pre_score") and not plugin.pre_score(state, pod, feasible):
            continue  # it has nothing to say about this pod
        scores = {node["metadata"]["name"]: plugin.score(state, pod, node) for node in feasible}
        if hasattr(plugin, "normalize"):
            scores = plugin.normalize(scores)
        for name, score in scores.items():
            totals[name] += plugin.weight * score
    print(f"{pod['metadata']['name']}: {dict(totals)}")
    return random.choice([name for name, total in totals.items() if total == max(totals.values())])


def settle(uid, hold):
    """Ask the Permit plugins about a pod with a node: wait, bind it, or put it back."""
    pod = pods[uid]
    answers = [
        each.permit(pod, nodes.get(hold.node), time.monotonic() - hold.since) for each in having("permit")
    ]
    rejected = [why for answer, why in answers if answer == "reject"]
    if not rejected and any(answer == "wait" for answer, _ in answers):
        return
    del held[uid]
    if not rejected and cluster.bind(pod, hold.node):
        cluster.tell_where(pod, hold.node)
        return
    del assumed[uid]
    wake_all()  # the room is free for others
    failed(uid, hold.waiting, f"0/{len(nodes)} nodes are available: {', '.join(rejected or ['not bound'])}.")
    queue[uid].is_woken = not rejected


# --- the loop -----------------------------------------------------------------------------------------------


def run(*chosen):
    plugins.extend(chosen)
    cluster.start()
    while True:
        due = [each.due for each in queue.values() if each.is_woken]
        due += [time.monotonic() + EVERY] * bool(held)
        for change in cluster.changes(max(0, min(due) - time.monotonic()) if due else None):
            follow(*change)
        if len(cluster.listed) == 2:  # nobody is tried before nodes and pods are known
            for uid, each in list(queue.items()):
                if each.is_woken and each.due <= time.monotonic():
                    schedule(uid)
            for uid, hold in list(held.items()):
                settle(uid, hold)
