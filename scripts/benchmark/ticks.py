"""Measures the loop's tick beside pods that wait, in a separate process, without an API server.

The loop is poller's own (`poller.tick`, with `--watch --dry-run`); what watches would tell is played to it.
So applying changes, deciding and all bookkeeping count, and the requests don't.
"""

import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from lib.kube.api import Api
from lib.kube.changes import AnyChange, Change, Kind
from lib.kube.informer import Informer
from lib.kube.lookup import PATIENCE
from lib.kube.objects import Node, Pod, with_parts
from lib.kube.source import Delta
from lib.service.app import assembled
from lib.service.command_line import CommandLine
from lib.service.options import _options
from lib.service.shutdown import Shutdown
from lib.service.steps import Poller
from lib.service.telemetry.observer import Address
from lib.service.telemetry.report import Report
from poller import tick
from scripts.benchmark import objects
from scripts.benchmark.decisions import NAME, read, with_uid
from scripts.benchmark.measures import Result
from scripts.benchmark.processes import FailedError
from scripts.servers.process import ROOT

PHASES = "gated", "unschedulable", "held"

KINDS = (
    "idle",
    "a new pod",
    "a pod without a node goes",
    "a pod on a node goes",
    "a pod is placed",
    "a node gets a label",
)
"""What happens in a tick."""

RUNNING = 6
"""Pods that run already, for each node."""

MOST_TICKS = 1_000
"""After so many ticks, all pods that are to wait must wait."""

ROUNDS = 40

LIMIT = 1800.0
"""Seconds after which a measurement is ended."""

POLICY = """
from lib.scheduling.status import wait

class HoldsSome:
    def permit(self, state, pod, node_name, waited):
        return wait("held for the bench", limit=1e9) if "hold" in pod.metadata.labels else None
"""

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: bench
    plugins: {multiPoint: {enabled: [{name: HoldsSome}]}}
    pluginConfig:  # without services to look up
      - name: PodTopologySpread
        args: {defaultingType: List, defaultConstraints: []}
"""


def tick_of(what: str, waiting: int, phase: str) -> str:
    return f"tick, {what}; {waiting:,} pods {phase}"


def ticks(nodes: int, phase: str, waiting: Sequence[int]) -> list[Result]:
    """Milliseconds of CPU time for each kind of tick, with so many nodes, beside so many pods in a phase."""
    command = [sys.executable, "-m", "scripts.benchmark.ticks", str(nodes), phase, *map(str, waiting)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode:
        raise FailedError((done.stderr.strip().splitlines() or ["it ended without a word"])[-1])
    return [
        Result(tick_of(what, number, phase), median(each), "ms", number, each)
        for what, number, each in json.loads(done.stdout)
    ]


# --- in the separate process ----------------------------------------------------------------------------


class Played(Informer):
    """A watch that tells what it is handed."""

    coming: Sequence[AnyChange] = ()

    def first_changes(self) -> Iterator[AnyChange]:
        """Nothing: all comes from `poll`."""
        return iter(())

    def poll(self, patience: float = PATIENCE) -> Delta:  # noqa: ARG002
        """What it was handed."""
        coming, self.coming = self.coming, ()
        return Delta([*coming])

    def wait(self, seconds: float) -> None:
        """Return at once."""


@dataclass
class World:
    """A poller, and the source of its changes."""

    poller: Poller
    source: Played

    def tick(self, *changes: AnyChange) -> float:
        """Have a tick. Returns its milliseconds of CPU time."""
        self.source.coming = changes
        began = time.thread_time()
        self.poller.wait()
        self.poller.run_tick(tick)
        return (time.thread_time() - began) * 1000

    def counts(self) -> dict[str, int]:
        """The number of pods in each phase."""
        counts = self.poller.queue.counts()
        return {"gated": self.poller.queue.gated(), "held": counts.pop("waiting"), **counts}


def main(nodes: str, phase: str, *numbers: str) -> None:
    logging.disable()
    node_list = [read(Node, objects.node(i)) for i in range(int(nodes))]
    running = [
        read(Pod, with_uid(objects.bound_pod(i, len(node_list)))) for i in range(RUNNING * len(node_list))
    ]
    taken: dict[tuple[str, int], list[float]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="poller-bench-")))
        worlds = {waiting: _world(stack, folder) for waiting in map(int, numbers)}
        for waiting, world in worlds.items():
            world.tick(*(Change(Kind.ADDED, each) for each in node_list))
            world.tick(*(Change(Kind.ADDED, each) for each in running))
            world.tick(*(Change(Kind.ADDED, _waiting(i, phase)) for i in range(waiting)))
            counts = world.counts()
            for _ in range(MOST_TICKS):  # a tick decides on so many pods at most
                if counts[phase] == waiting == sum(counts.values()):
                    break
                world.tick()
                counts = world.counts()
            else:
                sys.exit(f"{waiting} pods should be {phase}, but there are {counts}")
        for number in range(ROUNDS):  # in turn, so that a moment in which the machine is slow hits all
            for waiting, world in worlds.items():
                for what, changes in zip(KINDS, _changes(number, node_list, running), strict=True):
                    taken.setdefault((what, waiting), []).append(world.tick(*changes))
    in_order = sorted(taken, key=lambda key: KINDS.index(key[0]))
    print(json.dumps([(*key, taken[key]) for key in in_order]))


def _world(stack: ExitStack, folder: Path) -> World:
    config, policy = folder / "config.yaml", folder / "holds_some.py"
    config.write_text(CONFIG)
    policy.write_text(POLICY)
    address = "http://127.0.0.1:9"  # nobody listens there
    line = CommandLine(
        proxy=address,
        config_file=config,
        plugin=[policy],
        watch=True,
        dry_run=True,
        listen=Address("127.0.0.1", 0),
    )
    options, _ = _options(line)
    shutdown = stack.enter_context(Shutdown())
    poller = stack.enter_context(assembled(options, Report(dry_run=True, explain=None), shutdown))
    poller.source = source = Played(stack.enter_context(Api(address, shutdown.stopping)), [NAME])
    return World(poller, source)


def _waiting(number: int, phase: str) -> Pod:
    body = with_uid(objects.pod(f"waiting-{number}", NAME))
    if phase == "gated":
        body["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
    elif phase == "unschedulable":
        body["spec"]["nodeSelector"] = {"disk": "ssd"}
    else:
        body["metadata"]["labels"] |= {"hold": "yes"}
    return read(Pod, body)


def _changes(number: int, nodes: Sequence[Node], running: Sequence[Pod]) -> list[Sequence[AnyChange]]:
    """What happens in the ticks of a round, in the order of KINDS."""
    new = read(Pod, with_uid(objects.pod(f"new-{number}", NAME)))
    old, node = running[number % len(running)], nodes[number % len(nodes)]
    labels = {**node.metadata.labels, "round": str(number)}
    return [
        [],
        [Change(Kind.ADDED, new)],
        [Change(Kind.DELETED, new, new)],
        [Change(Kind.DELETED, old, old)],
        [Change(Kind.ADDED, old)],
        [Change(Kind.MODIFIED, with_parts(node, metadata={"labels": labels}), node)],
    ]


if __name__ == "__main__":
    main(*sys.argv[1:])
