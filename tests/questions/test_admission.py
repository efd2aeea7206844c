"""What the API server would refuse is no yes: asked of the server in a dry run, or counted from a file."""

import json
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster, Json
from questions_harness import Run
from test_verbs import a_node, a_pod, write
from test_verbs_end_to_end import a_file, answer, ask

from lib.questions.manifest_fields import field_types, wrong_fields


def deployment(namespace: str = "default", replicas: int = 10, **resources: Any) -> Json:
    container = {"name": "main", "image": "nginx", "resources": resources}
    template = {"metadata": {"labels": {"app": "shop"}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "shop"}}, "template": template}
    metadata = {"name": "shop", "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def namespace(name: str, **labels: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "q", "namespace": "strict"},
    "spec": {"hard": {"pods": "3"}},
    "status": {"hard": {"pods": "3"}, "used": {"pods": "0"}},
}
LIMITS = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "max", "namespace": "strict"},
    "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "500m"}}]},
}


@pytest.fixture
def strict(cluster: Cluster) -> Cluster:
    """A node, and a namespace with a quota of three pods and at most 1 cpu each."""
    cluster.add_node("n1", cpu="64")
    for path, body in (
        ("/api/v1/namespaces", namespace("strict")),
        ("/api/v1/namespaces/strict/resourcequotas", QUOTA),
        ("/api/v1/namespaces/strict/limitranges", LIMITS),
    ):
        cluster.api.post(path, json=body)  # they may be there from an earlier test
    cluster.patch(
        "/api/v1/namespaces/strict/resourcequotas/q/status", {"status": QUOTA["status"]}
    )  # no controller does it here
    return cluster


def test_no_yes_to_what_the_api_server_refuses(strict: Cluster, tmp_path: Path) -> None:
    """Before, each of these was a yes for all pods."""
    before = strict.pods()
    found = answer(strict, "try", "-f", a_file(tmp_path, deployment("strict")))
    assert (found["answer"], found["workloads"][0]["placed"]) == ("no", 3)
    over = "exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3"
    assert [each["message"] for each in found["pods"] if not each["node"]] == [over] * 7
    room = answer(strict, "room", "-f", a_file(tmp_path, deployment("strict")))["workloads"][0]
    assert (room["fit"], room["refused"]) == (3, over)

    big = answer(strict, "try", "-f", a_file(tmp_path, deployment("strict", limits={"cpu": "2"})))
    assert big["workloads"][0]["placed"] == 0
    assert "maximum cpu usage per Container is 1, but limit is 2" in big["pods"][0]["message"]

    nowhere = answer(strict, "try", "-f", a_file(tmp_path, deployment("nowhere")))
    assert nowhere["answer"] == "no"
    assert 'namespaces "nowhere" not found' in nowhere["pods"][0]["message"]
    to_come = answer(strict, "try", "-f", a_file(tmp_path, namespace("nowhere"), deployment("nowhere")))
    assert (to_come["answer"], to_come["workloads"][0]["placed"]) == ("yes", 10)
    assert to_come["unknown"] == [
        "what the API server says of Deployment nowhere/shop: its namespace is still to come"
    ]
    secured = namespace("nowhere", **{"pod-security.kubernetes.io/enforce": "restricted"})
    done = ask(strict, "try", "-f", a_file(tmp_path, secured, deployment("nowhere")))
    assert done.returncode == 4
    assert "it enforces the Pod Security level restricted, and it is still to come" in done.stdout

    wrong = deployment()
    wrong["spec"]["template"]["spec"]["containers"][0]["image"] = ""
    refused = answer(strict, "try", "-f", a_file(tmp_path, wrong))
    assert refused["answer"] == "no"
    assert "spec.template.spec.containers[0].image: Required value" in json.dumps(refused["refused"])
    said = ask(strict, "try", "-f", a_file(tmp_path, wrong)).stdout
    assert "The API server refuses:" in said
    assert strict.pods() == before


