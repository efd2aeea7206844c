"""`scripts/simulate --real`: the same faults, in real time, between real pollers and a real API server."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from itertools import count
from math import inf
from pathlib import Path
from queue import Empty, SimpleQueue
from random import Random
from tempfile import TemporaryDirectory
from threading import Lock

import httpx

from scripts.minicluster.errors import ApiError
from scripts.minicluster.kubelet import Kubelets
from scripts.minicluster.resources import LEASES, NAMESPACES, PODS
from scripts.minicluster.store import Stored
from scripts.servers.faulty_proxy import running
from scripts.servers.kubectl import kubectl_proxy
from scripts.servers.process import ROOT, ending_with_us
from scripts.servers.real import RealCluster, apiserver, assets

from .checks import Checks, Violation
from .cluster import Action, Cluster
from .faults import Faults, Hit, Kind, random_faults
from .mirror import Mirror, RealApi
from .network import Exchange
from .plan import PollerPlan
from .proxy import Faulty
from .reach import EVERYWHERE
from .rest import check_cluster
from .server import Asked
from .workload import Workload, random_actions

QUIET = 150.0
"""Seconds without faults at the end: then each pod that fits must be placed."""

RESTART = 3.0

CONTROLLERS = (
    "disruption-controller,persistentvolume-binder-controller,namespace-controller,"
    "deployment-controller,replicaset-controller,garbage-collector-controller,resourceclaim-controller"
)
"""Those of kube-controller-manager that run: not the one that looks whether nodes have a kubelet."""

WORKLOAD = Workload(
    preempts=True, budget=True, groups=True, affinity=True, deployments=True, devices=True, namespaces=True
)

FAULTS_A_MINUTE = 4


class RealTime:
    """Time as it passes, for the checks. now: seconds since the run began."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()

    @property
    def now(self) -> float:
        """The seconds since the run began."""
        return time.monotonic() - self._began

    def at(self, when: float, do: Callable[[], object]) -> None:
        """Do something at a time."""
        heappush(self._due, (when, next(self._numbers), do))

    def after(self, seconds: float, do: Callable[[], object]) -> None:
        """Do something in so many seconds."""
        self.at(self.now + seconds, do)

    def go_on(self) -> None:
        """Do what is due."""
        while self._due and self._due[0][0] <= self.now:
            heappop(self._due)[2]()


@dataclass(eq=False)
class _Actor:
    """A poller as the checks know it. identity: its name in the lease, if it takes part in an election."""

    name: str
    identity: str = ""
    reach = EVERYWHERE
    elects = False  # whether it leads is checked here, by the order of the API server's writes


class _Server:
    """What the checks need of a server. actor: who made the change that they are told of."""

    def __init__(self, mirror: Mirror, agenda: RealTime) -> None:
        self.store, self.agenda, self.api = mirror, agenda, RealApi(mirror)
        self.actor: _Actor | None = None


class _Kubelets(Kubelets):
    """Stand-ins for kubelets: kube-apiserver has none."""

    def __init__(self, api: RealApi, agenda: RealTime) -> None:
        self._agenda = agenda
        super().__init__(api, 0.5)  # type: ignore[arg-type]

    def _later(self, seconds: float, action: Callable[..., None], *args: object) -> None:
        def act() -> None:
            with suppress(ApiError):  # the object has changed, or has gone
                action(*args)

        self._agenda.after(seconds, act)


