"""The pipeline, with a scripted server and a clock of its own."""

from collections import Counter
from itertools import pairwise
from math import inf

import pytest
from service.writes.scripted import AWAY, HANGS, LOST, NOW, Scripted, broken, busy, caught, web

from lib.kube.errors import ApiError, NotLeadingError, UnreachableError
from lib.kube.objects import Pod
from lib.kube.pod_writes import bind, look_up, nominate, record
from lib.kube.write import Write
from lib.service.writes.pipeline import Sort

POST, GET, PATCH = "POST pods/web/binding", "GET pods/web", "PATCH pods/web/status"
OK = "", None


def test_a_write_is_tried_again_after_longer_and_longer_pauses() -> None:
    server = Scripted({PATCH: [busy(), busy(), busy(), None]})
    times: list[float] = []
    server.on_send = lambda _: times.append(server.now)
    assert server.run(caught(nominate(web(), "n1"))) == []
    pauses = [after - before for before, after in pairwise(times)]
    for pause, least in zip(pauses, (0.1, 0.2, 0.4), strict=True):
        assert least <= pause <= least + 0.1


def test_after_five_tries_it_fails() -> None:
    server = Scripted({PATCH: [broken()]})
    (error,) = server.run(caught(nominate(web(), "n1")))
    assert (str(error), server.sent) == ("500", [PATCH] * 5)
    assert server.pipeline.error is None


def test_a_write_is_not_tried_for_much_longer_than_half_a_minute() -> None:
    server = Scripted({PATCH: [broken()]})
    server.now = 1.0

    def each_try_takes_20_seconds(_: str) -> None:
        server.now += 20

    server.on_send = each_try_takes_20_seconds
    (error,) = server.run(caught(nominate(web(), "n1")))
    assert (str(error), server.sent) == ("500", [PATCH] * 2)


def test_a_post_is_tried_again_by_the_write_which_looks_up_first() -> None:
    server = Scripted({POST: [LOST, broken(), None], GET: [web()]})
    assert server.run(bind(web(), "n1", {})) == [OK]
    assert server.sent == [POST, GET, POST, GET, POST]


def test_a_post_is_not_tried_forever() -> None:
    server = Scripted({POST: [LOST], GET: [web()]})
    (error,) = server.run(caught(bind(web(), "n1", {})))
    assert isinstance(error, ApiError)
    assert error.may_be_written
    assert server.sent.count(POST) == 5


def test_a_pause_lasts_as_long_as_the_server_asks_for() -> None:
    later = busy()
    later.retry_after = 7
    server = Scripted({PATCH: [later, None]})
    assert server.run(caught(nominate(web(), "n1"))) == []
    assert server.now == 7


def test_while_one_write_pauses_the_others_go_on() -> None:
    server = Scripted({PATCH: [busy(), None], POST: [None]})
    assert server.run(nominate(web(), "n1"), bind(web(), "n1", {})) == [OK]


def test_a_namespace_has_no_more_requests_in_flight_than_places_are_left() -> None:
    server = Scripted({POST: [None]}, window=16)
    for _ in range(30):
        server.pipeline.start(bind(web(), "n1", {}), Sort.BINDING, "default")
    assert [*server.pipeline.run(1.0)] == [OK] * 30
    assert server.most == 8


def of(namespace: str, count: int) -> list[Write[object]]:
    return [bind(web(namespace=namespace), "n1", {}) for _ in range(count)]


@pytest.mark.parametrize("sort", Sort)
@pytest.mark.parametrize("trouble", [1, 5])
def test_namespaces_whose_requests_never_end_leave_places_for_others(sort: Sort, trouble: int) -> None:
    """Five of them leave others at least one place of eight, and that at once."""
    names = [f"bad-{i}" for i in range(trouble)]
    hang = {f"POST /api/v1/namespaces/{name}/pods/web/binding": [HANGS] for name in names}
    server = Scripted({**hang, POST: [None]}, window=8 if sort == Sort.BINDING else 32)
    for name in names:
        for write in of(name, 100):
            server.pipeline.start(write, sort, name)
    assert [*server.pipeline.run(0.0)] == []
    for write in of("default", 20):
        server.pipeline.start(write, sort, "default")
    while server.pipeline.open[sort] > 100 * trouble:
        assert [*server.pipeline.run(0.0)] != []
    assert server.now == 0.0


def test_each_sort_has_places_of_its_own() -> None:
    server = Scripted({POST: [HANGS], PATCH: [HANGS], GET: [web()], "POST events": [None]}, window=8)
    for _ in range(50):
        server.pipeline.start(bind(web(), "n1", {}), Sort.BINDING, "default")
        server.pipeline.start(nominate(web(), "n1"), Sort.RECORD, "default")
    server.pipeline.start(look_up(web()), Sort.LOOK_UP, "default")
    server.pipeline.start(record(web(), "Scheduled", "bound", NOW), Sort.EVENT, "default")
    results = [*server.pipeline.run(0.0), *server.pipeline.run(0.0)]
    assert [type(each) for each in results] == [Pod, bool]


