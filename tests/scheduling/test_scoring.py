"""The best of the nodes that fit is picked, and the one after it is known."""

from random import Random

import pytest
from objects import node

from lib.scheduling.cache import Cache
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.scoring import Scores


def scores(totals: list[int]) -> Scores:
    cache = Cache([node(f"n{i}") for i in range(len(totals))])
    return Scores(NodeSlice(cache, range(len(totals))), totals)


@pytest.mark.parametrize(
    ("totals", "picks"),
    [
        ([7], {0}),
        ([7, 7], {0, 1}),
        ([1, 9, 3], {1}),
        ([5, 5, 5, 5], {0, 1, 2, 3}),
        ([2, 8, 8, 1, 8], {1, 2, 4}),
        ([0, 0, -1], {0, 1}),
    ],
)
def test_the_best_two(totals: list[int], picks: set[int]) -> None:
    """Each of the best is picked at times; of the others, the first that is best comes after it."""
    found = [scores(totals).best_two(Random(seed)) for seed in range(200)]
    assert {pick for pick, *_ in found} == picks
    for pick, *after in found:
        others = [i for i in range(len(totals)) if i != pick]
        assert after == ([max(others, key=lambda i: (totals[i], -i))] if others else [])


def test_each_of_many_equal_nodes_is_picked_as_often() -> None:
    picks = [scores([3] * 10).best_two(Random(seed))[0] for seed in range(2000)]
    assert all(150 < picks.count(i) < 250 for i in range(10))


def test_scores_are_of_the_slices_nodes() -> None:
    """A slice may begin anywhere; kept scores are of all nodes, the others of its nodes only."""
    cache = Cache([node(f"n{i}") for i in range(4)])
    some = Scores(NodeSlice(cache, range(3, 5)), [30, 10])  # n3, then n0
    some.note("Kept", [1, 2, 3, 4], 10)
    some.add("Own", [5, 6], 2)
    some.add_equal("Equal", 100, 3)
    assert some.of(0) == {"Kept": 40, "Own": 10, "Equal": 300}
    assert some.of(1) == {"Kept": 10, "Own": 12, "Equal": 300}
    assert some.totals == [40, 22]
