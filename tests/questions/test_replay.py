"""`replay`: traces of pods in virtual time, through the command."""

import csv
import gzip
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from questions_harness import Run

Json = dict[str, Any]

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,4000,8192,2,T4\nn2,4000,8192,0,\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time,scheduled_time\n"


def a_node(name: str, cpu: str) -> Json:
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}


def a_pod(name: str, cpu: str, arrives: str, runs_for: str = "", **spec: Any) -> Json:
    annotations = {"poller/arrives": arrives, **({"poller/runs-for": runs_for} if runs_for else {})}
    container = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "annotations": annotations}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def written(file: Path, *objects: Json) -> str:
    file.write_text(yaml.safe_dump_all(objects))
    return str(file)


def figures(poller: Run, *arguments: str) -> Json:
    done = poller("replay", *arguments, "-o", "json")
    assert done.err == ""
    (found,) = json.loads(done.out)["configs"]
    assert done.status == (3 if found["pending"] else 0)
    answer: Json = found
    return answer


def test_a_pod_waits_until_another_has_ended(poller: Run, tmp_path: Path) -> None:
    nodes = written(tmp_path / "nodes.yaml", a_node("n1", "4"))
    trace = written(
        tmp_path / "trace.yaml", a_pod("second", "3", "10s", "30s"), a_pod("first", "3", "0s", "1m")
    )
    found = figures(poller, trace, "--nodes", nodes)
    assert (found["arrived"], found["placed"], found["pending"], found["evictions"]) == (2, 2, 0, 0)
    assert found["wait_seconds"] == {"p50": 50.0, "p95": 50.0, "p99": 50.0}
    cause = {"cause": "Insufficient cpu", "seconds": 50.0}
    (wait,) = found["longest_waits"]
    assert (wait["pod"], wait["from_seconds"], wait["node"], wait["causes"]) == (
        "default/second",
        10.0,
        "n1",
        [cause],
    )
    assert found["waited_for"] == [{**cause, "pods": 1, "longest_seconds": 50.0}]
    said = poller("replay", trace, "--nodes", nodes).out
    assert re.search(r"waited: Insufficient cpu +1, 50\.0 s\n", said)
    assert re.search(r"default/second +10\.0 s +50\.0 s +n1 +Insufficient cpu, 50\.0 s\n", said)
    assert found["ended_at_seconds"] == 90.0
    assert found["allocated_percent"]["cpu"] == {"mean": 75.0, "peak": 75.0, "end": 0.0}
    assert found["nodes_used"] == {"mean": 1.0, "peak": 1}


