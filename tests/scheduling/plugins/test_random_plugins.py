"""Random scores every node by chance, RandomFilter rules out a node in two; both follow their seed."""

from collections import Counter
from random import Random as Generator

from objects import node, pod

from lib.scheduling.handle import Handle
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.plugins.random_score import Random, RandomFilter
from lib.scheduling.status import unschedulable

POD, NODE = pod(), NodeInfo(node())
TRIES = 10_100


def drawn(seed: int, tries: int = TRIES) -> list[int]:
    plugin = Random(Handle(Generator(seed)))
    return [plugin.score({}, POD, NODE) for _ in range(tries)]


def tossed(seed: int, tries: int = TRIES) -> list[bool]:
    plugin = RandomFilter(Handle(Generator(seed)))
    return [plugin.filter({}, POD, NODE) is None for _ in range(tries)]


def test_any_score_from_0_to_100_is_as_likely() -> None:
    """100 draws of each are expected; half as many or half as many more are five deviations off."""
    drawn_of_each = Counter(drawn(1))
    assert set(drawn_of_each) == set(range(101))
    assert min(drawn_of_each.values()) > 50
    assert max(drawn_of_each.values()) < 150


def test_every_other_node_is_ruled_out() -> None:
    heads = sum(tossed(1))
    assert 0.47 * TRIES < heads < 0.53 * TRIES
    assert (
        0.2 < sum(a == b for a, b in zip(tossed(1), tossed(1)[1:], strict=False)) / TRIES < 0.8
    )  # no pattern


def test_the_reason_is_the_coin() -> None:
    answers = {RandomFilter(Handle(Generator(seed))).filter({}, POD, NODE) for seed in range(20)}
    assert answers == {None, unschedulable("node(s) lost the toss of a coin")}


def test_the_same_seed_gives_the_same_answers() -> None:
    assert drawn(7, 20) == drawn(7, 20) != drawn(8, 20)
    assert tossed(7, 50) == tossed(7, 50) != tossed(8, 50)
