"""Pods that wait for Permit, in tests of the scheduling cycle alone."""

from collections.abc import Mapping
from typing import Any

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision
from lib.scheduling.groups.pod_group_cycle import recheck_pod_group
from lib.scheduling.pod_life import Phase
from lib.scheduling.queue import batches
from lib.scheduling.scheduling_cycle import Scheduler
from lib.scheduling.status import Status, wait


class Asks:
    """A Permit plugin that answers as its table says, by the names of pods."""

    name = "Asks"

    def __init__(self) -> None:
        self.answers: dict[str, Status | None] = {}

    def permit(self, state: Any, pod: Pod, node_name: str, waited: float) -> Status | None:
        return self.answers.get(pod.metadata.name, wait("not yet"))


def recheck_permit(cache: Cache, schedulers: Mapping[str, Scheduler], now: float) -> list[Decision]:
    """Run Permit again for each pod that waits, as the loop does; returns the decisions that don't wait."""
    held = batches(life.pod for life in cache.lives.in_phase(Phase.HELD))
    return [each for pods in held for each in recheck_pod_group(pods, cache, schedulers, now)]
