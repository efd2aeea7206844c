"""Preemption on a full cluster: the right victims go, gracefully and with a reason, and budgets hold."""

from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster, Json, eventually
from faults import ALWAYS, Fault, answer, faulty
from storage import Volumes, uses

PDBS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def run(cluster: Cluster, name: str, node: str, priority: str, cpu: str = "1", labels: Any = None) -> None:
    """A pod that runs on a node already; it has no grace period, as no kubelet is there to end it."""
    cluster.add_pod(
        name,
        requests={"cpu": cpu},
        nodeName=node,
        priorityClassName=priority,
        terminationGracePeriodSeconds=0,
        metadata={"labels": labels or {}},
    )


def test_the_least_important_victims_make_room(priorities: Cluster) -> None:
    for name in ("n1", "n2"):
        priorities.add_node(name, cpu="2")
    run(priorities, "a", "n1", "low")
    run(priorities, "b", "n1", "middle")
    run(priorities, "c", "n2", "middle", cpu="2")
    priorities.add_pod("vip", requests={"cpu": "1"}, priorityClassName="high")
    with priorities.running_poller(afresh=True) as poller:
        poller.says("default/vip preempts default/a on n1")
        poller.says("default/vip is bound to n1")
    assert priorities.placement() == {"b": "n1", "c": "n2", "vip": "n1"}
    (event,) = priorities.events("Preempted")
    assert event["involvedObject"]["name"] == "a"
    assert event["message"].startswith("Preempted by pod ")
    assert event["message"].endswith(" on node n1")


def test_victims_are_told_why_and_the_preemptor_where(priorities: Cluster) -> None:
    priorities.add_node("n1", cpu="1")
    priorities.add_pod(
        "old",
        requests={"cpu": "1"},
        nodeName="n1",
        priorityClassName="low",
        metadata={"finalizers": ["example.com/hold"]},
    )
    vip = priorities.add_pod("vip", requests={"cpu": "1"}, priorityClassName="high")
    priorities.poller()
    old = priorities.pod("old")
    assert old["metadata"]["deletionTimestamp"]
    (condition,) = [each for each in old["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert condition["status"] == "True"
    assert condition["reason"] == "PreemptionByScheduler"
    assert condition["message"] == "my-scheduler: preempting to accommodate a higher priority pod"
    assert priorities.pod("vip")["status"]["nominatedNodeName"] == "n1"
    (event,) = priorities.events("Preempted")
    assert event["message"] == f"Preempted by pod {vip['metadata']['uid']} on node n1"
    assert event["source"]["component"] == "my-scheduler"

    done = priorities.poller()  # another run knows from the pod's status, and leaves the others alone
    assert "not eligible due to a terminating pod on the nominated node" in done.stderr


def test_a_place_that_was_made_is_kept_from_less_important_pods(priorities: Cluster) -> None:
    priorities.add_node("n1", cpu="1")
    run(priorities, "old", "n1", "low")
    priorities.add_pod("vip", requests={"cpu": "1"}, priorityClassName="high")
    with priorities.running_poller("--pod-initial-backoff=2") as poller:
        poller.says("default/vip preempts default/old on n1")
        for i in range(3):
            priorities.add_pod(f"eager-{i}", requests={"cpu": "1"}, priorityClassName="middle")
        poller.says("default/vip is bound to n1")
    assert {name for name, node in priorities.placement().items() if node} == {"vip"}


def test_a_disruption_budget_is_held_where_another_node_will_do(priorities: Cluster) -> None:
    for name in ("n1", "n2"):
        priorities.add_node(name, cpu="1")
    run(priorities, "protected", "n1", "low", labels={"app": "db"})
    run(priorities, "other", "n2", "middle")
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}}
    priorities.post(PDBS, {"metadata": {"name": "db"}, "spec": spec})
    try:
        priorities.add_pod("vip", requests={"cpu": "1"}, priorityClassName="high")
        with priorities.running_poller() as poller:
            poller.says("default/vip is bound to n2")
        assert priorities.placement() == {"protected": "n1", "vip": "n2"}
    finally:
        priorities.api.delete(f"{PDBS}/db")


def test_pods_of_equal_priority_wait(priorities: Cluster) -> None:
    priorities.add_node("n1", cpu="1")
    run(priorities, "old", "n1", "high")
    priorities.add_pod("equal", requests={"cpu": "1"}, priorityClassName="high")
    done = priorities.poller()
    assert done.returncode == 3
    assert (
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod." in done.stderr
    )
    assert priorities.placement() == {"old": "n1", "equal": None}


