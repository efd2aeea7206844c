"""Columns of tables: a name, and a function for an object's cell."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .clock import age

Object = dict[str, Any]


@dataclass(frozen=True)
class Column:
    name: str
    cell: Callable[[Object], Any]
    says: str
    wide: bool = False  # shown by `-o wide` only
    type: str = "string"

    def definition(self) -> Object:
        return {
            "name": self.name,
            "type": self.type,
            "format": "name" if self.name == "Name" else "",
            "description": self.says,
            "priority": int(self.wide),
        }


def at(*path: str, default: Any = "") -> Callable[[Object], Any]:
    def cell(content: Object) -> Any:
        value: Any = content
        for part in path:
            value = (value or {}).get(part)
        return default if value in (None, "") else value

    return cell


NAME = Column("Name", at("metadata", "name"), "Its name, unique among its kind in its namespace.")
AGE = Column(
    "Age", lambda content: age(content["metadata"]["creationTimestamp"]), "Time since it was created."
)
