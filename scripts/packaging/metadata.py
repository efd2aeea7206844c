"""The packages that poller needs, for the wheel's metadata: those of requirements.txt.

Hatchling runs this file.
"""

from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class RequirementsHook(MetadataHookInterface):
    """Reads the lines of requirements.txt."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add `dependencies` to the metadata."""
        lines = Path(self.root, "requirements.txt").read_text().splitlines()
        metadata["dependencies"] = [line for line in lines if line and not line.startswith("#")]
