"""What is read of a recording: what happened, where its gaps are, and the cluster at its end."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from canned import Json
from questions.test_recording import a_node, a_pod, line

from lib.kube.changes import Kind
from lib.kube.objects import Namespace, Pod
from lib.questions.recording.reading import Reading

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def written(file: Path, *lines: Json, began: float = 0.0) -> Path:
    """A file of a recording with these lines, which begins so many seconds after the year."""
    head = {"recording": 1, "began": (BEGAN + timedelta(seconds=began)).isoformat()}
    file.write_text("".join(f"{json.dumps(each)}\n" for each in (head, *lines)))
    return file


def read_whole(file: Path) -> tuple[Reading, list[tuple[float, Kind, str]]]:
    """A recording, and what happened in it."""
    reading = Reading(file)
    return reading, [(at, change.kind, change.object.metadata.name) for at, change in reading.happenings()]


def gaps_of(reading: Reading) -> list[tuple[float, float, str]]:
    return [(gap.began, gap.ended, gap.why) for gap in reading.gaps]


@pytest.mark.parametrize(
    ("recorded", "gaps"),
    [
        ([(50, 40, "a"), (52, 1, "b")], [(10, 50, "a"), (51, 52, "b")]),
        ([(50, 40, "a"), (50, 1, "b")], [(10, 50, "a")]),
        ([(50, 5, "a"), (51, 30, "b")], [(21, 51, "b")]),
        ([(20, 5, "a"), (30, 10, "b")], [(15, 30, "b")]),
        ([(20, 5, "a"), (30, 5, "b"), (40, 30, "c")], [(10, 40, "c")]),  # it covers both
        ([(20, 30, "a")], [(0, 20, "a")]),  # it was lost before the recording began
    ],
)
def test_gaps_at_the_same_time_are_one(
    tmp_path: Path, recorded: Sequence[tuple[float, float, str]], gaps: Sequence[tuple[float, float, str]]
) -> None:
    told = [line(at, "GAP", seconds=seconds, why=why) for at, seconds, why in recorded]
    reading, _ = read_whole(written(tmp_path / "day.jsonl", line(0, "BEGIN"), *told, line(60, "END")))
    assert gaps_of(reading) == gaps


def test_of_what_was_not_known_before_it_is_told_what_it_is(tmp_path: Path) -> None:
    file = written(
        tmp_path / "day.jsonl",
        a_node(0, "ADDED", "n1"),
        line(0, "BEGIN"),
        a_pod(1, "MODIFIED", "new"),
        a_pod(2, "ADDED", "new"),
        line(3, "DELETED", "Pod", "new"),
        line(4, "DELETED", "Pod", "never-seen"),
    )
    reading, happened = read_whole(file)
    assert happened == [
        (0, Kind.ADDED, "n1"),
        (1, Kind.ADDED, "new"),
        (2, Kind.MODIFIED, "new"),
        (3, Kind.DELETED, "new"),
        (4, Kind.DELETED, "never-seen"),
    ]
    assert reading.note.endswith("this recording was broken off after 4s")


def test_what_is_deleted_is_told_as_it_was(tmp_path: Path) -> None:
    """The line has its name alone."""
    file = written(
        tmp_path / "day.jsonl",
        line(0, "BEGIN"),
        a_pod(1, "ADDED", "web", nodeName="n1"),
        line(2, "DELETED", "Pod", "web"),
    )
    *_, (_, change) = Reading(file).happenings()
    assert isinstance(change.object, Pod)
    assert change.object.spec.node_name == "n1"


def test_the_next_file_of_a_folder_goes_on(tmp_path: Path) -> None:
    """What is as it was has not happened again, and a second between two files is no gap."""
    nodes = a_node(0, "ADDED", "n1"), a_node(0, "ADDED", "n2")
    first = [*nodes, a_pod(0, "ADDED", "web"), line(0, "ADDED", "Namespace", "default")]
    written(tmp_path / "1.jsonl", *first, line(0, "BEGIN"), line(60, "END"))
    placed = a_pod(0, "ADDED", "web", nodeName="n1")
    more = [nodes[0], placed, line(0, "BEGIN"), a_pod(5, "ADDED", "late"), line(6, "END")]
    written(tmp_path / "2.jsonl", *more, began=61)
    reading, happened = read_whole(tmp_path)
    assert happened[3:] == [(61, Kind.DELETED, "n2"), (61, Kind.MODIFIED, "web"), (66, Kind.ADDED, "late")]
    assert (reading.began, reading.last_at, reading.note) == (BEGAN, 67, "")
    assert [*map(str, reading.snapshot().of(Namespace))] == ["default"]


def test_a_file_of_a_folder_that_was_broken_off_leaves_a_gap(tmp_path: Path) -> None:
    written(tmp_path / "1.jsonl", a_node(0, "ADDED", "n1"), line(0, "BEGIN"), a_pod(10, "ADDED", "web"))
    written(tmp_path / "2.jsonl", a_node(0, "ADDED", "n1"), line(0, "BEGIN"), began=100)
    reading, _ = read_whole(tmp_path)
    assert gaps_of(reading) == [(10, 100, "there is no recording of that time")]
    assert "has 1 gap, of 1m30s together" in reading.note


def test_what_a_file_listed_that_did_not_begin_is_not_there_twice(tmp_path: Path) -> None:
    listed = a_node(0, "ADDED", "n1"), line(0, "ADDED", "Namespace", "default")
    written(tmp_path / "1.jsonl", *listed)
    written(tmp_path / "2.jsonl", *listed, line(0, "BEGIN"), line(5, "END"), began=100)
    reading, _ = read_whole(tmp_path)
    assert len(reading.snapshot().of(Namespace)) == 1
    assert (gaps_of(reading), reading.last_at) == ([], 5)
