"""The Helm chart."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster import Cluster
from helm import helm
from test_deploy import (
    DEPLOY,
    arguments_of,
    kubectl_container,
    manifests,
    missing,
    on_the_real_one,
    with_recorder,
)
from test_packaging import run

from lib import __version__
from scripts.servers.process import ROOT

Json = dict[str, Any]

CHART = DEPLOY / "chart"
CONTAINERS = [{"name": "c", "image": "i"}]


def template(
    values: Json | None = None, release: str = "poller", namespace: str = "poller"
) -> "subprocess.CompletedProcess[str]":
    """What `helm template` says."""
    options = [f"--namespace={namespace}", "--kube-version=1.36.0", "--values=-"]
    return run([helm(), "template", release, CHART, *options], input=json.dumps(values or {}))


def rendered(values: Json | None = None, release: str = "poller", namespace: str = "poller") -> list[Json]:
    """The objects that helm would create."""
    done = template(values, release, namespace)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def by_name(objects: list[Json]) -> dict[tuple[str, str, str], Json]:
    return {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each
        for each in objects
    }


def plain(each: Json) -> Json:
    """An object without what helm's conventions add."""
    metadata = dict(each["metadata"])
    kept = {"app.kubernetes.io/name"} if each["kind"] == "Service" else set()
    labels = {
        key: value
        for key, value in metadata.pop("labels", {}).items()
        if key in kept or not key.startswith(("app.kubernetes.io/", "helm.sh/"))
    }
    notes = {key: value for key, value in metadata.pop("annotations", {}).items() if key != "poller/places"}
    more = {name: value for name, value in (("labels", labels), ("annotations", notes)) if value}
    return {**each, "metadata": metadata | more}


