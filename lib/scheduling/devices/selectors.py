"""Selectors of devices: expressions in CEL about the variable `device`.

Google's library reads an expression, and checks its types. It is evaluated here: so it has the functions that
Kubernetes has, its cost is limited, and a domain that a device doesn't have is an empty map.

Source: k8s.io/dynamic-resource-allocation/cel/compile.go
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from lib.kube.devices import Device, DeviceAttribute, DeviceSelector
from lib.scheduling.devices.cel.compile import compiled
from lib.scheduling.devices.cel.run import Evaluation
from lib.scheduling.devices.cel.values import AttributeDomains, CelError, CelQuantity, CelSemver, type_name

MOST_MATCHES = 1_000_000
"""So many results are kept at most."""

MOST_SAID = 2_000
"""The longest text of an error that is kept: it may name a text of the expression, which may be long."""


Check = Callable[[], None]


def nothing() -> None:
    """No check."""


class SelectorError(Exception):
    """A selector is no valid expression, or has no value for a device. The text is kube-scheduler's."""


class Selectors:
    """Selectors that were compiled, and their results for devices.

    The results are kept as long as the devices: throw this away when the slices change.
    """

    def __init__(self) -> None:
        self._results: dict[tuple[int, str], bool | str] = {}  # or why there is none: no exception is kept
        self._devices: list[Device] = []  # so that no other gets the id of one of them

    def match(self, expression: str, device: Device, driver: str, check: Check = nothing) -> bool:
        """Whether a device is selected. SelectorError when that can't be said.

        check: called now and then; it may raise to end a long evaluation.
        """
        key = id(device), expression
        if key not in self._results:
            if len(self._results) >= MOST_MATCHES:
                self._results.clear()
                self._devices.clear()
            self._devices.append(device)
            try:
                self._results[key] = evaluate(expression, device, driver, check)
            except SelectorError as error:
                self._results[key] = str(error)
        result = self._results[key]
        if isinstance(result, str):
            raise SelectorError(result)
        return result

    def match_all(
        self, selectors: Sequence[DeviceSelector], device: Device, driver: str, check: Check = nothing
    ) -> bool:
        """Whether all of these select a device. SelectorError says of which one that can't be said."""
        for number, selector in enumerate(selectors):
            try:
                expression = selector.cel.expression if selector.cel else ""
                if not self.match(expression, device, driver, check):
                    return False
            except SelectorError as error:
                raise SelectorError(f"selector #{number}: CEL {error}") from None
        return True


def evaluate(expression: str, device: Device, driver: str, check: Check = nothing) -> bool:
    """Whether an expression is true for a device. SelectorError when it isn't valid, or has no value.

    check: see `Selectors.match`.
    """
    return evaluated(expression, device, driver, check)[0]


def evaluated(expression: str, device: Device, driver: str, check: Check = nothing) -> tuple[bool, int]:
    """The same, and what the evaluation cost."""
    selector = compiled(expression)
    if isinstance(selector, str):
        raise SelectorError(f"compile error: {selector}")
    evaluation = Evaluation(check)
    try:
        found = evaluation.value(selector, {"device": _variable(device, driver)})
        if not isinstance(found, bool):
            raise CelError(_no_bool(type_name(found)))
    except CelError as error:
        raise SelectorError(f"runtime error: {error}"[:MOST_SAID]) from None
    except RecursionError:
        raise SelectorError("runtime error: the expression is nested too deeply") from None
    return found, evaluation.cost


def _no_bool(kind: str) -> str:
    why = f"unsupported native conversion from {kind} to 'bool'"
    if kind in ("int", "uint"):
        why = f"unsupported type conversion from '{kind}' to bool"
    return f"CEL result of type {kind} could not be converted to bool: {why}"


# Many devices have the same ones.
_version, _quantity = (lru_cache(maxsize=10_000)(kind.parse) for kind in (CelSemver, CelQuantity))


def _variable(device: Device, driver: str) -> dict[str, Any]:
    attributes, capacity = AttributeDomains(), AttributeDomains()
    for name, attribute in device.attributes.items():
        domain, short = _domain_of(name, driver)
        attributes.setdefault(domain, {})[short] = _value_of(name, attribute)
    for name, quantity in device.capacity.items():
        domain, short = _domain_of(name, driver)
        capacity.setdefault(domain, {})[short] = _quantity(quantity.value)
    return {
        "driver": driver,
        "allowMultipleAllocations": device.allow_multiple_allocations,
        "attributes": attributes,
        "capacity": capacity,
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
        return _version(attribute.version_value)
    except CelError as error:
        raise CelError(f"attribute {name}: parse semantic version: {error}") from None
