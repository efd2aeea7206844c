"""What is written of decisions, in which order, and what is told of it; with a scripted server."""

import dataclasses
from collections.abc import Iterator
from random import Random
from select import POLLIN
from typing import Any

import pytest
from msgspec import structs
from objects import node, read
from service.writes.scripted import AWAY, CONFLICT, HANGS, LOST, NOT_FOUND, Scripted, claim, web
from waiting import recheck_permit

from lib.kube.changes import Change, Kind
from lib.kube.errors import AnswerError, ApiError, ForbiddenError, OverloadedError
from lib.kube.objects import Pod
from lib.kube.pod_writes import bind
from lib.kube.resource_claims import ReleaseClaim, ReserveClaim
from lib.kube.storage import PersistentVolume
from lib.kube.write import Write
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.framework.interface import Plugin
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.pod_life import Phase
from lib.scheduling.scheduling_cycle import Scheduler
from lib.scheduling.status import Status, wait
from lib.service.command_line import CommandLine
from lib.service.options import _options
from lib.service.telemetry.report import Report
from lib.service.writes.pipeline import Sort
from lib.service.writes.records import Records
from lib.service.writes.results import Completed, Result
from lib.service.writes.writes import Writes

BINDING, GET, EVENT = "POST pods/web/binding", "GET pods/web", "POST events"
STATUS, OLD_STATUS, OLD_DELETE = "PATCH pods/web/status", "PATCH pods/old/status", "DELETE pods/old"
CLAIM_GET = "GET /apis/resource.k8s.io/v1/namespaces/default/resourceclaims/gpu"
CLAIM = f"{CLAIM_GET.replace('GET', 'PATCH')}/status"
FORBIDDEN = ForbiddenError("403")


def named(name: str) -> Pod:
    pod = web("n1", uid=name)
    pod.metadata.name = name
    return pod


class Loop:
    """Writes with a scripted server, as the loop has them, and one pod in the queue."""

    def __init__(self, answers: dict[str, Any], *plugins: Plugin) -> None:
        self.server = Scripted({EVENT: [None], **answers})
        self.cache = Cache([node("n1")])
        self.lives = self.cache.lives
        self.lives.move(self.lives.of(web()), Phase.ACTIVE)
        schedulers = {"my-scheduler": Scheduler(default_profile("my-scheduler", *plugins), Random(1))}
        self.report = Report(dry_run=False, explain=None)
        options, system, pipeline = _options(CommandLine())[0], self.server.system, self.server.pipeline
        records = Records(pipeline, self.cache, self.report, system, dry_run=False)
        self.writes = Writes(pipeline, schedulers, self.cache, self.report, options, system, records)

    def submit(self, decision: Decision) -> None:
        self.cache.assume(decision.pod, decision.node_name)
        self.lives.of(decision.pod).decision = decision
        self.writes.submit(decision)

    def bind(self, *decisions: Decision) -> list[Result]:
        """Submit decisions, and wait for the results."""
        for each in decisions:
            self.submit(each)
        return [each.result for each in self.results()]

    def results(self, until: float = 1000.0) -> Iterator[Completed]:
        """The results of a tick's end, and of the wait after it."""
        yield from self.writes.drain()
        yield from self.server.pipeline.run(until)

    def flush(self) -> list[Result]:
        return [each.result for each in self.results(self.server.now + 2)]


def scheduled(name: str = "web") -> Decision:
    pod = named(name)
    pod.spec.node_name = ""
    return Decision(pod, Outcome.SCHEDULED, node_name="n1")


def preempting() -> Decision:
    victims = (named("old"),)
    return Decision(web(), Outcome.UNSCHEDULABLE, "no room", nominated="n1", victims=victims)


@pytest.mark.parametrize(
    ("answers", "result"),
    [
        pytest.param({BINDING: [None]}, Result.BOUND, id="answered"),
        pytest.param({BINDING: [LOST], GET: [web("n1")]}, Result.BOUND, id="lost, and written"),
        pytest.param({BINDING: [LOST], GET: [web("n2")]}, Result.TAKEN, id="another was faster"),
        pytest.param({BINDING: [FORBIDDEN]}, Result.FAILED, id="refused"),
        pytest.param({BINDING: [AWAY]}, Result.NOT_SENT, id="no API server"),
        pytest.param({BINDING: [LOST], GET: [AWAY]}, Result.DOUBTFUL, id="lost, then no API server"),
    ],
)
def test_the_result_of_a_binding(answers: dict[str, Any], result: Result) -> None:
    assert Loop(answers).bind(scheduled()) == [result]


