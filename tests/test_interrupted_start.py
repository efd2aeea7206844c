"""Ctrl-C while poller starts ends it, without a traceback."""

import signal
import subprocess
import sys
from functools import partial

import pytest

from scripts.servers.process import ROOT


@pytest.mark.parametrize("module", ["httpx", "msgspec", "lib.service.app", "lib.questions.verbs"])
@pytest.mark.parametrize("arguments", [[], ["why", "web"]])
def test_ctrl_c_while_a_module_is_imported(module: str, arguments: list[str]) -> None:
    """Python names each module that it has imported, so the signal comes at a known moment.

    On a busy machine it may come when poller has begun to poll, which ends it as always.
    """
    command = [sys.executable, "-X", "importtime", "poller.py", "--proxy", "http://127.0.0.1:9", *arguments]
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell has its background jobs ignore it
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, preexec_fn=heed) as poller:
        assert poller.stderr
        for line in poller.stderr:
            if line.split("|")[-1].strip() == module:
                poller.send_signal(signal.SIGINT)
                break
        rest = poller.stderr.read()
        poller.wait(timeout=30)
    assert "Traceback" not in rest
    said = [line for line in rest.splitlines() if not line.startswith("import time:")]
    ended_at_once = poller.returncode in (-signal.SIGINT, 128 + signal.SIGINT)
    assert ended_at_once or (poller.returncode == 0 and "ended by SIGINT" in rest), said
