"""Hidden clusters: of the same kind as the open one, and as hard, but other nodes are the right ones.

A hidden cluster is made in two steps. Its shape is the same for all students: prices change places between
nodes, workloads have other numbers of pods, amounts are multiplied, and nodes have another order. So a
policy has to read what it is about. Only the names are others for each student and each file, and even
their alphabetical order is the same: one policy has one mark, whoever hands it in.

What is expected of a shape is what a reference policy reaches there, if nothing better is possible
(`reference.py`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from functools import partial
from random import Random
from typing import Any

import msgspec

from lib.kube.quantity import Quantity
from lib.questions.files import quantity_text
from scripts.grading.reference import Reached, reached, reached_blindly
from scripts.grading.scenario import PRICE, Expected, Json, Rubric, Scenario, Worth

AMOUNTS = (1, 2, 3)
REPLICAS = (0.6, 1.4)
"""A workload has so many times as many pods, at least and at most."""

TRIES = 30
"""So many shapes are tried: in a fair one, the reference policy reaches what is possible, and a policy that
reads no price doesn't."""

AMOUNTS_IN = ("requests", "limits", "allocatable", "capacity", "overhead")
"""The fields that hold amounts of resources."""

KEPT = ("kind", "apiVersion", "image", "namespace")
"""The fields whose values have a meaning of their own."""

replace: Callable[..., Any] = msgspec.structs.replace


# --- the shape: for all students --------------------------------------------------------------------------


def shaped_like(scenario: Scenario, secret: str, tried: Callable[[int], None] = lambda _: None) -> Scenario:
    """A cluster of the same kind, with the open one's names. secret: the same one gives the same shape.

    tried: called with the number of the shape that is tried next. With thousands of pods each takes seconds.
    """
    random = Random(f"hidden: {secret}")
    alike = _multiplied(scenario, random)
    return next(filter(None, _tries(alike, random, tried)), alike)


def _tries(scenario: Scenario, random: Random, tried: Callable[[int], None]) -> Iterator[Scenario | None]:
    """Shapes in which other nodes are the right ones; None for one that isn't fair."""
    if scenario.expect.spread or scenario.expect.evicted is not None:
        return
    tried(1)
    open_one = reached(scenario)
    if not open_one or not open_one.is_best:
        return
    for number in range(1, TRIES + 1):
        tried(number)
        changed = _mixed(scenario, random)
        now = reached(changed)
        if not now or not now.is_best:
            yield None
            continue
        expect = _expected_of(scenario.expect, open_one, now)
        made = changed.like_this(changed.objects, changed.manifests, expect, _rubric_of(scenario, expect))
        yield None if expect.cost is not None and reached_blindly(made) else made


def _multiplied(scenario: Scenario, random: Random) -> Scenario:
    """The same cluster with other amounts, and another order: what is best stays best."""
    factors = {"cpu": random.choice(AMOUNTS), "memory": random.choice(AMOUNTS)}

    def multiplied(amounts: Json) -> Json:
        return {name: _times(each, factors.get(name, 1)) for name, each in amounts.items()}

    change = partial(_changed, multiplied)
    objects, manifests = [*map(change, scenario.objects)], [*map(change, scenario.manifests)]
    random.shuffle(objects)
    return scenario.like_this(objects, manifests, scenario.expect, scenario.rubric)


def _mixed(scenario: Scenario, random: Random) -> Scenario:
    """The same cluster, with the prices of other nodes, and other numbers of pods."""
    objects, manifests = deepcopy([*scenario.objects]), deepcopy([*scenario.manifests])
    nodes = [each for each in objects if PRICE in (each["metadata"].get("annotations") or {})]
    prices = [node["metadata"]["annotations"][PRICE] for node in nodes]
    random.shuffle(prices)
    for node, price in zip(nodes, prices, strict=True):
        node["metadata"]["annotations"][PRICE] = price
    for workload in manifests:
        spec = workload.get("spec") or {}
        if isinstance(spec.get("replicas"), int):
            spec["replicas"] = max(1, round(spec["replicas"] * random.uniform(*REPLICAS)))
    return scenario.like_this(objects, manifests, scenario.expect, scenario.rubric)


def _expected_of(expect: Expected, open_one: Reached, now: Reached) -> Expected:
    """What is expected of a shape: as much more than is possible as the open cluster allows."""
    changes: dict[str, Any] = {}
    if expect.placed is not None:
        changes["placed"] = (
            now.placed
            if expect.placed >= open_one.placed
            else round(now.placed * expect.placed / open_one.placed)
        )
    if expect.cost is not None and open_one.cost:
        changes["cost"] = now.cost * expect.cost / open_one.cost
    if expect.nodes_used is not None:
        changes["nodes_used"] = now.nodes_used + expect.nodes_used - open_one.nodes_used
    changed: Expected = replace(expect, **changes)
    return changed


def _rubric_of(scenario: Scenario, expect: Expected) -> Rubric:
    """The rubric, with the price from which on there are no points."""
    worth, before = scenario.rubric.cost, scenario.expect.cost
    if worth.none_at is None or not before or expect.cost is None:
        return scenario.rubric
    cost = Worth(worth.points, worth.none_at * expect.cost / before)
    rubric: Rubric = replace(scenario.rubric, cost=cost)
    return rubric


def _times(amount: Any, factor: int) -> Any:
    return amount if factor == 1 else quantity_text(Quantity.parse(str(amount)) * factor)


# --- the names: for each student and file -----------------------------------------------------------------


def renamed(shape: Scenario, secret: str) -> Scenario:
    """The same cluster, in which nothing has its name. secret: the same one gives the same names."""
    names = _names(shape, secret)

    def changed(thing: Json) -> Json:
        return _changed(lambda amounts: amounts, thing, names)

    def new(old: Iterable[str]) -> tuple[str, ...]:
        return tuple(names.get(each, each) for each in old)

    expect = shape.expect
    spread = tuple(replace(each, of=names.get(each.of, each.of)) for each in expect.spread)
    return shape.like_this(
        [*map(changed, shape.objects)],
        [*map(changed, shape.manifests)],
        replace(expect, spread=spread, avoid=new(expect.avoid)),
        shape.rubric,
    )


def _names(scenario: Scenario, secret: str) -> dict[str, str]:
    """New names, by the old ones. As each is replaced everywhere, what belongs together still does.

    Their alphabetical order has nothing to do with the old one's, and is the same with any secret.
    """
    pods = [each["metadata"]["name"] for each in scenario.objects if each["kind"] == "Pod"]
    workloads = [str(each["metadata"].get("name", "")) for each in scenario.manifests if "spec" in each]
    domains = [scenario.label_of(node, each.by) for each in scenario.expect.spread for node in scenario.nodes]
    old = [each for each in dict.fromkeys([*scenario.nodes, *pods, *workloads, *domains]) if each]
    Random(scenario.title).shuffle(old)
    random = Random(f"names: {secret}")
    new = (
        f"{random.choice('bdfhkmprtwxz')}{number:x}"
        for number in random.sample(range(16**5, 16**6), len(old))
    )
    return dict(zip(old, sorted(new), strict=True))


def _changed(amounts: Callable[[Json], Json], thing: Json, names: Mapping[str, str] | None = None) -> Json:
    """An object with other amounts and names."""
    names = names or {}

    def walk(value: Any, key: str) -> Any:
        if isinstance(value, dict):
            if key in AMOUNTS_IN:
                return amounts(value)
            return {name: walk(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [walk(each, key) for each in value]
        return names.get(value, value) if isinstance(value, str) and key not in KEPT else value

    changed: Json = walk(deepcopy(thing), "")
    return changed