def test_events_leave_bindings_the_time() -> None:
    """As long as bindings wait for a place, few are in flight; none if there are more pods to decide on."""
    server = Scripted({POST: [HANGS], "POST events": [HANGS]}, window=64)
    for _ in range(50):
        server.pipeline.start(record(web(), "Scheduled", "bound", NOW), Sort.EVENT, "default")
        server.pipeline.start(bind(web(), "n1", {}), Sort.BINDING, "default")
    server.pipeline.most_events = 0
    assert [*server.pipeline.run(0.0)] == []
    assert Counter(server.sent) == {POST: 32}
    server.pipeline.most_events = 64
    assert [*server.pipeline.run(0.0)] == []
    assert Counter(server.sent) == {POST: 32, "POST events": 1}


def test_the_oldest_that_has_not_begun_is_dropped_where_most_wait() -> None:
    events = "POST events", "POST /api/v1/namespaces/b/events"
    server = Scripted({each: [HANGS] for each in events}, window=8)
    for number, namespace in enumerate(["a", "default", "default", "default"]):
        event = record(web(namespace=namespace), "Scheduled", str(number), NOW)
        server.pipeline.start(event, Sort.EVENT, namespace)
    server.pipeline.drop_oldest(Sort.EVENT)
    assert server.pipeline.open[Sort.EVENT] == 3
    server.answers["POST /api/v1/namespaces/a/events"] = server.answers["POST events"] = [None]
    assert [*server.pipeline.run(1.0)] == [True] * 3
    assert sorted(body.message for body in server.bodies) == ["0", "2", "3"]


def test_the_last_one_that_has_not_begun_can_be_dropped_and_one_that_has_begun_can_not() -> None:
    server = Scripted({"POST events": [HANGS]}, window=8)
    for left in (0, 1):
        server.pipeline.start(record(web(), "Scheduled", "bound", NOW), Sort.EVENT, "default")
        if left:
            assert [*server.pipeline.run(0.0)] == []  # it is sent
        server.pipeline.drop_oldest(Sort.EVENT)
        assert [*server.pipeline.run(0.0)] == []
        assert server.pipeline.open[Sort.EVENT] == len(server.sent) == left


def test_without_an_api_server_the_gate_closes_and_the_others_are_not_sent() -> None:
    server = Scripted({POST: [AWAY], PATCH: [None]}, window=1)
    results = server.run(*(caught(bind(web(), "n1", {})) for _ in range(3)))
    assert [type(each) for each in results] == [UnreachableError] * 3
    assert not any(each.may_be_written for each in results)
    assert isinstance(server.pipeline.error, UnreachableError)
    assert [type(each) for each in server.run(caught(nominate(web(), "n1")))] == [UnreachableError]
    assert PATCH not in server.sent


def test_what_may_have_been_written_before_the_gate_closed_is_told_apart() -> None:
    server = Scripted({POST: [LOST], GET: [AWAY], PATCH: [AWAY]})
    errors: dict[str, ApiError] = {}

    def noted(name: str, write: Write[object]) -> Write[None]:
        errors[name] = yield from caught(write)

    server.run(noted("binding", bind(web(), "n1", {})), noted("nomination", nominate(web(), "n1")))
    assert {name: error.may_be_written for name, error in errors.items()} == {
        "binding": True,
        "nomination": False,
    }


@pytest.mark.parametrize("sort", ["binding", "event"])
def test_a_doubtful_write_that_closes_the_gate_makes_no_other_write_doubtful(sort: str) -> None:
    server = Scripted({POST: [LOST, AWAY], "POST events": [LOST, AWAY], GET: [web()]})
    first: Write[object] = bind(web(), "n1", {})
    if sort == "event":
        first = record(web(), "Scheduled", "bound", NOW)
    (doubtful,) = server.run(caught(first))
    (other,) = server.run(caught(bind(web(), "n1", {})))
    assert isinstance(server.pipeline.error, UnreachableError)
    assert (doubtful.may_be_written, other.may_be_written) == (True, False)


def test_who_does_not_lead_sends_nothing_more() -> None:
    server = Scripted({POST: [NotLeadingError("not sent")]}, window=1)
    results = server.run(*(caught(bind(web(), "n1", {})) for _ in range(3)))
    assert [type(each) for each in results] == [NotLeadingError] * 3
    assert server.sent == [POST]


