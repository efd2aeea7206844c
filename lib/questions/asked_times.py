"""When to ask about pods that waited, so that few questions tell the most."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, log2

from lib.kube.objects import Pod
from lib.questions.waits import Wait

MOST_TIMES = 50_000
"""So often, or up to twice as often, waits are asked about at most, also those of pods that are alike."""


@dataclass
class Asked:
    """A pod that waits, as it is asked about."""

    wait: Wait
    pod: Pod
    kind: bytes = b""
    """The same for pods that are alike."""


Plan = dict[float, dict[bytes, list[Asked]]]
"""By time, and by kind: the pods that are asked about then."""


def plan_of(asked: Sequence[Asked], since: float, until: float, most: int) -> Plan:
    """When to ask about each pod: at round times, so that pods that are alike are asked about together.

    most: how many questions there may be. If there are many waits, each is asked about less often. If once is
    still too often, those questions are left out that are about the least waiting.
    """
    parts = max(1, MOST_TIMES // (len(asked) or 1))
    while (plan := _in_parts(asked, since, until, parts)) and parts > 1 and _questions(plan) > most:
        parts //= 2
    if (left_out := _questions(plan) - most) > 0:
        about = sorted(
            (sum(waiting.wait.seconds(until) for waiting in alike), at, kind)
            for at, kinds in plan.items()
            for kind, alike in kinds.items()
        )
        for _, at, kind in about[:left_out]:
            del plan[at][kind]
    return {at: kinds for at, kinds in plan.items() if kinds}


def _questions(plan: Plan) -> int:
    return sum(map(len, plan.values()))


def _in_parts(asked: Sequence[Asked], since: float, until: float, parts: int) -> Plan:
    """Each wait at so many of the round times in it, or twice as many; once, if it is one part."""
    plan: Plan = {}
    for waiting in asked:
        at, ended = max(waiting.wait.began, since), min(waiting.wait.ended, until)
        if at >= ended:
            continue
        longest = 2.0 ** floor(log2(ended - at))  # a multiple of this is in the wait
        step = max(longest / parts, min(longest, 1.0))
        at = ceil(at / step) * step
        while at < ended:
            plan.setdefault(at, {}).setdefault(waiting.kind, []).append(waiting)
            at += step if parts > 1 else inf
    return plan
