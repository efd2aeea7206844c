"""What users may do, by RBAC (pkg/registry/rbac/validation, plugin/pkg/auth/authorizer/rbac).

There is no login: a request is the administrator's, who may do everything, unless it names another user
(`kubectl --as`, the header Impersonate-User).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import ApiError, details_of
from .resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, Resource
from .store import Store

Object = dict[str, Any]


@dataclass(frozen=True)
class User:
    """The user who makes a request, and the user's groups."""

    name: str
    groups: frozenset[str]


@dataclass(frozen=True)
class Attributes:
    """What a request wants: `resource` is `pods`, or `pods/binding` with a subresource."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str


def user_of(headers: Mapping[str, str], groups: list[str]) -> User | None:
    """The user that a request names; None: it is the administrator's own. groups: those that it names."""
    name = headers.get("impersonate-user")
    if not name:
        return None
    found = {"system:authenticated", *groups}
    if name.startswith("system:serviceaccount:"):
        namespace = name.split(":")[2]
        found |= {"system:serviceaccounts", f"system:serviceaccounts:{namespace}"}
    return User(name, frozenset(found))


def check(store: Store, user: User | None, wanted: Attributes, resource: Resource) -> None:
    """ApiError 403 in the real server's words when the user may not do this."""
    if allowed(store, user, wanted):
        return
    assert user is not None
    scope = f'in the namespace "{wanted.namespace}"' if wanted.namespace else "at the cluster scope"
    named = f' "{wanted.name}"' if wanted.name else ""
    raise ApiError(
        403,
        "Forbidden",
        f'{resource.qualified}{named} is forbidden: User "{user.name}" cannot {wanted.verb} resource '
        f'"{wanted.resource}" in API group "{wanted.group}" {scope}',
        details_of(resource, wanted.name),
    )


def allowed(store: Store, user: User | None, wanted: Attributes) -> bool:
    """Whether one of the user's rules allows it."""
    if user is None or "system:masters" in user.groups:
        return True
    return any(_covers(rule, wanted) for rule in _rules_of(store, user, wanted.namespace))


def _rules_of(store: Store, user: User, namespace: str) -> Iterator[Object]:
    """The rules for a user in a namespace; without a namespace, those for the whole cluster."""
    bindings = list(store.every(CLUSTER_ROLE_BINDINGS))
    bindings += store.every(ROLE_BINDINGS, namespace) if namespace else []
    for binding in bindings:
        where = binding.metadata.get("namespace", "")
        if any(_is(subject, user, where) for subject in binding.content.get("subjects") or ()):
            kind, name = binding.content["roleRef"]["kind"], binding.content["roleRef"]["name"]
            role = store.get(*((ROLES, (where, name)) if kind == "Role" else (CLUSTER_ROLES, ("", name))))
            if role:
                yield from role.content.get("rules") or ()


def _is(subject: Object, user: User, namespace: str) -> bool:
    if subject["kind"] == "Group":
        return subject["name"] in user.groups
    if subject["kind"] == "User":
        return bool(subject["name"] == user.name)
    return user.name == f"system:serviceaccount:{subject.get('namespace', namespace)}:{subject['name']}"


def _covers(rule: Object, wanted: Attributes) -> bool:
    names = rule.get("resourceNames") or ()
    return (
        bool({"*", wanted.verb} & set(rule.get("verbs") or ()))
        and bool({"*", wanted.group} & set(rule.get("apiGroups") or ()))
        and bool({"*", wanted.resource} & set(rule.get("resources") or ()))
        and (not names or wanted.name in names)
    )
