"""Hidden clusters: as hard as the open one, but nothing in them is called as it is there.

Nodes, workloads and what they are spread over have other names, and nodes another order. Prices are higher or
lower, and so are all amounts of cpu and memory, by the same factor each: what is best stays best. So they
aren't harder for one student than for another.
"""

from collections.abc import Callable, Iterable
from copy import deepcopy
from random import Random
from typing import Any

import msgspec

from lib.kube.quantity import Quantity
from lib.questions.files import quantity_text
from scripts.grading.scenario import PRICE, Expected, Json, Rubric, Scenario, Worth

PRICES = (0.8, 0.9, 1.1, 1.2)
AMOUNTS = (1, 2, 3)

AMOUNTS_IN = ("requests", "limits", "allocatable", "capacity", "overhead")
"""The fields that hold amounts of resources."""

KEPT = ("kind", "apiVersion", "image", "namespace")
"""The fields whose values have a meaning of their own."""


def hidden_like(scenario: Scenario, secret: str) -> Scenario:
    """A hidden cluster for a scenario. secret: the same one gives the same cluster."""
    random = Random(f"hidden: {secret}")
    names = _names(scenario, random)
    price = random.choice(PRICES)
    factors = {"cpu": random.choice(AMOUNTS), "memory": random.choice(AMOUNTS)}
    objects = [_changed(each, names, factors) for each in scenario.objects]
    manifests = [_changed(each, names, factors) for each in scenario.manifests]
    for node in (each for each in objects if each["kind"] == "Node"):
        annotations = node["metadata"].get("annotations") or {}
        if PRICE in annotations:
            annotations[PRICE] = f"{float(annotations[PRICE]) * price:.4g}"
    random.shuffle(objects)
    return scenario.like_this(
        objects, manifests, _expected(scenario.expect, names, price), _rubric(scenario.rubric, price)
    )


def _names(scenario: Scenario, random: Random) -> dict[str, str]:
    """New names, by the old ones. As each is replaced everywhere, what belongs together still does."""
    pods = [each["metadata"]["name"] for each in scenario.objects if each["kind"] == "Pod"]
    workloads = [str(each["metadata"].get("name", "")) for each in scenario.manifests if "spec" in each]
    domains = [scenario.label_of(node, each.by) for each in scenario.expect.spread for node in scenario.nodes]
    old = [each for each in dict.fromkeys([*scenario.nodes, *pods, *workloads, *domains]) if each]
    new = random.sample(range(16**5, 16**6), len(old))
    return {name: f"{random.choice('bdfhkmprtwxz')}{number:x}" for name, number in zip(old, new, strict=True)}


def _changed(thing: Json, names: dict[str, str], factors: dict[str, int]) -> Json:
    def walk(value: Any, key: str) -> Any:
        if isinstance(value, dict):
            if key in AMOUNTS_IN:
                return {name: _times(each, factors.get(name, 1)) for name, each in value.items()}
            return {name: walk(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [walk(each, key) for each in value]
        return names.get(value, value) if isinstance(value, str) and key not in KEPT else value

    changed: Json = walk(deepcopy(thing), "")
    return changed


def _times(amount: Any, factor: int) -> Any:
    return amount if factor == 1 else quantity_text(Quantity.parse(str(amount)) * factor)


def _expected(expect: Expected, names: dict[str, str], price: float) -> Expected:
    def renamed(old: Iterable[str]) -> tuple[str, ...]:
        return tuple(names.get(each, each) for each in old)

    replace: Callable[..., Any] = msgspec.structs.replace
    spread = tuple(replace(each, of=names.get(each.of, each.of)) for each in expect.spread)
    cost = None if expect.cost is None else expect.cost * price
    changed: Expected = replace(expect, spread=spread, avoid=renamed(expect.avoid), cost=cost)
    return changed


def _rubric(rubric: Rubric, price: float) -> Rubric:
    none_at = rubric.cost.none_at
    cost = Worth(rubric.cost.points, None if none_at is None else none_at * price)
    return msgspec.structs.replace(rubric, cost=cost)
