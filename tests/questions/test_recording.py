"""`record` watches a cluster, and `replay` takes what it wrote."""

import csv
import gzip
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster, Json, eventually
from objects import read
from poller_process import run_poller, started
from questions.questions_harness import Run

from lib.kube.objects import Pod
from lib.questions import snapshot
from lib.questions.recording import command
from lib.questions.recording.anonymous import Hashing
from lib.questions.recording.lines import body_of
from scripts.servers.kubectl import kubectl_proxy

HIDDEN = ["hunter2", "PASSWORD", "a-note", "do-this"]
"""Texts of the pods below that no recording may have: environment, annotations, commands."""


@contextmanager
def recording(cluster: Cluster, file: Path, *options: str, proxy: str = "") -> Iterator[Any]:
    """Record until the block ends. Yields the process, once it watches."""
    out, err = file.with_name(f"{file.name}.out"), file.with_name(f"{file.name}.err")
    command = ["record", f"--proxy={proxy or cluster.proxy}", "-o", str(file), "--for=1h", *options]
    with started(command, out, err) as process:
        eventually(lambda: '"BEGIN"' in text_of(file) or process.poll() is not None)
        assert process.poll() is None, err.read_text()
        yield process
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def text_of(file: Path) -> str:
    """What a recording holds, though it isn't complete yet."""
    if not file.exists():
        return ""
    if file.suffix != ".gz":
        return file.read_text()
    with gzip.open(file, "rt") as lines:
        found: list[str] = []
        with suppress(EOFError):
            while each := lines.readline():
                found.append(each)
    return "".join(found)


def a_day(cluster: Cluster) -> dict[str, str | None]:
    """Pods come, one after the other, and some leave. Returns where each was put."""
    where: dict[str, str | None] = {}
    for number in range(12):
        name = f"pod-{number}"
        container = {
            "name": "main",
            "image": "nginx",
            "command": ["do-this"],
            "env": [{"name": "PASSWORD", "value": "hunter2"}],
            "resources": {"requests": {"cpu": f"{300 + 100 * (number % 3)}m"}},
        }
        cluster.add_pod(
            name,
            metadata={"labels": {"app": "web"}, "annotations": {"note": "a-note"}},
            containers=[container],
        )
        where[name] = eventually(lambda name=name: cluster.placement()[name])
        if number % 3 == 2:
            gone = f"pod-{number - 1}"
            path = f"/api/v1/namespaces/default/pods/{gone}"
            cluster.api.request("DELETE", path, params={"gracePeriodSeconds": "0"})
            eventually(lambda gone=gone: gone not in cluster.pods())
            time.sleep(0.2)  # poller, too, sees that it is gone before the next pod comes
    return where


def replayed(file: Path, *options: str) -> tuple[Json, dict[str, str]]:
    """The figures of a replay, and the node of each pod."""
    placements = file.with_name(f"{file.name}.csv")
    done = run_poller("replay", str(file), "--placements", str(placements), "-o", "json", *options)
    assert done.stderr == "", done.stderr
    with placements.open() as rows:
        nodes = {row["pod"]: row["node"] for row in csv.DictReader(rows)}
    (figures,) = json.loads(done.stdout)["configs"]
    return figures, nodes


def test_a_replay_puts_pods_where_they_were_put(cluster: Cluster, tmp_path: Path) -> None:
    for number in range(4):
        cluster.add_node(f"n{number}")
    cluster.add_pod("before", nodeName="n3")
    file, hashed = tmp_path / "day.jsonl.gz", tmp_path / "hashed.jsonl"
    with recording(cluster, file), recording(cluster, hashed, "--anonymous"):
        with cluster.running_poller("--watch", "--seed", "7") as poller:
            poller.says("scheduling the pods")
            where = a_day(cluster)
        for each in (file, hashed):  # each has seen the last pod on its node
            eventually(lambda each=each: text_of(each).count("nodeName") > 12)
    said = (tmp_path / "day.jsonl.gz.out").read_text()
    assert "12 pods came, 4 ended" in said
    assert "gap" not in said

    figures, nodes = replayed(file, "--seed", "7")
    assert nodes == {f"default/{name}": node for name, node in where.items()}, text_of(file)
    assert (figures["arrived"], figures["placed"], figures["pending"]) == (12, 12, 0)
    assert replayed(file, "--seed", "7")[1] == nodes

    text, secret = text_of(file), text_of(hashed)
    assert [each for each in HIDDEN if each in text + secret] == []
    # Names of fields, such as a LimitRange's `default` of another test, are no secret.
    values = re.findall(r': ?"((?:pod-|n0|default|nginx|web|app)[^"]*)', secret)
    assert {*values} <= {"default-scheduler"}
    assert "kubernetes.io/hostname" in secret
    others = replayed(hashed, "--seed", "7")[0]
    same = ("arrived", "placed", "pending", "evictions")
    assert [figures[each] for each in same] == [others[each] for each in same]
    assert figures["allocated_percent"]["cpu"]["end"] == others["allocated_percent"]["cpu"]["end"] == 20.625


