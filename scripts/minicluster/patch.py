"""The three kinds of patch: JSON patch (RFC 6902), merge patch (RFC 7396), strategic merge patch.

The last is Kubernetes' own: lists of objects are merged by a key, and directives express what a merge can't
(k8s.io/apimachinery/pkg/util/strategicpatch; the keys are those named patchMergeKey in the API's types).
"""

import json
from collections.abc import Callable
from typing import Any

import jsonpatch
from jsonpointer import JsonPointerException

from .errors import ApiError, bad_request, unknown_format

Object = dict[str, Any]

# The merge key of a list, by its field's name; `ports` have one in containers, another in services.
MERGE_KEYS: dict[str, tuple[str, ...]] = {
    "conditions": ("type",),
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "ports": ("containerPort", "port"),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey",),
    "schedulingGates": ("name",),
    "resourceClaims": ("name",),
    "resourceClaimStatuses": ("name",),
    "reservedFor": ("uid",),
    "addresses": ("type",),
    "podIPs": ("ip",),
    "hostIPs": ("ip",),
    "ownerReferences": ("uid",),
    "secrets": ("name",),
}
# Lists of plain values, which are merged as sets.
SETS = {"finalizers", "podCIDRs"}


def apply_patch(content_type: str, target: Object, body: bytes) -> Object:
    """The patched object; `target` isn't changed."""
    try:
        patch = json.loads(body)
    except ValueError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    return PATCHES[content_type](target, patch)


def check_patch_type(content_type: str) -> None:
    """ApiError for server-side apply (application/apply-patch+yaml), which isn't supported."""
    if content_type not in PATCHES:
        raise unknown_format(PATCHES)


def _object(value: Any) -> Object:
    if not isinstance(value, dict):
        raise bad_request("a patch of this type must be a JSON object")
    return value


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def strategic_merge(target: Object, patch: Object) -> Object:
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    merged = dict(target)
    if "$retainKeys" in patch:
        merged = {key: value for key, value in merged.items() if key in patch["$retainKeys"]}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.partition("/")[2]
            merged[field] = [item for item in merged.get(field) or () if item not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            current = merged.get(key)
            merged[key] = strategic_merge(current if isinstance(current, dict) else {}, value)
        elif isinstance(value, list):
            merged[key] = _merge_list(key, merged.get(key) or [], value, patch)
        else:
            merged[key] = value
    for key, order in patch.items():
        if key.startswith("$setElementOrder/"):
            field = key.partition("/")[2]
            merged[field] = _ordered(field, merged.get(field) or [], order)
    return merged


def _merge_list(field: str, current: list[Any], patch: list[Any], whole: Object) -> list[Any]:
    if field in SETS:
        return current + [item for item in patch if item not in current]
    key = _merge_key(field, current + patch)
    if not key or any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if not (isinstance(item, dict) and item.get("$patch") == "replace")]
    merged = list(current)
    fresh = []
    for item in patch:
        at = next((i for i, old in enumerate(merged) if old.get(key) == item.get(key)), None)
        if item.get("$patch") == "delete":
            merged = [old for old in merged if old.get(key) != item.get(key)]
        elif at is None:
            fresh.append(strategic_merge({}, item))
        else:
            merged[at] = strategic_merge(merged[at], item)
    # If the patch gives no order, added items come before existing ones.
    return merged + fresh if f"$setElementOrder/{field}" in whole else fresh + merged


def _merge_key(field: str, items: list[Any]) -> str | None:
    """The key that all items have and by which they are merged; None: the list is replaced as a whole."""
    if not items or not all(isinstance(item, dict) for item in items):
        return None
    named = [item for item in items if item.get("$patch") != "replace"]
    return next((key for key in MERGE_KEYS.get(field, ()) if all(key in item for item in named)), None)


def _ordered(field: str, items: list[Any], order: list[Any]) -> list[Any]:
    """The items that `order` names, sorted by it; the other items come before them."""
    key = _merge_key(field, items)
    ranks = {json.dumps(one.get(key) if isinstance(one, dict) else one): at for at, one in enumerate(order)}

    def rank(item: Any) -> int:
        return ranks.get(json.dumps(item.get(key) if key else item), -1)

    return sorted(items, key=rank)


def json_patch(target: Object, operations: Any) -> Object:
    try:
        return _object(jsonpatch.apply_patch(target, operations))
    except (jsonpatch.JsonPatchException, JsonPointerException) as error:
        message = f"the server rejected our request due to an error in our request: {error}"
        raise ApiError(422, "Invalid", message) from None


PATCHES: dict[str, Callable[[Object, Any], Object]] = {
    "application/json-patch+json": json_patch,
    "application/merge-patch+json": lambda target, patch: _object(merge_patch(target, patch)),
    "application/strategic-merge-patch+json": lambda target, patch: strategic_merge(target, _object(patch)),
}
