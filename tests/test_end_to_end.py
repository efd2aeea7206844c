"""poller.py as its users run it: a process beside a real kubectl proxy, in front of an API server.

Each test runs against the embedded API server, and against a real etcd and kube-apiserver where they are.
"""

import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from cluster import NEVER, Cluster, eventually
from faults import faulty
from poller_process import with_constant

from scripts.servers.kubectl import KUBECTL

UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def scheduled_condition(pod: dict[str, Any]) -> dict[str, Any]:
    found = [each for each in pod["status"].get("conditions", []) if each["type"] == "PodScheduled"]
    return found[0] if found else {}


# --- placing --------------------------------------------------------------------------------------------


def test_all_that_wait_are_bound_once_and_others_left_alone(cluster: Cluster) -> None:
    for name in ("n1", "n2", "n3"):
        cluster.add_node(name)
    ours = {f"ours-{i}": cluster.add_pod(f"ours-{i}") for i in range(20)}
    for i in range(5):
        cluster.add_pod(f"theirs-{i}", scheduler="another")
    theirs = {name: pod for name, pod in cluster.pods().items() if name.startswith("theirs")}

    with faulty(cluster.proxy) as between:
        done = cluster.poller(proxy=between.url, afresh=True)

    assert done.returncode == 0, done.stderr
    after = cluster.pods()
    for name, before in ours.items():
        assert after[name]["spec"]["nodeName"] in ("n1", "n2", "n3")
        assert between.requests.count(("POST", f"/api/v1/namespaces/default/pods/{name}/binding")) == 1
        event = next(e for e in cluster.events("Scheduled") if e["involvedObject"]["name"] == name)
        node = after[name]["spec"]["nodeName"]
        assert event["message"] == f"Successfully assigned default/{name} to {node}"
        assert event["type"] == "Normal"
        assert event["source"]["component"] == "my-scheduler"
        assert event["involvedObject"]["uid"] == before["metadata"]["uid"]
        assert event["metadata"]["name"].startswith(f"{name}.")
        assert event["count"] == 1
        assert event["firstTimestamp"] == event["lastTimestamp"] is not None
    assert len(cluster.events("Scheduled")) == 20
    assert {name: after[name] for name in theirs} == theirs
    assert re.search(r"ended after [\d.]+ s; pods: 20 bound$", done.stderr.strip())


