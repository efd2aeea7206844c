"""Runs one policy: `poller.py try` in a separate process, with limits."""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from scripts.grading.scenario import Json, Scenario
from scripts.servers.process import ROOT, ending_with_all_it_starts

GRACE = 60.0
"""Seconds of waiting beyond the limit of CPU time: the machine may be busy with other processes."""

MOST_WRITTEN = 16 * 1024 * 1024  # bytes, of a file

# The same seed makes a policy's own use of `random` repeatable, too.
START = """
import random, runpy, sys
_, program, seed, *arguments = sys.argv
random.seed(int(seed))
sys.argv = [program, *arguments]
runpy.run_path(program, run_name="__main__")
"""


@dataclass(frozen=True)
class Limits:
    """What a policy may use: seconds of CPU time, mebibytes of memory."""

    seconds: int
    mebibytes: int

    def apply(self) -> None:
        """Set the limits for this process and its child processes."""
        resource.setrlimit(resource.RLIMIT_CPU, (self.seconds, self.seconds + 1))
        resource.setrlimit(resource.RLIMIT_AS, (self.mebibytes << 20, self.mebibytes << 20))
        resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_WRITTEN, MOST_WRITTEN))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@dataclass(frozen=True)
class Trial:
    """The result: where each pod went; or what went wrong, in one line."""

    answer: Json | None
    problem: str = ""


def run(scenario: Scenario, policy: Path | None, seed: int, limits: Limits) -> Trial:
    """Place the pods by a policy; None: by poller's defaults."""
    with tempfile.TemporaryDirectory(prefix="grade-") as folder:
        cluster = Path(folder, "cluster.json")
        content = {"kind": "List", "apiVersion": "v1", "items": scenario.objects}
        cluster.write_text(json.dumps(content, default=str))
        command = [sys.executable, "-c", START, str(ROOT / "poller.py"), str(seed), "try"]
        command += [
            f"--from={cluster}",
            f"--filename={scenario.pods_file}",
            f"--seed={seed}",
            "--output=json",
        ]
        command += ["--scheduler-name=my-scheduler"]
        command += [f"--plugin={policy.resolve()}"] if policy else []
        # The policy gets nothing of the teacher's environment: no kubeconfig, no tokens.
        environment = {"PATH": os.defpath, "HOME": folder, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)}
        with ending_with_all_it_starts(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            errors="replace",
            preexec_fn=limits.apply,
        ) as process:
            try:
                said, errors = process.communicate(timeout=limits.seconds + GRACE)
            except subprocess.TimeoutExpired:
                return Trial(None, f"took longer than {limits.seconds + GRACE:g} s")
    return _result(process.returncode, said, errors, limits)


def _result(status: int, said: str, errors: str, limits: Limits) -> Trial:
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return Trial(None, f"took longer than {limits.seconds} s of computing time")
    if "MemoryError" in errors or "MemoryError" in said:
        return Trial(None, f"took more than {limits.mebibytes} MiB of memory")
    try:
        answer = json.loads(said[f"\n{said}".rfind("\n{\n") :])  # before it is what the policy prints
        answer["workloads"], answer["pods"]
    except (ValueError, TypeError, KeyError):
        lines = [line for line in errors.splitlines() if line.strip()]
        return Trial(None, lines[-1] if lines else f"ended with status {status}, and no answer")
    return Trial(answer)
