"""Selectors of devices, with kube-scheduler's answers.

tests/data/README.md says where they come from.
"""

import sys
from typing import Any
from unittest.mock import ANY

import msgspec
import pytest
from devices.test_allocator import Json, rows

from lib.kube.devices import Device
from lib.scheduling.devices import cel_compile, cel_library, selectors
from lib.scheduling.devices.cel_library import MissingPackageError
from lib.scheduling.devices.selectors import SelectorError, Selectors, evaluate, evaluated

GPU = 'device.attributes["gpu.example.com"]'
IN_ANY_ORDER = {f'{GPU}.exists(k, k == "model" && {GPU}[k] == "a100-SXM")'}
"""Go takes a map's keys in any order: until one is found, it may take more or fewer steps."""


def device(row: Json) -> Device:
    about = {
        name: row[name] for name in ("attributes", "capacity", "allowMultipleAllocations") if row.get(name)
    }
    return msgspec.convert({"name": "d", **about}, Device)


def answer(row: Json) -> Json:
    """What poller finds. Why an expression isn't valid is said by the library, in words of its own."""
    try:
        match, cost = evaluated(row["expression"], device(row), row["driver"])
        return {"match": match, "cost": cost}
    except SelectorError as error:
        when, _, why = str(error).partition(" error: ")
        return {"compileError": ANY} if when == "compile" else {"matchError": why}


@pytest.mark.parametrize("row", rows("cel"), ids=lambda row: f"{row['table']}-{row['name']}")
def test_devices_are_selected_as_kube_scheduler_selects_them(row: Json) -> None:
    wanted = {name: value for name, value in row["answerDefaultGates"].items() if name != "maxCost"}
    found = answer(row)
    if "match" not in wanted or row["expression"] in IN_ANY_ORDER:
        wanted.pop("cost", None)
        found.pop("cost", None)
    assert found == wanted


OTHERWISE = {
    "google.protobuf.": "messages of protobuf can't be made",
    "(" * 33: "the library reads 32 expressions within each other, kube-scheduler 250",
    "1 + " * 33: "the same",
    '.ver in ["1.2.3"]': "an internal error of kube-scheduler",
    "{}[{}": "an error with other words",
}
"""What is known to be answered otherwise: a part of the expression, and the reason."""


def test_many_odd_expressions_have_the_values_and_errors_that_they_have_in_kube_scheduler() -> None:
    about, *more = rows("cel-more")
    wrong = []
    for row in more:
        expression, wanted = row["expression"], row["answer"]
        found = answer({"expression": expression, **about})
        if "cost" not in wanted:
            found.pop("cost", None)
        if found != wanted and not any(each in expression for each in OTHERWISE):
            wrong.append((expression, wanted, found))
    assert not wrong


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("device.driver ==", "1:17: Syntax error: mismatched input '<EOF>' expecting"),
        ("device.nope == 1", "1:7: undeclared reference to 'device.nope' (in container '')"),
        ("true &&\n  nope", "2:3: undeclared reference to 'nope' (in container '')"),
        ('nope("a")', "1:5: undeclared reference to 'nope' (in container '')"),
        (
            f'{GPU.replace("attributes", "capacity")}.mem > "4Gi"',
            "1:40: found no matching overload for '_>_' applied to '(kubernetes.Quantity, string)'",
        ),
        ('device["driver"] == "d"', "1:1: undeclared reference to 'device' (in container '')"),
        ("has(device)", "1:5: has() argument must be a field selection"),
        ("[[1]].flatten() == [1] && [1].flatten() == [1]", "1:38: found no matching overload for 'flatten'"),
        ('[1, "a"].size() == 2', "1:5: expected type 'int' but found 'string'"),
        (
            '"%d".format(["a"]) == ""',
            "1:14: error during formatting: decimal clause can only be used on",
        ),
        ('device.driver.matches("(")', "1:23: invalid matches argument"),
        ('timestamp("x") == timestamp("y")', "1:11: invalid timestamp argument"),
        ("device.`driver` == ``", "1:8: unsupported syntax: '`'"),
        ("dyn(true)", "must evaluate to bool or the unknown type, not dyn"),
        ("device.driver", "must evaluate to bool or the unknown type, not string"),
        ('int("a") == 1', "program instantiation failed: type conversion error from 'string' to 'int'"),
        ("Foo{a: 1} == 1", "compilation failed: a message can't be made: Foo"),
    ],
)
def test_why_an_expression_is_not_valid_is_said_with_its_place(expression: str, said: str) -> None:
    where = "compilation failed: ERROR: <input>:" if said[0].isdigit() else ""
    with pytest.raises(SelectorError) as found:
        evaluate(expression, Device("d"), "d")
    assert str(found.value).startswith(f"compile error: {where}{said}")


