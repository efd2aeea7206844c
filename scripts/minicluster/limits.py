"""LimitRanger and ResourceQuota: which pods a namespace has room for.

Of quotas, the number of pods counts; of limit ranges, the defaults and the largest limits of containers.
"""

from decimal import Decimal
from typing import Any

from . import errors
from .resources import BY_PATH, PODS
from .store import Store

Object = dict[str, Any]

LIMIT_RANGES, QUOTAS = BY_PATH["v1", "limitranges"], BY_PATH["v1", "resourcequotas"]


def set_defaults(store: Store, namespace: str, spec: Object) -> None:
    """Give containers the requests and limits of the namespace, where they name none."""
    for item in _items(store, namespace):
        for container in spec.get("containers") or ():
            resources = container["resources"] = dict(container.get("resources") or {})
            for field, default in (("requests", "defaultRequest"), ("limits", "default")):
                defaults = item.get(default) or (item.get("default") if field == "requests" else None) or {}
                own = (resources.get("limits") or {}) if field == "requests" else {}
                if amounts := {**defaults, **own, **(resources.get(field) or {})}:
                    resources[field] = amounts


def check(store: Store, namespace: str, pod: str, spec: Object) -> None:
    """Refuse a pod whose containers may use too much, or one pod too many."""
    for item in _items(store, namespace):
        for container in spec.get("containers") or ():
            limits = (container.get("resources") or {}).get("limits") or {}
            for name, most in (item.get("max") or {}).items():
                beyond = f"maximum {name} usage per Container is {most}"
                if name not in limits:
                    raise errors.forbidden(PODS, pod, f"{beyond}. No limit is specified")
                if _amount(limits[name]) > _amount(most):
                    raise errors.forbidden(PODS, pod, f"{beyond}, but limit is {limits[name]}")
    for quota in store.every(QUOTAS, namespace):
        most = ((quota.content.get("spec") or {}).get("hard") or {}).get("pods")
        used = len(store.every(PODS, namespace))
        if most is not None and used >= int(most):
            asked = f"requested: pods=1, used: pods={used}, limited: pods={most}"
            raise errors.forbidden(PODS, pod, f"exceeded quota: {quota.key[1]}, {asked}")


def _amount(quantity: object) -> Decimal:
    """A quantity as a number. Its form was checked before."""
    text = str(quantity)
    number = text.rstrip("EinumkKMGTP")
    powers = {**{unit: 3 * i for i, unit in enumerate("kMGTPE", 1)}, "": 0, "m": -3, "u": -6, "n": -9}
    suffix = text[len(number) :]
    if suffix.endswith("i"):
        return Decimal(number) * Decimal(1024) ** ("KMGTPE".index(suffix[0]) + 1)
    return Decimal(number) * Decimal(10) ** powers[suffix]


def _items(store: Store, namespace: str) -> list[Object]:
    """The limits of containers in a namespace."""
    ranges = store.every(LIMIT_RANGES, namespace)
    items = [item for each in ranges for item in (each.content.get("spec") or {}).get("limits") or ()]
    return [each for each in items if each.get("type") == "Container"]