def test_what_waits_for_a_place_ends_at_once_when_nothing_more_may_be_sent() -> None:
    server = Scripted({POST: [HANGS], PATCH: [NotLeadingError("not sent")]}, window=2)
    for _ in range(3):
        server.pipeline.start(caught(bind(web(), "n1", {})), Sort.BINDING, "default")
    server.pipeline.start(caught(nominate(web(), "n1")), Sort.RECORD, "default")
    assert [type(each) for each in server.pipeline.run(0.0)] == [NotLeadingError] * 3
    assert server.sent == [POST, PATCH]
    assert server.pipeline.open == {Sort.BINDING: 1, Sort.RECORD: 0}


def test_when_the_time_is_over_the_rest_is_left_for_the_next_run() -> None:
    server = Scripted({PATCH: [busy(), None]})
    assert server.run(nominate(web(), "n1"), until=0.05) == []
    assert (server.sent, server.pipeline.open[Sort.RECORD]) == ([PATCH], 1)
    server.now = 1.0
    assert server.run(until=2.0) == []
    assert (server.sent, server.pipeline.open[Sort.RECORD]) == ([PATCH, PATCH], 0)


def test_nothing_is_tried_again_while_poller_ends() -> None:
    server = Scripted({PATCH: [busy(), None]})
    server.on_send = lambda _: server.shutdown.stopping.set()
    (error,) = server.run(caught(nominate(web(), "n1")))
    assert (str(error), server.sent) == ("429", [PATCH])


def test_a_second_signal_ends_the_waiting() -> None:
    server = Scripted({PATCH: [busy(), None]})
    server.on_send = lambda _: setattr(server.shutdown, "told_twice", True)
    assert server.run(nominate(web(), "n1"), nominate(web(), "n1"), until=0.05) == []
    assert (server.sent, server.now) == ([PATCH], 0.0)


def test_bindings_go_before_what_was_started_earlier_and_has_not_begun() -> None:
    server = Scripted({POST: [None], PATCH: [None]}, window=1)
    server.pipeline.start(nominate(web(), "n1"), Sort.RECORD, "default")
    server.pipeline.start(bind(web(), "n1", {}), Sort.BINDING, "default")
    assert server.run() == [OK]
    assert server.sent == [POST, PATCH]


def test_who_waits_for_one_sort_does_not_wait_for_the_others() -> None:
    server = Scripted({POST: [None], PATCH: [busy()]})
    server.pipeline.start(nominate(web(), "n1"), Sort.RECORD, "default")
    server.pipeline.start(bind(web(), "n1", {}), Sort.BINDING, "default")
    assert list(server.pipeline.run(1000.0, [Sort.BINDING])) == [OK]
    assert (server.pipeline.open[Sort.RECORD], server.now) == (1, 0.0)


def test_it_says_until_when_there_is_nothing_to_do() -> None:
    later = busy()
    later.retry_after = 40
    server = Scripted({PATCH: [later, None]})
    assert server.pipeline.waits_until == inf
    server.pipeline.start(nominate(web(), "n1"), Sort.RECORD, "default")
    assert server.pipeline.waits_until == -inf
    assert [*server.pipeline.run(0.0), *server.pipeline.run(0.0)] == []
    assert server.pipeline.waits_until == 40


def test_an_unexpected_error_is_raised_and_the_write_does_not_stay_open() -> None:
    def breaks() -> Write[None]:
        yield from nominate(web(), "n1")
        raise KeyError("what")

    server = Scripted({PATCH: [None]})
    with pytest.raises(KeyError):
        server.run(breaks())
    assert (server.run(), server.pipeline.open[Sort.RECORD]) == ([], 0)


@pytest.mark.parametrize("window", [1, 16])
def test_a_thousand_writes_take_little_more_than_one(window: int) -> None:
    server = Scripted({POST: [None]}, window=window)
    assert server.run(*(bind(web(), "n1", {}) for _ in range(1000))) == [OK] * 1000


def ends_at_once(result: str) -> Write[str]:
    return result
    yield  # a generator


def test_a_result_of_a_write_that_ends_when_a_place_is_free_does_not_wait_for_the_next_tick() -> None:
    server = Scripted({POST: [None]}, window=2)
    for write in (bind(web(), "n1", {}), ends_at_once("a"), ends_at_once("b")):
        server.pipeline.start(write, Sort.BINDING, "default")
    assert [*server.pipeline.run(-inf)] == [OK, "a", "b"]


def test_a_result_is_handled_before_another_write_goes_on() -> None:
    """What follows from it can then be seen by the other writes."""
    server, said = Scripted({GET: [web()]}, window=8), list[str]()

    def looks_up(name: str) -> Write[str]:
        yield from look_up(web())
        said.append(f"{name} ends")
        return name

    for name in "ab":
        server.pipeline.start(looks_up(name), Sort.BINDING, "default")
    for result in server.pipeline.run(1.0):
        said.append(f"{result} is handled")
    assert said == ["a ends", "a is handled", "b ends", "b is handled"]
