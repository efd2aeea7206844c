"""What is kept of searches for devices changes no decision, and nothing is kept of pools that have gone."""

from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from objects import node, read

from lib.kube.changes import Change, Kind
from lib.kube.devices import AllocationResult, CounterSet, DeviceClass, ResourceClaim, ResourceSlice
from lib.kube.objects import Json, Pod
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.devices import kept_answers
from lib.scheduling.devices.kept_answers import KeptAnswer, KeptAnswers
from lib.scheduling.devices.pools import Pool
from lib.scheduling.devices.taken import Taken
from lib.scheduling.handle import Handle
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.scheduling_cycle import Scheduler

NODES = ("n1", "n2", "n3")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def exactly(count: int, **more: Any) -> Json:
    return {"deviceClassName": "all", "allocationMode": "ExactCount", "count": count, **more}


ODD = [{"cel": {"expression": 'device.attributes["d"].half == 1'}}]
WANTED: list[Json] = [
    {"exactly": exactly(1)},
    {"exactly": exactly(2)},
    {"exactly": {"deviceClassName": "all", "allocationMode": "All"}},
    {"exactly": exactly(1, selectors=ODD)},
    {"firstAvailable": [{"name": "two", **exactly(2)}, {"name": "one", **exactly(1)}]},
]


def slice_of(node_name: str, count: int, generation: int) -> ResourceSlice:
    devices = [{"name": f"d{at}", "attributes": {"half": {"int": at % 2}}} for at in range(count)]
    pool = {"name": node_name, "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": "d", "nodeName": node_name, "pool": pool, "devices": devices}
    found: ResourceSlice = read(ResourceSlice, {"metadata": {"name": f"of-{node_name}"}, "spec": spec})
    return found


class World:
    """Nodes with devices, and pods that get some. keeps: whether answers of searches are kept."""

    def __init__(self, *, keeps: bool) -> None:
        self.cache = Cache([node(name) for name in NODES])
        self.devices = self.cache.devices
        self.devices.put(read(DeviceClass, {"metadata": {"name": "all"}}))
        handle = Handle(Random(1), cache=self.cache, now=lambda: NOW)
        self.scheduler = Scheduler(default_profile("s", handle=handle), Random(1))
        if not keeps:
            self.devices.answers.get = lambda *_: None  # type: ignore[method-assign]

    def decide(self, name: str, wanted: Json) -> Decision:
        """Decide on a pod with a claim of its own; what it gets is written at once."""
        metadata = {"name": name, "namespace": "default", "uid": f"uid-of-{name}"}
        requests = [{"name": "r", **wanted}]
        claim = {
            "metadata": {**metadata, "uid": f"claim-{name}"},
            "spec": {"devices": {"requests": requests}},
        }
        self.devices.put(read(ResourceClaim, claim))
        uses = [{"name": "of", "resourceClaimName": name}]
        spec = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": uses}
        pod: Pod = read(Pod, {"metadata": metadata, "spec": spec})
        return self.scheduler.schedule_one(pod, self.cache)


def told(decision: Decision) -> tuple[object, ...]:
    scores = {name: scores.get("DynamicResources", 0) for name, scores in decision.scores.items()}
    return decision.outcome, decision.node_name, decision.message, scores, decision.rejected_by


def steps(random: Random) -> list[Callable[[World], object]]:
    """What happens to a world: pods come, pods that were decided on go, slices are replaced."""
    found: list[Callable[[World], object]] = []
    decisions: dict[World, dict[str, Decision]] = {}
    generation = 1
    for name in NODES:
        first = slice_of(name, random.randrange(5), generation)
        found.append(lambda world, first=first: world.devices.put(first))
    for number in range(40):
        what = random.random()
        if what < 0.6:
            pod, wanted = f"pod-{number}", random.choice(WANTED)

            def come(world: World, pod: str = pod, wanted: Json = wanted) -> object:
                made = decisions.setdefault(world, {})[pod] = world.decide(pod, wanted)
                return told(made)

            found.append(come)
        elif what < 0.8:
            which = random.random()

            def go(world: World, which: float = which) -> None:
                made = decisions.get(world, {}).values()
                placed = [each for each in made if each.outcome == Outcome.SCHEDULED]
                if placed:
                    gone = placed[int(which * len(placed))]
                    del decisions[world][gone.pod.metadata.name]
                    world.scheduler.undo(gone, world.cache)

            found.append(go)
        else:
            generation += 1
            name = random.choice(NODES)
            new = slice_of(name, random.randrange(5), generation)
            found.append(lambda world, new=new: world.devices.put(new))
    return found


