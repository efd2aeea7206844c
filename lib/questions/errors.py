"""What ends a question."""


class QuestionError(Exception):
    """A question can't be answered. Each of the lines says what is wrong, where, and what to do."""

    def __init__(self, *lines: str) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines
