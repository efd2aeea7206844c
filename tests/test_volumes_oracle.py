"""The default profile decides as kube-scheduler 1.36 did, on 288 small clusters with volumes.

Each has a pod to be placed. The answers come from running the plugins; recorded ones are only compared with.
"""

import gzip
import json
import re
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from all_cases import check_each
from objects import read

from lib.kube.objects import Node, Pod
from lib.kube.storage import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.looked_up import LookedUp
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.plugins.volume_binding import VolumesState
from lib.scheduling.scheduling_cycle import Scheduler
from lib.scheduling.storage import Storage
from lib.scheduling.volumes.binder import assume_pod_volumes


@cache
def cases() -> list[dict[str, Any]]:
    file = Path(__file__).parent / "data" / "volumes-1.36.jsonl.gz"
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


NOT_OURS = "DynamicResources"
KINDS = {
    "pvcs": PersistentVolumeClaim,
    "pvs": PersistentVolume,
    "storageclasses": StorageClass,
    "csinodes": CSINode,
    "csidrivers": CSIDriver,
    "csistoragecapacities": CSIStorageCapacity,
    "volumeattachments": VolumeAttachment,
}


def cluster_of(case: dict[str, Any]) -> Cache:
    cache = Cache(
        [read(Node, each) for each in case["nodes"]],
        [read(Pod, each) for each in case["bound"] if not has_finished(each)],
        looked_up=LookedUp(case["namespaces"]),
    )
    cache.storage = Storage(read(kind, each) for key, kind in KINDS.items() for each in case[key])
    return cache


def has_finished(pod: dict[str, Any]) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def decide(case: dict[str, Any], cache: Cache) -> Decision:
    scheduler = Scheduler(default_profile("my-scheduler"), Random(case["seed"]))
    return scheduler.schedule_one(read(Pod, case["pod"]), cache)


def test_there_are_as_many_as_were_recorded() -> None:
    assert len(cases()) == 288


@pytest.mark.parametrize("part", range(4))
def test_decides_as_kube_scheduler(part: int) -> None:
    named = ((f"{case['focus']}-{case['seed']}", case) for case in cases()[part::4])
    check_each(named, decides_alike)


def decides_alike(case: dict[str, Any]) -> None:
    cache, answer = cluster_of(case), case["answer"]
    decision = decide(case, cache)
    if answer["outcome"] == "unschedulable":
        reason = {Outcome.UNSCHEDULABLE: "Unschedulable", Outcome.ERROR: "SchedulerError"}
        assert reason[decision.outcome] == answer["reason"]
        assert decision.message == without_dynamic_resources(answer["message"])
        return
    assert decision.outcome == Outcome.SCHEDULED
    assert sorted(decision.scores) == sorted(answer["feasible"])
    for node, scores in answer["scores"].items():
        assert decision.scores[node] == {name: score for name, score in scores.items() if name != NOT_OURS}
    assert decision.totals[answer["node"]] == max(decision.totals.values())
    kept: VolumesState | None = decision.state.get("VolumeBinding")
    by_node = kept.by_node if kept else {}
    assert {
        node: {claim.metadata.name: volume.metadata.name for claim, volume in by_node[node].static}
        for node in answer["feasible"]
        if node in by_node and by_node[node].static
    } == answer["matches"]
    # What it would write, had it picked the node that was picked then: another may be as good.
    would_wait = kept is not None and bool(kept.claims.delayed)
    assert would_wait == (not answer["bound"])
    selected: dict[str, str] = {}
    claimed: dict[str, Any] = {}
    prebound: list[str] = []
    if kept and would_wait:
        assumed = assume_pod_volumes(by_node[answer["node"]], answer["node"], cache.storage)
        given = by_node[answer["node"]]
        for unselected, claim in zip(given.provisions, assumed.provisions, strict=True):
            if claim is not unselected:
                selected[claim.metadata.name] = claim.metadata.annotations[SELECTED_NODE]
        for (_, free), (_, taken) in zip(given.static, assumed.static, strict=True):
            if free is taken:
                prebound.append(taken.metadata.name)
            else:
                claimed[taken.metadata.name] = written(taken)
    assert (selected, claimed, prebound) == (answer["selected"], answer["claimed"], answer["prebound"])


def written(volume: PersistentVolume) -> dict[str, Any]:
    bound_to = volume.spec.claim_ref
    assert bound_to
    return {
        "namespace": bound_to.namespace,
        "name": bound_to.name,
        "uid": bound_to.uid,
        "bound-by-controller": BOUND_BY_CONTROLLER in volume.metadata.annotations,
    }


def without_dynamic_resources(message: str) -> str:
    """DynamicResources fails there if a PreFilter plugin before it rejects the pod: "not found"."""
    return re.sub("(?<=\\.) not found$", "", message)
