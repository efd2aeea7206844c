"""Polling a large cluster: after the first lists, watches that last for a moment tell what has changed."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from queue import Empty
from typing import Any, cast

import msgspec
import pytest
from cluster import Cluster, eventually
from faults import ALWAYS, Answer, Effect, Exchange, Fault, FaultyProxy, Stream, answer, change_events, faulty
from later import Later

from lib.kube.api import Api
from lib.kube.decoding import Listing
from lib.kube.errors import ApiError
from lib.kube.objects import Pod
from lib.kube.reading import ASK_AGAIN
from lib.kube.short_watch import LONGEST, SILENCE, read_until_silent
from lib.kube.source import PollingSource

WATCHES = "watch=1"
LISTS = ("/api/v1/nodes?limit", "/api/v1/pods?fieldSelector=spec.nodeName%21%3D")
"""How the requests begin that list all nodes, and the pods on them."""


class Feed:
    """Polls a cluster through a proxy with faults."""

    def __init__(self, proxy: FaultyProxy, api: Api, *namespaces: str) -> None:
        self._proxy, self._source = proxy, PollingSource(api, ["my-scheduler"], namespaces)
        self.requests: list[str] = []
        self.unreadable: list[str] = []

    def poll(self) -> set[str]:
        """Polls; returns the changes, as "added n1", but for pods without a node."""
        before = len(self._proxy.requests)
        changes = [*self._source.first_changes()]
        changes += (delta := self._source.poll()).changes
        self.requests = [path for _, path in self._proxy.requests[before:]]
        self.unreadable = delta.unreadable
        # A watch may tell later what happened before: only lists show everything.
        assert delta.complete == self.listed
        return {
            f"{each.kind.value} {each.object.metadata.name}"
            for each in changes
            if not isinstance(each.object, Pod) or each.object.spec.node_name
        }

    def polls_until(self, change: str, *, listing: bool = False) -> set[str]:
        """Polls until this change comes; returns all that came. listing: whether all may be listed for it."""
        seen: set[str] = set()

        def comes() -> bool:
            seen.update(self.poll())
            assert listing or not self.listed
            return change in seen

        eventually(comes)
        return seen

    @property
    def listed(self) -> bool:
        """Whether the last poll listed all nodes, or all pods on them."""
        return any(each.startswith(LISTS) for each in self.requests)

    @property
    def watched(self) -> bool:
        """Whether the last poll opened a watch."""
        return any(WATCHES in each for each in self.requests)


@pytest.fixture
def large(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A cluster whose nodes fill two pages, and a pod that waits."""
    monkeypatch.setattr("lib.kube.pager.PAGE", 2)
    for name in ("n0", "n1", "n2"):
        cluster.add_node(name)
    cluster.add_pod("web")
    return cluster


@pytest.fixture
def feed(large: Cluster, request: pytest.FixtureRequest) -> Iterator[Feed]:
    """One that has listed all by now. Its parameter is an effect on all watches."""
    effect: Effect | None = getattr(request, "param", None)
    faults = [Fault("GET", WATCHES, effect, ALWAYS)] if effect else []
    with faulty(large.proxy, *faults) as between, Api(between.url, threading.Event()) as api:
        feed = Feed(between, api)
        assert feed.poll() == {"added n0", "added n1", "added n2"}
        assert (feed.listed, feed.watched) == (True, False)
        yield feed


def test_what_has_changed_is_told_and_nothing_is_listed(large: Cluster, feed: Feed) -> None:
    def told(change: str) -> None:
        seen = feed.polls_until(change)
        assert feed.watched
        # The embedded API server has kubelets, which change each pod once more.
        assert {each for each in seen if not each.startswith("modified")} <= {change}

    large.patch("/api/v1/nodes/n1", {"spec": {"unschedulable": True}})
    told("modified n1")
    large.add_pod("on-1", nodeName="n1")
    told("added on-1")
    large.kubectl("delete", "pod", "on-1", "--grace-period=0", "--force")
    told("deleted on-1")
    large.add_pod("on-2", nodeName="n2")
    told("added on-2")
    finished = {"status": {"phase": "Succeeded"}}
    large.patch("/api/v1/namespaces/default/pods/on-2/status", finished)
    told("deleted on-2")
    large.add_node("n3")
    told("added n3")
    large.add_pod("new")
    feed.poll()
    body = {"metadata": {"name": "new"}, "target": {"kind": "Node", "name": "n3"}}
    large.post("/api/v1/namespaces/default/pods/new/binding", body)
    told("added new")
    large.kubectl("delete", "node", "n0")
    told("deleted n0")


def test_no_watch_stays_open(large: Cluster, feed: Feed) -> None:
    large.add_node("n3")
    feed.polls_until("added n3")
    assert feed.watched
    eventually(lambda: not any(thread.name.startswith("WATCH") for thread in threading.enumerate()))


