"""The fields that manifests of workloads can have. A wrong one is an error, as the API server says it."""

from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from reprlib import repr as short

from lib.kube.objects import Json

FIELDS = Path(__file__).with_name("fields.txt")
"""It has a line for each type: its fields, with the type of their content. A field without one is text.

`[Type]` is a list, `{Type}` has any keys; a manifest's kind has its apiVersion before it. The file is made
of the API server's OpenAPI documents, and a test compares it with those of the real server.
"""

_PLAIN: dict[str, tuple[tuple[type, ...], str]] = {
    "": ((str,), "text"),
    "int": ((int,), "a whole number"),
    "bool": ((bool,), "true or false"),
}
"""By type of a field without parts: what it is in Python, and in words."""


@cache
def field_types() -> dict[str, dict[str, str]]:
    """By type, its fields with the type of their content."""
    found = {}
    for entry in FIELDS.read_text().replace("\n    ", " ").splitlines():
        name, _, fields = entry.partition(": ")
        found[name] = {field: kind for field, _, kind in (field.partition(":") for field in fields.split())}
    return found


def wrong_fields(manifest: Json) -> list[str]:
    """A line for each field that the manifest's kind doesn't have, or whose content is of another type.

    None for kinds that aren't listed. A kind in letters of the wrong size is wrong, too.
    """
    version, kind = manifest.get("apiVersion"), str(manifest.get("kind"))
    kinds = {name.rpartition("/")[2]: name for name in field_types() if "/" in name}
    if kind in kinds and version in (None, kinds[kind].rpartition("/")[0]):
        return [*_wrong(manifest, kinds[kind], "")]
    meant = [name for known, name in kinds.items() if known.lower() == kind.lower() and known != kind]
    if meant and version in (None, meant[0].rpartition("/")[0]):
        return [f"there is no kind {kind} (did you mean {meant[0].rpartition('/')[2]}?)"]
    return []


def _wrong(value: object, kind: str, path: str) -> Iterator[str]:
    """The same for a part of a manifest."""
    if value is None or kind == "any":
        return
    if kind in _PLAIN:
        types, wanted = _PLAIN[kind]
        if not isinstance(value, types) or (isinstance(value, bool) and kind == "int"):
            quotes = "; put it into quotes" if kind == "" and isinstance(value, bool | int | float) else ""
            yield f"{path}: {_shown(value)} stands where {wanted} is wanted{quotes}"
    elif kind.startswith("["):
        if isinstance(value, list):
            for i, item in enumerate(value):
                yield from _wrong(item, kind[1:-1], f"{path}[{i}]")
        else:
            yield f"{path}: {_shown(value)} stands where a list is wanted"
    elif not isinstance(value, dict):
        yield f"{path}: {_shown(value)} stands where an object is wanted"
    else:
        fields = dict.fromkeys(value, kind[1:-1]) if kind.startswith("{") else field_types()[kind]
        for name, inner in value.items():
            inside = f"{path}.{name}" if path else name
            if name in fields:
                yield from _wrong(inner, fields[name], inside)
            else:
                yield f'unknown field "{inside}"{_meant(name, fields, path)}'


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else short(value)


def _meant(name: str, fields: dict[str, str], path: str) -> str:
    """The field that is probably meant: one of nearly this name, or one of this name a level higher."""
    by_lower = {field.lower(): field for field in fields}
    if near := get_close_matches(name.lower(), by_lower, 1):
        return f" (did you mean {by_lower[near[0]]}?)"
    return " (is it indented too far?)" if path == "metadata" and name in ("spec", "data") else ""
