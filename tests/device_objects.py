"""Devices and claims for tests; does the work of the claim controller.

No claim controller runs beside a real kube-apiserver.
"""

import json
from typing import Any

from cluster import Cluster, Json

API = "/apis/resource.k8s.io/v1"
CLAIMS = f"{API}/namespaces/default/resourceclaims"
TEMPLATES = f"{API}/namespaces/default/resourceclaimtemplates"
DRIVER = "gpu.example.com"


class Devices:
    """The devices of a cluster; does the work of the claim controller."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    # --- what there is ----------------------------------------------------------------------------------

    def add_class(self, name: str = "gpu", **spec: Any) -> None:
        expression = f'device.driver == "{DRIVER}"'
        whole = {"selectors": [{"cel": {"expression": expression}}], **spec}
        self._cluster.post(f"{API}/deviceclasses", {"metadata": {"name": name}, "spec": whole})

    def add_devices(self, node: str, number: int, **of_each: Any) -> None:
        """A slice of a node with so many devices."""
        spec = {
            "driver": DRIVER,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "nodeName": node,
            "devices": [{"name": f"gpu-{i}", **of_each} for i in range(number)],
        }
        self._cluster.post(f"{API}/resourceslices", {"metadata": {"name": f"of-{node}"}, "spec": spec})

    def add_claim(self, name: str, number: int = 1) -> Json:
        return self._cluster.post(CLAIMS, {"metadata": {"name": name}, "spec": wanted(number)})

    def add_claim_with_blanks(self, name: str, **metadata: Any) -> None:
        """A claim with opaque parameters, sent with blanks, as Python's json writes it."""
        spec = wanted(1)
        parameters = {"sharing": {"strategy": "time", "seconds": [1, 2]}}
        spec["devices"]["config"] = [{"opaque": {"driver": DRIVER, "parameters": parameters}}]
        body = json.dumps({"metadata": {"name": name, **metadata}, "spec": spec})
        headers = {"Content-Type": "application/json"}
        self._cluster.api.post(CLAIMS, content=body, headers=headers).raise_for_status()

    def add_template(self, name: str, number: int = 1) -> None:
        self._cluster.post(TEMPLATES, {"metadata": {"name": name}, "spec": {"spec": wanted(number)}})

    def claim(self, name: str) -> Json:
        return dict(self._cluster.api.get(f"{CLAIMS}/{name}").json())

    def claims(self) -> dict[str, Json]:
        return {each["metadata"]["name"]: each for each in self._cluster.api.get(CLAIMS).json()["items"]}

    def device_of(self, claim: str) -> str | None:
        """The device that a claim has got, such as `n1/gpu-0`."""
        allocation = (self.claim(claim).get("status") or {}).get("allocation")
        if not allocation:
            return None
        (found,) = allocation["devices"]["results"]
        return f"{found['pool']}/{found['device']}"

    def users_of(self, claim: str) -> list[str]:
        """The names of the pods that a claim is reserved for."""
        return [each["name"] for each in (self.claim(claim).get("status") or {}).get("reservedFor", ())]

    # --- what controllers and drivers do ----------------------------------------------------------------

    def make_claim_of(self, pod: str, named: str, number: int = 1) -> None:
        """Make a pod's claim of its template, unless a controller is there that does."""
        found = self._cluster.pod(pod)
        made = f"{pod}-{named}-made"
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": found["metadata"]["uid"]}
        metadata = {"name": made, "ownerReferences": [{**owner, "controller": True}]}
        self._cluster.post(CLAIMS, {"metadata": metadata, "spec": wanted(number)})
        status = {"resourceClaimStatuses": [{"name": named, "resourceClaimName": made}]}
        self._cluster.patch(f"/api/v1/namespaces/default/pods/{pod}/status", {"status": status})

    def free(self, claim: str) -> None:
        """Take a claim's devices away when nobody uses it any more."""
        nothing = {"status": {"allocation": None, "reservedFor": None}}
        self._cluster.patch(f"{CLAIMS}/{claim}/status", nothing)

    def meet(self, claim: str, condition: str) -> None:
        """A driver says that a device meets a condition."""
        (found,) = self.claim(claim)["status"]["allocation"]["devices"]["results"]
        said = {"type": condition, "status": "True", "reason": "r", "message": "m"}
        which = {name: found[name] for name in ("driver", "pool", "device")}
        conditions = [{**said, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
        self._cluster.patch(
            f"{CLAIMS}/{claim}/status", {"status": {"devices": [{**which, "conditions": conditions}]}}
        )

    def clear(self) -> None:
        """Delete all of it."""
        self.delete_claims()
        for path in (TEMPLATES, f"{API}/resourceslices", f"{API}/deviceclasses"):
            self._cluster.api.delete(path)

    def delete_claims(self) -> None:
        for name, claim in self.claims().items():  # the embedded claim controller may be faster
            path = f"{CLAIMS}/{name}"
            patch, kind = {"metadata": {"finalizers": None}}, {"Content-Type": "application/merge-patch+json"}
            if self._cluster.api.patch(path, json=patch, headers=kind).status_code == 422:
                claim["metadata"]["finalizers"] = None  # it has blanks: they must be there again
                headers = {"Content-Type": "application/json"}
                self._cluster.api.put(path, content=json.dumps(claim), headers=headers).raise_for_status()
            self._cluster.api.delete(path)


def wanted(number: int) -> Json:
    exactly = {"deviceClassName": "gpu", "count": number}
    return {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}


def uses(claim: str) -> list[Json]:
    return [{"name": "gpu", "resourceClaimName": claim}]


def uses_template(template: str) -> list[Json]:
    return [{"name": "gpu", "resourceClaimTemplateName": template}]
