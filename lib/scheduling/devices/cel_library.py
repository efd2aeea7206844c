"""Google's library for CEL: it reads expressions, and searches with regular expressions in linear time."""

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from types import ModuleType
from typing import Any

from lib.scheduling.devices.cel_check import Checker
from lib.scheduling.devices.cel_macros import MacroError, expanded
from lib.scheduling.devices.cel_regex import find, find_all
from lib.scheduling.devices.cel_syntax import Node, decoded
from lib.scheduling.devices.cel_types import Type
from lib.scheduling.devices.cel_validate import RUNTIME_NAMES, Problem, folded, problems
from lib.scheduling.devices.cel_values import CelError

PACKAGE = "cel-expr-python"


class MissingPackageError(Exception):
    """The package that reads expressions isn't installed. The text says what to do."""


ESCAPED = re.compile(r"""(?:[^`"'/]|/(?!/)|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')*`""", re.DOTALL)
"""An expression up to a name in backticks, which Kubernetes doesn't have."""

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

MACRO_WORDS = (
    (r"has\(\) argument must be a field selection", "invalid argument to has() macro"),
    (
        r"cel\.bind\(\) variable name must be a simple identifier",
        "cel.bind() variable names must be simple identifiers",
    ),
    (
        r"(?<!opt)\b(all|exists|exists_one|map|filter)\(\) variable name must be a simple identifier",
        "argument must be a simple name",
    ),
    ("Exceeded max recursion depth of 32 when parsing.", "max recursion depth exceeded"),
    ("<input>:4294967295:0", "<input>:-1:0"),
)
"""What the library says of a wrong expression, and cel-go's words for that."""


class Library:
    """The library. searches: the functions that search with regular expressions."""

    def __init__(self, cel: ModuleType, extensions: list[Any]) -> None:
        self._env = cel.NewEnv(variables={}, extensions=extensions)
        strings = {"text": cel.Type.STRING, "pattern": cel.Type.STRING}
        self._regex = cel.NewEnv(variables=strings).compile("text.matches(pattern)")
        self.pattern_error = lru_cache(maxsize=1000)(self._pattern_error)
        self.searches: Mapping[str, Callable[..., Any]] = {
            "matches": self._matches,
            "find": lambda text, pattern: find(self._checked(pattern), text),
            "findAll": lambda text, pattern, most=-1: find_all(self._checked(pattern), text, most),
        }

    def compiled(self, expression: str) -> Node | str:
        """An expression that can be evaluated, or why it is none, in kube-scheduler's words."""
        if escaped := ESCAPED.match(expression):
            wrong = [(escaped.end() - 1, "unsupported syntax: '`'")]
            return f"compilation failed: {_shown(wrong, expression)}"
        try:
            tree = expanded(decoded(self._env.compile(expression, disable_check=True).serialize()))
        except MacroError as problem:
            return f"compilation failed: {_shown([(problem.at, str(problem))], expression)}"
        except (RuntimeError, ValueError) as error:
            return f"compilation failed: {_in_words_of_go(str(error))}"
        except RecursionError:
            return "compilation failed: ERROR: <input>:-1:0: max recursion depth exceeded"
        checker = Checker()
        _, tree = checker.check(tree)
        wrong = checker.problems or problems(tree, checker, self.pattern_error)
        if wrong:
            return f"compilation failed: {_shown(wrong, expression)}"
        result = checker.type_of(tree)
        if result.name not in ("bool", "any"):
            return f"must evaluate to bool or the unknown type, not {_runtime_name(result)}"
        try:
            return folded(tree, self.pattern_error)
        except CelError as error:
            return f"program instantiation failed: {error}"

    # --- regular expressions ----------------------------------------------------------------------------

    def _matches(self, text: str, pattern: str) -> bool:
        found = self._regex.eval(data={"text": text, "pattern": self._checked(pattern, "")}).value()
        return bool(found)

    def _checked(self, pattern: str, prefix: str = "Illegal regex: ") -> str:
        if why := self.pattern_error(pattern):
            raise CelError(f"{prefix}error parsing regexp: {why}")
        return pattern

    def _pattern_error(self, pattern: str) -> str:
        found = self._regex.eval(data={"text": "", "pattern": pattern}).value()
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


def _runtime_name(type_: Type) -> str:
    name = RUNTIME_NAMES.get(type_.name, type_.name)
    inner = ", ".join(map(_runtime_name, type_.parameters))
    return f"{name}({inner})" if inner else name


def _in_words_of_go(text: str) -> str:
    text = text.removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
    if text.startswith("CANCELLED"):
        return "ERROR: <input>:-1:0: expression recursion limit exceeded: 250"
    for theirs, of_go in MACRO_WORDS:
        text = re.sub(theirs, of_go, text)
    return text


def _shown(wrong: list[Problem], expression: str) -> str:
    """The problems, each with its place in the expression, in the order of the places."""
    lines = expression.split("\n")
    shown = []
    for at, text in wrong:
        before = expression[: max(at, 0)]
        line, column = before.count("\n"), len(before) - (before.rfind("\n") + 1)
        snippet = lines[line].replace("\t", " ")
        pointed = "".join("\uff0e" if len(each.encode()) > 1 else "." for each in snippet[:column])
        is_wide = len(snippet[column : column + 1].encode()) > 1
        pointed += "\uff3e" if is_wide else "^"
        said = f"ERROR: <input>:{line + 1}:{column + 1}: {text}\n | {snippet}\n | {pointed}"
        shown.append((line, column, said))
    return "\n".join(said for _, _, said in sorted(shown, key=lambda each: each[:2]))


@cache
def library() -> Library:
    """The library: imported when the first expression is compiled. MissingPackageError without it."""
    try:
        from cel_expr_python import cel
        from cel_expr_python.ext import ext_bindings, ext_optional
    except ImportError as error:
        raise MissingPackageError(
            f"selectors of devices need the package {PACKAGE}, which isn't installed: pip install {PACKAGE}"
        ) from error
    return Library(cel, [ext_bindings.ExtBindings(), ext_optional.ExtOptional()])
