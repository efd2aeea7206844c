"""The first lists are applied page by page, and what they had is not told again."""

import threading
from itertools import islice

import pytest
from cluster import Cluster, eventually
from faults import ALWAYS, Fault, answer, delay, faulty, hold

from lib.kube.api import Api
from lib.kube.changes import AnyChange, Kind
from lib.kube.errors import AnswerError
from lib.kube.informer import Informer
from lib.kube.source import ClusterSource, PollingSource

SOURCES = pytest.mark.parametrize("source", [PollingSource, Informer])
NODES = ["n0", "n1", "n2"]
ASSIGNED = ["on-0", "on-1", "on-2", "on-3", "on-4"]
LATER_PODS = r"/v1/pods\?.*continue="


@pytest.fixture
def pages_of_two(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A cluster whose nodes and assigned pods fill several pages, and a pod that waits."""
    monkeypatch.setattr("lib.kube.pager.PAGE", 2)
    for name in NODES:
        cluster.add_node(name)
    for i, name in enumerate(ASSIGNED):
        cluster.add_pod(name, nodeName=NODES[i % 3])
    cluster.add_pod("web")
    if not cluster.kubeconfig_for:  # the embedded API server has kubelets, which change each pod once more
        eventually(lambda: {cluster.pod(name)["status"]["phase"] for name in ASSIGNED} == {"Running"})
    return cluster


def names(changes: list[AnyChange]) -> list[str]:
    assert {change.kind for change in changes} <= {Kind.ADDED}
    return [change.object.metadata.name for change in changes]


@SOURCES
def test_a_page_is_applied_before_the_next_one_is_there(
    pages_of_two: Cluster, source: type[ClusterSource]
) -> None:
    go_on = threading.Event()
    with (
        faulty(pages_of_two.proxy, Fault("GET", LATER_PODS, hold(go_on))) as between,
        Api(between.url, threading.Event()) as api,
    ):
        feed = source(api, ["my-scheduler"])
        first = iter(feed.first_changes())
        early = [*islice(first, 4)]
        go_on.set()
        assert names([*early, *first]) == [*NODES, *ASSIGNED]
        rest = feed.poll()
        assert names(rest.changes) == ["web"]
        assert rest.complete
        assert not [*feed.first_changes()]


@SOURCES
def test_when_a_page_fails_the_next_poll_tells_the_rest(
    pages_of_two: Cluster, source: type[ClusterSource]
) -> None:
    with (
        faulty(pages_of_two.proxy, Fault("GET", LATER_PODS, answer(400))) as between,
        Api(between.url, threading.Event()) as api,
    ):
        feed = source(api, ["my-scheduler"])
        first = names([*feed.first_changes()])
        assert set(first) < {*NODES, *ASSIGNED}
        with pytest.raises(AnswerError):
            feed.poll()
        rest = names([*feed.first_changes(), *feed.poll().changes])
        assert sorted(first + rest) == [*NODES, *ASSIGNED, "web"]


def test_after_a_failed_list_the_others_are_not_read_to_their_end(pages_of_two: Cluster) -> None:
    pages = 20
    for i in range(2 * pages):
        pages_of_two.add_pod(f"more-{i}", nodeName=NODES[0])
    forbidden = Fault("GET", r"/v1/nodes\?", answer(403), times=ALWAYS)
    slow_pages = Fault("GET", LATER_PODS, delay(0.1), times=ALWAYS)
    with (
        faulty(pages_of_two.proxy, forbidden, slow_pages) as between,
        Api(between.url, threading.Event()) as api,
    ):
        feed = PollingSource(api, ["my-scheduler"])
        assert names([*feed.first_changes()]) == []
        with pytest.raises(AnswerError):
            feed.poll()
        assert len([path for _, path in between.requests if "continue=" in path]) < pages
