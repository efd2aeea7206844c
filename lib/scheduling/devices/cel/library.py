"""Google's library for CEL: it reads and checks expressions, and searches with regular expressions.

Such a search takes linear time (RE2), as in Go: Python's own may take for ever.
"""

import json
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from lib.scheduling.devices.cel.values import CelError

PACKAGE = "cel-expr-python"

MOST_SEARCHED = 10_000
"""The longest text in which all matches are searched: that takes quadratic time at worst. No pattern is
longer, as 1,000 of them are kept.
"""

MATCHES = "text.matches(pattern)"
REPLACE_FIRST, REPLACE_ALL = "regex.replace(text, pattern, by, 1)", "regex.replace(text, pattern, by)"

GO_WORDS = (
    ("missing ):", "missing closing ):"),
    ("missing ]:", "missing closing ]:"),
    ("invalid perl operator:", "invalid or unsupported Perl syntax:"),
    ("no argument for repetition operator:", "missing argument to repetition operator:"),
    ("bad repetition operator:", "invalid nested repetition operator:"),
    ("invalid repetition size:", "invalid repeat count:"),
    ("invalid named capture group:", "invalid named capture:"),
)
"""What RE2 says of a wrong regular expression, and Go's words for that."""


class MissingPackageError(Exception):
    """The package that reads expressions isn't installed. The text says what to do."""


@cache
def package() -> Any:
    """The library: imported when the first expression is compiled. MissingPackageError without it."""
    try:
        from cel_expr_python import cel
    except ImportError as error:
        raise MissingPackageError(
            f"selectors of devices need the package {PACKAGE}, which isn't installed: pip install {PACKAGE}"
        ) from error
    return cel


def new_environment(config: Mapping[str, Any]) -> Any:
    """What expressions may use. github.com/google/cel-go, common/env/env.go, has a configuration's form."""
    return package().NewEnv(config=package().NewEnvConfigFromYaml(json.dumps(config)))


# --- regular expressions --------------------------------------------------------------------------------


@cache
def _compiled(expression: str) -> Any:
    """An expression about a text, a pattern, and what it is replaced by."""
    variables = [{"name": name, "type_name": "string"} for name in ("text", "pattern", "by")]
    extensions = [{"name": "optional"}, {"name": "regex"}]
    return new_environment({"extensions": extensions, "variables": variables}).compile(expression)


def _value(expression: str, text: str, pattern: str, by: str = "") -> Any:
    return _compiled(expression).eval(data={"text": text, "pattern": pattern, "by": by}).value()


def matches(text: str, pattern: str) -> bool:
    """Whether a text has a match. CelError if the pattern isn't a regular expression."""
    _check(pattern)
    return bool(_value(MATCHES, text, pattern))


def find(text: str, pattern: str) -> str:
    """The first match; "" if there is none. CelError if the pattern isn't a regular expression."""
    return next(iter(_found(text, pattern, REPLACE_FIRST)), "")


def find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    """All matches, or so many. CelError if the text is too long, or that is no regular expression."""
    if most == 0:
        return []
    if len(text) > MOST_SEARCHED:
        raise CelError("the text is too long to search for all matches")
    found = _found(text, pattern, REPLACE_ALL)
    return found if most < 0 else found[:most]


def _found(text: str, pattern: str, expression: str) -> list[str]:
    """The matches that an expression replaces: here by themselves, between marks."""
    _check(pattern, "Illegal regex: ")
    mark = next(letter for letter in map(chr, range(0xE000, 0x110000)) if letter not in text)
    marked: str = _value(expression, text, pattern, rf"{mark}\0{mark}")
    return marked.split(mark)[1::2]


def _check(pattern: str, prefix: str = "") -> None:
    if len(pattern) > MOST_SEARCHED:
        raise CelError(f"{prefix}the pattern is too long")
    if why := pattern_error(pattern):
        raise CelError(f"{prefix}error parsing regexp: {why}")


@lru_cache(maxsize=1000)
def pattern_error(pattern: str) -> str:
    """Why a text is no regular expression; "" if it is one."""
    found = _value(MATCHES, "", pattern)
    if isinstance(found, bool):
        return ""
    said = str(found).removeprefix("INVALID_ARGUMENT: invalid regular expression: ")
    said = said.removesuffix(" ERROR")
    if said.startswith("trailing \\"):
        return "trailing backslash at end of expression: ``"
    for theirs, of_go in GO_WORDS:
        said = said.replace(theirs, of_go)
    what, _, where = said.partition(": ")
    if what == "missing closing )":
        where = pattern
    elif what == "missing closing ]":
        where = pattern[pattern.rindex("[") :]
    return f"{what}: `{where}`"