class _Poller:
    """A poller's process, behind a proxy of its own."""

    def __init__(
        self, plan: PollerPlan, address: str, log: Path, agenda: RealTime, mutation: str | None
    ) -> None:
        program = ["-m", "scripts.simulation.mutated", mutation] if mutation else ["poller.py"]
        self._program = [sys.executable, *program]
        self.plan, self._address, self._log, self._agenda = plan, address, log, agenda
        self.actor = _Actor(plan.name)
        self.handle: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.unexpected: list[int] = []  # exit statuses
        self._is_killed = False

    def start(self) -> None:
        """Start it, as its command line would be."""
        command = [*self._program, "--proxy", self._address, "--verbose"]
        command += ["--watch"] if self.plan.watch else []
        command += ["--leader-elect"] if self.plan.elects else []
        command += ["--scheduler-name", self.plan.scheduler]
        self.actor = _Actor(self.plan.name)
        self._is_killed = False
        with self._log.open("ab") as out:
            self.handle = subprocess.Popen(
                ending_with_us(command), cwd=ROOT, stdin=subprocess.PIPE, stdout=out, stderr=out
            )
        self.starts += 1

    def kill(self) -> None:
        """End it at once."""
        if self.handle:
            self._is_killed = True
            with suppress(ProcessLookupError):
                self.handle.kill()

    def freeze(self, seconds: float) -> None:
        """Stop it for a while."""
        handle = self.handle
        if handle and handle.poll() is None:
            handle.send_signal(signal.SIGSTOP)
            self._agenda.after(seconds, lambda: handle.send_signal(signal.SIGCONT))

    def stop(self) -> None:
        """Ask it to end."""
        if self.handle and self.handle.poll() is None:
            self._is_killed = True
            self.handle.terminate()

    def has_ended(self) -> bool:
        """Whether it has ended; notes an exit status that nobody expects."""
        if not self.handle or self.handle.poll() is None:
            return False
        status = self.handle.returncode
        if not self._is_killed and not (self.plan.elects and status in (1, -signal.SIGALRM, -signal.SIGKILL)):
            self.unexpected.append(status)
        if self.handle.stdin:
            self.handle.stdin.close()
        self.handle = None
        return True


