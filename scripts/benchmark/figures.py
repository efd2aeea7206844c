"""The measured figures."""

from typing import Literal

import msgspec

Part = Literal[
    "burst",
    "throughput",
    "single",
    "beside",
    "start",
    "idle",
    "size",
    "failover",
    "decide",
    "replay",
    "tick",
]

WITHOUT_ARENA = "decide", "failover", "replay", "tick"
"""These parts need no API server, or start one of their own."""


class Figure(msgspec.Struct, omit_defaults=True):
    """One measurement of one contestant. Without a value, `problem` says why."""

    part: Part
    measure: str
    contestant: str
    nodes: int
    value: float | None = None
    unit: str = ""
    pods: int = 0
    bound: int = 0  # how many pods had a node before
    samples: list[float] = []
    problem: str = ""


class Results(msgspec.Struct):
    """All figures of a run.

    load: the machine's load average before. left_out: by contestant, why it took no part.
    """

    server: str
    machine: str
    load: float
    idle_seconds: float
    figures: list[Figure] = []
    left_out: dict[str, str] = {}