def tells_late(exchange: Exchange) -> Stream:
    """A watch that tells each change a moment later."""
    at_once = exchange.stream()

    def late() -> Iterator[bytes]:
        for line in at_once.lines:
            exchange.wait(0.05)
            yield line

    return replace(at_once, lines=late())


@pytest.mark.parametrize("feed", [tells_late], indirect=True)
def test_what_a_watch_tells_a_moment_later_is_awaited(
    large: Cluster, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lib.kube.short_watch.SILENCE", 0.9)  # for the sake of busy machines
    large.patch("/api/v1/nodes/n1", {"spec": {"unschedulable": True}})
    assert "modified n1" in feed.poll()
    assert (feed.listed, feed.watched) == (False, True)


def test_only_the_served_namespaces_are_watched_as_long_as_others_may_not_be(large: Cluster) -> None:
    machine, forbidden = Later(), threading.Event()
    refused = answer(403, json.dumps({**GONE, "code": 403, "reason": "Forbidden"}))
    forbidden.set()

    def maybe_forbidden(exchange: Exchange) -> Answer | Stream:
        return refused(exchange) if forbidden.is_set() else exchange.pass_on()

    everywhere = Fault("GET", r"^/api/v1/pods\?", maybe_forbidden, ALWAYS)
    for name in ("ours", "others"):
        large.post("/api/v1/namespaces", {"metadata": {"name": name}})
    with (
        faulty(large.proxy, everywhere) as between,
        Api(between.url, threading.Event(), system=machine) as api,
    ):
        feed = Feed(between, api, "default", "ours")
        assert feed.poll() == {"added n0", "added n1", "added n2"}
        large.add_node("n3")
        assert feed.poll() == {"added n3"}
        assert feed.listed
        large.add_pod("on-1", nodeName="n1")
        large.add_pod("on-2", nodeName="n2", namespace="others")
        assert "added on-2" not in feed.polls_until("added on-1")
        large.add_node("n4")
        large.add_pod("newest")  # the watch of the other namespace doesn't tell it
        feed.polls_until("added n4")
        assert feed.watched
        forbidden.clear()
        machine.seconds += ASK_AGAIN
        feed.polls_until("added on-2", listing=True)


GONE = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "message": "too old"}


def gone(event: object) -> dict[str, object]:
    return {"type": "ERROR", "object": GONE}


def withheld(exchange: Exchange) -> Stream:
    """A watch that is open, and tells nothing: something on the way buffers what it tells."""

    def nothing() -> Iterator[bytes]:
        while not exchange.wait(0.05):
            yield from ()

    return Stream(200, [("Content-Type", "application/json")], nothing())


@pytest.mark.parametrize(
    ("feed", "is_tried_again"),
    [
        (answer(403), False),
        (withheld, False),
        (answer(410, json.dumps(GONE)), True),
        (change_events(gone), True),
    ],
    indirect=["feed"],
    ids=["forbidden", "buffered", "gone", "gone later"],
)
def test_if_a_watch_does_not_tell_all_is_listed(large: Cluster, feed: Feed, is_tried_again: bool) -> None:
    large.add_node("n3")
    large.add_pod("second")
    assert feed.poll() == {"added n3"}
    assert (feed.listed, feed.watched) == (True, True)
    large.add_node("n4")
    assert feed.poll() == {"added n4"}
    assert (feed.listed, feed.watched) == (True, is_tried_again)


def test_a_pod_that_has_finished_without_a_node_is_not_awaited(large: Cluster, feed: Feed) -> None:
    large.add_pod("ended")
    large.patch("/api/v1/namespaces/default/pods/ended/status", {"status": {"phase": "Failed"}})
    # Watches leave it out by now.
    large.patch("/api/v1/namespaces/default/pods/ended", {"metadata": {"labels": {"later": "yes"}}})
    large.add_node("n3")
    feed.polls_until("added n3")
    assert feed.watched


def with_a_number_as_label(event: dict[str, Any]) -> dict[str, Any]:
    event["object"]["metadata"]["labels"] = {"a": 5}
    return event


@pytest.mark.parametrize("feed", [change_events(with_a_number_as_label)], indirect=True)
def test_what_cannot_be_decoded_is_told_at_each_poll(large: Cluster, feed: Feed) -> None:
    large.add_node("odd")
    eventually(lambda: feed.poll() or feed.unreadable)
    for _ in range(2):
        large.add_pod(f"more-{time.monotonic_ns()}")
        assert feed.poll() == set()
        assert feed.watched
        assert [line for line in feed.unreadable if "node odd" in line.lower()], feed.unreadable


def test_a_small_cluster_is_listed(cluster: Cluster) -> None:
    cluster.add_node("n0")
    cluster.add_pod("web")
    with faulty(cluster.proxy) as between, Api(between.url, threading.Event()) as api:
        feed = Feed(between, api)
        assert feed.poll() == {"added n0"}
        cluster.add_node("n1")
        assert feed.poll() == {"added n1"}
        assert (feed.listed, feed.watched) == (True, False)


