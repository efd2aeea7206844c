"""What the grader and a policy's process say to each other: one JSON line each, in turn.

The grader asks, and the process answers. Nothing that the process says is believed: an answer is checked for
its form and its size, and all it can hold is the answer of `filter`, `score` and the calls around them.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from lib.kube.objects import Object, decode_hook
from lib.kube.quantity import Quantity
from lib.questions.files import KINDS, quantity_text
from lib.questions.snapshot import Snapshot

MAX_ANSWER = 1024 * 1024
"""The most bytes of an answer. The scores of 10,000 nodes have 300 kB."""

MAX_REASONS, MAX_REASON = 10, 500
"""How many reasons a rejection may have, and the most characters of a reason. The rest is cut off."""

OUT_OF_MEMORY = b'{"memory": true}\n'
"""An answer that needs no memory to be made."""

CALLS = ("pre_filter", "filter", "pre_score", "score", "normalize_score")
"""The methods of a plugin that are called. What else it could do is left to the grader."""


class Setup(msgspec.Struct):
    """The first message. policy: the file's name. objects: those of the cluster, by kind."""

    policy: str
    seed: str
    seconds: int
    most_seconds: int
    mebibytes: int
    objects: dict[str, list[msgspec.Raw]]
    forbidden: list[str]


class Call(msgspec.Struct, omit_defaults=True):
    """A call of one method of one plugin.

    number: the answer has it, too. cycle: the same for all calls with the same CycleState. changed: by node,
    the uids of its pods, where that isn't as in the last call. new: pods that weren't named before. pods: for
    `prepare`, which is no part of a cycle.
    """

    number: int
    plugin: int
    method: str
    cycle: int
    pod: str
    nodes: list[str]
    scores: dict[str, int] = {}
    changed: dict[str, list[str]] = {}
    new: list[msgspec.Raw] = []
    pods: list[msgspec.Raw] = []


class Told(msgspec.Struct, omit_defaults=True):
    """A Status."""

    code: str
    reasons: list[str] = []


class Plugin(msgspec.Struct):
    """A plugin of the policy. methods: all public ones."""

    name: str
    methods: list[str]


class Answer(msgspec.Struct, omit_defaults=True):
    """The answer to a message: the one field that the method gives.

    error: what went wrong, in one line. memory: there was not enough. plugins, weight: the policy is loaded.
    names: of the only nodes that pre_filter allows. statuses: filter's, of each node, in their order.
    """

    number: int = 0
    error: str = ""
    memory: bool = False
    plugins: list[Plugin] | None = None
    weight: int = 1
    status: Told | None = None
    names: list[str] | None = None
    statuses: list[Told | None] | None = None
    scores: dict[str, int] | None = None


def encoded(message: msgspec.Struct) -> bytes:
    """A message as a line."""
    return msgspec.json.encode(message) + b"\n"


def raw(thing: Object) -> msgspec.Raw:
    """An object of the API, as JSON."""
    return msgspec.Raw(msgspec.json.encode(thing, enc_hook=_quantity))


def told(snapshot: Snapshot) -> dict[str, list[msgspec.Raw]]:
    """The objects of a snapshot, by kind."""
    return {kind.__name__: [raw(each) for each in snapshot.of(kind)] for kind in snapshot.objects}


def snapshot_of(objects: dict[str, list[msgspec.Raw]], forbidden: Iterable[str]) -> Snapshot:
    """The snapshot of which these are the objects."""
    snapshot = Snapshot()
    for name, bodies in objects.items():
        snapshot.of(KINDS[name]).extend(read(each, KINDS[name]) for each in bodies)
    snapshot.forbidden.update(KINDS[name] for name in forbidden)
    return snapshot


def read(body: msgspec.Raw, kind: Any) -> Any:
    """An object of the API."""
    return msgspec.json.decode(body, type=kind, dec_hook=decode_hook)


def _quantity(value: object) -> str:
    if isinstance(value, Quantity):
        return quantity_text(value)
    raise NotImplementedError(type(value))
