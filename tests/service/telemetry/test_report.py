"""What the log says of ticks that fail, of the queue, of each node, and at the end."""

import logging
import signal

import pytest
from later import Later
from objects import node, pod

from lib.kube.changes import Change, Kind
from lib.kube.errors import ApiError, ForbiddenError, StartingError, UnreachableError
from lib.scheduling.attempt import SchedulingAttempt
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Outcome
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.pod_life import BackoffSettings
from lib.scheduling.queue import SchedulingQueue
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.telemetry import report as reporting
from lib.service.telemetry.report import Report

PROFILE = default_profile("default-scheduler")


class Loop:
    """A report, with the queue and the cache that it is told of."""

    def __init__(self, caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> None:
        self.machine, self._caplog = Later(), caplog
        self.report = Report(dry_run=False, explain=None, system=self.machine)
        self.cache = Cache([node("n1")])
        profiles = {PROFILE.scheduler_name: PROFILE}
        self.queue = SchedulingQueue(profiles, BackoffSettings(), lives=self.cache.lives)
        caplog.set_level(level, "poller")

    def add(self, *names: str) -> None:
        """Pods come."""
        for name in names:
            change = Change(Kind.ADDED, pod(name, schedulerName=PROFILE.scheduler_name))
            self.queue.apply(change, self.machine.monotonic())

    def tick(self, error: ApiError | None = None) -> list[str]:
        """A tick, which succeeds or fails. Returns the lines that are logged."""
        self.report.tick_began()
        if error:
            self.report.trouble(error)
        else:
            self.report.tick_done(self.queue, self.cache)
        return self.lines()

    def lines(self) -> list[str]:
        """What was logged since the last call."""
        found = [*self._caplog.messages]
        self._caplog.clear()
        return found


AWAY = UnreachableError("nobody answers")


@pytest.mark.parametrize(
    ("error", "back"),
    [
        (AWAY, "the API server is back, after 7 s"),
        (ForbiddenError("pods is forbidden"), "polls succeed again, after 7 s"),
        (StartingError("rights are unknown yet"), "the API server is back, after 7 s"),
    ],
)
def test_a_failing_tick_is_told_of_once_and_so_is_its_end(
    caplog: pytest.LogCaptureFixture, error: ApiError, back: str
) -> None:
    loop = Loop(caplog)
    assert loop.tick(error) == [str(error)]
    loop.machine.seconds += 7
    assert loop.tick(error) == []
    assert loop.tick() == [back]
    assert loop.tick() == []
    assert loop.tick(error) == [str(error)]  # it is news again


def test_another_reason_for_a_failing_tick_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop(caplog)
    assert loop.tick(AWAY) == ["nobody answers"]
    assert loop.tick(UnreachableError("refused")) == ["refused"]


def test_who_asks_for_the_queue_is_told_who_waits(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "MAX_NAMES", 2)
    loop = Loop(caplog)
    loop.add("a", "b", "c")
    loop.machine.seconds += 9
    loop.report.show(loop.queue)
    queue, active, oldest = loop.lines()
    assert queue == "queue: 3 active, 0 backoff, 0 unschedulable, 0 waiting, 0 gated"
    assert active == "active: default/a, default/b, ..."
    assert oldest == "in the queue for longest, 9 s, tried 0 times: default/a (active)"


@pytest.mark.parametrize("is_reached", [True, False])
def test_the_last_line_says_what_became_of_the_pods(
    caplog: pytest.LogCaptureFixture, is_reached: bool
) -> None:
    loop = Loop(caplog)
    if is_reached:
        loop.report.reached()
    loop.lines()
    loop.machine.seconds += 3
    loop.report.summarize(None)
    loop.report.summarize(signal.SIGTERM)
    said = "none to schedule" if is_reached else "not known, as they could not be read"
    assert loop.lines() == [f"{ended} after 3.0 s; pods: {said}" for ended in ("ended", "ended by SIGTERM")]


def test_a_pod_that_fits_nowhere_is_left_without_a_node_until_it_is_bound(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = Loop(caplog)
    loop.add("web")
    web = pod("web")
    nowhere = SchedulingAttempt(web, loop.cache).decide(Outcome.UNSCHEDULABLE, "0/1 nodes are available")
    for expected in (["default/web: 0/1 nodes are available"], []):
        loop.report.decided(nowhere)
        assert loop.lines() == expected  # once, as long as it stays the same
        loop.tick()
    loop.report.summarize(None)
    assert loop.lines()[-1].endswith("pods: 1 left without a node")
    loop.report.bound(nowhere)
    del loop.report.done["left without a node"]
    loop.report.summarize(None)
    assert loop.lines()[-1].endswith("pods: 1 bound")


def test_with_verbose_each_node_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop(caplog, logging.DEBUG)
    cache = Cache([node("n1"), node("n2", unschedulable=True), node("n3")])
    scheduler = Scheduler(PROFILE, loop.machine.random(1))
    loop.report.decided(scheduler.schedule_one(pod("web"), cache))
    loop.report.decided(scheduler.schedule_one(pod("picky", nodeSelector={"is": "nowhere"}), cache))
    said = loop.lines()
    assert any(line.startswith("default/web: n1 scores ") for line in said)
    assert "default/web: not n2: node(s) were unschedulable (NodeUnschedulable)" in said
    assert "default/picky: not n1: node(s) didn't match Pod's node affinity/selector (NodeAffinity)" in said
