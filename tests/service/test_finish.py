"""What follows from each result, from each lookup and from each change of a pod that has room.

The parts that write and report only say what they are asked to do.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from math import inf
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from objects import node, pod

from lib.kube.changes import Change, Kind
from lib.kube.errors import ApiError
from lib.kube.objects import COSCHEDULING, Pod, PodGroupRef
from lib.kube.resource_claims import ReleaseClaim, UndoClaim
from lib.kube.source import Delta
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.groups.pod_group_cycle import schedule_pod_group
from lib.scheduling.looked_up import LookedUp
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.pod_life import ANSWER_SECONDS, ROOM, Phase, PodLives
from lib.scheduling.queue import SchedulingQueue
from lib.scheduling.scheduling_cycle import Scheduler
from lib.scheduling.status import Status, unschedulable, wait
from lib.scheduling.transitions import (
    FOUND as FOUND_BY_PHASE,
    REFUSED as REFUSED_BINDING,
    SHOWN as SHOWN_BY_PHASE,
    SHOWN_IN_DRY_RUN,
    Seen,
)
from lib.service.follow_up import FollowUp
from lib.service.steps import VICTIM_PATIENCE, VICTIM_PAUSE, Poller
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
        self.now = 0.0
        self.holds, lives = Holds(), PodLives(lambda: self.now)
        self.holds.answer = outcome
        profile = default_profile("my-scheduler", self.holds)
        self.cache = Cache([node("n1")], lives=lives)
        self.queue = SchedulingQueue({"my-scheduler": profile}, lives=lives)
        scheduler = Scheduler(profile, Random(1))
        schedulers = {"my-scheduler": scheduler}
        no: Any = None
        says: Any = Says(self.said)
        more = FollowUp(self.cache, self.queue, schedulers, says, says, lambda: self.now, dry_run=False)
        system: Any = SimpleNamespace(monotonic=lambda: self.now)
        options: Any = SimpleNamespace(once=False)
        self.poller = Poller(
            options=options,
            source=no,
            cache=self.cache,
            queue=self.queue,
            schedulers=schedulers,
            writes=says,
            report=says,
            shutdown=no,
            leads=no,
            proxy=no,
            checks=no,
            follow_up=more,
            system=system,
        )
        for each in (WEB, OTHER):
            self.queue.apply(Change(Kind.ADDED, each), now=0)
        self.decision, rejected = (scheduler.schedule_one(each, self.cache) for each in (WEB, OTHER))
        self.queue.requeue(OTHER.metadata.uid, rejected.rejected_by, "no room", now=0)
        self.now = 10.0  # its backoff has ended
        if outcome is None:
            lives.move(lives.of(WEB), Phase.BINDING)  # as Writes.submit does

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
    (Result.NOT_RECORDED, {}, "", "BINDING", "UNSCHEDULABLE", "web"),  # an earlier decision's
    (Result.OVERTAKEN, {}, "", "BINDING", "UNSCHEDULABLE", "web"),
    # a look-up while it is being bound: its answer is still to come
    (Result.FOUND, {"now": placed("n1")}, "", "BINDING", "UNSCHEDULABLE", "web"),
    (Result.FOUND, {"now": WEB}, "", "BINDING", "UNSCHEDULABLE", "web"),
    (Result.FOUND, {"now": placed("n2")}, "", "BOUND", "ACTIVE", ""),
    (Result.FOUND, {}, "", "OUT", "ACTIVE", ""),
    (Result.NOT_FOUND_OUT, {"error": REFUSED}, "warning", "BINDING", "UNSCHEDULABLE", "web"),
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
    assert " ".join(each for each in loop.said if each != "changed") == said
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
    assert [len(list(each.cache.lives.overdue(loop.now + 61))) for each in (loop, dry)] == [1, 0]


@pytest.mark.parametrize("complete", [True, False])
def test_a_pod_that_a_list_has_not_shown_while_it_was_being_bound_is_looked_up_soon(
    complete: bool,
) -> None:
    loop = Loop()
    poll(loop, [], complete=complete)  # it may be bound and deleted before this
    loop.now += 1
    loop.finish(Result.BOUND)
    assert not [*loop.cache.lives.overdue(loop.now)]
    assert bool([*loop.cache.lives.overdue(loop.now + 2)]) == complete


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


FOUND = [
    # what is found; then what is reported and written, web's phase, other's phase, whose pods n1 has
    pytest.param({"now": placed("n1")}, "bound scheduled", "BOUND", "UNSCHEDULABLE", ["web"], id="bound"),
    pytest.param({"now": placed("n2")}, "", "BOUND", "ACTIVE", [], id="bound elsewhere"),
    pytest.param({}, "", "OUT", "ACTIVE", [], id="gone"),
    pytest.param({"now": WEB}, "", "BACKOFF", "ACTIVE", [], id="not bound"),
    pytest.param(
        {"error": ApiError("away")},
        "decided failed_scheduling",
        "DOUBTFUL",
        "UNSCHEDULABLE",
        ["web"],
        id="not known",
    ),
]


@pytest.mark.parametrize(("found", "said", "web", "other", "on_node"), FOUND)
def test_a_doubtful_pod_is_looked_up_before_it_is_tried_again(
    found: Any, said: str, web: str, other: str, on_node: list[str]
) -> None:
    loop = Loop()
    loop.fails()
    loop.finish(Result.DOUBTFUL)
    assert WEB not in loop.queue.ready(loop.now)
    loop.now += 1.5  # its backoff
    assert poll(loop, [], complete=False) == ["look_up"]
    loop.said.clear()
    loop.finish(Result.NOT_FOUND_OUT if "error" in found else Result.FOUND, **found)
    assert (loop.phase_of(WEB), loop.phase_of(OTHER)) == (web, other)
    assert " ".join(each for each in loop.said if each != "changed") == said
    assert [each.metadata.name for each in loop.cache.nodes["n1"].pods] == on_node
    if web == "BACKOFF":
        assert WEB in loop.queue.ready(loop.now)
    if web == "DOUBTFUL":  # it is looked up again after a longer backoff
        loop.now += 1.5
        assert poll(loop, [], complete=False) == []
        loop.now += 1
        assert poll(loop, [], complete=False) == ["look_up"]


def test_what_a_look_up_finds_and_cannot_be_applied_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(_: object) -> None:
        raise KeyError("what")

    loop = Loop()
    loop.fails()
    loop.finish(Result.DOUBTFUL)
    monkeypatch.setattr(loop.cache, "apply", breaks)
    loop.finish(Result.FOUND, now=placed("n1"))
    assert "not_processed" in loop.said


@pytest.mark.parametrize("phase", ["ACTIVE", "OUT"])
def test_what_a_late_look_up_finds_of_a_pod_that_has_moved_on_changes_nothing(phase: str) -> None:
    loop = Loop()
    loop.finish(Result.NOT_SENT)
    if phase == "OUT":
        loop.queue.drop(WEB.metadata.uid)
    before = loop.phase_of(OTHER)
    assert loop.finish(Result.FOUND, now=placed("n1")) == (phase, before)
    assert loop.finish(Result.NOT_FOUND_OUT, error=REFUSED) == (phase, before)
    assert loop.finish(Result.TAKEN, now=placed("n1")) == (phase, before)


@pytest.mark.parametrize("result", [None, Result.DOUBTFUL])
def test_a_victim_that_may_be_bound_in_a_moment_is_evicted_only_after_that(result: Result | None) -> None:
    loop = Loop()
    if result:
        loop.fails()
        loop.finish(result)
    important = pod("vip", {"cpu": "3"}, schedulerName="my-scheduler", priority=5)
    loop.queue.apply(Change(Kind.ADDED, important), now=loop.now)
    poller: Any = loop.poller
    poller.shutdown = SimpleNamespace(interruptible=nullcontext)
    loop.said.clear()
    assert loop.poller.schedule([important]) == []
    assert (loop.phase_of(important), set(loop.cache.lives.leaving)) == ("ACTIVE", set())
    assert loop.said == ["look_up"] * bool(result)
    assert poller.pod_turns.not_before == {important.metadata.uid: loop.now + VICTIM_PAUSE}
    loop.now += VICTIM_PATIENCE
    (decision,) = loop.poller.schedule([important])
    assert [each.metadata.name for each in decision.victims] == ["web"]
    assert set(loop.cache.lives.leaving) == {WEB.metadata.uid}


# --- what a poll shows ------------------------------------------------------------------------------------

GONE, BOUND = Change(Kind.DELETED, WEB, WEB), Change(Kind.ADDED, placed("n1"))
LEFT = Change(Kind.DELETED, placed("n1"))
ELSEWHERE = Change(Kind.ADDED, placed("n2"))
ENDS = replace(WEB, metadata=replace(WEB.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC)))
ENDING, LABELLED = Change(Kind.MODIFIED, ENDS, WEB), Change(Kind.MODIFIED, WEB, WEB)

AWAY = ApiError("away")

SHOWN = [
    # web's phase, what a poll shows, whether it shows everything, what a look-up finds, () if none is made;
    # then web's phase, other's phase, whose pods n1 has
    ("ASSUMED", [GONE], False, (), "OUT", "ACTIVE", []),  # of a group that is not decided on as a whole
    ("ASSUMED", [ENDING], False, (), "OUT", "ACTIVE", []),
    ("ASSUMED", [LABELLED], False, (), "ASSUMED", "UNSCHEDULABLE", ["web"]),
    ("ASSUMED", [BOUND], True, (), "OUT", "ACTIVE", ["web"]),
    ("ASSUMED", [ELSEWHERE], True, (), "OUT", "ACTIVE", []),
    ("HELD", [GONE], False, (), "OUT", "ACTIVE", []),
    ("HELD", [ENDING], False, (), "OUT", "ACTIVE", []),
    ("HELD", [LABELLED], False, (), "HELD", "UNSCHEDULABLE", ["web"]),
    ("HELD", [BOUND], True, (), "OUT", "ACTIVE", ["web"]),
    ("HELD", [ELSEWHERE], True, (), "OUT", "ACTIVE", []),
    ("HELD", [GONE, LEFT], True, (), "OUT", "ACTIVE", []),
    ("BINDING", [GONE], False, (), "BINDING", "UNSCHEDULABLE", ["web"]),  # its answer is on its way, maybe
    ("BINDING", [ENDING], False, (), "BINDING", "UNSCHEDULABLE", ["web"]),
    ("BINDING", [LABELLED], True, (), "BINDING", "UNSCHEDULABLE", ["web"]),
    ("BINDING", [BOUND], True, (), "OUT", "UNSCHEDULABLE", ["web"]),
    ("BINDING", [BOUND, GONE], True, (), "OUT", "UNSCHEDULABLE", ["web"]),
    ("BINDING", [ELSEWHERE], True, (), "OUT", "ACTIVE", []),
    ("BINDING", [LEFT], True, (), "OUT", "ACTIVE", []),
    ("DOUBTFUL", [GONE], False, None, "OUT", "ACTIVE", []),
    ("DOUBTFUL", [GONE], False, placed("n1"), "BOUND", "UNSCHEDULABLE", ["web"]),
    ("DOUBTFUL", [GONE], False, AWAY, "DOUBTFUL", "UNSCHEDULABLE", ["web"]),
    ("DOUBTFUL", [GONE, BOUND], True, (), "OUT", "UNSCHEDULABLE", ["web"]),
    ("DOUBTFUL", [ELSEWHERE], True, (), "OUT", "ACTIVE", []),
    ("DOUBTFUL", [LEFT], True, (), "OUT", "ACTIVE", []),
    ("DOUBTFUL", [ENDING], False, ENDS, "OUT", "ACTIVE", []),
    ("DOUBTFUL", [LABELLED], True, (), "DOUBTFUL", "UNSCHEDULABLE", ["web"]),
    ("BOUND", [GONE, BOUND], True, (), "OUT", "UNSCHEDULABLE", ["web"]),
    ("BOUND", [GONE, ELSEWHERE], True, (), "OUT", "UNSCHEDULABLE", []),
    ("BOUND", [GONE], False, (), "BOUND", "UNSCHEDULABLE", ["web"]),  # it has a node now, maybe
    ("BOUND", [GONE], True, (), "OUT", "ACTIVE", []),  # deleted
    ("BOUND", [LABELLED], False, (), "BOUND", "UNSCHEDULABLE", ["web"]),  # from before our binding
    ("BOUND", [LABELLED], True, WEB, "ACTIVE", "ACTIVE", []),
    ("BOUND", [], True, WEB, "ACTIVE", "ACTIVE", []),
    ("BOUND", [], True, ENDS, "OUT", "ACTIVE", []),
    ("BOUND", [], True, AWAY, "BOUND", "UNSCHEDULABLE", ["web"]),
    ("BOUND", [], False, (), "BOUND", "UNSCHEDULABLE", ["web"]),
]


@pytest.mark.parametrize(("phase", "changes", "complete", "found", "web", "other", "on_node"), SHOWN)
def test_what_a_poll_shows_of_a_pod_with_room(
    phase: str, changes: Any, complete: bool, found: Any, web: str, other: str, on_node: list[str]
) -> None:
    loop = Loop()
    if phase == "DOUBTFUL":
        loop.fails()
    if phase == "ASSUMED":
        loop.finish(Result.WAITING)
        loop.cache.lives.move(loop.cache.lives.of(WEB), Phase.ASSUMED)
    elif phase != "BINDING":
        loop.finish({"HELD": Result.WAITING, "DOUBTFUL": Result.DOUBTFUL, "BOUND": Result.BOUND}[phase])
    look_up_is_told(loop, poll(loop, changes, complete=complete), found)
    assert (loop.phase_of(WEB), loop.phase_of(OTHER)) == (web, other)
    assert [each.metadata.name for each in loop.cache.nodes["n1"].pods] == on_node


def test_every_phase_with_room_has_a_row_for_each_way_to_be_seen() -> None:
    assert {*SHOWN_BY_PHASE} == {*SHOWN_IN_DRY_RUN} == {*ROOM}
    assert all({*row} == {*Seen} for row in (*SHOWN_BY_PHASE.values(), *SHOWN_IN_DRY_RUN.values()))
    assert {*FOUND_BY_PHASE} == {Phase.BINDING, Phase.DOUBTFUL, Phase.BOUND}
    assert all({*row} == {*Seen} - {Seen.LEFT} for row in (*FOUND_BY_PHASE.values(), REFUSED_BINDING))


def test_in_a_dry_run_a_pod_that_changes_is_decided_on_again() -> None:
    loop = Loop()
    loop.poller.follow_up.dry_run = True
    loop.finish(Result.NOT_WRITTEN)
    assert poll(loop, [LABELLED], complete=True) == []
    assert (loop.phase_of(WEB), loop.phase_of(OTHER)) == ("ACTIVE", "ACTIVE")


@pytest.mark.parametrize("change", [GONE, ENDING], ids=["gone", "ending"])
def test_a_pod_that_seems_to_be_gone_while_it_is_being_bound_is_looked_up_if_no_answer_comes(
    change: Any,
) -> None:
    """Meanwhile its room is kept: it may be bound, and in no list of pods without a node because of that."""
    loop = Loop()
    assert poll(loop, [change], complete=False) == []
    loop.now += 1
    assert poll(loop, [], complete=False) == ["look_up"]
    loop.now += 30
    assert poll(loop, [], complete=False) == []  # it is under way
    assert loop.finish(Result.FOUND) == ("OUT", "ACTIVE")
    assert loop.finish(Result.OVERTAKEN) == ("OUT", "ACTIVE")


@pytest.mark.parametrize("listed", [True, False], ids=["listed again", "looked up, as a watch lists nothing"])
def test_a_pod_that_was_bound_and_then_deleted_before_any_list_showed_it_gives_its_room_back(
    listed: bool,
) -> None:
    loop = Loop()
    poll(loop, [GONE], complete=not listed)
    assert loop.finish(Result.BOUND) == ("BOUND", "UNSCHEDULABLE")
    loop.now += ANSWER_SECONDS / 2
    assert poll(loop, [], complete=listed) == []
    if not listed:
        loop.now += ANSWER_SECONDS / 2
        look_up_is_told(loop, poll(loop, [], complete=False), None)
    assert (loop.phase_of(WEB), loop.phase_of(OTHER)) == ("OUT", "ACTIVE")


@pytest.mark.parametrize("change", [GONE, ENDING], ids=["gone", "ending"])
@pytest.mark.parametrize("result", [Result.FAILED, Result.NOT_SENT])
def test_a_pod_that_was_seen_to_be_gone_and_is_not_bound_leaves_the_queue(
    result: Result, change: Any
) -> None:
    """No other change tells that it is gone."""
    loop = Loop()
    poll(loop, [change], complete=True)
    if result == Result.FAILED:
        loop.fails()
    assert loop.finish(result) == ("OUT", "ACTIVE")
    assert loop.cache.lives.get(WEB.metadata.uid) is None
    assert "failed_scheduling" not in loop.said


def test_a_pod_that_was_gone_only_for_a_while_stays_in_the_queue() -> None:
    loop = Loop()
    poll(loop, [GONE, LABELLED], complete=True)
    assert loop.finish(Result.NOT_SENT) == ("ACTIVE", "ACTIVE")


def poll(loop: Loop, changes: Any, *, complete: bool) -> list[str]:
    """Handle what a poll shows. Returns the look-ups that it begins."""
    poller: Any = loop.poller
    poller.options = SimpleNamespace(dry_run=False, once=False)
    poller.source = SimpleNamespace(
        storage=SimpleNamespace(unseen=""),
        devices=SimpleNamespace(unseen="", is_known=False),
        first_changes=lambda: [],
        poll=lambda _: Delta(changes, complete=complete),
    )
    poller.checks = SimpleNamespace(during_poll=lambda _: nullcontext(), after_poll=lambda _: None)
    loop.said.clear()
    for change in loop.poller.changes():
        loop.cache.apply(change)
        loop.queue.apply(change, loop.now)
    return [each for each in loop.said if each == "look_up"]


def look_up_is_told(loop: Loop, look_ups: list[str], found: Any) -> None:
    """A look-up that a poll has begun, if any, finds this: a pod, None if it is gone, or an error."""
    assert bool(look_ups) == (found != ())
    if isinstance(found, ApiError):
        loop.finish(Result.NOT_FOUND_OUT, error=found)
    elif found != ():
        loop.finish(Result.FOUND, now=found)


@pytest.mark.parametrize("node_name", ["n1", "n2"])
def test_a_pod_that_only_a_lookup_has_shown_on_a_node_gives_its_room_back(node_name: str) -> None:
    """It goes before any list shows it there; lists that lag behind show it without a node."""
    loop = Loop()
    loop.cache.apply(Change(Kind.ADDED, node("n2")))
    loop.fails()
    loop.finish(Result.DOUBTFUL)
    look_up_is_told(loop, poll(loop, [GONE], complete=False), placed(node_name))
    life = loop.cache.lives.of(WEB)

    def on_nodes() -> list[str]:
        return [name for name, each in loop.cache.nodes.items() if each.pods]

    assert (life.phase.name, on_nodes()) == ("BOUND", [node_name])
    assert poll(loop, [], complete=True) == []  # it was looked up just now
    life.look_up_at = 0.0
    assert poll(loop, [], complete=False) == []  # what wasn't listed tells nothing
    assert on_nodes() == [node_name]
    look_up_is_told(loop, poll(loop, [], complete=True), None)
    assert (loop.phase_of(WEB), on_nodes()) == ("OUT", [])


def test_a_doubtful_pod_that_has_gone_is_not_counted_as_not_scheduled_any_more() -> None:
    """It was gated once. Its deletion is a change of our own making, after a look-up."""
    loop = Loop()
    loop.fails()
    loop.finish(Result.DOUBTFUL)
    report: Any = Report(dry_run=False, explain=None)
    loop.poller.report = loop.poller.follow_up.report = report
    report.skipped(WEB, "has scheduling gates")
    look_up_is_told(loop, poll(loop, [GONE], complete=False), None)
    assert report._skipped == set()


@pytest.mark.parametrize("node_name", ["n1", "n2"])
@pytest.mark.parametrize("is_seen", [True, False])
def test_a_doubtful_binding_that_was_made_has_its_event(node_name: str, is_seen: bool) -> None:
    loop = Loop()
    loop.finish(Result.DOUBTFUL)
    if is_seen:
        assert poll(loop, [Change(Kind.ADDED, placed(node_name))], complete=True) == []
    else:
        loop.said.clear()
        loop.finish(Result.FOUND, now=placed(node_name))
    said = [each for each in loop.said if each in ("bound", "scheduled")]
    assert said == (["bound", "scheduled"] if node_name == "n1" else [])  # else another program bound it


def test_what_was_written_for_a_pod_that_no_longer_waits_is_undone_before_it_is_tried_again() -> None:
    """Its record may be replaced, and doesn't keep it from being tried."""
    loop = Loop(wait("not yet"))
    no: Any = None
    loop.holds.answer, loop.holds.undo = unschedulable("too late"), (ReleaseClaim(no, WEB),)
    (decision,) = loop.poller._decide([WEB])
    assert (decision.outcome, decision.undo, loop.said) == (Outcome.UNSCHEDULABLE, (), ["undo"])
    assert loop.phase_of(OTHER) == "ACTIVE"


