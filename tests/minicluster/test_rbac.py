"""The embedded API server's RBAC for a user that a request names (`kubectl --as`)."""

import subprocess
from collections.abc import Iterator

import httpx
import pytest
from cluster import http_client

from scripts.servers.embedded import minicluster
from scripts.servers.kubectl import KUBECTL
from scripts.servers.process import ROOT

SA = "system:serviceaccount:team:robot"
ANN = "ann"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def rule(group: str, resources: str, verbs: str, *names: str) -> dict[str, object]:
    return {
        "apiGroups": [group],
        "resources": resources.split(),
        "verbs": verbs.split(),
        "resourceNames": names,
    }


@pytest.fixture(scope="module")
def api() -> Iterator[httpx.Client]:
    """A server where service accounts may read nodes, `robot` may lead, and `ann` do all in a namespace."""
    with (
        minicluster("--nodes", "1") as url,
        http_client(url) as client,
    ):

        def create(path: str, **content: object) -> None:
            answer = client.post(path, json=content)
            assert answer.status_code == 201, answer.text

        def role(kind: str, name: str, *rules: object, to: dict[str, str], namespace: str = "") -> None:
            where = f"{RBAC}/namespaces/{namespace}" if namespace else RBAC
            create(f"{where}/{kind.lower()}s", metadata={"name": name}, rules=rules)
            ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
            bindings = f"{where}/{kind.lower()}bindings"
            create(bindings, metadata={"name": name}, roleRef=ref, subjects=[to])

        create("/api/v1/namespaces", metadata={"name": "team"})
        everyone = {"kind": "Group", "name": "system:serviceaccounts"}
        role("ClusterRole", "nodes", rule("", "nodes", "list watch"), to=everyone)
        robot = {"kind": "ServiceAccount", "name": "robot"}
        role(
            "Role",
            "leads",
            rule("coordination.k8s.io", "leases", "create"),
            rule("coordination.k8s.io", "leases", "get update", "one"),
            to=robot,
            namespace="team",
        )
        ann = {"kind": "User", "name": ANN}
        role("Role", "all", rule("*", "*", "*"), to=ann, namespace="team")
        yield client


@pytest.mark.parametrize(
    ("user", "method", "path", "words"),
    [
        ("", "GET", "/api/v1/pods", ""),
        (SA, "GET", "/api/v1/nodes", ""),
        (SA, "GET", "/version", ""),
        (SA, "GET", "/api/v1/nodes/node1", 'nodes "node1" … get resource "nodes" in API group "" at the'),
        (SA, "DELETE", "/api/v1/nodes", 'nodes … deletecollection resource "nodes" in API group "" at the'),
        (SA, "GET", "/api/v1/pods?watch=1", 'pods … watch resource "pods" in API group "" at the'),
        (
            SA,
            "POST",
            "/api/v1/namespaces/team/pods/web/binding",
            'pods "web" … create resource "pods/binding" in API group "" in the namespace "team"',
        ),
        (SA, "GET", "/apis/coordination.k8s.io/v1/namespaces/team/leases/one", "not found"),
        (
            SA,
            "GET",
            "/apis/coordination.k8s.io/v1/namespaces/team/leases/two",
            'leases.coordination.k8s.io "two" … get resource "leases" in API group "coordination.k8s.io" in',
        ),
        (SA, "GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases/one", "… get resource"),
        (ANN, "GET", "/api/v1/namespaces/team/pods", ""),
        (ANN, "GET", "/api/v1/pods", '… list resource "pods" in API group "" at the cluster scope'),
        ("nobody", "GET", "/api/v1/nodes", '… list resource "nodes"'),
    ],
)
def test_a_user_may_do_what_a_rule_grants(
    api: httpx.Client, user: str, method: str, path: str, words: str
) -> None:
    answer = api.request(method, path, headers={"Impersonate-User": user} if user else {})
    if not words:
        assert answer.status_code == 200, answer.text
        return
    assert answer.status_code == (404 if words == "not found" else 403), answer.text
    assert words.replace("…", f'is forbidden: User "{user}" cannot') in answer.json()["message"]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (["list", "nodes", f"--as={SA}"], "yes"),
        (["create", "pods", "--subresource=binding", f"--as={SA}"], "no"),
        (["create", "pods", "--subresource=binding", "--namespace=team", f"--as={ANN}"], "yes"),
        (["create", "pods", "--subresource=binding"], "yes"),
    ],
)
def test_kubectl_says_who_may_do_what(api: httpx.Client, question: list[str], answer: str) -> None:
    command = [str(KUBECTL), f"--server={api.base_url}", "--kubeconfig=/dev/null", "auth", "can-i", *question]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.stdout == f"{answer}\n", done.stderr
