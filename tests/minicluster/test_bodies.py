"""Which forms of bodies are accepted, as by a real server; and what kubectl sends of RBAC."""

import json

import pytest
from cluster import Cluster

ON_BOTH_SERVERS = True

PODS = "/api/v1/namespaces/default/pods"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.mark.parametrize(
    ("media_type", "code"),
    [
        ("", 201),
        ("application/json", 201),
        ("application/json; charset=utf-8", 201),
        ("application/yaml", 201),
        ("application/x-www-form-urlencoded", 415),  # what curl --data says
        ("text/plain", 415),
    ],
)
def test_a_bindings_content_type(cluster: Cluster, media_type: str, code: int) -> None:
    cluster.add_node("here")
    cluster.add_pod("web")
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"}, "target": {"kind": "Node"}}
    binding["target"] = {"apiVersion": "v1", "kind": "Node", "name": "here"}
    headers = {"Content-Type": media_type} if media_type else {}
    answer = cluster.api.post(f"{PODS}/web/binding", content=json.dumps(binding), headers=headers)
    assert answer.status_code == code, answer.text
    if code == 415:
        assert "unknown format - accepted media types include: application/json" in answer.json()["message"]


def test_who_has_named_the_node_at_the_creation(cluster: Cluster) -> None:
    cluster.add_node("here")
    cluster.add_pod("static", nodeName="here")
    cluster.add_pod("bound")
    binding = {"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "here"}}
    cluster.post(f"{PODS}/bound/binding", {"apiVersion": "v1", "kind": "Binding", **binding})

    def noted(name: str) -> list[bool]:
        found = cluster.api.get(f"{PODS}/{name}").json()["metadata"]["managedFields"]
        return ["f:nodeName" in each["fieldsV1"].get("f:spec", {}) for each in found]

    assert (any(noted("static")), any(noted("bound"))) == (True, False)


def test_kubectl_creates_roles_and_their_bindings(cluster: Cluster) -> None:
    create = "create", "--clusterrole=reads"
    cluster.kubectl("create", "clusterrole", "reads", "--verb=get,list", "--resource=pods,deployments.apps")
    cluster.kubectl(*create, "clusterrolebinding", "reads", "--serviceaccount=team:ann")
    cluster.kubectl(*create, "rolebinding", "reads", "--user=ann", "--namespace=default")
    rules = cluster.api.get(f"{RBAC}/clusterroles/reads").json()["rules"]
    assert [rule["apiGroups"] for rule in rules] == [[""], ["apps"]]
    assert [rule["resources"] for rule in rules] == [["pods"], ["deployments"]]
    binding = cluster.api.get(f"{RBAC}/clusterrolebindings/reads").json()
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "ann", "namespace": "team"}]
    assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == ("ClusterRole", "reads")
    (user,) = cluster.api.get(f"{RBAC}/namespaces/default/rolebindings/reads").json()["subjects"]
    assert (user["kind"], user["name"]) == ("User", "ann")
    for each in ("clusterrole", "clusterrolebinding", "rolebinding"):
        cluster.kubectl("delete", each, "reads")
