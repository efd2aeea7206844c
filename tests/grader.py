"""scripts/grade for tests: forked from a process that has imported poller, which saves most of its start."""

import csv
import io
import subprocess
from pathlib import Path

from poller_process import run_poller

from scripts.servers.process import ROOT

LAB = ROOT / "scripts" / "lab"
SAVE_MONEY = LAB / "scenarios" / "save-money"
SOLUTION = LAB / "solutions" / "save-money.py"

GRADER = ROOT / "scripts" / "grading" / "__main__.py"


def grade(
    *policies: Path, scenario: Path = SAVE_MONEY, options: tuple[str, ...] = ("--csv",)
) -> "subprocess.CompletedProcess[str]":
    arguments = [*map(str, policies), "--scenario", str(scenario), *options]
    return run_poller(*arguments, script=GRADER)


def rows(done: "subprocess.CompletedProcess[str]") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(done.stdout)))
