"""What `kubectl apply` sends for an object that is there: the manifest, and what it has no more.

What others have set stays, such as an autoscaler's replicas. Source: pkg/cmd/apply/patcher.go of kubectl
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from lib.kube.objects import Json

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

MERGE_KEYS = {
    **dict.fromkeys(("containers", "initContainers", "volumes", "env", "imagePullSecrets"), "name"),
    **dict.fromkeys(("resourceClaims", "schedulingGates"), "name"),
    "volumeMounts": "mountPath",
    "topologySpreadConstraints": "topologyKey",
}
"""By list, the key by which a strategic merge finds its items. Other lists are set as a whole, or grow."""

ONE_OF = ("strategy", "updateStrategy")
"""Fields with a type, which says which other fields they have."""


def patch_for(manifest: Json, live: Json, *, strategic: bool) -> Json:
    """The patch that changes an object into what `kubectl apply` of a manifest makes of it.

    strategic: lists are merged by their keys, as of Kubernetes' own kinds; else they are set as a whole.
    """
    annotations = (live.get("metadata") or {}).get("annotations") or {}
    try:
        last = msgspec.json.decode(annotations.get(LAST_APPLIED) or "{}")
    except msgspec.DecodeError:
        last = {}
    found: Json = _patch(manifest, last, strategic=strategic)
    return found


def _patch(new: Any, last: Any, field: str = "", *, strategic: bool) -> Any:
    if isinstance(new, dict):
        before = last if isinstance(last, dict) else {}
        found = {
            **dict.fromkeys(before.keys() - new.keys()),
            **{key: _patch(value, before.get(key), key, strategic=strategic) for key, value in new.items()},
        }
        return {**found, "$retainKeys": [*new]} if strategic and field in ONE_OF else found
    if strategic and isinstance(new, list) and (key := MERGE_KEYS.get(field)):
        items, before = _by_key(new, key), _by_key(last, key)
        gone = [{key: name, "$patch": "delete"} for name in before if name not in items]
        is_one_of = ONE_OF[0] if field == "volumes" else ""
        return [
            *(_patch(item, before.get(name), is_one_of, strategic=True) for name, item in items.items()),
            *gone,
        ]
    return new


def _by_key(items: Any, key: str) -> dict[str, Json]:
    many: Sequence[Any] = items if isinstance(items, list) else ()
    return {str(item.get(key)): item for item in many if isinstance(item, dict)}