def test_a_pod_that_fits_nowhere_has_its_result_without_a_write() -> None:
    loop = Loop({})
    loop.writes.submit(Decision(web(), Outcome.UNSCHEDULABLE, "no room"))
    assert loop.flush() == [Result.UNSCHEDULABLE]
    assert loop.server.sent == []


def test_a_dry_run_writes_nothing() -> None:
    loop = Loop({})
    loop.writes.options = dataclasses.replace(loop.writes.options, dry_run=True)
    loop.writes.records.dry_run = True
    loop.submit(scheduled("db"))
    loop.writes.records.failed_scheduling(preempting())
    loop.writes.records.nominated(scheduled(), "n1")
    loop.writes.undo(Decision(web(), Outcome.ERROR, undo=(ReleaseClaim(claim("gpu-0", "web"), web()),)))
    assert not loop.writes.records.must_wait("web")
    assert loop.flush() == [Result.NOT_WRITTEN]
    assert loop.server.sent == []


def test_a_binding_that_fails_unexpectedly_is_the_error_of_its_pod_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def breaks(pod: Pod, *more: Any) -> Write[Any]:
        if pod.metadata.name == "web":
            raise KeyError("what")
        return (yield from bind(pod, *more))

    monkeypatch.setattr("lib.service.writes.writes.bind", breaks)
    loop = Loop({"POST pods/db/binding": [None]})
    for name in ("web", "db"):
        loop.submit(scheduled(name))
    failed, bound = loop.results()
    assert (failed.result, bound.result) == (Result.FAILED, Result.BOUND)
    assert failed.decision.message == "running Bind plugin \"DefaultBinder\": KeyError: 'what'"


def test_the_only_tick_writes_what_follows_from_its_own_results_too() -> None:
    loop = Loop({BINDING: [FORBIDDEN], STATUS: [OverloadedError("429"), None]})
    loop.writes.options = dataclasses.replace(loop.writes.options, once=True)
    loop.submit(scheduled())
    for completed in loop.writes.drain():
        loop.cache.forget(completed.decision.pod)
        loop.writes.records.failed_scheduling(completed.decision)
    assert loop.server.sent == [BINDING, STATUS, STATUS, EVENT]


SEEN = [
    # what the API server answers, and what is seen of the pod before that; then the result, and the events
    pytest.param({BINDING: [None]}, "n1", Result.BOUND, 1, id="on its node"),
    pytest.param({BINDING: [None]}, "", Result.BOUND, 1, id="gone, though it was bound"),
    pytest.param({BINDING: [FORBIDDEN]}, "n1", Result.BOUND, 1, id="on its node, then refused"),
    pytest.param({BINDING: [LOST], GET: [AWAY]}, "n1", Result.BOUND, 1, id="on its node, then no answer"),
    pytest.param({BINDING: [CONFLICT], GET: [web("n2")]}, "n2", Result.TAKEN, 0, id="on another node"),
    pytest.param({BINDING: [NOT_FOUND], GET: [NOT_FOUND]}, "", Result.TAKEN, 0, id="gone"),
    pytest.param({BINDING: [LOST], GET: [AWAY]}, "n2", Result.OVERTAKEN, 0, id="on another, then no answer"),
    pytest.param({BINDING: [AWAY]}, "", Result.OVERTAKEN, 0, id="gone, then no API server"),
]


@pytest.mark.parametrize(("answers", "node_name", "result", "events"), SEEN)
def test_what_is_seen_of_a_pod_while_it_is_being_bound_counts_and_its_event_is_written_once(
    answers: dict[str, Any], node_name: str, result: Result, events: int
) -> None:
    loop = Loop(answers)
    on_its_node = scheduled().pod
    on_its_node.spec.node_name = node_name

    def see(sent: str) -> None:
        if sent == BINDING and node_name:
            loop.cache.apply(Change(Kind.ADDED, on_its_node))
        elif sent == BINDING:
            loop.cache.forget(on_its_node)
            loop.lives.end(on_its_node)

    loop.server.on_send = see
    assert loop.bind(scheduled()) == [result]
    loop.server.pipeline.error = None
    loop.flush()
    assert loop.server.sent.count(EVENT) == events
    assert loop.lives.phase_of(on_its_node) == Phase.OUT


def test_a_pod_that_has_run_and_finished_before_its_binding_fails_gets_its_event() -> None:
    loop = Loop({BINDING: [LOST], GET: [AWAY]})
    seen = scheduled().pod
    seen.spec.node_name = "n1"

    def see(sent: str) -> None:
        if sent == BINDING:
            loop.cache.apply(Change(Kind.ADDED, seen))
            loop.cache.apply(Change(Kind.DELETED, seen))  # as a list without those that have finished tells

    loop.server.on_send = see
    assert loop.bind(scheduled()) == [Result.BOUND]
    loop.server.pipeline.error = None
    loop.flush()
    assert loop.server.sent.count(EVENT) == 1


