"""What follows from each result, from each lookup and from each change of a pod that has room.

The parts that write and report only say what they are asked to do.
"""

import time
from contextlib import nullcontext
from datetime import UTC, datetime
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from objects import node, pod

from lib.kube.changes import Change, Kind
from lib.kube.errors import ApiError
from lib.kube.objects import Pod
from lib.kube.resource_claims import ReleaseClaim, UndoClaim
from lib.kube.source import Delta
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.framework.interface import Status, unschedulable, wait
from lib.scheduling.groups.pod_group_cycle import schedule_pod_group
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.pod_life import PodLives
from lib.scheduling.queue import SchedulingQueue
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.reserved_room import ReservedRoom
from lib.service.steps import Poller
from lib.service.telemetry.observer import Observer
from lib.service.telemetry.report import Report
from lib.service.writes.results import Completed, Result
from poller import finish

WEB, OTHER = (pod(name, {"cpu": "3"}, schedulerName="my-scheduler") for name in ("web", "other"))


class Says:
    """Notes which of its methods is called, and with what."""

    def __init__(self, said: list[str]) -> None:
        self._said = said

    undoing: frozenset[str] = frozenset()

    @property
    def records(self) -> "Says":
        return self

    @property
    def observer(self) -> Observer:
        return Observer()

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self._said.append(name)


class Holds:
    """A Permit plugin that lets no pod wait for longer than it is told to."""

    name = "Holds"
    answer: Status | None = None
    undo: tuple[UndoClaim, ...] = ()

    def permit(self, state: Any, pod: Pod, node_name: str, waited: float) -> Status | None:
        return self.answer

    def unreserve(self, state: Any, pod: Pod, node_name: str) -> tuple[UndoClaim, ...]:
        return self.undo


class Loop:
    """The loop's parts that know of pods, with room for one of two: web gets it, and other fits nowhere."""

    def __init__(self, outcome: Status | None = None) -> None:
        self.said: list[str] = []
        self.holds, lives = Holds(), PodLives()
        self.holds.answer = outcome
        profile = default_profile("my-scheduler", self.holds)
        self.cache = Cache([node("n1")], lives=lives)
        self.queue = SchedulingQueue({"my-scheduler": profile}, lives=lives)
        scheduler = Scheduler(profile, Random(1))
        schedulers = {"my-scheduler": scheduler}
        no: Any = None
        says: Any = Says(self.said)
        room = ReservedRoom(self.cache, self.queue, schedulers, no, says, says, time.monotonic, dry_run=False)
        self.poller = Poller(no, no, self.cache, self.queue, schedulers, says, says, no, no, no, no, room)
        for each in (WEB, OTHER):
            self.queue.apply(Change(Kind.ADDED, each), now=0)
        self.decision, rejected = (scheduler.schedule_one(each, self.cache) for each in (WEB, OTHER))
        self.queue.requeue(OTHER.metadata.uid, rejected.rejected_by, "no room", now=0)

    def fails(self) -> None:
        """The decision after a binding that failed."""
        self.decision = replace(self.decision, outcome=Outcome.ERROR, message="running Bind plugin: no")

    def finish(self, result: Result, **more: Any) -> tuple[str, str]:
        """The phases of web and other afterwards."""
        finish(self.poller, [Completed(self.decision, result, **more)])
        return self.phase_of(WEB), self.phase_of(OTHER)

    def phase_of(self, pod: Pod) -> str:
        return self.cache.lives.phase_of(pod).name


def placed(node_name: str) -> Pod:
    return replace(WEB, spec=replace(WEB.spec, node_name=node_name))


REFUSED, LOST = ApiError("403"), ApiError("lost")
LOST.may_be_written = True

