"""The packages that poller needs, for the wheel's metadata: those of the files that are installed from here.

Hatchling runs this file.
"""

from pathlib import Path
from typing import Any

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