def test_the_chart_has_the_objects_of_the_kustomization() -> None:
    """`helm install --create-namespace` makes the namespace; what `helm test` runs is the chart's own."""
    wanted = by_name(manifests())
    del wanted["Namespace", "", "poller"]
    found = by_name([plain(each) for each in rendered()])
    hook = found.pop(("Pod", "poller", "poller-leads"))
    assert hook["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert found == {name: plain(each) for name, each in wanted.items()}


def test_all_objects_have_the_labels_of_helms_conventions() -> None:
    values = {"metrics": {"service": True, "serviceMonitor": True, "rules": True, "labels": {"team": "a"}}}
    for each in rendered({**values, "namespaces": ["team-a"], "quota": True, "policies": {"a.py": ""}}):
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == "poller", each["kind"]
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert labels["helm.sh/chart"] == f"poller-{__version__}"


def test_poller_s_own_pods_can_be_labelled_and_spread() -> None:
    spread = [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
    more: Json = {
        "podLabels": {"team": "a"},
        "podAnnotations": {"b": "c"},
        "topologySpreadConstraints": spread,
    }
    template = by_name(rendered(more))["Deployment", "poller", "poller"]["spec"]["template"]
    assert template["metadata"] == {
        "labels": {"app.kubernetes.io/name": "poller", "team": "a"},
        "annotations": {"b": "c"},
    }
    assert template["spec"]["topologySpreadConstraints"] == spread


def test_the_quota_keeps_no_pod_of_others_out() -> None:
    """In kube-system it would be coredns: 403, exceeded quota."""

    def has_one(values: Json, namespace: str) -> bool:
        return any(each["kind"] == "ResourceQuota" for each in rendered(values, namespace=namespace))

    assert has_one({}, "poller")
    assert not has_one({}, "kube-system")
    assert not has_one({}, "team")
    assert has_one({"quota": True}, "team")
    assert not has_one({"quota": False}, "poller")


def test_without_preemption_the_chart_gives_no_right_to_delete_pods() -> None:
    found = by_name(rendered({"preemption": False}))
    rules = found["ClusterRole", "", "poller"]["rules"]
    assert not any("pods" in rule["resources"] and "delete" in rule["verbs"] for rule in rules)
    (container,) = found["Deployment", "poller", "poller"]["spec"]["template"]["spec"]["containers"]
    assert container["args"][-1] == "--no-preemption"


def test_the_chart_has_the_recorder_of_the_kustomization(tmp_path: Path) -> None:
    pod = by_name(rendered({"record": "24h"}))["Deployment", "poller", "poller"]["spec"]["template"]["spec"]
    (recorder,) = [each for each in pod["containers"] if each["name"] == "recorder"]
    other = with_recorder(tmp_path)
    image = pod["containers"][0]["image"]
    assert recorder == {**other["containers"][-1], "image": image}
    assert {"name": "recordings", "emptyDir": {"sizeLimit": "1Gi"}} in pod["volumes"]


def test_with_namespaces_there_are_no_rights_in_others() -> None:
    found = by_name(rendered({"namespaces": ["team-a", "team-b"]}))
    everywhere = {name for rule in found["ClusterRole", "", "poller"]["rules"] for name in rule["resources"]}
    assert everywhere & {"pods", "pods/binding", "events", "persistentvolumeclaims", "services"} == set()
    assert {"nodes", "persistentvolumes", "csinodes", "resourceslices"} <= everywhere
    assert {"resourceclaims", "resourceclaims/binding"} <= everywhere
    for team in ("team-a", "team-b"):
        role = found["Role", team, "poller-pods"]["rules"]
        assert {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]} in role
        inside = {name for rule in role for name in rule["resources"]}
        assert {"pods", "pods/binding", "events", "persistentvolumeclaims", "services"} <= inside
        assert {"resourceclaims", "resourceclaims/status"} <= inside
        assert found["RoleBinding", team, "poller-pods"]["subjects"][0]["namespace"] == "poller"


SHARDS: Json = {
    "schedulerNames": ["common"],
    "shards": [
        {"name": "gpu", "schedulerNames": ["gpu"], "preemption": False},
        {
            "name": "web",
            "namespaces": ["default"],
            "policies": {"mine.py": "def score(pod, node): return 1\n"},
        },
    ],
}


def test_each_shard_has_its_own_lease_names_and_rights() -> None:
    found = by_name(rendered(SHARDS))
    args = {
        name: found["Deployment", "poller", name]["spec"]["template"]["spec"]["containers"][0]["args"]
        for name in ("poller-gpu", "poller-web")
    }
    assert "--leader-elect-resource-name=poller-gpu" in args["poller-gpu"]
    assert args["poller-gpu"][-2:] == ["--scheduler-name=gpu", "--no-preemption"]
    assert args["poller-web"][-3:] == [
        "--scheduler-name=common",
        "--namespace=default",
        "--plugin=/etc/poller/mine.py",
    ]
    for name in ("poller-gpu", "poller-web"):
        leases = [rule for rule in found["Role", "poller", name]["rules"] if "resourceNames" in rule]
        assert [rule["resourceNames"] for rule in leases] == [[name]]
    assert found["ConfigMap", "poller", "poller-web"]["data"].keys() == {"mine.py"}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"replica": 3}, "Additional property replica is not allowed"),
        ({"image": {"repository": "poller", "digest": "latest"}}, "image.digest: Does not match pattern"),
        ({"shards": [{"replicas": 1}]}, "name is required"),
        ({"namespaces": "team-a"}, "namespaces: Invalid type"),
        ({"resources": None}, "resources is required"),
        ({"metrics": {"serviceMonitor": True}}, "set metrics.service to true, too"),
        ({"shards": [{"name": "a"}, {"name": "a"}]}, 'two shards have the name "poller-a"'),
        (
            {"schedulerNames": ["a"], "configuration": {"profiles": [{"schedulerName": "b"}]}},
            "both schedulerNames and configuration.profiles are set",
        ),
        (
            {"shards": [{"name": "a"}, {"name": "b", "namespaces": ["n"]}]},
            'poller-a and poller-b would both place the pods of "my-scheduler"',
        ),
        ({"shards": [{"name": "a" * 32}]}, None),
    ],
)
def test_values_that_are_wrong_are_named(values: Json, said: str | None) -> None:
    release = "poller" if said else "r" * 53
    done = template(values, release)
    assert done.returncode != 0
    assert (said or "which has 86 characters: at most 63 will do") in done.stderr


MORE = "x\n      hostNetwork: true"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"image": {"repository": MORE}}, "image.repository"),
        ({"image": {"repository": "poller", "tag": MORE}}, "image.tag"),
        ({"schedulerNames": [MORE]}, "schedulerNames.0"),
        ({"namespaces": [MORE]}, "namespaces.0"),
        ({"priorityClassName": MORE}, "priorityClassName"),
        ({"shards": [{"name": MORE}]}, "shards.0.name"),
        ({"policies": {f"{MORE}.py": ""}}, "policies"),
    ],
)
def test_a_value_is_no_way_to_write_another_field(values: Json, said: str) -> None:
    done = template(values)
    assert done.returncode != 0
    assert f"{said}: Does not match pattern" in done.stderr