@pytest.mark.parametrize("servers", ["embedded"], indirect=True)
def test_a_recording_that_was_killed_is_read_up_to_there(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add_node("n1")
    file = tmp_path / "day.jsonl.gz"
    with recording(cluster, file) as process:
        cluster.add_pod("seen", nodeName="n1")
        eventually(lambda: '"seen"' in text_of(file))
        process.send_signal(signal.SIGKILL)
    body = file.read_bytes()
    for shorter in (body, body[:-3]):  # also in the middle of a line
        file.write_bytes(shorter)
        done = run_poller("replay", str(file), "-o", "json")
        assert json.loads(done.stdout)["configs"][0]["arrived"] >= (shorter is body)
        assert "this recording was broken off after" in done.stderr


@pytest.mark.parametrize("servers", ["embedded"], indirect=True)
def test_a_gap_is_recorded_and_told(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add_node("n1")
    socket, file = tmp_path / "proxy.sock", tmp_path / "day.jsonl"
    with kubectl_proxy(cluster.server, cluster.kubeconfig, socket) as proxy:
        stack = recording(cluster, file, proxy=proxy)
        stack.__enter__()
    try:
        says = file.with_name("day.jsonl.err")
        eventually(lambda: "are watched again as soon as they can be" in says.read_text())
        cluster.add_pod("meanwhile", nodeName="n1")
        socket.unlink(missing_ok=True)
        with kubectl_proxy(cluster.server, cluster.kubeconfig, socket):
            eventually(lambda: '"meanwhile"' in text_of(file))
            eventually(lambda: '"GAP"' in text_of(file))
    finally:
        stack.__exit__(None, None, None)
    assert "there is a gap of" in says.read_text()
    assert "gap" in file.with_name("day.jsonl.out").read_text()
    done = run_poller("replay", str(file), "-o", "json")
    assert "together: what happened then is missing" in done.stderr


@pytest.mark.parametrize("servers", ["embedded"], indirect=True)
def test_the_last_hours_are_kept_in_a_folder(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add_node("n1")
    cluster.add_pod("waits", nodeSelector={"is": "nowhere"})
    folder = tmp_path / "kept"
    command = ["record", f"--proxy={cluster.proxy}", "-o", str(folder), "--keep=12s"]
    with started(command, tmp_path / "out", tmp_path / "err") as process:
        eventually(lambda: len([*folder.glob("*.jsonl.gz")]) > 2 or process.poll() is not None)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, (tmp_path / "err").read_text()
    done = run_poller("why", "--from", str(folder), "-o", "json")
    found = json.loads(done.stdout)
    assert (found["gaps"], [each["pod"] for each in found["waits"]]) == ([], ["default/waits"]), done.stdout
    first = min(folder.glob("*.jsonl.gz"))
    os.utime(first, (0, 0))
    with started(command, tmp_path / "out", tmp_path / "err") as process:
        eventually(lambda: not first.exists() or process.poll() is not None)


@pytest.mark.parametrize("servers", ["embedded"], indirect=True)
def test_a_signal_between_two_files_ends_both(
    cluster: Cluster, tmp_path: Path, poller: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "LEAST_KEPT", 1.0)
    asked = []

    def read_cluster(*given: Any, **more: Any) -> Any:
        asked.append(given)
        if len(asked) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return snapshot.read_cluster(*given, **more)

    monkeypatch.setattr(command, "read_cluster", read_cluster)
    cluster.add_node("n1")
    done = poller("record", f"--proxy={cluster.proxy}", "-o", str(tmp_path / "kept"), "--keep=1s")
    assert (done.status, len(asked), signal.getsignal(signal.SIGTERM)) == (0, 2, signal.SIG_DFL)
    (file,) = (tmp_path / "kept").iterdir()
    assert gzip.decompress(file.read_bytes()).splitlines()[-1].startswith(b"{")  # it is whole
    assert "pods came" in done.out


def lines(file: Path, *lines: Json | str) -> str:
    """A recording with these lines, after the first."""
    texts = ['{"recording": 1, "began": "2026-01-01T00:00:00Z"}', *lines]
    file.write_text("".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in texts))
    return str(file)


def line(at: float, event: str, kind: str = "", name: str = "", **more: Any) -> Json:
    if not kind:
        return {"at": at, "event": event, **more}
    metadata = {"name": name, "uid": f"uid-{name}", **({"namespace": "default"} if kind == "Pod" else {})}
    return {"at": at, "event": event, "object": {"kind": kind, "metadata": metadata, **more}}


def a_node(at: float, event: str, name: str, cpu: str = "4") -> Json:
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return line(at, event, "Node", name, status={"allocatable": allocatable})


def a_pod(at: float, event: str, name: str, cpu: str = "1", **spec: Any) -> Json:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    return line(at, event, "Pod", name, spec={"containers": [container], **spec})


def figures(poller: Run, trace: str, *options: str) -> Json:
    done = poller("replay", trace, "-o", "json", *options)
    assert done.err == "", done.err
    (found,) = json.loads(done.out)["configs"]
    answer: Json = found
    return answer


def test_pods_run_as_long_as_they_ran(poller: Run, tmp_path: Path) -> None:
    trace = lines(
        tmp_path / "day.jsonl",
        a_node(0, "ADDED", "n1"),
        a_pod(0, "ADDED", "before", "3", nodeName="n1"),
        line(0, "BEGIN"),
        a_pod(5, "ADDED", "waits", "2"),
        a_pod(20, "DELETED", "before"),
        a_pod(30, "MODIFIED", "waits", "2", nodeName="n1"),  # late; a replay does it at 20 s
        a_pod(50, "DELETED", "waits"),
        line(60, "END"),
    )
    found = figures(poller, trace)
    assert (found["arrived"], found["placed"], found["pending"]) == (1, 1, 0)
    assert found["wait_seconds"]["p50"] == 15.0
    assert found["ended_at_seconds"] == 40.0
    assert found["allocated_percent"]["cpu"] == {"mean": 62.5, "peak": 75.0, "end": 0.0}


def being_deleted(pod: Json, at: str = "2026-01-01T00:00:40Z", grace: int = 30) -> Json:
    """The same, with what is seen of a pod that was deleted so many seconds before."""
    pod["object"]["metadata"] |= {"deletionTimestamp": at, "deletionGracePeriodSeconds": grace}
    return pod


@pytest.mark.parametrize(("before", "known"), [(False, True), (False, False), (True, True)])
def test_a_pod_that_is_being_deleted_is_no_victim(
    poller: Run, tmp_path: Path, before: bool, known: bool
) -> None:
    """It leaves by itself, and isn't made again."""
    low = [a_pod(0 if before else 1, "ADDED", "low", "3", nodeName="n1")]
    trace = lines(
        tmp_path / "day.jsonl",
        a_node(0, "ADDED", "n1"),
        *(low if before else ()),
        line(0, "BEGIN"),
        *(() if before else low),
        *([being_deleted(a_pod(10, "MODIFIED", "low", "3", nodeName="n1"))] if known else ()),
        a_pod(20, "ADDED", "high", "3", priority=7),
        a_pod(40, "DELETED", "low"),
        a_pod(41, "MODIFIED", "high", "3", priority=7, nodeName="n1"),
        line(60, "END"),
    )
    found = figures(poller, trace)
    assert (found["placed"], found["evictions"]) == ((1 if before else 2), 0) if known else (1, 1)
    waits = [each["seconds"] for each in found["longest_waits"] if each["pod"] == "default/high"]
    assert waits == [20.0 if known else 1.0]


def test_a_waiting_pod_that_is_deleted_is_tried_no_longer(poller: Run, tmp_path: Path) -> None:
    trace = lines(
        tmp_path / "day.jsonl",
        a_node(0, "ADDED", "n1"),
        line(0, "BEGIN"),
        a_pod(1, "ADDED", "held", "64"),
        being_deleted(a_pod(9, "MODIFIED", "held", "64")),
        a_node(10, "ADDED", "n2", "100"),
        being_deleted(a_pod(11, "MODIFIED", "held", "64", priority=1)),
        a_pod(20, "DELETED", "held"),
        line(30, "END"),
    )
    found = figures(poller, trace)
    assert (found["arrived"], found["placed"], found["gave_up"]) == (1, 0, 1)
    (wait,) = poller("why", "--from", trace, "-o", "json").json["waits"]
    assert (wait["seconds"], wait["node"]) == (8.0, None)


def test_a_recording_has_when_a_pod_was_deleted_and_what_holds_it() -> None:
    times = {"deletionTimestamp": "2026-01-01T00:00:40Z", "deletionGracePeriodSeconds": 30}
    metadata = {"name": "web", **times, "finalizers": ["batch.kubernetes.io/job-tracking"]}
    deleted = read(Pod, {"metadata": metadata, "spec": {"containers": []}})
    for metadata in (body_of(deleted)["metadata"], Hashing().body(body_of(deleted))["metadata"]):
        assert times.items() <= metadata.items()
        assert metadata["finalizers"] == ["batch.kubernetes.io/job-tracking"]


def test_a_static_pod_takes_its_room_as_long_as_it_was_there(poller: Run, tmp_path: Path) -> None:
    """No scheduler places it: its node's kubelet made it."""

    def static(at: float, event: str) -> Json:
        mirror = a_pod(at, event, "static", "3", nodeName="n1")
        mirror["object"]["metadata"]["ownerReferences"] = [{"kind": "Node", "name": "n1", "uid": "n1"}]
        return mirror

    trace = lines(
        tmp_path / "day.jsonl",
        a_node(0, "ADDED", "n1"),
        line(0, "BEGIN"),
        a_pod(1, "ADDED", "early", "2"),
        a_pod(2, "MODIFIED", "early", "2", nodeName="n1"),
        a_pod(4, "DELETED", "early"),
        static(5, "ADDED"),
        a_pod(10, "ADDED", "web", "2"),
        static(30, "DELETED"),
        line(60, "END"),
    )
    found = figures(poller, trace)
    assert (found["arrived"], found["placed"], found["evictions"]) == (2, 2, 0)
    assert [(each["pod"], each["seconds"]) for each in found["longest_waits"]] == [("default/web", 20.0)]


def test_a_pod_that_ran_before_can_be_evicted(poller: Run, tmp_path: Path) -> None:
    trace = lines(
        tmp_path / "day.jsonl",
        a_node(0, "ADDED", "n1"),
        a_pod(0, "ADDED", "low", "3", nodeName="n1"),
        line(0, "BEGIN"),
        a_pod(10, "ADDED", "high", "3", priority=7),
        a_pod(40, "DELETED", "low"),
        line(60, "END"),
    )
    found = figures(poller, trace)
    assert (found["placed"], found["evictions"], found["wait_seconds"]["p50"]) == (1, 1, 1.0)


def test_a_pod_that_is_deleted_already_when_it_is_first_seen_is_not_tried(
    poller: Run, tmp_path: Path
) -> None:
    trace = lines(
        tmp_path / "day.jsonl",
        a_node(0, "ADDED", "n1"),
        line(0, "BEGIN"),
        being_deleted(a_pod(5, "ADDED", "gone")),
        a_pod(10, "ADDED", "web"),
        line(60, "END"),
    )
    assert figures(poller, trace)["arrived"] == 1


def test_what_is_recorded_besides_nodes_and_pods_counts(poller: Run, tmp_path: Path) -> None:
    """A volume that is on one node."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
    volume = line(
        0, "ADDED", "PersistentVolume", "v", spec={"claimRef": {"name": "c"}, "nodeAffinity": affinity}
    )
    claim = line(0, "ADDED", "PersistentVolumeClaim", "c", spec={"volumeName": "v"})
    claim["object"]["metadata"] |= {
        "namespace": "default",
        "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
    }
    nodes = [a_node(0, "ADDED", name) for name in ("n1", "n2", "n3")]
    for each in nodes:
        each["object"]["metadata"]["labels"] = {"kubernetes.io/hostname": each["object"]["metadata"]["name"]}
    uses = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    trace = lines(
        tmp_path / "day.jsonl",
        *nodes,
        volume,
        claim,
        line(0, "BEGIN"),
        a_pod(1, "ADDED", "web", volumes=uses),
    )
    placements = tmp_path / "where.csv"
    poller("replay", trace, "--placements", str(placements))
    with placements.open() as rows:
        assert [row["node"] for row in csv.DictReader(rows)] == ["n2"]


def test_nodes_come_and_go(poller: Run, tmp_path: Path) -> None:
    trace = lines(
        tmp_path / "day.jsonl",
        a_node(0, "ADDED", "n1", "1"),
        line(0, "BEGIN"),
        a_pod(1, "ADDED", "web", "2"),
        a_node(10, "ADDED", "n2", "2"),
        a_node(20, "ADDED", "n3", "2"),
        a_node(30, "DELETED", "n2"),  # the pod moves to n3
        line(40, "END"),
    )
    placements = tmp_path / "where.csv"
    found = figures(poller, trace, "--placements", str(placements))
    assert (found["placed"], found["pending"], found["evictions"]) == (1, 0, 1)
    assert [row.split(",")[2:] for row in placements.read_text().splitlines()[1:]] == [
        ["n2", "1", "10"],
        ["n3", "1", "30"],
    ]


def test_a_pod_that_never_had_a_node_is_deleted_when_it_was(poller: Run, tmp_path: Path) -> None:
    trace = lines(
        tmp_path / "day.jsonl",
        a_node(0, "ADDED", "n1"),
        line(0, "BEGIN"),
        a_pod(1, "ADDED", "huge", "64"),
        a_pod(2, "ADDED", "gated", "1", schedulingGates=[{"name": "wait"}]),
        a_pod(3, "ADDED", "static", "1", nodeName="n1"),
        a_pod(9, "DELETED", "huge"),
        line(20, "END"),
    )
    found = figures(poller, trace)
    assert (found["arrived"], found["placed"], found["pending"], found["gave_up"]) == (2, 1, 0, 1)
    assert "deleted before they had a node" in poller("replay", trace).out


def test_other_nodes_can_take_the_place_of_the_recorded(poller: Run, tmp_path: Path) -> None:
    trace = lines(
        tmp_path / "day.jsonl",
        a_node(0, "ADDED", "n1"),
        line(0, "BEGIN"),
        a_pod(1, "ADDED", "huge", "64"),
        line(20, "END"),
    )
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nbig,64000,8192,0,\n")
    assert figures(poller, trace)["pending"] == 1
    assert figures(poller, trace, "--nodes", str(tmp_path / "nodes.csv"))["placed"] == 1


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("{", "day.jsonl:3: is not a line of a recording"),
        ('{"at": 1}', "day.jsonl:3: is not a line of a recording"),
        (line(1, "ADDED"), "day.jsonl:3: is not a line of a recording: ADDED without an object"),
        (line(1, "ADDED", "Secret", "s"), "objects of kind Secret aren't in recordings"),
        (a_node(1, "ADDED", "n2", "much"), "day.jsonl:3: is not a line of a recording: "),
        (line(-1, "ADDED", "Pod", "p"), "before the line before"),
        (line(1, "END"), "holds no nodes"),
    ],
)
def test_a_wrong_line_of_a_recording_is_named(poller: Run, tmp_path: Path, bad: Json | str, why: str) -> None:
    done = poller("replay", lines(tmp_path / "day.jsonl", line(0, "BEGIN"), bad))
    assert (done.status, done.out) == (1, "")
    assert why in done.err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("{}\n", "day.jsonl:1: is not the first line of a recording"),
        ('{"recording": 2, "began": ""}\n', "its version is 2; this poller reads 1"),
        (
            '{"recording": 1, "began": "2026-01-01T00:00:00Z"}\n',
            "was broken off before all nodes and pods were listed",
        ),
    ],
)
def test_what_is_no_recording_is_refused(poller: Run, tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "day.jsonl").write_text(text)
    done = poller("replay", str(tmp_path / "day.jsonl"))
    assert (done.status, done.out) == (1, "")
    assert why in done.err


@pytest.mark.parametrize("servers", ["embedded"], indirect=True)
def test_where_nothing_can_be_written_nothing_is_recorded(
    cluster: Cluster, poller: Run, tmp_path: Path
) -> None:
    there = tmp_path / "there.jsonl"
    there.write_text("precious")
    asked = ["record", "--proxy", cluster.proxy, "--for", "1s", "-o"]
    done = poller(*asked, str(there))
    assert (done.status, done.out, there.read_text()) == (1, "", "precious")
    assert "is there already: name another file, or delete it first" in done.err
    assert "No such file" in poller(*asked, str(tmp_path / "no" / "day.jsonl")).err
    assert "--for: must be longer than 0s" in poller(*asked[:3], "--for", "0s", "-o", "x").err
