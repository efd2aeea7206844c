#!/usr/bin/env python3
"""poller: a Kubernetes scheduler in one small loop.

Which pods wait for us? Which node has room for each? Tell the API server, wait, ask again.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random

from tenacity import Retrying, retry_if_exception_type, wait_exponential_jitter

from lib.kube.api import Api, ApiError, UnreachableError
from lib.kube.feed import Feed
from lib.kube.objects import Pod
from lib.kube.proxy import OwnProxy
from lib.kube.writer import Outcome, Writer
from lib.scheduling.cluster import Cluster
from lib.scheduling.cycle import schedule_one
from lib.scheduling.decision import Decision
from lib.scheduling.plugins.registry import default_plugins
from lib.scheduling.queue import by_priority_then_age, why_passed_over
from lib.service.options import Options, run_with_options
from lib.service.report import Report, set_up_logging
from lib.service.shutdown import Shutdown, Stopped

ALL_PLACED, NO_API, SOME_NOT_PLACED = 0, 1, 3
"""Exit statuses of --once."""

LONGEST_PAUSE = 30.0
"""Seconds between two tries to reach an API server that isn't there."""


@dataclass
class Poller:
    """One scheduler: what it reads, how it chooses, where it writes, whom it tells."""

    feed: Feed
    writer: Writer
    report: Report
    shutdown: Shutdown
    random: Random
    dry_run: bool
    plugins = default_plugins()

    def tick(self) -> int:
        """Place every pod that waits; how many still wait."""
        pods = self.feed.waiting_pods()
        waiting = [pod for pod in self.report.readable(pods) if self.may_be_placed(pod)]
        placed = self.place(by_priority_then_age(waiting)) if waiting else 0
        self.writer.forget_all_but({pod.metadata.uid for pod in waiting})
        self.report.tick_done()
        return len(pods.malformed) + len(waiting) - placed

    def may_be_placed(self, pod: Pod) -> bool:
        """Whether a pod that names us is to be placed now."""
        why_not = why_passed_over(pod)
        if why_not:
            self.report.passed_over(pod, why_not)
        return not why_not

    def place(self, waiting: list[Pod]) -> int:
        """Decide on a node for each pod, then write what was decided; how many no longer wait."""
        nodes, assigned = self.feed.nodes(), self.feed.assigned_pods()
        cluster = Cluster(self.report.readable(nodes), self.report.readable(assigned))
        decisions = [schedule_one(pod, cluster, self.plugins, self.random) for pod in waiting]
        for decision in decisions:
            self.report.decided(decision, dry_run=self.dry_run)
        if self.dry_run:
            return sum(decision.node_name is not None for decision in decisions)

        outcomes = [self.bind(decision) for decision in decisions]
        for decision, outcome in zip(decisions, outcomes, strict=True):
            self.record(decision, outcome)
        return sum(outcome != Outcome.WAITING for outcome in outcomes)

    def bind(self, decision: Decision) -> Outcome:
        """Write the binding, if there is a node to bind to."""
        if not decision.node_name:
            return Outcome.WAITING
        try:
            with self.shutdown.held():
                outcome = self.writer.bind(decision.pod, decision.node_name)
                self.report.settled(decision, outcome)
        except UnreachableError:
            raise
        except ApiError as error:
            self.report.failed(decision.pod, "binding", error)
            return Outcome.WAITING
        return outcome

    def record(self, decision: Decision, outcome: Outcome) -> None:
        """Write the event; for a pod that fits nowhere its condition, too."""
        now = datetime.now(UTC).replace(microsecond=0)
        try:
            with self.shutdown.held():
                if outcome == Outcome.BOUND:
                    self.writer.record_scheduled(decision.pod, decision.message, now)
                elif not decision.node_name:
                    self.writer.record_failed(decision.pod, decision.message, now)
                    self.writer.mark_unschedulable(decision.pod, decision.message, now)
        except UnreachableError:
            raise
        except ApiError as error:
            self.report.failed(decision.pod, "event", error)


def serve(options: Options, report: Report, shutdown: Shutdown) -> int:
    """Tick once, or until a signal raises Stopped; the exit status. ApiError when a start or --once fails."""
    with ExitStack() as stack:
        own_proxy = stack.enter_context(OwnProxy()) if options.start_proxy else None
        address = own_proxy.address if own_proxy else options.proxy
        api = stack.enter_context(Api(address, shutdown.stopping))
        feed, writer = Feed(api, options.scheduler_name), Writer(api, options.scheduler_name)
        poller = Poller(feed, writer, report, shutdown, Random(options.seed), options.dry_run)
        report.started(options.scheduler_name, address)

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
        patiently = Retrying(
            retry=retry_if_exception_type(ApiError),
            wait=wait_exponential_jitter(
                multiplier=options.interval, max=max(options.interval, LONGEST_PAUSE)
            ),
            sleep=shutdown.wait,
        )
        while True:
            patiently(tick)
            shutdown.wait(options.interval)


def main(options: Options) -> int:
    """Serve, and say in the end what was done; the exit status."""
    set_up_logging(verbose=options.verbose)
    report = Report()
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
