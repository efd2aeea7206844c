"""Pods as batch projects make them: held, and placed, as lib/service/groups.md says.

Their controllers aren't here. What they write is written by the tests, on a real API server if there is one.
"""

from typing import Any

import pytest
from cluster import ONE_SERVER, Cluster, eventually

pytestmark = pytest.mark.parametrize("servers", [ONE_SERVER], indirect=True)
ZONE = "topology.kubernetes.io/zone"
ALL_OR_NONE: Any = {"labels": {"poller/group": "train"}, "annotations": {"poller/group-size": "2"}}
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def two_zones(cluster: Cluster) -> Cluster:
    for name in ("n1", "n2"):
        cluster.add_node(name, labels={ZONE: f"zone-of-{name}"}, cpu="2")
    return cluster


def joined(*metadata: Any) -> Any:
    return {
        part: {key: value for each in metadata for key, value in each.get(part, {}).items()}
        for part in ("labels", "annotations")
    }


def test_kueue_gates_a_pod_and_chooses_its_node(two_zones: Cluster) -> None:
    """Pods of a group, with topology: each is released on its own, with a node selector."""
    kueue = {
        "labels": {"kueue.x-k8s.io/managed": "true", "kueue.x-k8s.io/pod-group-name": "train"},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"},
    }
    gates = [{"name": "kueue.x-k8s.io/admission"}, {"name": "kueue.x-k8s.io/topology"}]
    for name in "ab":
        two_zones.add_pod(name, requests={"cpu": "1"}, metadata=kueue, schedulingGates=gates)
        two_zones.patch(f"{PODS}/{name}", {"spec": {"schedulingGates": gates[1:]}})  # admitted
    done = two_zones.poller()
    assert two_zones.placement() == {"a": None, "b": None}
    assert "not scheduled: default/a waiting for scheduling gates: [kueue.x-k8s.io/topology]" in done.stderr
    released = {"nodeSelector": {"kubernetes.io/hostname": "n2"}, "schedulingGates": None}
    two_zones.patch(f"{PODS}/a", {"spec": released})
    assert two_zones.poller().returncode == 0
    assert two_zones.placement() == {"a": "n2", "b": None}


def test_a_group_waits_for_its_pods_that_kueue_has_not_released(two_zones: Cluster) -> None:
    gates = [{"name": "kueue.x-k8s.io/admission"}]
    kueue = {"labels": {"kueue.x-k8s.io/managed": "true"}}
    for name in "ab":
        metadata = joined(kueue, ALL_OR_NONE)
        two_zones.add_pod(name, requests={"cpu": "1"}, metadata=metadata, schedulingGates=gates)
    two_zones.patch(f"{PODS}/a", {"spec": {"schedulingGates": None}})
    assert "default/a: waiting for 1 more of 2" in two_zones.poller().stderr
    two_zones.patch(f"{PODS}/b", {"spec": {"schedulingGates": None}})
    assert two_zones.poller().returncode == 0
    assert None not in two_zones.placement().values()


def leader(job: str) -> Any:
    """What JobSet's webhook gives the leader of a job that is alone in its zone."""
    key = "jobset.sigs.k8s.io/job-key"
    everywhere: Any = {"topologyKey": ZONE, "namespaceSelector": {}}
    own = [{"key": key, "operator": "In", "values": [job]}]
    others = [{"key": key, "operator": "Exists"}, {"key": key, "operator": "NotIn", "values": [job]}]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {
        "metadata": {
            "labels": {
                key: job,
                "jobset.sigs.k8s.io/jobset-name": "train",
                "batch.kubernetes.io/job-name": job,
            },
            "annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": ZONE},
        },
        "affinity": {
            "podAffinity": {required: [{**everywhere, "labelSelector": {"matchExpressions": own}}]},
            "podAntiAffinity": {required: [{**everywhere, "labelSelector": {"matchExpressions": others}}]},
        },
    }


def test_jobsets_jobs_are_alone_in_their_zones(two_zones: Cluster) -> None:
    for job in ("train-0", "train-1", "train-2"):
        two_zones.add_pod(f"{job}-0", requests={"cpu": "100m"}, **leader(job))
    two_zones.poller()
    found = two_zones.placement()
    assert sorted(found.values(), key=str) == [None, "n1", "n2"]
    (job, where), *_ = [(name[:-2], node) for name, node in found.items() if node]
    follower = {"metadata": leader(job)["metadata"], "nodeSelector": {ZONE: f"zone-of-{where}"}}
    two_zones.add_pod(f"{job}-1", requests={"cpu": "100m"}, **follower)
    two_zones.poller()
    assert two_zones.placement()[f"{job}-1"] == where


@pytest.mark.parametrize("labelled", [False, True])
def test_pods_of_a_volcano_job_are_placed_together_if_its_template_has_our_label(
    two_zones: Cluster, labelled: bool
) -> None:
    """As its controller makes them of a Job with poller's `schedulerName`. Its PodGroup isn't read."""
    volcano = {
        "labels": {"volcano.sh/job-name": "train", "volcano.sh/queue-name": "default"},
        "annotations": {"scheduling.k8s.io/group-name": "train", "volcano.sh/task-spec": "worker"},
    }
    metadata = joined(volcano, ALL_OR_NONE if labelled else {})
    two_zones.add_pod("train-worker-0", requests={"cpu": "2"}, metadata=metadata)
    with two_zones.running_poller(afresh=True) as poller:
        if labelled:
            poller.says("default/train-worker-0: waiting for 1 more of 2")
        else:
            eventually(lambda: two_zones.placement()["train-worker-0"])
        two_zones.add_pod("train-worker-1", requests={"cpu": "2"}, metadata=metadata)
        eventually(lambda: None not in two_zones.placement().values())
