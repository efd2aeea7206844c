"""The PodGroups of the coscheduling plugin, on a server that has custom resources."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from cluster import Cluster, eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

POD_GROUPS = {
    "metadata": {"name": "podgroups.scheduling.x-k8s.io"},
    "spec": {
        "group": "scheduling.x-k8s.io",
        "scope": "Namespaced",
        "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


@contextmanager
def pod_group(cluster: Cluster, name: str, min_member: int) -> Iterator[None]:
    """A block with the CRD, and with a PodGroup. Skips the test if the server has no custom resources."""
    if cluster.api.get(CRDS).status_code == 404:
        pytest.skip("the embedded API server has no custom resources")
    groups = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
    cluster.post(CRDS, POD_GROUPS)
    try:
        eventually(lambda: cluster.api.get(groups).status_code == 200)
        group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
        cluster.post(groups, {**group, "metadata": {"name": name}, "spec": {"minMember": min_member}})
        yield
    finally:
        cluster.api.delete(f"{CRDS}/podgroups.scheduling.x-k8s.io")