def test_who_is_evicted_arrives_again(poller: Run, tmp_path: Path) -> None:
    nodes = written(tmp_path / "nodes.yaml", a_node("n1", "4"))
    urgent = {"kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1000}
    trace = written(
        tmp_path / "trace.yaml",
        urgent,
        a_pod("usual", "3", "0s", "1m"),
        a_pod("urgent", "3", "20s", "30s", priorityClassName="urgent"),
    )
    found = figures(poller, trace, "--nodes", nodes)
    assert (found["arrived"], found["placed"], found["pending"], found["evictions"]) == (2, 2, 0, 1)
    assert found["ended_at_seconds"] >= 110.0  # the one that was evicted runs for its whole time again
    assert found["wait_seconds"]["p99"] == pytest.approx(30, abs=2)  # not the 20 s for which it ran


def test_waits_of_pods_that_never_get_a_node_count(poller: Run, tmp_path: Path) -> None:
    nodes = written(tmp_path / "nodes.yaml", a_node("n1", "4"))
    trace = written(
        tmp_path / "trace.yaml", *(a_pod(f"p{i}", "1" if i < 3 else "5", f"{i}s") for i in range(5))
    )
    assert figures(poller, trace, "--nodes", nodes)["wait_seconds"] == {"p50": 0.0, "p95": None, "p99": None}
    rows = [line.split() for line in poller("replay", trace, "--nodes", nodes).out.splitlines()]
    assert ["wait,", "p50", "0.0", "s"] in rows
    assert ["wait,", "p95", "never"] in rows


def test_what_fits_nowhere_is_pending_at_the_end(poller: Run, tmp_path: Path) -> None:
    nodes = written(tmp_path / "nodes.yaml", a_node("n1", "4"))
    trace = written(tmp_path / "trace.yaml", a_pod("huge", "5", "0s"), a_pod("small", "1", "1s"))
    found = figures(poller, trace, "--nodes", nodes)
    assert (found["placed"], found["pending"]) == (1, 1)


@pytest.mark.parametrize("output", ["json", "csv"])
def test_the_same_seed_has_the_same_result(poller: Run, tmp_path: Path, output: str) -> None:
    nodes = written(tmp_path / "nodes.yaml", *(a_node(f"n{i}", "4") for i in range(5)))
    asked = ["--nodes", nodes, "--arrivals", "poisson:30/min", "--for", "3m", "--mix", "small=3,large=1"]

    def answer(seed: str) -> str:
        said = poller("replay", *asked, "--seed", seed, "-o", output).out
        return "\n".join(line for line in said.splitlines() if "decisions_per_second" not in line)

    assert answer("1") == answer("1")
    assert answer("1") != answer("2")


def test_csv_has_a_row_for_each_five_percent(poller: Run, tmp_path: Path) -> None:
    nodes = written(tmp_path / "nodes.yaml", a_node("n1", "4"), a_node("n2", "4"))
    trace = written(tmp_path / "trace.yaml", *(a_pod(f"p{i}", "400m", f"{i}s") for i in range(30)))
    done = poller("replay", trace, "--nodes", nodes, "-o", "csv")
    rows = list(csv.reader(io.StringIO(done.out)))
    assert rows[0][0] == "config"
    assert rows[0][-1] == "cpu_allocated_percent"
    arrived = [float(row[1]) for row in rows[1:]]
    assert arrived == [float(each) for each in range(0, 151, 5)]
    allocated = [float(row[-1]) for row in rows[1:]]
    assert all(had <= came + 5 for had, came in zip(allocated, arrived, strict=True))
    assert allocated[-1] == max(allocated) == 100.0


def test_the_scarcest_resource_is_the_last_column(poller: Run, tmp_path: Path) -> None:
    nodes = written(tmp_path / "nodes.yaml", a_node("n1", "4"))
    for memory, order in (("1Gi", ["memory", "cpu"]), ("6Gi", ["cpu", "memory"])):
        pod = a_pod("p", "1", "0s")
        pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = memory
        trace = written(tmp_path / "trace.yaml", pod)
        head, *_ = poller("replay", trace, "--nodes", nodes, "-o", "csv").out.splitlines()
        assert head.split(",")[-2:] == [f"{name}_allocated_percent" for name in order]


def test_decisions_that_fail_are_told_of(poller: Run, tmp_path: Path) -> None:
    policy = tmp_path / "mine.py"
    policy.write_text("def score(pod, node): return 1 // (pod.name != 'q')\n")
    nodes = written(tmp_path / "nodes.yaml", a_node("n1", "4"), a_node("n2", "4"))
    trace = written(tmp_path / "trace.yaml", a_pod("p", "1", "0s"), a_pod("q", "1", "1s"))
    asked = [trace, "--nodes", nodes, "--policy", str(policy)]
    found = figures(poller, *asked)
    assert (found["placed"], found["pending"], found["failed_decisions"] > 0) == (1, 1, True)
    assert "default/q: " in found["first_error"]
    said = " ".join(poller("replay", *asked).out.split())
    assert re.search(r"mine\.py: [0-9]+ decisions? failed; the first: default/q: ", said)


def test_a_workload_is_inflated(poller: Run, tmp_path: Path) -> None:
    nodes, trace = tmp_path / "nodes.csv", tmp_path / "pods.csv.gz"
    nodes.write_text(NODES)
    rows = "".join(f"p{i},1000,1024,1,500,,0,{i + 10},0\n" for i in range(3))
    trace.write_bytes(gzip.compress((PODS + rows).encode()))
    found = figures(poller, str(trace), "--nodes", str(nodes), "--inflate", "1.5")
    assert found["arrived"] == 6  # 3,000 thousandths of a GPU, where there are 2,000
    assert (found["placed"], found["pending"]) == (4, 2)
    assert found["allocated_percent"]["alibabacloud.com/gpu-milli"]["end"] == 100.0


def test_pods_that_do_not_fill_the_nodes_are_not_inflated(poller: Run, tmp_path: Path) -> None:
    nodes = written(tmp_path / "nodes.yaml", a_node("n1", "4"))
    trace = written(tmp_path / "trace.yaml", a_pod("p", "0", "0s"))
    done = poller("replay", trace, "--nodes", nodes, "--inflate", "1.3")
    assert (done.status, done.out) == (1, "")
    assert "--inflate: the pods request no cpu, so they never fill the nodes" in done.err


def test_an_extended_resource_of_which_there_is_none_is_not_the_main_one(poller: Run, tmp_path: Path) -> None:
    no_gpu = a_node("n1", "4")
    no_gpu["status"]["allocatable"]["example.com/gpu"] = "0"
    wants_gpu = a_pod("q", "1", "0s")
    wants_gpu["spec"]["containers"][0]["resources"]["limits"] = {"example.com/gpu": "1"}
    trace = written(tmp_path / "trace.yaml", a_pod("p", "1", "0s"), wants_gpu)
    found = figures(poller, trace, "--nodes", written(tmp_path / "nodes.yaml", no_gpu))
    assert (found["placed"], found["pending"]) == (1, 1)
    assert found["allocated_percent"]["cpu"]["end"] == 25.0


def test_pods_of_two_namespaces_may_have_one_name(poller: Run, tmp_path: Path) -> None:
    nodes = written(tmp_path / "nodes.yaml", a_node("n1", "4"))
    one, other = a_pod("p", "1", "0s"), a_pod("p", "1", "0s")
    other["metadata"]["namespace"] = "other"
    found = figures(poller, written(tmp_path / "trace.yaml", one, other), "--nodes", nodes)
    assert (found["arrived"], found["placed"]) == (2, 2)
    done = poller("replay", written(tmp_path / "trace.yaml", one, one), "--nodes", nodes)
    assert (done.status, done.out) == (1, "")
    assert "there are two pods default/p" in done.err


def test_where_a_pod_ran_before_does_not_matter(poller: Run, tmp_path: Path) -> None:
    nodes = written(tmp_path / "nodes.yaml", a_node("n1", "4"))
    trace = written(tmp_path / "trace.yaml", a_pod("p", "1", "0s", nodeName="gone"))
    assert figures(poller, trace, "--nodes", nodes)["placed"] == 1


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("p,1000,1024,1,500,,5,3,5", "pods.csv:2: deletion_time: 3 is before the pod began to run, at 5"),
        ("p,1000,1024,1,500,,5,0,5", "pods.csv:2: deletion_time: 0 is before the pod began to run, at 5"),
        ("p,one,1024,0,0,,0,1,0", "pods.csv:2: cpu_milli: 'one' is not a whole number"),
        ("p,-1,1024,0,0,,0,1,0", "pods.csv:2: cpu_milli: '-1' is not a whole number"),
        (
            "p,1,1,2,500,,0,1,0",
            "pods.csv:2: gpu_milli: 500 is not a part of 2 GPUs: 1000, or less of one GPU",
        ),
        ("A B,1,1,0,0,,0,1,0", "pods.csv:2: name: 'A B' is not a valid object name"),
        ("p,1,1,0,0,,0,1,0\np,1,1,0,0,,0,1,0", "pods.csv:3: name: p is the name of line 2, too"),
        ("p,1", "pods.csv:2: memory_mib: '' is not a whole number"),
        ("p,1,1,0,0,,0,1,0,7", "pods.csv:2: has more fields than the first line"),
        ('p,1,1,0,0,",0,1,0\nq,1,1,0,0,,0,1,0', "pods.csv:3: unexpected end of data"),
        (f"p,{'1' * 10_000}", "pods.csv:2: is longer than 10,000 characters"),
        ("", "pods.csv: holds no pods"),
    ],
)
def test_a_wrong_line_is_named(poller: Run, tmp_path: Path, row: str, why: str) -> None:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "pods.csv").write_text(f"{PODS}{row}\n")
    done = poller("replay", str(tmp_path / "pods.csv"), "--nodes", str(tmp_path / "nodes.csv"))
    assert (done.status, done.out) == (1, "")
    assert why in done.err
    assert "Traceback" not in done.err


