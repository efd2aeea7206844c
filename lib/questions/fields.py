"""The fields that manifests of workloads can have. A misspelt one is an error, as the API server says it.

fields.txt has a line for each type: its fields; `field:Type` goes on into that type, `field:[Type]` into each
item. It is made of the API server's OpenAPI documents, and a test compares it with those of the real server.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from lib.kube.objects import Json

FILE = Path(__file__).with_name("fields.txt")


@cache
def types() -> dict[str, dict[str, str]]:
    """By type, its fields with the type of their content; "" for any content."""
    found = {}
    for entry in FILE.read_text().replace("\n    ", " ").splitlines():
        name, _, fields = entry.partition(": ")
        found[name] = {field: kind for field, _, kind in (each.partition(":") for each in fields.split())}
    return found


def misspelt(manifest: Json) -> list[str]:
    """A line for each field that the manifest's kind doesn't have; none for kinds that aren't listed.

    A kind in letters of the wrong size is misspelt, too.
    """
    kind = str(manifest.get("kind"))
    if kind not in types():
        meant = [each for each in types() if each.lower() == kind.lower() and "metadata" in types()[each]]
        return [f"there is no kind {kind} (did you mean {meant[0]}?)"] if meant else []
    return [*_misspelt(manifest, kind, "")]


def _misspelt(value: object, kind: str, path: str) -> Iterator[str]:
    """The same for a part of a manifest. What has the wrong type is left to who reads it."""
    if kind.startswith("["):
        for i, each in enumerate(value if isinstance(value, list) else ()):
            yield from _misspelt(each, kind.strip("[]"), f"{path.rstrip('.')}[{i}].")
    elif isinstance(value, dict) and kind:
        fields = types()[kind]
        for name, inner in value.items():
            if name in fields:
                yield from _misspelt(inner, fields[name], f"{path}{name}.")
            else:
                yield f'unknown field "{path}{name}"{_meant(str(name), fields, path)}'


def _meant(name: str, fields: dict[str, str], path: str) -> str:
    """The field that is probably meant: one of nearly this name, or one of this name a level higher."""
    by_lower = {each.lower(): each for each in fields}
    if near := get_close_matches(name.lower(), by_lower, 1):
        return f" (did you mean {by_lower[near[0]]}?)"
    return " (is it indented too far?)" if path == "metadata." and name in ("spec", "data") else ""
