"""Validation, as far as schedulers and their users need it (pkg/apis/*/validation)."""

import difflib
import json
import re
from collections.abc import Iterator
from typing import Any

from lib.kube.pod_validation import Problem, problems_of_labels, problems_of_pod, problems_of_taints

from . import errors
from .errors import FieldError
from .fields import without_unknown
from .resources import (
    CLAIMS,
    DEPLOYMENTS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    REPLICA_SETS,
    RESOURCE_CLAIMS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    VOLUMES,
    Resource,
)
from .selectors import matches_selector

Object = dict[str, Any]

_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_QUANTITY = r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)"
_REQUIRED = {
    CLAIMS: ("spec.accessModes", "spec.resources.requests.storage"),
    VOLUMES: ("spec.accessModes", "spec.capacity.storage"),
    STORAGE_CLASSES: ("provisioner",),
    VOLUME_ATTACHMENTS: ("spec.attacher", "spec.nodeName"),
}
_POD_MAY_CHANGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def decodable(resource: Resource, content: Object) -> Object:
    """The object as its type decodes it, without unknown fields. Errors here come before validation."""
    try:
        content, _ = without_unknown(resource.kind, content)
        if resource == PODS:
            _check_quantities(content.get("spec") or {})
        elif resource in (DEPLOYMENTS, REPLICA_SETS):
            template = (content.get("spec") or {}).get("template") or {}
            _check_quantities(template.get("spec") or {})
        elif resource == CLAIMS:
            _check_resources((content.get("spec") or {}).get("resources") or {})
        elif resource == VOLUMES:
            _check_resources({"limits": (content.get("spec") or {}).get("capacity")})
        elif resource == LEASES:
            for field in ("acquireTime", "renewTime"):
                _check_micro_time((content.get("spec") or {}).get(field))
        elif resource == EVENTS:
            _check_micro_time(content.get("eventTime"))
        return content
    except ValueError as error:
        raise errors.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {error}'
        ) from None


def _check_quantities(spec: Object) -> None:
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        _check_resources(container.get("resources") or {})


def _check_resources(resources: Object) -> None:
    for kind in ("requests", "limits"):
        for quantity in (resources.get(kind) or {}).values():
            if not re.fullmatch(_QUANTITY, str(quantity)):
                raise ValueError(f"quantities must match the regular expression '^{_QUANTITY}$'")


def _check_micro_time(time: str | None) -> None:
    """A MicroTime has six digits after the seconds, as in Go's layout below."""
    if time is None or re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(Z|[+-]\d\d:\d\d)", time):
        return
    seconds = re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", time)
    rest, expected = (time[seconds.end() :], ".000000") if seconds else (time, "2006")
    layout = "2006-01-02T15:04:05.000000Z07:00"
    raise ValueError(f'parsing time "{time}" as "{layout}": cannot parse "{rest}" as "{expected}"')


def _check_labels(resource: Resource, content: Object) -> list[FieldError]:
    """An object's labels, and a node's taints."""
    found = _field_errors(problems_of_labels(content["metadata"].get("labels")))
    if resource == NODES:
        found += _field_errors(problems_of_taints((content.get("spec") or {}).get("taints") or ()))
    return found


def _check_owners(content: Object) -> list[FieldError]:
    """ValidateOwnerReferences: only whether each reference is complete."""
    return [
        errors.invalid_value(f"metadata.ownerReferences.{field}", "", "must not be empty")
        for owner in content["metadata"].get("ownerReferences") or ()
        for field in ("apiVersion", "kind", "name", "uid")
        if not owner.get(field)
    ]


def check_new(resource: Resource, content: Object) -> None:
    name = content["metadata"].get("name", "")
    found = [
        *_check_name(resource, name),
        *_check_labels(resource, content),
        *_check_owners(content),
        *_check(resource, content),
    ]
    if found:
        raise errors.invalid(resource, name, found)


def check_change(resource: Resource, old: Object, new: Object) -> None:
    found = [*_check_labels(resource, new), *_check(resource, new)]
    if resource == PODS:
        found += _check_pod_change(old["spec"], new["spec"])
    if resource in (DEPLOYMENTS, REPLICA_SETS) and old["spec"]["selector"] != new["spec"].get("selector"):
        selector = new["spec"].get("selector")
        found.append(errors.invalid_value("spec.selector", selector, "field is immutable"))
    if found:
        raise errors.invalid(resource, new["metadata"]["name"], found)


def _check_policy(content: Object) -> list[FieldError]:
    """Of a PodGroup: exactly one policy, and of a gang how many pods it needs."""
    field = "spec.schedulingPolicy"
    policy = (content.get("spec") or {}).get("schedulingPolicy") or {}
    known = [name for name in ("basic", "gang") if policy.get(name) is not None]
    if len(known) != 1:
        shown = f"{{{', '.join(known)}}}" if known else ""
        exactly = "exactly one" if known else "one"
        return [errors.invalid_value(field, shown, f"must specify {exactly} of: `basic`, `gang`")]
    if "gang" in known and not policy["gang"].get("minCount"):
        return [errors.required(f"{field}.gang.minCount")]
    return []


