"""Kubernetes' own gangs: pods that name a PodGroup of scheduling.k8s.io in `spec.schedulingGroup`.

Each scenario is played to poller and, with POLLER_ALL_CASES=1, to kube-scheduler, on a real kube-apiserver
with the gates on: with both, the same pods get a node, and the same ones are said to be unschedulable. The
embedded server serves poller alike.
"""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from all_cases import ALL_CASES
from cluster import Cluster, Json, eventually, http_client
from conftest import NO_REAL_ONE, embedded
from poller_process import run_poller

from scripts.servers.kubectl import kubectl_proxy
from scripts.servers.process import ending_with_us
from scripts.servers.real import apiserver, assets

GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"
SERVED = "--runtime-config=scheduling.k8s.io/v1alpha2=true"
POD_GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
GONE = ("deletionTimestamp",)
MERGE = {"Content-Type": "application/merge-patch+json"}

PLAYED = ["poller, embedded", "poller --watch", *["kube-scheduler", "poller"] * ALL_CASES]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster | None]:
    """A real server with the gates on; None if there is none."""
    folder = tmp_path_factory.mktemp("gangs")
    if not assets():
        yield None
        return
    with (
        apiserver(folder, options=[GATES, SERVED]) as running,
        kubectl_proxy(running.url, running.kubeconfig) as proxy,
        http_client(proxy) as api,
    ):
        cluster = Cluster(running.url, proxy, running.kubeconfig, folder, api)
        yield cluster


@pytest.fixture(scope="module", params=PLAYED)
def scheduled(
    request: pytest.FixtureRequest, real: Cluster | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A server, with a scheduler."""
    who, _, options = request.param.partition(" ")
    if who == "poller,":
        with embedded(tmp_path_factory.mktemp("embedded")) as server, server.running_poller():
            yield server
    elif real is None:
        pytest.skip(NO_REAL_ONE)
    elif who == "poller":
        with real.running_poller(*options.split()):
            yield real
    else:
        with _kube_scheduler(real, real.folder):
            yield real


def _kube_scheduler(server: Cluster, folder: Path) -> Any:
    binary = shutil.which("kube-scheduler", path=assets())
    if not binary:
        pytest.skip("no kube-scheduler")
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(server.kubeconfig)},
        "profiles": [{"schedulerName": "my-scheduler"}],
    }
    file = folder / "kube-scheduler.yaml"
    file.write_text(json.dumps(config))  # JSON is YAML
    command = ending_with_us([binary, f"--config={file}", "--secure-port=0", GATES])
    return _Ended(command, folder / "kube-scheduler.log")


class _Ended:
    """A process for as long as a block takes."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._command, self._log = command, log

    def __enter__(self) -> None:
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=out, stderr=out)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(60)
        assert self._process.stdin
        self._process.stdin.close()