def test_a_misspelt_field_is_an_error(strict: Cluster, tmp_path: Path) -> None:
    pod = a_pod("web", "1", nodeselector={"disk": "ssd"})
    pod["spec"]["containers"][0]["resource"] = {}
    done = ask(strict, "try", "-f", a_file(tmp_path, pod))
    assert done.returncode == 1
    assert 'Pod default/web: unknown field "spec.nodeselector" (did you mean nodeSelector?)' in done.stderr
    assert 'unknown field "spec.containers[0].resource" (did you mean resources?)' in done.stderr
    indented = deployment()
    indented["metadata"]["spec"] = indented.pop("spec")
    done = ask(strict, "room", "-f", a_file(tmp_path, indented))
    assert done.returncode == 1
    assert 'unknown field "metadata.spec" (is it indented too far?)' in done.stderr
    assert [line.partition(": ")[0] for line in done.stderr.splitlines()] == ["poller.py room"]
    for body, said in (
        ({**deployment(), "kind": "deployment"}, "there is no kind deployment (did you mean Deployment?)"),
        ({**deployment(), "apiVersion": None}, "Deployment default/shop: it has no apiVersion"),
    ):
        done = ask(strict, "try", "-f", a_file(tmp_path, body))
        assert (done.returncode, said in done.stderr) == (1, True), done.stderr


def test_several_errors_are_lines(strict: Cluster, tmp_path: Path) -> None:
    """Before, they were one line, with `\\n` in it."""
    pod = a_pod("web", "1", nodeselector={}, tolerations=[{"kei": "a"}])
    done = ask(strict, "try", "-f", a_file(tmp_path, pod))
    assert [line.rpartition(": ")[2] for line in done.stderr.splitlines()] == [
        'unknown field "spec.nodeselector" (did you mean nodeSelector?)',
        'unknown field "spec.tolerations[0].kei" (did you mean key?)',
    ]


def test_a_kind_that_the_server_does_not_have_is_no_yes(strict: Cluster, tmp_path: Path) -> None:
    old = {**deployment(), "apiVersion": "apps/v1beta1"}
    found = answer(strict, "try", "-f", a_file(tmp_path, old))
    assert found["answer"] == "no"
    said = {"Deployment default/shop": "the API server has no kind Deployment of apps/v1beta1"}
    assert found["refused"] == said

    widget = {**deployment(), "apiVersion": "example.com/v1", "kind": "Widget"}
    names = {"kind": "Widget", "plural": "widgets"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "names": names, "scope": "Namespaced", "versions": []},
    }
    done = ask(strict, "try", "-f", a_file(tmp_path, widget, definition))
    assert "what the API server says of Widget default/shop: its kind is still to come" in done.stdout


@pytest.mark.parametrize("servers", ["real"], indirect=True)
def test_pod_security_is_asked_of_the_server(strict: Cluster, tmp_path: Path) -> None:
    level = {"pod-security.kubernetes.io/enforce": "restricted"}
    strict.kubectl("apply", "-f", a_file(tmp_path, namespace("secure", **level)))
    try:
        file = a_file(tmp_path, deployment("secure"))
        found = answer(strict, "try", "-f", file)
        assert found["answer"] == "no"
        assert 'violates PodSecurity "restricted:latest"' in found["pods"][0]["message"]
        assert ask(strict, "save", str(tmp_path / "saved.json")).returncode == 0
        done = ask(None, "try", "-f", file, "--from", str(tmp_path / "saved.json"))
        assert done.returncode == 4
        assert "it enforces the Pod Security level restricted, and the cluster is read from a file" in (
            " ".join(done.stdout.split())
        )
    finally:
        strict.kubectl("delete", "namespace", "secure", "--wait=false")


@pytest.mark.parametrize("servers", ["real"], indirect=True)
def test_the_fields_are_those_of_the_real_server(cluster: Cluster) -> None:
    """If the server has others, write `made` into the file."""
    schemas: dict[str, Json] = {}
    for path in ("api/v1", "apis/apps/v1", "apis/batch/v1"):
        schemas |= cluster.api.get(f"/openapi/v3/{path}").json()["components"]["schemas"]
    assert fields_of(schemas) == field_types()


KINDS = (
    *("v1/Pod", "v1/PodTemplate", "v1/ReplicationController", "v1/PersistentVolumeClaim"),
    *("apps/v1/DaemonSet", "apps/v1/Deployment", "apps/v1/ReplicaSet", "apps/v1/StatefulSet"),
    *("batch/v1/CronJob", "batch/v1/Job"),
)


def fields_of(schemas: dict[str, Json]) -> dict[str, dict[str, str]]:
    """By type, its fields and their types, of all types that the workloads' kinds lead to."""
    found: dict[str, dict[str, str]] = {}
    to_do = {kind: schema for kind in KINDS for name, schema in schemas.items() if is_named(name, kind)}
    while to_do:
        name, schema = to_do.popitem()
        found[name] = {}
        for field, inner in schema["properties"].items():
            kind, reference = type_of(inner, schemas)
            if field in ("status", "managedFields") and kind.strip("[]") not in ("", "any"):
                kind, reference = "any", ""
            found[name][field] = kind
            if reference and (short := reference.rpartition(".")[2]) not in found:
                to_do[short] = schemas[reference]
    return found


