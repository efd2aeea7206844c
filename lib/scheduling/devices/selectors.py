"""Selectors of devices: expressions in CEL about the variable `device`.

Google's library reads and checks an expression, with the functions and types that Kubernetes has. It is
evaluated here: so its cost is limited, and a domain that a device doesn't have is an empty map.

Source: k8s.io/dynamic-resource-allocation/cel/compile.go
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from types import ModuleType
from typing import Any

from lib.kube.devices import Device, DeviceAttribute
from lib.scheduling.devices.cel_run import Domains, Evaluation, type_name
from lib.scheduling.devices.cel_syntax import Call, Constant, Name, Node, decoded
from lib.scheduling.devices.cel_values import CelError, CelQuantity, CelSemver

PACKAGE = "cel-expr-python"

MOST_MATCHES = 1_000_000
"""So many results are kept at most."""


class SelectorError(Exception):
    """A selector is no valid expression, or has no value for a device. The text is kube-scheduler's."""


class MissingPackageError(Exception):
    """The package that reads expressions isn't installed. The text says what to do."""


class Selectors:
    """Selectors that were compiled, and their results for devices.

    The results are kept as long as the devices: throw this away when the slices change.
    """

    def __init__(self) -> None:
        self._results: dict[tuple[int, str], bool | SelectorError] = {}
        self._devices: list[Device] = []  # so that no other gets the id of one of them

    def match(self, expression: str, device: Device, driver: str) -> bool:
        """Whether a device is selected. SelectorError when that can't be said."""
        key = id(device), expression
        if key not in self._results:
            if len(self._results) >= MOST_MATCHES:
                self._results.clear()
                self._devices.clear()
            self._devices.append(device)
            try:
                self._results[key] = evaluate(expression, device, driver)
            except SelectorError as error:
                self._results[key] = error
        result = self._results[key]
        if isinstance(result, SelectorError):
            raise result
        return result


def evaluate(expression: str, device: Device, driver: str) -> bool:
    """Whether an expression is true for a device. SelectorError when it isn't valid, or has no value."""
    compiled = compiled_selector(expression)
    if isinstance(compiled, str):
        raise SelectorError(f"compile error: {compiled}")
    try:
        found = Evaluation(_environment().matches).run(compiled, _variables(device, driver))
        if not isinstance(found, bool):
            kind = type_name(found)
            why = f"unsupported native conversion from {kind} to 'bool'"
            if kind in ("int", "uint"):
                why = f"unsupported type conversion from '{kind}' to bool"
            raise CelError(f"CEL result of type {kind} could not be converted to bool: {why}")
    except CelError as error:
        raise SelectorError(f"runtime error: {error}") from None
    except RecursionError:
        raise SelectorError("runtime error: the expression is nested too deeply") from None
    return found


@lru_cache(maxsize=1000)
def compiled_selector(expression: str) -> Node | str:
    """An expression that can be evaluated, or why it is none."""
    return _environment().compiled(expression)


def _variables(device: Device, driver: str) -> dict[str, Any]:
    attributes, capacity = Domains(), Domains()
    for name, attribute in device.attributes.items():
        domain, short = _domain_of(name, driver)
        attributes.setdefault(domain, {})[short] = _value_of(name, attribute)
    for name, each in device.capacity.items():
        domain, short = _domain_of(name, driver)
        capacity.setdefault(domain, {})[short] = CelQuantity.parse(each.value)
    parts = {
        "driver": driver,
        "allowMultipleAllocations": device.allow_multiple_allocations,
        "attributes": attributes,
        "capacity": capacity,
    }
    return {"device": parts} | {f"device.{name}": value for name, value in parts.items()} | TYPE_NAMES


TYPE_NAMES = {
    name: name for name in ("bool", "int", "uint", "double", "string", "bytes", "list", "map", "type")
}


def _domain_of(name: str, driver: str) -> tuple[str, str]:
    domain, slash, short = name.partition("/")
    return (domain, short) if slash else (driver, name)


def _value_of(name: str, attribute: DeviceAttribute) -> object:
    for value in (attribute.int_value, attribute.bool_value, attribute.string_value):
        if value is not None:
            return value
    if attribute.version_value is None:
        raise CelError(f"attribute {name}: unsupported attribute value")
    try:
        return CelSemver.parse(attribute.version_value)
    except CelError as error:
        raise CelError(f"attribute {name}: parse semantic version: {error}") from None


# --- the library ----------------------------------------------------------------------------------------


