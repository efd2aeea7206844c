"""Polling a large cluster: after the first lists, watches that last for a moment tell what has changed."""

import json
import threading
from collections.abc import Iterator

import pytest
from cluster import Cluster, eventually
from faults import ALWAYS, Effect, Exchange, Fault, FaultyProxy, Stream, answer, change_events, faulty

from lib.kube.api import Api
from lib.kube.objects import Pod
from lib.kube.source import PollingSource

WATCHES = "watch=1"
LISTS = ("/api/v1/nodes?limit", "/api/v1/pods?fieldSelector=spec.nodeName%21%3D")
"""How the requests begin that list all nodes, and the pods on them."""


class Feed:
    """Polls a cluster through a proxy with faults."""

    def __init__(self, proxy: FaultyProxy, api: Api) -> None:
        self._proxy, self._source = proxy, PollingSource(api, ["my-scheduler"])
        self.requests: list[str] = []

    def poll(self) -> set[str]:
        """Polls; returns the changes, as "added n1", but for pods without a node."""
        before = len(self._proxy.requests)
        changes = [*self._source.first_changes(), *self._source.poll().changes]
        self.requests = [path for _, path in self._proxy.requests[before:]]
        return {
            f"{each.kind.value} {each.object.metadata.name}"
            for each in changes
            if not isinstance(each.object, Pod) or each.object.spec.node_name
        }

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
        seen: set[str] = set()

        def comes() -> bool:
            seen.update(feed.poll())
            assert not feed.listed
            return change in seen

        eventually(comes)
        assert feed.watched
        # The embedded API server has kubelets, which change each pod once more.
        assert {each for each in seen if not each.startswith("modified")} <= {change}

    large.patch("/api/v1/nodes/n1", {"spec": {"unschedulable": True}})
    told("modified n1")
    large.add_pod("on-1", nodeName="n1")
    told("added on-1")
    large.kubectl("delete", "pod", "on-1", "--grace-period=0", "--force")
    told("deleted on-1")
    large.add_node("n3")
    told("added n3")
    large.add_pod("new")
    feed.poll()
    body = {"metadata": {"name": "new"}, "target": {"kind": "Node", "name": "n3"}}
    large.post("/api/v1/namespaces/default/pods/new/binding", body)
    told("added new")
    large.kubectl("delete", "node", "n0")
    told("deleted n0")


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


def test_a_small_cluster_is_listed(cluster: Cluster) -> None:
    cluster.add_node("n0")
    cluster.add_pod("web")
    with faulty(cluster.proxy) as between, Api(between.url, threading.Event()) as api:
        feed = Feed(between, api)
        assert feed.poll() == {"added n0"}
        cluster.add_node("n1")
        assert feed.poll() == {"added n1"}
        assert (feed.listed, feed.watched) == (True, False)