RESULTS = [
    # result, its details, what is reported and written, web's phase, other's phase, whose pods n1 has
    (Result.BOUND, {}, "bound", "BOUND", "UNSCHEDULABLE", "web"),
    (Result.NOT_WRITTEN, {}, "", "BOUND", "UNSCHEDULABLE", "web"),
    (Result.WAITING, {}, "waiting", "HELD", "UNSCHEDULABLE", "web"),
    (Result.FAILED, {"error": REFUSED}, "not_bound failed_scheduling", "BACKOFF", "ACTIVE", ""),
    (Result.FAILED, {}, "not_bound failed_scheduling", "BACKOFF", "ACTIVE", ""),
    (Result.DOUBTFUL, {"error": LOST}, "not_bound failed_scheduling", "DOUBTFUL", "UNSCHEDULABLE", "web"),
    (Result.TAKEN, {"now": placed("n1")}, "taken", "BOUND", "ACTIVE", "web"),
    (Result.TAKEN, {"now": placed("n2")}, "taken", "BOUND", "ACTIVE", ""),
    (Result.TAKEN, {"now": WEB}, "taken", "ACTIVE", "ACTIVE", ""),
    (Result.TAKEN, {}, "taken", "OUT", "ACTIVE", ""),
    (Result.NOT_SENT, {}, "", "ACTIVE", "ACTIVE", ""),
    (Result.NOT_RECORDED, {}, "", "ASSUMED", "UNSCHEDULABLE", "web"),  # an earlier decision's
]


@pytest.mark.parametrize(
    ("result", "more", "said", "web", "other", "on_node"),
    [pytest.param(*each, id=f"{each[0].name} {' '.join(each[1])}") for each in RESULTS],
)
def test_each_result_leads_its_pod_to_a_phase(
    result: Result, more: Any, said: str, web: str, other: str, on_node: str
) -> None:
    loop = Loop()
    if result in (Result.FAILED, Result.DOUBTFUL):  # as the writes do
        loop.fails()
    assert loop.finish(result, **more) == (web, other)
    assert " ".join(loop.said) == said
    assert " ".join(each.metadata.name for each in loop.cache.nodes["n1"].pods) == on_node


@pytest.mark.parametrize(("nominated", "phase"), [("n1", "UNSCHEDULABLE"), ("n2", "ACTIVE")])
def test_a_pod_that_is_bound_elsewhere_than_nominated_wakes_those_that_it_kept_away(
    nominated: str, phase: str
) -> None:
    loop = Loop()
    loop.cache.nominator.add(WEB, nominated)
    assert loop.finish(Result.BOUND) == ("BOUND", phase)


@pytest.mark.parametrize("result", [Result.BOUND, Result.DOUBTFUL])
def test_a_binding_is_looked_up_if_it_is_not_seen_but_not_in_a_dry_run(result: Result) -> None:
    loop, dry = Loop(), Loop()
    loop.finish(result)
    dry.finish(Result.NOT_WRITTEN)
    assert [len(list(each.cache.lives.overdue(time.monotonic() + 61))) for each in (loop, dry)] == [1, 0]


def test_a_pod_that_fits_nowhere_is_tried_when_its_victims_have_left() -> None:
    loop = Loop()
    vip = pod("vip", {"cpu": "3"}, schedulerName="my-scheduler", priority=5)
    loop.finish(Result.BOUND)
    loop.queue.apply(Change(Kind.ADDED, vip), now=0)
    decision = loop.poller.schedulers["my-scheduler"].schedule_one(vip, loop.cache)
    finish(loop.poller, [Completed(decision, Result.UNSCHEDULABLE)])
    assert (loop.phase_of(vip), set(loop.cache.lives.leaving)) == ("UNSCHEDULABLE", {WEB.metadata.uid})
    gone = Change(Kind.DELETED, placed("n1"))
    loop.cache.apply(gone)
    loop.queue.apply(gone, now=0)
    assert (loop.phase_of(vip), set(loop.cache.lives.leaving)) == ("ACTIVE", set())


@pytest.mark.parametrize(("phase", "attempts"), [("HELD", 0), ("UNSCHEDULABLE", 2)])
def test_a_pod_whose_rejection_was_not_written_is_tried_again_unless_it_has_room(
    phase: str, attempts: int
) -> None:
    loop = Loop(wait("not yet"))
    rejected = loop.decision if phase == "HELD" else Decision(OTHER, Outcome.UNSCHEDULABLE)
    life = loop.cache.lives.of(rejected.pod)
    assert life.phase.name == phase
    finish(loop.poller, [Completed(rejected, Result.NOT_RECORDED)])
    assert (life.phase.name, life.attempts) == (phase if phase == "HELD" else "BACKOFF", attempts)


