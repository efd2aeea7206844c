#!/usr/bin/env python3
"""poller: a Kubernetes scheduler in one small loop.

Which pods wait for us? Which node is best for each? Tell the API server, wait, ask again.
"""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import zip_longest
from random import Random

from tenacity import Retrying, retry_if_exception_type, wait_exponential_jitter

from lib.kube.api import Api, ApiError
from lib.kube.feed import Feed
from lib.kube.objects import Pod
from lib.kube.proxy import OwnProxy
from lib.kube.writer import BindResult, Writer
from lib.scheduling.cluster import Cluster
from lib.scheduling.cycle import Scheduler
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.queue import in_order, why_passed_over
from lib.scheduling.waiting import WaitingPods
from lib.service.clerk import Clerk
from lib.service.options import Options, run_with_options
from lib.service.picture import take_picture
from lib.service.profiles import profiles_for
from lib.service.report import Report, set_up_logging
from lib.service.shutdown import Shutdown, Stopped

ALL_PLACED, NO_API, SOME_NOT_PLACED = 0, 1, 3
"""Exit statuses of --once."""

LONGEST_PAUSE = 30.0
"""Seconds between two tries to reach an API server that isn't there."""


@dataclass
class Poller:
    """What the loop reads from, decides with, writes through, and whom it tells."""

    feed: Feed
    schedulers: Mapping[str, Scheduler]
    held: WaitingPods
    clerk: Clerk
    report: Report
    dry_run: bool

    def tick(self) -> int:
        """Place every pod that waits; how many still wait."""
        pods = self.feed.waiting_pods()
        waiting = [pod for pod in self.report.readable(pods) if self.may_be_placed(pod)]
        placed = self.place(waiting) if waiting else 0
        self.clerk.forget_all_but({pod.metadata.uid: pod for pod in waiting})
        self.report.tick_done()
        return len(pods.malformed) + len(waiting) - placed

    def place(self, waiting: list[Pod]) -> int:
        """Decide on a node for each pod, then write all bindings, then all events; how many were placed."""
        cluster = take_picture(self.feed, waiting, self.schedulers, self.report)
        decisions = self.decide(waiting, cluster)
        results: list[BindResult] = []
        try:
            if self.dry_run:
                return sum(decision.outcome == Outcome.SCHEDULED for decision in decisions)
            for decision in decisions:
                results += [self.clerk.bind(decision, self.scheduler_of(decision.pod), cluster)]
            for decision, result in zip(decisions, results, strict=True):
                self.clerk.record(decision, result)
            return sum(result != BindResult.WAITING for result in results)
        finally:
            for decision, result in zip_longest(decisions, results):
                if decision.outcome == Outcome.SCHEDULED and result != BindResult.BOUND:
                    self.scheduler_of(decision.pod).unreserve(decision)

    def decide(self, waiting: list[Pod], cluster: Cluster) -> list[Decision]:
        """A decision for each pod, each counted in the picture before the next is made."""
        now = time.monotonic()
        decisions = self.held.ask_again(cluster, {pod.metadata.uid for pod in waiting}, now)
        asked = {decision.pod.metadata.uid for decision in decisions}
        profile = next(iter(self.schedulers.values())).profile  # all order the queue alike
        for pod in in_order(waiting, profile):
            if pod.metadata.uid not in asked:
                decisions.append(self.scheduler_of(pod).schedule_one(pod, cluster))
        for decision in decisions:
            if decision.outcome == Outcome.WAITING:
                self.held.hold(decision, now)
            self.report.decided(decision)
        return decisions

    def may_be_placed(self, pod: Pod) -> bool:
        """Whether a pod that names us is to be placed now."""
        why_not = why_passed_over(pod, self.scheduler_of(pod).profile)
        if why_not:
            self.report.passed_over(pod, why_not)
        return not why_not

    def scheduler_of(self, pod: Pod) -> Scheduler:
        """The scheduler that a pod names."""
        return self.schedulers[pod.spec.scheduler_name]


def serve(options: Options, report: Report, shutdown: Shutdown) -> int:
    """Tick once, or until a signal raises Stopped; the exit status. ApiError when a start or --once fails."""
    random = Random(options.seed)
    schedulers = {each.scheduler_name: Scheduler(each, random) for each in profiles_for(options, random)}
    with ExitStack() as stack:
        own_proxy = stack.enter_context(OwnProxy()) if options.start_proxy else None
        address = own_proxy.address if own_proxy else options.proxy
        api = stack.enter_context(Api(address, shutdown.stopping))
        clerk = Clerk(Writer(api), report, shutdown, annotate=options.annotate)
        feed, held = Feed(api, list(schedulers)), WaitingPods(schedulers)
        poller = Poller(feed, schedulers, held, clerk, report, options.dry_run)
        report.started(list(schedulers), address)

        def tick() -> int:
            try:
                if own_proxy:
                    own_proxy.revive()
                return poller.tick()
            except ApiError as error:
                report.trouble(error)
                raise

        if options.once:
            return SOME_NOT_PLACED if tick() else ALL_PLACED
        longest = max(options.interval, LONGEST_PAUSE)
        patiently = Retrying(
            retry=retry_if_exception_type(ApiError),
            wait=wait_exponential_jitter(multiplier=options.interval, max=longest),
            sleep=shutdown.wait,
        )
        while True:
            patiently(tick)
            shutdown.wait(options.interval)


def main(options: Options) -> int:
    """Serve, and say in the end what was done; the exit status."""
    set_up_logging(verbose=options.verbose)
    report = Report(dry_run=options.dry_run, explain=options.explain)
    with Shutdown() as shutdown:
        try:
            return serve(options, report, shutdown)
        except ApiError as error:
            report.trouble(error)
            return NO_API
        except Stopped:
            return ALL_PLACED
        finally:
            report.sum(shutdown.signal_name)


if __name__ == "__main__":
    run_with_options(main)
