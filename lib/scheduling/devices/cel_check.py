"""Checks the types of an expression, and says what is wrong as cel-go does.

Source: github.com/google/cel-go, checker/checker.go and cel/validator.go; for the variable `device`,
k8s.io/dynamic-resource-allocation/cel/compile.go
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lib.scheduling.devices.cel_declarations import Overload, declarations
from lib.scheduling.devices.cel_syntax import (
    Call,
    Constant,
    List,
    Loop,
    Map,
    Name,
    Node,
    Select,
    Struct,
)
from lib.scheduling.devices.cel_types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    STRING,
    Substitutions,
    Type,
    most_general,
    parsed,
    substituted,
    unified,
)
from lib.scheduling.devices.cel_values import Unsigned

DEVICE = Type("kubernetes.DRADevice")

FIELDS: Mapping[str, Mapping[str, Type]] = {
    DEVICE.name: {
        "driver": STRING,
        "allowMultipleAllocations": BOOL,
        "attributes": parsed("map(string, map(string, any))"),
        "capacity": parsed("map(string, map(string, kubernetes.Quantity))"),
    }
}
"""The fields of a type, by its name."""

STRUCTS = (
    "kubernetes.Quantity",
    "kubernetes.Semver",
    "kubernetes.URL",
    "kubernetes.NamedFormat",
    "kubernetes.authorization.Authorizer",
    "kubernetes.authorization.PathCheck",
    "kubernetes.authorization.Decision",
)

TYPE_NAMES = {
    **{name: parsed(name) for name in ("bool", "bytes", "double", "int", "string", "uint")},
    "list": parsed("list(dyn)"),
    "map": parsed("map(dyn, dyn)"),
    "null_type": parsed("null"),
    "type": parsed("type"),
    "optional_type": parsed("optional_type(dyn)"),
    "google.protobuf.Timestamp": parsed("timestamp"),
    "google.protobuf.Duration": parsed("duration"),
    **{name: parsed(name) for name in (*STRUCTS, "net.IP", "net.CIDR")},
}
"""Names in an expression that mean types."""

LITERALS = {
    bool: BOOL,
    Unsigned: Type("uint"),
    int: INT,
    float: Type("double"),
    str: STRING,
    bytes: Type("bytes"),
    type(None): Type("null"),
}


@dataclass
class Checker:
    """Checks one expression. problems: what is wrong, and where. functions: what may be called."""

    problems: list[tuple[int, str]] = field(default_factory=list)
    functions: Mapping[str, Sequence[Overload]] = field(default_factory=declarations)
    types: dict[int, Type] = field(default_factory=dict)
    _known: Substitutions = field(default_factory=dict)
    _scopes: list[dict[str, Type]] = field(default_factory=lambda: [{"device": DEVICE}])
    _free: int = 0

    def check(self, node: Node) -> tuple[Type, Node]:
        """An expression's type, and the expression with full names of functions."""
        found, checked = self._check(node)
        self.types[id(checked)] = found
        return found, checked

    def type_of(self, node: Node) -> Type:
        """The type that a checked expression has after all."""
        return substituted(self._known, self.types.get(id(node), DYN), to_dyn=True)

    def _check(self, node: Node) -> tuple[Type, Node]:
        match node:
            case Constant():
                return LITERALS[type(node.value)], node
            case Name():
                return self._name(node.name, node.at), replace(node, name=node.name.removeprefix("."))
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case List():
                return self._list(node)
            case Map():
                return self._map(node)
            case Loop():
                return self._loop(node)
            case Struct():
                what = f"undeclared reference to '{node.type_name}' (in container '')"
                if node.type_name in TYPE_NAMES:
                    what = f"'{node.type_name}' is not a message type"
                self._report(node.at, what)
                return ERROR, node

    def _report(self, at: int, text: str) -> None:
        self.problems.append((at, text))

    def _lookup(self, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return Type("type", (TYPE_NAMES[name],)) if name in TYPE_NAMES else None

    def _name(self, name: str, at: int) -> Type:
        found = self._lookup(name.removeprefix("."))
        if found is None:
            self._report(at, f"undeclared reference to '{name}' (in container '')")
        return found or ERROR

    # --- fields -----------------------------------------------------------------------------------------

    def _select(self, node: Select) -> tuple[Type, Node]:
        if (full := _qualified(node)) and (found := self._lookup(full)):
            return found, Name(full, node.at)
        type_, operand = self._field(node.at, node.operand, node.field, optional=False)
        checked = replace(node, operand=operand)
        return (BOOL if node.is_test else substituted(self._known, type_)), checked

    def _field(self, at: int, operand: Node, name: str, *, optional: bool) -> tuple[Type, Node]:
        operand_type, checked = self.check(operand)
        whole = substituted(self._known, operand_type)
        target = whole.element
        result = DYN
        if target.name == "map":
            result = target.parameters[1]
        elif target.name in FIELDS:
            if name in FIELDS[target.name]:
                result = FIELDS[target.name][name]
            else:
                self._report(at, f"undefined field '{name}'")
                result = ERROR
        elif target.name in STRUCTS:
            self._report(at, f"unexpected failed resolution of '{target}'")
            result = ERROR
        elif target.is_parameter:
            self._unify([DYN], [target])
        elif not target.is_unknown:
            self._report(at, f"type '{target}' does not support field selection")
        is_optional = optional or target is not whole
        return (Type("optional_type", (result,)) if is_optional else result), checked

    # --- calls ------------------------------------------------------------------------------------------

    def _call(self, node: Call) -> tuple[Type, Node]:
        if node.function == "_?._":
            operand, name = node.arguments
            assert isinstance(name, Constant)
            type_, checked = self._field(node.at, operand, name.value, optional=True)
            return substituted(self._known, type_), replace(node, arguments=[checked, name])
        types, arguments = self._check_all(node.arguments)
        node = replace(node, arguments=arguments)
        target_type: Type | None = None
        if node.target:
            prefix = _qualified(node.target)
            full = f"{prefix}.{node.function}" if prefix else ""
            if full in self.functions:
                node = replace(node, function=full, target=None)
            elif node.target:
                target_type, target = self.check(node.target)
                node = replace(node, target=target)
        overloads = self.functions.get(node.function)
        if overloads is None:
            self._report(node.at, f"undeclared reference to '{node.function}' (in container '')")
            return ERROR, node
        if node.function in ("_&&_", "_||_"):
            return self._logic(node, types), node
        given = types if target_type is None else [target_type, *types]
        return self._resolved(node, overloads, given), node

    def _check_all(self, nodes: Sequence[Node]) -> tuple[list[Type], list[Node]]:
        checked = [self.check(each) for each in nodes]
        return [type_ for type_, _ in checked], [node for _, node in checked]

    def _logic(self, node: Call, types: Sequence[Type]) -> Type:
        result = BOOL
        for each, type_ in zip(node.arguments, types, strict=True):
            if not self._unify([type_], [BOOL]):
                self._report(each.at, f"expected type 'bool' but found '{type_}'")
                result = ERROR
        return result

    def _resolved(self, node: Call, overloads: Sequence[Overload], given: Sequence[Type]) -> Type:
        """The type of a call's result."""
        result: Type | None = None
        for overload in overloads:
            if overload.is_member != (node.target is not None):
                continue
            parameters, returned = self._instance(overload)
            if not self._unify(given, parameters):
                continue
            found = substituted(self._known, returned)
            if result is None:
                result = found
            elif result.name != "dyn" and found != result:
                result = DYN
        if result is None:
            shown = [str(substituted(self._known, each, to_dyn=True)) for each in given]
            target = f"{shown.pop(0)}." if node.target else ""
            applied = f"{target}({', '.join(shown)})"
            self._report(node.at, f"found no matching overload for '{node.function}' applied to '{applied}'")
        return result or ERROR

    def _instance(self, overload: Overload) -> tuple[list[Type], Type]:
        """A form of a function, with parameters of its own for the types that it leaves open."""
        names = {each for type_ in (*overload.parameters, overload.result) for each in _open(type_)}
        fresh = {each: self._new() for each in sorted(names, key=lambda type_: type_.name)}
        return [substituted(fresh, each) for each in overload.parameters], substituted(fresh, overload.result)

    def _new(self) -> Type:
        self._free += 1
        return Type(f"_var{self._free - 1}")

    def _unify(self, left: Sequence[Type], right: Sequence[Type]) -> bool:
        found = unified(self._known, left, right)
        if found is not None:
            self._known = found
        return found is not None

    # --- lists, maps, loops -----------------------------------------------------------------------------

    def _joined(self, before: Type | None, now: Type) -> Type:
        """The type of elements of these types."""
        if before is None:
            return now
        if self._unify([before], [now]):
            return most_general(before, now)
        return DYN

    def _unwrapped(self, node: Node, type_: Type) -> Type:
        if type_.element is type_ and not type_.is_dynamic:
            self._report(node.at, f"expected type 'optional_type({type_})' but found '{type_}'")
        return type_.element

    def _list(self, node: List) -> tuple[Type, Node]:
        element: Type | None = None
        elements = []
        for at, each in enumerate(node.elements):
            type_, checked = self.check(each)
            elements.append(checked)
            if at in node.optional:
                type_ = self._unwrapped(each, type_)
            element = self._joined(element, type_)
        return Type("list", (element or self._new(),)), replace(node, elements=elements)

    def _map(self, node: Map) -> tuple[Type, Node]:
        key_type: Type | None = None
        value_type: Type | None = None
        entries = []
        for key, value, is_optional in node.entries:
            type_, checked_key = self.check(key)
            key_type = self._joined(key_type, type_)
            type_, checked_value = self.check(value)
            if is_optional:
                type_ = self._unwrapped(value, type_)
            value_type = self._joined(value_type, type_)
            entries.append((checked_key, checked_value, is_optional))
        parameters = (key_type or self._new(), value_type or self._new())
        return Type("map", parameters), replace(node, entries=entries)

    def _loop(self, node: Loop) -> tuple[Type, Node]:
        range_type, over = self.check(node.range)
        result_type, begin = self.check(node.begin)
        range_type = substituted(self._known, range_type)
        first = second = DYN
        if range_type.name == "list":
            first = range_type.parameters[0]
            if node.second_variable:
                first, second = INT, first
        elif range_type.name == "map":
            first, second = range_type.parameters
        elif range_type.name in ("dyn", "error") or range_type.is_parameter:
            self._unify([DYN], [range_type])
        else:
            self._report(
                node.range.at,
                f"expression of type '{range_type}' cannot be range of a comprehension "
                "(must be list, map, or dynamic)",
            )
            first = second = ERROR
        self._scopes.append({node.result_variable: result_type})
        variables = {node.variable: first}
        if node.second_variable:
            variables[node.second_variable] = second
        self._scopes.append(variables)
        condition = self._of_type(node.condition, BOOL)
        step = self._of_type(node.step, result_type)
        self._scopes.pop()
        type_, result = self.check(node.result)
        self._scopes.pop()
        checked = replace(node, range=over, begin=begin, condition=condition, step=step, result=result)
        return substituted(self._known, type_), checked

    def _of_type(self, node: Node, wanted: Type) -> Node:
        type_, checked = self.check(node)
        if not self._unify([wanted], [type_]):
            self._report(node.at, f"expected type '{wanted}' but found '{type_}'")
        return checked


def _qualified(node: Node) -> str:
    """The dotted name that names and fields may be; "" if it isn't one."""
    if isinstance(node, Name):
        return node.name
    if isinstance(node, Select) and not node.is_test and (before := _qualified(node.operand)):
        return f"{before}.{node.field}"
    return ""


def _open(type_: Type) -> set[Type]:
    if type_.is_parameter:
        return {type_}
    return {each for parameter in type_.parameters for each in _open(parameter)}