class _Environment:
    """The functions and types of expressions, as the library knows them."""

    def __init__(self, cel: ModuleType, extensions: list[Any]) -> None:
        self._cel, self._extensions = cel, extensions
        self._env = self._made({})
        # Only for CONTAINER.?FIELD: a device's fields have no types there.
        self._loose = self._made({"device": cel.Type.Map(cel.Type.STRING, cel.Type.DYN)})
        strings = {"text": cel.Type.STRING, "pattern": cel.Type.STRING}
        self._regex = cel.NewEnv(variables=strings).compile("text.matches(pattern)")

    def _made(self, more: Mapping[str, Any]) -> Any:
        cel = self._cel
        kind = cel.Type
        text, quantity, dyn = (
            kind.STRING,
            kind.AbstractType("kubernetes.Quantity"),
            kind("google.protobuf.Any"),
        )
        variables = {
            "device.driver": text,
            "device.allowMultipleAllocations": kind.BOOL,
            "device.attributes": kind.Map(text, kind.Map(text, dyn)),
            "device.capacity": kind.Map(text, kind.Map(text, quantity)),
            **more,
        }
        return cel.NewEnv(
            variables=variables, extensions=self._extensions, functions=[*_declarations(cel, quantity)]
        )

    def compiled(self, expression: str) -> Node | str:
        """See `compiled_selector`."""
        cel = self._cel
        env = self._loose if "device.?" in expression.replace(" ", "") else self._env
        try:
            compiled = env.compile(expression)
            kind = compiled.return_type()
        except (RuntimeError, ValueError) as error:
            return f"compilation failed: {_in_words_of_go(str(error), expression)}"
        # The library has no name for the type of an attribute, which can be anything.
        if kind not in (cel.Type.BOOL,) and kind.name() != "ERROR":
            return f"must evaluate to bool or the unknown type, not {kind.name().lower()}"
        try:
            tree = decoded(compiled.serialize())
        except ValueError as error:
            return f"compilation failed: {error}"
        if any(self._is_no_pattern(each) for each in _calls(tree)):
            at = expression.index("matches(") + len("matches(")
            where = f"<input>:1:{at + 1}: invalid matches argument"
            return f"compilation failed: ERROR: {where}\n | {expression}\n | {'.' * at}^"
        return tree

    def _is_no_pattern(self, call: Call) -> bool:
        """Whether a regular expression that is written in an expression is wrong."""
        if call.function != "matches" or not isinstance(call.arguments[-1], Constant):
            return False
        try:
            self.matches("", call.arguments[-1].value)
        except ValueError:
            return True
        return False

    def matches(self, text: str, pattern: str) -> bool:
        """Whether a text has a match. RE2's time is linear. ValueError if it is no regular expression."""
        found = self._regex.eval(data={"text": text, "pattern": pattern}).value()
        if not isinstance(found, bool):
            raise ValueError(f"error parsing regexp: {pattern}")
        return found


def _calls(node: Any) -> list[Call]:
    found = [node] if isinstance(node, Call) else []
    for value in vars(node).values() if hasattr(node, "__dict__") else ():
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, Constant | Name | str):
                found += _calls(each)
    return found


def _in_words_of_go(text: str, expression: str) -> str:
    """The library's errors, as cel-go says them."""
    text = text.removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
    text = text.replace("cannot be the range of", "cannot be range of")
    text = re.sub(
        r"undeclared reference to 'device\.(\w+)' \(in container ''\)", r"undefined field '\1'", text
    )
    wrong = re.match(
        r"ERROR: <input>:1:(\d+): found no matching overload for '(\w+)' applied to '\((\w+)", text
    )
    if wrong and expression[: int(wrong[1]) - 1].endswith(f".{wrong[2]}"):  # it is called as a method
        text = re.sub(r"applied to '\(([^,)]+)(?:, )?", r"applied to '\1.(", text, count=1)
    return text


