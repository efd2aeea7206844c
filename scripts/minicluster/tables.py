"""The tables that `kubectl get` prints, as tables.yaml describes them."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from . import cells
from .resources import Resource
from .store import Object, Stored


@dataclass(frozen=True)
class Column:
    """A column, as in tables.yaml."""

    name: str
    says: str
    at: str = ""
    otherwise: Any = ""
    cell: str = ""
    wide: bool = False
    type: str = "string"

    def definition(self) -> Object:
        return {
            "name": self.name,
            "type": self.type,
            "format": "name" if self.name == "Name" else "",
            "description": self.says,
            "priority": int(self.wide),
        }

    def cell_of(self, content: Object) -> Any:
        if self.cell:
            return getattr(cells, self.cell)(content)
        value: Any = content
        for part in self.at.split("."):
            value = (value or {}).get(part)
        return self.otherwise if value in (None, "") else value


@cache
def all_columns() -> dict[str, list[Column]]:
    """By the plural of a resource; "other": those of a resource that isn't listed.

    To read them takes a sixth of the server's start, so that waits until somebody asks for a table.
    """
    found = yaml.safe_load(Path(__file__).with_name("tables.yaml").read_text())
    return {plural: [Column(**each) for each in columns] for plural, columns in found.items()}


def table(
    resource: Resource, items: Iterable[Stored], metadata: Object, include: str, header: bool = True
) -> Object:
    """A table. include: what each row has of its object: None, Metadata or Object."""
    columns = all_columns().get(resource.plural, all_columns()["other"])
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [column.definition() for column in columns] if header else None,
        "rows": [
            {
                "cells": [column.cell_of(stored.content) for column in columns],
                "object": _included(stored, include),
            }
            for stored in items
        ],
    }


def only_metadata(metadata: Object) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}


def _included(stored: Stored, include: str) -> Object | None:
    if include == "None":
        return None
    if include == "Object":
        kind = {"kind": stored.resource.kind, "apiVersion": stored.resource.group_version}
        return {**kind, **stored.content}
    return only_metadata(stored.metadata)
