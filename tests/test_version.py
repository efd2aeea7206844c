"""Which build it is: the version that poller shows."""

import shutil
import subprocess
import sys
from pathlib import Path

from lib import __version__
from scripts.servers.process import ROOT


def shown_by(project: Path) -> str:
    command = [sys.executable, "-c", "from lib.version import full_version; print(full_version())"]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=True).stdout.strip()


def git(project: Path, *arguments: str) -> str:
    command = ["git", "-C", project, "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_the_version_tells_builds_apart(tmp_path: Path) -> None:
    """A copy without a commit, two commits of a clone, and what is made from it."""
    project = tmp_path / "with a space"
    for name in ("__init__.py", "version.py"):
        (project / "lib").mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "lib" / name, project / "lib")
    assert shown_by(project) == __version__

    git(project, "init", "-q")
    assert shown_by(project) == __version__
    for _ in range(2):
        git(project, "commit", "--allow-empty", "-qm", "a commit")
        assert shown_by(project) == f"{__version__}+g{git(project, 'rev-parse', '--short=7', 'HEAD')}"

    (project / "lib/commit.txt").write_text("1234567\n")
    assert shown_by(project) == f"{__version__}+g1234567"