def _declarations(cel: ModuleType, quantity: Any) -> list[Any]:
    """The functions that Kubernetes has besides CEL's own."""
    kind = cel.Type
    text, number, truth, dyn = kind.STRING, kind.INT, kind.BOOL, kind.DYN
    semver, ip, cidr, url = (
        kind.AbstractType(f"kubernetes.{name}") for name in ("Semver", "IP", "CIDR", "URL")
    )
    numbers = kind.List(dyn)
    members: list[tuple[str, Any, list[list[Any]]]] = [
        ("isGreaterThan", truth, [[quantity, quantity], [semver, semver]]),
        ("isLessThan", truth, [[quantity, quantity], [semver, semver]]),
        ("compareTo", number, [[quantity, quantity], [semver, semver]]),
        ("add", quantity, [[quantity, quantity], [quantity, number]]),
        ("sub", quantity, [[quantity, quantity], [quantity, number]]),
        ("isInteger", truth, [[quantity]]),
        ("asInteger", number, [[quantity]]),
        ("asApproximateFloat", kind.DOUBLE, [[quantity]]),
        ("major", number, [[semver]]),
        ("minor", number, [[semver]]),
        ("patch", number, [[semver]]),
        ("family", number, [[ip]]),
        ("isLoopback", truth, [[ip]]),
        ("isUnspecified", truth, [[ip]]),
        ("containsIP", truth, [[cidr, text], [cidr, ip]]),
        ("ip", ip, [[cidr]]),
        ("prefixLength", number, [[cidr]]),
        ("getScheme", text, [[url]]),
        ("getHost", text, [[url]]),
        ("getHostname", text, [[url]]),
        ("getPort", text, [[url]]),
        ("getEscapedPath", text, [[url]]),
        ("min", dyn, [[numbers]]),
        ("max", dyn, [[numbers]]),
        ("sum", dyn, [[numbers]]),
        ("isSorted", truth, [[numbers]]),
        ("indexOf", number, [[numbers, dyn], [text, text], [text, text, number]]),
        ("lastIndexOf", number, [[numbers, dyn], [text, text]]),
        ("charAt", text, [[text, number]]),
        ("join", text, [[kind.List(text)], [kind.List(text), text]]),
        ("lowerAscii", text, [[text]]),
        ("upperAscii", text, [[text]]),
        ("replace", text, [[text, text, text], [text, text, text, number]]),
        ("split", kind.List(text), [[text, text], [text, text, number]]),
        ("substring", text, [[text, number], [text, number, number]]),
        ("trim", text, [[text]]),
        ("slice", numbers, [[numbers, number, number]]),
        ("flatten", numbers, [[numbers], [numbers, number]]),
        ("distinct", numbers, [[numbers]]),
        ("reverse", numbers, [[numbers]]),
        ("find", text, [[text, text]]),  # declared, not evaluated, as what follows
        ("findAll", kind.List(text), [[text, text], [text, text, number]]),
        ("path", dyn, [[dyn, text]]),
        ("check", dyn, [[dyn, text]]),
        ("allowed", truth, [[dyn]]),
        ("includes", truth, [[dyn, dyn]]),
    ]
    others: list[tuple[str, Any, list[list[Any]]]] = [
        ("quantity", quantity, [[text]]),
        ("isQuantity", truth, [[text]]),
        ("sign", number, [[quantity]]),
        ("semver", semver, [[text], [text, truth]]),
        ("isSemver", truth, [[text], [text, truth]]),
        ("ip", ip, [[text]]),
        ("isIP", truth, [[text]]),
        ("cidr", cidr, [[text]]),
        ("isCIDR", truth, [[text]]),
        ("url", url, [[text]]),
        ("isURL", truth, [[text]]),
        ("strings.quote", text, [[text]]),
        ("lists.range", numbers, [[number]]),
        ("sets.contains", truth, [[numbers, numbers]]),
        ("sets.equivalent", truth, [[numbers, numbers]]),
        ("sets.intersects", truth, [[numbers, numbers]]),
    ]
    overloads: dict[str, list[Any]] = {}
    for is_member, table in ((True, members), (False, others)):
        for name, result, forms in table:
            for at, parameters in enumerate(forms):
                made = cel.Overload(f"k8s_{name}_{is_member}_{at}", result, parameters, is_member)
                overloads.setdefault(name, []).append(made)
    return [cel.FunctionDecl(name, those) for name, those in overloads.items()]


@lru_cache(maxsize=1)
def _environment() -> _Environment:
    """The library: imported when the first expression is compiled. MissingPackageError without it."""
    try:
        from cel_expr_python import cel
        from cel_expr_python.ext import ext_bindings, ext_optional
    except ImportError as error:
        raise MissingPackageError(
            f"selectors of devices need the package {PACKAGE}, which isn't installed: pip install {PACKAGE}"
        ) from error
    extensions = [ext_bindings.ExtBindings(), ext_optional.ExtOptional()]
    return _Environment(cel, extensions)