class RealWorld:
    """Runs pollers, faults and what happens in a cluster, all by a seed, for so many minutes.

    quiet: seconds without faults after that; when they are few, nothing is checked at the end.
    """

    def __init__(
        self,
        seed: int,
        minutes: float,
        folder: Path,
        cluster: RealCluster,
        quiet: float,
        mutation: str | None,
    ) -> None:
        self.seconds, self._ends = minutes * 60, minutes * 60 + quiet
        self._mutation = mutation
        self.violations: list[Violation] = []
        self.requests, self.pods, self.starts = 0, 0, 0
        self.agenda = RealTime()
        self._folder = folder
        self._chance = chance = Random(seed)
        self.mirror = Mirror(cluster.http, cluster.url, cluster.tls)
        self.server = _Server(self.mirror, self.agenda)
        faults = random_faults(chance, self.seconds, int(minutes * FAULTS_A_MINUTE))
        self.faults, self._lock = Faults(faults), Lock()
        self._versions: list[tuple[float, int]] = []
        self._notes: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._authors: dict[tuple[str, str], _Actor] = {}  # who wrote what to which pod, by verb and uid
        ends = self._ends if quiet >= QUIET else inf
        self.checks = Checks(self.agenda, self.server, ends)  # type: ignore[arg-type]
        self.checks.trouble(inf)  # the machine may be slow: what rests on seconds isn't checked
        self._plans = self._pollers()
        schedulers = sorted({each.scheduler for each in self._plans})
        self._actions = random_actions(chance, self.seconds, 40, schedulers, WORKLOAD)

    def _pollers(self) -> list[PollerPlan]:
        """A leader and a standby, and one with another scheduler name."""
        chance = self._chance

        def accidents(plan: PollerPlan) -> PollerPlan:
            freezes = [(chance.uniform(20, self.seconds), chance.choice((5.0, 20.0))) for _ in range(2)]
            return replace(plan, freezes=tuple(freezes), stops=(chance.uniform(20, self.seconds),))

        return [
            accidents(PollerPlan("poller-1", watch=True, elects=True)),
            accidents(PollerPlan("poller-2", elects=True)),
            accidents(PollerPlan("poller-3", scheduler="other-scheduler")),
        ]

    def run(self, kubectl: str) -> None:
        """Run it. kubectl: the socket of a kubectl proxy."""
        self.mirror.follow()
        self._go_on(2)
        while not self.mirror.get(NAMESPACES, ("", "default")):  # the last that the server itself creates
            self._go_on(self.agenda.now + 0.5)
        _Kubelets(self.server.api, self.agenda)
        cluster = Cluster(self.server, self._done, controllers=False)  # type: ignore[arg-type]
        for action in self._actions:
            self.agenda.at(action.at, partial(self._do, cluster, action))
        with ExitStack() as stack:
            pollers = []
            for plan in self._plans:
                name = plan.name
                make = partial(
                    Faulty,
                    pick=partial(self._pick, name),
                    note=partial(self._note, name),
                    older=self._older,
                    crash=partial(self._crash, name),
                )
                address = stack.enter_context(running(make, f"unix://{kubectl}")).url
                log = self._folder / f"{plan.name}.log"
                poller = _Poller(plan, address, log, self.agenda, self._mutation)
                pollers.append(poller)
                for when, seconds in plan.freezes:
                    self.agenda.at(when, partial(poller.freeze, seconds))
                for when in plan.stops:
                    self.agenda.at(when, poller.stop)
            self._by_name = {each.plan.name: each for each in pollers}
            for each in pollers:
                each.start()
            try:
                self._go_on(self._ends, pollers)
                while self.agenda.now < self.checks.quiet.ends < inf:
                    self._go_on(self.checks.quiet.ends, pollers)
            finally:
                for each in pollers:
                    each.kill()
        self.starts = sum(each.starts for each in pollers)
        self.mirror.go_on(self._before, everything=True)
        self.checks.at_end()
        names = {each.scheduler for each in self._plans}
        if self._ends >= self.seconds + QUIET:
            check_cluster(self.mirror, names, self._found)
        for each in pollers:
            for status in each.unexpected:
                self._found("no crash", f"{each.plan.name} ended with exit status {status}")
        if self.mirror.problem:
            self._found("simulation", self.mirror.problem)
        self.violations += self.checks.violations
        self.mirror.close()

    def _found(self, rule: str, what: str, *about: str) -> None:
        self.violations.append(Violation(self.agenda.now, rule, what, about))

    def _go_on(self, until: float, pollers: "list[_Poller] | tuple[()]" = ()) -> None:
        while self.agenda.now < until:
            time.sleep(0.02)
            with suppress(Empty):
                while True:
                    self._notes.get_nowait()()
            self.mirror.go_on(self._before)
            self.agenda.go_on()
            for poller in pollers:
                if poller.has_ended():
                    self.checks.killed(poller.plan.name)
                    self.agenda.after(RESTART, poller.start)
            if sys.stderr.isatty():
                print(f"\r{self.agenda.now:.0f} s ", end="", file=sys.stderr)

    def _do(self, cluster: Cluster, action: Action) -> None:
        with suppress(httpx.TransportError):
            cluster.do(action)

    def _done(self, action: Action) -> None:
        self.pods += (
            action.details["size"]
            if action.verb == "add_group"
            else action.verb in ("add_pod", "make_pod_again")
        )

    # --- the proxies ask and tell, in their threads -------------------------------------------------------

    def _pick(self, poller: str, request: str) -> Hit | None:
        with self._lock:
            return (
                self.faults.of(self.agenda.now, poller, request) if self.agenda.now < self.seconds else None
            )

    def _older(self, seconds: float) -> str:
        """The version of the cluster so many seconds ago."""
        since = self.agenda.now - seconds
        return str(next((version for when, version in reversed([*self._versions]) if when <= since), 1))

    def _crash(self, poller: str) -> None:
        self._by_name[poller].kill()

    def _note(self, poller: str, asked: Asked, code: int, fault: Kind | None) -> None:
        actor, when = self._by_name[poller].actor, self.agenda.now
        self._notes.put(lambda: self._exchanged(actor, when, asked, code, fault))

    def _exchanged(self, actor: _Actor, when: float, asked: Asked, code: int, fault: Kind | None) -> None:
        self.requests += 1
        path = asked.target.partition("?")[0]
        if not asked.is_read and asked.body:
            body = json.loads(asked.body)
            if "/leases" in path:
                actor.identity = (body.get("spec") or {}).get("holderIdentity") or actor.identity
            elif path.endswith("/binding"):
                self._authors["bind", body["metadata"].get("uid") or path.split("/")[6]] = actor
            elif asked.method == "DELETE" and "/pods/" in path:
                self._authors["delete", (body.get("preconditions") or {}).get("uid", "")] = actor
        self.checks.exchanged(Exchange(when, actor, asked, code, fault))  # type: ignore[arg-type]

    # --- before the checks see an event -------------------------------------------------------------------

    def _before(self, kind: str, new: Stored, old: Stored | None) -> None:
        """Find out who made a change, and whether they led at that moment."""
        self.server.actor = None
        self._versions.append((self.agenda.now, new.version))
        if new.resource != PODS:
            return
        uid = new.metadata["uid"]
        bound = new.content["spec"].get("nodeName") and not (old and old.content["spec"].get("nodeName"))
        leaves = new.metadata.get("deletionTimestamp") and not (old and old.metadata.get("deletionTimestamp"))
        if bound:
            by_name = self._authors.get(("bind", new.key[1]))
            self.server.actor = self._authors.get(("bind", uid), by_name)
        elif leaves or kind == "DELETED":
            self.server.actor = self._authors.get(("delete", uid)) if leaves else None
        if (actor := self.server.actor) and actor.identity:
            lease = self.mirror.get(LEASES, ("kube-system", "poller"))
            holder = lease.content["spec"].get("holderIdentity") if lease else ""
            if holder != actor.identity:
                self._found(
                    "leader", f"{actor.name} changed pod {new.key[1]}, and {holder or 'nobody'} leads"
                )


