"""Statuses that the simulated controllers write: conditions, counts, and a pod's status."""

from collections.abc import Callable
from typing import Any

from .api import Api
from .clock import timestamp
from .store import Object, Stored


def set_condition(status: Object, condition: Object) -> None:
    """Replace the condition of this type. Its transition time is now, unless its status stays the same."""
    conditions = status.get("conditions") or []
    old = next((one for one in conditions if one["type"] == condition["type"]), None)
    if old and old["status"] == condition["status"]:
        condition = {**condition, "lastTransitionTime": old.get("lastTransitionTime")}
    else:
        condition = {**condition, "lastTransitionTime": timestamp()}
    status["conditions"] = [one for one in conditions if one is not old] + [condition]


def add_condition(status: Object, kind: str, true: bool, reason: str, otherwise: str) -> None:
    said = {"type": kind, "status": str(true), "reason": reason if true else otherwise}
    set_condition(status, said)


def set_status(api: Api, stored: Stored, status: Object) -> None:
    api.update(stored.resource, stored.key, lambda content: {**content, "status": status}, "status")


def is_ready(pod: Stored) -> bool:
    conditions = pod.content["status"].get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def is_over(pod: Stored) -> bool:
    return pod.content["status"]["phase"] in ("Succeeded", "Failed")


def share(value: Any, whole: int, rounded: Callable[[float], int]) -> int:
    """The number that an absolute value or a percentage of the whole stands for."""
    if isinstance(value, str) and value.endswith("%"):
        return int(rounded(int(value[:-1]) * whole / 100))
    return int(value)
