"""The queue at work: what makes a pod be retried, how soon, and that a waiting pod costs nothing."""

import re
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from cluster import ONE_SERVER, Cluster, eventually
from faults import ALWAYS, Exchange, Fault, answer, change_json, faulty


@pytest.mark.parametrize(
    ("before", "help_it"),
    [
        (lambda cluster: None, lambda cluster: cluster.add_node("n1")),
        (
            lambda cluster: (cluster.add_node("n1"), cluster.kubectl("cordon", "n1")),
            lambda cluster: cluster.kubectl("uncordon", "n1"),
        ),
        (
            lambda cluster: (
                cluster.add_node("n1"),
                cluster.kubectl("taint", "nodes", "n1", "a=b:NoSchedule"),
            ),
            lambda cluster: cluster.kubectl("taint", "nodes", "n1", "a-"),
        ),
        (
            lambda cluster: (
                cluster.add_node("n1"),
                cluster.add_pod("old", requests={"cpu": "4"}, nodeName="n1"),
            ),
            lambda cluster: cluster.kubectl("delete", "pod", "old", "--force", "--grace-period=0"),
        ),
    ],
    ids=["added", "uncordoned", "untainted", "freed"],
)
def test_a_pod_that_fits_nowhere_is_placed_soon_after_a_node_helps(
    cluster: Cluster, before: Callable[[Cluster], Any], help_it: Callable[[Cluster], Any]
) -> None:
    before(cluster)
    cluster.add_pod("web", requests={"cpu": "1"})
    with cluster.running_poller("--interval=1", "--pod-initial-backoff=0.5") as poller:
        poller.says("default/web fits nowhere")
        time.sleep(0.5)  # so that it has backed off
        help_it(cluster)
        eventually(lambda: cluster.placement()["web"] == "n1")


@pytest.mark.parametrize("servers", ["real"], indirect=True)
def test_a_pod_that_is_made_smaller_in_place_gives_its_room_when_its_kubelet_has_done_it(
    cluster: Cluster,
) -> None:
    path = "/api/v1/namespaces/default/pods/large"
    cluster.add_node("n1", cpu="4")
    cluster.add_pod("large", nodeName="n1", requests={"cpu": "3"})
    cluster.add_pod("web", requests={"cpu": "2"})

    def kubelet_says(cpu: str) -> None:
        given = {"allocatedResources": {"cpu": cpu}, "resources": {"requests": {"cpu": cpu}}}
        container = cluster.pod("large")["spec"]["containers"][0]
        status = {"name": container["name"], "image": "", "imageID": "", "ready": True, "restartCount": 0}
        cluster.patch(f"{path}/status", {"status": {"containerStatuses": [status | given]}})

    kubelet_says("3")
    container = cluster.pod("large")["spec"]["containers"][0]
    smaller = {**container, "resources": {"requests": {"cpu": "1"}}}
    cluster.patch(f"{path}/resize", {"spec": {"containers": [smaller]}})
    assert cluster.poller().returncode == 3
    kubelet_says("1")
    assert cluster.poller().returncode == 0
    assert cluster.placement()["web"] == "n1"


@pytest.mark.parametrize("servers", [ONE_SERVER], indirect=True)
def test_pods_that_need_not_be_tried_cost_one_list_a_tick(cluster: Cluster) -> None:
    cluster.add_node("n1")
    for i in range(20):
        cluster.add_pod(f"big-{i:02}", requests={"cpu": "64"})
    versions: list[str] = []  # one for each list of the pods that wait: of the cluster's last write

    def note_version(listing: dict[str, Any]) -> dict[str, Any]:
        versions.append(listing["metadata"]["resourceVersion"])
        return listing

    arguments = ("--scheduler-name=my-scheduler", "--interval=0.3", "-v")
    noting = Fault("GET", r"/pods\?.*nodeName%3D%2C", change_json(note_version), times=ALWAYS)
    with (
        faulty(cluster.proxy, noting) as between,
        cluster.running_poller(*arguments, proxy=between.url) as poller,
    ):
        poller.says("queue: 20 unschedulable")
        eventually(lambda: len(cluster.events("FailedScheduling")) == 20)
        eventually(lambda: all("conditions" in each["status"] for each in cluster.pods().values()))
        written = len(versions)
        eventually(lambda: len(versions) >= written + 3)  # what was written has been seen
        asked, listed, said = len(between.requests), len(versions), len(poller.said)
        eventually(lambda: len(versions) >= listed + 6)
        requests, words = between.requests[asked:], poller.said[said:]
        seen = versions[listed:]
    others = [path for _, path in requests if not re.search(noting.path, path)]
    # A real API server renews leases of its own now and then; then something has changed, and two lists more
    # are made, those of the nodes and of the assigned pods.
    assert len(others) <= 2 * len(set(seen))
    assert len(others) < 2 * len(seen)
    assert "fits nowhere" not in words
    assert "not n1" not in words  # no filter has run


def test_the_queue_is_shown_when_asked_for(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_pod("big", requests={"cpu": "64"})
    with cluster.running_poller(afresh=True) as poller:
        poller.says("default/big fits nowhere")

        def shows_it() -> bool:
            poller.process.send_signal(signal.SIGUSR1)
            return "queue: 0 active, 0 backoff, 1 unschedulable, 0 waiting" in poller.said

        eventually(shows_it)
        poller.says("unschedulable: default/big")
        poller.says("tried once: default/big (unschedulable): 0/1 nodes are available: 1 Insu")


def test_a_binding_that_fails_is_tried_again_after_a_backoff(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_pod("web")
    refusal = answer(422, '{"kind":"Status","status":"Failure","message":"no"}')
    tried: list[float] = []

    def refuse_twice(exchange: Exchange) -> Any:
        tried.append(time.monotonic())
        return refusal(exchange) if len(tried) < 3 else exchange.forward()

    with (
        faulty(cluster.proxy, Fault("POST", "/binding$", refuse_twice, ALWAYS)) as between,
        cluster.running_poller("--pod-initial-backoff=0.5", proxy=between.url) as poller,
    ):
        poller.says("default/web is bound to n1")
    first, second, third = tried
    assert second - first > 0.5
    assert third - second > 1


def test_what_was_bound_and_deleted_at_once_leaves_its_place_free(cluster: Cluster) -> None:
    cluster.add_node("n1", pods="1")
    cluster.add_pod("first")
    with cluster.running_poller() as poller:
        poller.says("default/first is bound to n1")
        cluster.kubectl("delete", "pod", "first", "--force", "--grace-period=0")
        cluster.add_pod("second")
        poller.says("default/second is bound to n1")
