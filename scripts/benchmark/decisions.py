"""How fast poller decides, with no API server: the pods of a burst, in this process."""

import time
from random import Random
from typing import Any, TypeVar

import msgspec

from lib.kube.objects import Node, Pod, decode_hook
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Outcome
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.scheduling_cycle import Scheduler
from scripts.benchmark import objects
from scripts.benchmark.client import Json
from scripts.benchmark.measures import Result, in_words
from scripts.benchmark.processes import FailedError

NAME = "bench"

Read = TypeVar("Read", Node, Pod)


def deciding(alike: bool) -> str:
    return f"deciding alone, {in_words(alike)}"


def decide(nodes: int, pods: int, *, alike: bool) -> list[Result]:
    """Pods a second of CPU time: it needs nothing else, so whatever else runs here doesn't count."""
    cluster = Cache([_read(Node, objects.node(each)) for each in range(nodes)])
    waiting = [_read(Pod, _with_uid(body)) for body in objects.pods(pods, NAME, alike=alike)]
    scheduler = Scheduler(default_profile(NAME), Random(1), in_full=False)
    began = time.process_time()
    decisions = [scheduler.schedule_one(pod, cluster) for pod in waiting]
    seconds = time.process_time() - began
    if missed := [each.message for each in decisions if each.outcome != Outcome.SCHEDULED]:
        raise FailedError(f"{len(missed)} of {pods} pods were given no node: {missed[0]}")
    return [Result(deciding(alike), pods / seconds, "pods/s", pods)]


def _with_uid(body: Json) -> Json:
    metadata = body["metadata"]
    return {**body, "metadata": {**metadata, "uid": f"uid-of-{metadata['name']}"}}


def _read(kind: type[Read], body: Any) -> Read:
    """What poller makes of it as JSON."""
    return msgspec.json.decode(msgspec.json.encode(body), type=kind, dec_hook=decode_hook)
