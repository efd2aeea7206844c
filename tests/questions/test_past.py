"""`why` of a recording: which pods waited, for what, and the cluster as it was at a time."""

import json
from pathlib import Path

import pytest
from questions.test_recording import a_node, a_pod, being_deleted, line, lines
from questions_harness import Json, Run

from lib.questions.waits import ROOM, UNKNOWN
from scripts.benchmark.recorded import WAITS_FOR, record_day


def a_night(file: Path) -> str:
    """From 00:00:10 on `web` waits for `before` to leave; `huge` fits nowhere; `quick` doesn't wait."""
    return lines(
        file,
        a_node(0, "ADDED", "n1"),
        a_pod(0, "ADDED", "before", "3", nodeName="n1"),
        line(0, "BEGIN", time="2026-01-01T00:00:00Z"),
        a_pod(5, "ADDED", "gated", schedulingGates=[{"name": "not-yet"}]),
        a_pod(10, "ADDED", "web", "2"),
        a_pod(12, "ADDED", "quick", "1"),
        a_pod(12.5, "MODIFIED", "quick", "1", nodeName="n1"),
        a_pod(20, "ADDED", "huge", "64"),
        a_pod(40, "DELETED", "before"),
        a_pod(44, "MODIFIED", "web", "2", nodeName="n1"),
        a_pod(50, "DELETED", "huge"),
        a_pod(50, "MODIFIED", "gated", nodeName=""),
        line(60, "END"),
    )


def test_who_waited_for_what(poller: Run, tmp_path: Path) -> None:
    night = a_night(tmp_path / "night.jsonl")
    found = poller("why", "--from", night, "-o", "json").json
    web, huge, gated = found["waits"]
    assert web == {
        "pod": "default/web",
        "from": "2026-01-01T00:00:10.000+00:00",
        "to": "2026-01-01T00:00:44.000+00:00",
        "seconds": 34.0,
        "node": "n1",
        "causes": [
            {"cause": "Insufficient cpu", "seconds": 30.0},
            {"cause": "there was room; its scheduler hadn't placed it yet", "seconds": 4.0},
        ],
    }
    assert (huge["seconds"], huge["node"], huge["causes"][0]["cause"]) == (30.0, None, "Insufficient cpu")
    assert (gated["from"], gated["to"]) == ("2026-01-01T00:00:50.000+00:00", None)
    assert found["placed_at_once"] == 1
    assert found["causes"][0] == {
        "cause": "Insufficient cpu",
        "pods": 2,
        "seconds": 60.0,
        "longest_seconds": 30.0,
    }
    assert ["with one more node like n1"] in [each["changes"] for each in found["what_helps_most"]]
    assert [(each["at"][17:19], each["waited"], each["tried"]) for each in found["moments"]] == [
        ("20", 2, 2),  # most pods waited
        ("27", 2, 2),  # the longest wait was half over
        ("00", 1, 0),  # the end, a minute later: there was room
    ]
    first, then, end = (each["would_have_helped"] for each in found["moments"])
    assert first == then
    assert first["with one more node like n1"] == 1  # for web; huge fits on none like that
    assert end == dict.fromkeys(end, 0)
    said = poller("why", "--from", night).out
    assert "3 pods in namespace default waited" in said
    assert "00:00:20: most pods waited; 2 pods waited" in said
    assert "1 other pod had a node at once." in said


def test_one_pod_and_some_time(poller: Run, tmp_path: Path) -> None:
    night = a_night(tmp_path / "night.jsonl")
    found = poller("why", "web", "--from", night, "--until", "2026-01-01T00:00:30Z", "-o", "json").json
    assert [(each["pod"], each["seconds"], each["to"]) for each in found["waits"]] == [
        ("default/web", 20.0, None)
    ]
    asked = ["--from", night, "--since", "2026-01-01T00:00:51Z", "-o", "json"]
    assert poller("why", "web", *asked).json["waits"] == []
    said = poller("why", "web", "--from", night).out
    assert "default/web waited 34s, from" in said
    assert "What would have helped, tried at 2 moments:" in said
    assert "with one more node like n1" in said


