"""Types of nodes that can be had: what one has, and its price."""

import re
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import partial

from lib.kube.objects import HOSTNAME, ZONE, Node, ObjectMeta, Pod, Taint, is_object_name, with_parts
from lib.kube.quantity import Quantity
from lib.kube.storage import CSINode, CSINodeDriver, CSINodeSpec, VolumeNodeResources
from lib.questions.errors import CommandLineError
from lib.questions.manifests import convert
from lib.questions.snapshot import Snapshot
from lib.questions.what_if import NewNode, copies, new_names, parse_taint, shapes

FORM = "NAME=cpu:4,memory:16Gi,price:0.19"

PODS = 110
"""A kubelet runs so many pods, unless it is told otherwise."""

RESOURCES = ("cpu", "memory", "pods", "ephemeral-storage")
"""Kubernetes' own resources, but for huge pages."""

SQUEEZED = ("cpu", "memory")
"""The resources that --max-utilization is about."""

MOST_NODES = 10_000
"""The most nodes that are tried."""


@dataclass(frozen=True)
class NodeType:
    """A type of node. most: how many can be had. kinds: so many of them differ, as their zones do.

    make: makes so many of them, with the pods that belong to each, as far as these are known.
    """

    name: str
    price: Decimal
    most: int
    make: Callable[[int], Sequence[NewNode]]
    kinds: int = 1


@dataclass
class _Told:
    """What an option says of a type."""

    amounts: dict[str, str] = field(default_factory=lambda: {"pods": str(PODS)})
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[Taint] = field(default_factory=list)
    volumes: dict[str, int] = field(default_factory=dict)
    zones: tuple[str, ...] = ()
    price: Decimal | None = None
    most: int = MOST_NODES


def node_types(texts: Iterable[str], utilization: float, taken: Container[str] = ()) -> list[NodeType]:
    """The types of --node-type options. utilization: which share of cpu and memory pods may request.

    taken: names of nodes that are there already; new ones get others. QuestionError says what is wrong with a
    type.
    """
    told = {}
    for text in texts:
        name, equals, rest = text.partition("=")
        if not equals or not is_object_name(name):
            raise CommandLineError(f"--node-type {text}: is not of the form {FORM}")
        if name in told:
            raise CommandLineError(f"--node-type {name}: is there twice")
        told[name] = _told(rest, f"--node-type {name}")
    without = [name for name, told_type in told.items() if told_type.price is None]
    if without and len(without) < len(told):
        raise CommandLineError(
            f"--node-type {without[0]}: price is missing; either all types have one or none"
        )
    return [
        NodeType(
            name,
            told_type.price or Decimal(1),
            told_type.most,
            partial(_made, name, told_type, utilization, taken),
            kinds=len(told_type.zones) or 1,
        )
        for name, told_type in told.items()
    ]


def like_nodes(snapshot: Snapshot, utilization: float) -> list[NodeType]:
    """A type for each shape of a cluster's own nodes, all of one price."""
    found = []
    for like in shapes(snapshot.of(Node)):

        def make(number: int, like: Node = like) -> Sequence[NewNode]:
            made = copies(like, snapshot.of(Pod), number, snapshot.of(Node), snapshot.of(CSINode))
            return [_squeezed(new_node, utilization) for new_node in made]

        found.append(NodeType(f"like {like.metadata.name}", Decimal(1), MOST_NODES, make))
    return found


def _told(text: str, where: str) -> _Told:
    told = _Told()
    for part in text.split(","):
        key, _, value = part.partition(":")
        if not value:
            raise CommandLineError(f"{where}: {part!r} is not of the form KEY:VALUE, such as cpu:4")
        if key == "price":
            told.price = _price(value, where)
        elif key == "most":
            told.most = _whole(value, f"{where}: most")
        elif key == "zones":
            told.zones = tuple(value.split("/"))
        elif key == "label":
            name, _, told.labels[name] = value.partition("=")
        elif key == "taint":
            told.taints.append(parse_taint(value, f"{where}: taint {value}"))
        elif key.startswith("volumes/"):
            told.volumes[key.removeprefix("volumes/")] = _whole(value, f"{where}: {key}")
        else:
            if key not in RESOURCES and "/" not in key and not key.startswith("hugepages-"):
                raise CommandLineError(f"{where}: there is no resource {key}; an extended one has a / in it")
            told.amounts[key] = _amount(value, f"{where}: {key}")
    if missing := [name for name in SQUEEZED if name not in told.amounts]:
        raise CommandLineError(f"{where}: {missing[0]} is missing: {FORM}")
    return told


def _amount(text: str, where: str) -> str:
    try:
        if Quantity.parse(text) < 0:
            raise ValueError
    except ValueError:
        raise CommandLineError(f"{where}: {text!r} is not an amount, such as 4, 500m or 16Gi") from None
    return text


def _price(text: str, where: str) -> Decimal:
    try:
        price = Decimal(text)
    except InvalidOperation:
        price = Decimal(0)
    if not (price.is_finite() and 0 < price < 10**9):
        raise CommandLineError(f"{where}: price: {text!r} is not a price, such as 0.19")
    return price


def _whole(text: str, where: str) -> int:
    if not re.fullmatch(r"\d{1,6}", text, re.ASCII):
        raise CommandLineError(f"{where}: {text!r} is not a whole number")
    return int(text)


def _made(
    type_name: str, told: _Told, utilization: float, taken: Container[str], number: int
) -> Sequence[NewNode]:
    names = new_names(type_name, number, taken)
    return [_squeezed(_node(type_name, name, i, told), utilization) for i, name in enumerate(names)]


def _node(type_name: str, name: str, index: int, told: _Told) -> NewNode:
    labels = {
        HOSTNAME: name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": type_name,
        **({ZONE: told.zones[index % len(told.zones)]} if told.zones else {}),
        **told.labels,
    }
    body = {
        "metadata": {"name": name, "uid": f"uid-of-{name}", "labels": labels},
        "status": {"allocatable": told.amounts},
    }
    node = convert(body, Node, f"--node-type {type_name}")
    node = with_parts(node, spec={"taints": told.taints})
    drivers = [CSINodeDriver(driver, VolumeNodeResources(most)) for driver, most in told.volumes.items()]
    csi_node = CSINode(ObjectMeta(name=name), CSINodeSpec(drivers)) if drivers else None
    return NewNode(node, (), csi_node)


def _squeezed(new: NewNode, utilization: float) -> NewNode:
    """The node with so much less that pods can't use more than a share of it."""
    there = new.node.status.allocatable
    less = {
        name: Quantity(amount * utilization) if name in SQUEEZED else amount for name, amount in there.items()
    }
    return NewNode(with_parts(new.node, status={"allocatable": less}), new.pods, new.csi_node)
