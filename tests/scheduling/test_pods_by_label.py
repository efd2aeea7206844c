"""The pods with some labels are found as if all pods were looked at, while pods come, go and change."""

from random import Random

from hypothesis import given, settings, strategies as st
from msgspec.structs import replace
from objects import node, pod

from lib.kube.changes import Change, Kind
from lib.kube.matcher import Clue
from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.pods_by_label import pods_with

LABELS: list[Clue] = [("app", "a"), ("app", "b"), ("tier", "a"), ("app", "none")]
VALUES = ["a", "b", "c"]


def found(cache: Cache, clues: list[Clue]) -> list[tuple[str, int]]:
    return sorted((on.name, id(one)) for on, one in pods_with(cache, clues))


def looked_at(cache: Cache, clues: list[Clue]) -> list[tuple[str, int]]:
    pods = ((on.name, one) for on in cache.node_list for one in on.pods)
    return sorted((name, id(one)) for name, one in pods if {*clues} & {*one.metadata.labels.items(), None})


@settings(max_examples=100)
@given(st.integers(0, 10**9))
def test_pods_are_found_by_their_labels(seed: int) -> None:
    chance = Random(seed)
    cache = Cache([node(f"n{i}") for i in range(3)], [])
    assert found(cache, LABELS) == []  # from now on, pods are indexed
    there: dict[str, Pod] = {}
    for _ in range(40):
        name = f"p{chance.randrange(8)}"
        labels = {key: chance.choice(VALUES) for key in chance.sample(["app", "tier"], chance.randint(0, 2))}
        before = there.pop(name, None)
        if before is None:
            new = pod(name, nodeName=f"n{chance.randrange(3)}")
            there[name] = new = replace(new, metadata=replace(new.metadata, labels=labels))
            cache.apply(Change(Kind.ADDED, new, None))
        elif chance.random() < 0.5:
            there[name] = new = replace(before, metadata=replace(before.metadata, labels=labels))
            cache.apply(Change(Kind.MODIFIED, new, before))
        else:
            cache.apply(Change(Kind.DELETED, before, before))
        clues = chance.sample(LABELS, chance.randint(1, 3))
        assert found(cache, clues) == looked_at(cache, clues)
        if there:
            with cache.without([chance.choice([*there.values()])]):
                assert found(cache, clues) == looked_at(cache, clues)


def test_all_pods_are_looked_at_for_a_selector_that_needs_no_value_of_a_label() -> None:
    cache = Cache([node()], [pod("p1", nodeName="n1"), pod("p2", nodeName="n1")])
    for clues in ([None], [("app", None)], [("app", "a"), ("tier", None)]):
        assert [one.metadata.name for _, one in pods_with(cache, clues)] == ["p1", "p2"]
