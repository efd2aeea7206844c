"""Selectors of devices, with kube-scheduler's answers.

tests/data/README.md says where they come from.
"""

import sys
import tracemalloc
from typing import Any
from unittest.mock import ANY

import msgspec
import pytest
from all_cases import ALL_CASES, PART, check_each
from scheduling.devices.test_allocator import Json, rows

from lib.kube.devices import Device
from lib.scheduling.devices import selectors
from lib.scheduling.devices.cel import cost, run
from lib.scheduling.devices.cel.compile import compiled, environment
from lib.scheduling.devices.cel.library import MissingPackageError, package
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


def test_devices_are_selected_as_kube_scheduler_selects_them() -> None:
    named = ((f"{row['table']}-{row['name']}", row) for row in rows("cel"))
    check_each(named, selects_alike)


def selects_alike(row: Json) -> None:
    if row["name"] == "expensive" and not ALL_CASES:
        return  # half a minute
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
    for row in more[PART]:
        expression, wanted = row["expression"], row["answer"]
        if "cost limit" in wanted.get("matchError", "") and not ALL_CASES:
            continue  # seconds: see test_no_expression_takes_long
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


def limit_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that is met soon, unless all cases are tried: the real one is met after some seconds."""
    for module in (cost, run):
        monkeypatch.setattr(module, "MAX_COST", cost.MAX_COST if ALL_CASES else 100_000)


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
def test_no_expression_takes_long(expression: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_cost(monkeypatch)
    found = answer({"expression": expression, "driver": "d"})
    assert said in next(iter(map(str, found.values())))


LONG, LETTERS = "a" * 1000, "cel.bind(a, 'LONG', cel.bind(b, a.replace('a', a), BODY))"


def with_long_texts(body: str) -> str:
    """An expression in which `a` has 1,000 letters, and `b` a million."""
    return LETTERS.replace("LONG", LONG).replace("BODY", body)


def with_nested_lists(body: str) -> str:
    """An expression in which `v23` is a list of lists of lists ..., with 4^24 numbers."""
    bound = "".join(f"cel.bind(v{i}, [v{i - 1}, v{i - 1}, v{i - 1}, v{i - 1}], " for i in range(1, 24))
    return f"cel.bind(v0, [1, 1, 1, 1], {bound}{body}{')' * 24}"


GROWN = "".join(f"cel.bind(a{i}, a{i - 1} + a{i - 1} + a{i - 1} + a{i - 1}, " for i in range(1, 24))

HOSTILE = {
    "replace": f"'{LONG}'.replace('a', '{LONG}').replace('a', '{LONG}').size() > 0",
    "replace nothing": f"''.replace('', '{LONG * 4}').replace('', '{LONG * 4}').size() > 0",
    "many texts": with_long_texts("cel.bind(x, 'a', [" + "a.replace(x, a), " * 300 + "a].size() > 0)"),
    "format": with_long_texts(f"'{'%s' * 1000}'.format(lists.range(1000).map(x, b)).size() > 0"),
    "join": with_long_texts("lists.range(1000).map(x, b).join().size() > 0"),
    "add": with_long_texts("(b + b).size() > 0"),
    "longer in quotes": with_long_texts("strings.quote(b.replace('a', '\"')).size() > 0"),
    "split": with_long_texts("[b.split(''), b.split(''), b.split('')].size() > 0"),
    "add lists": f"cel.bind(a0, lists.range(1000), {GROWN}a23.size() > 0{')' * 24}",
    "equal": with_nested_lists("v23 == v23"),
    "not equal": with_nested_lists("v23 != v23"),
    "in": with_nested_lists("v23 in [v23]"),
    "index": with_nested_lists("[v23].indexOf(v23) == 0"),
    "distinct": with_nested_lists("[v23, v23].distinct().size() == 1"),
    "formatted": with_nested_lists("'%s'.format([v23]).size() > 0"),
    "flatten": with_nested_lists("v23.flatten(50).size() > 0"),
    "sets": with_nested_lists("sets.contains([v23], [v23])"),
    "optional": with_nested_lists("optional.of(v23) == optional.of(v23)"),
}


@pytest.mark.parametrize("expression", [*HOSTILE.values()][PART], ids=[*HOSTILE][PART])
def test_what_a_call_would_make_or_compare_is_limited_before(
    expression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them would take hundreds of megabytes, or some hours."""
    limit_cost(monkeypatch)
    compiled(expression)
    tracemalloc.start()
    try:
        with pytest.raises(SelectorError, match="actual cost limit exceeded"):
            evaluate(expression, Device("d"), "d")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(900000).size() == 900000",
        "lists.range(20000).map(x, x) == lists.range(20000)",
        "lists.range(20000).transformMap(i, v, v).size() == 20000",
        with_long_texts("b.size() == 1000000 && b.contains('aa') && b.endsWith(a)"),
        with_long_texts("a.replace('a', a, 3).size() == 3997 && 'bb'.replace('', 'a', 2) == 'abab'"),
        "cel.bind(a, [0], [1].map(x, a + [x]) == [[0, 1]] && a == [0])",
        "[[1, 2], [3]].map(x, x.map(y, y + 1)) == [[2, 3], [4]]",
        "[1, 2].all(n, [3].map(x, x) == [3] && [].map(x, x) == [])",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "dyn({'a': 1}).exists(k, [1] == [1]) && !(dyn([1]) in dyn({'a': 1}))",
    ],
)
def test_what_is_not_too_much_has_its_value(expression: str) -> None:
    for _ in range(2):  # a constant of the expression isn't changed
        assert evaluate(expression, Device("d"), "d")


def test_a_long_text_makes_no_long_error() -> None:
    with pytest.raises(SelectorError) as found:
        evaluate(with_long_texts("ip(b).family() == 4"), Device("d"), "d")
    assert len(str(found.value)) < 3000


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
        'duration(null) == duration("1s")',
        "[[1]].flatten(1 / 0) == [1]",
        "[1, 2].transformMapEntry(at, one, {true: one}) == {true: 1}",
        "[[1]].flatten(dyn('1')) == [1]",
        'device.driver.matches(dyn(["0"]))',
        'device.driver.find(dyn({"0": 1})) == "0"',
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
    for each in (package, environment, compiled):
        each.cache_clear()
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    with pytest.raises(MissingPackageError, match="pip install cel-expr-python"):
        evaluate("true", Device("d"), "d")
