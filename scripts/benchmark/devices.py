"""The devices of workloads whose pods have resource claims: each node has some, and each claim wants one.

A claim of a template is created with its pod here, as no claim controller runs; only in a steady state one
does (steady.py).

Source: the folder dra of scheduler_perf (see workloads.py), and its templates
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from scripts.benchmark.client import Json

DRIVER = "test-driver.cdi.k8s.io"
CLASS, NO_CLASS = "test-class", "no-devices-class"
API = "/apis/resource.k8s.io/v1"
TEMPLATE = "test-claim-template"


@dataclass(frozen=True)
class DeviceUse:
    """per_node: how many devices a node has. sharing: so many pods share a claim.

    first_available: whether the claims' first choice is a class without devices. existing: so many claims
    have a device from the start.
    """

    per_node: int
    sharing: int = 1
    first_available: bool = False
    existing: int = 0


def path_of(thing: Json) -> str:
    """The path at which an object of this module is created."""
    plural = {"DeviceClass": "deviceclasses", "ResourceSlice": "resourceslices"}
    if thing["kind"] in plural:
        return f"{API}/{plural[thing['kind']]}"
    kind = "resourceclaimtemplates" if thing["kind"] == "ResourceClaimTemplate" else "resourceclaims"
    return f"{API}/namespaces/{thing['metadata']['namespace']}/{kind}"


def of_cluster(use: DeviceUse, nodes: list[str]) -> Iterator[Json]:
    """The classes, and a slice for each node."""
    for name, driver in ((CLASS, DRIVER), (NO_CLASS, "no-such-driver")):
        selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
        yield {"kind": "DeviceClass", "metadata": {"name": name}, "spec": {"selectors": [selector]}}
    for node in nodes:
        yield slice_of(use, node)


def slice_of(use: DeviceUse, node: str) -> Json:
    """The devices of a node."""
    spec = {
        "driver": DRIVER,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"device-{at:02}"} for at in range(use.per_node)],
    }
    return {"kind": "ResourceSlice", "metadata": {"name": f"slice-{node}"}, "spec": spec}


def existing_claims(use: DeviceUse, nodes: list[str], namespace: str) -> Iterator[Json]:
    """Claims that have a device: the nodes get them in turn."""
    for at in range(use.existing):
        node, device = nodes[at % len(nodes)], f"device-{at // len(nodes):02}"
        result = {"request": "req-0", "driver": DRIVER, "pool": node, "device": device}
        here = {"key": "metadata.name", "operator": "In", "values": [node]}
        claim = _claim(use, namespace, f"existing-{at}")
        claim["status"] = {
            "allocation": {
                "devices": {"results": [result]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]},
            }
        }
        yield claim


def claims_of(use: DeviceUse, pods: list[Json]) -> Iterator[Json]:
    """The claims of pods, each once."""
    seen = set()
    for pod in pods:
        name = pod["spec"]["resourceClaims"][0]["resourceClaimName"]
        if name not in seen:
            seen.add(name)
            yield _claim(use, pod["metadata"]["namespace"], name)


def use_of_claim(use: DeviceUse, number: int) -> Json:
    """The part of a pod's spec that names its claim."""
    name = f"claim-{number // use.sharing}"
    return {"resourceClaims": [{"name": "resource", "resourceClaimName": name}]}


def template(use: DeviceUse, namespace: str, labels: Mapping[str, str]) -> Json:
    """The template of claims that get these labels."""
    like = _claim(use, namespace, TEMPLATE)
    spec = {"metadata": {"labels": dict(labels)}, "spec": like["spec"]}
    return {**like, "kind": "ResourceClaimTemplate", "spec": spec}


def use_of_template() -> Json:
    """The part of a pod's spec that names the template of its claim."""
    return {"resourceClaims": [{"name": "resource", "resourceClaimTemplateName": TEMPLATE}]}


def _claim(use: DeviceUse, namespace: str, name: str) -> Json:
    exactly: Json = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": 1}
    request: Json = {"name": "req-0", "exactly": exactly}
    if use.first_available:
        others = [{**exactly, "name": "sub-0", "deviceClassName": NO_CLASS}, {**exactly, "name": "sub-1"}]
        request = {"name": "req-0", "firstAvailable": others}
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"devices": {"requests": [request]}},
    }
