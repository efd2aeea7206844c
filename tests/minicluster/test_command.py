"""The command: what it prints, and how it ends."""

import re
import signal
import subprocess
import sys

import httpx
import pytest

from scripts.servers.process import ROOT

COMMAND = [sys.executable, "-m", "scripts.minicluster"]


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
def test_says_when_it_is_ready_and_ends_even_while_it_is_watched(
    signal_number: signal.Signals,
) -> None:
    with subprocess.Popen(
        [*COMMAND, "--nodes", "2", "--port", "0"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout
            assert server.stderr
            found = re.fullmatch(
                r"minicluster with 2 nodes: (http://127\.0\.0\.1:\d+)\n", server.stdout.readline()
            )
            assert found
            with httpx.stream("GET", f"{found[1]}/api/v1/pods?watch=1", timeout=60) as watch:
                assert watch.status_code == 200
                server.send_signal(signal_number)
                assert list(watch.iter_lines()) == []  # the watch is ended, not cut off
            server.wait(60)
            assert server.stdout.read() == ""
            assert server.stderr.read() == ""
        finally:
            server.kill()


def test_a_port_that_is_taken_is_an_error() -> None:
    with subprocess.Popen([*COMMAND, "--port", "0"], cwd=ROOT, stdout=subprocess.PIPE, text=True) as first:
        try:
            assert first.stdout
            port = first.stdout.readline().rpartition(":")[2].strip()
            second = subprocess.run(
                [*COMMAND, "--port", port], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
            )
            assert second.returncode != 0
            assert "address already in use" in second.stderr
        finally:
            first.terminate()
