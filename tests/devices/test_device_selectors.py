"""Selectors of devices, with kube-scheduler's answers.

tests/data/README.md says where they come from.
"""

import sys
from typing import Any

import msgspec
import pytest
from devices.test_allocator import Json, rows

from lib.kube.devices import Device
from lib.scheduling.devices import selectors
from lib.scheduling.devices.selectors import MissingPackageError, SelectorError, Selectors, evaluate

NOT_THERE = {
    'device.attributes["gpu.example.com"].model.find("[0-9]+") == "100"': "find and findAll",
    "[1, 2, 3].all(i, e, e == i + 1)": "macros with two variables",
    '{"a": 1}.transformList(k, v, v) == [1]': "macros with two variables",
    '{"a": 1}.transformMap(k, v, v + 1) == {"a": 2}': "macros with two variables",
    'format.named("dns1123Label").hasValue()': "format",
}
"""What Google's library or poller doesn't have, and kube-scheduler does: such a selector is an error."""

OTHERWISE = {
    'device["driver"] == "gpu.example.com"': "an error with other words",
    '[1, "a", true].size() == 3': "kube-scheduler refuses lists of several types",
}


def device(row: Json) -> Device:
    about = {
        name: row[name] for name in ("attributes", "capacity", "allowMultipleAllocations") if row.get(name)
    }
    return msgspec.convert({"name": "d", **about}, Device)


def answer(row: Json) -> Json:
    try:
        return {"match": evaluate(row["expression"], device(row), row["driver"])}
    except SelectorError as error:
        when, _, why = str(error).partition(" error: ")
        return {{"compile": "compileError", "runtime": "matchError"}[when]: why}


@pytest.mark.parametrize("row", rows("cel"), ids=lambda row: f"{row['table']}-{row['name']}")
def test_devices_are_selected_as_kube_scheduler_selects_them(row: Json) -> None:
    wanted = {name: value for name, value in row["answerDefaultGates"].items() if "ost" not in name}
    found = answer(row)
    if row["expression"] in NOT_THERE:
        assert found.keys() <= {"compileError", "matchError"}
    elif row["expression"] in OTHERWISE:
        assert found != wanted
    else:
        assert found == wanted


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (
            "[1,2,3,4,5,6,7,8,9,10]" + ".map(x, [1,2,3,4,5,6,7,8,9,10]" * 6 + ")" * 6 + ".size() > 0",
            "cost limit",
        ),
        ('"' + "a" * 5000 + '".matches("(a+)+$") && "' + "a" * 60 + '!".matches("(a+)+$")', ""),
        ("1" + " + 1" * 3000 + " > 0", ""),
    ],
    ids=["loops", "regular expression", "deep"],
)
def test_no_expression_takes_long(expression: str, said: str) -> None:
    found = answer({"expression": expression, "driver": "d"})
    assert said in next(iter(map(str, found.values())))


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
    for each in (selectors._environment, selectors.compiled_selector):
        each.cache_clear()
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    with pytest.raises(MissingPackageError, match="pip install cel-expr-python"):
        evaluate("true", Device("d"), "d")
