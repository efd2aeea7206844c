"""Escapes text from elsewhere: its control characters never reach a terminal or a log."""

import re

_UNSAFE = re.compile(
    # control characters, what turns the direction of text or hides it, halves of surrogate pairs
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def escaped(text: str, keep: str = "") -> str:
    """The text in one line, with an escape such as `\\x1b` for each character that can't be printed.

    keep: characters that are left unchanged. Texts of the API server, an extender or a policy may hold
    anything: line breaks could forge log lines, and escape codes could control a terminal.
    """
    return _UNSAFE.sub(lambda found: found[0] if found[0] in keep else _escape(found[0]), text)


def json_escaped(text: str) -> str:
    """JSON as other JSON of the same meaning: in its strings, what `escaped` escapes is written as \\uXXXX.

    The characters up to U+001F stay: in JSON they are only white space between values.
    """
    return _UNSAFE.sub(lambda found: found[0] if found[0] < " " else f"\\u{ord(found[0]):04x}", text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()
