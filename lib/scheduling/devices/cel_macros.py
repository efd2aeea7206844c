"""Macros that the library doesn't have: loops with two variables, and `sortBy`.

Source: github.com/google/cel-go, ext/comprehensions.go and ext/lists.go
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from lib.scheduling.devices.cel_syntax import Call, Constant, List, Loop, Map, Name, Node, Select, with_parts

RESULT = "@result"
"""The variable in which a loop gathers its result."""


class MacroError(Exception):
    """An expression isn't valid: why, and where. The text is cel-go's."""

    def __init__(self, text: str, at: int) -> None:
        super().__init__(text)
        self.at = at


def expanded(node: Node) -> Node:
    """The tree, with these macros as the loops that they stand for. MacroError if that can't be."""
    node = with_parts(node, expanded)
    if isinstance(node, Call) and node.target and (node.function, len(node.arguments)) in MACROS:
        return MACROS[node.function, len(node.arguments)](node, node.arguments)
    return node


def _call(at: int, name: str, *arguments: Node) -> Call:
    return Call(name, None, arguments, at)


def _loop(call: Call, begin: Node, condition: Node, step: Node, result: Node) -> Loop:
    """A loop over the target, with the variables that the macro names."""
    first, second = call.arguments[:2]
    names = []
    for each in (first, second):
        if not isinstance(each, Name):
            raise MacroError("argument must be a simple name", each.at)
        names.append(each.name)
    if names[0] == names[1]:
        raise MacroError(f"duplicate variable name: {names[0]}", second.at)
    for name, each in zip(names, (first, second), strict=True):
        if name in ("@result", "__result__"):
            raise MacroError("iteration variable overwrites accumulator variable", each.at)
    assert call.target
    return Loop(names[0], call.target, RESULT, begin, condition, step, result, call.at, names[1])


def _all(call: Call, arguments: Sequence[Node]) -> Node:
    at, so_far = call.at, Name(RESULT, call.at)
    condition = _call(at, "@not_strictly_false", so_far)
    return _loop(call, Constant(True, at), condition, _call(at, "_&&_", so_far, arguments[2]), so_far)


def _exists(call: Call, arguments: Sequence[Node]) -> Node:
    at, so_far = call.at, Name(RESULT, call.at)
    condition = _call(at, "@not_strictly_false", _call(at, "!_", so_far))
    return _loop(call, Constant(False, at), condition, _call(at, "_||_", so_far, arguments[2]), so_far)


def _exists_one(call: Call, arguments: Sequence[Node]) -> Node:
    at, so_far = call.at, Name(RESULT, call.at)
    one = Constant(1, at)
    step = _call(at, "_?_:_", arguments[2], _call(at, "_+_", so_far, one), so_far)
    return _loop(call, Constant(0, at), Constant(True, at), step, _call(at, "_==_", so_far, one))


def _transform(begin: Node, step: Callable[[Call, Node, Node], Node]) -> Callable[..., Node]:
    def macro(call: Call, arguments: Sequence[Node]) -> Node:
        so_far = Name(RESULT, call.at)
        taken = step(call, so_far, arguments[-1])
        if len(arguments) == 4:
            taken = _call(call.at, "_?_:_", arguments[2], taken, so_far)
        return _loop(call, replace(begin, at=call.at), Constant(True, call.at), taken, so_far)

    return macro


def _append(call: Call, so_far: Node, value: Node) -> Node:
    return _call(call.at, "_+_", so_far, List([value], (), call.at))


def _insert(call: Call, so_far: Node, value: Node) -> Node:
    first = call.arguments[0]
    return _call(call.at, "cel.@mapInsert", so_far, replace(first, at=call.at), value)


def _insert_entry(call: Call, so_far: Node, value: Node) -> Node:
    return _call(call.at, "cel.@mapInsert", so_far, value)


SORTED = (List, Select, Name, Loop, Call)


def _sort_by(call: Call, arguments: Sequence[Node]) -> Node:
    """The list is bound to a name, and a loop makes the list of keys."""
    at = call.at
    variable, key = arguments
    assert call.target
    if not isinstance(call.target, SORTED):
        what = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise MacroError(what, call.target.at)
    if not isinstance(variable, Name):
        raise MacroError("argument is not an identifier", variable.at)
    values = Name("@__sortBy_input__", at)
    so_far = Name(RESULT, at)
    step = _append(call, so_far, key)
    keys = Loop(variable.name, values, RESULT, List([], (), at), Constant(True, at), step, so_far, at)
    by_keys = Call("@sortByAssociatedKeys", values, [keys], at)
    nothing = List([], (), at)
    return Loop("#unused", nothing, values.name, call.target, Constant(False, at), values, by_keys, at)


_list, _map = _transform(List([], ()), _append), _transform(Map([]), _insert)
_entries = _transform(Map([]), _insert_entry)

MACROS: Mapping[tuple[str, int], Callable[..., Node]] = {
    ("all", 3): _all,
    ("exists", 3): _exists,
    ("existsOne", 3): _exists_one,
    ("exists_one", 3): _exists_one,
    ("transformList", 3): _list,
    ("transformList", 4): _list,
    ("transformMap", 3): _map,
    ("transformMap", 4): _map,
    ("transformMapEntry", 3): _entries,
    ("transformMapEntry", 4): _entries,
    ("sortBy", 2): _sort_by,
}
"""By the name and the number of arguments."""
