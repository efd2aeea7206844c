"""Lesson 18's contest, played for one policy. It loads much of poller, so only its check loads it."""

import secrets
from pathlib import Path
from typing import NamedTuple

from scripts.grading.contest import Contest
from scripts.grading.hand_in import HandIn
from scripts.grading.ranking import beats
from scripts.grading.remote_policy import Limits
from scripts.servers.process import ROOT


class Played(NamedTuple):
    """The share of the GPUs that is allocated, in percent. problem: why there is none of its own."""

    own: float | None
    best_fit: float | None
    problem: str
    is_better: bool


def play(policy: Path) -> Played:
    """Play the day in orders that nobody knows."""
    contest, seed = Contest(ROOT / "scripts" / "lab" / "contests" / "gpu-day"), secrets.randbits(32)
    entries = [*contest.play([HandIn(policy, policy.name, "")], seed, Limits(20, 1024))]
    best_fit, own = entries
    is_better = own.score is not None and beats(contest, own, entries)
    return Played(own.score, best_fit.score, str(own.problem), is_better)
