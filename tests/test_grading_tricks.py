"""scripts/grade: what hand-ins try, and what it brings them: nothing, and the others no harm."""

import csv
import io
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from grader import SAVE_MONEY, SOLUTION, grade, rows

from scripts.grading.__main__ import AS_ROOT
from scripts.grading.hand_in import without_its_words
from scripts.grading.kernel import has_walls
from scripts.grading.scenario import Scenario
from scripts.grading.second_look import second_look
from scripts.grading.trial import Limits, Task
from scripts.servers.process import ROOT

HONEST = """
WEIGHT = 100

def score(pod, node):
    return round(100 - 100 * float(node.annotations["example.com/price"]))
"""

PODS = [f"default/{name}-{i}" for name, most in (("web", 6), ("batch", 4)) for i in range(1, most + 1)]


def own_answer(node: str) -> str:
    """What `poller.py try` prints when all pods are on the cheapest node, or on any other."""
    pods = [{"pod": pod, "node": node, "message": "", "victims": []} for pod in PODS]
    answer = {"question": "try", "answer": "yes", "workloads": [], "pods": pods, "nodes": {}, "why": []}
    return json.dumps(answer, indent=2)


DEFAULTS = "the same as without a policy"

TRICKS = {
    "prints": (
        f"import os\nprint({own_answer('small')!r}, flush=True)\nos._exit(0)\n",
        "its process ended",
    ),
    "prints_late": (
        f"import atexit\natexit.register(print, {own_answer('small')!r})\n\n"
        "def score(pod, node):\n    return 0\n",
        DEFAULTS,
    ),
    "unknown_node": (
        f"import os\nprint({own_answer('nowhere')!r}, flush=True)\n\n"
        "def score(pod, node):\n    os._exit(0)\n",
        "its process ended",
    ),
    "no_resources": (
        "from lib.scheduling.plugins.node_resources_fit import NodeResourcesFit\n"
        "NodeResourcesFit.filter = lambda *_: None\n"
        "NodeResourcesFit.filter_nodes = lambda self, state, pod, nodes: [None] * len(nodes)\n\n"
        "def filter(pod, node):\n    return node.name == 'small'\n",
        "4/10",
    ),
    "another_name": (
        "class Mine:\n    @property\n    def name(self):\n        return 'NodeResourcesFit'\n\n"
        "    def filter(self, state, pod, node):\n        return None\n",
        "already the name of a plugin",
    ),
    "yet_another_name": (
        "class Mine:\n    asked = 0\n\n    @property\n    def name(self):\n        Mine.asked += 1\n"
        "        return 'mine' if Mine.asked < 3 else 'NodeResourcesFit'\n\n"
        "    def pre_filter(self, state, pod, cache):\n"
        "        from lib.scheduling.framework.interface import SKIP\n        return SKIP\n",
        "already the name of a plugin",
    ),
    "has_its_answers_believed": (
        "import sys\np = sys.modules['__main__']\n"
        "p.Answering.answer = lambda self, call: p.Answer(\n"
        "    call.number, status=p.Told('success'), names=['small'],"
        " scores=dict.fromkeys(call.nodes, 100)\n)\n\n"
        "def score(pod, node):\n    return 0\n",
        "10/10",
    ),
    "asks_for_too_much": (
        "import sys\np = sys.modules['__main__']\np.check_scores = lambda *_: None\n\n"
        "def score(pod, node):\n    return 10**15\n",
        "not a whole number from 0 to 100",
    ),
    "draws_on_the_terminal": ("def filter(pod, node):\n    return '\\x1b[2J3/3\\r\\u202e'\n", "\\x1b[2J3/3"),
    "writes_a_formula": ("raise ValueError('=HYPERLINK(1)<b>')\n", "ValueError: =HYPERLINK(1)"),
    "evicts": (
        "class Mine:\n    def post_filter(self, state, pod, *more):\n        return None\n",
        "Mine has post_filter",
    ),
    "waits": (
        "from lib.scheduling.framework.interface import wait\n\n"
        "class Mine:\n    def permit(self, state, pod, *more):\n        return wait('for ever')\n",
        "Mine has permit",
    ),
    "reads": (
        f"from pathlib import Path\nexec(Path({str(SOLUTION)!r}).read_text())\n",
        "reads no files but its own",
    ),
    "cancels": (
        "import asyncio\n\ndef score(pod, node):\n    raise asyncio.CancelledError\n",
        "CancelledError",
    ),
    "into_the_pipe": (
        "import os\n\ndef score(pod, node):\n"
        "    for descriptor in range(3, 30):\n"
        "        try:\n            os.write(descriptor, b'{\"score\": 100}\\n' * 2)\n"
        "        except OSError:\n            pass\n    return 0\n",
        "wrote into the grader's pipe",
    ),
    "rubbish": (
        "import os\n\ndef score(pod, node):\n"
        "    for descriptor in range(3, 30):\n"
        "        try:\n            os.write(descriptor, b'\\xff' * 10**8)\n"
        "        except OSError:\n            pass\n",
        "wrote into the grader's pipe",
    ),
    "long_reason": ("def filter(pod, node):\n    return 'no ' * 10**7\n", "no no no"),
    "long_name": (
        "class Mine:\n    def pre_filter(self, state, pod, cache):\n        return {'n' * 10**7}\n",
        "which is too much",
    ),
    "deep": (
        "import os\n\ndef score(pod, node):\n    for descriptor in range(3, 30):\n"
        "        try:\n            os.write(descriptor, b'{\"a\":' + b'[' * 10**5 + b'\\n')\n"
        "        except OSError:\n            pass\n",
        "wrote into the grader's pipe",
    ),
    "changes_the_cluster": (
        "import gc\nfrom lib.scheduling.node_info import NodeInfo\n\ndef score(pod, node):\n"
        "    for each in gc.get_objects():\n        if isinstance(each, NodeInfo):\n"
        "            each.allocatable = {'cpu': 10**9}\n            each.pods = []\n    return 0\n",
        "its process ended",
    ),
}
"""By a hand-in's name: its source, and words of what is said of it or of where its pods are."""

