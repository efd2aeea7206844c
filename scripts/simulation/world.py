"""A simulated world by a plan: a cluster, pollers, what happens and what goes wrong. And what came of it."""

import gc
import logging
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

import greenlet

from lib.service.app import assembled
from lib.service.command_line import CommandLine
from lib.service.options import Options, _options
from lib.service.shutdown import Shutdown, Stopped
from lib.service.steps import Poller
from lib.service.telemetry.report import Report
from poller import loop
from scripts.minicluster.resources import PODS
from scripts.minicluster.store import WatchEvent

from .agenda import Agenda
from .checks import Checks, Violation
from .cluster import Action, Cluster
from .faults import Faults, Kind
from .network import Exchange, Network
from .plan import Plan, PollerPlan
from .process import Killed, Process
from .rest import check_rest
from .server import Server, SimulatedKubelets, simulated
from .simple import SimpleScheduler

HERE = Path(__file__).parent

QUIET = 150.0
"""Seconds without faults at the end: then each pod that fits must be placed."""

RESTART = 3.0
"""Seconds until a poller that has ended is started again."""

KUBELET = 0.5
"""Seconds until a bound pod runs, or a deleted one is gone."""


@dataclass
class Outcome:
    """What came of a plan. story: what happened, if it was asked for. faults: how many of each kind.

    bound: when each pod was bound, by namespace and name.
    """

    plan: Plan
    violations: list[Violation] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    faults: dict[Kind, int] = field(default_factory=dict)
    seconds: float = 0.0
    starts: int = 0
    pods: int = 0
    bindings: int = 0
    evictions: int = 0
    requests: int = 0
    bound: dict[tuple[str, str], float] = field(default_factory=dict)


class World:
    """Runs a plan. show: whether to write the story."""

    def __init__(self, plan: Plan, show: bool = False) -> None:
        self.outcome = Outcome(plan)
        self._plan, self._show = plan, show
        self._chance = chance = Random(plan.seed + 1)
        self.agenda = Agenda(chance.getrandbits(32))
        self.server = Server(self.agenda, plan.longest_watch)
        self._faults = Faults(plan.faults)
        self._checks = Checks(self.agenda, self.server, plan.seconds + QUIET)
        seed = chance.getrandbits(32)
        self._network = Network(
            self.agenda,
            self.server,
            self._faults,
            seed,
            self._exchanged,
            self._killed_by_fault,
            self._checks.trouble,
        )
        self._running: dict[str, _Running] = {}
        if show:
            self.server.store.listen(self._tell_event)

    def run(self) -> Outcome:
        """Run it; returns what came of it."""
        plan, agenda = self._plan, self.agenda
        with simulated(agenda, plan.seed, plan.page), _logged(self._tell if self._show else None):
            SimulatedKubelets(self.server.api, KUBELET, agenda)
            cluster = Cluster(self.server, self._done)
            SimpleScheduler(self.server)
            for action in plan.actions:
                agenda.at(action.at, partial(cluster.do, action))
            for each in plan.pollers:
                self._start(each)
                for when, seconds in each.freezes:
                    agenda.at(when, partial(self._freeze, each, seconds))
                for when, seconds in each.jumps:
                    agenda.at(when, partial(self._jump, each, seconds))
                for when, seconds in each.suspends:
                    agenda.at(when, partial(self._suspend, each, seconds))
                for when in each.stops:
                    agenda.at(when, partial(self._stop, each))
            try:
                while agenda.now < self._checks.quiet.ends:
                    agenda.run(self._checks.quiet.ends)
                self._checks.at_end()
                pollers = [(each.plan.name, each.plan.reach, each.poller) for each in self._running.values()]
                check_rest(self.server.store, pollers, self._found)
            except Exception:
                self._found("simulation", traceback.format_exc())
            finally:
                for running in self._running.values():
                    running.process.kill()
        outcome = self.outcome
        outcome.violations += self._checks.violations
        outcome.violations.sort(key=lambda each: each.when)
        outcome.faults, outcome.seconds = self._faults.count, agenda.now
        pods = {"add_pod", "make_pod_again"}
        outcome.pods = sum(
            each.details["size"] if each.verb == "add_group" else each.verb in pods for each in plan.actions
        )
        outcome.bindings, outcome.evictions = self._checks.bindings, self._checks.evictions
        outcome.bound = self._checks.bound_at
        return outcome

    def _found(self, rule: str, what: str, *about: str) -> None:
        self.outcome.violations.append(Violation(self.agenda.now, rule, what, about))

    # --- pollers ------------------------------------------------------------------------------------------

    def _start(self, plan: PollerPlan) -> None:
        seed = self._chance.getrandbits(32)
        process = Process(self.agenda, plan.name, seed, self._network.connect, plan.drift, plan.skew)
        process.elects, process.reach = plan.elects, plan.reach
        self._tell(plan.name, "is started")
        self.outcome.starts += 1
        running = self._running[plan.name] = _Running(plan, process)
        process.on_alarm = partial(self._killed_by_fault, process)

        def run() -> None:
            try:
                running.run()
            except Stopped:
                pass
            except Killed:
                raise
            except BaseException:
                self._found("no crash", f"{plan.name} ended: {traceback.format_exc()}")
            self._tell(plan.name, "ends")
            self._end(running)

        process.start_thread(run, "main")

    def _end(self, running: "_Running") -> None:
        """Kill a process; its poller is started again a little later."""
        if not running.process.is_dead and not running.is_ending:
            running.is_ending = True
            self._checks.killed(running.plan.name)
            self._checks.trouble()
            self.agenda.at(self.agenda.now, running.process.kill)
            self.agenda.after(RESTART, partial(self._start, running.plan))

    def _killed_by_fault(self, process: Process) -> None:
        running = self._running[process.name]
        if running.process is process:
            self._tell(process.name, "is killed")
            self._end(running)

    def _freeze(self, plan: PollerPlan, seconds: float) -> None:
        self._tell(plan.name, f"freezes for {seconds:g} s")
        self._checks.trouble(self.agenda.now + seconds)
        self._running[plan.name].process.freeze(seconds)

    def _jump(self, plan: PollerPlan, seconds: float) -> None:
        self._tell(plan.name, f"its date jumps by {seconds:g} s")
        self._running[plan.name].process.jump(seconds)

    def _suspend(self, plan: PollerPlan, seconds: float) -> None:
        self._tell(plan.name, f"its machine is suspended for {seconds:g} s")
        self._checks.trouble(self.agenda.now + seconds)
        self._running[plan.name].process.suspend(seconds)

    def _stop(self, plan: PollerPlan) -> None:
        self._tell(plan.name, "gets SIGTERM")
        self._running[plan.name].stop()

    # --- what is seen -------------------------------------------------------------------------------------

    def _exchanged(self, exchange: Exchange) -> None:
        self.outcome.requests += 1
        self._checks.exchanged(exchange)
        renews = "/leases/" in exchange.asked.target and exchange.code == 200
        if self._show and (exchange.fault or not (exchange.asked.is_read or renews)):
            how = f": it {exchange.fault.value}" if exchange.fault else ""
            self._tell(exchange.process.name, f"{exchange.asked} -> {exchange.code or 'nothing'}{how}")

    def _done(self, action: Action) -> None:
        self._tell("cluster", str(action))

    def _tell_event(self, event: WatchEvent) -> None:
        if event.resource == PODS and event.kind == "MODIFIED" and event.old:
            node, before = (each.content["spec"].get("nodeName") for each in (event.new, event.old))
            if node != before:
                self._tell("API server", f"pod {event.new.key[1]} is on {node} now")

    def _tell(self, who: str, what: str) -> None:
        if self._show:
            self.outcome.story.append(f"{self.agenda.now:10.3f}  {who:<11} {what}")


