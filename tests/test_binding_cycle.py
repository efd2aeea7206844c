"""A pod whose binding fails, isn't answered, or is answered but wasn't made."""

import time
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest
from cluster import Cluster, eventually
from faults import ALWAYS, Answer, Exchange, Fault, answer, faulty
from poller_process import with_constant

from scripts.servers.kubectl import kubectl_proxy

ON_ONE_SERVER = True

SAID = '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'
REFUSED = '{"kind":"Status","status":"Failure","message":"no"}'


@pytest.fixture
def soon(tmp_path: Path) -> Path:
    """Runs poller.py; it looks up unconfirmed bindings after two seconds, not after a minute."""
    return with_constant(tmp_path, "lib.scheduling.pod_life", "CONFIRM_SECONDS", 2.0)


@pytest.fixture
def one_place(cluster: Cluster) -> Cluster:
    """A cluster with room for one pod, and a pod web that waits."""
    cluster.add_node("n1", pods="1")
    cluster.add_pod("web")
    return cluster


@pytest.mark.parametrize("how", [(), ("--watch",)], ids=["polling", "watching"])
def test_a_binding_that_was_only_said_to_be_made_is_made_in_the_end(
    one_place: Cluster, soon: Path, how: tuple[str, ...]
) -> None:
    with (
        faulty(one_place.proxy, Fault("POST", "/binding$", answer(201, SAID))) as between,
        one_place.running_poller(*how, proxy=between.url, script=soon) as poller,
    ):
        poller.says("default/web is bound to n1")
        poller.says("default/web was said to be bound to n1, but it isn't: it is tried again")
        eventually(lambda: one_place.placement()["web"] == "n1")


def test_a_binding_that_may_have_been_made_keeps_its_room_until_it_is_looked_up(
    one_place: Cluster, soon: Path
) -> None:
    with (
        faulty(one_place.proxy, Fault("POST", "/web/binding$", answer(500, "who knows"), ALWAYS)) as between,
        one_place.running_poller(
            "--pod-initial-backoff=600", "--pod-max-backoff=600", proxy=between.url, script=soon
        ) as poller,
    ):
        poller.says("default/web: binding failed")
        one_place.add_pod("other")
        poller.says("default/other fits nowhere")
        more = (f"more-{i}" for i in count())

        def another_is_bound() -> bool:
            one_place.add_pod(next(more))
            time.sleep(0.5)
            return any(one_place.placement().values())

        eventually(another_is_bound)
        assert one_place.placement()["web"] is None


def test_room_that_is_free_again_wakes_who_was_rejected_for_want_of_it(priorities: Cluster) -> None:
    priorities.add_node("n1", pods="1")
    priorities.add_pod("vip", priorityClassName="high")
    priorities.add_pod("next", priorityClassName="low")

    def deleted_meanwhile(exchange: Exchange) -> Answer:
        path = "/api/v1/namespaces/default/pods/vip"
        priorities.api.delete(path, params={"gracePeriodSeconds": "0"})
        return exchange.forward()

    with (
        faulty(priorities.proxy, Fault("POST", "/vip/binding$", deleted_meanwhile)) as between,
        priorities.running_poller(proxy=between.url) as poller,
    ):
        poller.says("default/next fits nowhere")
        poller.says("default/next is bound to n1")


def test_a_preemptor_whose_binding_fails_keeps_the_room_that_was_made_for_it(priorities: Cluster) -> None:
    priorities.add_node("n1", cpu="1")
    priorities.add_pod("old", requests={"cpu": "1"}, nodeName="n1", priorityClassName="low")
    priorities.add_pod("vip", requests={"cpu": "1"}, priorityClassName="high")
    gone = {"gracePeriodSeconds": "0"}
    with (
        faulty(priorities.proxy, Fault("POST", "/vip/binding$", answer(422, REFUSED), ALWAYS)) as between,
        priorities.running_poller("--pod-initial-backoff=3", proxy=between.url) as poller,
    ):
        poller.says("default/vip preempts default/old on n1")
        priorities.api.delete("/api/v1/namespaces/default/pods/old", params=gone)
        poller.says("default/vip: binding failed")
        priorities.add_pod("eager", requests={"cpu": "1"}, priorityClassName="middle")
        poller.says("default/eager fits nowhere")
    assert priorities.placement()["eager"] is None


def test_a_group_whose_size_is_no_number_costs_its_own_pods_only(cluster: Cluster) -> None:
    cluster.add_node("n1")
    odd = {"labels": {"poller/group": "odd"}, "annotations": {"poller/group-size": "9" * 5000}}
    cluster.add_pod("odd", metadata=odd)
    cluster.add_pod("web")
    done = cluster.poller()
    assert done.returncode == 3, done.stderr
    assert cluster.placement() == {"odd": None, "web": "n1"}
    assert "Traceback" not in done.stderr


