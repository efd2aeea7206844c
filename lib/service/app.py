"""Runs the loop: makes and connects its parts, and turns its end into an exit status."""

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx

from lib.kube.api import Api, always
from lib.kube.election import LeaderElection
from lib.kube.errors import ApiError
from lib.kube.in_flight import InFlight
from lib.kube.resources import GROUP_SIZES, NEEDS, READING, WRITING
from lib.kube.source import ClusterSource, PollingSource
from lib.kube.system import MACHINE, System
from lib.scheduling.cache import Cache
from lib.scheduling.extenders import Extenders
from lib.scheduling.framework.interface import Profile
from lib.scheduling.framework.runtime import Clock
from lib.scheduling.handle import Handle
from lib.scheduling.pod_life import PodLives
from lib.scheduling.queue import SchedulingQueue
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.command_line import kubectl_options
from lib.service.follow_up import FollowUp
from lib.service.options import Options
from lib.service.rights import Right, needed_rights
from lib.service.served_profiles import profiles_for
from lib.service.shutdown import Shutdown, Stopped, on_signal
from lib.service.startup_checks import StartupChecks
from lib.service.steps import Poller
from lib.service.telemetry.log import set_up_logging
from lib.service.telemetry.observer import ListenError, Observer
from lib.service.telemetry.report import Report
from lib.service.writes.pipeline import Pipeline
from lib.service.writes.records import Records
from lib.service.writes.writes import Writes

if TYPE_CHECKING:
    from lib.kube.proxy import OwnProxy

ALL_PLACED, NO_START, SOME_NOT_PLACED = 0, 1, 3
"""Exit statuses of --once. NO_START also without --once, for example when the listen address is in use."""

LEASE_LOST = 1
"""Exit status when leadership is lost: a supervisor can start poller again."""

PAGE = Path(__file__).resolve().parents[2] / "scripts/ui"
"""The folder of the web page of --ui."""


@contextmanager
def assembled(
    options: Options, report: Report, shutdown: Shutdown, system: System = MACHINE
) -> Iterator[Poller]:
    """The parts that the options ask for, connected while the block runs. ApiError when that fails.

    system: what they take from the machine.
    """
    random = system.random(options.seed)
    with (
        _connected(options, report, shutdown, system) as connection,
        _extenders(options, connection.api, report) as extenders,
    ):
        api, observer, now = connection.api, report.observer, system.monotonic
        lives = PodLives(now)
        cache = Cache(served=options.namespaces, lives=lives)
        observer.shows(cache.pods, connection.leads)
        handle = Handle(random, extenders, cache, system.now)
        profiles = {
            profile.scheduler_name: profile
            for profile in profiles_for(options.config, options.profiles, handle)
        }
        names, rights = [*profiles], _rights(options, profiles.values())
        schedulers = _schedulers(profiles, handle, options, observer, now)
        queue = SchedulingQueue(profiles, options.times, observer.queued, lives, observer.hinted)
        in_flight = InFlight(api.begin, system)
        pipeline = Pipeline(in_flight, api.retrying(), shutdown, options.bind_workers, now)
        records = Records(pipeline, cache, report, system, options.dry_run)
        writes = Writes(pipeline, schedulers, cache, report, options, system, records)
        source = _source(options, api, names)
        source.devices.unlisted = cache.unlisted_claims
        poller = Poller(
            options=options,
            source=source,
            cache=cache,
            queue=queue,
            schedulers=schedulers,
            writes=writes,
            report=report,
            shutdown=shutdown,
            leads=connection.leads,
            proxy=connection.proxy,
            checks=StartupChecks(
                api.for_access_reviews(), names, options.namespaces, rights, report, options.leader_election
            ),
            follow_up=FollowUp(cache, queue, schedulers, report, writes, now, options.dry_run),
            system=system,
        )
        with _shown(poller):
            report.started(names, options.namespaces, api.address)
            if options.ui:
                from lib.service.telemetry.page import serving  # here, as few runs need it

                report.page(serving(PAGE, Path(urlsplit(connection.address).path)))
            yield poller


@dataclass(frozen=True)
class _ApiAccess:
    """How poller reaches the API server."""

    api: Api
    address: str
    """Where kubectl proxy listens."""
    proxy: "OwnProxy | None"
    """The kubectl proxy that poller started, if any."""
    leads: Callable[[], bool]
    """Whether this poller is the leader; without an election it is."""


@contextmanager
def _connected(options: Options, report: Report, shutdown: Shutdown, system: System) -> Iterator[_ApiAccess]:
    """The connection to the API server while the block runs. The report gets its observer, too."""
    with ExitStack() as stack:
        proxy = None
        if options.start_proxy:
            from lib.kube.proxy import OwnProxy  # here, as few runs need it

            proxy = stack.enter_context(OwnProxy(*kubectl_options(options.context_name, options.kubeconfig)))
        address = proxy.address if proxy else options.proxy
        report.connecting(address)
        for field_path in options.config.ignored(options.profiles.known_plugins) if options.config else ():
            report.warning(f"{options.config_file}: ignored: {field_path}")
        report.observer = observer = _observer(options, system)
        leads = stack.enter_context(_elected(options.leader_election, address, shutdown, system))
        if options.leader_election:
            observer.elects(options.leader_election.resource_name, leads)
        api = stack.enter_context(
            Api(address, shutdown.stopping, may_write=leads, request_observer=observer, system=system)
        )
        observer.probes(lambda: api.with_short_timeouts().get_whole("/version"))
        yield _ApiAccess(api, address, proxy, leads)


