"""Runs the loop: makes and connects its parts, and turns its end into an exit status."""

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from itertools import chain
from pathlib import Path
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
from lib.scheduling.handle import Handle
from lib.scheduling.pod_life import PodLives
from lib.scheduling.queue import SchedulingQueue
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.follow_up import FollowUp
from lib.service.options import Options
from lib.service.rights import needed_rights
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
    random, namespaces = system.random(options.seed), options.namespaces
    with ExitStack() as stack:
        proxy = None
        if options.start_proxy:
            from lib.kube.proxy import OwnProxy  # here, as the rest below: few runs need it

            proxy = stack.enter_context(OwnProxy())
        address = proxy.address if proxy else options.proxy
        report.connecting(address)
        for each in options.config.ignored():
            report.warning(f"{options.config_file}: ignored: {each}")
        report.observer = observer = _observer(options, system)
        leads = stack.enter_context(_elected(options.leader_election, address, shutdown, system))
        if options.leader_election:
            observer.elects(options.leader_election.resource_name, leads)
        api = stack.enter_context(
            Api(address, shutdown.stopping, may_write=leads, request_observer=observer, system=system)
        )
        observer.probes(lambda: api.with_short_timeouts().get_whole("/version"))
        extenders = Extenders()
        if options.config.extenders:
            from lib.service.http_extender import connected

            extenders = stack.enter_context(connected(options.config.extenders, api, report.warning))
        lives = PodLives(system.monotonic)
        cache = Cache(served=namespaces, lives=lives)
        handle = Handle(random, extenders, cache, system.now)
        profiles = profiles_for(options.config, options.profiles, handle)
        names = [each.scheduler_name for each in profiles]
        in_full = bool(options.explain) or options.verbose or options.ui
        schedulers = {
            name: Scheduler(
                profile,
                random,
                extenders,
                in_full=in_full,
                clock=system.monotonic,
                record=observer.record_for(name),
            )
            for name, profile in zip(names, profiles, strict=True)
        }
        for name, scheduler in schedulers.items():
            observer.evaluates(name, scheduler.evaluations)
        observer.shows(cache.pods, leads)
        queue = SchedulingQueue(
            dict(zip(names, profiles, strict=True)), options.times, observer.queued, lives, observer.hinted
        )
        dry_run = options.dry_run
        needs = {READING, GROUP_SIZES, WRITING, *chain.from_iterable(each.needs for each in profiles)}
        rights = needed_rights(
            namespaces,
            [need for need in NEEDS if need in needs],
            writes=not dry_run,
            watch=options.watch,
            election=options.leader_election,
        )
        in_flight = InFlight(api.begin, system)
        pipeline = Pipeline(in_flight, api.retrying(), shutdown, options.bind_workers, system.monotonic)
        records = Records(pipeline, cache, report, system, dry_run)
        writes = Writes(pipeline, schedulers, cache, report, options, system, records)
        source_type: type[ClusterSource] = PollingSource
        if options.watch:
            from lib.kube.informer import Informer as source_type  # noqa: N813
        source = source_type(api, names, namespaces)
        source.devices.unlisted = cache.unlisted_claims
        poller = Poller(
            options,
            source,
            cache,
            queue,
            schedulers,
            writes,
            report,
            shutdown,
            leads,
            proxy,
            StartupChecks(api.for_access_reviews(), names, namespaces, rights, report),
            FollowUp(cache, queue, schedulers, report, writes, system.monotonic, dry_run),
            system=system,
        )
        stack.enter_context(on_signal(signal.SIGUSR1, lambda: report.show(poller.queue)))
        if options.top:
            from lib.service.telemetry.top import on_terminal  # here, as few runs need rich

            report.redraw = stack.enter_context(on_terminal(poller.queue, cache)).note
        report.started(names, namespaces, api.address)
        if options.ui:
            from lib.service.telemetry.page import serving  # here, as few runs need it

            report.page(serving(PAGE, Path(urlsplit(address).path)))
        yield poller


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
