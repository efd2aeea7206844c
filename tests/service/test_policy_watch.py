"""A policy that takes long: the log says in which line it is, also when poller is interrupted."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from cluster import PATIENCE, eventually
from objects import node, pod

from lib.scheduling.cache import Cache
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.policies import load_policy
from lib.service.policy_watch import watching
from lib.service.shutdown import Stopped
from scripts.servers.process import ROOT, ending_with_us

POLICY = """
def score(pod, node):
    if node.name == "n2":
        pod.annotations["wait"]()  # a function of the test
    return 1
"""


LISTENS_TO_SIGINT = f"""
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
runpy.run_path({str(ROOT / "poller.py")!r}, run_name="__main__")
"""


def schedule(folder: Path, long: float, wait: Callable[[], None]) -> None:
    """Schedule a pod by a policy that is watched, and that waits when it comes to the second node."""
    file = folder / "slow.py"
    file.write_text(POLICY)
    policy = load_policy(file)
    profile = default_profile("my-scheduler", *policy.plugins, weights=policy.weights)
    web = pod("web")
    web.metadata.annotations["wait"] = wait  # type: ignore[assignment]
    with watching([policy.file], long):
        Scheduler(profile, Random(1)).schedule_one(web, Cache([node("n1"), node("n2")]))


def test_a_policy_that_takes_long_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def until_it_is_named() -> None:
        deadline = time.monotonic() + 60
        while not caplog.messages and time.monotonic() < deadline:
            time.sleep(0.01)

    schedule(tmp_path, 0.2, until_it_is_named)
    assert caplog.messages[0].startswith("a policy has been running for ")
    assert caplog.messages[0].endswith("score, slow.py:4, for pod default/web and node n2")


def test_a_policy_that_hangs_while_it_is_loaded_is_named_when_it_is_interrupted(tmp_path: Path) -> None:
    loaded, file = tmp_path / "loaded", tmp_path / "endless.py"
    file.write_text(f"open({str(loaded)!r}, 'w')\nwhile True:\n    pass\n")
    command = ending_with_us([sys.executable, "-c", LISTENS_TO_SIGINT, "--once", "--plugin", str(file)])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as poller:
        eventually(loaded.exists)
        poller.send_signal(signal.SIGINT)
        poller.wait(PATIENCE)
        assert poller.stderr
        said = poller.stderr.read()
    assert poller.returncode == 130
    assert re.fullmatch(r"the policy that was running was interrupted: loading endless.py:[23]\n", said)


def test_a_policy_that_is_interrupted_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def until_a_signal_comes() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        schedule(tmp_path, 60, until_a_signal_comes)
    where = "score, slow.py:4, for pod default/web and node n2"
    assert caplog.messages == [f"the policy that was running was interrupted: {where}"]