@pytest.mark.parametrize("label", ["poller/group", "scheduling.x-k8s.io/pod-group"])
@pytest.mark.parametrize("needed", [1, 2])
def test_when_one_of_a_group_that_waits_is_deleted_the_others_lose_their_nodes_if_they_are_too_few(
    label: str, needed: int
) -> None:
    loop = Loop(wait("not yet"))
    group = [pod(name, {"cpu": "100m"}, schedulerName="my-scheduler") for name in "ab"]
    loop.cache.looked_up = LookedUp(group_sizes={PodGroupRef("default", "g", COSCHEDULING): needed})
    for each in group:
        each.metadata.labels, each.metadata.annotations = {label: "g"}, {"poller/group-size": "2"}
        loop.queue.apply(Change(Kind.ADDED, each), now=0)
    schedule_pod_group(group, loop.cache, loop.poller.schedulers)
    assert [loop.phase_of(each) for each in (WEB, *group)] == ["HELD"] * 3
    poll(loop, [Change(Kind.DELETED, group[0], group[0])], complete=True)
    keeps = needed == 1 and label != "poller/group"
    assert [loop.phase_of(each) for each in (WEB, *group)] == ["HELD", "OUT", "HELD" if keeps else "ACTIVE"]
    assert [each.metadata.name for each in loop.cache.nodes["n1"].pods] == ["web", *["b"][: int(keeps)]]


def test_with_a_watch_a_tick_follows_when_an_answer_comes_that_may_help_pods() -> None:
    """No change tells of it, and the pause was chosen before."""
    loop = Loop()
    loop.fails()
    slept: list[float] = []
    poller: Any = loop.poller
    poller.options = SimpleNamespace(watch=True, interval=60.0)
    poller.leads = lambda: True
    poller.source = SimpleNamespace(wait=slept.append)
    poller.shutdown = SimpleNamespace(held=nullcontext)
    pipeline = SimpleNamespace(waits_until=-inf)

    def run(_: float) -> Iterator[Completed]:
        pipeline.waits_until = inf
        yield Completed(loop.decision, Result.FAILED)

    pipeline.run = run
    poller.writes = SimpleNamespace(more=False, pipeline=pipeline, records=loop.poller.writes)
    finish(poller, poller.wait())
    assert (loop.phase_of(OTHER), slept) == ("ACTIVE", [0.0])
    finish(poller, poller.wait())
    assert slept == [0.0, pytest.approx(1.0)]  # web's backoff