def is_named(schema: str, kind: str) -> bool:
    """io.k8s.api.apps.v1.Deployment is apps/v1/Deployment, and io.k8s.api.core.v1.Pod v1/Pod."""
    return schema.removeprefix("io.k8s.api.").removeprefix("core.").replace(".", "/") == kind


def type_of(schema: Json, schemas: dict[str, Json]) -> tuple[str, str]:
    """How `fields.txt` says a type, and the schema that it leads to, if any."""
    (schema,) = schema.get("allOf") or [schema]
    if reference := schema.get("$ref", "").removeprefix("#/components/schemas/"):
        inner = schemas[reference]
        if "properties" in inner:
            return reference.rpartition(".")[2], reference
        return ("", "") if inner.get("type") == "string" else ("any", "")
    if schema.get("type") == "array":
        kind, reference = type_of(schema["items"], schemas)
        return f"[{kind}]", reference
    if "additionalProperties" in schema:
        kind, reference = type_of(schema["additionalProperties"], schemas)
        return f"{{{kind}}}", reference
    return {"string": "", "integer": "int", "boolean": "bool"}.get(schema.get("type", ""), "any"), ""


# --- from a file ------------------------------------------------------------------------------------------


def cluster_file(folder: Path, *objects: Json) -> str:
    there = {"kind": "Namespace", "metadata": {"name": "strict"}}
    return write(folder / "cluster.json", a_node("n1", "64"), there, *objects)


def quota(status: Json | None = None, **spec: Any) -> Json:
    return {
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "strict"},
        "spec": spec,
        "status": (
            {"hard": spec["hard"], "used": dict.fromkeys(spec["hard"], "0")} if status is None else status
        ),
    }


def ratio(most: str | int) -> Json:
    return {**LIMITS, "spec": {"limits": [{"type": "Container", "maxLimitRequestRatio": {"cpu": most}}]}}


@pytest.mark.parametrize(
    ("limited", "resources", "placed", "said"),
    [
        (quota(hard={"requests.cpu": "1500m"}), {"requests": {"cpu": "1"}}, 1, "requested: requests.cpu=1"),
        (quota(hard={"limits.memory": "1Gi"}), {"limits": {"memory": "256Mi"}}, 4, "used: limits.memory=1Gi"),
        (quota(hard={"cpu": "1"}), {}, 0, "failed quota: q: must specify cpu for: main"),
        (quota(hard={"pods": "2"}, scopes=["BestEffort"]), {}, 2, "exceeded quota: q"),
        (quota(hard={"pods": "2"}, scopes=["NotBestEffort"]), {}, 10, ""),
        (quota(hard={"pods": "2"}, scopes=["BestEffort"]), {"limits": {"cpu": "0"}}, 2, "exceeded quota: q"),
        (
            quota(hard={"pods": "0"}, scopes=["BestEffort"]),
            {"limits": {"example.com/gpu": "1"}},
            0,
            "exceeded quota",
        ),
        (quota(hard={"pods": "0"}, scopes=["VolumeAttributesClass"]), {}, 10, ""),
        (
            quota(hard={"hugepages-2Mi": "1Mi"}),
            {"limits": {"hugepages-2Mi": "2Mi", "cpu": "1"}},
            0,
            "requested: hugepages-2Mi=2Mi",
        ),
        (
            quota({"hard": {"pods": "2", "secrets": "3"}}, hard={}),
            {},
            0,
            "unknown for quota: q, resources: pods",
        ),
        (quota({"hard": {"requests.storage": "9"}}, hard={}), {}, 10, ""),
        (quota({}, hard={"pods": "2"}), {}, 10, ""),  # its controller hasn't seen it yet
        ({**LIMITS, "spec": {"limits": [{"type": "Pod", "min": {"cpu": "1"}}]}}, {}, 0, "No request is"),
        (ratio("1500m"), {"requests": {"cpu": "1"}, "limits": {"cpu": "1500m"}}, 10, ""),
        (
            ratio(2),
            {"requests": {"cpu": "1"}, "limits": {"cpu": "2001m"}},
            0,
            "is 2, but provided ratio is 2.00",
        ),
        (ratio("1500m"), {"requests": {"cpu": "1"}}, 0, "is 1500m, but no limit is specified or limit is 0"),
        (
            ratio(2),
            {"requests": {"cpu": "0"}, "limits": {"cpu": "2"}},
            0,
            "no request is specified or request is 0",
        ),
        (LIMITS, {"requests": {"cpu": "2"}}, 0, "must be less than or equal to cpu limit of 500m"),
        (LIMITS, {"limits": {"cpu": "2"}}, 0, "maximum cpu usage per Container is 1, but limit is 2"),
        (LIMITS, {}, 10, ""),
        (
            {**LIMITS, "spec": {"limits": [{"type": "PersistentVolumeClaim", "min": {"cpu": "1"}}]}},
            {},
            10,
            "",
        ),
    ],
)
def test_quotas_and_limit_ranges_are_counted_from_a_file(
    poller: Run, tmp_path: Path, limited: Json, resources: Json, placed: int, said: str
) -> None:
    file = cluster_file(tmp_path, limited)
    manifest = a_file(tmp_path, deployment("strict", **resources))
    done = poller("try", "-f", manifest, "--from", file, "-o", "json")
    found = json.loads(done.out)
    assert found["workloads"][0]["placed"] == placed
    assert done.status == (0 if placed == 10 else 3)
    assert said in found["pods"][0]["message"]
    assert found["unknown"] == [
        "what checks of volumes and probes, admission webhooks and policies would refuse: the cluster is read"
        " from a file"
    ]


