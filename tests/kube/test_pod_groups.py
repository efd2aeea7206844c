"""PodGroups are read in whichever version a server has, and only where a pod names one."""

import json
import threading
from typing import Any

import pytest
from canned import canned
from cluster import Cluster
from faults import ALWAYS, Fault, answer, faulty

from lib.kube.api import Api
from lib.kube.objects import COSCHEDULING, KUBERNETES, PodGroupRef
from lib.kube.pod_groups import PodGroups

ON_ONE_SERVER = True
API = "/apis/scheduling.k8s.io"


def said(body: Any) -> Any:
    return answer(200, json.dumps(body))


@pytest.mark.parametrize("version", ["v1alpha2", "v1beta1"])
def test_the_version_is_that_of_the_server(cluster: Cluster, version: str) -> None:
    """1.37's isn't there to be tried: its answers are put between."""
    served = {"versions": [{"groupVersion": f"scheduling.k8s.io/{each}"} for each in ("v1", version)]}
    group = {"kind": "PodGroup", "metadata": {"name": "g", "namespace": "default"}}
    gang = {**group, "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
    basic = {**group, "spec": {"schedulingPolicy": {"basic": {}}}}
    answers = {
        f"{API}/{version}/namespaces/default/podgroups/gang": gang,
        f"{API}/{version}/namespaces/default/podgroups/basic": basic,
        f"{API}/{version}": {"resources": [{"name": "workloads"}, {"name": "podgroups"}]},
        f"{API}/v1": {"resources": [{"name": "priorityclasses"}]},
        API: served,
    }
    faults = [Fault("GET", f"{path}$", said(body), ALWAYS) for path, body in answers.items()]
    with faulty(cluster.proxy, *faults) as between, Api(between.url, threading.Event()) as api:
        pod_groups = PodGroups(api)
        found = {
            name: pod_groups.needed(PodGroupRef("default", name, KUBERNETES))
            for name in ("gang", "basic", "no")
        }
    assert found == {"gang": 3, "basic": 0, "no": None}


def test_without_the_gates_there_are_no_gangs() -> None:
    with canned({}) as server, Api(server.url, threading.Event()) as api:
        assert PodGroups(api).needed(PodGroupRef("default", "g", KUBERNETES)) == 0
        assert PodGroups(api).needed(PodGroupRef("default", "g", COSCHEDULING)) is None
