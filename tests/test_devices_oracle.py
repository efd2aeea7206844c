"""The default profile decides as kube-scheduler 1.36 did, on 121 small clusters with devices.

Each has a pod to be placed. The answers come from running the plugins; recorded ones are only compared with.
"""

import gzip
import json
from datetime import datetime
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from all_cases import check_each
from objects import read

from lib.kube.claim_writes import reserve_claim
from lib.kube.devices import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from lib.kube.errors import ApiError, StatusError
from lib.kube.objects import Node, Pod
from lib.kube.resource_claims import UNNAMED, ReserveClaim
from lib.kube.write import Request, Write
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.devices.pod_devices import PodDevices
from lib.scheduling.handle import Handle
from lib.scheduling.looked_up import LookedUp
from lib.scheduling.plugins.dynamic_resources import DynamicResources
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.scheduling_cycle import Scheduler


@cache
def cases() -> list[dict[str, Any]]:
    file = Path(__file__).parent / "data" / "dra-decisions-1.36.jsonl.gz"
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


KINDS = {"resourceclaims": ResourceClaim, "deviceclasses": DeviceClass, "resourceslices": ResourceSlice}


class World:
    """A case's cluster and the scheduler; `decide` runs its cycle up to the binding."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.case, self.pod = case, read(Pod, case["pod"])
        self.now = datetime.fromisoformat(case["time"])
        self.cache = Cache(
            [read(Node, each) for each in case["nodes"]],
            [read(Pod, each) for each in case["bound"] if not has_finished(each)],
            looked_up=LookedUp(case["namespaces"]),
        )
        for key, kind in KINDS.items():
            for each in case[key]:
                self.cache.devices.put(read(kind, each))
        self.cache.knows_claims = True
        self.handle = Handle(Random(1), cache=self.cache, now=lambda: self.now)
        profile = default_profile("my-scheduler", handle=self.handle)
        self.server = ApiServer(case["resourceclaims"])
        self.scheduler = Scheduler(profile, Random(case["seed"]))

    def decide(self) -> Decision:
        return self.scheduler.schedule_one(self.pod, self.cache)

    def bind(self, decision: Decision) -> Decision:
        """Run PreBind, and write the claims. StatusError when the API server refuses that."""
        decision = self.scheduler.bind(decision, self.cache)
        while decision.outcome == Outcome.WAITING and decision.writes:
            for each in decision.writes:
                assert isinstance(each, ReserveClaim)
                written = self.server.carry_out(reserve_claim(each, self.now))
                self.cache.devices.written(written, each.claim.metadata.uid)
            decision = self.scheduler.bind(decision, self.cache)
        return decision


class ApiServer:
    """Carries out the writes of claims, and refuses what the real one refuses."""

    def __init__(self, claims: list[dict[str, Any]]) -> None:
        self.claims = {each["metadata"]["name"]: json.loads(json.dumps(each)) for each in claims}
        self.of_pod: dict[str, Any] = {}

    def carry_out(self, write: Write[ResourceClaim]) -> ResourceClaim:
        answer: Any = None
        while True:
            try:
                step = write.send(answer)
            except StopIteration as end:
                found: ResourceClaim = end.value
                return found
            assert isinstance(step, Request)
            try:
                answer = self.answer(step)
            except StatusError as error:
                write.throw(error)

    def answer(self, request: Request) -> ResourceClaim | None:
        body = json.loads(msgspec.json.encode(request.body))
        if "/pods/" in request.path:
            self.of_pod |= body["status"]
            return None
        if request.method == "POST":
            body["metadata"] |= {"name": body["metadata"]["generateName"] + "xxxxx", "uid": "made"}
            self.claims[UNNAMED] = body
            found: ResourceClaim = read(ResourceClaim, body)
            return found
        name = request.path.removesuffix("/status").rpartition("/")[2]
        claim = self.claims[name if name in self.claims else UNNAMED]
        metadata, status = claim["metadata"], claim.setdefault("status", {})
        if new := body["metadata"].get("finalizers"):
            metadata["finalizers"] = [*metadata.get("finalizers", ()), *new]
        now = body.get("status", {})
        if "allocation" in now:
            status["allocation"] = {**now["allocation"], "allocationTimestamp": "2026-01-01T00:00:00Z"}
        users = [*status.get("reservedFor", ()), *now.get("reservedFor", ())]
        if len(users) > 256:
            error = StatusError("422")
            error.said = (
                f'ResourceClaim.resource.k8s.io "{name}" is invalid: status.reservedFor: Too many: '
                f"{len(users)}: must have at most 256 items"
            )
            raise error
        status["reservedFor"] = users
        after: ResourceClaim = read(ResourceClaim, claim)
        return after


def has_finished(pod: dict[str, Any]) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def test_there_are_as_many_as_were_recorded() -> None:
    assert len(cases()) == 121


@pytest.mark.parametrize("part", range(4))
def test_decides_as_kube_scheduler(part: int) -> None:
    named = ((f"{case['focus']}-{case['seed']}", case) for case in cases()[part::4])
    check_each(named, decides_alike)


def decides_alike(case: dict[str, Any]) -> None:
    world, answer = World(case), case["answer"]
    held = DynamicResources(handle=world.handle).pre_enqueue(world.pod)
    if answer["outcome"] == "held":
        assert held
        assert held.reasons == (answer["message"],)
        return
    assert held is None
    decision = world.decide()
    if "running PreBind plugin" in answer.get("message", ""):
        with pytest.raises(ApiError) as refused:
            world.bind(decision)
        assert answer["message"] == f'running PreBind plugin "DynamicResources": {refused.value}'
        return
    if answer["outcome"] == "unschedulable":
        reason = {Outcome.UNSCHEDULABLE: "Unschedulable", Outcome.ERROR: "SchedulerError"}
        said = {answer["message"], *answer.get("alsoMessages", ())}
        assert decision.message in said
        assert reason[decision.outcome] == answer["reason"]
        assert len(decision.victims) == len(answer.get("victims", ()))
        return
    assert decision.outcome == Outcome.SCHEDULED, decision.message
    assert sorted(decision.scores) == sorted(answer["feasible"])
    for node, scores in answer["scores"].items():
        assert decision.scores[node] == scores
    assert decision.totals[answer["node"]] == max(decision.totals.values())
    devices: PodDevices = decision.state["DynamicResources"]
    names = names_of(world.pod)
    for node, expected in answer["allocations"].items():
        found = devices.by_node.get(node)
        allocated = {
            names.get(claim.metadata.name, UNNAMED): allocation
            for claim, allocation in (zip(found.claims, found.allocations, strict=True) if found else ())
        } | {
            names[each.metadata.name]: each.status.allocation
            for each in devices.claims
            if each.status.allocation
        }
        assert as_recorded(allocated) == expected
    bound = world.bind(decision)
    assert (bound.outcome == Outcome.SCHEDULED) == answer["bound"], bound.message
    for name, expected in answer["claims"].items():
        own = {of_pod: name for name, of_pod in names.items()}.get(name, name)
        claim = world.server.claims[own]
        users = claim["status"]["reservedFor"]
        assert claim["metadata"]["finalizers"] == expected["finalizers"]
        assert [{**each, "uid": "@pod"} for each in users][-1] == expected["reservedFor"][-1]
        assert len(users) == len(expected["reservedFor"])
        if name == UNNAMED:
            assert claim["spec"] == expected["spec"]
            assert claim["metadata"]["annotations"] == expected["annotations"]
            assert claim["metadata"]["generateName"] == expected["generateName"]
            owners = [{**each, "uid": None} for each in claim["metadata"]["ownerReferences"]]
            assert owners == [{**each, "uid": None} for each in expected["owners"]]
            about = world.server.of_pod["extendedResourceClaimStatus"]
            assert about["requestMappings"] == expected["mappings"]


def names_of(pod: Pod) -> dict[str, str]:
    """The pod's names for its claims, by the claims' own names."""
    made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    return {each.resource_claim_name or made[each.name] or "": each.name for each in pod.spec.resource_claims}


def as_recorded(allocated: dict[str, AllocationResult]) -> dict[str, Any]:
    """As the records have it: shares are numbered, and the time is that of the writing."""
    found: dict[str, Any] = json.loads(msgspec.json.encode(allocated))
    for allocation in found.values():
        allocation["allocationTimestamp"] = "@now"
        shares: dict[str, str] = {}
        for result in allocation["devices"]["results"]:
            if share := result.get("shareID"):
                result["shareID"] = shares.setdefault(share, f"@{len(shares) + 1}")
    return found