@pytest.mark.parametrize(
    ("limits", "requests"),
    [
        ({"max": {"cpu": "2"}}, 2000),
        ({"max": {"cpu": "2"}, "default": {"cpu": 0.5}}, 500),
        ({"min": {"cpu": "250m"}}, 250),
        ({"min": {"cpu": "250m"}, "defaultRequest": {"cpu": "300m"}}, 300),
        ({"min": {"cpu": "250m"}, "max": {"cpu": "2"}}, 2000),
    ],
)
def test_a_limit_range_of_a_manifest_has_the_defaults_of_the_api_server(
    poller: Run, tmp_path: Path, limits: Json, requests: int
) -> None:
    """As in SetDefaults_LimitRangeItem in pkg/apis/core/v1/defaults.go."""
    limited = {**LIMITS, "spec": {"limits": [{"type": "Container", **limits}]}}
    manifest = a_file(tmp_path, limited, deployment("strict", replicas=1))
    found = poller("try", "-f", manifest, "--from", cluster_file(tmp_path), "-o", "json").json
    assert found["nodes"]["n1"]["after"]["cpu"]["requested"] == requests


@pytest.mark.parametrize(
    ("limited", "resources", "placed"),
    [
        ({"hard": {"requests.cpu": "2"}}, {"requests": {"cpu": "1"}}, 2),
        ({"hard": {"pods": "3"}, "scopes": ["BestEffort"]}, {"requests": {"cpu": "1"}}, 10),
        ({"hard": {"pods": "3"}, "scopes": ["NotBestEffort"]}, {"limits": {"memory": "1Mi"}}, 3),
    ],
)
def test_what_a_pod_requests_itself_counts_for_its_quota(
    poller: Run, tmp_path: Path, limited: Json, resources: Json, placed: int
) -> None:
    """Then its containers need not request anything: pkg/quota/v1/evaluator/core/pods.go, Constraints."""
    body = deployment("strict")
    body["spec"]["template"]["spec"]["resources"] = resources
    file = cluster_file(tmp_path, quota(**limited))
    done = poller("try", "-f", a_file(tmp_path, body), "--from", file, "-o", "json")
    assert json.loads(done.out)["workloads"][0]["placed"] == placed, done.out


def test_a_quota_of_a_manifest_counts_from_its_creation(poller: Run, tmp_path: Path) -> None:
    new = {key: QUOTA[key] for key in ("apiVersion", "kind", "metadata", "spec")}
    manifest = a_file(tmp_path, new, deployment("strict"))
    done = poller("try", "-f", manifest, "--from", cluster_file(tmp_path), "-o", "json")
    assert json.loads(done.out)["workloads"][0]["placed"] == 3


