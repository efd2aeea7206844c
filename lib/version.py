"""Which poller this is: its version, and the commit that it was built from.

Two builds between two releases have one version; the commit tells them apart.
"""

import subprocess
from functools import cache
from pathlib import Path

from lib import __version__

LIB = Path(__file__).parent

COMMIT = LIB / "commit.txt"
"""The commit, where poller isn't run from a clone: in a package, or in an image."""


@cache
def full_version() -> str:
    """`0.2.0+g6b1d2d8`: the version and the commit; without a commit, if none is known."""
    return f"{__version__}+g{commit()}" if commit() else __version__


@cache
def commit() -> str:
    """The short name of the commit; "" if it isn't known."""
    if COMMIT.is_file():
        return COMMIT.read_text().strip()
    if not (LIB.parent / ".git").exists():
        return ""
    command = ["git", "-C", str(LIB), "rev-parse", "--short=7", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
