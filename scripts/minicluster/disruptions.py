"""Disruption budgets: counts again at each change how many of their pods may be disrupted.

https://kubernetes.io/docs/tasks/run-application/configure-pdb/
"""

import math

from .api import Api
from .resources import PODS, REPLICA_SETS
from .selectors import matches_selector
from .status import add_condition, is_over, is_ready, set_status, share
from .store import Stored


class Disruptions:
    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store

    def budget(self, budget: Stored) -> None:
        namespace, spec = budget.key[0], budget.content.get("spec") or {}
        pods = [
            pod
            for pod in self._store.every(PODS, namespace)
            if matches_selector(spec.get("selector"), pod.metadata.get("labels") or {}) and not is_over(pod)
        ]
        expected = self._expected(pods)
        healthy = sum(is_ready(pod) and not pod.metadata.get("deletionTimestamp") for pod in pods)
        if "maxUnavailable" in spec:
            desired = max(0, expected - share(spec["maxUnavailable"], expected, math.ceil))
        else:
            desired = share(spec.get("minAvailable", 0), expected, math.ceil)
        allowed = max(0, healthy - desired)
        status = {
            "conditions": budget.content["status"].get("conditions", []),
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "disruptionsAllowed": allowed,
            "expectedPods": expected,
            "observedGeneration": budget.metadata["generation"],
        }
        add_condition(status, "DisruptionAllowed", allowed > 0, "SufficientPods", "InsufficientPods")
        set_status(self._api, budget, status)

    def _expected(self, pods: list[Stored]) -> int:
        """How many pods are expected: the replicas of their replica sets, and each pod without one."""
        wanted = {}
        for pod in pods:
            owners = pod.metadata.get("ownerReferences") or []
            name = next((owner["name"] for owner in owners if owner["kind"] == "ReplicaSet"), None)
            owner = self._store.get(REPLICA_SETS, (pod.key[0], name)) if name else None
            wanted[owner.key if owner else pod.metadata["uid"]] = (
                owner.content["spec"]["replicas"] if owner else 1
            )
        return sum(wanted.values())