def test_preemption_can_be_turned_off(priorities: Cluster) -> None:
    priorities.add_node("n1", cpu="1")
    run(priorities, "old", "n1", "low")
    priorities.add_pod("vip", requests={"cpu": "1"}, priorityClassName="high")
    done = priorities.poller("--no-preemption")
    assert done.returncode == 3
    said = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate"
    assert f"default/vip fits nowhere: {said}\n" in done.stderr
    assert priorities.placement() == {"old": "n1", "vip": None}


def test_a_dry_run_evicts_nobody(priorities: Cluster) -> None:
    priorities.add_node("n1", cpu="1")
    run(priorities, "old", "n1", "low")
    priorities.add_pod("vip", requests={"cpu": "1"}, priorityClassName="high")
    done = priorities.poller("--dry-run")
    assert done.returncode == 3
    assert "default/vip would preempt default/old on n1" in done.stderr
    assert priorities.placement() == {"old": "n1", "vip": None}
    assert "deletionTimestamp" not in priorities.pod("old")["metadata"]
    assert "nominatedNodeName" not in priorities.pod("vip")["status"]


HOLD = """
from lib.scheduling.status import wait

class Hold:
    name = "Hold"

    def permit(self, state, pod, node_name, waited):
        return wait("not yet", limit=600) if pod.metadata.name == "held" else None
"""


def test_a_pod_that_permit_holds_makes_room_without_being_deleted(
    priorities: Cluster, tmp_path: Path
) -> None:
    """Source: preemption.go, prepareCandidate: a waiting pod is rejected, not deleted."""
    (tmp_path / "hold.py").write_text(HOLD)
    priorities.add_node("n1", cpu="1")
    held = priorities.add_pod("held", requests={"cpu": "1"}, priorityClassName="low")
    with priorities.running_poller("--plugin", str(tmp_path / "hold.py")) as poller:
        poller.says("default/held has n1 held for it", within=30)
        priorities.add_pod("vip", requests={"cpu": "1"}, priorityClassName="high")
        poller.says("default/vip is bound to n1", within=30)
        poller.says("waiting on permit for pod: preempted", within=30)
        poller.says("default/held fits nowhere", within=30)
        eventually(lambda: priorities.events("Preempted"))
    assert priorities.placement() == {"held": None, "vip": "n1"}
    assert_still_there(priorities, held)


def assert_still_there(cluster: Cluster, pod: Json) -> None:
    """The pod was not deleted; if an event says that it was preempted, it says how."""
    now = cluster.pod(pod["metadata"]["name"])["metadata"]
    assert (now["uid"], now.get("deletionTimestamp")) == (pod["metadata"]["uid"], None)
    assert all(each["message"].endswith(" (in poller's memory).") for each in cluster.events("Preempted"))


POLLING_AND_WATCHING = pytest.mark.parametrize("how", [(), ("--watch",)], ids=["polling", "watching"])


@POLLING_AND_WATCHING
def test_a_pod_that_waits_for_its_volumes_makes_room_without_being_deleted(
    priorities: Cluster, how: tuple[str, ...]
) -> None:
    """Source: framework/preemption/executor.go: the victim's PodInPreBind is cancelled."""
    volumes = Volumes(priorities)
    try:
        volumes.add_class("slow", "example.com/slow")
        volumes.add_claim("data", "slow")
        priorities.add_node("n1", cpu="1")
        web = priorities.add_pod("web", requests={"cpu": "1"}, volumes=uses("data"), priorityClassName="low")
        with priorities.running_poller(*how) as poller:
            poller.says("default/web has n1 held for it")
            priorities.add_pod("vip", requests={"cpu": "1"}, priorityClassName="high")
            poller.says('running PreBind plugin "VolumeBinding": preempted by DefaultPreemption')
            poller.says("default/vip is bound to n1")
            eventually(lambda: priorities.events("Preempted"))
        assert priorities.placement() == {"web": None, "vip": "n1"}
        assert_still_there(priorities, web)
    finally:
        priorities.clear()
        volumes.clear()