MAX_CONSUMERS = 256


def check_status_change(resource: Resource, old: Object, new: Object) -> None:
    """Of a resource claim (pkg/apis/resource/validation, ValidateResourceClaimStatusUpdate)."""
    if resource != RESOURCE_CLAIMS:
        return
    before, now = old.get("status") or {}, new.get("status") or {}
    had, has, consumers = before.get("allocation"), now.get("allocation"), now.get("reservedFor") or []
    found = []
    if len(consumers) > MAX_CONSUMERS:
        why = f"Too many: {len(consumers)}: must have at most {MAX_CONSUMERS} items"
        found.append(FieldError("FieldValueTooMany", "status.reservedFor", why))
    if consumers and not has:
        why = "may not be specified when `allocated` is not set"
        found.append(errors.forbidden_field("status.reservedFor", why))
    if had and has and had != has:
        found.append(errors.invalid_value("status.allocation", has, "field is immutable"))
    if found:
        raise errors.invalid(resource, new["metadata"]["name"], found)


def _check_name(resource: Resource, name: str) -> list[FieldError]:
    field = "metadata.name"
    if not name:
        return [errors.required(field, "name or generateName is required")]
    if resource == NAMESPACES:
        rule, sort, characters, examples = _LABEL, "label", "characters or '-'", "'my-name',  or '123-abc'"
    else:
        rule, sort, characters, examples = _SUBDOMAIN, "subdomain", "characters, '-' or '.'", "'example.com'"
    if re.fullmatch(rule, name):
        return []
    why = (
        f"a lowercase RFC 1123 {sort} must consist of lower case alphanumeric {characters}, "
        "and must start and end with an alphanumeric character "
        f"(e.g. {examples}, regex used for validation is '{rule}')"
    )
    return [errors.invalid_value(field, name, why)]


def _check(resource: Resource, content: Object) -> list[FieldError]:
    if resource == PODS:
        return _check_pod_spec(content["spec"], "spec")
    if resource == EVENTS:
        about = content.get("involvedObject") or {}
        # An event about an object without a namespace is in the namespace default.
        if (about.get("namespace") or "default") != content["metadata"]["namespace"]:
            why = "does not match event.namespace"
            return [errors.invalid_value("involvedObject.namespace", about.get("namespace", ""), why)]
    if resource in (DEPLOYMENTS, REPLICA_SETS):
        return _check_workload(content["spec"])
    if resource == POD_GROUPS:
        return _check_policy(content)
    return [errors.required(field) for field in _REQUIRED.get(resource, ()) if not _value(content, field)]


def _value(content: Any, field: str) -> Any:
    """The value of a field such as spec.nodeName; None if it has none."""
    for name in field.split("."):
        content = (content or {}).get(name)
    return content


def _check_workload(spec: Object) -> list[FieldError]:
    if not spec.get("selector"):
        return [errors.required("spec.selector")]
    labels = spec["template"]["metadata"].get("labels") or {}
    if not matches_selector(spec["selector"], labels):
        why = "`selector` does not match template `labels`"
        return [errors.invalid_value("spec.template.metadata.labels", labels, why)]
    return _check_pod_spec(spec["template"]["spec"], "spec.template.spec")


def _check_pod_spec(spec: Object, field: str) -> list[FieldError]:
    return _field_errors(problems_of_pod(spec, field))


def _field_errors(problems: Iterator[Problem]) -> list[FieldError]:
    try:
        return [FieldError(*problem) for problem in problems]
    except (AttributeError, TypeError, ValueError):
        return []  # a value of another type, or an amount of thousands of digits: a reader is to cope with it


def _check_pod_change(old: Object, new: Object) -> list[FieldError]:
    if _fixed(old) == _fixed(new) and _only_adds(old.get("tolerations"), new.get("tolerations")):
        gates = [
            gate for gate in new.get("schedulingGates") or () if gate not in old.get("schedulingGates", [])
        ]
        if gates:
            why = "only deletion is allowed, but found new scheduling gate '" + gates[0]["name"] + "'"
            return [errors.forbidden_field("spec.schedulingGates", why)]
        return []
    before, after = (json.dumps(spec, indent=1, sort_keys=True).splitlines() for spec in (old, new))
    diff = list(difflib.unified_diff(before, after, lineterm=""))[2:]
    return [errors.forbidden_field("spec", "\n".join([_POD_MAY_CHANGE, *diff, ""]))]


def _fixed(spec: Object) -> Object:
    """The part of a pod's spec that never changes. A gated pod's node selector and affinity may change."""
    free = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    if spec.get("schedulingGates"):
        free |= {"nodeSelector", "affinity"}
    fixed = {name: value for name, value in spec.items() if name not in free}
    for kind in ("containers", "initContainers"):
        if kind in fixed:
            fixed[kind] = [{**container, "image": ""} for container in fixed[kind]]
    return fixed


def _only_adds(old: list[Object] | None, new: list[Object] | None) -> bool:
    return all(toleration in (new or []) for toleration in old or [])
