"""The usage of nodes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lib.scheduling.node_info import NodeInfo, amount_requested, capacity
from lib.scheduling.text import amount


@dataclass(frozen=True)
class Usage:
    """By resource, a node's requested and allocatable amounts; pods are one of the resources."""

    requested: Mapping[str, int]
    capacity: Mapping[str, int]

    @property
    def resources(self) -> list[str]:
        """The resources, besides pods."""
        return [name for name in self.capacity if name != "pods"]

    @property
    def fullest(self) -> float:
        """The share of the resource that is used most."""
        shares = [self.requested[name] / most for name, most in self.capacity.items() if most]
        return max(shares, default=0.0)

    def text_after(self, before: "Usage", name: str) -> str:
        """`1500m → 2 of 4`; "" for a resource that the node doesn't have."""
        most = self.capacity.get(name, 0)
        if not most:
            return ""
        then, now = (amount(name, usage.requested.get(name, 0)) for usage in (before, self))
        return f"{f'{then} → ' if then != now else ''}{now} of {amount(name, most)}"

    def as_json(self) -> dict[str, Any]:
        """Amounts in the scheduler's units: cpu in thousandths."""
        return {
            name: {"requested": self.requested[name], "allocatable": most}
            for name, most in self.capacity.items()
        }


def usage_of(node: NodeInfo, names: Iterable[str] = ("cpu", "memory")) -> Usage:
    """A node's usage of some resources, and of pods."""
    names = [*names]
    return Usage(
        {name: amount_requested(node, name) for name in names} | {"pods": len(node.pods)},
        {name: capacity(node, name) for name in (*names, "pods")},
    )
