"""Does poller keep what has gone? Two looks: at its memory over time, and at its objects while it rests."""

from collections.abc import Sequence
from statistics import linear_regression, quantiles

from .figures import Figures, Rest

MOST_MEMORY = 12.0
"""MiB an hour. One small object for each pod, such as a uid that is kept, is as much at 20 pods a second."""

MOST_BLOCKS = 0.1
"""Blocks at rest for each pod and node that came since the first rest. A uid that is kept has one or two."""

MOST_GROWTH = {"descriptors": 1.1, "threads": 1.1, "latency": 1.5}
"""By how much the last third of the samples may be above the first. The lowest tenth of each is compared:
after a burst there are more descriptors for a minute, and while the machine does something else latency is
higher. What grows without end is found in the lowest, too."""

MOST_LATE = 0.1
"""Of the pods that were to come, the share that may be left out because the machine is busy."""

NAMED = 5
"""So many classes whose objects became more are named."""


def problems(samples: Sequence[Figures], rests: Sequence[Rest]) -> list[str]:
    """What has grown, and when nothing was bound: a line for each. The samples don't have the warm-up."""
    found = [*_memory(samples), *_objects(rests)]
    third = len(samples) // 3
    for name, most in MOST_GROWTH.items():
        first, last = (
            quantiles([getattr(each, name) for each in part], n=10)[0]
            for part in (samples[:third], samples[-third:])
        )
        if last > first * most:
            found.append(f"{name} grew from {first:.1f} to {last:.1f}")
    if idle := [each.seconds for each in samples if not each.bound]:
        found.append(f"no pod was bound in {len(idle)} samples, first at {idle[0]:.0f} s")
    return found


def growth(samples: Sequence[Figures]) -> float:
    """The slope of memory, in MiB an hour."""
    times, memory = [each.seconds / 3600 for each in samples], [each.memory for each in samples]
    return linear_regression(times, memory).slope


def _memory(samples: Sequence[Figures]) -> list[str]:
    slope = growth(samples)
    return [f"memory grows by {slope:.1f} MiB an hour"] if slope > MOST_MEMORY else []


def _objects(rests: Sequence[Rest]) -> list[str]:
    first, last = rests[0], rests[-1]
    came = last.pods - first.pods + last.nodes - first.nodes
    more = last.blocks - first.blocks
    if more <= MOST_BLOCKS * came:
        return []
    kinds = {name: count - first.kinds.get(name, 0) for name, count in last.kinds.items()}
    most = sorted(kinds.items(), key=lambda each: -each[1])[:NAMED]
    named = ", ".join(f"{name} {count:+,}" for name, count in most if count > 0)
    return [f"at rest poller holds {more:,} more blocks after {came:,} more pods and nodes: {named}"]
