"""The rights that poller needs, and which of them are missing.

scripts/deploy/permissions.yaml has the same as RBAC rules, and says what each is for.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lib.kube.api import Api
from lib.kube.lease import LeaderElection
from lib.kube.objects import COSCHEDULING, KUBERNETES, Object, Value
from lib.kube.paths import STORAGE_API, STORAGE_PATHS
from lib.kube.write import Request

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

AT_ONCE = 8
"""Reviews in flight at the same time, each on its own connection."""


class Right(NamedTuple):
    """A verb on a resource, such as `pods` or `pods/binding`.

    namespace: "" is the whole cluster. name: that of the one object which the right is about; "" is all.
    """

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""


class ReviewStatus(Value, frozen=True):
    """The answer of a review. allowed: None if there is no answer."""

    allowed: bool | None = None


class SelfSubjectAccessReview(Object, tag_field="kind", tag=True):
    """authorization.k8s.io/v1 SelfSubjectAccessReview: whether the caller may do something."""

    spec: dict[str, Any]
    status: ReviewStatus = ReviewStatus()


def needed_rights(
    namespaces: Sequence[str],
    *,
    writes: bool,
    watch: bool,
    preemption: bool,
    volumes: bool,
    devices: bool,
    load: bool = False,
    election: LeaderElection | None = None,
) -> list[Right]:
    """The rights that poller needs, in the served namespaces, or in all.

    writes: false in a dry run. volumes, devices, load: whether a plugin reads these. election: its lease.
    """
    look = ["list", "watch"] if watch else ["list"]
    everywhere = [Right(verb, "nodes") for verb in look]
    if load:
        everywhere.append(Right("list", "nodes", "metrics.k8s.io"))
    if not namespaces:
        everywhere.append(Right("list", "namespaces"))
    inside = [Right(verb, resource) for resource in ("pods", "services") for verb in look]
    inside.append(Right("get", "replicationcontrollers"))
    inside += [Right("get", resource, "apps") for resource in ("replicasets", "statefulsets")]
    inside += [Right("get", "podgroups", group) for group in (COSCHEDULING, KUBERNETES)]
    if preemption:
        inside.append(Right("list", "poddisruptionbudgets", "policy"))
    if writes:
        inside += [Right("get", "pods"), Right("create", "pods/binding"), Right("patch", "pods/status")]
        inside += [Right(verb, "events") for verb in ("create", "patch")]
        if preemption:
            inside.append(Right("delete", "pods"))
    if volumes:
        verbs = [*look, "patch", "get"] if writes else look
        for path in STORAGE_PATHS:
            api, resource = path.rsplit("/", 1)
            is_written = resource == "persistentvolumes"
            group = "storage.k8s.io" if api == STORAGE_API else ""
            everywhere += [Right(verb, resource, group) for verb in (verbs if is_written else look)]
        inside += [Right(verb, "persistentvolumeclaims") for verb in verbs]
    if devices:  # a device that a claim anywhere has must not be given away: so claims are read everywhere
        group = "resource.k8s.io"
        read = ("resourceclaims", "deviceclasses", "resourceslices")
        everywhere += [Right(verb, resource, group) for resource in read for verb in look]
        if writes:
            written = ("get", "create", "patch", "update", "delete")
            inside += [Right(verb, "resourceclaims", group) for verb in written]
            inside.append(Right("patch", "resourceclaims/status", group))
            everywhere.append(Right("patch", "resourceclaims/binding", group))
    rights = everywhere + [right._replace(namespace=each) for each in namespaces or [""] for right in inside]
    if election:
        # RBAC can't restrict `create` to a name: the request has none in its path.
        leases = Right("create", "leases", "coordination.k8s.io", election.resource_namespace)
        rights.append(leases)
        rights += [leases._replace(verb=verb, name=election.resource_name) for verb in ("get", "update")]
        rights.append(Right("create", "events", namespace=election.resource_namespace))
    return rights


def missing_rights(api: Api, rights: Sequence[Right]) -> list[Right]:
    """Those of the rights that poller's user lacks. ApiError when the reviews fail."""
    missing: list[Right] = []
    for start in range(0, len(rights), AT_ONCE):
        asked = rights[start : start + AT_ONCE]
        requests = [Request("POST", REVIEWS, SelfSubjectAccessReview, _review(right)) for right in asked]
        answers = [api.begin(each) for each in requests]
        reviews = [answer.answer() for answer in answers]
        missing += [
            each for each, review in zip(asked, reviews, strict=True) if review.status.allowed is False
        ]
    return missing


def _review(right: Right) -> SelfSubjectAccessReview:
    resource, _, subresource = right.resource.partition("/")
    attributes = {**right._asdict(), "resource": resource, "subresource": subresource}
    return SelfSubjectAccessReview({"resourceAttributes": attributes})


def rules_for(rights: Sequence[Right]) -> Mapping[str, Sequence[str]]:
    """The RBAC rules that grant some rights, by namespace: those of its Role; "" is for a ClusterRole's."""
    verbs: dict[Right, list[str]] = defaultdict(list)
    for right in rights:
        verbs[right._replace(verb="")].append(right.verb)
    resources: dict[tuple[Right, tuple[str, ...]], list[str]] = defaultdict(list)
    for right, its_verbs in verbs.items():
        common = right._replace(resource="")
        resources[common, tuple(dict.fromkeys(its_verbs))].append(right.resource)
    rules: dict[str, list[str]] = defaultdict(list)
    for (right, common_verbs), names in resources.items():
        parts: dict[str, Sequence[str]]
        parts = {"apiGroups": [right.group], "resources": names, "verbs": common_verbs}
        if right.name:
            parts["resourceNames"] = [right.name]
        listed = (f"{part}: {json.dumps([*words])}" for part, words in parts.items())
        rules[right.namespace].append("{" + ", ".join(listed) + "}")
    return rules