TRIES = """
REFUSED = {}
for source, words in ATTEMPTS:
    try:
        exec(source)
        REFUSED[source] = "it was not refused"
    except BaseException as error:
        REFUSED[source] = "" if words in str(error) else str(error)

def filter(pod, node):
    wrong = [f"{source}: {said}" for source, said in REFUSED.items() if said]
    return f"{len(REFUSED)} attempts; not refused as they should be: {wrong}"
"""
"""Makes each attempt of ATTEMPTS, pairs of a source and words of the error; says which weren't refused."""

AT_THE_HOOK = [
    (f"exec(open({str(ROOT / 'scripts/grading/reference.py')!r}).read())", "reads no files but its own"),
    ("from scripts.grading.reference import _fullest", "reads no files but its own"),
    ("import glob, os; os.listdir('/')", "lists no folders"),
    ("import os; os.system('sleep 600')", "may not use os.system"),
    ("import socket; socket.socket()", "may not use socket"),
    ("import os; os.kill(os.getppid(), 9)", "may not use os.kill"),
]
"""What Python's audit hook refuses."""

AROUND_THE_HOOK = """
import ctypes, fcntl, gc, os, resource, signal, socket, threading, types

for each in gc.get_objects():
    if isinstance(each, types.FunctionType) and each.__qualname__ == "confine.<locals>.hook":
        each.__globals__.update(REFUSED=(), LISTING=(), WRITING=0)
        for cell in each.__closure__:
            if isinstance(cell.cell_contents, tuple):
                cell.cell_contents = ("/",)

"""
"""Python that takes the audit hook away. What comes after it meets the kernel."""

DENIED = "Permission denied"
NOT_PERMITTED = "Operation not permitted"

AT_THE_WALLS = [
    (f"exec(open({str(SOLUTION)!r}).read())", DENIED),
    ("open(f'/proc/{os.getppid()}/mem', 'rb')", DENIED),
    ("os.listdir('/tmp')", DENIED),
    ("open('mine.txt', 'w')", DENIED),
    (f"os.unlink({str(ROOT / 'README.md')!r})", DENIED),
    (f"os.chmod({str(ROOT / 'README.md')!r}, 0)", NOT_PERMITTED),
    ("os.fork()", NOT_PERMITTED),
    ("assert ctypes.CDLL(None).fork() >= 0, 'no fork'", "no fork"),
    ("os.execv('/bin/sh', ['sh'])", NOT_PERMITTED),
    ("os.kill(os.getppid(), 0)", NOT_PERMITTED),
    ("resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE)", NOT_PERMITTED),
    ("resource.setrlimit(resource.RLIMIT_CPU, (9**6, 9**6))", "not allowed to raise"),
    ("socket.socket(socket.AF_INET, socket.SOCK_DGRAM)", NOT_PERMITTED),
    ("read, write = os.pipe(); fcntl.fcntl(read, fcntl.F_SETOWN, os.getppid())", NOT_PERMITTED),  # by a file
    ("fcntl.fcntl(0, 10, signal.SIGKILL)", NOT_PERMITTED),  # F_SETSIG
    ("fcntl.ioctl(0, 0x8901, bytes(4))", NOT_PERMITTED),  # FIOSETOWN
    ("assert ctypes.CDLL(None).semget(1, 1, 0o1600) >= 0, 'no semaphore'", "no semaphore"),
]
"""What the kernel refuses after AROUND_THE_HOOK."""

HARMLESS = """
assert fcntl.fcntl(0, fcntl.F_GETFL) >= 0
thread = threading.Thread(target=print)
thread.start()
thread.join()
import sqlite3, zoneinfo

def score(pod, node):
    return 0
"""


def tries(attempts: list[tuple[str, str]], before: str = "") -> tuple[str, str]:
    """A hand-in that makes attempts, and what it says when each is refused."""
    return (
        f"{before}ATTEMPTS = {attempts!r}\n{TRIES}",
        f"{len(attempts)} attempts; not refused as they should be: [].",
    )


