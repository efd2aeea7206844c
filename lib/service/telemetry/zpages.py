"""The pages with which operators look at a component of Kubernetes: /configz, /flagz and /statusz.

Source: k8s.io/component-base/configz; flagz and statusz in k8s.io/component-base/zpages
"""

import json
import platform
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

from lib.service.telemetry.features import KUBERNETES
from lib.service.telemetry.observer import Address
from lib.version import full_version

WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees"
    " and is for debugging purposes only."
)

JSON, TEXT = "application/json", "text/plain; charset=utf-8"

Page = tuple[str, str]
"""A page: its media type, and its text."""


def configz(used: Mapping[str, Any]) -> Page:
    """The configuration that is used."""
    return JSON, json.dumps({"componentconfig": used})


def flagz(options: Mapping[str, object]) -> Page:
    """The value of each option, by name."""
    return TEXT, _page("flagz", [f"{name}={_in_words(options[name])}" for name in sorted(options)])


def statusz(began: datetime, now: datetime, paths: Iterable[str]) -> Page:
    """Which program answers, since when, and at which paths."""
    up = int((now - began).total_seconds())
    lines = [
        "",
        f"Started: {began:%a %b %d %H:%M:%S UTC %Y}",
        f"Up: {up // 3600} hr {up // 60 % 60:02} min {up % 60:02} sec",
        f"Python version: {platform.python_version()}",
        f"Binary version: {full_version()}",
        f"Emulation version: {KUBERNETES.rpartition('.')[0]}",
        f"Paths: {' '.join(sorted(paths))}",
    ]
    return TEXT, _page("statusz", lines)


def _page(name: str, lines: Iterable[str]) -> str:
    return "\n".join(["", f"poller {name}", WARNING, *lines, ""])


def _in_words(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case Address():
            return value.shown
        case list():
            return f"[{','.join(map(str, value))}]"
        case Enum():
            return str(value.value)
        case float():
            return f"{value:g}"
        case str() | int() | Path():
            return str(value)
    raise TypeError(value)
