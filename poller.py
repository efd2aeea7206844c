#!/usr/bin/env python3
"""poller: a Kubernetes scheduler in one small loop.

Which pods wait for us? Which node is best for each? Tell the API server, wait, ask again.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial
from itertools import chain
from random import Random

from tenacity import Retrying, retry_if_exception_type, wait_exponential_jitter

from lib.kube.api import Api
from lib.kube.changes import Kind, unassigned_pod
from lib.kube.errors import ApiError
from lib.kube.informer import Informer
from lib.kube.objects import Pod
from lib.kube.proxy import OwnProxy
from lib.kube.source import ClusterSource, Delta, PollingSource
from lib.kube.writer import BindResult, Writer
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.needs import needs_of
from lib.scheduling.permit import WaitingPods
from lib.scheduling.plugins.registry import Handle
from lib.scheduling.pod_groups import batches, schedule_pod_group
from lib.scheduling.queue import SchedulingQueue
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.clerk import Clerk
from lib.service.http_extender import connected
from lib.service.leader_election import elected
from lib.service.lookups import look_up
from lib.service.options import Options, run_with_options
from lib.service.profiles import profiles_for
from lib.service.shutdown import Shutdown, Stopped, on_signal
from lib.service.telemetry.log import set_up_logging
from lib.service.telemetry.observer import ListenError, observing
from lib.service.telemetry.report import Report

ALL_PLACED, NO_START, SOME_NOT_PLACED = 0, 1, 3
"""Exit statuses of --once; NO_START also of others, when the address to listen at is taken, say."""

LEASE_LOST = 1
"""Exit status of a leader that is one no longer: whoever started it may start it again."""

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds between two tries to reach an API server that isn't there, unless the interval says otherwise."""


@dataclass
class Poller:
    """What the loop reads from, decides with, writes through, and whom it tells.

    proxy: our own, if we have one. leads: whether it is us who place pods.
    """

    proxy: OwnProxy | None
    source: ClusterSource
    cache: Cache
    queue: SchedulingQueue
    schedulers: Mapping[str, Scheduler]
    held: WaitingPods
    clerk: Clerk
    report: Report
    leads: Callable[[], bool]
    dry_run: bool

    def tick(self) -> int:
        """Take the changes, and place every pod that is to be tried now; how many still wait.

        While another poller leads, it places them, and we keep our picture up to date. ApiError, which has
        been reported, when the tick can't be done.
        """
        now = time.monotonic()
        self.report.tick_began()
        try:
            if self.proxy:
                self.proxy.revive()
            leads = self.leads()  # asked first: what a leader before us wrote is to be heard before we decide
            delta = self.source.poll()
            self.hear(delta, now)
            self.report.looked(self.queue, self.cache)
            if leads:
                self.carry_out(self.decide(now), now)
        except ApiError as error:
            self.report.trouble(error)
            raise
        self.report.tick_done(self.queue, self.cache)
        return delta.unplaceable + len(self.queue)

    def hear(self, delta: Delta, now: float) -> None:
        """Make the changes part of the picture, and of the queue."""
        self.report.unreadable(delta.unreadable)
        unconfirmed = {uid for uid in self.cache.assumed if uid not in self.held}
        for change in delta.changes:
            pod = unassigned_pod(change)
            is_stale = pod and pod.metadata.uid in unconfirmed and change.kind != Kind.DELETED
            if is_stale and not (delta.complete or self.dry_run):
                continue  # an event from before our binding
            self.cache.apply(change)
            skip_reason = self.queue.apply(change, now)
            if pod and skip_reason:
                self.report.skipped(pod, skip_reason)
        if delta.complete and not self.dry_run:
            self.cache.forget_all(unconfirmed)  # they were bound: what isn't seen has gone again

    def decide(self, now: float) -> Iterator[Decision]:
        """A decision for each pod to be tried, each counted in the picture before the next is made."""
        ready = self.queue.ready(now)
        if ready:
            profiles = (each.profile for each in self.schedulers.values())
            look_up(needs_of(ready, self.cache, profiles), self.source.listers, self.cache, self.report)
        asked_again = self.held.recheck_permit(self.cache, self.queue.uids(), now)
        decided = (schedule_pod_group(batch, self.cache, self.schedulers) for batch in batches(ready))
        for decision in chain(asked_again, chain.from_iterable(decided)):
            decision.attempt, decision.queued = self.queue.attempt(decision.pod.metadata.uid)
            self.report.decided(decision)
            yield decision

    def carry_out(self, decisions: Iterable[Decision], now: float) -> None:
        """Write all bindings, each soon after it is decided on; then all events."""
        self.clerk.carry_out(decisions, self.scheduler_of, self.cache, partial(self.settle, now))
        self.clerk.forget_all_but(self.queue.uids())

    def settle(self, now: float, decision: Decision, result: BindResult) -> None:
        """Let the queue know what came of a pod."""
        uid = decision.pod.metadata.uid
        if decision.outcome == Outcome.SCHEDULED and result != BindResult.BOUND:
            self.scheduler_of(decision.pod).unreserve_and_forget(decision, self.cache)
        if result == BindResult.NOT_SENT:
            return  # it goes first the next time
        if result != BindResult.STILL_PENDING:
            self.queue.drop(uid)
        elif decision.outcome == Outcome.WAITING:
            self.held.hold(decision, now)
            self.queue.hold_for_permit(uid, decision.message)
        elif decision.outcome == Outcome.UNSCHEDULABLE:
            self.queue.requeue(uid, decision.rejected_by, decision.message, now)
        elif decision.outcome == Outcome.ERROR:
            self.queue.requeue(uid, (), decision.message, now)
        else:
            self.queue.requeue(uid, (), f"its binding to {decision.node_name} failed", now)

    def scheduler_of(self, pod: Pod) -> Scheduler:
        """The scheduler that a pod names."""
        return self.schedulers[pod.spec.scheduler_name]


