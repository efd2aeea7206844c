"""How many functions and files a pod's way from poll to event leads through: a reader follows all of them."""

from pathlib import Path

from scripts.benchmark.way import of_a_lone_pod

MAX_FUNCTIONS, MAX_FILES = 281, 62
"""kube-scheduler's figures, counted alike."""

MAX_LOADED, MAX_LINES = 121, 17_500


def test_the_way_of_a_pod_is_short(tmp_path: Path) -> None:
    way = of_a_lone_pod(tmp_path)
    counted = way.counted()
    listed = "\n".join(f"{file} {name}" for file, name in counted)
    for function in (
        ("poller.py", "finish"),
        ("lib/scheduling/scheduling_cycle.py", "Scheduler.schedule_one"),
        ("lib/service/writes/writes.py", "Writes._write_event"),
    ):
        assert function in counted
    assert len(counted) <= MAX_FUNCTIONS, listed
    assert len({file for file, _ in counted}) <= MAX_FILES, listed
    loaded = "\n".join(f"{lines} {file}" for file, lines in way.loaded.items())
    assert len(way.loaded) <= MAX_LOADED, loaded
    assert sum(way.loaded.values()) <= MAX_LINES, loaded
