"""The rights that poller needs, and which of them are missing.

scripts/deploy/permissions.yaml has the same as RBAC rules, and says what each is for.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from lib.kube.api import Api
from lib.kube.election import LeaderElection
from lib.kube.objects import Object, Value
from lib.kube.resources import NAMESPACES, Need
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
    needs: Iterable[Need],
    *,
    writes: bool,
    watch: bool,
    election: LeaderElection | None = None,
) -> list[Right]:
    """The rights to what poller needs, in the served namespaces, or in all.

    writes: false in a dry run. election: its lease.
    """
    everywhere, inside = list[Right](), list[Right]()
    for resource in chain.from_iterable((*need.resources, *need.written) for need in needs):
        reads = [verb for verb in resource.reads if watch or verb != "watch"]
        verbs = [*reads, *(resource.writes if writes else ())]
        where = inside if resource.inside else everywhere
        where.extend(Right(verb, resource.plural, resource.group) for verb in verbs)
    if namespaces:  # what labels they have is known without this right
        everywhere.remove(Right("list", NAMESPACES.plural))
    rights = everywhere + [
        right._replace(namespace=namespace) for namespace in namespaces or [""] for right in inside
    ]
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
        answers = [api.begin(request) for request in requests]
        reviews = [answer.answer() for answer in answers]
        missing += [
            right for right, review in zip(asked, reviews, strict=True) if review.status.allowed is False
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
