"""The phases of a pod, and what leads from one to the next."""

from itertools import product
from math import inf

import pytest
from objects import node, pod

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.pod_life import CONFIRM_SECONDS, ROOM, Phase, PodLife, PodLives, UnknownStepError

WEB, UID = pod("web"), "uid-of-web"

WAYS = {
    Phase.OUT: "",
    Phase.GATED: "GATED",
    Phase.ACTIVE: "ACTIVE",
    Phase.BACKOFF: "ACTIVE BACKOFF",
    Phase.UNSCHEDULABLE: "ACTIVE UNSCHEDULABLE",
    Phase.ASSUMED: "ACTIVE ASSUMED",
    Phase.HELD: "ACTIVE ASSUMED HELD",
    Phase.BINDING: "ACTIVE ASSUMED BINDING",
    Phase.DOUBTFUL: "ACTIVE ASSUMED BINDING DOUBTFUL",
    Phase.BOUND: "ACTIVE ASSUMED BINDING BOUND",
}
"""How a pod gets to each phase."""

ALLOWED = """
OUT            GATED ACTIVE ASSUMED BOUND
GATED          OUT ACTIVE BACKOFF
ACTIVE         OUT GATED BACKOFF UNSCHEDULABLE ASSUMED
BACKOFF        OUT GATED ACTIVE BACKOFF
UNSCHEDULABLE  OUT GATED ACTIVE BACKOFF
ASSUMED        OUT ACTIVE HELD BINDING
HELD           OUT ACTIVE ASSUMED
BINDING        OUT ACTIVE HELD DOUBTFUL BOUND
DOUBTFUL       OUT BACKOFF
BOUND          OUT ACTIVE
"""
STEPS = {(first, then) for first, *more in map(str.split, ALLOWED.strip().splitlines()) for then in more}


def led(to: Phase, lives: PodLives) -> PodLife:
    life = lives.of(WEB)
    for each in WAYS[to].split():
        lives.move(life, Phase[each])
    return life


@pytest.mark.parametrize(("before", "after"), list(product(Phase, Phase)), ids=lambda phase: phase.name)
def test_each_step_is_allowed_or_refused_by_name(before: Phase, after: Phase) -> None:
    lives = PodLives()
    life = led(before, lives)
    if (before.name, after.name) in STEPS:
        lives.move(life, after)
        assert lives.phase_of(WEB) == life.phase == after
        assert [each for each in Phase if lives.count([each])] == [after] * (after != Phase.OUT)
        return
    with pytest.raises(UnknownStepError) as error:
        lives.move(life, after)
    assert str(error.value) == f"default/web: {before.name} is not followed by {after.name}"
    assert life.phase == before


def state_of(cache: Cache) -> tuple[list[Pod], str | None, int]:
    """The pods on n1, where web is nominated, and the number of assumed pods."""
    return cache.nodes["n1"].pods, cache.nominator.node_of(WEB), cache.counts()["assumed_pods"]


@pytest.mark.parametrize("phase", ROOM)
def test_room_that_is_given_back_is_free_and_its_pod_is_tried_again(phase: Phase) -> None:
    cache = Cache([node("n1")])
    cache.nominator.add(WEB, "n2")
    cache.assume(WEB, "n1")
    life = cache.lives.of(WEB)
    for each in WAYS[phase].split()[2:]:
        cache.lives.move(life, Phase[each])
    assert state_of(cache) == ([WEB], None, 1)
    assert cache.nominator.nominated_before(pod("other", priority=0)) == {}
    cache.forget(WEB)
    assert state_of(cache) == ([], "n2", 0)
    assert cache.nominator.nominated_before(pod("other", priority=0)) == {"n2": [WEB]}
    assert life.phase == (Phase.BACKOFF if phase == Phase.DOUBTFUL else Phase.ACTIVE)


@pytest.mark.parametrize("phase", ["BOUND", "DOUBTFUL"])
def test_a_binding_that_is_not_seen_is_looked_up_once_until_it_is_to_be_again(phase: str) -> None:
    lives = PodLives()
    life = led(Phase.BINDING, lives)
    (lives.bound if phase == "BOUND" else lives.doubt)(UID, 100)
    later = 100 + CONFIRM_SECONDS
    assert [list(lives.overdue(now)) for now in (later - 1, later, 2 * later)] == [[], [life], []]
    life.look_up_at = 3 * later
    assert list(lives.overdue(3 * later)) == [life]
    lives.end(WEB)
    assert list(lives.overdue(inf)) == []


def test_a_record_is_kept_only_as_long_as_somebody_needs_it() -> None:
    lives = PodLives()
    lives.preempt([WEB])
    assert (set(lives.leaving), lives.phase_of(WEB)) == ({UID}, Phase.OUT)
    lives.spare([WEB])
    assert (set(lives.leaving), lives.get(UID)) == (set(), None)

    life = led(Phase.BOUND, lives)
    lives.preempt([WEB])
    lives.end(WEB)  # it is seen on its node, which it is leaving
    assert lives.get(UID) is life
    lives.spare([WEB])
    assert lives.get(UID) is None


def test_a_record_is_kept_of_a_nominated_pod_until_its_nomination_ends() -> None:
    cache = Cache([node("n1")])
    cache.nominator.add(WEB, "n1")
    led(Phase.ACTIVE, cache.lives)
    cache.lives.end(WEB)
    assert cache.nominator.node_of(WEB) == "n1"
    cache.nominator.delete(WEB)
    assert (cache.lives.get(UID), cache.lives.nominated) == (None, {})


def test_a_record_says_since_when_its_pod_is_in_its_phase() -> None:
    times = iter([1.0, 2.0, 3.0])
    lives = PodLives(lambda: next(times))
    life = lives.of(WEB)
    assert (life.timestamp, life.since) == (1, 1)
    lives.move(life, Phase.ACTIVE)
    lives.move(life, Phase.ASSUMED)
    assert (life.timestamp, life.since) == (1, 3)