@pytest.mark.parametrize(
    ("term", "crosses"),
    [
        ({}, False),
        ({"labelSelector": {"matchLabels": {"namespace": "strict"}}}, False),
        ({"namespaces": []}, False),
        ({"namespaces": ["strict"]}, True),
        ({"namespaceSelector": {}}, True),
    ],
)
@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize("required", [True, False])
def test_a_pod_that_names_namespaces_in_its_affinity_is_in_that_scope_of_a_quota(
    poller: Run, tmp_path: Path, term: Json, crosses: bool, kind: str, required: bool
) -> None:
    term = {"topologyKey": "kubernetes.io/hostname", **term}
    terms = {
        "requiredDuringSchedulingIgnoredDuringExecution": [term] if required else [],
        "preferredDuringSchedulingIgnoredDuringExecution": (
            [] if required else [{"weight": 1, "podAffinityTerm": term}]
        ),
    }
    body = deployment("strict", replicas=1)
    body["spec"]["template"]["spec"]["affinity"] = {kind: terms}
    file = cluster_file(tmp_path, quota(hard={"pods": "0"}, scopes=["CrossNamespacePodAffinity"]))
    done = poller("try", "-f", a_file(tmp_path, body), "--from", file, "-o", "json")
    assert ("exceeded quota: q" in json.loads(done.out)["pods"][0]["message"]) == crosses


@pytest.mark.parametrize(
    ("limited", "placed"),
    [
        (quota(hard={"limits.cpu": "4"}), 2),
        (quota(hard={"requests.cpu": "6"}), 3),
        ({**LIMITS, "spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}}, 10),
    ],
)
def test_a_sandbox_counts_for_quotas_and_not_for_limit_ranges(
    poller: Run, tmp_path: Path, limited: Json, placed: int
) -> None:
    """As in pkg/quota/v1/evaluator/core/pods.go, and plugin/pkg/admission/limitranger/admission.go."""
    kata = {"kind": "RuntimeClass", "metadata": {"name": "kata"}, "overhead": {"podFixed": {"cpu": "1"}}}
    body = deployment("strict", limits={"cpu": "1"})
    body["spec"]["template"]["spec"]["runtimeClassName"] = "kata"
    file = cluster_file(tmp_path, limited, kata)
    found = poller("try", "-f", a_file(tmp_path, body), "--from", file, "-o", "json").json
    assert found["workloads"][0]["placed"] == placed


def test_devices_are_neither_yes_nor_no(poller: Run, tmp_path: Path) -> None:
    claims = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}
    file = write(tmp_path / "cluster.json", a_node("n1"), a_pod("waits", "1", **claims))
    manifest = a_file(tmp_path, a_pod("web", "1", **claims))
    for verb in (["why", "waits"], ["try", "-f", manifest], ["room", "-f", manifest]):
        assert poller(*verb, "--from", file).status == 4
        assert json.loads(poller(*verb, "--from", file, "-o", "json").out)["answer"] == "unknown"


def test_only_fields_of_known_kinds_are_checked() -> None:
    assert wrong_fields({"kind": "Widget", "specc": 1}) == []
    assert wrong_fields({"apiVersion": "monitoring.coreos.com/v1", "kind": "Probe", "spec": {}}) == []
    assert wrong_fields({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "specc": {}}) == []
    assert wrong_fields(
        {"kind": "Pod", "spec": {"containers": [{"livenessProbe": {"exec": {"cmd": 1}}}]}}
    ) == ['unknown field "spec.containers[0].livenessProbe.exec.cmd" (did you mean command?)']


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            {"containers": [{"env": [{"name": "A", "value": True}]}]},
            "true stands where text is wanted; put it into",
        ),
        ({"containers": {"name": "a"}}, "spec.containers: {'name': 'a'} stands where a list is wanted"),
        (
            {"nodeSelector": {"a": 1}},
            "spec.nodeSelector.a: 1 stands where text is wanted; put it into quotes",
        ),
        ({"hostNetwork": "yes"}, "spec.hostNetwork: 'yes' stands where true or false is wanted"),
        (
            {"terminationGracePeriodSeconds": 1.5},
            "spec.terminationGracePeriodSeconds: 1.5 stands where a whole",
        ),
        ({"affinity": []}, "spec.affinity: [] stands where an object is wanted"),
        ({"affinity": None, "containers": [{"resources": {"requests": {"cpu": 1, "memory": "1Gi"}}}]}, ""),
    ],
)
def test_what_is_of_another_type_is_wrong(spec: Json, said: str) -> None:
    assert said in "".join(wrong_fields({"apiVersion": "v1", "kind": "Pod", "spec": spec})) or not said
    assert said or not wrong_fields({"apiVersion": "v1", "kind": "Pod", "spec": spec})
