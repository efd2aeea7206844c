"""Students' own schedulers, of lessons 20 to 23: right ones pass, and wrong ones are told what is wrong.

A wrong one is the lesson's solution with one place changed.
"""

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from all_cases import ALL_CASES

from scripts.learning import own_scheduler, trial
from scripts.learning.checks import CHECKS
from scripts.learning.lab import Lab, NotYetError, TrialError, eventually
from scripts.learning.pages import LESSONS
from scripts.learning.recorder import Recorder
from scripts.servers import faulty_proxy
from scripts.servers.process import ROOT

SCHEDULERS = LESSONS / "schedulers"
SIXTY_LINES, QUEUE, PLUGINS = ("20/sched.py",), ("21/cluster.py", "21/sched.py"), ("21/cluster.py", "22/*.py")
PREEMPTION = (*PLUGINS, "23/*.py")

WRONG = [
    ("own_scheduler_binds_at_random", SIXTY_LINES, ("            tell(pod, node)\n", ""), "has no event"),
    (
        "own_scheduler_knows_room",
        SIXTY_LINES,
        ("            take(room, node, (cpu, memory))\n", ""),
        "are both bound, but dune-",
    ),
    (
        "own_scheduler_looks_up_what_is_lost",
        SIXTY_LINES,
        ("if said.is_error:", "said.raise_for_status()\n    if said.is_error:"),
        "without a node: quick-",
    ),
    (
        "own_scheduler_watches",
        QUEUE,
        ('if change["type"] == "ERROR":', 'if change["type"] == "GONE":'),
        "has ended with exit status 1",
    ),
    ("own_scheduler_assumes", QUEUE, ("    assumed[uid] = node\n", ""), "its watch is late"),
    (
        "own_scheduler_backs_off_and_wakes",
        QUEUE,
        ("        self.due = ", "        self.due = 0 * "),
        "in which its node changed 15 times",
    ),
    ("own_scheduler_scores", PLUGINS, ("plugin.weight * score", "score"), "not on the node [23]"),
    (
        "own_scheduler_permits",
        PLUGINS,
        ("    pod = pods[uid]\n    answers", "    pod = pods[uid]\n    time.sleep(3)\n    answers"),
        "without a node: first-.*, go on with others",
    ),
    ("own_scheduler_preempts", PREEMPTION, (" < priority_of(pod)]", " <= priority_of(pod)]"), "helps nobody"),
]
"""One for each task."""

MORE_WRONG = [
    (
        "own_scheduler_looks_up_what_is_lost",
        SIXTY_LINES,
        ("        now = api.get(path).json()", "        return False"),
        "pod lost-.* is bound, but has no event",
    ),
    ("own_scheduler_assumes", QUEUE, ("        del assumed[uid]\n", ""), "forget that it was assumed"),
    (
        "own_scheduler_backs_off_and_wakes",
        QUEUE,
        ("        self.due = ", "        self.is_woken = True\n        self.due = 1 + 0 * "),
        "and nothing has happened in them",
    ),
    ("own_scheduler_permits", PLUGINS, ("    del assumed[uid]\n", ""), "is its room free again"),
    (
        "own_scheduler_preempts",
        PREEMPTION,
        ("[*there, *others, pod]", "[*there, pod]"),
        "got the room that urgent-.* has freed",
    ),
]

