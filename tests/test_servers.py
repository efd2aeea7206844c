"""No server outlives whoever has started it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from cluster import PATIENCE, eventually

from scripts.servers.process import ROOT
from scripts.servers.real import assets

HOLDS = """
import sys, time
from pathlib import Path
from scripts.benchmark.processes import line_with, process
from scripts.servers.embedded import minicluster
from scripts.servers.real import apiserver
if sys.argv[1] == "embedded":
    server = minicluster("--nodes", "0")
elif sys.argv[1] == "real":
    server = apiserver(Path(sys.argv[2]))
else:
    log = Path(sys.argv[2], "server.log")
    server = process([sys.executable, "-m", "scripts.minicluster", "--port", "0"], log)
with server as running:
    if sys.argv[1] == "bench":
        running = line_with("minicluster", running).rsplit(" ", 1)[1]
    print(getattr(running, "url", running), flush=True)
    time.sleep(600)
"""


SHELL = """
import sys
from pathlib import Path
from scripts.learning.bash import Bash
with Bash({}, Path(sys.argv[1])) as bash:
    print(bash.run("sleep 600 & echo $! $$"), flush=True)
    bash.run("sleep 600")
"""

TRIAL = """
import sys
from pathlib import Path
from scripts.grading.scenario import Scenario
from scripts.grading.trial import Limits, run
folder = Path(sys.argv[1])
run(Scenario(Path("scripts/lab/scenarios/save-money")), folder / "endless.py", 1, Limits(60, 4096))
"""

ENDLESS = """
while True:
    pass
"""


def answers(url: str) -> bool:
    """Whether anything listens there."""
    try:
        httpx.get(f"{url}/version", trust_env=False, verify=False)
    except httpx.TransportError:
        return False
    return True


def running_python(code: str, *arguments: str) -> "subprocess.Popen[str]":
    """Python that runs some code, which may import the project's; its output can be read."""
    command = [sys.executable, "-c", code, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment)


@pytest.mark.parametrize(
    ("server", "by"),
    [
        ("embedded", signal.SIGTERM),
        ("embedded", signal.SIGKILL),
        ("real", signal.SIGKILL),
        ("bench", signal.SIGKILL),
    ],
)
def test_a_server_ends_with_its_parent(server: str, by: signal.Signals, tmp_path: Path) -> None:
    if server == "real" and not assets():
        pytest.skip("needs a real kube-apiserver")
    with running_python(HOLDS, server, str(tmp_path)) as parent:
        assert parent.stdout
        url = parent.stdout.readline().strip()
        assert answers(url)
        parent.send_signal(by)
    eventually(lambda: not answers(url), within=60)


@pytest.mark.parametrize("parent", [SHELL, TRIAL], ids=["a lesson's shell", "a policy that is graded"])
def test_what_runs_for_others_ends_with_its_parent(parent: str, tmp_path: Path) -> None:
    Path(tmp_path, "endless.py").write_text(ENDLESS)
    with running_python(parent, str(tmp_path)) as running:
        assert running.stdout
        if parent == SHELL:
            pids = running.stdout.readline().split()
        else:
            pids = eventually(lambda: children(running.pid))
        assert all(Path("/proc", pid).exists() for pid in pids)
        running.kill()
    eventually(lambda: not any(is_running(pid) for pid in pids))


def children(parent: int) -> list[str]:
    """The processes that a process has started."""
    return Path(f"/proc/{parent}/task/{parent}/children").read_text().split()


def is_running(pid: str) -> bool:
    """Whether there is such a process, and it isn't only still to be waited for."""
    try:
        return "State:\tZ" not in Path("/proc", pid, "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


STUBBORN = """
import subprocess, sys
from scripts.servers.process import ending_with_us
code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(600)"
command = ending_with_us([sys.executable, "-c", code])
with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
    process.stdout.readline()
    print(process.pid, flush=True)
    process.wait()
"""


def test_a_server_that_does_not_end_when_all_are_told_to_is_killed() -> None:
    command = [sys.executable, "-c", STUBBORN]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as parent:
        assert parent.stdout
        server = parent.stdout.readline().strip()
        assert is_running(server)
        os.killpg(parent.pid, signal.SIGTERM)
        parent.wait(PATIENCE)
    eventually(lambda: not is_running(server))
