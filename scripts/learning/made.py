"""What a page's commands make, as the page's comment `<!-- made: ... -->` says: is it there?

Items are separated by commas: `pod/web`, `pod/web placed`, `node/$NODE1 cordoned`, `node/$NODE2 taint=KEY`,
`node/$NODE1 KEY=VALUE` (a label or an annotation), `file .lab/mine.py`.
"""

from collections.abc import Mapping
from string import Template

from scripts.learning.lab import DEFAULT, Json, Lab, NotYetError, node_of

PATHS = {
    "pod": f"{DEFAULT}/pods",
    "deployment": "/apis/apps/v1/namespaces/default/deployments",
    "persistentvolumeclaim": f"{DEFAULT}/persistentvolumeclaims",
    "poddisruptionbudget": "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    "resourceclaim": "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
    "podgroup": "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups",
    "namespace": "/api/v1/namespaces",
    "node": "/api/v1/nodes",
    "clusterrole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
}
"""The paths of collections, by kind."""

DO_IT = "the commands of this page make that"


def check_made(lab: Lab, items: list[str], environment: Mapping[str, str]) -> None:
    """NotYetError when something isn't there; its text names it."""
    for item in items:
        what, _, condition = Template(item).substitute(environment).partition(" ")
        if what == "file":
            if not (lab.folder / condition.removeprefix(".lab/")).is_file():
                raise NotYetError(f"there is no file {condition}: {DO_IT}")
            continue
        kind, _, name = what.partition("/")
        found = lab.get(f"{PATHS[kind]}/{name}")
        if not found or found["metadata"].get("deletionTimestamp"):
            raise NotYetError(f"there is no {kind} {name}: {DO_IT}")
        if condition and not _holds(found, condition):
            raise NotYetError(f"{kind} {name} is not {_words(condition)}: {DO_IT}")


def _holds(found: Json, condition: str) -> bool:
    key, _, value = condition.partition("=")
    if condition == "placed":
        return bool(node_of(found))
    if condition == "cordoned":
        return bool(found["spec"].get("unschedulable"))
    if key == "taint":
        return any(taint["key"] == value for taint in found["spec"].get("taints") or ())
    metadata = found["metadata"]
    return value in [(metadata.get(field) or {}).get(key) for field in ("labels", "annotations")]


def _words(condition: str) -> str:
    key, _, value = condition.partition("=")
    if not value:
        return condition
    return f"tainted with {value}" if key == "taint" else f"marked with {condition}"
