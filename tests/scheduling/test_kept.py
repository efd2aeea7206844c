"""What is kept catches up with changes, ends when it can't, and is as before when a trial ends."""

from collections.abc import Callable, Sequence

import pytest
from objects import node, pod

from lib.kube.changes import Change, Kind
from lib.scheduling.cache import Cache
from lib.scheduling.kept import Follower, Journal, Kept
from lib.scheduling.looked_up import LookedUp


class Sum(Follower):
    """The sum of all changes. Those that are `odd_one` it can't follow."""

    odd_one = 99

    def __init__(self, found: Sequence[int] = ()) -> None:
        self.total = sum(found)

    def follow(self, changes: Sequence[int]) -> bool:
        self.total += sum(changes)
        return self.odd_one not in changes


class Fails(Sum):
    """It fails at the second of some changes."""

    def follow(self, changes: Sequence[int]) -> bool:
        super().follow(changes[:1])
        if changes[1:]:
            raise LookupError
        return True


class World:
    """Numbers, the journal of those that came, and the sum of them that is kept."""

    def __init__(self, limit: int = 100, kind: type[Sum] = Sum) -> None:
        self.numbers: list[int] = []
        self.journal = Journal[int](limit)
        self.kept = Kept(self.journal, 2)
        self.found = 0
        self.kind = kind

    def comes(self, *numbers: int) -> None:
        for each in numbers:
            self.numbers.append(each)
            self.journal.add(each)

    def goes(self, number: int) -> None:
        self.numbers.remove(number)
        self.journal.add(-number)

    def sum(self, key: str = "sum") -> Sum:
        return self.kept.get(key, self.find)

    def find(self) -> Sum:
        self.found += 1
        return self.kind(self.numbers)


def test_a_value_is_found_once_and_follows() -> None:
    world = World()
    for i in range(5):
        world.comes(i, 10)
        assert world.sum().total == sum(world.numbers)
    assert world.found == 1


def start_over(world: World) -> None:
    world.journal.start_over()


def overflow(world: World) -> None:
    world.comes(*range(101))


def change_that_it_cannot_follow(world: World) -> None:
    world.comes(Sum.odd_one)


@pytest.mark.parametrize("end", [start_over, overflow, change_that_it_cannot_follow])
def test_a_value_that_can_not_catch_up_is_found_anew(end: Callable[[World], None]) -> None:
    world = World()
    world.comes(3)
    for found in (1, 2):
        world.comes(4)
        assert world.sum().total == sum(world.numbers)
        assert world.found == found
        end(world)


def test_a_value_that_is_up_to_date_is_found_anew_after_the_journal_starts_over() -> None:
    world = World()
    world.sum()
    world.numbers.append(5)
    world.journal.start_over()
    assert (world.sum().total, world.journal.since(0)) == (5, None)


def test_a_value_that_fails_is_dropped() -> None:
    world = World(kind=Fails)
    world.sum()
    world.comes(1, 2)
    with pytest.raises(LookupError):
        world.sum()
    assert world.sum().total == 3


@pytest.mark.parametrize("before", [0, 1, 2], ids=["not yet found", "up to date", "behind"])
@pytest.mark.parametrize("limit", [100, 3], ids=["", "with more changes than are kept"])
def test_a_trial_leaves_no_trace(before: int, limit: int) -> None:
    world = World(limit)
    world.comes(1)
    sums = [world.sum()] if before else []
    if before == 2:
        world.comes(2)
    token, numbers = world.journal.token, [*world.numbers]
    with world.journal.trial():
        world.comes(5)
        sums.append(world.sum())
        assert sums[-1].total == sum(numbers) + 5
        with world.journal.trial():  # is part of the first
            world.comes(6)
            assert world.sum().total == sum(numbers) + 11
            world.goes(6)
        sums += map(
            world.sum, ("other", "another")
        )  # the first is dropped, and still is as before at the end
        world.goes(5)
    assert world.journal.token == token
    assert {each.total for each in sums} == {sum(numbers)}
    world.comes(7)
    assert world.sum().total == sum(numbers) + 7


def test_a_value_that_can_not_follow_a_trial_is_found_anew_after_it() -> None:
    world = World()
    world.comes(1)
    assert world.sum().total == 1
    with world.journal.trial():
        world.comes(2)
        assert world.sum().total == 3
        world.comes(97)
        world.goes(97)
        world.goes(2)
        world.comes(Sum.odd_one)
        world.goes(Sum.odd_one)
    assert (world.sum().total, world.found) == (1, 2)


def test_a_node_with_pods_taken_and_added_for_a_try_is_as_before() -> None:
    pods = [pod(f"p{i}", nodeName="n1", containers=[{"ports": [{"hostPort": 80 + i}]}]) for i in range(3)]
    cache = Cache([node("n1"), node("n2")], pods)
    info, token = cache.nodes["n1"], cache.journal.token
    before = [*info.pods], dict(info.requested), dict(info.ports)
    with cache.without(pods[:2]) as away:
        with info.trial():
            info.add(pod("more", containers=[{"ports": [{"hostPort": 8080}]}]))
        assert info.pods == pods[2:]
        assert cache.removed.keys() == {each.metadata.uid or str(each) for each in pods[:2]}
        away.give_back(pods[1])
        assert info.pods == [pods[2], pods[1]]
    assert (info.pods, info.requested, info.ports) == before
    assert not cache.removed
    assert cache.journal.token == token


def test_namespaces_that_get_other_labels_end_what_is_kept() -> None:
    cache = Cache([node("n1")], looked_up=LookedUp({"a": {}}))
    found = []
    for labels in ({}, {}, {"team": "x"}):
        cache.looked_up = LookedUp({"a": labels})
        cache.remember("key", lambda: found.append(labels))  # noqa: B023
    assert found == [{}, {"team": "x"}]


def test_what_depends_on_all_nodes_outlives_pods_but_no_update_of_a_node() -> None:
    cache, found = Cache([node("n1")]), list[int]()

    def times() -> int:
        cache.remember("key", lambda: found.append(1))
        return len(found)

    assert times() == 1
    cache.apply(Change(Kind.ADDED, pod("p", nodeName="n1")))
    assert times() == 1
    cache.apply(Change(Kind.MODIFIED, node("n1", {"a": "b"}), node("n1")))
    assert times() == 2
