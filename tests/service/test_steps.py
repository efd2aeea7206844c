"""The steps of the loop, by a clock that the tests turn: when a tick is tried again, what a wait is for."""

import gc
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import pairwise
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest
from service.test_finish import OTHER, WEB, Loop, poll

from lib.kube.errors import ApiError
from lib.kube.objects import Pod
from lib.kube.source import Delta
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.steps import ANSWER_PAUSE, LEADER_CHECK, SIGNAL_SECONDS, Poller
from lib.service.writes.results import Completed, Result

START = 10.0
"""When a test begins, by the clock of `Loop`."""


class Ticks:
    """A loop whose ticks fail; times: when each was tried. Time passes only while it waits."""

    def __init__(self, failing: int, **options: Any) -> None:
        self.loop, self.failing = Loop(), failing
        self.times: list[float] = []
        poller: Any = self.loop.poller
        poller.options = SimpleNamespace(**{"once": False, "interval": 1.0, **options})
        poller.leads = lambda: True
        poller.shutdown = SimpleNamespace(wait=self._wait, raise_if_stopped=lambda: None)
        self.poller = poller

    def _wait(self, seconds: float) -> None:
        self.loop.now += seconds

    def run(self) -> None:
        def tick(_: Poller) -> None:
            self.times.append(self.loop.now)
            if len(self.times) <= self.failing:
                raise ApiError("away")

        self.poller.run_tick(tick)


@pytest.mark.parametrize(
    ("interval", "pauses"),
    [
        (0.1, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]),
        (1.0, [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]),
        (60.0, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]),
    ],
)
def test_a_tick_that_fails_is_tried_again_after_longer_and_longer_pauses(
    interval: float, pauses: list[float]
) -> None:
    ticks = Ticks(failing=len(pauses), interval=interval)
    ticks.run()
    waited = [after - before for before, after in pairwise(ticks.times)]
    assert len(waited) == len(pauses)
    for pause, least in zip(waited, pauses, strict=True):  # a random part is added, up to a second
        assert least - 1e-6 <= pause <= min(least + 1, max(30.0, interval)) + 1e-6
    assert ticks.loop.said == ["tick_began", *["trouble", "retries", "tick_began"] * len(pauses), "tick_done"]


def test_becoming_leader_ends_the_pause_before_a_tick_is_tried_again() -> None:
    ticks = Ticks(failing=6)
    ticks.poller.leads = lambda: ticks.loop.now >= START + 25  # in the pause of 16 s, else
    ticks.run()
    assert any(START + 25 <= time <= START + 25 + LEADER_CHECK for time in ticks.times)


def test_the_only_tick_is_not_tried_again() -> None:
    ticks = Ticks(failing=1, once=True)
    with pytest.raises(ApiError, match="away"):
        ticks.run()
    assert (ticks.times, ticks.loop.said) == ([START], ["tick_began", "trouble"])


def test_each_try_starts_a_proxy_of_pollers_own_again_if_it_has_ended() -> None:
    revived: list[float] = []
    ticks = Ticks(failing=2)
    ticks.poller.proxy = SimpleNamespace(revive=lambda: revived.append(ticks.loop.now))
    ticks.run()
    assert revived == ticks.times


def test_the_garbage_collector_is_at_work_after_the_first_tick_though_that_fails() -> None:
    gc.disable()
    try:
        with pytest.raises(ApiError):
            Ticks(failing=1, once=True).run()
        assert gc.isenabled()
    finally:
        gc.enable()


# --- between two ticks ------------------------------------------------------------------------------------


class Waits:
    """A loop that waits. slept: for how long, when there was nothing to write."""

    def __init__(
        self, *, leads: bool = True, awaits: bool = False, more: bool = False, **options: Any
    ) -> None:
        self.loop = Loop()
        self.slept: list[float] = []
        self.pipeline: Any = SimpleNamespace(waits_until=inf)
        poller: Any = self.loop.poller
        poller.options = SimpleNamespace(**{"watch": False, "interval": 60.0, **options})
        poller.leads = lambda: leads
        poller.awaits_answers = awaits
        poller.source = SimpleNamespace(wait=self.slept.append)
        poller.shutdown = SimpleNamespace(held=nullcontext)
        poller.writes = SimpleNamespace(more=more, pipeline=self.pipeline)
        self.poller = poller


