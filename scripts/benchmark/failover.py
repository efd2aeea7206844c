"""Failover: one of two pollers leads, and something happens to it. When does the other one bind?

The API server keeps an audit log. It shows whether a poller wrote while another was leading.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from scripts.benchmark import objects
from scripts.benchmark.arena import Arena
from scripts.benchmark.contestants import Contestant, Running, running
from scripts.benchmark.measures import Result
from scripts.benchmark.processes import FailedError
from scripts.benchmark.relay import Relay, relay
from scripts.benchmark.watching import Bindings
from scripts.servers.real import RealCluster, apiserver, assets

NODES = 10
CANDIDATES = "first", "second"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/poller"
LATE = "writes of one that didn't lead"

AFTERMATH = 5.0
"""Seconds in which the former leader, frozen or cut off until then, could still do harm."""


@dataclass(frozen=True)
class Candidate:
    """A contestant that takes part in the election. relay: its way to the API server."""

    runs: Running
    relay: Relay

    @property
    def said(self) -> str:
        return self.runs.process.log.read_text(errors="replace")

    def send(self, number: signal.Signals) -> None:
        os.killpg(self.runs.process.handle.pid, number)


class Way(NamedTuple):
    """A way in which a leader fails, and how it comes back, if it can."""

    begin: Callable[[Candidate], None]
    end: Callable[[Candidate], None] = lambda _: None


WAYS: Mapping[str, Way] = {
    "delete": Way(lambda leader: leader.send(signal.SIGTERM)),  # as the kubelet does
    "kill": Way(lambda leader: leader.send(signal.SIGKILL)),
    "freeze": Way(lambda leader: leader.send(signal.SIGSTOP), lambda leader: leader.send(signal.SIGCONT)),
    "partition": Way(lambda leader: leader.relay.passing.clear(), lambda leader: leader.relay.passing.set()),
}


def title(way: str) -> str:
    """The name of the measure."""
    return f"failover: {way} the leader"


def failover(contestant: Contestant, folder: Path, limit: float, ways: Sequence[str]) -> list[Result]:
    """Seconds from each way of failing to the binding of a pod that is created then; and the late writes."""
    if not assets():
        raise FailedError("failover needs a real API server: no etcd and kube-apiserver were found")
    with apiserver(folder / "failover", audited=("pods", "leases")) as server:
        arena = Arena("real", server.url, server.kubeconfig, server.tls, folder)
        arena.prepare(NODES, 0)
        took = [Result(title(way), _fail(WAYS[way], contestant, server, arena, limit), "s") for way in ways]
        log = server.audit_log.read_text().splitlines()
    return [*took, Result(LATE, late_writes(map(json.loads, log)), "writes")]


def _fail(way: Way, contestant: Contestant, server: RealCluster, arena: Arena, limit: float) -> float:
    arena.clear(bound=True)
    with (
        Bindings(arena, contestant.scheduler_name) as bindings,
        _candidates(contestant, server, arena) as candidates,
    ):
        _bind(arena, contestant, bindings, "before", limit)
        leader = _leader(candidates, server)
        began = time.monotonic()
        way.begin(leader)
        seconds = _bind(arena, contestant, bindings, "then", limit) - began
        way.end(leader)
        _bind(arena, contestant, bindings, "after", limit)
        time.sleep(AFTERMATH)
    return seconds


@contextmanager
def _candidates(contestant: Contestant, server: RealCluster, arena: Arena) -> Iterator[Sequence[Candidate]]:
    """Two of them, each as a user of its own."""
    with ExitStack() as stack:
        found: list[Candidate] = []
        for user in CANDIDATES:
            way = stack.enter_context(relay(server.url))
            folder = arena.folder / f"{contestant.key}-{user}"
            folder.mkdir(exist_ok=True)
            kubeconfig = server.kubeconfig_for(user, ["system:masters"])
            its_own = Arena("real", server.url, kubeconfig, server.tls, folder)
            found.append(
                Candidate(stack.enter_context(running(contestant, its_own, way.url, "--leader-elect")), way)
            )
        yield found


def _bind(arena: Arena, contestant: Contestant, bindings: Bindings, name: str, limit: float) -> float:
    """Create a pod, and wait until it is bound; returns when it was."""
    number = len(bindings.seen) + 1
    arena.create([objects.pod(name, contestant.scheduler_name)])
    if not bindings.wait_for(number, limit):
        raise FailedError(f"the pod {name!r} was not bound within {limit:g} s")
    return bindings.last


def _leader(candidates: Sequence[Candidate], server: RealCluster) -> Candidate:
    holder = server.http.get(LEASE).raise_for_status().json()["spec"]["holderIdentity"]
    (leader,) = [each for each in candidates if f"as {holder})" in each.said]
    return leader


def late_writes(audited: Iterable[dict[str, Any]]) -> int:
    """How many writes to pods were sent by a user after another one had acquired the lease."""
    acquired: list[tuple[str, str]] = []  # when, and who
    writes: list[tuple[str, str]] = []
    for each in audited:
        user = each["user"]["username"]
        if user not in CANDIDATES or each["responseStatus"]["code"] >= 300:
            continue
        if each["objectRef"]["resource"] != "leases":
            writes.append((each["requestReceivedTimestamp"], user))
        elif each["requestObject"]["spec"].get("holderIdentity"):
            acquired.append((each["stageTimestamp"], user))
    if not writes or not acquired:
        raise FailedError("the audit log shows no leader's writes")
    acquired.sort()
    return sum(_leads_at(when, acquired) not in (user, None) for when, user in writes)


def _leads_at(when: str, acquired: Sequence[tuple[str, str]]) -> str | None:
    """Who was the last to acquire or renew the lease before this time."""
    return next((user for since, user in reversed(acquired) if since < when), None)
