"""What must be true when nothing has happened for a while: what fits is placed, nothing is left over."""

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import TypeVar

import msgspec

from lib.kube.objects import Node, Object, Pod, decode_hook
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Outcome
from lib.scheduling.groups.pod_group_cycle import schedule_pod_group
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.pod_life import Phase
from lib.scheduling.queue import batches
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.steps import Poller
from scripts.minicluster.resources import NODES, PODS, Resource
from scripts.minicluster.store import Store

T = TypeVar("T", bound=Object)

AT_REST = (Phase.OUT, Phase.GATED, Phase.UNSCHEDULABLE, Phase.BACKOFF, Phase.ACTIVE)

Found = Callable[[str, str, str], None]
"""Is told the rule, what breaks it, and the pod's name."""


def check_rest(store: Store, pollers: Mapping[str, Poller], found: Found) -> None:
    """Compare the cluster with fresh decisions on it, and look at what each poller still remembers."""
    pods, nodes = [*_read(store, PODS, Pod)], [*_read(store, NODES, Node)]
    names = {name for each in pollers.values() for name in each.schedulers}
    waiting = [each for each in pods if each.spec.scheduler_name in names and not each.spec.node_name]
    schedulers = {name: Scheduler(default_profile(name), Random(1)) for name in names}
    ready = [each for each in waiting if not (each.spec.scheduling_gates or each.metadata.deletion_timestamp)]
    for batch in batches(ready):
        there = [
            each for each in pods if each.spec.node_name and each.status.phase not in ("Succeeded", "Failed")
        ]
        cache = Cache(nodes, there)
        for other in waiting:  # whose room is kept for them
            if other not in batch and (node := other.status.nominated_node_name):
                cache.nominator.add(other, node)
        decisions = schedule_pod_group(batch, cache, schedulers)
        for decision in decisions:
            pod = decision.pod
            if decision.outcome == Outcome.SCHEDULED:
                found(
                    "liveness", f"pod {pod} waits, though it fits on {decision.node_name}", pod.metadata.name
                )
            elif decision.victims:
                what = f"pod {pod} waits, though it could preempt others on {decision.nominated}"
                found("liveness", what, pod.metadata.name)
    for pod in ready:
        node = pod.status.nominated_node_name
        if node and node not in {each.metadata.name for each in nodes}:
            what = f"pod {pod} is nominated to {node}, which isn't there"
            found("nothing left over", what, pod.metadata.name)
    known = {each.metadata.uid for each in waiting}
    for name, poller in pollers.items():
        for phase in Phase:
            waits = any(each.spec.scheduler_name in poller.schedulers for each in waiting)
            if phase == Phase.BOUND and not waits and not poller.options.watch:
                continue  # polling reads no other pods while none waits
            for life in poller.lives.in_phase(phase) if poller.leads() else ():
                if phase not in AT_REST or (phase != Phase.OUT and life.pod.metadata.uid not in known):
                    what = f"{name} remembers pod {life.pod} as {phase.value}"
                    found("nothing left over", what, life.pod.metadata.name)


def _read(store: Store, resource: Resource, kind: type[T]) -> Iterator[T]:
    for each in store.every(resource):
        yield msgspec.json.decode(each.json, type=kind, dec_hook=decode_hook)
