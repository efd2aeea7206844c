"""What has changed, one entry after the other: who keeps something of it reads on from where it was."""

from collections.abc import Sequence
from typing import Generic, TypeVar

MAX_ENTRIES = 10_000
"""A journal is emptied when it is longer than this."""

Entry = TypeVar("Entry")


class Journal(Generic[Entry]):
    """Entries in order. emptied: how often it has been emptied, so that it doesn't grow for ever."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.emptied = 0

    def add(self, entry: Entry) -> None:
        """Note what has changed."""
        self.entries.append(entry)
        if len(self.entries) > MAX_ENTRIES:
            self.entries = []
            self.emptied += 1


class JournalReader(Generic[Entry]):
    """Reads a journal from its end on."""

    def __init__(self, journal: Journal[Entry]) -> None:
        self._journal = journal
        self._emptied, self._read = journal.emptied, len(journal.entries)

    def new(self) -> Sequence[Entry] | None:
        """The entries since this was read last; None if they aren't all there any more."""
        journal, missed = self._journal, self._emptied != self._journal.emptied
        entries = None if missed else journal.entries[self._read :]
        self._emptied, self._read = journal.emptied, len(journal.entries)
        return entries