@pytest.mark.parametrize("node_name", ["n1", "n2"])
@pytest.mark.parametrize("away", [False, True])
def test_a_pod_that_another_program_has_bound_before_its_binding_is_sent_is_not_bound_by_us(
    node_name: str, away: bool
) -> None:
    loop = Loop({})
    loop.submit(scheduled())
    if away:
        loop.server.pipeline.error = AWAY
    loop.cache.apply(Change(Kind.ADDED, structs.replace(web(node_name), metadata=scheduled().pod.metadata)))
    assert [each.result for each in loop.results()] == [Result.OVERTAKEN]
    assert loop.server.sent == []


def test_a_pod_whose_node_goes_or_that_is_preempted_before_its_binding_is_sent_is_not_bound() -> None:
    for trouble in (
        lambda loop: loop.cache.apply(Change(Kind.DELETED, node("n1"))),
        lambda loop: loop.lives.preempt([web()]),
    ):
        loop = Loop({})
        loop.submit(scheduled())
        trouble(loop)
        assert [each.result for each in loop.results()] == [Result.FAILED]
        assert (loop.server.sent, loop.lives.phase_of(web())) == ([], Phase.ACTIVE)


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (web("n1"), Result.FOUND),
        (web(), Result.FOUND),
        (NOT_FOUND, Result.FOUND),
        (FORBIDDEN, Result.NOT_FOUND_OUT),
        (web(uid="another"), Result.FOUND),
    ],
)
def test_a_pod_that_may_be_bound_is_looked_up_beside_the_loop(answer: Any, result: Result) -> None:
    loop = Loop({GET: [answer]})
    loop.cache.assume(web(), "n1")
    life = loop.lives.of(web())
    life.decision = scheduled()
    for _ in range(3):  # while it is looked up, it isn't looked up again
        loop.writes.look_up(life)
    (found,) = loop.results()
    assert (found.result, loop.server.sent) == (result, [GET])
    is_there = isinstance(answer, Pod) and answer.metadata.uid == "web"
    assert found.now == (answer if is_there else None)


@pytest.mark.parametrize("bound", [False, True])
def test_a_claim_that_may_be_reserved_is_looked_up_if_its_pod_is_not_bound(bound: bool) -> None:
    """No watch has shown yet that the pod's devices were given to it."""
    loop = Loop({GET: [web("n1" if bound else "")], CLAIM_GET: [claim("gpu-0", "web", resourceVersion="2")]})
    has = claim("gpu-0", "web").status.allocation
    assert has
    loop.cache.devices.reserve("gpu", has)
    loop.cache.assume(web(), "n1")
    life = loop.lives.of(web())
    life.decision = structs.replace(scheduled(), writes=(ReserveClaim(claim(), web(), "n1"),))
    loop.writes.look_up(life)
    assert [each.result for each in loop.results()] == [Result.FOUND]
    assert loop.server.sent == ([GET] if bound else [GET, CLAIM_GET])
    known = loop.cache.devices.claims.get("default/gpu")
    assert (known.metadata.resource_version if known else "") == ("" if bound else "2")


def test_of_too_many_events_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lib.service.writes.writes.MAX_EVENTS", 3)
    loop = Loop({EVENT: [HANGS]})
    dropped: list[int] = []
    monkeypatch.setattr(loop.report.observer, "event_dropped", lambda: dropped.append(1))
    for i in range(10):
        loop.writes.scheduled(structs.replace(scheduled(), message=str(i)))
    assert [*loop.writes.drain()] == []
    assert (loop.server.pipeline.open[Sort.EVENT], len(dropped)) == (3, 7)
    assert [body.message for body in loop.server.bodies] == ["7"]  # the only one that has a place


def test_only_a_binding_that_may_be_written_is_doubtful() -> None:
    for answers, doubtful in (({BINDING: [FORBIDDEN]}, False), ({BINDING: [LOST], GET: [AWAY]}, True)):
        loop = Loop(answers)
        loop.submit(scheduled())
        (failed,) = loop.results()
        assert failed.error
        assert failed.error.may_be_written is doubtful
        assert failed.decision.outcome == Outcome.ERROR


def test_nothing_is_bound_when_the_gate_is_closed() -> None:
    loop = Loop({})
    loop.server.pipeline.error = AWAY
    assert loop.bind(scheduled()) == [Result.NOT_SENT]
    loop.server.pipeline.error = None
    loop.server.shutdown.stopping.set()
    assert loop.bind(scheduled("db")) == [Result.NOT_SENT]
    assert loop.server.sent == []