@POLLING_AND_WATCHING
def test_a_pod_whose_binding_failed_makes_room_without_being_deleted(
    priorities: Cluster, how: tuple[str, ...]
) -> None:
    priorities.add_node("n1", cpu="1")
    web = priorities.add_pod("web", requests={"cpu": "1"}, priorityClassName="low")
    late = ("--pod-initial-backoff=600", "--pod-max-backoff=600", *how)
    with (
        faulty(priorities.proxy, Fault("POST", "/web/binding$", answer(500, "no"), ALWAYS)) as between,
        priorities.running_poller(*late, proxy=between.url) as poller,
    ):
        poller.says("default/web: binding failed")
        priorities.add_pod("vip", requests={"cpu": "1"}, priorityClassName="high")
        poller.says("default/vip is bound to n1")
    assert priorities.placement() == {"web": None, "vip": "n1"}
    assert_still_there(priorities, web)


def test_who_loses_a_nomination_is_told_so(priorities: Cluster) -> None:
    """It is tried again at once: maybe others make room for it. Source: preemption.go, prepareCandidate."""
    priorities.add_node("n1", cpu="2")
    leaving_slowly(priorities, "old-1", "old-2")
    priorities.add_pod("second", requests={"cpu": "1"}, priorityClassName="middle")
    with priorities.running_poller() as poller:
        eventually(lambda: nominated_node(priorities, "second") == "n1")
        priorities.add_pod("vip", requests={"cpu": "2"}, priorityClassName="high")
        eventually(lambda: nominated_node(priorities, "vip") == "n1")
        eventually(lambda: not nominated_node(priorities, "second"))
        poller.says("0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption:")


@POLLING_AND_WATCHING
def test_a_victim_may_stay_if_another_pod_goes_instead(priorities: Cluster, how: tuple[str, ...]) -> None:
    priorities.add_node("n1", cpu="3")
    olds = {"old-1", "old-2", "old-3"}
    leaving_slowly(priorities, *olds)
    priorities.add_pod("vip", requests={"cpu": "2"}, priorityClassName="high")

    def leaving() -> set[str]:
        return {name for name in olds if priorities.pod(name)["metadata"].get("deletionTimestamp")}

    def let_go(name: str) -> None:
        path = f"/api/v1/namespaces/default/pods/{name}"
        priorities.patch(path, {"metadata": {"finalizers": None}})
        priorities.api.delete(path, params={"gracePeriodSeconds": "0"})

    with priorities.running_poller(*how) as poller:
        eventually(lambda: len(leaving()) == 2)
        victims = leaving()
        let_go(*(olds - victims))
        poller.says("not eligible due to a terminating pod on the nominated node")
        let_go(victims.pop())
        poller.says("default/vip is bound to n1")
        assert priorities.pod(victims.pop())["metadata"]["deletionTimestamp"]


def leaving_slowly(cluster: Cluster, *names: str) -> None:
    """Pods on n1 that are still there after they were deleted."""
    for name in names:
        held = {"finalizers": ["example.com/hold"]}
        cluster.add_pod(name, requests={"cpu": "1"}, nodeName="n1", priorityClassName="low", metadata=held)


def test_a_pod_is_decided_on_again_when_a_victim_could_not_be_evicted(priorities: Cluster) -> None:
    """Source: framework/preemption/executor.go, prepareCandidateAsync: the preemptor is activated."""
    priorities.add_node("n1", cpu="1")
    run(priorities, "old", "n1", "low")
    priorities.add_pod("vip", requests={"cpu": "1"}, priorityClassName="high")
    refused = '{"kind": "Status", "status": "Failure", "message": "not this one"}'
    with (
        faulty(priorities.proxy, Fault("DELETE", "/pods/old$", answer(422, refused), times=2)) as between,
        priorities.running_poller(proxy=between.url) as poller,
    ):
        poller.says("422 not this one")
        eventually(lambda: not priorities.pod("vip")["status"].get("nominatedNodeName"), within=30)
        poller.says("default/vip is bound to n1")


def nominate(cluster: Cluster, pod: str, node: str | None) -> None:
    cluster.patch(f"/api/v1/namespaces/default/pods/{pod}/status", {"status": {"nominatedNodeName": node}})


def nominated_node(cluster: Cluster, pod: str) -> str:
    node_name: str = cluster.pod(pod)["status"].get("nominatedNodeName") or ""
    return node_name


@POLLING_AND_WATCHING
def test_a_nomination_that_leads_nowhere_does_not_block_its_room(
    priorities: Cluster, how: tuple[str, ...]
) -> None:
    """Source: clearNominatedNode in pkg/scheduler/schedule_one.go."""
    priorities.add_node("n1", cpu="2")
    priorities.add_pod("huge", requests={"cpu": "4"}, priorityClassName="high")
    nominate(priorities, "huge", "n1")
    priorities.add_pod("small", requests={"cpu": "1"}, priorityClassName="middle")
    with priorities.running_poller(*how) as poller:
        poller.says("default/small is bound to n1")
        eventually(lambda: not nominated_node(priorities, "huge"))