@pytest.mark.parametrize(
    "expression",
    [
        '[device].all(d, d.driver == "d" && d.attributes["x"] == {})',
        'has(device.attributes) && has(device.driver) && !has(device.attributes["x"].y)',
        'device.?attributes["x"].?y.orValue(true)',
        'cel.bind(d, device.driver, d == "d")',
        "[true].all(device, device)",
        '[1].exists_one(i, v, v == 1) && "a" == "a" && [1] . exists_one (i, v, v == 1)',
        '"exists_one(i, v, v)".size() == 19 && [[true]].flatten()[0]',
        '"baaac".findAll("a*") == ["", "aaa", ""] && "baaac".find("(a)b|(a+)c") == "aaac"',
        '"\ue000\ue001".findAll(".") == ["\ue000", "\ue001"] && "a1b22".findAll("[0-9]+", 1) == ["1"]',
    ],
)
def test_what_the_library_knows_otherwise_has_its_value(expression: str) -> None:
    assert evaluate(expression, Device("d"), "d")


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (
            "[1,2,3,4,5,6,7,8,9,10]" + ".map(x, [1,2,3,4,5,6,7,8,9,10]" * 6 + ")" * 6 + ".size() > 0",
            "cost limit",
        ),
        ('"' + "a" * 5000 + '".matches("(a+)+$") && "' + "a" * 60 + '!".matches("(a+)+$")', ""),
        ("1" + " + 1" * 3000 + " > 0", ""),
        ("lists.range(1000000000).size() > 0", "cost limit"),
        ('"' + "a" * 3000 + '!".find("(a+)+$") == ""', "True"),
        ('"' + "a" * 10001 + '".findAll("a[^b]*b|a").size() > 0', "too long to search"),
    ],
    ids=["loops", "regular expression", "deep", "range", "search", "searches"],
)
def test_no_expression_takes_long(expression: str, said: str) -> None:
    found = answer({"expression": expression, "driver": "d"})
    assert said in next(iter(map(str, found.values())))


MANY = "9" * 5000


@pytest.mark.parametrize(
    "expression",
    [
        f'int("{MANY}" + device.driver) == 1',
        f'int("{MANY}") == 1',
        f'semver("1.2.{MANY}").major() == 1',
        f'ip("1.2.3.{MANY}").family() == 4',
        f'"%.{MANY}f".format([1.0]) == ""',
        '"%.900000000f".format([1.0]) == ""',
        'timestamp(0).getHours("+99:99") == 1',
        'dyn([1])[dyn(double("nan"))] == 1',
        'dyn([1])[dyn(double("inf"))] == 1',
    ],
    ids=lambda expression: expression.replace(MANY, "N"),
)
def test_what_no_computer_can_compute_is_an_error(expression: str) -> None:
    with pytest.raises(SelectorError):
        evaluate(expression, Device("d"), "0")


def test_a_result_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def count(expression: str, *_: Any) -> bool:
        asked.append(expression)
        return True

    monkeypatch.setattr(selectors, "evaluate", count)
    known, one, other = Selectors(), Device("a"), Device("a")
    assert all(known.match("x", each, "d") for each in (one, one, other))
    assert asked == ["x", "x"]


def test_without_the_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (cel_library.package, cel_compile.environment, selectors.compiled_selector):
        each.cache_clear()
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    with pytest.raises(MissingPackageError, match="pip install cel-expr-python"):
        evaluate("true", Device("d"), "d")