@pytest.mark.parametrize("seed", range(30))
def test_what_is_kept_changes_no_decision(seed: int) -> None:
    keeping, searching = World(keeps=True), World(keeps=False)
    outcomes = set()
    for number, step in enumerate(steps(Random(seed))):
        said = step(keeping)
        assert said == step(searching), f"step {number}"
        outcomes |= {said[0]} if isinstance(said, tuple) else set()
    assert outcomes == {Outcome.SCHEDULED, Outcome.UNSCHEDULABLE}


def test_a_node_is_searched_again_only_if_something_of_its_pools_was_taken() -> None:
    world = World(keeps=True)
    for name in NODES:
        world.devices.put(slice_of(name, 4, 1))
    searched: list[str] = []
    keep = world.devices.answers.put

    def note(claimed: bytes, node_name: str, *given: Any) -> None:
        searched.append(node_name)
        keep(claimed, node_name, *given)

    world.devices.answers.put = note  # type: ignore[method-assign]
    decision = world.decide("first", WANTED[0])
    assert searched == [*NODES]
    searched.clear()
    world.decide("second", WANTED[0])
    assert searched == [decision.node_name]


def test_nothing_is_kept_of_pools_that_have_gone() -> None:
    world = World(keeps=True)
    for number in range(300):
        new = node(f"new-{number}")
        world.cache.apply(Change(Kind.ADDED, new))
        devices = slice_of(f"new-{number}", 2, 1)
        world.devices.put(devices)
        decision = world.decide(f"pod-{number}", WANTED[0])
        assert decision.node_name == f"new-{number}"
        world.scheduler.undo(decision, world.cache)
        world.devices.delete(devices)
        world.cache.apply(Change(Kind.DELETED, new))
    assert not world.devices.taken.changes


# --- each by itself --------------------------------------------------------------------------------------

NO = KeptAnswer("cannot allocate all claims")
POOLS = [Pool("d", "p"), Pool("d", "q")]


def one_of(pool: str) -> AllocationResult:
    """A device of a pool."""
    result = {"request": "r", "driver": "d", "pool": pool, "device": "gpu"}
    found: AllocationResult = read(AllocationResult, {"devices": {"results": [result]}})
    return found


@pytest.mark.parametrize(
    ("pool", "is_kept"),
    [pytest.param("other", True, id="of another pool"), pytest.param("q", False, id="of one of its pools")],
)
def test_an_answer_is_kept_until_a_device_of_the_nodes_pools_is_taken(pool: str, is_kept: bool) -> None:
    answers, taken = KeptAnswers(), Taken()
    answers.put(b"claims", "n1", POOLS, taken, NO)
    assert answers.get(b"claims", "n1", POOLS, taken) == NO
    taken.add(one_of(pool))
    assert answers.get(b"claims", "n1", POOLS, taken) == (NO if is_kept else None)


def test_an_answer_is_for_the_same_claims_node_and_pools() -> None:
    answers, taken = KeptAnswers(), Taken()
    answers.put(b"claims", "n1", POOLS, taken, NO)
    assert answers.get(b"others", "n1", POOLS, taken) is None
    assert answers.get(b"claims", "n2", POOLS, taken) is None
    assert answers.get(b"claims", "n1", [*POOLS], taken) is None  # the node's labels have changed


def test_nothing_is_kept_where_one_of_the_pools_has_counters() -> None:
    """Devices of other nodes may use them."""
    answers, taken = KeptAnswers(), Taken()
    pools = [*POOLS, Pool("d", "r", counters={"memory": CounterSet("memory")})]
    answers.put(b"claims", "n1", pools, taken, NO)
    assert answers.get(b"claims", "n1", pools, taken) is None


def test_when_too_many_answers_are_kept_all_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_answers, "MOST_ANSWERS", 2)
    answers, taken = KeptAnswers(), Taken()

    def known() -> str:
        return " ".join(name for name in ("n1", "n2", "n3") if answers.get(b"claims", name, POOLS, taken))

    for name in ("n1", "n1", "n2"):
        answers.put(b"claims", name, POOLS, taken, NO)
    assert known() == "n1 n2"
    answers.put(b"claims", "n3", POOLS, taken, NO)
    assert known() == "n3"
