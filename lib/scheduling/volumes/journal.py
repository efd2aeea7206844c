"""A journal of changes. Each reader continues where it stopped."""

from collections.abc import Sequence
from typing import Generic, TypeVar

MAX_ENTRIES = 10_000
"""A journal is emptied when it is longer than this."""

Entry = TypeVar("Entry")


class Journal(Generic[Entry]):
    """Entries in order. emptied: how often it was emptied, which limits its memory."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.emptied = 0

    def add(self, entry: Entry) -> None:
        """Add an entry."""
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
        """The entries since the last call; None if the journal was emptied since."""
        journal, missed = self._journal, self._emptied != self._journal.emptied
        entries = None if missed else journal.entries[self._read :]
        self._emptied, self._read = journal.emptied, len(journal.entries)
        return entries
