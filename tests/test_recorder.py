"""Events, conditions and evictions: they delay no binding, and outdated ones aren't written."""

from contextlib import ExitStack
from threading import Event

from cluster import Cluster, eventually
from faults import ALWAYS, Exchange, Fault, delay, faulty, hold

from scripts.servers.kubectl import kubectl_proxy

ON_ONE_SERVER = True


def test_events_that_are_never_answered_hold_up_no_binding(cluster: Cluster) -> None:
    cluster.add_node("n1")
    for i in range(31):
        cluster.add_pod(f"web-{i}")
    with (
        faulty(cluster.proxy, Fault("POST", "/events$", delay(600), ALWAYS)) as between,
        cluster.running_poller("--bind-workers=8", proxy=between.url) as poller,
    ):
        poller.says("default/web-30 is bound to n1")
        cluster.add_pod("late")
        poller.says("default/late is bound to n1")


def test_nobody_is_evicted_for_a_pod_that_was_deleted_while_the_proxy_was_away(priorities: Cluster) -> None:
    priorities.add_node("n1", cpu="1", pods="10")
    priorities.add_pod("old", requests={"cpu": "900m"}, nodeName="n1", priorityClassName="low")
    priorities.add_pod("vip", requests={"cpu": "900m"}, priorityClassName="high")
    socket = priorities.folder / "evicting.sock"
    with ExitStack() as stack:

        def hang_up(_: Exchange) -> None:
            stack.close()  # before the first of the writes about vip

        with (
            faulty(priorities.proxy, Fault("PATCH", "/pods/vip/status$", hang_up)) as between,
            priorities.running_poller(
                proxy=stack.enter_context(kubectl_proxy(between.url, unix_socket=socket))
            ) as poller,
        ):
            poller.says("default/vip preempts default/old on n1")
            poller.says("nothing answers at unix://")
            priorities.api.delete("/api/v1/namespaces/default/pods/vip", params={"gracePeriodSeconds": "0"})
            with kubectl_proxy(priorities.server, priorities.kubeconfig, socket):
                for name in ("next", "last"):  # what is kept for later is written by the end of a tick
                    priorities.add_pod(name, requests={"cpu": "1m"})
                    poller.says(f"default/{name} is bound to n1")
                eventually(lambda: len(priorities.events("Scheduled")) == 2)
    old = priorities.pod("old")
    assert "deletionTimestamp" not in old["metadata"]
    assert priorities.events("Preempted") == []


def test_who_is_to_be_evicted_is_so_however_slow_the_writes_before_it_are(priorities: Cluster) -> None:
    priorities.add_node("n1", cpu="1")
    priorities.add_node("n2", cpu="100m")
    priorities.add_pod("old", requests={"cpu": "900m"}, nodeName="n1", priorityClassName="low")
    priorities.add_pod("small", requests={"cpu": "50m"}, nodeName="n1", priorityClassName="high")
    priorities.add_pod("vip", requests={"cpu": "900m"}, priorityClassName="high")
    let_go = Event()
    with (
        faulty(priorities.proxy, Fault("PATCH", "/pods/vip/status$", hold(let_go), ALWAYS)) as between,
        priorities.running_poller(proxy=between.url) as poller,
    ):
        poller.says("default/vip preempts default/old on n1")
        gone = {"gracePeriodSeconds": "0"}  # what has room again could be tried again
        priorities.api.delete("/api/v1/namespaces/default/pods/small", params=gone)
        for name in ("next", "last"):  # a tick that binds the second began when that was known
            priorities.add_pod(name, requests={"cpu": "1m"})
            poller.says(f"default/{name} is bound to n2")
        let_go.set()
        eventually(lambda: priorities.events("Preempted"))
