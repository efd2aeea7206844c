"""What ends a question."""


class QuestionError(Exception):
    """A question can't be answered. The text says what is wrong, where, and what to do."""