class Scene:
    """A cluster whose nodes have room for so many pods, without pods and groups."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self._looks = cluster, 0

    def node(self, name: str, room: int) -> None:
        self.cluster.add_node(name, cpu=str(room))

    def group(self, needed: int, policy: str = "gang") -> None:
        gang = {"gang": {"minCount": needed}} if policy == "gang" else {policy: {}}
        self.cluster.post(POD_GROUPS, {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": gang}})

    def delete_group(self) -> None:
        """Without its finalizer: no controller takes it away here."""
        path = f"{POD_GROUPS}/g"
        self.cluster.api.patch(path, json={"metadata": {"finalizers": None}}, headers=MERGE)
        self.cluster.api.delete(path)

    def pods(self, names: str, **spec: Any) -> None:
        for name in names:
            group = {"podGroupName": "g"}
            self.cluster.add_pod(name, requests={"cpu": "1"}, schedulingGroup=group, **spec)

    def delete(self, name: str) -> None:
        self.cluster.api.delete(f"/api/v1/namespaces/default/pods/{name}", params={"gracePeriodSeconds": "0"})

    def leads_to(self, *, placed: int, unschedulable: int = 0) -> None:
        """So many pods of the group get nodes, and so many are said to be unschedulable.

        Once they are, another pod is placed: so the scheduler has looked at everything by then.
        """
        eventually(lambda: self._seen() == (placed, unschedulable))
        self._looks += 1
        name = f"look-{self._looks}"
        self.cluster.add_pod(name, requests={"memory": "1Mi"})
        eventually(lambda: self.cluster.pod(name)["spec"].get("nodeName"))
        assert self._seen() == (placed, unschedulable)

    def _seen(self) -> tuple[int, int]:
        pods = [pod for pod in self.cluster.pods().values() if "schedulingGroup" in pod["spec"]]
        conditions = [each for pod in pods for each in pod["status"].get("conditions", ())]
        said = [(each["type"], each["status"], each.get("reason")) for each in conditions]
        placed = sum("nodeName" in pod["spec"] for pod in pods)
        return placed, said.count(("PodScheduled", "False", "Unschedulable"))


@pytest.fixture
def scene(scheduled: Cluster) -> Iterator[Scene]:
    scene = Scene(scheduled)
    yield scene
    scheduled.clear()
    scene.delete_group()


def enough_pods_and_room(scene: Scene) -> None:
    scene.node("n1", 3)
    scene.group(3)
    scene.pods("ab")
    scene.leads_to(placed=0)
    scene.pods("c")
    scene.leads_to(placed=3)


def the_group_comes_after_its_pods(scene: Scene) -> None:
    scene.node("n1", 2)
    scene.pods("ab")
    scene.leads_to(placed=0)
    scene.group(2)
    scene.leads_to(placed=2)


def room_for_too_few(scene: Scene) -> None:
    scene.node("n1", 2)
    scene.group(3)
    scene.pods("abc")
    scene.leads_to(placed=0, unschedulable=3)
    scene.node("n2", 1)
    scene.leads_to(placed=3)


def room_for_enough_but_not_for_all(scene: Scene) -> None:
    scene.node("n1", 2)
    scene.group(2)
    scene.pods("abc")
    scene.leads_to(placed=2, unschedulable=1)
    scene.node("n2", 1)
    scene.leads_to(placed=3)


def more_come_when_enough_run(scene: Scene) -> None:
    scene.node("n1", 3)
    scene.group(2)
    scene.pods("ab")
    scene.leads_to(placed=2)
    scene.pods("cd")
    scene.leads_to(placed=3, unschedulable=1)


def one_by_one(scene: Scene) -> None:
    scene.node("n1", 2)
    scene.pods("a")
    scene.leads_to(placed=0)
    scene.group(0, "basic")
    scene.leads_to(placed=1)
    scene.pods("bc")
    scene.leads_to(placed=2, unschedulable=1)


def a_group_that_is_deleted_and_made_again(scene: Scene) -> None:
    scene.node("n1", 2)
    scene.group(3)
    scene.pods("ab")
    scene.leads_to(placed=0)
    scene.delete_group()
    scene.pods("c")
    scene.leads_to(placed=0)
    scene.delete("c")
    scene.group(2)
    scene.leads_to(placed=2)


def a_group_that_is_deleted_when_it_runs(scene: Scene) -> None:
    scene.node("n1", 3)
    scene.group(2)
    scene.pods("ab")
    scene.leads_to(placed=2)
    scene.delete_group()
    scene.pods("c")
    scene.leads_to(placed=2)


def gated_pods_that_are_missing(scene: Scene) -> None:
    scene.node("n1", 3)
    scene.group(2)
    scene.pods("ab", schedulingGates=[{"name": "example.com/quota"}])
    scene.leads_to(placed=0)
    for name in "ab":
        scene.cluster.patch(f"/api/v1/namespaces/default/pods/{name}", {"spec": {"schedulingGates": None}})
    scene.leads_to(placed=2)


def victims_that_make_room_for_enough(scene: Scene) -> None:
    scene.node("n1", 1)
    scene.node("n2", 1)
    scene.cluster.add_pod("victim", requests={"cpu": "1"}, nodeName="n2")
    scene.group(2)
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    scene.cluster.api.post(classes, json={"metadata": {"name": "high"}, "value": 100})
    scene.pods("ab", priorityClassName="high")
    eventually(lambda: "deletionTimestamp" in scene.cluster.pod("victim").get("metadata", GONE))
    scene.delete("victim")  # no kubelet does it, but the embedded one
    scene.leads_to(placed=2)


@pytest.mark.parametrize(
    "play",
    [
        enough_pods_and_room,
        the_group_comes_after_its_pods,
        room_for_too_few,
        room_for_enough_but_not_for_all,
        more_come_when_enough_run,
        one_by_one,
        a_group_that_is_deleted_and_made_again,
        a_group_that_is_deleted_when_it_runs,
        gated_pods_that_are_missing,
        victims_that_make_room_for_enough,
    ],
    ids=lambda play: play.__name__,
)
def test_a_gang_is_placed_as_kube_scheduler_places_it(scene: Scene, play: Callable[[Scene], None]) -> None:
    play(scene)


def test_a_gang_is_placed_when_it_needs_fewer_pods_now(tmp_path: Path) -> None:
    """As from Kubernetes 1.37 on: in 1.36, `minCount` can't be changed."""
    with embedded(tmp_path) as cluster, cluster.running_poller():
        scene = Scene(cluster)
        scene.node("n1", 3)
        scene.group(3)
        scene.pods("ab")
        scene.leads_to(placed=0)
        cluster.patch(f"{POD_GROUPS}/g", {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}})
        scene.leads_to(placed=2)


def test_questions_read_the_pod_groups(tmp_path: Path) -> None:
    """`why` and `try` on the cluster, and on what `save` wrote of it."""
    with embedded(tmp_path) as cluster:
        scene = Scene(cluster)
        scene.node("n1", 2)
        scene.group(3)
        scene.pods("ab")

        def answer(*arguments: str) -> Json:
            done = run_poller(*arguments, "-o", "json")
            assert done.stderr == ""
            found: Json = json.loads(done.stdout)
            return found

        proxy = f"--proxy={cluster.proxy}"
        saved = tmp_path / "saved.json"
        assert run_poller("save", str(saved), proxy).returncode == 0
        for where in (proxy, f"--from={saved}"):
            assert answer("why", "a", where)["message"] == "waiting for 1 more of 3"
        said = run_poller("why", "a", proxy).stdout
        assert "default/a waits for its group g, which is placed when 3 of its pods have room" in said
        assert "is it running?" not in said, "a pod that is held has no event"

        pods = [_manifest(name, "g") for name in "cde"]
        file = tmp_path / "more.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
        found = answer("try", "-f", str(file), proxy)
        assert [each["node"] for each in found["pods"]] == [None] * 3, "two of three fit"
        scene.node("n2", 1)
        found = answer("try", "-f", str(file), proxy)
        assert None not in [each["node"] for each in found["pods"]]


def _manifest(name: str, group: str) -> Json:
    container = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": "my-scheduler", "schedulingGroup": {"podGroupName": group}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {**spec, "containers": [container]},
    }
