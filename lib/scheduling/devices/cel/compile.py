"""Makes an expression ready for its evaluation: the library reads it, and checks its types.

What the library doesn't check is checked here: that literals are right, and hold values of one type. Parts
that are constant are computed here, too.

Source: k8s.io/dynamic-resource-allocation/cel/compile.go; k8s.io/apiserver/pkg/cel/environment/base.go;
github.com/google/cel-go, cel/validator.go, ext/formatting.go and interpreter/decorators.go
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from lib.scheduling.devices.cel.declarations import declarations
from lib.scheduling.devices.cel.formatting import ALLOWED, WRONG, clauses
from lib.scheduling.devices.cel.functions import CONVERTED
from lib.scheduling.devices.cel.library import new_environment, pattern_error
from lib.scheduling.devices.cel.run import Evaluation
from lib.scheduling.devices.cel.syntax import (
    DEVICE,
    Call,
    Constant,
    Expression,
    List,
    Map,
    Name,
    Node,
    Select,
    decoded,
    nodes,
    parts,
    with_parts,
)
from lib.scheduling.devices.cel.values import CelError

FIELDS = {
    "driver": "string",
    "allowMultipleAllocations": "bool",
    "attributes": "map<string,map<string,any>>",
    "capacity": "map<string,map<string,kubernetes.Quantity>>",
}
"""The fields of the variable `device`, with their types."""

TYPE_NAMES = (
    "kubernetes.Quantity",
    "kubernetes.Semver",
    "kubernetes.URL",
    "kubernetes.NamedFormat",
    "kubernetes.authorization.Authorizer",
    "kubernetes.authorization.PathCheck",
    "kubernetes.authorization.Decision",
    "net.IP",
    "net.CIDR",
)
"""Names in an expression that mean types, besides those that the library knows."""

EXTENSIONS = ("bindings", "optional", "lists", "two-var-comprehensions")
"""Parts of the library: for their macros and operators."""

ESCAPED = re.compile(r"""(?:[^`"'/]|/(?!/)|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')*`""", re.DOTALL)
"""An expression up to a name in backticks, which Kubernetes doesn't have."""

NOTHING_SAID = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$|<input>:4294967295:0: ")
"""Parts of the library's errors that help nobody: a kind, and the place of what has none."""


@lru_cache(maxsize=1000)
def compiled(expression: str) -> Node | str:
    """An expression that can be evaluated, or why it is none."""
    try:
        return _compiled(expression)
    except (RuntimeError, ValueError) as error:
        return "compilation failed: " + re.sub(NOTHING_SAID, "", str(error))
    except RecursionError:
        return "compilation failed: max recursion depth exceeded"
    except CelError as error:
        return f"program instantiation failed: {error}"


def _compiled(expression: str) -> Node | str:
    if escaped := ESCAPED.match(expression):
        return _invalid(expression, escaped.end() - 1, "unsupported syntax: '`'")
    read = environment(loosely_typed=False).compile(expression, disable_check=True)
    parsed = decoded(read.serialize(), checked=False)
    expression, loosely_typed = _with_library_names(expression, parsed), _is_loosely_typed(parsed.node)
    checked = environment(loosely_typed=loosely_typed).compile(expression)
    node, places, types = decoded(checked.serialize(), checked=True)
    for where, why in _problems(node, types):
        return _invalid(expression, places.get(where.id, 0), why)
    result = types[node.id]
    if result not in ("bool", "any") and not (loosely_typed and result == "dyn"):
        return f"must evaluate to bool or the unknown type, not {result}"
    return _folded(node)


def _invalid(expression: str, at: int, why: str) -> str:
    before = expression[:at]
    line, column = before.count("\n"), at - (before.rfind("\n") + 1)
    snippet = expression.split("\n")[line]
    where = f"<input>:{line + 1}:{column + 1}"
    return f"compilation failed: ERROR: {where}: {why}\n | {snippet}\n | {'.' * column}^"


@cache
def environment(*, loosely_typed: bool) -> Any:
    """What expressions may use. loosely_typed: see `_is_loosely_typed`."""
    fields = {DEVICE + name: type_ for name, type_ in FIELDS.items()}
    variables = {"device": "map<string,dyn>"} if loosely_typed else fields
    variables |= {name: f"type<{name}>" for name in TYPE_NAMES}
    declared = declarations()
    functions = [
        {"name": name, "overloads": [{"signature": form.signature, "return": form.result} for form in forms]}
        for name, forms in declared.items()
        if forms[0].result
    ]
    return new_environment(
        {
            "extensions": [{"name": name} for name in EXTENSIONS],
            "stdlib": {"exclude_functions": [{"name": name} for name in declared]},
            "variables": [{"name": name, "type": type_} for name, type_ in variables.items()],
            "functions": functions,
        }
    )


def _with_library_names(expression: str, parsed: Expression) -> str:
    """An expression with the one name that the library has for existsOne() with two variables."""
    for node in nodes(parsed.node):
        if isinstance(node, Call) and node.function == "exists_one" and len(node.arguments) == 3:
            before = expression[: parsed.places[node.id]].rstrip()
            renamed = before.removesuffix("exists_one") + " existsOne"  # as long as before
            expression = renamed + expression[len(before) :]
    return expression


def _is_loosely_typed(node: Node) -> bool:
    """Whether an expression has a part whose type Kubernetes knows better than the library.

    That is `device` as a whole, with has() or .? before a field, and what `flatten` returns.
    """
    match node:
        case Select(Name("device"), _, False) | Call("_[_]", _, [Name("device"), *_]):
            return False
        case Select(Name("device"), name) | Call("_?._", None, [Name("device"), Constant(name)]):
            return name in FIELDS
        case Name("device") | Call("flatten"):
            return True
    return any(map(_is_loosely_typed, parts(node)))


# --- literals -------------------------------------------------------------------------------------------

CONVERSIONS = frozenset([*CONVERTED, "dyn", "string", "type"])
"""Their results for constants are found out before the evaluation."""

Types = Mapping[int, str]
"""The types of nodes, by `id`."""

Problem = tuple[Node, str]
"""Which node is wrong, and why."""


def _problems(node: Node, types: Types, *, in_format: bool = False) -> Iterator[Problem]:
    """What is wrong in a checked expression. in_format: whether it is a value to be formatted."""
    match node:
        case Call("flatten", list_, ()) if list_ and not _is_nested(types[list_.id]):
            yield node, f"found no matching overload for 'flatten' applied to '{types[list_.id]}.()'"
        case Call():
            yield from _of_call(node)
            if node.function == "format" and node.target:
                in_format = True
                yield from _of_format(node, types)
        case List() if not in_format:
            yield from _mixed(node.elements, types, node.optional)
        case Map() if not in_format:
            yield from _mixed(node.keys, types)
            yield from _mixed(node.values, types, node.optional)
    for part in parts(node):
        yield from _problems(part, types, in_format=in_format)


def _is_nested(type_: str) -> bool:
    """Whether a list may be one of lists."""
    return type_.removeprefix("list(").startswith(("list", "dyn", "any"))


def _mixed(nodes: Sequence[Node], types: Types, optional: Collection[int] = ()) -> Iterator[Problem]:
    """The nodes whose type isn't the first one's. optional: the numbers of those that are optional."""
    found = [types[node.id] for node in nodes]
    for at in optional:
        found[at] = re.sub(r"^optional_type\((.*)\)$", r"\1", found[at])
    for node, type_ in zip(nodes, found, strict=True):
        if type_ != found[0]:
            yield node, f"expected type '{found[0]}' but found '{type_}'"


def _of_call(node: Call) -> Iterator[Problem]:
    first = node.arguments[0] if node.arguments else None
    if not isinstance(first, Constant):
        return
    if node.function in ("duration", "timestamp"):
        try:
            _computed(node)
        except CelError:
            yield first, f"invalid {node.function} argument"
    elif node.function == "matches" and isinstance(first.value, str) and pattern_error(first.value):
        yield first, "invalid matches argument"


def _of_format(node: Call, types: Types) -> Iterator[Problem]:
    (values,) = node.arguments
    if not (isinstance(node.target, Constant) and isinstance(values, List)):
        return
    seen = 0
    try:
        for _, clause, _ in clauses(node.target.value, len(values.elements)):
            if clause:
                bad = _bad_value(clause.lower(), values.elements[seen], types)
                seen += 1
                if bad:
                    yield bad
                    return
    except CelError as error:
        yield node, str(error)
        return
    if len(values.elements) > seen:
        given = len(values.elements)
        yield node, f"too many arguments supplied to string.format (expected {seen}, got {given})"


def _bad_value(clause: str, node: Node, types: Types) -> Problem | None:
    kind = types[node.id].partition("(")[0]
    if kind != "dyn" and kind not in ALLOWED[clause]:
        return node, f"error during formatting: {WRONG[clause].format(kind)}"
    if clause == "s" and isinstance(node, List | Map):
        for part in parts(node):
            if bad := _bad_value(clause, part, types):
                return bad
    return None


# --- constants ------------------------------------------------------------------------------------------


def _folded(node: Node) -> Node:
    """The expression with its constant parts computed. CelError if one of these has no value."""
    node = with_parts(node, _folded)
    match node:
        case List() | Map() if not node.optional and all(isinstance(part, Constant) for part in parts(node)):
            return _computed(node)
        case Call():
            return _folded_call(node)
    return node


def _computed(node: Node) -> Node:
    return Constant(Evaluation().value(node, {}), node.id)


def _folded_call(node: Call) -> Node:
    last = node.arguments[-1] if node.arguments else None
    if node.function in ("matches", "find", "findAll"):
        pattern = node.arguments[0 if node.target else 1]
        value = pattern.value if isinstance(pattern, Constant) else None
        if isinstance(value, str) and (why := pattern_error(value)):
            raise CelError(f"error parsing regexp: {why}")
    if not isinstance(last, Constant):
        return node
    if node.target is None and node.function in CONVERSIONS and len(node.arguments) == 1:
        return _computed(node)
    if node.function == "@in" and last.value == []:
        return Constant(False, node.id)
    return node