def test_the_cluster_as_it_was(poller: Run, tmp_path: Path) -> None:
    night = a_night(tmp_path / "night.jsonl")

    def at(second: int, *question: str) -> Json:
        return poller(*question, "--from", night, "--at", f"2026-01-01T00:00:{second}Z", "-o", "json").json

    assert at(30, "why", "web")["message"].startswith("0/1 nodes are available: 1 Insufficient cpu")
    assert at(41, "why", "web")["outcome"] == "scheduled"
    assert at(45, "why", "web")["bound_to"] == "n1"
    waiting = {pod for each in at(30, "why")["causes"] for pod in each["pods"]}
    assert waiting == {"default/web", "default/huge", "default/gated"}
    assert at(45, "drain", "n1")["waves"] >= 1
    done = poller("why", "nobody", "--from", night, "--at", "2026-01-01T00:00:30Z")
    assert "there is no pod nobody" in done.err


def test_who_was_being_deleted_makes_room(poller: Run, tmp_path: Path) -> None:
    night = lines(
        tmp_path / "night.jsonl",
        a_node(0, "ADDED", "n1"),
        a_pod(0, "ADDED", "before", "3", nodeName="n1"),
        line(0, "BEGIN", time="2026-01-01T00:00:00Z"),
        a_pod(10, "ADDED", "web", "2"),
        being_deleted(a_pod(15, "MODIFIED", "before", "3", nodeName="n1")),
        a_pod(40, "DELETED", "before"),
        line(60, "END"),
    )

    def leaving(at: int) -> Json:
        found: Json = poller(
            "why", "web", "--from", night, "--at", f"2026-01-01T00:00:{at}Z", "-o", "json"
        ).json
        said: Json = found["leaving"]
        return said

    since = "it is being deleted since 2026-01-01 00:00:10"
    ends = "may run until 2026-01-01 00:00:40, after 30 s of grace"
    assert leaving(12) == {}
    assert leaving(30) == {"n1": {"default/before": f"{since}, and {ends}"}}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--at", "25:00"], "--at 25:00: is not a time, such as 02:13 or 2026-11-28T02:13Z"),
        (["--at", "2025-12-31T23:00Z"], "begins at 2026-01-01"),
        (["--at", "2026-01-02T00:00Z"], "the recording ends at"),
        (["--since", "2026-01-02T00:00Z"], "the recording ends at"),
        (["--since", "2026-01-01T00:00:30Z", "--until", "2026-01-01T00:00:20Z"], "is not after --since"),
        (
            ["--at", "2026-01-01T00:00:30Z", "--since", "00:00"],
            "--since and --until need a recording, and no --at",
        ),
        (["--remove", "n1"], "only at one time: --at"),
        (["-l", "app=other"], "has no pods in namespace default with app=other"),
    ],
)
def test_what_cannot_be_asked(poller: Run, tmp_path: Path, options: list[str], why: str) -> None:
    done = poller("why", "--from", a_night(tmp_path / "night.jsonl"), *options)
    assert done.status in (1, 2)
    assert why in done.err