def test_many_pods_on_few_nodes_make_a_large_cluster(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lib.kube.pager.PAGE", 2)
    cluster.add_node("n0")
    cluster.add_pod("web")
    for name in ("a", "b", "c"):
        cluster.add_pod(name, nodeName="n0")
    with faulty(cluster.proxy) as between, Api(between.url, threading.Event()) as api:
        feed = Feed(between, api)
        feed.poll()
        cluster.add_node("n1")
        feed.polls_until("added n1")
        assert feed.watched


# --- how long the watches are read ----------------------------------------------------------------------


class Told:
    """In place of a reflector: each line is a version, or "end"."""

    pause: float | None = None
    trouble: ApiError | None = None

    def __init__(self, path: str) -> None:
        self.path, self.version = path, "1"

    def handle_event(self, _watch: object, line: str) -> list[str]:
        if line == "end":
            self.pause = 0.0
            return []
        self.version = line
        return [f"{self.path} {line}"]


class Lines:
    """In place of a queue: each line comes at its time, and no time passes otherwise."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lines: list[tuple[float, Told, str]] = []

    def get(self, timeout: float) -> tuple[Told, None, str]:
        if not self.lines or self.lines[0][0] > self.now + timeout:
            self.now += timeout
            raise Empty
        at, told, line = self.lines.pop(0)
        self.now = max(self.now, at)
        return told, None, line


NODES_TOLD, PODS_TOLD = "/api/v1/nodes", "/api/v1/pods"
SLOWLY = [(0.04 * (i - 1), PODS_TOLD, str(i)) for i in range(2, 9)]
WITHOUT_END = [(0.04 * i, PODS_TOLD, "2") for i in range(1, 100)]


@pytest.mark.parametrize(
    ("lines", "told", "seconds"),
    [
        ([], [], SILENCE),
        ([(0.01, NODES_TOLD, "7"), (0.02, PODS_TOLD, "9")], ["7", "9"], 0.02),
        ([(0.01, NODES_TOLD, "9"), (0.04, PODS_TOLD, "9"), (0.05, PODS_TOLD, "10")], ["9", "9"], 0.04),
        (SLOWLY, [line for *_, line in SLOWLY], SLOWLY[-1][0] + SILENCE),
        ([(0.03, NODES_TOLD, "9"), (0.04, NODES_TOLD, "10")], ["9", "10"], 0.03 + SILENCE),
        ([(0.06, PODS_TOLD, "9")], [], SILENCE),
    ],
    ids=["silent", "latest", "not beyond", "slowly", "who has told all adds no silence", "too late"],
)
def test_watches_are_read_until_they_have_told_all_or_are_silent(
    lines: list[tuple[float, str, str]], told: list[str], seconds: float
) -> None:
    changes, now = read(lines, latest="9", newest="1")
    assert [change.split()[1] for change in changes] == told
    assert now == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("lines", "error", "seconds"),
    [
        (WITHOUT_END, "it tells more than can be read", LONGEST),
        ([(0.01, PODS_TOLD, "2")], "it doesn't tell what was listed before", LONGEST),
        ([(0.01, PODS_TOLD, "end")], "it ended before it was silent", 0.01),
    ],
)
def test_all_is_listed_if_watches_do_not_tell_it(
    lines: list[tuple[float, str, str]], error: str, seconds: float
) -> None:
    script = Lines()
    with pytest.raises(ApiError, match=error):
        read(lines, latest="9", newest="5", script=script)
    assert script.now == pytest.approx(seconds, abs=0.04)


def test_a_version_that_is_no_number_is_never_the_latest() -> None:
    changes, now = read([(0.01, NODES_TOLD, "7")], latest="b3", newest="1")
    assert (changes, now) == (["/api/v1/nodes 7"], pytest.approx(0.01 + SILENCE))


def read(
    lines: list[tuple[float, str, str]], latest: str, newest: str, script: Lines | None = None
) -> tuple[list[str], float]:
    """What is told, and when reading ends. latest: the lists' version; newest: that of a pod in them."""
    reflectors = {path: Told(path) for path in (NODES_TOLD, PODS_TOLD)}
    script = script or Lines()
    script.lines = [(at, reflectors[path], line) for at, path, line in lines]
    names = {"name": "web", "namespace": "default", "resourceVersion": newest}
    pod = msgspec.convert({"metadata": names}, Pod)
    lists = {
        reflectors[NODES_TOLD]: Listing[Any]([], {}, latest if latest == "b3" else "7"),
        reflectors[PODS_TOLD]: Listing[Any]([pod], {}, latest),
    }
    changes: list[Any] = []
    read_until_silent(cast(Any, script), cast(Any, lists), lambda: script.now, changes)
    return changes, script.now
