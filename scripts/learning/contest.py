"""Lesson 18's contest, played for one policy. It loads much of poller, so only its check loads it."""

import secrets
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from scripts.grading.contest import Contest
from scripts.grading.hand_in import HandIn
from scripts.grading.ranking import beats
from scripts.grading.remote_policy import Limits
from scripts.learning.folder import OWN, make_folders
from scripts.servers.process import ROOT


class Played(NamedTuple):
    """The share of the GPUs that is allocated, in percent. problem: why there is none of its own."""

    own: float | None
    best_fit: float | None
    problem: str
    is_better: bool


def play(policy: Path) -> Played:
    """Play the day in orders that nobody knows. They stay the same: to try again is no second draw."""
    contest, seed = Contest(ROOT / "scripts" / "lab" / "contests" / "gpu-day"), _seed()
    entries = [*contest.play([HandIn(policy, policy.name, "")], seed, Limits(20, 1024))]
    best_fit, own = entries
    is_better = own.score is not None and beats(contest, own, entries)
    return Played(own.score, best_fit.score, str(own.problem), is_better)


def _seed() -> int:
    """This lab's: drawn when the contest is played for the first time."""
    file = OWN / "contest-seed"
    with suppress(OSError, ValueError):
        return int(file.read_text())
    seed = secrets.randbits(32)
    make_folders()
    file.write_text(f"{seed}\n")
    return seed