def test_a_time_needs_a_recording(poller: Run, tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text('{"kind": "List", "items": []}')
    done = poller("room", "--from", str(tmp_path / "cluster.json"), "--at", "02:13", "-f", "x.yaml")
    assert "--at needs a recording: --from day.jsonl.gz" in done.err


def test_only_nodes_of_a_zone_could_do(poller: Run, tmp_path: Path) -> None:
    nodes = [a_node(0, "ADDED", name) for name in ("n1", "n2", "n3")]
    for node, zone in zip(nodes, "abb", strict=True):
        node["object"]["metadata"]["labels"] = {"topology.kubernetes.io/zone": zone}
    selector = {"topology.kubernetes.io/zone": "b"}
    night = lines(
        tmp_path / "night.jsonl",
        *nodes,
        *(a_pod(0, "ADDED", f"on-{name}", "3", nodeName=name) for name in ("n2", "n3")),
        line(0, "BEGIN"),
        a_pod(1, "ADDED", "web", "2", nodeSelector=selector),
        line(60, "END"),
    )
    (wait,) = poller("why", "--from", night, "-o", "json").json["waits"]
    assert [each["cause"] for each in wait["causes"]] == ["Insufficient cpu in zone b"]


def test_a_folder_of_recordings_is_one(poller: Run, tmp_path: Path) -> None:
    """What is otherwise in the second one than at the end of the first has happened in between."""
    a_night(tmp_path / "1.jsonl")
    second = [
        a_node(0, "ADDED", "n1"),
        a_pod(0, "ADDED", "web", "2", nodeName="n1"),
        a_pod(0, "ADDED", "late", "2"),
        line(0, "BEGIN", time="2026-01-01T00:02:00Z"),
        a_pod(10, "DELETED", "web"),
        a_pod(11, "MODIFIED", "late", "2", nodeName="n1"),
    ]
    lines(tmp_path / "2.jsonl", *second)
    found = poller("why", "--from", str(tmp_path), "-o", "json").json
    by_pod = {each["pod"].removeprefix("default/"): each for each in found["waits"]}
    assert {*by_pod} == {"web", "huge", "gated", "late"}
    assert by_pod["late"]["to"] == "2026-01-01T00:02:11.000+00:00"
    assert by_pod["gated"]["to"] == "2026-01-01T00:02:00.000+00:00"
    (gap,) = found["gaps"]
    assert (gap["from"], gap["to"]) == ("2026-01-01T00:01:00.000+00:00", "2026-01-01T00:02:00.000+00:00")
    said = poller("why", "--from", str(tmp_path)).out
    assert "nothing was recorded: there is no recording of that time." in said
    done = poller("why", "--from", str(tmp_path), "--at", "2026-01-01T00:01:30Z", "-o", "json")
    assert "nothing was recorded" in done.err


def test_a_gap_is_told_of(poller: Run, tmp_path: Path) -> None:
    gap = line(50, "GAP", seconds=40, why="pods: the connection was refused")
    short = line(50.5, "GAP", seconds=1, why="nodes: another reason")
    night = lines(
        tmp_path / "night.jsonl",
        a_node(0, "ADDED", "n1"),
        line(0, "BEGIN"),
        a_pod(50, "ADDED", "p", nodeName="n1"),
        gap,
        short,
        line(60, "END"),
    )
    done = poller("why", "--from", night, "-o", "json")
    found = json.loads(done.out)
    assert (done.status, found["answer"]) == (4, "unknown")
    (told,) = found["gaps"]
    assert (told["from"][17:22], told["to"][17:22]) == ("10.00", "50.50")
    said = poller("why", "--from", night).out
    assert "nothing was recorded: pods: the connection was refused." in said


def test_the_day_of_the_bench(poller: Run, tmp_path: Path) -> None:
    """One pod in twenty waits there. They are alike, but for their labels, and are asked about together."""
    record_day(tmp_path / "day.jsonl.gz", nodes=5, pods=40)
    found = poller("why", "-A", "--from", str(tmp_path / "day.jsonl.gz"), "-o", "json").json
    assert [wait["seconds"] for wait in found["waits"]] == [WAITS_FOR] * 2
    assert [cause["cause"] for cause in found["causes"]] == ["Insufficient cpu"]
    assert found["placed_at_once"] == 38


def test_a_pod_that_waited_before_the_recording_began(poller: Run, tmp_path: Path) -> None:
    """It has waited since it was created, though nothing happens while it is recorded."""
    web = a_pod(0, "ADDED", "web", "8")
    web["object"]["metadata"]["creationTimestamp"] = "2025-12-31T23:59:00Z"
    night = lines(tmp_path / "night.jsonl", a_node(0, "ADDED", "n1"), web, line(0, "BEGIN"), line(60, "END"))
    (wait,) = poller("why", "--from", night, "-o", "json").json["waits"]
    assert (wait["from"], wait["to"], wait["seconds"]) == ("2025-12-31T23:59:00.000+00:00", None, 120.0)
    assert [each["cause"] for each in wait["causes"]] == ["Insufficient cpu"]
    asked = ["--since", "2026-01-01T00:00:30Z", "-o", "json"]
    (same,) = poller("why", "--from", night, *asked).json["waits"]
    assert same["from"] == wait["from"]


def test_without_a_time_the_cluster_is_as_it_was_at_the_end(poller: Run, tmp_path: Path) -> None:
    gap = line(60, "GAP", seconds=5)
    night = lines(
        tmp_path / "night.jsonl",
        a_node(0, "ADDED", "n1"),
        line(0, "BEGIN"),
        a_pod(1, "ADDED", "web", nodeName="n1"),
        gap,
        a_pod(61, "ADDED", "other", nodeName="n1"),
    )
    found = poller("drain", "n1", "--from", night, "-o", "json").json
    assert [each["pod"] for each in found["pods"]] == ["default/web", "default/other"]


def test_it_is_said_if_too_many_pods_waited_to_ask_about_each(
    poller: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lib.questions.past.MOST_COMPARED", 1)
    pods = [a_pod(1, "ADDED", f"web-{i}", str(5 + i)) for i in range(130)]
    night = lines(
        tmp_path / "night.jsonl", a_node(0, "ADDED", "n1"), line(0, "BEGIN"), *pods, line(60, "END")
    )
    causes = poller("why", "--from", night, "-o", "json").json["causes"]
    assert {each["cause"]: each["pods"] for each in causes} == {"Insufficient cpu": 100, UNKNOWN: 30}


def test_what_happened_before_the_time_that_is_asked_about_is_known(poller: Run, tmp_path: Path) -> None:
    night = lines(
        tmp_path / "night.jsonl",
        a_node(0, "ADDED", "n1"),
        line(0, "BEGIN"),
        a_pod(5, "ADDED", "before", "3", nodeName="n1"),
        a_pod(10, "ADDED", "web", "2"),
        a_node(40, "MODIFIED", "n1", "8"),
        line(60, "END"),
    )
    asked = ["--from", night, "--since", "2026-01-01T00:00:30Z", "-o", "json"]
    (wait,) = poller("why", *asked).json["waits"]
    assert [(each["cause"], each["seconds"]) for each in wait["causes"]] == [
        ("Insufficient cpu", 30.0),
        (ROOM, 20.0),
    ]


def test_what_helps_at_one_moment_is_tried_at_the_others(poller: Run, tmp_path: Path) -> None:
    """When most pods wait, most wait for cpu; later, one waits for a label alone."""
    night = lines(
        tmp_path / "night.jsonl",
        a_node(0, "ADDED", "n1"),
        a_pod(0, "ADDED", "before", "3", nodeName="n1"),
        line(0, "BEGIN"),
        *(a_pod(10, "ADDED", name, "2") for name in ("one", "two")),
        a_pod(10, "ADDED", "picky", "0", nodeSelector={"disk": "ssd"}),
        *(a_pod(30, "DELETED", name) for name in ("one", "two")),
        line(60, "END"),
    )
    most, half, end = poller("why", "--from", night, "-o", "json").json["moments"]
    labelled = "with the label disk=ssd on n1"
    assert [(each["waited"], each["would_have_helped"].get(labelled)) for each in (most, half, end)] == [
        (3, 1),
        (1, 1),
        (1, 1),
    ]
    assert half["would_have_helped"]["with one more node like n1"] == 0