def test_the_lines_of_a_trace_may_have_any_order(poller: Run, tmp_path: Path) -> None:
    nodes, trace, placements = (tmp_path / name for name in ("nodes.csv", "pods.csv", "where.csv"))
    nodes.write_text(NODES)
    trace.write_text(f"{PODS}last,1,1,0,0,,20,30,20\nfirst,1,1,0,0,,0,40,0\nthen,1,1,0,0,,10,40,10\n")
    figures(poller, str(trace), "--nodes", str(nodes), "--placements", str(placements))
    with placements.open() as rows:
        assert [(row["pod"], row["placed_seconds"]) for row in csv.DictReader(rows)] == [
            ("default/first", "0"),
            ("default/then", "10"),
            ("default/last", "20"),
        ]


def test_a_spreadsheet_may_have_written_the_trace(poller: Run, tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(NODES)
    body = f"\ufeff{PODS}p,1000,1024,0,0,,0,5,0\n".replace("\n", "\r\n").encode()
    (tmp_path / "pods.csv").write_bytes(body)
    asked = str(tmp_path / "pods.csv"), "--nodes", str(tmp_path / "nodes.csv")
    assert figures(poller, *asked)["placed"] == 1
    (tmp_path / "pods.csv").write_bytes(body.replace(b"p,1000", b"p,\xff"))
    assert "pods.csv:2: cpu_milli: '\\udcff' is not a whole number" in poller("replay", *asked).err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "replay needs a trace, or --arrivals: one of the two"),
        (["--arrivals", "20/min"], "--arrivals 20/min: is not of the form poisson:20/min; also /s and /h"),
        (["--arrivals", "poisson:0/min"], "is not of the form poisson:20/min"),
        (["--arrivals", "poisson:1/s", "--mix", "tiny=1"], "sizes are small, medium, large, huge"),
        (["--arrivals", "poisson:1/s", "--mix", "small=0"], "one of the weights must be more than 0"),
        (["--arrivals", "poisson:1/s", "--for", "soon"], "--for: 'soon' is not a duration"),
        (["--arrivals", "poisson:1/s", "--for", "0s"], "no pod arrives within 0s; give --for more time"),
        (["--arrivals", "poisson:1/s", "--runs-for", "0s"], "--runs-for: must be longer than 0s"),
        (["--arrivals", "poisson:1/s", "--inflate", "101"], "--inflate 101: must be 100 at most"),
        (["--arrivals", "poisson:1/s", "--inflate", "nan"], "--inflate nan: must be 100 at most"),
        (["nodes.csv"], "the column name is missing"),
        (["nothing.csv"], "No such file"),
    ],
)
def test_a_wrong_option_is_named(poller: Run, tmp_path: Path, arguments: list[str], why: str) -> None:
    (tmp_path / "nodes.csv").write_text(NODES)
    named = [str(tmp_path / each) if each.endswith(".csv") else each for each in arguments]
    done = poller("replay", *named, "--nodes", str(tmp_path / "nodes.csv"))
    assert (done.status, done.out) == (1 if named != arguments else 2, "")
    assert why in done.err