@pytest.mark.parametrize(("pause", "results"), [(20.0, [Result.BOUND]), (40.0, [Result.FAILED])])
def test_a_binding_that_was_to_wait_for_long_is_decided_on_anew(pause: float, results: list[Result]) -> None:
    busy = FORBIDDEN.__class__("429")
    busy.transient, busy.retry_after = True, pause
    loop = Loop({BINDING: [busy, None], EVENT: [None]})
    loop.server.now = 100.0
    assert loop.bind(scheduled()) == results
    assert loop.server.sent.count(BINDING) == (2 if results == [Result.BOUND] else 1)


def test_results_come_as_they_are_there_not_when_the_last_one_is() -> None:
    busy = FORBIDDEN.__class__("429")
    busy.transient, busy.retry_after = True, 60.0
    loop = Loop({BINDING: [busy, None], "POST pods/db/binding": [None]})
    db = scheduled("db")
    loop.submit(scheduled())
    loop.submit(db)
    first = next(loop.results())
    assert (first.decision.pod, loop.server.now) == (db.pod, 0.0)


def test_the_event_of_a_bound_pod_is_kept_over_an_outage_and_written_once() -> None:
    loop = Loop({BINDING: [None], EVENT: [AWAY]})
    assert loop.bind(scheduled()) == [Result.BOUND]
    assert loop.server.pipeline.error
    loop.server.pipeline.error = None
    loop.server.answers[EVENT] = [None]
    loop.server.sent.clear()
    assert (loop.flush(), loop.flush()) == ([], [])
    assert loop.server.sent == [EVENT]


def test_an_event_that_is_refused_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop({BINDING: [None], EVENT: [FORBIDDEN]})
    assert loop.bind(scheduled()) == [Result.BOUND]
    assert "default/web: event failed: 403" in caplog.text
    loop.flush()
    assert loop.server.sent == [BINDING, EVENT]


def test_while_poller_ends_no_event_is_sent_any_more_when_nothing_answers() -> None:
    """Each would take as long as an answer may take."""
    loop = Loop({EVENT: [LOST]})
    loop.server.pipeline.window = 1
    for name in ("web", "db"):
        loop.writes.scheduled(scheduled(name))
    loop.server.shutdown.stopping.set()
    assert [*loop.writes.drain()] == []
    assert loop.server.sent == [EVENT]


def test_the_condition_comes_first_then_evictions_and_the_event() -> None:
    loop = Loop({each: [None] for each in (STATUS, OLD_STATUS, OLD_DELETE, EVENT)})
    loop.writes.records.failed_scheduling(preempting())
    assert loop.writes.records.must_wait("web")
    assert loop.flush() == []
    assert loop.server.sent[0] == STATUS
    assert sorted(loop.server.sent[1:]) == [OLD_DELETE, OLD_STATUS, EVENT, EVENT]
    assert loop.server.bodies[0]["status"]["nominatedNodeName"] == "n1"
    assert not loop.writes.records.must_wait("web")