class _Shutdown(Shutdown):
    """Signals come from the simulation. interrupt: raises an error in the main thread."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._process, self._main = process, greenlet.getcurrent()

    def abort(self) -> None:
        """End without waiting for writes."""
        self.aborted = True
        self.stopping.set()
        self._process.interrupt(self._main, Stopped())

    def get_signal(self) -> None:
        """SIGTERM comes."""
        try:
            self._stop(signal.SIGTERM, None)
        except Stopped as stopped:
            self._process.interrupt(self._main, stopped)


class _Running:
    """A poller that runs. poller: its parts, as soon as they are connected."""

    def __init__(self, plan: PollerPlan, process: Process) -> None:
        self.plan, self.process = plan, process
        self.is_ending = False
        self.poller: Poller | None = None
        self._shutdown: _Shutdown | None = None

    def run(self) -> None:
        """What `main` in lib/service/app.py does, but for what concerns the whole Python process."""
        self._shutdown = _Shutdown(self.process)
        report = Report(dry_run=False, explain=None, system=self.process)
        with assembled(options_of(self.plan), report, self._shutdown, self.process) as self.poller:
            loop(self.poller)

    def stop(self) -> None:
        """SIGTERM, when the process isn't frozen."""
        process = self.process
        if process.agenda.now < process.frozen_until:
            process.agenda.at(process.frozen_until, self.stop)
        elif self._shutdown and not process.is_dead:
            self._shutdown.get_signal()


def options_of(plan: PollerPlan) -> Options:
    """The options of a poller, as its command line would have them."""
    given = CommandLine(
        proxy="unix:///simulated",
        watch=plan.watch,
        leader_elect=plan.elects,
        scheduler_name=plan.scheduler,
        namespace=[*plan.reach.namespaces] or None,
        plugin=[HERE / "policy.py"] if plan.policy else None,
        config_file=HERE / "extender.yaml" if plan.extender else None,
    )
    return _options(given)[0]


@contextmanager
def _logged(tell: Callable[[str, str], None] | None) -> Iterator[None]:
    """A block in which poller's log goes to a function, or nowhere."""
    root, disabled = logging.getLogger(), logging.root.manager.disable
    handlers, level = root.handlers, root.level
    root.handlers = [_Handler(tell)] if tell else []
    root.setLevel(logging.INFO)
    logging.disable(logging.NOTSET if tell else logging.CRITICAL)
    try:
        yield
    finally:
        root.handlers = handlers
        root.setLevel(level)
        logging.disable(disabled)
        gc.enable()


class _Handler(logging.Handler):
    def __init__(self, tell: Callable[[str, str], None]) -> None:
        super().__init__()
        self._told = tell

    def emit(self, record: logging.LogRecord) -> None:
        self._told("log", record.getMessage())