# --- what a lookup finds ----------------------------------------------------------------------------------


class Answers:
    """In place of the API: says what became of a pod, or raises."""

    def __init__(self, now: Pod | Exception | None) -> None:
        self._now = now

    def carry_out(self, _write: object) -> Pod | None:
        if isinstance(self._now, Exception):
            raise self._now
        return self._now


FOUND = [
    # what is found, whether the pod is decided on, web's phase, other's phase, whose pods n1 has
    pytest.param(placed("n1"), [], "BOUND", "UNSCHEDULABLE", ["web"], id="bound"),
    pytest.param(placed("n2"), [], "BOUND", "UNSCHEDULABLE", [], id="bound elsewhere"),
    pytest.param(None, [], "OUT", "ACTIVE", [], id="gone"),
    pytest.param(WEB, ["scheduled"], "ASSUMED", "ACTIVE", ["web"], id="not bound"),
    pytest.param(ApiError("away"), ["error"], "DOUBTFUL", "UNSCHEDULABLE", ["web"], id="not known"),
    pytest.param(KeyError("?"), ["error"], "DOUBTFUL", "UNSCHEDULABLE", ["web"], id="unexpected"),
]


@pytest.mark.parametrize(("now", "outcomes", "web", "other", "on_node"), FOUND)
def test_a_doubtful_pod_is_looked_up_before_it_is_tried_again(
    now: Any, outcomes: list[str], web: str, other: str, on_node: list[str]
) -> None:
    loop = Loop()
    loop.fails()
    loop.finish(Result.DOUBTFUL)
    poller: Any = loop.poller
    poller.room.api, poller.shutdown = Answers(now), SimpleNamespace(interruptible=nullcontext)
    decisions = loop.poller.schedule([WEB])
    assert [each.outcome.value for each in decisions] == outcomes
    assert (loop.phase_of(WEB), loop.phase_of(OTHER)) == (web, other)
    assert [each.metadata.name for each in loop.cache.nodes["n1"].pods] == on_node


VICTIMS = [
    # the result of web's binding, what a lookup finds, the outcomes of vip's decisions; then vip's phase,
    # web's phase, and who is being preempted
    pytest.param(None, KeyError(), [], "ACTIVE", "ASSUMED", set(), id="its binding is in flight"),
    pytest.param(Result.DOUBTFUL, placed("n1"), ["unschedulable"], "ACTIVE", "BOUND", {"web"}, id="bound"),
    pytest.param(Result.DOUBTFUL, None, ["scheduled"], "ASSUMED", "OUT", set(), id="gone"),
    pytest.param(Result.DOUBTFUL, WEB, ["scheduled"], "ASSUMED", "ACTIVE", set(), id="not bound"),
    pytest.param(Result.DOUBTFUL, ApiError("away"), ["error"], "ACTIVE", "DOUBTFUL", set(), id="not known"),
]


@pytest.mark.parametrize(("result", "found", "outcomes", "vip", "web", "leaving"), VICTIMS)
def test_a_victim_is_evicted_only_if_it_is_known_to_be_bound(
    result: Result | None, found: Any, outcomes: list[str], vip: str, web: str, leaving: set[str]
) -> None:
    loop = Loop()
    if result:
        loop.fails()
        loop.finish(result)
    important = pod("vip", {"cpu": "3"}, schedulerName="my-scheduler", priority=5)
    loop.queue.apply(Change(Kind.ADDED, important), now=0)
    poller: Any = loop.poller
    poller.room.api, poller.shutdown = Answers(found), SimpleNamespace(interruptible=nullcontext)
    decisions = loop.poller.schedule([important])
    assert [each.outcome.value for each in decisions] == outcomes
    assert (loop.phase_of(important), loop.phase_of(WEB)) == (vip, web)
    assert set(loop.cache.lives.leaving) == {f"uid-of-{name}" for name in leaving}


# --- what a poll shows ------------------------------------------------------------------------------------