@POLLING_AND_WATCHING
def test_a_nominated_pod_keeps_its_room_from_less_important_ones_while_it_is_gated(
    priorities: Cluster, how: tuple[str, ...]
) -> None:
    """As kube-scheduler 1.36 was seen to do with the same objects."""
    priorities.add_node("n1", cpu="1")
    with priorities.running_poller(*how) as poller:
        gates = [{"name": "example.com/wait"}]
        priorities.add_pod("vip", requests={"cpu": "1"}, priorityClassName="high", schedulingGates=gates)
        poller.says("default/vip")
        nominate(priorities, "vip", "n1")
        priorities.add_pod("seen", requests={"cpu": "8"})
        poller.says("default/seen fits nowhere")  # so the nomination is seen, too
        priorities.add_pod("small", requests={"cpu": "1"}, priorityClassName="middle")
        poller.says("default/small fits nowhere")
        priorities.patch("/api/v1/namespaces/default/pods/vip", {"spec": {"schedulingGates": []}})
        poller.says("default/vip is bound to n1")


@POLLING_AND_WATCHING
def test_the_end_of_a_nomination_wakes_who_may_use_the_room(
    priorities: Cluster, how: tuple[str, ...]
) -> None:
    """Source: hasNominatedNodeNameChanged in pkg/scheduler/eventhandlers.go."""
    priorities.add_node("n1", cpu="2")
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    priorities.post(classes, {"metadata": {"name": "patient"}, "value": 100, "preemptionPolicy": "Never"})
    priorities.add_pod("huge", requests={"cpu": "4"}, priorityClassName="patient")
    priorities.api.delete(f"{classes}/patient")
    nominate(priorities, "huge", "n1")
    priorities.add_pod("small", requests={"cpu": "1"}, priorityClassName="middle")
    with priorities.running_poller(*how) as poller:
        poller.says("default/small fits nowhere")
        assert nominated_node(priorities, "huge") == "n1"  # it wasn't eligible to look for another
        nominate(priorities, "huge", None)
        poller.says("default/small is bound to n1")


def test_others_see_the_node_of_a_pod_that_permit_holds(priorities: Cluster, tmp_path: Path) -> None:
    """Source: bindingCycle in pkg/scheduler/schedule_one.go: WillWaitOnPermit."""
    (tmp_path / "hold.py").write_text(HOLD)
    priorities.add_node("n1", cpu="1")
    priorities.add_pod("held", requests={"cpu": "1"}, priorityClassName="low")
    with priorities.running_poller("--plugin", str(tmp_path / "hold.py")) as poller:
        eventually(lambda: nominated_node(priorities, "held") == "n1")
        priorities.add_pod("vip", requests={"cpu": "1"}, priorityClassName="high")
        poller.says("default/vip is bound to n1")
        eventually(lambda: not nominated_node(priorities, "held"))


@POLLING_AND_WATCHING
@pytest.mark.parametrize("end", ["deleted", "too late"])
def test_the_room_of_a_pod_that_waited_for_its_volumes_is_used_at_once(
    priorities: Cluster, how: tuple[str, ...], end: str
) -> None:
    """Those who wait for it are woken: also a preemptor whose other victim has left before.

    Source: handleAssumedPodDeletion in pkg/scheduler/eventhandlers.go; handleBindingCycleError.
    """
    volumes = Volumes(priorities)
    config = priorities.folder / "volumes.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: my-scheduler, pluginConfig: "
        f"[{{name: VolumeBinding, args: {{bindTimeoutSeconds: {5 if end == 'too late' else 600}}}}}]}}]\n"
    )
    try:
        volumes.add_class("slow", "example.com/slow")
        volumes.add_claim("data", "slow")
        priorities.add_node("n1", cpu="1")
        priorities.add_pod("web", requests={"cpu": "1"}, volumes=uses("data"), priorityClassName="high")
        with priorities.running_poller(*how, f"--config={config}") as poller:
            poller.says("default/web has n1 held for it")
            priorities.add_pod("other", requests={"cpu": "1"}, priorityClassName="high")
            poller.says("default/other fits nowhere")
            if end == "deleted":
                web = "/api/v1/namespaces/default/pods/web"
                priorities.api.delete(web, params={"gracePeriodSeconds": "0"})
            poller.says("default/other is bound to n1", within=15)
    finally:
        priorities.clear()
        volumes.clear()
