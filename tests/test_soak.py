"""How the soak judges: what a leak looks like, and what isn't one."""

import subprocess
import sys
from random import Random

import pytest

from scripts.servers.process import ROOT
from scripts.soaking.figures import Figures, Rest
from scripts.soaking.judge import problems

PODS_A_SECOND = 20


def samples(
    memory: float = 0.0, descriptors: float = 0.0, latency: float = 0.0, idle: float = -1.0
) -> list[Figures]:
    """25 minutes after the warm-up. By how much each grows in a minute; when no pod is bound."""
    noise = Random(1)
    return [
        Figures(
            seconds,
            50 + memory * (seconds - 300) / 60 + noise.uniform(-2, 2),
            int(30 + descriptors * (seconds - 300) / 60 + noise.uniform(-1, 1)),
            5,
            10 + latency * (seconds - 300) / 60 + noise.uniform(-1, 1),
            0 if seconds == idle else 5 * PODS_A_SECOND,
        )
        for seconds in range(300, 1800, 5)
    ]


def rests(blocks_of_a_pod: float = 0.0, blocks_of_a_node: float = 0.0) -> list[Rest]:
    """Each five minutes, 6,000 pods and 75 nodes more."""
    return [
        Rest(
            300.0 * number,
            6_000 * number,
            75 * number,
            300_000 + int((6_000 * blocks_of_a_pod + 75 * blocks_of_a_node) * number),
            {"builtins.str": 10, "lib.kube.objects.Pod": int(6_000 * blocks_of_a_pod * number)},
        )
        for number in range(1, 7)
    ]


def test_what_stays_within_its_noise_has_not_grown() -> None:
    assert problems(samples(), rests()) == []


@pytest.mark.parametrize(
    ("grows", "said"),
    [
        ({"memory": 1.0}, "memory grows by"),
        ({"memory": 0.3}, "memory grows by"),
        ({"descriptors": 1.0}, "descriptors grew"),
        ({"latency": 0.5}, "latency grew"),
        ({"idle": 900}, "no pod was bound in 1 samples, first at 900 s"),
    ],
)
def test_growth_is_found(grows: dict[str, float], said: str) -> None:
    (problem,) = problems(samples(**grows), rests())
    assert problem.startswith(said)


@pytest.mark.parametrize("leak", [{"blocks_of_a_pod": 1.0}, {"blocks_of_a_node": 10.0}])
def test_what_is_kept_of_each_pod_is_found_and_named(leak: dict[str, float]) -> None:
    """A uid is 64 bytes: 4.6 MiB an hour, which is little beside what memory does by itself."""
    (problem,) = problems(samples(), rests(**leak))
    assert "at rest poller holds" in problem
    assert ("lib.kube.objects.Pod +30,000" in problem) == ("blocks_of_a_pod" in leak)


@pytest.mark.parametrize("minutes", ["0", "2.9", "-5", "nan"])
def test_a_soak_that_is_too_short_is_refused(minutes: str) -> None:
    command = [sys.executable, "-m", "scripts.soaking", f"--minutes={minutes}"]
    refused = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert refused.stderr.endswith("argument --minutes: a soak takes 3 minutes at least\n")
