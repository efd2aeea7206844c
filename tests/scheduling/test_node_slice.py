"""A slice of the nodes, which may continue at the beginning of the list."""

from collections.abc import Sequence
from random import Random

import pytest
from objects import node, pod

from lib.scheduling.cache import Cache
from lib.scheduling.decision import Outcome
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.scheduling_cycle import Scheduler


@pytest.mark.parametrize(
    ("indexes", "names"),
    [
        ([2, 0], ["n2", "n0"]),
        (range(1, 3), ["n1", "n2"]),
        (range(3, 6), ["n3", "n0", "n1"]),
        (range(3, 7), ["n3", "n0", "n1", "n2"]),
        (range(4, 6), ["n0", "n1"]),
        (range(5, 6), ["n1"]),
        (range(7, 7), []),
    ],
)
def test_a_range_that_goes_beyond_the_end_continues_at_the_beginning(
    indexes: Sequence[int], names: list[str]
) -> None:
    cache = Cache([node(f"n{i}") for i in range(4)])
    nodes = NodeSlice(cache, indexes)
    assert [each.name for each in nodes] == names
    assert [cache.node_list[i].name for i in nodes.indexes] == names
    assert nodes.values(lambda each: each.name) == names
    assert [cache.node_names[nodes.index_at(i)] for i in range(len(nodes))] == names


def test_one_node_with_room_is_found_wherever_the_search_begins() -> None:
    """With 150 nodes a search looks for 100, and the next begins where it ended."""
    for roomy in (0, 75, 149):
        cache = Cache([node(f"n{i}", has={"cpu": "4" if i == roomy else "0"}) for i in range(150)])
        scheduler = Scheduler(default_profile("my-scheduler"), Random(1))
        for i in range(10):
            scheduler.schedule_one(pod(f"anywhere-{i}"), cache)
            decision = scheduler.schedule_one(pod(f"web-{i}", requests={"cpu": "100m"}), cache)
            assert (decision.outcome, decision.node_name) == (Outcome.SCHEDULED, f"n{roomy}"), (
                decision.message
            )
            assert len(decision.rejected) == 149