GONE, BOUND = Change(Kind.DELETED, WEB, WEB), Change(Kind.ADDED, placed("n1"))
ELSEWHERE = Change(Kind.ADDED, placed("n2"))
ENDS = replace(WEB, metadata=replace(WEB.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC)))
ENDING, LABELLED = Change(Kind.MODIFIED, ENDS, WEB), Change(Kind.MODIFIED, WEB, WEB)

SHOWN = [
    # web's phase, what a poll shows, whether it shows everything, what a lookup finds; then web's phase,
    # other's phase, whose pods n1 has
    ("HELD", [GONE], False, KeyError(), "OUT", "ACTIVE", []),
    ("HELD", [ENDING], False, KeyError(), "OUT", "ACTIVE", []),
    ("HELD", [LABELLED], False, KeyError(), "HELD", "UNSCHEDULABLE", ["web"]),
    ("HELD", [BOUND], True, KeyError(), "OUT", "ACTIVE", ["web"]),
    ("DOUBTFUL", [GONE], False, None, "OUT", "ACTIVE", []),
    ("DOUBTFUL", [GONE], False, placed("n1"), "BOUND", "UNSCHEDULABLE", ["web"]),
    ("DOUBTFUL", [GONE], False, ApiError("away"), "DOUBTFUL", "UNSCHEDULABLE", ["web"]),
    ("DOUBTFUL", [GONE, BOUND], True, KeyError(), "OUT", "UNSCHEDULABLE", ["web"]),
    ("DOUBTFUL", [ENDING], False, ENDS, "OUT", "ACTIVE", []),
    ("DOUBTFUL", [LABELLED], True, KeyError(), "DOUBTFUL", "UNSCHEDULABLE", ["web"]),
    ("BOUND", [GONE, BOUND], True, KeyError(), "OUT", "UNSCHEDULABLE", ["web"]),
    ("BOUND", [GONE, ELSEWHERE], True, KeyError(), "OUT", "UNSCHEDULABLE", []),
    ("BOUND", [GONE], False, KeyError(), "BOUND", "UNSCHEDULABLE", ["web"]),  # it has a node now, maybe
    ("BOUND", [GONE], True, KeyError(), "OUT", "ACTIVE", []),  # deleted
    ("BOUND", [LABELLED], False, KeyError(), "BOUND", "UNSCHEDULABLE", ["web"]),  # from before our binding
    ("BOUND", [LABELLED], True, WEB, "ACTIVE", "ACTIVE", []),
    ("BOUND", [], True, WEB, "ACTIVE", "ACTIVE", []),
    ("BOUND", [], True, ApiError("away"), "BOUND", "UNSCHEDULABLE", ["web"]),
    ("BOUND", [], False, KeyError(), "BOUND", "UNSCHEDULABLE", ["web"]),
]


@pytest.mark.parametrize(("phase", "changes", "complete", "found", "web", "other", "on_node"), SHOWN)
def test_what_a_poll_shows_of_a_pod_with_room(
    phase: str, changes: Any, complete: bool, found: Any, web: str, other: str, on_node: list[str]
) -> None:
    loop = Loop()
    if phase == "DOUBTFUL":
        loop.fails()
    loop.finish({"HELD": Result.WAITING, "DOUBTFUL": Result.DOUBTFUL, "BOUND": Result.BOUND}[phase])
    poll(loop, changes, complete=complete, found=found)
    assert (loop.phase_of(WEB), loop.phase_of(OTHER)) == (web, other)
    assert [each.metadata.name for each in loop.cache.nodes["n1"].pods] == on_node


def poll(loop: Loop, changes: Any, *, complete: bool, found: Any) -> None:
    """Handle what a poll shows. found: what a lookup finds."""
    poller: Any = loop.poller
    poller.options = SimpleNamespace(dry_run=False, once=False)
    poller.source = SimpleNamespace(
        storage=SimpleNamespace(unseen=""),
        devices=SimpleNamespace(unseen="", is_known=False),
        first_changes=lambda: [],
        poll=lambda _: Delta(changes, complete=complete),
    )
    poller.checks = SimpleNamespace(during_poll=lambda _: nullcontext(), after_poll=lambda _: None)
    poller.room.api = Answers(found)
    for change in loop.poller.changes():
        loop.cache.apply(change)
        loop.queue.apply(change, time.monotonic())


