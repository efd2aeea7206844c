"""What an answer comes to."""

from enum import IntEnum


class Verdict(IntEnum):
    """Yes, no, or that it can't be said; each is an exit status."""

    YES = 0
    NO = 3
    UNKNOWN = 4

    @property
    def word(self) -> str:
        """As `answer` in JSON."""
        return self.name.lower()


def verdict(yes: bool, *, sure: bool = True) -> Verdict:
    """The verdict of an answer. sure: whether all that it depends on is known."""
    if not sure:
        return Verdict.UNKNOWN
    return Verdict.YES if yes else Verdict.NO
