"""Makes an expression ready for its evaluation: the library reads it, and checks its types.

Source: k8s.io/dynamic-resource-allocation/cel/compile.go; k8s.io/apiserver/pkg/cel/environment/base.go
"""

import re
from functools import cache
from typing import Any

from lib.scheduling.devices.cel_declarations import declarations
from lib.scheduling.devices.cel_library import new_environment
from lib.scheduling.devices.cel_syntax import (
    DEVICE,
    Call,
    Constant,
    Expression,
    Name,
    Node,
    Select,
    decoded,
    nodes,
    parts,
)
from lib.scheduling.devices.cel_validate import folded, problems
from lib.scheduling.devices.cel_values import CelError

FIELDS = {
    "driver": "string",
    "allowMultipleAllocations": "bool",
    "attributes": "map<string,map<string,any>>",
    "capacity": "map<string,map<string,kubernetes.Quantity>>",
}
"""The fields of the variable `device`, with their types."""

TYPES = (
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
    read = environment(is_vague=False).compile(expression, disable_check=True)
    parsed = decoded(read.serialize(), checked=False)
    expression, is_vague = _renamed(expression, parsed), _is_vague(parsed.node)
    checked = environment(is_vague=is_vague).compile(expression)
    node, places, types = decoded(checked.serialize(), checked=True)
    for where, why in problems(node, types):
        return _invalid(expression, places.get(where.id, 0), why)
    result = types[node.id]
    if result.name not in ("bool", "any") and not (is_vague and result.name == "dyn"):
        return f"must evaluate to bool or the unknown type, not {result}"
    return folded(node)


def _invalid(expression: str, at: int, why: str) -> str:
    before = expression[:at]
    line, column = before.count("\n"), at - (before.rfind("\n") + 1)
    snippet = expression.split("\n")[line]
    where = f"<input>:{line + 1}:{column + 1}"
    return f"compilation failed: ERROR: {where}: {why}\n | {snippet}\n | {'.' * column}^"


@cache
def environment(*, is_vague: bool) -> Any:
    """What expressions may use. is_vague: see `_is_vague`."""
    fields = {DEVICE + name: type_ for name, type_ in FIELDS.items()}
    variables = {"device": "map<string,dyn>"} if is_vague else fields
    variables |= {name: f"type<{name}>" for name in TYPES}
    declared = declarations()
    functions = [
        {"name": name, "overloads": [{"signature": each.signature, "return": each.result} for each in forms]}
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


def _renamed(expression: str, parsed: Expression) -> str:
    """An expression with the one name that the library has for existsOne() with two variables."""
    for each in nodes(parsed.node):
        if isinstance(each, Call) and each.function == "exists_one" and len(each.arguments) == 3:
            before = expression[: parsed.places[each.id]].rstrip()
            renamed = before.removesuffix("exists_one") + " existsOne"  # as long as before
            expression = renamed + expression[len(before) :]
    return expression


def _is_vague(node: Node) -> bool:
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
    return any(map(_is_vague, parts(node)))