def test_a_plot_has_a_line_for_each_configuration(poller: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib isn't installed: poller can do without it")
    nodes = written(tmp_path / "nodes.yaml", a_node("n1", "4"))
    trace = written(tmp_path / "trace.yaml", a_pod("p", "1", "0s", "1m"), a_pod("q", "1", "30s", "1m"))
    policy = tmp_path / "mine.py"
    policy.write_text("def score(pod, node): return 1\n")
    for form, begins in (("svg", b"<?xml"), ("png", b"\x89PNG"), ("html", b"<!DOCTYPE html>")):
        file = tmp_path / f"day.{form}"
        done = poller("replay", trace, "--nodes", nodes, "--policy", str(policy), "--plot", str(file))
        assert (done.status, done.err) == (0, "")
        assert file.read_bytes().startswith(begins)


@pytest.mark.parametrize(
    ("file", "why"),
    [
        (
            "day.svg",
            "--plot needs matplotlib, which poller doesn't install: .venv/bin/pip install matplotlib",
        ),
        ("day.pdf", "must end in .svg, .png, .html"),
        ("nowhere/day.svg", "there is no folder"),
    ],
)
def test_what_is_missing_for_a_plot_is_said_before_the_replay(
    poller: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, why: str
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = poller("replay", "nothing.csv", "--nodes", "nothing.csv", "--plot", str(tmp_path / file))
    assert (done.status, done.out) == (2 if "must end" in why else 1, "")
    assert why in done.err


@pytest.mark.parametrize("api", ["scheduling.x-k8s.io/v1alpha1", "scheduling.k8s.io/v1alpha2"])
def test_a_job_whose_pod_group_needs_fewer_than_all_starts_on_a_nearly_full_cluster(
    poller: Run, tmp_path: Path, api: str
) -> None:
    group = {"kind": "PodGroup", "apiVersion": api, "metadata": {"name": "g"}}
    workers = [a_pod(f"w{i}", "1", "0s", "1m") for i in range(3)]
    for each in workers:
        if "x-k8s" in api:
            each["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "g"}
        else:
            each["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    nodes = written(tmp_path / "nodes.yaml", a_node("n1", "2"))
    for needed, placed in ((1, 3), (2, 2), (3, 0)):  # of two, the last one waits for another when both end
        gang = {"schedulingPolicy": {"gang": {"minCount": needed}}}
        spec = {"minMember": needed} if "x-k8s" in api else gang
        trace = written(tmp_path / "trace.yaml", {**group, "spec": spec}, *workers)
        found = figures(poller, trace, "--nodes", nodes)
        assert (found["placed"], found["pending"]) == (placed, 3 - placed)


def test_in_a_trace_without_its_pod_group_a_pod_is_placed_alone(poller: Run, tmp_path: Path) -> None:
    """It may have come later: no trace tells of that."""
    nodes = written(tmp_path / "nodes.yaml", a_node("n1", "2"))
    pod = a_pod("w", "1", "0s", "1m", schedulingGroup={"podGroupName": "g"})
    assert figures(poller, written(tmp_path / "trace.yaml", pod), "--nodes", nodes)["placed"] == 1


def test_of_many_equal_waits_as_many_are_kept_as_may_be(
    poller: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, those that waited equally long were compared with each other, which failed."""
    monkeypatch.setattr("lib.questions.replay.figures.MOST_WAITS", 3)
    nodes = written(tmp_path / "nodes.yaml", a_node("n1", "4"))
    trace = written(
        tmp_path / "trace.yaml", a_pod("small", "1", "9s"), *(a_pod(f"p{i}", "5", "0s") for i in range(9))
    )
    waits = figures(poller, trace, "--nodes", nodes)["longest_waits"]
    assert [(wait["pod"], wait["seconds"]) for wait in waits] == [(f"default/p{i}", 9.0) for i in range(3)]


def with_node_number(folder: Path) -> str:
    """A configuration with NodeNumber: a pod waits for as many seconds as its node's digit says."""
    plugins = {"multiPoint": {"enabled": [{"name": "NodeNumber"}]}}
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return written(folder / "config.yaml", {**head, "profiles": [{"plugins": plugins}]})


def test_a_plugin_that_holds_a_pod_does_so_in_virtual_time(poller: Run, tmp_path: Path) -> None:
    nodes = written(tmp_path / "nodes.yaml", a_node("n3", "4"))
    trace = written(tmp_path / "trace.yaml", a_pod("p", "1", "5s", "10s"))
    found = figures(poller, trace, "--nodes", nodes, "--config", with_node_number(tmp_path))
    assert (found["placed"], found["pending"], found["ended_at_seconds"]) == (1, 0, 18.0)
    assert found["waited_for"] == [
        {"cause": "waits 3 s for n3", "pods": 1, "seconds": 3.0, "longest_seconds": 3.0}
    ]


def test_a_policy_knows_the_pods_that_will_come_and_its_scores_count_alone(
    poller: Run, tmp_path: Path
) -> None:
    policy = tmp_path / "mine.py"
    policy.write_text(
        "known = []\n"
        "def prepare(pods): known.extend(pods)\n"
        "def score(pod, node): return 100 if node.name == f'n{len(known)}' else 0\n"
    )
    nodes = written(tmp_path / "nodes.yaml", *(a_node(f"n{i}", "4") for i in range(1, 5)))
    trace = written(tmp_path / "trace.yaml", *(a_pod(f"p{i}", "1", f"{i}s") for i in range(3)))
    placements = tmp_path / "where.csv"
    figures(poller, trace, "--nodes", nodes, "--policy", str(policy), "--placements", str(placements))
    with placements.open() as rows:
        assert [(row["config"], row["node"]) for row in csv.DictReader(rows)] == [("mine.py", "n3")] * 3


def test_a_pod_that_is_held_can_be_preempted(poller: Run, tmp_path: Path) -> None:
    """It has no node yet, so it isn't evicted: it waits on."""
    nodes = written(tmp_path / "nodes.yaml", a_node("n9", "4"))
    urgent = {"kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1000}
    trace = written(
        tmp_path / "trace.yaml",
        urgent,
        a_pod("usual", "3", "0s", "1m"),
        a_pod("urgent", "3", "3s", "30s", priorityClassName="urgent"),
    )
    placements = tmp_path / "where.csv"
    asked = ["--nodes", nodes, "--config", with_node_number(tmp_path), "--placements", str(placements)]
    found = figures(poller, trace, *asked)
    assert (found["placed"], found["evictions"]) == (2, 0)
    with placements.open() as rows:
        assert [(row["pod"], row["placed_seconds"]) for row in csv.DictReader(rows)] == [
            ("default/urgent", "13"),
            ("default/usual", "52"),
        ]
