"""--help as plain text: readable in a pipe and at 80 columns; no option's name is ever cut."""

import re
from typing import Any

from typer.core import TyperCommand, TyperGroup

OTHER = "Other"
"""The part of --help for other options, such as --help itself."""


def format_options(command: Any, context: Any, formatter: Any) -> None:
    """Write the options in parts, each with a heading. A name that is too long gets its own line."""
    parts: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(context):
        if record := parameter.get_help_record(context):
            names, text = record
            text = re.sub(r"  \[default: \((.*)\)\]$", r"  [default: \1]", text)
            parts.setdefault(getattr(parameter, "rich_help_panel", None) or OTHER, []).append((names, text))
    if other := parts.pop(OTHER, None):
        parts[OTHER] = other  # last
    for heading, records in parts.items():
        with formatter.section(heading):
            formatter.write_dl(records, col_max=26)


class Command(TyperCommand):
    """A command whose options are shown in parts."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write them."""
        format_options(self, ctx, formatter)


class CommandGroup(TyperGroup):
    """A command with subcommands, whose options are shown in parts."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options, then the subcommands."""
        format_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)
