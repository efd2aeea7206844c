"""What is written of a recording, and that it is read again as it was."""

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from canned import Json
from objects import node, pod, read

from lib.kube.changes import Change, Kind
from lib.kube.objects import Namespace, Pod
from lib.kube.system import System
from lib.questions.recording.anonymous import Hashing
from lib.questions.recording.reading import Reading
from lib.questions.recording.writer import Recording


class Clock(System):
    """A machine whose clock the test puts forward."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def steady(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("lib.questions.recording.writer.MACHINE", clock)
    return clock


def lines_of(file: Path) -> list[Json]:
    body = file.read_bytes()
    return [*map(json.loads, (gzip.decompress(body) if file.suffix == ".gz" else body).splitlines())]


@pytest.mark.parametrize("name", ["day.jsonl", "day.jsonl.gz"])
def test_what_was_recorded_is_read_again(clock: Clock, tmp_path: Path, name: str) -> None:
    waits, placed = pod("web"), pod("web", nodeName="n1")
    with Recording(tmp_path / name) as recording:
        clock.seconds += 7  # until all is listed
        recording.add(node("n1"))
        recording.add(read(Namespace, {"metadata": {"name": "default"}}))
        recording.begin()
        clock.seconds += 5
        recording.change(Change(Kind.ADDED, waits))
        clock.seconds += 20
        recording.gap(10.0, "pods: refused")
        recording.change(Change(Kind.MODIFIED, placed, waits))
        clock.seconds += 1
        recording.change(Change(Kind.DELETED, placed, placed))
        recording.end()
        assert recording.seconds == 26.0
    reading = Reading(tmp_path / name)
    happened = [(round(at, 2), change.kind, str(change.object)) for at, change in reading.happenings()]
    assert happened == [
        (0.0, Kind.ADDED, "n1"),
        (5.0, Kind.ADDED, "default/web"),
        (25.0, Kind.MODIFIED, "default/web"),
        (26.0, Kind.DELETED, "default/web"),
    ]
    assert reading.began == datetime(2026, 1, 1, 0, 1, 47, tzinfo=UTC)
    assert [(gap.began, gap.ended, gap.why) for gap in reading.gaps] == [(15.0, 25.0, "pods: refused")]
    assert (reading.has_ended, reading.last_at) == (True, 26.0001)
    assert {str(each) for kind in reading.snapshot().objects for each in reading.snapshot().of(kind)} == {
        "n1",
        "default",
    }


def test_no_two_lines_have_the_same_time(clock: Clock, tmp_path: Path) -> None:
    """So a replay knows what came first."""
    with Recording(tmp_path / "day.jsonl") as recording:
        recording.begin()
        for number in range(3):
            recording.change(Change(Kind.ADDED, pod(f"p{number}")))
        clock.seconds += 1
        recording.end()
    assert [line["at"] for line in lines_of(tmp_path / "day.jsonl")[1:]] == [0.0, 0.0001, 0.0002, 0.0003, 1.0]


def test_what_is_not_kept_makes_no_line_when_it_changes(clock: Clock, tmp_path: Path) -> None:
    def noted(note: str, cpu: str = "1") -> Pod:
        container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
        body = {
            "metadata": {"name": "web", "annotations": {"note": note}},
            "spec": {"containers": [container]},
        }
        made: Pod = read(Pod, body)
        return made

    with Recording(tmp_path / "day.jsonl") as recording:
        recording.begin()
        recording.change(Change(Kind.ADDED, noted("first")))
        recording.change(Change(Kind.MODIFIED, noted("second"), noted("first")))
        recording.change(Change(Kind.MODIFIED, noted("second", cpu="2"), noted("second")))
    assert [line["event"] for line in lines_of(tmp_path / "day.jsonl")[1:]] == ["BEGIN", "ADDED", "MODIFIED"]
    assert recording.counts == {"Pod ADDED": 1, "Pod MODIFIED": 1}


def test_what_was_there_before_is_not_counted(clock: Clock, tmp_path: Path) -> None:
    with Recording(tmp_path / "day.jsonl") as recording:
        recording.add(pod("before"))
        recording.begin()
        recording.change(Change(Kind.ADDED, pod("web")))
    assert recording.counts == {"Pod ADDED": 1}


def test_an_anonymous_recording_tells_no_name(clock: Clock, tmp_path: Path) -> None:
    """Neither by the error of a request, which has its path, nor by the name of the file."""
    file = tmp_path / "acme.jsonl.gz"
    with Recording(file, Hashing()) as recording:
        recording.begin()
        recording.change(Change(Kind.ADDED, pod("acme-web")))
        recording.change(Change(Kind.DELETED, pod("acme-web")))
        recording.gap(3.0, "GET /api/v1/namespaces/acme/pods: refused")
        recording.end()
    assert b"acme" not in file.read_bytes() + gzip.decompress(file.read_bytes())
    head, *_, gap, _ = lines_of(file)
    assert (head["anonymous"], gap["seconds"], recording.gaps) == (True, 3.0, [3.0])


@pytest.mark.parametrize("name", ["day.jsonl", "day.jsonl.gz"])
def test_what_was_flushed_is_read_though_the_recorder_is_killed(
    clock: Clock, tmp_path: Path, name: str
) -> None:
    with Recording(tmp_path / name) as recording:
        recording.add(node("n1"))
        recording.begin()
        recording.flush()
        left = tmp_path / f"left-{name}"
        left.write_bytes((tmp_path / name).read_bytes())
    assert [str(change.object) for _, change in Reading(left).happenings()] == ["n1"]