@contextmanager
def _shown(poller: Poller) -> Iterator[None]:
    """A block in which the signal USR1 shows the queue, and --top draws the cluster."""
    with ExitStack() as stack:
        stack.enter_context(on_signal(signal.SIGUSR1, lambda: poller.report.show(poller.queue)))
        if poller.options.top:
            from lib.service.telemetry.top import on_terminal  # here, as few runs need rich

            poller.report.redraw = stack.enter_context(on_terminal(poller.queue, poller.cache)).note
        yield


@contextmanager
def _extenders(options: Options, api: Api, report: Report) -> Iterator[Extenders]:
    """The extenders of the configuration, connected while the block runs."""
    if not (options.config and options.config.extenders):
        yield Extenders()
        return
    from lib.service.http_extender import connected  # here, as few runs need it

    with connected(options.config.extenders, api, report.warning) as extenders:
        yield extenders


def _schedulers(
    profiles: Mapping[str, Profile], handle: Handle, options: Options, observer: Observer, clock: Clock
) -> dict[str, Scheduler]:
    """A scheduler for each profile, by its name; the observer counts and times what it does."""
    schedulers = {}
    for name, profile in profiles.items():
        scheduler = schedulers[name] = Scheduler(
            profile,
            handle.random,
            handle.extenders,
            in_full=bool(options.explain) or options.verbose or options.ui,
            clock=clock,
            record=observer.record_for(name),
        )
        observer.evaluates(name, scheduler.evaluations)
    return schedulers


def _source(options: Options, api: Api, scheduler_names: list[str]) -> ClusterSource:
    """What reads the cluster: it watches, or polls."""
    if options.watch:
        from lib.kube.informer import Informer  # here, as few runs need it

        return Informer(api, scheduler_names, options.namespaces)
    return PollingSource(api, scheduler_names, options.namespaces)


def _rights(options: Options, profiles: Iterable[Profile]) -> list[Right]:
    """The rights that poller needs with these options, and for what its plugins read."""
    needs = {READING, GROUP_SIZES, WRITING}.union(*(profile.needs for profile in profiles))
    return needed_rights(
        options.namespaces,
        [need for need in NEEDS if need in needs],
        writes=not options.dry_run,
        watch=options.watch,
        election=options.leader_election,
    )


@contextmanager
def _elected(
    election: LeaderElection | None, address: str, shutdown: Shutdown, system: System
) -> Iterator[Callable[[], bool]]:
    """A function that says whether we lead; without an election, always.

    When the lease is lost, poller ends at once. When poller ends for another reason, the lease is released,
    unless a write may still be in flight.
    """
    if not election:
        yield always
        return
    from lib.kube.lease import Candidate  # here, as --once doesn't need it

    timeout = httpx.Timeout(election.renew_deadline / 2)
    with Api(address, shutdown.stopping, timeout=timeout, system=system) as api:
        candidate = Candidate(api, election, shutdown.abort)
        candidate.start()
        try:
            yield candidate.leads
        except Stopped:
            candidate.stop()
            if not shutdown.told_twice:
                candidate.release()
            raise
        finally:
            candidate.stop()


def _observer(options: Options, system: System) -> Observer:
    """The observer: with an address to listen at, metrics and health, which are served there."""
    if options.listen is None:
        return Observer(system)
    from lib.service.config.written import as_used
    from lib.service.telemetry import zpages
    from lib.service.telemetry.listen import answering  # here, as few runs need Prometheus' client

    profiles = profiles_for(options.config, options.profiles, Handle())
    used = as_used(options.config, profiles, options.times, options.leader_election)
    pages = {"/configz": zpages.configz(used), "/flagz": zpages.flagz(options.by_name())}
    return answering(options.listen, system, pages, open_resources=options.pod_resources)


@contextmanager
def _watched(options: Options) -> Iterator[None]:
    """A block in which it is logged when a policy takes long."""
    if not (policies := options.profiles.policies):
        yield
        return
    from lib.service.policy_watch import watching  # here, as few runs need it

    with watching([policy.file for policy in policies]):
        yield


def main(loop: Callable[[Poller], None], options: Options) -> int:
    """Run the loop, and log a summary at the end; returns the exit status."""
    gc.disable()  # until the first tick has ended: what it reads is no garbage
    printed = set_up_logging(options.log_format, verbose=options.verbose)
    report = Report(dry_run=options.dry_run, explain=options.explain)
    # Standard output is for decisions. What a policy prints goes to the log.
    with Shutdown() as shutdown, redirect_stdout(printed):
        try:
            with _watched(options), assembled(options, report, shutdown) as poller:
                loop(poller)
                status = SOME_NOT_PLACED if poller.unreadable or len(poller.queue) else ALL_PLACED
                if poller.checks.missing_namespaces:
                    status = NO_START
        except (ApiError, ListenError) as error:
            report.trouble(error)
            status = NO_START
        except Stopped:
            status = 128 + (shutdown.signal or 0) if options.once else 0
            if shutdown.aborted:
                status = LEASE_LOST
        finally:
            shutdown.set_limit()  # once more: leader election has its own, and has ended it
            report.summarize(shutdown.signal)
    if shutdown.impatient:  # else Python would wait for a write that hangs
        sys.stdout.flush()
        os._exit(status)
    return status
