"""Replaces names in a recording by hashes: the same name by the same hash, so that selectors still select.

Every text is replaced, but for those that are listed here: words, numbers and names of Kubernetes itself.
"""

import re
import secrets
from hashlib import blake2b
from typing import Any

KEPT_FIELDS = frozenset(
    {
        *("kind", "apiVersion", "creationTimestamp", "schedulerName", "preemptionPolicy", "phase"),
        *("operator", "effect", "whenUnsatisfiable", "nodeAffinityPolicy", "nodeTaintsPolicy"),
        *("protocol", "restartPolicy", "action", "accessModes", "volumeBindingMode", "declaredFeatures"),
    }
)
"""Fields with words of Kubernetes' own, and the scheduler's name, by which a profile is found."""

AMOUNTS = frozenset(
    {"requests", "limits", "overhead", "podFixed", "allocatable", "allocatedResources", "capacity"}
)
"""Maps with quantities: neither their keys nor their values are replaced."""

MAPS = frozenset(["annotations", "labels", "matchLabels", "nodeSelector", "selector"])
"""Maps with names on both sides."""

OF_KUBERNETES = re.compile(
    r"([a-z0-9-]+\.)*(kubernetes|k8s)\.io/.*|metadata\.name|0\.0\.0\.0|\d{1,6}|"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"
)
"""Texts that stay: keys and drivers of Kubernetes' own, the name of a field, short numbers, which a selector
may compare, and times, such as that of a namespace's deletion."""


class Hashing:
    """Hashes names with a key of its own, so that nobody finds them by hashing guesses."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def of(self, text: str) -> str:
        """The hash of a name; a valid name itself."""
        if OF_KUBERNETES.fullmatch(text):
            return text
        return f"x{blake2b(text.encode(), key=self._key, digest_size=6).hexdigest()}"

    def body(self, value: Any, field: str = "") -> Any:
        """An object, or a part of one, with all names replaced. field: whose value it is."""
        if isinstance(value, str):
            return value if field in KEPT_FIELDS else self.of(value)
        if isinstance(value, list | tuple):
            return [
                self._owner(each) if field == "ownerReferences" else self.body(each, field) for each in value
            ]
        if not isinstance(value, dict) or field in AMOUNTS:
            return value
        if field in MAPS:
            return {self.of(key): self.body(each) for key, each in value.items()}
        return {key: self.body(each, key) for key, each in value.items()}

    def _owner(self, owner: dict[str, Any]) -> dict[str, Any]:
        """An owner. Its kind is a name, too, if it isn't one of Kubernetes' own."""
        hashed: dict[str, Any] = self.body(owner)
        domain = str(owner.get("apiVersion", "")).rpartition("/")[0]
        if "." in domain and not domain.endswith(".k8s.io"):
            hashed["kind"], hashed["apiVersion"] = self.of(owner["kind"]), self.of(owner["apiVersion"])
        return hashed
