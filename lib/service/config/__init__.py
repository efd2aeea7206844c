"""The configuration file: a KubeSchedulerConfiguration, as kube-scheduler reads it.

Without a file, nothing else of this folder is loaded.
"""

from collections.abc import Sequence
from pathlib import Path


class ConfigError(Exception):
    """A configuration is invalid. Each problem names the field, what is wrong, and what to do."""

    def __init__(self, problems: Sequence[str], file: Path | None = None) -> None:
        self.problems = problems
        super().__init__("\n".join(f"{file}: {problem}" if file else problem for problem in problems))
