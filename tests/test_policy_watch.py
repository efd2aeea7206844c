"""A policy that hangs: a line says where it is, and another where it was when poller was told to end."""

import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from objects import node, pod

from lib.scheduling.cache import Cache
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.policies import load_policy
from lib.service.policy_watch import watching
from lib.service.shutdown import Stopped

POLICY = """
def score(pod, node):
    if node.name == "n2":
        pod.annotations["wait"]()  # a function of the test
    return 1
"""


def schedule(folder: Path, long: float, wait: Callable[[], None]) -> None:
    """Schedule a pod by a policy that is watched, and that waits when it comes to the second node."""
    file = folder / "slow.py"
    file.write_text(POLICY)
    policy = load_policy(file)
    profile = default_profile("my-scheduler", *policy.plugins, weights=policy.weights)
    web = pod("web")
    web.metadata.annotations["wait"] = wait  # type: ignore[assignment]
    with watching([policy], long):
        Scheduler(profile, Random(1)).schedule_one(web, Cache([node("n1"), node("n2")]))


def test_a_policy_that_takes_long_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def until_it_is_named() -> None:
        deadline = time.monotonic() + 60
        while not caplog.messages and time.monotonic() < deadline:
            time.sleep(0.01)

    schedule(tmp_path, 0.2, until_it_is_named)
    assert caplog.messages[0].startswith("a policy has been running for ")
    assert caplog.messages[0].endswith("score, slow.py:4, for pod default/web and node n2")


def test_a_policy_that_is_interrupted_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def until_a_signal_comes() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        schedule(tmp_path, 60, until_a_signal_comes)
    where = "score, slow.py:4, for pod default/web and node n2"
    assert caplog.messages == [f"the policy that was running was interrupted: {where}"]
