"""Pods that are being deleted: since when, and what holds them."""

from datetime import datetime, timedelta

from lib.kube.objects import Pod
from lib.scheduling.text import listed, verb


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