def test_kubectl_shows_it(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_pod("web")
    cluster.poller()

    assert re.search(
        r"Normal +Scheduled +pod/web +Successfully assigned default/web to n1",
        cluster.kubectl("get", "events"),
    )
    assert re.search(
        r"Scheduled .* my-scheduler +Successfully assigned", cluster.kubectl("describe", "pod", "web")
    )
    assert re.search(r"^web .* n1 ", cluster.kubectl("get", "pods", "-o", "wide"), re.MULTILINE)
    assert "Scheduled" in cluster.kubectl("get", "events", "--field-selector", "source=my-scheduler")


def test_a_node_must_be_open_wanted_and_have_room(cluster: Cluster) -> None:
    cluster.add_node("cordoned")
    cluster.kubectl("cordon", "cordoned")
    cluster.add_node("tainted")
    cluster.kubectl("taint", "nodes", "tainted", "dedicated=infra:NoSchedule")
    cluster.add_node("small", cpu="100m")
    cluster.add_node("ssd", labels={"disk": "ssd"})
    cluster.add_pod("wants-ssd", nodeSelector={"disk": "ssd"})
    cluster.add_pod("fits-ssd-only", requests={"cpu": "2"})
    cluster.add_pod(
        "tolerant", requests={"cpu": "3"}, tolerations=[{"key": "dedicated", "operator": "Exists"}]
    )
    cluster.add_pod("nowhere", requests={"cpu": "3"})

    done = cluster.poller()

    assert done.returncode == 3
    assert cluster.placement() == {
        "wants-ssd": "ssd",
        "fits-ssd-only": "ssd",
        "tolerant": "tainted",
        "nowhere": None,
    }
    reasons = "1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 2 Insufficient cpu"
    assert f"default/nowhere fits nowhere: 0/4 nodes are available: {reasons}." in done.stderr


def test_what_one_tick_assumes_counts_for_its_next_pod_and_so_does_what_is_bound(cluster: Cluster) -> None:
    cluster.add_node("n1", cpu="1")
    cluster.add_node("n2", cpu="1", pods="1")
    for name in ("a", "b", "c"):
        cluster.add_pod(name, requests={"cpu": "500m"})
    assert cluster.poller().returncode == 0
    assert sorted(node for node in cluster.placement().values() if node) == ["n1", "n1", "n2"]

    cluster.add_pod("d", requests={"cpu": "100m"})
    assert cluster.poller().returncode == 3
    assert cluster.pod("d")["spec"].get("nodeName") is None


def test_the_highest_priority_gets_the_last_place(cluster: Cluster) -> None:
    cluster.add_node("n1", pods="1")
    cluster.add_pod("first", requests={"cpu": "100m"})
    cluster.add_pod("important", priorityClassName="system-cluster-critical", namespace="kube-system")
    cluster.poller()
    assert cluster.placement() == {"first": None, "important": "n1"}


def test_some_pods_are_passed_over(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    cluster.add_pod("leaving", metadata={"finalizers": ["example.com/hold"]})
    cluster.kubectl("delete", "pod", "leaving", "--wait=false")

    done = cluster.poller()

    assert done.returncode == 0, done.stderr
    assert cluster.placement() == {"gated": None, "leaving": None}
    assert "not scheduled: default/leaving is being deleted" in done.stderr
    assert "not scheduled: default/gated waiting for scheduling gates: [example.com/wait]" in done.stderr


def test_pods_of_all_namespaces_and_of_many_pages(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add_node("n1")
    cluster.add_pod("elsewhere", namespace="kube-system")
    for i in range(9):
        cluster.add_pod(f"p{i}")
    small_pages = with_constant(tmp_path, "lib.kube.pager", "PAGE", 4)
    with faulty(cluster.proxy) as between:
        done = cluster.poller("--dry-run", proxy=between.url, script=small_pages)
    assert done.returncode == 0
    assert done.stderr.count(" would be assigned to n1") == 10
    assert "kube-system/elsewhere would be assigned to n1" in done.stderr
    assert [path for _, path in between.requests if path.startswith("/api/v1/pods?") and "continue=" in path]


def test_the_loop_places_what_comes_later(cluster: Cluster) -> None:
    cluster.add_node("n1")
    with cluster.running_poller(afresh=True) as poller:
        for name in ("early", "late"):
            cluster.add_pod(name)
            poller.says(f"default/{name} is bound to n1")
    assert cluster.placement() == {"early": "n1", "late": "n1"}


def test_the_garbage_collector_runs_from_the_second_tick_on(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add_node("n1")
    policy = tmp_path / "collects.py"
    policy.write_text(
        "import gc\n\ndef filter(pod, node):\n    print(pod.metadata.name, gc.isenabled())\n    return True\n"
    )
    cluster.add_pod("early")
    with cluster.running_poller("--scheduler-name", "my-scheduler", "--plugin", str(policy)) as poller:
        poller.says("early False")
        poller.says("default/early is bound to n1")
        cluster.add_pod("late", requests={"cpu": "1"})
        poller.says("late True")


# --- what fits nowhere ----------------------------------------------------------------------------------


def test_a_pod_that_fits_nowhere_has_one_event_and_one_condition(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_node("n2")
    cluster.add_pod("old", nodeName="n2")
    cluster.add_pod("big", requests={"cpu": "64"})
    never = "0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    never = f"no new claims to deallocate, preemption: {never}"
    first, second = (
        f"0/2 nodes are available: 2 Insufficient cpu. {never}",
        f"0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. {never}",
    )
    with (
        faulty(cluster.proxy) as between,
        cluster.running_poller("--interval=0.05", proxy=between.url) as poller,
    ):
        poller.says(first)
        eventually(lambda: scheduled_condition(cluster.pod("big")))
        polled = len(between.requests)
        eventually(lambda: len(between.requests) > polled + 20)
        (event,) = cluster.events("FailedScheduling")
        assert (event["type"], event["message"], event["count"]) == ("Warning", first, 1)
        assert event["source"]["component"] == "my-scheduler"
        assert UNSCHEDULABLE.items() <= scheduled_condition(cluster.pod("big")).items()

        cluster.kubectl("cordon", "n1")
        cluster.kubectl("delete", "pod", "old", "--force")  # a reason to try again
        eventually(lambda: cluster.events("FailedScheduling")[0]["message"] == second)
        eventually(lambda: scheduled_condition(cluster.pod("big"))["message"] == second)
        (changed,) = cluster.events("FailedScheduling")
        assert changed["metadata"]["name"] == event["metadata"]["name"]
        assert changed["count"] == 2
        patches = [path for method, path in between.requests if method == "PATCH"]
        assert len(patches) == 3  # the condition twice, the event once

        cluster.add_node("n3", cpu="100")
        poller.says("default/big is bound to n3")
        # Not said again from tick to tick; a third time at most, while the new node isn't ready yet.
        assert poller.said.count("fits nowhere") in (2, 3)
    assert re.search(r"Warning +FailedScheduling +pod/big", cluster.kubectl("get", "events"))


def test_a_later_run_goes_on_counting(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_pod("big", requests={"cpu": "64"})
    assert cluster.poller().returncode == 3
    cluster.kubectl("cordon", "n1")
    assert cluster.poller().returncode == 3
    (event,) = cluster.events("FailedScheduling")
    assert event["count"] == 2
    assert event["message"].startswith(
        "0/1 nodes are available: 1 node(s) were unschedulable. no new claims to deallocate, preemption:"
    )


def test_without_nodes_it_says_so(cluster: Cluster) -> None:
    cluster.add_pod("web")
    assert cluster.poller().returncode == 3
    (event,) = cluster.events("FailedScheduling")
    assert event["message"] == "no nodes available to schedule pods"


# --- options --------------------------------------------------------------------------------------------


def test_a_dry_run_writes_nothing(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_pod("web")
    before = cluster.pods()
    with faulty(cluster.proxy) as between:
        done = cluster.poller("--dry-run", proxy=between.url)
        assert done.returncode == 0
        assert "default/web would be assigned to n1" in done.stderr
        cluster.add_pod("big", requests={"cpu": "64"})
        assert cluster.poller("--dry-run", proxy=between.url).returncode == 3
        with cluster.running_poller("--dry-run", "--interval=0.05", proxy=between.url) as poller:
            polled = len(between.requests)
            eventually(lambda: len(between.requests) > polled + 12)
            assert poller.said.count("default/web would be assigned to n1") == 1
        assert {method for method, _ in between.requests} == {"GET"}
    assert cluster.pods()["web"] == before["web"]


def test_a_seed_repeats_the_choices(cluster: Cluster) -> None:
    for i in range(5):
        cluster.add_node(f"n{i}")
    for i in range(8):
        cluster.add_pod(f"p{i}")

    def choices(seed: str) -> list[str]:
        said = cluster.poller("--dry-run", "--seed", seed).stderr
        return re.findall(r"default/(p\d would be assigned to n\d)", said)

    assert len(choices("1")) == 8
    assert choices("1") == choices("1")
    assert choices("1") != choices("2")


def test_options_come_from_the_environment_too(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_pod("web", scheduler="another")
    done = cluster.poller(POLLER_SCHEDULER_NAME="another", POLLER_DRY_RUN="1")
    assert "default/web would be assigned to n1" in done.stderr


def test_verbose_says_why_node_by_node(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_node("n2")
    cluster.kubectl("cordon", "n2")
    cluster.add_pod("web")
    said = cluster.poller("-v").stderr
    assert "default/web: not n2: node(s) were unschedulable (NodeUnschedulable)" in said
    assert "default/web: n1 scores" in said
    assert "POST /api/v1/namespaces/default/pods/web/binding 201" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_its_wait(cluster: Cluster, number: signal.Signals) -> None:
    cluster.add_node("n1")
    cluster.add_pod("web")
    with cluster.running_poller(NEVER, afresh=True) as poller:
        poller.says("is bound to n1")
        poller.stop(number)
        assert poller.process.returncode == 0
    assert re.search(rf"ended by {number.name} after [\d.]+ s; pods: 1 bound$", poller.said.strip())


def test_it_can_start_a_proxy_of_its_own(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_pod("web")
    path = {"KUBECONFIG": str(cluster.kubeconfig), "PATH": str(Path(KUBECTL).parent)}
    assert cluster.poller("--start-proxy", afresh=True, **path).returncode == 0

    with cluster.running_poller("--start-proxy", "-v", **path) as poller:
        poller.says("kubectl proxy serves on")
        socket = re.findall(r"kubectl proxy serves on (?:unix://)?(\S+)", poller.said)[0]
        eventually(lambda: proxies(socket))
        cluster.add_pod("second")
        poller.says("default/second is bound")

        subprocess.run(["kill", "-9", *proxies(socket)], check=True)  # it is started again when it dies
        cluster.add_pod("third")
        poller.says("default/third is bound")

        poller.stop(signal.SIGINT)
    assert proxies(socket) == []
    assert not Path(socket).parent.exists()


def test_its_proxy_ends_with_it_even_if_it_is_killed(cluster: Cluster) -> None:
    path = {"KUBECONFIG": str(cluster.kubeconfig), "PATH": str(Path(KUBECTL).parent)}
    with cluster.running_poller("--start-proxy", "-v", afresh=True, **path) as poller:
        poller.says("kubectl proxy serves on")
        socket = re.findall(r"kubectl proxy serves on (?:unix://)?(\S+)", poller.said)[0]
        eventually(lambda: proxies(socket))
        poller.stop(signal.SIGKILL)
        eventually(lambda: proxies(socket) == [])


def test_the_page_stays_at_its_address_when_its_proxy_ends_and_is_started_again(cluster: Cluster) -> None:
    path = {"KUBECONFIG": str(cluster.kubeconfig), "PATH": str(Path(KUBECTL).parent)}
    with cluster.running_poller("--start-proxy", "--ui", **path) as poller:
        poller.says("the page is at ", within=60)
        (address,) = re.findall(r"the page is at (\S+/): ", poller.said)
        assert reads_nodes(address)
        children = ["pgrep", "--parent", str(poller.process.pid), "kubectl"]
        proxy = subprocess.run(children, capture_output=True, text=True, check=True).stdout.strip()
        subprocess.run(["kill", "-9", proxy], check=True)
        poller.says("starting it again", within=60)
        eventually(lambda: reads_nodes(address), within=60)


def reads_nodes(address: str) -> bool:
    """Whether the page at an address can read nodes."""
    answer = httpx.get(f"{address}api/v1/nodes", trust_env=False, verify=False)
    return answer.status_code == 200 and answer.json()["kind"] == "NodeList"


def proxies(socket: str) -> list[str]:
    """The ids of the processes that serve on a socket."""
    return subprocess.run(
        ["pgrep", "-f", f"proxy --unix-socket={socket}"], capture_output=True, text=True
    ).stdout.split()
