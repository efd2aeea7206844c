"""Pods that are being deleted: since when, what holds them, and who waits for that."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from lib.kube.objects import Pod
from lib.questions.deciding import Decider
from lib.scheduling.decision import Decision
from lib.scheduling.status import Code
from lib.scheduling.text import listed, verb

NODES_TRIED = 20
"""On at most so many nodes it is tried whether a pod fits once those that are being deleted have left."""


def leaving_text(pod: Pod, now: datetime) -> str:
    """`it is being deleted since 2026-01-01 10:00:00, and ...`: what it waits for."""
    named = pod.metadata
    assert named.deletion_timestamp
    grace = timedelta(seconds=named.deletion_grace_period_seconds)
    since = f"it is being deleted since {named.deletion_timestamp - grace:%Y-%m-%d %H:%M:%S}"
    if named.finalizers:
        many = len(named.finalizers)
        held = f"{verb(many, 'finalizer', 'finalizers')} {listed(named.finalizers)}"
        return f"{since}, and is gone when {held} {verb(many, 'is', 'are')} removed"
    ends = f"{named.deletion_timestamp:%Y-%m-%d %H:%M:%S}, after {grace.seconds:,} s of grace"
    if named.deletion_timestamp > now:
        return f"{since}, and may run until {ends}"
    return f"{since}, and was to end by {ends}: does the kubelet of {pod.spec.node_name} run?"


def makes_room(decision: Decision, decider: Decider) -> Iterator[tuple[str, list[Pod]]]:
    """The nodes on which a pod fits once those that are being deleted have left, and who these are."""
    tried = 0
    for name, rejection in decision.rejected.items():
        leaving = [pod for pod in decider.cache.nodes[name].pods if pod.metadata.deletion_timestamp]
        if not leaving or rejection.status.code != Code.UNSCHEDULABLE:
            continue
        tried += 1
        if tried > NODES_TRIED:
            return
        with decider.temporarily(removed=leaving):
            if decider.rejection(decision.pod, name) is None:
                yield name, leaving