def test_text_stays_the_text_that_it_is() -> None:
    text = "a: {{ .Values }}\n- 'b' \"c\" # d\n\ttrue"
    values: Json = {
        "policies": {"mine.py": text},
        "arguments": [text],
        "nodeSelector": {"disk": text},
        "configuration": {"profiles": [{"schedulerName": "{{ .Release.Name }}"}]},
    }
    found = by_name(rendered(values))
    files = found["ConfigMap", "poller", "poller"]["data"]
    assert files["mine.py"] == text
    assert yaml.safe_load(files["configuration.yaml"]).items() >= values["configuration"].items()
    pod = found["Deployment", "poller", "poller"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["args"][-1] == pod["nodeSelector"]["disk"] == text


def test_with_everything_off_what_poller_needs_is_left() -> None:
    off: Json = dict.fromkeys(("preemption", "quota", "networkPolicy", "podDisruptionBudget"), False)
    nothing: Json = dict.fromkeys(("schedulerNames", "namespaces", "policies", "user", "arguments"))
    found = by_name(rendered({**off, **nothing, "priorityClassName": "", "replicas": 0}))
    assert {kind for kind, _, _ in found} == {
        *("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Deployment"),
        *("Lease", "Pod"),
    }
    pod = found["Deployment", "poller", "poller"]["spec"]["template"]["spec"]
    assert "priorityClassName" not in pod
    assert "runAsUser" not in pod["securityContext"]


def test_several_scheduler_names_are_profiles_of_one_poller(tmp_path: Path) -> None:
    found = by_name(rendered({"schedulerNames": ["a", "b"]}))
    (container,) = found["Deployment", "poller", "poller"]["spec"]["template"]["spec"]["containers"]
    assert not [each for each in container["args"] if each.startswith("--scheduler-name")]
    file = tmp_path / "configuration.yaml"
    file.write_text(found["ConfigMap", "poller", "poller"]["data"][file.name])
    checked = run([sys.executable, ROOT / "poller.py", "--config", file, "--check-config"])
    served = re.findall("^(.+): for pods with this spec.schedulerName", checked.stdout, re.MULTILINE)
    assert served == ["a", "b"]


def test_the_right_to_read_metrics_comes_with_the_plugin_that_needs_it() -> None:
    preset = yaml.safe_load((ROOT / "scripts/examples/presets/actual-load.yaml").read_text())
    rule = {"apiGroups": ["metrics.k8s.io"], "resources": ["nodes"], "verbs": ["list"]}
    for namespaces in ([], ["team-a"]):
        for configuration, given in (({}, False), (preset, True)):
            found = by_name(rendered({"configuration": configuration, "namespaces": namespaces}))
            assert (rule in found["ClusterRole", "", "poller"]["rules"]) == given


def test_releases_share_no_object() -> None:
    """Neither two in a namespace, nor two of a name."""
    found = [
        by_name(rendered({"metrics": {"service": True, "rules": True}}, release, namespace)).keys()
        for release, namespace in [("poller", "poller"), ("second", "poller"), ("poller", "team"), ("a", "b")]
    ]
    assert len(set().union(*found)) == sum(map(len, found))


def test_the_quota_lets_all_pods_be_replaced() -> None:
    shards = [{"name": name, "schedulerNames": [name]} for name in "abcdefgh"]
    quota = by_name(rendered({"shards": shards}))["ResourceQuota", "poller", "critical-pods"]
    assert quota["spec"]["hard"]["pods"] == "32"


def test_helm_finds_nothing_wrong_with_the_chart() -> None:
    done = run([helm(), "lint", "--strict", CHART])
    assert done.returncode == 0, done.stdout


def test_each_value_has_a_sentence_in_the_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert values.keys() <= schema["properties"].keys()
    for name, about in schema["properties"].items():
        about = schema["definitions"][name] if "$ref" in about else about
        assert about["description"].endswith("."), name


@pytest.fixture
def managed(cluster: Cluster) -> Iterator[Callable[..., str]]:
    """Runs helm for the namespace poller-c, and at last uninstalls what is there; returns what helm says."""

    def managed(*arguments: str, values: Json | None = None) -> str:
        command = [helm(), *arguments, "--namespace=poller-c", *(["--values=-"] if values else [])]
        environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
        done = run(command, env=environment, input=json.dumps(values or {}))
        assert done.returncode == 0, done.stderr
        return done.stdout

    yield managed
    for release in managed("list", "--short").split():
        managed("uninstall", release)


@on_the_real_one
def test_the_chart_is_installed_and_upgraded(cluster: Cluster, managed: Callable[..., str]) -> None:
    notes = managed("install", "poller", str(CHART), "--create-namespace")
    assert "kubectl rollout status --namespace poller-c deployment/poller" in notes
    assert "deployment.apps/poller" in cluster.kubectl("get", "deployment", "-n", "poller-c", "-o", "name")
    managed("install", "second", str(CHART), values={"schedulerNames": ["another"]})
    with pytest.raises(
        AssertionError, match='poller in namespace poller-c places the pods of "my-scheduler"'
    ):
        managed("install", "third", str(CHART))
    managed("upgrade", "poller", str(CHART), values=SHARDS)
    names = cluster.kubectl("get", "deployment", "-n", "poller-c", "-o", "name").split()
    assert names == [f"deployment.apps/{name}" for name in ("poller-gpu", "poller-web", "second")]
    managed("uninstall", "second")
    managed("uninstall", "poller")
    left = cluster.kubectl(
        "get", "deployment,role,rolebinding,quota,pdb,lease", "-n", "poller-c", "-o", "name"
    )
    roles = cluster.kubectl("get", "clusterrole,clusterrolebinding", "-o", "name")
    assert "poller" not in left + roles


@on_the_real_one
def test_each_shard_places_its_own_pods_with_the_rights_that_it_gets(
    cluster: Cluster, managed: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By scheduler name, and by namespace; beside each other on the same nodes, each with its lease."""
    shards = [
        {"name": "gpu", "schedulerNames": ["gpu", "gpu-packing"]},
        {"name": "web", "schedulerNames": ["web"], "namespaces": ["default"], "seesAllPods": True},
        {"name": "rest", "schedulerNames": ["web"], "namespaces": ["poller-c"], "preemption": False},
    ]
    managed("install", "poller", str(CHART), "--create-namespace", values={"shards": shards})
    cluster.add_node("n1")
    with ExitStack() as stack:
        pollers = []
        for shard in shards:
            path = f"/apis/apps/v1/namespaces/poller-c/deployments/poller-{shard['name']}"
            spec = cluster.api.get(path).json()["spec"]["template"]["spec"]
            folder = stack.enter_context(kubectl_container(cluster, "poller-c", spec, monkeypatch))
            arguments = arguments_of(spec, "poller-c", folder)
            for each in spec["volumes"]:
                if files := each.get("configMap"):
                    found = cluster.api.get(f"/api/v1/namespaces/poller-c/configmaps/{files['name']}").json()
                    for name, text in found["data"].items():
                        (folder / name).write_text(text)
            arguments = [each.replace("/etc/poller", str(folder)) for each in arguments]
            pollers.append(stack.enter_context(cluster.running_poller(*arguments)))
        for each in pollers:
            each.says("became leader")
        cluster.add_pod("a", "gpu-packing")
        cluster.add_pod("b", "web")
        elsewhere = {"metadata": {"name": "c"}, "spec": {"schedulerName": "web", "containers": CONTAINERS}}
        cluster.post("/api/v1/namespaces/poller-c/pods", elsewhere)
        for poller, pod in zip(pollers, ("default/a", "default/b", "poller-c/c"), strict=True):
            poller.says(f"{pod} is bound to n1")
            assert poller.said.count(" is bound to ") == 1
        unseen = ("", "pods", "list")  # of other namespaces, which poller can do without
        assert [[*missing(poller)] for poller in pollers] == [[], [], [unseen]]
    leases = cluster.api.get("/apis/coordination.k8s.io/v1/namespaces/poller-c/leases").json()["items"]
    assert {each["metadata"]["name"] for each in leases} == {f"poller-{each['name']}" for each in shards}
    cluster.kubectl("delete", "pod", "c", "-n", "poller-c", "--force")