@pytest.mark.parametrize(
    ("loop", "seconds"),
    [
        pytest.param({}, 60.0, id="polling"),
        pytest.param({"awaits": True}, ANSWER_PAUSE, id="an answer is awaited"),
        pytest.param({"awaits": True, "interval": 0.1}, 0.1, id="an answer is awaited for an interval"),
        pytest.param({"more": True}, 0.0, id="pods had no time"),
        pytest.param({"watch": True}, 60.0, id="watching"),
        pytest.param({"watch": True, "leads": False}, LEADER_CHECK, id="standing by"),
        pytest.param({"watch": True, "interval": 0.1, "leads": False}, 0.1, id="standing by for an interval"),
    ],
)
def test_the_pause_between_two_ticks(loop: dict[str, Any], seconds: float) -> None:
    waits = Waits(**loop)
    assert [*waits.poller.wait()] == []
    assert waits.slept == [pytest.approx(seconds)]


def test_when_polling_the_writes_go_on_in_the_pause_and_a_signal_is_handled_soon() -> None:
    waits = Waits()
    waits.pipeline.waits_until = -inf
    runs: list[float] = []

    def run(until: float) -> Iterator[Completed]:
        runs.append(until - waits.loop.now)
        waits.loop.now = until
        if len(runs) == 3:
            waits.pipeline.waits_until = inf
        yield Completed(waits.loop.decision, Result.BOUND)

    waits.pipeline.run = run
    assert [each.result for each in waits.poller.wait()] == [Result.BOUND] * 3
    assert runs == [pytest.approx(SIGNAL_SECONDS)] * 3
    assert waits.slept == [pytest.approx(60.0 - 3 * SIGNAL_SECONDS)]


def test_a_block_that_writes_ends_with_the_error_that_stopped_the_writing() -> None:
    waits = Waits()
    waits.pipeline.error = None
    with waits.poller.writing():
        pass
    waits.pipeline.error = ApiError("away")
    with pytest.raises(ApiError, match="away"), waits.poller.writing():
        pass
    assert waits.pipeline.error is None


# --- changes, and decisions -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["storage", "devices"])
@pytest.mark.parametrize("is_read", [True, False])
def test_when_claims_can_be_read_again_all_pods_are_tried_again(kind: str, is_read: bool) -> None:
    loop = Loop()
    poll(loop, [], complete=True)
    source: Any = loop.poller.source
    claims = getattr(source, kind)
    claims.unseen = "claims can't be read"

    def read(_: float) -> Delta:
        claims.unseen = "" if is_read else claims.unseen
        return Delta()

    source.poll = read
    assert [*loop.poller.changes()] == []
    assert loop.phase_of(OTHER) == ("ACTIVE" if is_read else "UNSCHEDULABLE")


def test_each_object_that_cannot_be_decoded_is_warned_of() -> None:
    loop = Loop()
    poll(loop, [], complete=True)
    loop.said.clear()
    source: Any = loop.poller.source
    source.poll = lambda _: Delta(unreadable=["pod default/a: ...", "node n2: ..."], unplaceable=1)
    assert [*loop.poller.changes()] == []
    assert loop.said.count("warning") == 2
    assert loop.poller.unreadable == 1


@pytest.fixture
def deciding() -> Loop:
    """A loop in which web is to be tried."""
    loop = Loop()
    loop.finish(Result.NOT_SENT)
    poller: Any = loop.poller
    poller.shutdown = SimpleNamespace(interruptible=nullcontext)
    return loop


@pytest.mark.parametrize("is_queued", [True, False])
def test_an_unexpected_error_while_a_pod_is_decided_on_is_the_error_of_this_pod(
    deciding: Loop, is_queued: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(_: Scheduler, web: Pod, cache: Cache) -> Decision:
        if is_queued:
            cache.assume(web, "n1")
        else:
            deciding.queue.drop(web.metadata.uid)
        raise KeyError("what")

    monkeypatch.setattr(Scheduler, "schedule_one", breaks)
    errors = [(each.outcome, each.message) for each in deciding.poller.schedule([WEB])]
    assert errors == [(Outcome.ERROR, "deciding failed: KeyError: 'what'")] * is_queued
    assert deciding.cache.nodes["n1"].pods == []


def test_a_pod_is_not_decided_on_before_its_last_decision_is_undone(deciding: Loop) -> None:
    writes: Any = deciding.poller.writes
    writes.undoing = {WEB.metadata.uid}
    assert deciding.poller.schedule([WEB]) == []
    writes.undoing = set()
    assert [each.node_name for each in deciding.poller.schedule([WEB])] == ["n1"]


STEPS: list[Callable[[Loop], object]] = [
    lambda loop: loop.finish(Result.BOUND),
    lambda loop: loop.queue.drop(WEB.metadata.uid),
]


@pytest.mark.parametrize("step", STEPS, ids=["bound", "gone"])
def test_a_pod_that_an_earlier_decision_has_changed_is_left_out(step: Callable[[Loop], object]) -> None:
    loop = Loop()
    poller: Any = loop.poller
    poller.shutdown = SimpleNamespace(interruptible=nullcontext)
    step(loop)
    assert poller.schedule([WEB]) == []
