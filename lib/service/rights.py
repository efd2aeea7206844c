"""The rights that poller needs, and which of them are missing.

scripts/deploy/permissions.yaml has the same as RBAC rules, and says what each is for.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from lib.kube.api import Api
from lib.kube.objects import Object, Value

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

STORAGE = "storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"
"""The resources of storage.k8s.io that the scheduling of pods with volumes depends on."""

AT_ONCE = 8
"""Reviews in flight at the same time, each on its own connection."""


class Right(NamedTuple):
    """A verb on a resource, such as `pods` or `pods/binding`; namespace "" is the whole cluster."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""


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
    lease_namespace: str = "",
) -> list[Right]:
    """The rights that poller needs, in the served namespaces, or in all.

    writes: false in a dry run. volumes: whether a plugin reads volumes. lease_namespace: that of the lease,
    if there is leader election.
    """
    look = ["list", "watch"] if watch else ["list"]
    everywhere = [Right(verb, "nodes") for verb in look]
    if not namespaces:
        everywhere.append(Right("list", "namespaces"))
    inside = [Right(verb, resource) for resource in ("pods", "services") for verb in look]
    inside.append(Right("get", "replicationcontrollers"))
    inside += [Right("get", resource, "apps") for resource in ("replicasets", "statefulsets")]
    inside.append(Right("get", "podgroups", "scheduling.x-k8s.io"))
    if preemption:
        inside.append(Right("list", "poddisruptionbudgets", "policy"))
    if writes:
        inside += [Right("get", "pods"), Right("create", "pods/binding"), Right("patch", "pods/status")]
        inside += [Right(verb, "events") for verb in ("list", "create", "patch")]
        if preemption:
            inside.append(Right("delete", "pods"))
    if volumes:
        everywhere += [Right(verb, resource, "storage.k8s.io") for resource in STORAGE for verb in look]
        verbs = [*look, "patch", "get"] if writes else look
        everywhere += [Right(verb, "persistentvolumes") for verb in verbs]
        inside += [Right(verb, "persistentvolumeclaims") for verb in verbs]
    rights = everywhere + [right._replace(namespace=each) for each in namespaces or [""] for right in inside]
    if lease_namespace:
        lease = Right("", "leases", "coordination.k8s.io", lease_namespace)
        rights += [lease._replace(verb=verb) for verb in ("get", "create", "update")]
    return rights


def missing_rights(api: Api, rights: Sequence[Right]) -> list[Right]:
    """Those of the rights that poller's user lacks. ApiError when the reviews fail."""
    missing: list[Right] = []
    for start in range(0, len(rights), AT_ONCE):
        asked = rights[start : start + AT_ONCE]
        answers = [api.begin_create(REVIEWS, _review(right), SelfSubjectAccessReview) for right in asked]
        reviews = [answer.answer() for answer in answers]
        missing += [
            each for each, review in zip(asked, reviews, strict=True) if review.status.allowed is False
        ]
    return missing


def _review(right: Right) -> SelfSubjectAccessReview:
    resource, _, subresource = right.resource.partition("/")
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "namespace": right.namespace,
    }
    return SelfSubjectAccessReview({"resourceAttributes": attributes})


def rules_for(rights: Sequence[Right]) -> Iterator[str]:
    """The RBAC rules that grant some rights, as a Role or ClusterRole has them."""
    verbs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for right in rights:
        of_resource = verbs[right.group, right.resource]
        if right.verb not in of_resource:
            of_resource.append(right.verb)
    resources: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, resource), its_verbs in verbs.items():
        resources[group, tuple(its_verbs)].append(resource)
    for (group, common), names in resources.items():
        yield f"{{apiGroups: {_listed([group])}, resources: {_listed(names)}, verbs: {_listed(common)}}}"


def _listed(words: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{word}"' for word in words) + "]"