@contextmanager
def controllers(folder: Path, kubeconfig: Path) -> Iterator[None]:
    """Run kube-controller-manager, with the controllers that a scheduler's world needs."""
    binary = (assets() or Path()) / "kube-controller-manager"
    command = [
        str(binary),
        f"--kubeconfig={kubeconfig}",
        f"--controllers={CONTROLLERS}",
        "--leader-elect=false",
    ]
    command += ["--secure-port=0", "--kube-api-qps=200", "--kube-api-burst=400"]
    with (folder / "kube-controller-manager.log").open("wb") as out:
        handle = subprocess.Popen(ending_with_us(command), stdin=subprocess.PIPE, stdout=out, stderr=out)
    try:
        yield
    finally:
        handle.terminate()
        handle.wait()


def run_real(
    seed: int, minutes: float, folder: Path | None, quiet: float = QUIET, mutation: str | None = None
) -> int:
    """Run it, and print what was found; returns the exit status.

    folder: keeps the logs. quiet: seconds without faults at the end. mutation: a fault in poller itself.
    """
    if not assets():
        print("--real needs etcd and kube-apiserver in $KUBEBUILDER_ASSETS or /usr/local/kubebuilder/bin")
        return 2
    with TemporaryDirectory() as temporary:
        place = folder or Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        socket = Path(temporary) / "proxy"
        with (
            apiserver(place) as cluster,
            controllers(place, cluster.kubeconfig),
            kubectl_proxy(cluster.url, cluster.kubeconfig, socket),
        ):
            world = RealWorld(seed, minutes, place, cluster, quiet, mutation)
            world.run(str(socket))
    for each in world.violations:
        print(each)
    checks = world.checks
    print(
        f"seed {seed}, {minutes:g} minutes with faults and {quiet / 60:g} without: starts {world.starts},"
        f" pods {world.pods}, bindings {checks.bindings}, evictions {checks.evictions},"
        f" requests {world.requests:,}"
    )
    faults = Counter({kind.name: number for kind, number in world.faults.count.items()})
    print("faults:", ", ".join(f"{name} {number:,}" for name, number in sorted(faults.items())) or "none")
    cpu = os.times().user + os.times().children_user
    print(f"rules broken: {len(world.violations) or 'none'}; {cpu:.0f} s of CPU time")
    return 1 if world.violations else 0
