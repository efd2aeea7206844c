"""`scripts/versions`: runs tests on a real kube-apiserver that serves what each version of Kubernetes has."""

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from scripts.servers.process import ROOT
from scripts.servers.real import EMULATED

VERSIONS = ("1.33", "1.34", "1.35", "1.36")
"""Those that kube-apiserver 1.36 can emulate."""

PARTS = {
    "bindings, events, conditions": ("test_end_to_end", "kube.test_events"),
    "`--watch`": ("kube.test_watch", "kube.test_first_changes"),
    "the queue, gates, resizes in place": ("test_queue_end_to_end",),
    "preemption, budgets": ("test_preemption_end_to_end",),
    "volumes": ("test_volumes_end_to_end",),
    "groups": ("kube.test_pod_groups", "test_batch_projects"),
    "devices": ("test_devices_end_to_end", "questions.test_devices"),
    "leader election": ("kube.test_lease", "test_leader_election"),
    "rights": ("test_deploy", "test_namespaces"),
    "`why`, `try`, `room`, `drain`, `record`": (
        *("questions.test_verbs_end_to_end", "questions.test_admission", "questions.test_rollout"),
        *("questions.test_drain", "questions.test_pending", "questions.test_recording", "test_recorder"),
    ),
}
"""The test files of each row."""


def main() -> None:
    """Print a row for each part, and below them the tests that failed."""
    versions = sys.argv[1:] or VERSIONS
    found = {version: results(version) for version in versions}
    print(f"| | {' | '.join(versions)} |\n|{' --- |' * (len(versions) + 1)}")
    for part, files in PARTS.items():
        print(f"| {part} | {' | '.join(cell(found[version], files) for version in versions)} |")
    for version in versions:
        failed = [
            f"{file}: {test}" for file, tests in found[version].items() for test in tests if not tests[test]
        ]
        print(f"\n{version}: {'; '.join(failed) or 'none failed'}")


def cell(found: dict[str, dict[str, bool]], files: tuple[str, ...]) -> str:
    """How many of a part's tests have passed."""
    passed = [good for file in files for good in found[file].values()]
    return f"all {len(passed)}" if all(passed) else f"{sum(passed)} of {len(passed)}"


def results(version: str) -> dict[str, dict[str, bool]]:
    """By file and test, whether it passed. Those that were skipped are left out."""
    files = [f"tests/{name.replace('.', '/')}.py" for names in PARTS.values() for name in names]
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-k", "real", f"--junitxml={report}", *files]
        environment = {**os.environ, EMULATED: version}
        subprocess.run(command, cwd=ROOT, env=environment, stdout=sys.stderr)
        cases = ElementTree.parse(report).iter("testcase")
        found = defaultdict[str, dict[str, bool]](dict)
        for case in cases:
            if case.find("skipped") is None:
                failed = case.find("failure") is not None or case.find("error") is not None
                found[case.attrib["classname"].removeprefix("tests.")][case.attrib["name"]] = not failed
        return found


if __name__ == "__main__":
    main()
