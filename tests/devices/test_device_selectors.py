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
from lib.scheduling.devices.cel_library import MissingPackageError, library
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
    try:
        match, cost = evaluated(row["expression"], device(row), row["driver"])
        return {"match": match, "cost": cost}
    except SelectorError as error:
        when, _, why = str(error).partition(" error: ")
        return {{"compile": "compileError", "runtime": "matchError"}[when]: why}


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
    "Foo{": "the place of the error is where the name begins",
    "__result__": "the library has its own words",
    ".?0": "the library has its own words",
    "(" * 33: "the library reads 32 expressions within each other, kube-scheduler 250",
    "1 + " * 33: "the same",
    '.ver in ["1.2.3"]': "an internal error of kube-scheduler",
    ".ver].": "an internal error of kube-scheduler",
    "{}[{}": "an error with other words",
    "model.distinct()": "an internal error of kube-scheduler",
    "ok.distinct()": "an internal error of kube-scheduler",
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
        (
            "[1,2,3,4,5,6,7,8,9,10]" + ".map(x, [1,2,3,4,5,6,7,8,9,10]" * 6 + ")" * 6 + ".size() > 0",
            "cost limit",
        ),
        ('"' + "a" * 5000 + '".matches("(a+)+$") && "' + "a" * 60 + '!".matches("(a+)+$")', ""),
        ("1" + " + 1" * 3000 + " > 0", ""),
        ("lists.range(1000000000).size() > 0", "cost limit"),
        ('"' + "a" * 3000 + '".find("(a+)+$") == ""', "may take too long"),
    ],
    ids=["loops", "regular expression", "deep", "range", "search"],
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
    for each in (library, selectors.compiled_selector):
        each.cache_clear()
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    with pytest.raises(MissingPackageError, match="pip install cel-expr-python"):
        evaluate("true", Device("d"), "d")
