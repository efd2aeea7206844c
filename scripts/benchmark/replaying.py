"""Measures replays: decisions a second, and memory, in a separate process."""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.benchmark.measures import Result
from scripts.benchmark.processes import FailedError
from scripts.servers.process import ROOT

REPLAY = "replay, pods that arrive, run and end"

RUNS_FOR = 60
"""Seconds that a pod runs, in the mean."""

LIMIT = 1800.0
"""Seconds after which a measurement is ended."""


def replay(nodes: int, pods: int) -> list[Result]:
    """Replay so many pods. They arrive so fast that half of the cpu is used, but not in less than 20 s."""
    rate = max(1.0, min(nodes * 8 / 2 / 1.4 / RUNS_FOR, pods / 20))
    with TemporaryDirectory(prefix="poller-bench-") as folder:
        file = Path(folder, "nodes.csv")
        rows = (f"node-{i},8000,65536,0,\n" for i in range(nodes))
        file.write_text(f"sn,cpu_milli,memory_mib,gpu,model\n{''.join(rows)}")
        command = [sys.executable, str(ROOT / "poller.py"), "replay", "--nodes", str(file), "-o", "json"]
        command += ["--arrivals", f"poisson:{rate:.3f}/s", "--for", f"{pods / rate:.3f}s"]
        done = subprocess.run(
            [*command, "--runs-for", f"{RUNS_FOR}s"], capture_output=True, text=True, timeout=LIMIT
        )
    if not done.stdout:
        raise FailedError((done.stderr.strip().splitlines() or ["it ended without a word"])[-1])
    (figures,) = json.loads(done.stdout)["configs"]
    return [Result(REPLAY, figures["decisions_per_second"], "decisions/s", figures["arrived"])]
