"""Pods that need devices are held, with a reason that says so."""

from random import Random

from objects import node, pod

from lib.scheduling.cache import Cache
from lib.scheduling.decision import Outcome
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.scheduling_cycle import Scheduler


def test_a_pod_with_resource_claims_is_held_and_told_why() -> None:
    scheduler, cluster = (
        Scheduler(default_profile("my-scheduler"), Random(1)),
        Cache([node("n1"), node("n2")]),
    )
    claiming = pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpus"}])
    decision = scheduler.schedule_one(claiming, cluster)
    assert (decision.outcome, decision.rejected_by) == (Outcome.UNSCHEDULABLE, {"DynamicResources"})
    said = "the pod has spec.resourceClaims, and poller can't allocate devices."
    assert decision.message == f"0/2 nodes are available: {said}"
    assert scheduler.schedule_one(pod("other"), cluster).outcome == Outcome.SCHEDULED