TRICKS["meets_the_hook"] = tries(AT_THE_HOOK)
if has_walls():
    TRICKS["meets_the_kernel"] = tries(AT_THE_WALLS, AROUND_THE_HOOK)
    TRICKS["does_no_harm"] = (AROUND_THE_HOOK + HARMLESS, DEFAULTS)


def by_name(done: "subprocess.CompletedProcess[str]") -> dict[str, dict[str, str]]:
    return {Path(row["policy"]).stem: row for row in rows(done)}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the students' pages."""
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory, pages: Path) -> dict[str, dict[str, str]]:
    """All hand-ins at once, and an honest one after them."""
    folder = tmp_path_factory.mktemp("handed-in")
    sources = {name: source for name, (source, _) in TRICKS.items()} | {"honest": HONEST}
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    files = (folder / f"{name}.py" for name in sources)
    done = grade(*files, options=("--csv", f"--reports={pages}", "--hidden=0"))
    assert done.returncode == 3
    assert done.stderr.strip() == (AS_ROOT if os.geteuid() == 0 else "") or not has_walls()
    return by_name(done)


@pytest.mark.parametrize("name", TRICKS)
def test_a_trick_brings_nothing(name: str, graded: dict[str, dict[str, str]]) -> None:
    row, words = graded[name], TRICKS[name][1]
    assert len(row["problem"]) < 5000
    assert int(row["points"]) <= int(graded["(no policy)"]["points"])
    if words == DEFAULTS:
        names = dict.fromkeys(("policy", "student", "problem"), "")
        assert row | names == graded["(no policy)"] | names
    else:
        assert words in f"{row['problem']} {row['placed >= 10']}"


@pytest.mark.usefixtures("graded")
def test_a_page_shows_no_html_of_a_policy(pages: Path) -> None:
    assert "=HYPERLINK(1)&lt;b>" in (pages / "writes_a_formula.md").read_text()


def test_an_honest_one_among_them_has_all_its_points(graded: dict[str, dict[str, str]]) -> None:
    assert (graded["honest"]["points"], graded["honest"]["problem"]) == ("3", "")


MEASURED = """
import resource, subprocess, sys
print(subprocess.run(sys.argv[1:], capture_output=True, text=True).stdout)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""Runs a command, and prints the memory, in KiB, of the largest of its processes: pytest has others, too."""


def test_what_is_printed_without_end_takes_none_of_the_graders_memory(tmp_path: Path) -> None:
    policy = tmp_path / "prints.py"
    policy.write_text("def score(pod, node):\n    while True:\n        print('x' * 10**6)\n")
    grading = [ROOT / "scripts/grade", policy, "--scenario", SAVE_MONEY, "--csv", "--seconds=1"]
    command = [sys.executable, "-c", MEASURED, *grading]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    said, most = done.stdout.strip().rsplit("\n", 1)
    found = {Path(row["policy"]).stem: row for row in csv.DictReader(io.StringIO(said))}["prints"]
    assert "took longer than 1 s of computing time, with score of default/web-1" in found["problem"]
    assert int(most) < 400 * 1024


def test_hand_ins_that_hang_are_waited_for_side_by_side(tmp_path: Path) -> None:
    for i in range(2):
        (tmp_path / f"hangs{i}.py").write_text("import time\n\ndef score(pod, node):\n    time.sleep(3600)\n")
    began = time.monotonic()
    found = by_name(grade(*sorted(tmp_path.iterdir()), options=("--csv", "--seconds=1")))
    assert ["by the clock, with score of" in found[f"hangs{i}"]["problem"] for i in range(2)] == [True] * 2
    assert time.monotonic() - began < 2 * Limits(1, 1).most_seconds


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (
            "default/t4: plugin mine failed at mine.py:6 for node k1: ValueError: prices: 0.1",
            "it failed at mine.py:6, with ValueError",
        ),
        ("mine.py:2: Prices01: it failed", "it failed at mine.py:2, with an exception of its own"),
        ("default/t4: 0/4 nodes are available: 4 prices: 0.1, 0.2.", "a pod has no node there"),
        (
            "took longer than 10 s of computing time, with score of default/t4",
            "took longer than 10 s of computing time, with score of default/t4",
        ),
    ],
)
def test_what_a_policy_says_of_a_hidden_cluster_is_not_told(problem: str, told: str) -> None:
    assert without_its_words(problem) == told


def test_a_link_to_a_solution_is_no_hand_in(tmp_path: Path) -> None:
    (tmp_path / "ann.py").symlink_to(SOLUTION)
    assert (
        by_name(grade(tmp_path / "ann.py"))["ann"]["problem"] == "is a link to another file, and not a file"
    )


def test_a_placement_that_breaks_the_rules_is_found_at_the_second_look() -> None:
    task = Task(Scenario(SAVE_MONEY))
    placed = [*task.placing(task.decider()).steps()]
    assert second_look(placed, task.decider()) == ""
    on_the_cheapest = [replace(each, node_name="small") for each in placed]
    assert "doesn't fit on small: Insufficient cpu" in second_look(on_the_cheapest, task.decider())
    nowhere = [replace(placed[0], node_name="nowhere")]
    assert "nowhere, which doesn't exist" in second_look(nowhere, task.decider())