def test_a_write_that_fails_unexpectedly_is_reported_and_the_others_are_made(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(*_: object) -> Any:
        raise KeyError("what")
        yield

    monkeypatch.setattr("lib.service.writes.records.evict", breaks)
    loop = Loop({STATUS: [None]})
    loop.lives.preempt([named("old")])
    loop.writes.records.failed_scheduling(preempting())
    assert loop.flush() == [Result.NOT_RECORDED]  # its victim stays
    assert loop.flush() == []
    assert loop.server.sent == [STATUS, EVENT, STATUS]  # the last one ends its nomination
    assert "default/old: preemption failed: KeyError: 'what'" in caplog.text
    assert [*loop.lives.leaving] == []


def test_of_a_pod_that_is_gone_nothing_more_is_written() -> None:
    loop = Loop({STATUS: [NOT_FOUND]})
    loop.writes.records.failed_scheduling(preempting())
    assert loop.flush() == []
    assert loop.server.sent == [STATUS]


def test_what_is_no_longer_true_is_not_written() -> None:
    loop = Loop({})
    loop.writes.records.failed_scheduling(preempting())
    loop.lives.preempt([named("old")])
    loop.lives.end(web())  # it is bound by now, say
    assert (loop.flush(), loop.server.sent, [*loop.lives.leaving]) == ([], [], [])


def test_a_held_victim_gets_its_event_although_the_preemptor_is_bound_before_its_own_record_is_written() -> (
    None
):
    loop = Loop({EVENT: [None], STATUS: [None]})
    old = named("old")
    decision = Decision(web(), Outcome.UNSCHEDULABLE, nominated="n1", preempted_held=(old,))
    loop.writes.records.failed_scheduling(decision)
    loop.lives.end(web())
    assert loop.flush() == []
    assert loop.server.sent == [EVENT]
    event = loop.server.bodies[0]
    assert (event.reason, event.involved_object.name) == ("Preempted", "old")


def test_an_event_of_a_held_victim_that_is_refused_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop({EVENT: [FORBIDDEN], STATUS: [None]})
    decision = Decision(web(), Outcome.UNSCHEDULABLE, nominated="n1", preempted_held=(named("old"),))
    loop.writes.records.failed_scheduling(decision)
    assert loop.flush() == []
    assert "default/old: event failed: 403" in caplog.text


def test_an_outage_is_not_told_once_more_for_the_event_of_a_held_victim(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = Loop({EVENT: [AWAY], STATUS: [AWAY]})
    decision = Decision(web(), Outcome.UNSCHEDULABLE, nominated="n1", preempted_held=(named("old"),))
    loop.writes.records.failed_scheduling(decision)
    loop.flush()
    assert loop.server.sent
    assert "event failed" not in caplog.text


def test_a_pod_that_may_be_bound_is_marked_only_if_it_has_not_changed() -> None:
    loop = Loop({STATUS: [None], EVENT: [None]})
    decision = Decision(web(resourceVersion="7"), Outcome.ERROR, message="why")
    loop.lives.move(loop.lives.of(web()), Phase.ASSUMED)
    loop.lives.move(loop.lives.of(web()), Phase.BINDING)
    loop.lives.doubt("web", now=0)
    loop.writes.records.failed_scheduling(decision)
    loop.flush()
    assert loop.server.bodies[0]["metadata"] == {"uid": "web", "resourceVersion": "7"}


def test_a_victim_that_cannot_be_evicted_costs_the_preemptor_its_nomination() -> None:
    answers = {STATUS: [None], OLD_STATUS: [None], OLD_DELETE: [FORBIDDEN], EVENT: [None]}
    loop = Loop(answers)
    loop.lives.preempt([named("old")])
    loop.cache.nominator.add(web(), "n1")
    loop.writes.records.failed_scheduling(preempting())
    assert loop.flush() == [Result.NOT_RECORDED]
    assert [*loop.lives.leaving] == []
    assert loop.cache.nominator.node_of(web()) is None
    loop.flush()
    assert loop.server.bodies[-1]["status"] == {"nominatedNodeName": ""}


def test_a_nomination_that_a_later_decision_has_replaced_is_not_ended() -> None:
    loop = Loop({STATUS: [None], OLD_STATUS: [None], OLD_DELETE: [FORBIDDEN], EVENT: [FORBIDDEN]})
    loop.writes.records.failed_scheduling(preempting())
    later = Decision(web(), Outcome.UNSCHEDULABLE, "later", nominated="n2")

    def decide(sent: str) -> None:
        if sent == OLD_DELETE:
            loop.writes.records.failed_scheduling(later)

    loop.server.on_send = decide
    for _ in range(2):
        loop.flush()
    said = [body["status"] for body in loop.server.bodies if isinstance(body, dict) and "status" in body]
    assert said[-1]["nominatedNodeName"] == "n2"
    assert said[-1]["conditions"][0].message.startswith("later")


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [(Outcome.UNSCHEDULABLE, "Unschedulable"), (Outcome.ERROR, "SchedulerError")],
    ids=["no node", "error"],
)
def test_a_condition_tells_an_error_from_a_pod_that_fits_nowhere(outcome: Outcome, reason: str) -> None:
    loop = Loop({STATUS: [None]})
    loop.writes.records.failed_scheduling(Decision(web(), outcome, "why"))
    loop.flush()
    (condition,) = loop.server.bodies[0]["status"]["conditions"]
    assert condition.reason == reason


@pytest.mark.parametrize("during", [STATUS, OLD_STATUS])
def test_a_victim_that_has_lost_its_room_meanwhile_is_not_evicted(during: str) -> None:
    loop = Loop({STATUS: [None], OLD_STATUS: [None], EVENT: [None]})
    loop.cache.assume(named("old"), "n1")
    victim = loop.lives.of(named("old"))
    loop.lives.move(victim, Phase.BINDING)
    loop.lives.preempt([named("old")])
    loop.writes.records.failed_scheduling(preempting())

    def gives_up(sent: str) -> None:  # its volumes couldn't be bound, say
        if sent == during:
            loop.cache.forget(victim.pod)

    loop.server.on_send = gives_up
    assert loop.flush() == []
    assert OLD_DELETE not in loop.server.sent
    assert [*loop.lives.leaving] == []
    assert not loop.writes.records.must_wait("web")


@pytest.mark.parametrize("answers", [{STATUS: [AWAY]}, {STATUS: [None], EVENT: [AWAY]}], ids=["all", "one"])
def test_a_pod_is_tried_again_if_the_api_server_was_away_for_a_part_of_its_record(answers: Any) -> None:
    loop = Loop(answers)
    loop.writes.records.failed_scheduling(Decision(web(), Outcome.UNSCHEDULABLE, "no room"))
    assert loop.flush() == [Result.NOT_RECORDED]


def test_while_poller_ends_only_the_events_of_bound_pods_are_written() -> None:
    loop = Loop({BINDING: [None]})
    loop.submit(scheduled())
    loop.submit(scheduled("db"))
    loop.writes.records.failed_scheduling(preempting())
    loop.server.on_send = lambda _: loop.server.shutdown.stopping.set()  # while bindings are being sent
    loop.server.pipeline.window = 1
    assert loop.flush() == [Result.BOUND, Result.NOT_SENT]
    assert loop.server.sent == [BINDING, EVENT]


class Slow:
    """In place of the sockets' poll: each answer comes 0.3 s after its request."""

    def __init__(self, server: Scripted) -> None:
        self._server = server
        self._due: dict[int, float] = {}

    def register(self, number: int, _: int) -> None:
        self._due[number] = self._server.now + 0.3

    def unregister(self, number: int) -> None:
        del self._due[number]

    def poll(self, milliseconds: float) -> list[tuple[int, int]]:
        until = min(self._server.now + milliseconds / 1000, *self._due.values())
        self._server.now = max(self._server.now, until)
        return [(number, POLLIN) for number, due in self._due.items() if due <= self._server.now]


@pytest.mark.parametrize("watch", [False, True], ids=["polling", "watching"])
def test_while_poller_ends_an_eviction_that_has_begun_is_finished(watch: bool) -> None:
    loop = Loop({STATUS: [None], OLD_STATUS: [None], OLD_DELETE: [None]})
    loop.writes.options = dataclasses.replace(loop.writes.options, watch=watch)
    loop.server.use(Slow(loop.server))
    stopping = loop.server.shutdown.stopping
    loop.server.on_send = lambda sent: stopping.set() if sent == OLD_STATUS else None
    loop.writes.records.failed_scheduling(preempting())
    while not stopping.is_set():
        loop.flush()
    loop.flush()
    assert OLD_DELETE in loop.server.sent
    assert loop.server.pipeline.open.total() == 0


def test_a_condition_that_could_not_be_written_is_not_tried_again_when_its_pod_is_being_bound() -> None:
    busy = OverloadedError("429")
    for is_bound in (False, True):
        loop = Loop({STATUS: [busy, None]})
        loop.writes.records.failed_scheduling(Decision(web(), Outcome.UNSCHEDULABLE, message="no room"))

        def bind(_: str, loop: Loop = loop) -> None:
            loop.lives.move(loop.lives.of(web()), Phase.ASSUMED)
            loop.lives.move(loop.lives.of(web()), Phase.BINDING)

        loop.server.on_send = bind if is_bound else lambda _: None
        assert loop.flush() == []
        assert loop.server.sent == ([STATUS] if is_bound else [STATUS, STATUS, EVENT])


@pytest.mark.parametrize("answer", [None, FORBIDDEN, OverloadedError("429")], ids=type)
def test_a_pod_is_bound_when_its_condition_is_answered_and_another_one_at_once(answer: object) -> None:
    """The API server may carry out in any order what is on its way at the same time."""
    loop = Loop({STATUS: [answer], BINDING: [None], "POST pods/db/binding": [None]})
    loop.server.use(Slow(loop.server))
    times: dict[str, list[float]] = {}
    loop.server.on_send = lambda request: times.setdefault(request, []).append(loop.server.now)
    loop.writes.records.failed_scheduling(Decision(web(), Outcome.UNSCHEDULABLE, message="no room"))
    assert [*loop.writes.drain()] == []
    assert loop.bind(scheduled(), scheduled("db")) == [Result.BOUND, Result.BOUND]
    assert times.pop("POST pods/db/binding") == [0.0]
    assert times.pop(EVENT) == [0.3, 0.6]
    assert times == {STATUS: [0.0], BINDING: [0.3]}


def test_a_pod_whose_condition_was_answered_or_not_sent_yet_is_bound_at_once() -> None:
    for is_begun in (False, True):
        loop = Loop({STATUS: [None], BINDING: [None]})
        loop.writes.records.failed_scheduling(Decision(web(), Outcome.UNSCHEDULABLE, message="no room"))
        if is_begun:
            assert loop.flush() == []
        loop.server.use(Slow(loop.server))
        loop.submit(scheduled())
        assert [*loop.writes.drain()] == []
        assert loop.server.sent == ([STATUS, EVENT] if is_begun else []) + [BINDING]


def test_a_later_decision_waits_for_the_writes_of_an_earlier_one_and_makes_the_rest_outdated() -> None:
    loop = Loop({STATUS: [None], EVENT: [None]})
    loop.writes.records.failed_scheduling(Decision(web(), Outcome.UNSCHEDULABLE, message="first"))
    loop.server.on_send = lambda _: loop.writes.records.failed_scheduling(
        Decision(web(), Outcome.UNSCHEDULABLE, message="second")
    )
    loop.writes.records.begin()
    list(loop.server.pipeline.run(0.0))
    loop.server.on_send = lambda _: None
    loop.flush()
    loop.flush()
    marks = [body["status"]["conditions"] for body in loop.server.bodies if isinstance(body, dict)]
    said = [conditions[0].message for conditions in marks]
    assert said[0].startswith("first")
    assert said[-1].startswith("second")
    assert loop.server.sent.count(EVENT) == 1


def test_of_a_pod_one_record_is_written_at_a_time() -> None:
    """The later one begins when the earlier one has ended, though it was collected before."""
    loop = Loop({STATUS: [None]})
    for message in ("first", "second"):
        loop.writes.records.failed_scheduling(Decision(web(), Outcome.UNSCHEDULABLE, message=message))
        loop.writes.records.begin()
    assert loop.server.pipeline.open[Sort.RECORD] == 1
    for _ in range(2):
        loop.flush()
    marks = [body["status"]["conditions"][0] for body in loop.server.bodies if isinstance(body, dict)]
    assert [each.message for each in marks] == ["second"]  # the first was outdated before it was sent


@pytest.mark.parametrize(
    "answer", [claim("gpu-0", "other"), CONFLICT, FORBIDDEN, AWAY, "no claim at all"], ids=type
)
def test_a_pod_is_tried_again_when_its_claim_was_given_back_or_could_not_be(answer: object) -> None:
    """What another pod has reserved of the claim stays."""
    loop = Loop({CLAIM: [answer]})
    has = claim("gpu-0", "other").status.allocation
    assert has
    loop.cache.devices.reserve("gpu", has)
    released = ReleaseClaim(claim("gpu-0", "web", "other"), web())
    loop.writes.undo(Decision(web(), Outcome.ERROR, undo=(released,)))
    assert loop.writes.records.must_wait("web")
    assert loop.flush() == []
    assert {*loop.server.sent} == {CLAIM}
    assert not loop.writes.records.must_wait("web")
    assert [*loop.cache.devices.pending] == ["gpu"]


def test_what_undoes_a_decision_on_a_pod_without_a_node_is_written_after_its_condition() -> None:
    loop = Loop({STATUS: [None], CLAIM: [claim("gpu-0", "other")]})
    undo = (ReleaseClaim(claim("gpu-0", "web", "other"), web()),)
    loop.writes.records.failed_scheduling(Decision(web(), Outcome.UNSCHEDULABLE, "no room", undo=undo))
    assert loop.flush() == []
    assert (loop.server.sent[0], {*loop.server.sent}) == (STATUS, {STATUS, CLAIM, EVENT})


VOLUME = "PATCH /api/v1/persistentvolumes/v1"


class BindsVolumes:
    """A PreBind plugin: the pod waits until its volume is written."""

    name = "BindsVolumes"

    def __init__(self) -> None:
        self.asked = 0

    def pre_bind(self, state: Any, pod: Pod, node_name: str) -> Status | None:
        self.asked += 1
        claim = {"namespace": "default", "name": "c1", "uid": "u1"}
        volume = read(PersistentVolume, {"metadata": {"name": "v1"}, "spec": {"claimRef": claim}})
        return wait("not bound yet", writes=[volume]) if self.asked == 1 else None


@pytest.mark.parametrize(
    ("answers", "result"),
    [
        pytest.param({STATUS: [web()], VOLUME: [None]}, Result.BOUND, id="written"),
        pytest.param({STATUS: [FORBIDDEN], VOLUME: [None]}, Result.BOUND, id="the nomination is refused"),
        pytest.param({STATUS: [AWAY]}, Result.NOT_SENT, id="no API server"),
        pytest.param({STATUS: [web()], VOLUME: [FORBIDDEN]}, Result.FAILED, id="the volume is refused"),
        pytest.param({STATUS: [web()], VOLUME: [AWAY]}, Result.NOT_SENT, id="no API server for the volume"),
    ],
)
def test_what_pre_bind_waits_for_is_written_first(answers: dict[str, Any], result: Result) -> None:
    volume = read(PersistentVolume, {"metadata": {"name": "v1"}})
    answers = {each: [volume if it is None else it for it in script] for each, script in answers.items()}
    loop = Loop({**answers, BINDING: [None]}, BindsVolumes())
    assert loop.bind(scheduled()) == [result]
    assert loop.server.sent[0] == STATUS
    assert (BINDING in loop.server.sent) == (result == Result.BOUND)


class Waits:
    """A PreBind plugin: the pod waits until it is asked again."""

    name = "Waits"
    asked = 0

    def pre_bind(self, state: Any, pod: Pod, node_name: str) -> Status | None:
        self.asked += 1
        return wait("not yet") if self.asked == 1 else None


def test_of_a_pod_that_is_held_it_is_not_said_any_more_that_it_fits_nowhere() -> None:
    loop = Loop({STATUS: [OverloadedError("429"), None]})
    loop.writes.records.failed_scheduling(Decision(web(), Outcome.UNSCHEDULABLE, "no room"))
    assert [*loop.writes.drain()] == []  # the answer 429 lets it pause
    loop.writes.records.failed_scheduling(Decision(web(), Outcome.UNSCHEDULABLE, "still no room"))
    loop.cache.assume(web(), "n1")
    loop.lives.move(loop.lives.of(web()), Phase.HELD)
    loop.writes.submit(structs.replace(scheduled(), outcome=Outcome.WAITING))
    loop.flush()
    loop.flush()  # the next tick
    assert loop.server.sent == [STATUS, STATUS]
    assert loop.server.bodies[-1]["status"] == {"nominatedNodeName": "n1"}


def test_a_pod_that_seems_to_be_gone_is_not_held() -> None:
    loop = Loop({}, Waits())
    loop.submit(scheduled())
    loop.lives.of(web()).is_gone = True
    assert [each.result for each in loop.results()] == [Result.NOT_SENT]


def test_what_a_plugin_waits_for_that_is_asked_after_another_one_has_waited_is_written_too() -> None:
    volume = read(PersistentVolume, {"metadata": {"name": "v1"}})
    loop = Loop({STATUS: [web()], VOLUME: [volume], BINDING: [None]}, Waits(), BindsVolumes())
    assert loop.bind(scheduled()) == [Result.WAITING]
    loop.lives.hold("web", "not yet")
    assert VOLUME not in loop.server.sent
    for decision in recheck_permit(loop.cache, loop.writes.schedulers, now=1):
        loop.writes.submit(decision)
    assert [each.result for each in loop.results()] == [Result.BOUND]
    assert loop.server.sent.index(VOLUME) < loop.server.sent.index(BINDING)


class GivesDevices:
    """A PreBind plugin: the pod waits until its claim is written."""

    name = "GivesDevices"
    asked = 0

    def pre_bind(self, state: Any, pod: Pod, node_name: str) -> Status | None:
        self.asked += 1
        writes = [ReserveClaim(claim("gpu-0"), pod, node_name, None)]
        return wait("not written yet", writes=writes) if self.asked == 1 else None


@pytest.mark.parametrize("conditions", [[], ["example.com/attached"]], ids=["none", "one"])
def test_a_pod_whose_device_must_get_ready_first_is_said_to_wait_for_it(conditions: list[str]) -> None:
    written = claim("gpu-0", "web", resourceVersion="2")
    assert written.status.allocation
    (device,) = written.status.allocation.devices.results
    device.binding_conditions = tuple(conditions)
    loop = Loop({CLAIM: [written], STATUS: [None], BINDING: [None]}, GivesDevices())
    assert loop.bind(scheduled()) == [Result.BOUND]
    assert loop.cache.devices.claims.get("default/gpu") == written
    assert loop.server.sent == [CLAIM, *([STATUS, EVENT] if conditions else []), BINDING, EVENT]


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        pytest.param(AnswerError("garbled"), Result.DOUBTFUL, id="it may be written"),
        pytest.param(FORBIDDEN, Result.FAILED, id="refused"),
        pytest.param(AWAY, Result.NOT_SENT, id="no API server"),
    ],
)
def test_devices_that_may_be_given_away_stay_taken_until_the_pod_is_looked_up(
    answer: ApiError, result: Result
) -> None:
    loop = Loop({CLAIM: [answer]}, GivesDevices())
    assert loop.bind(scheduled()) == [result]
    assert {*loop.server.sent} == {CLAIM}