def test_a_dry_run_forgets_pods_that_are_deleted(one_place: Cluster) -> None:
    with one_place.running_poller("--dry-run") as poller:
        poller.says("default/web would be assigned to n1")
        one_place.api.delete("/api/v1/namespaces/default/pods/web", params={"gracePeriodSeconds": "0"})
        one_place.add_pod("next")
        poller.says("default/next would be assigned to n1")


def test_a_binding_that_a_status_says_has_failed_was_not_made(one_place: Cluster) -> None:
    """Such as a webhook or a proxy may answer: the HTTP status says 201, its body says Failure."""
    with faulty(one_place.proxy, Fault("POST", "/binding$", answer(201, REFUSED), ALWAYS)) as between:
        done = one_place.poller(proxy=between.url)
    assert done.returncode == 3, done.stderr
    assert "default/web: binding failed: POST" in done.stderr
    assert "is bound to" not in done.stderr
    assert one_place.placement() == {"web": None}
    assert one_place.events("Scheduled") == []


AT_ONCE = """
from lib.scheduling.status import wait

class AtOnce:
    name = "AtOnce"

    def permit(self, state, pod, node_name, waited):
        return None if waited else wait("not yet")
"""


def test_a_pod_that_permit_held_is_tried_again_when_the_proxy_is_back(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "at_once.py").write_text(AT_ONCE)
    cluster.add_node("n1")
    names = [f"web-{i}" for i in range(5)]
    for name in names:
        cluster.add_pod(name)
    socket = cluster.folder / "held.sock"
    with ExitStack() as stack:

        def hang_up(_: Exchange) -> None:
            stack.close()  # so the other bindings have nowhere to go

        with (
            faulty(cluster.proxy, Fault("POST", "/binding$", hang_up)) as between,
            cluster.running_poller(
                "--bind-workers=1",
                f"--plugin={tmp_path / 'at_once.py'}",
                proxy=stack.enter_context(kubectl_proxy(between.url, unix_socket=socket)),
            ) as poller,
        ):
            poller.says("nothing answers at unix://")
            with kubectl_proxy(cluster.server, cluster.kubeconfig, socket):
                eventually(lambda: cluster.placement() == dict.fromkeys(names, "n1"), within=60)


def test_a_pod_that_another_binds_between_two_lists_is_counted_where_it_runs(cluster: Cluster) -> None:
    """Its first list shows it without a node, the second one on a node: it isn't decided on again."""
    cluster.add_node("n1", cpu="1")
    cluster.add_pod("web", requests={"cpu": "800m"})
    binding = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n1"}}

    def bind(exchange: Exchange) -> Answer:
        cluster.post("/api/v1/namespaces/default/pods/web/binding", binding)
        return exchange.forward()

    assigned = "/pods.*nodeName(!|%21)"
    with faulty(cluster.proxy, Fault("GET", assigned, bind)) as between:
        cluster.add_pod("second", requests={"cpu": "800m"})
        done = cluster.poller(proxy=between.url)
    assert "default/web" not in done.stderr
    assert cluster.placement() == {"web": "n1", "second": None}


@pytest.mark.parametrize("how", [(), ("--watch",)], ids=["polling", "watching"])
def test_a_pod_that_another_binds_before_our_binding_is_counted_where_it_runs(
    cluster: Cluster, how: tuple[str, ...]
) -> None:
    """Source: a binding that is refused with 409 is looked up, and what is found is applied."""
    for name in ("n1", "n2"):
        cluster.add_node(name, labels={"name": name}, cpu="1")
    cluster.add_pod("web", requests={"cpu": "800m"}, nodeSelector={"name": "n1"})
    binding = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n2"}}

    def bind(exchange: Exchange) -> Answer:
        cluster.post("/api/v1/namespaces/default/pods/web/binding", binding)
        return exchange.forward()

    with (
        faulty(cluster.proxy, Fault("POST", "/web/binding$", bind)) as between,
        cluster.running_poller(*how, proxy=between.url) as poller,
    ):
        poller.says("default/web was bound by someone else before it could be bound")
        for name in ("n1", "n2"):
            cluster.add_pod(f"on-{name}", requests={"cpu": "800m"}, nodeSelector={"name": name})
        poller.says("default/on-n1 is bound to n1")
        poller.says("default/on-n2 fits nowhere")
    assert cluster.placement() == {"web": "n2", "on-n1": "n1", "on-n2": None}