@contextmanager
def assembled(options: Options, report: Report, shutdown: Shutdown) -> Iterator[Poller]:
    """What the options ask for, connected for as long as the block takes. ApiError when it can't be."""
    random, namespaces = Random(options.seed), options.namespaces
    with ExitStack() as stack:
        report.observer = observer = observing(options.listen)
        proxy = stack.enter_context(OwnProxy()) if options.start_proxy else None
        address = proxy.address if proxy else options.proxy
        leads = stack.enter_context(elected(options.leader_election, address, shutdown))
        if options.leader_election:
            observer.elects(options.leader_election.resource_name, leads)
        api = stack.enter_context(Api(address, shutdown.stopping, may_write=leads, request_observer=observer))
        extenders = stack.enter_context(connected(options.config.extenders, api, report.warning))
        profiles = profiles_for(options.config, options.profiles, Handle(random, extenders))
        names = [each.scheduler_name for each in profiles]
        in_full = bool(options.explain) or options.verbose
        schedulers = {
            name: Scheduler(
                profile,
                random,
                extenders,
                in_full=in_full,
                clock=time.monotonic,
                record=observer.record_for(name),
            )
            for name, profile in zip(names, profiles, strict=True)
        }
        clerk = Clerk(
            Writer(api, names, namespaces),
            report,
            shutdown,
            workers=options.bind_workers,
            annotate=options.annotate,
            dry_run=options.dry_run,
        )
        poller = Poller(
            proxy,
            (Informer if options.watch else PollingSource)(api, names, namespaces),
            Cache(served=namespaces),
            SchedulingQueue(dict(zip(names, profiles, strict=True)), options.times, observer.queued),
            schedulers,
            WaitingPods(schedulers),
            clerk,
            report,
            leads,
            options.dry_run,
        )
        stack.enter_context(on_signal(signal.SIGUSR1, lambda: report.show(poller.queue)))
        report.started(names, namespaces, api.address)
        yield poller


def serve(options: Options, report: Report, shutdown: Shutdown) -> int:
    """Tick once, or until a signal raises Stopped; the exit status. ApiError when a start or --once fails."""
    first, longest = min(options.interval, FIRST_PAUSE), max(options.interval, LONGEST_PAUSE)
    patiently = Retrying(
        retry=retry_if_exception_type(ApiError),
        wait=wait_exponential_jitter(multiplier=first, max=longest),
        before_sleep=lambda state: report.rests(state.upcoming_sleep),
        sleep=shutdown.wait,
    )
    with assembled(options, report, shutdown) as poller:
        if options.once:
            return SOME_NOT_PLACED if poller.tick() else ALL_PLACED
        while True:
            patiently(poller.tick)
            shutdown.raise_if_stopped()
            pause = options.interval
            if options.watch:  # it hears of no change when a pod has backed off, nor when we come to lead
                pause = min(pause, poller.queue.next_in(time.monotonic()) if poller.leads() else FIRST_PAUSE)
            report.rests(pause)
            poller.source.wait(pause)


def main(options: Options) -> int:
    """Serve, and say in the end what was done; the exit status."""
    printed = set_up_logging(options.log_format, verbose=options.verbose)
    report = Report(dry_run=options.dry_run, explain=options.explain)
    # Standard output is for decisions; what a policy prints goes where the log goes.
    with Shutdown() as shutdown, redirect_stdout(printed):
        try:
            status = serve(options, report, shutdown)
        except (ApiError, ListenError) as error:
            report.trouble(error)
            status = NO_START
        except Stopped:
            status = 128 + (shutdown.signal or 0) if options.once else 0
            if shutdown.aborted:
                status = LEASE_LOST
        finally:
            report.sum(shutdown.signal)
    if shutdown.impatient:  # Python would wait for a write that hangs
        sys.stdout.flush()
        os._exit(status)
    return status


if __name__ == "__main__":
    run_with_options(main)