@pytest.mark.parametrize("node_name", ["n1", "n2"])
def test_a_pod_that_only_a_lookup_has_shown_on_a_node_gives_its_room_back(node_name: str) -> None:
    """It goes before any list shows it there; lists that lag behind show it without a node."""
    loop = Loop()
    loop.cache.apply(Change(Kind.ADDED, node("n2")))
    loop.fails()
    loop.finish(Result.DOUBTFUL)
    poll(loop, [GONE], complete=False, found=placed(node_name))
    life = loop.cache.lives.of(WEB)

    def on_nodes() -> list[str]:
        return [name for name, each in loop.cache.nodes.items() if each.pods]

    assert (life.phase.name, on_nodes()) == ("BOUND", [node_name])
    poll(loop, [], complete=True, found=KeyError())  # it was looked up just now
    life.look_up_at = 0.0
    poll(loop, [], complete=False, found=KeyError())  # what wasn't listed tells nothing
    assert on_nodes() == [node_name]
    poll(loop, [], complete=True, found=None)
    assert (loop.phase_of(WEB), on_nodes()) == ("OUT", [])


def test_a_doubtful_pod_that_has_gone_is_not_counted_as_not_scheduled_any_more() -> None:
    """It was gated once. Its deletion is a change of our own making, after a lookup."""
    loop = Loop()
    loop.fails()
    loop.finish(Result.DOUBTFUL)
    report: Any = Report(dry_run=False, explain=None)
    loop.poller.report = report
    report.skipped(WEB, "has scheduling gates")
    poll(loop, [GONE], complete=False, found=None)
    assert report._skipped == set()


@pytest.mark.parametrize("node_name", ["n1", "n2"])
@pytest.mark.parametrize("is_seen", [True, False])
def test_a_doubtful_binding_that_was_made_has_its_event(node_name: str, is_seen: bool) -> None:
    loop = Loop()
    loop.finish(Result.DOUBTFUL)
    life, poller = loop.cache.lives.of(WEB), loop.poller
    loop.said.clear()
    poller.room.api = Answers(placed(node_name))  # type: ignore[assignment]
    if is_seen:
        assert not poller.room.is_stale(Change(Kind.ADDED, placed(node_name)), life)
    else:
        assert len(poller.room.resolve_doubtful_binding(life)) == 1
    assert loop.said == (["bound", "scheduled"] if node_name == "n1" else [])  # else another program bound it
    assert life.decision.message == "Successfully assigned default/web to n1"


def test_what_was_written_for_a_pod_that_no_longer_waits_is_undone_before_it_is_tried_again() -> None:
    """Its record may be replaced, and doesn't keep it from being tried."""
    loop = Loop(wait("not yet"))
    no: Any = None
    loop.holds.answer, loop.holds.undo = unschedulable("too late"), (ReleaseClaim(no, WEB),)
    (decision,) = loop.poller._decide([WEB])
    assert (decision.outcome, decision.undo, loop.said) == (Outcome.UNSCHEDULABLE, (), ["undo"])
    assert loop.phase_of(OTHER) == "ACTIVE"


def test_when_one_of_a_group_that_waits_is_deleted_the_others_lose_their_nodes_too() -> None:
    loop = Loop(wait("not yet"))
    group = [pod(name, {"cpu": "100m"}, schedulerName="my-scheduler") for name in "ab"]
    for each in group:
        each.metadata.labels, each.metadata.annotations = {"poller/group": "g"}, {"poller/group-size": "2"}
        loop.queue.apply(Change(Kind.ADDED, each), now=0)
    schedule_pod_group(group, loop.cache, loop.poller.schedulers)
    assert [loop.phase_of(each) for each in (WEB, *group)] == ["HELD"] * 3
    poll(loop, [Change(Kind.DELETED, group[0], group[0])], complete=True, found=KeyError())
    assert [loop.phase_of(each) for each in (WEB, *group)] == ["HELD", "OUT", "ACTIVE"]
    assert [each.metadata.name for each in loop.cache.nodes["n1"].pods] == ["web"]
