"""No server outlives whoever has started it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from scripts.servers.process import ROOT
from scripts.servers.real import assets
from tests.cluster import eventually

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


def answers(url: str) -> bool:
    """Whether anything listens there."""
    try:
        httpx.get(f"{url}/version", trust_env=False, verify=False)
    except httpx.TransportError:
        return False
    return True


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
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, server, str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as parent:
        assert parent.stdout
        url = parent.stdout.readline().strip()
        assert answers(url)
        parent.send_signal(by)
    eventually(lambda: not answers(url), within=60)
