"""What the wheel says of itself: the packages that poller needs, and the commit that it is built from.

Hatchling runs this file.
"""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class RequirementsHook(MetadataHookInterface):
    """Reads requirements.txt, and what the image has besides: the extra `dra`, for pods that need devices."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add `dependencies` and `optional-dependencies` to the metadata."""
        metadata["dependencies"] = self._named_in("requirements.txt")
        metadata["optional-dependencies"] = {"dra": self._named_in("scripts/deploy/requirements.txt")}

    def _named_in(self, file: str) -> list[str]:
        lines = Path(self.root, file).read_text().splitlines()
        return [line for line in lines if line and not line.startswith(("#", "-r "))]


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts the commit into a package that is built in a clone, as by `pipx install .`; a release has none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Add the file that lib/version.py reads."""
        sys.path.insert(0, self.root)
        from lib.version import COMMIT, commit

        if commit():
            file = Path(self.directory, COMMIT.name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(commit())
            build_data["force_include"][str(file)] = f"poller/lib/{COMMIT.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the file again."""
        Path(self.directory, "commit.txt").unlink(missing_ok=True)