CASES = [*WRONG, *(MORE_WRONG * ALL_CASES)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A student's folder; its path has a space."""
    folder = tmp_path / "my project" / ".lab"
    folder.mkdir(parents=True)
    return folder


def look(task: str, folder: Path) -> str:
    return CHECKS[task](Lab("http://127.0.0.1:9", own=True, folder=folder))


@pytest.mark.parametrize(
    ("task", "solution", "change", "words"), CASES, ids=[f"{n}-{case[0]}" for n, case in enumerate(CASES)]
)
def test_a_wrong_scheduler_is_told_what_is_wrong(
    task: str,
    solution: tuple[str, ...],
    change: tuple[str, str],
    words: str,
    one_arena: None,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(own_scheduler, "SOON", 4.0)
    changed = 0
    for each in (file for pattern in solution for file in sorted(SCHEDULERS.glob(pattern))):
        right = each.read_text()
        (folder / each.name).write_text(right.replace(*change))
        changed += right.count(change[0])
    assert changed == 1
    with pytest.raises(NotYetError, match=words):
        look(task, folder)


def test_the_same_in_bash_is_as_good(one_arena: None, folder: Path) -> None:
    """And of two schedulers the one that was changed last is tried."""
    (folder / "sched.py").write_text("an old one")
    (folder / "sched.sh").write_text((SCHEDULERS / "20/sched.sh").read_text())
    assert look("own_scheduler_looks_up_what_is_lost", folder)


@pytest.mark.parametrize(
    ("name", "program", "words"),
    [
        ("sched.py", "import time\ntime.sleep(60)", "has asked the API server nothing for 1 s"),
        ("sched.sh", "curl --silent $POLLER_PROXY/api/v1/pods; exit 3", "has ended with exit status 3"),
        ("sched.sh", "kill -9 $$", "was killed by signal 9"),
        ("sched.sh", "setsid sleep 4321 & exit 4", "has ended with exit status 4"),
        ("sched", "#!/bin/sh", "chmod"),
    ],
    ids=["hangs", "ends", "dies", "leaves-something-running", "cannot-be-run"],
)
def test_a_program_that_is_no_scheduler_is_ended(
    name: str, program: str, words: str, one_arena: None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "FIRST_REQUEST", 1.0)
    (folder / name).write_text(program)
    begun = time.monotonic()
    with pytest.raises(TrialError, match=words):
        eventually(lambda: look("own_scheduler_binds_at_random", folder), 60)  # it isn't tried again
    assert time.monotonic() - begun < 15
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            assert each.read_bytes() != b"sleep\x004321\x00"


def test_a_finished_scheduler_is_no_own_one(
    one_arena: None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "sched.sh").write_text(f"exec '{sys.executable}' '{ROOT / 'poller.py'}'")
    with pytest.raises(TrialError, match="lets a finished scheduler bind the pods"):
        look("own_scheduler_binds_at_random", folder)


def test_what_a_scheduler_said_and_asked_last_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a cluster of the trial's own, as a student has it."""
    program = (
        "import os, urllib.request\nurllib.request.urlopen(os.environ['POLLER_PROXY'] + '/api/v1/nodes')\n1/0"
    )
    of_an_earlier_lesson = folder / "sched.page.py"
    of_an_earlier_lesson.touch()
    os.utime(of_an_earlier_lesson, (0, 0))
    (folder / "sched.py").write_text(program)
    with pytest.raises(TrialError, match="exit status 1"):
        look("own_scheduler_binds_at_random", folder)
    shown = capsys.readouterr().out
    assert ".lab/sched.py is tried, on a small cluster of its own:\n" in shown
    assert "To try the page's" not in shown
    assert "  - its last requests:\n      GET /api/v1/nodes (200)\n" in shown
    assert "      ZeroDivisionError: division by zero\n" in shown
    assert "ZeroDivisionError" in (folder / "trial.log").read_text()


def test_a_language_may_send_bodies_in_chunks(trials_server: str) -> None:
    namespace = trial.new_name("chunks")
    parts = [b'{"metadata": {"name": "', namespace.encode(), b'"}}']
    with faulty_proxy.running(Recorder, trials_server) as proxy:
        made = httpx.post(
            f"{proxy.url}/api/v1/namespaces",
            content=iter(parts),
            headers={"Content-Type": "application/json"},
        )
    assert made.status_code == 201, made.text
    assert [(each.status, each.body["metadata"]["name"]) for each in proxy.seen] == [(201, namespace)]
