"""Stand-ins for the controllers whose work a scheduler meets: deployments, replica sets, disruption budgets,
garbage collection, namespaces.

Each looks at what is there and takes the next step towards what is wanted; the change that this makes calls
it again.
"""

import asyncio
import hashlib
import json
import math
from typing import Any

from .api import Api, set_condition
from .errors import ApiError
from .resources import (
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    RESOURCES,
    Resource,
)
from .selectors import matches_selector
from .store import Event, Key, Object, Stored

PAUSE = 0.02  # seconds in which changes are gathered, so that a hundred of them are looked at once
RETRY = 1.0  # seconds until what failed is tried again
REVISION = "deployment.kubernetes.io/revision"
HASH = "pod-template-hash"
HASH_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


class Controllers:
    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store
        self._waiting: dict[tuple[Resource, Key], None] = {}  # in the order in which they came
        self._woken = asyncio.Event()
        api.store.listen(self._on_event)

    async def run(self) -> None:
        reconcile = {
            DEPLOYMENTS: self._deployment,
            REPLICA_SETS: self._replica_set,
            DISRUPTION_BUDGETS: self._disruption_budget,
            NAMESPACES: self._namespace,
        }
        while True:
            await self._woken.wait()
            self._woken.clear()
            await asyncio.sleep(PAUSE)
            waiting, self._waiting = self._waiting, {}
            for resource, key in waiting:
                stored = self._store.get(resource, key)
                if stored:
                    try:
                        reconcile[resource](stored)
                    except ApiError as error:  # such as a template that names no priority class there is
                        self._blame(stored, str(error))
                        asyncio.get_running_loop().call_later(RETRY, self._wake, resource, key)

    def _on_event(self, event: Event) -> None:
        resource, stored = event.resource, event.new
        if resource in (DEPLOYMENTS, REPLICA_SETS, DISRUPTION_BUDGETS, NAMESPACES):
            self._wake(resource, stored.key)
        if resource in (PODS, REPLICA_SETS):
            for owner in stored.metadata.get("ownerReferences") or ():
                kind = {"ReplicaSet": REPLICA_SETS, "Deployment": DEPLOYMENTS}.get(owner["kind"])
                if kind:
                    self._wake(kind, (stored.key[0], owner["name"]))
        if resource == PODS:
            for budget in self._store.every(DISRUPTION_BUDGETS, stored.key[0]):
                self._wake(DISRUPTION_BUDGETS, budget.key)
        if event.kind == "DELETED":
            asyncio.get_running_loop().call_soon(self._collect, stored.metadata["uid"])

    def _wake(self, resource: Resource, key: Key) -> None:
        self._waiting[resource, key] = None
        self._woken.set()

    def _collect(self, uid: str) -> None:
        """Garbage: what an owner leaves behind goes with it."""
        for dependent in self._store.owned_by(uid):
            self._api.delete(dependent.resource, dependent.key, {})

    # Deployments: https://kubernetes.io/docs/concepts/workloads/controllers/deployment/

    def _deployment(self, deployment: Stored) -> None:
        spec = deployment.content["spec"]
        owned = [
            one for one in self._store.owned_by(deployment.metadata["uid"]) if one.resource == REPLICA_SETS
        ]
        digest = _digest(spec["template"])
        name = f"{deployment.key[1]}-{digest}"
        newest = next((one for one in owned if one.key[1] == name), None)
        if not newest:
            newest = self._new_replica_set(deployment, name, digest, owned)
        older = [one for one in owned if one.key != newest.key and one.content["spec"]["replicas"]]
        if not spec.get("paused"):
            self._roll(spec, newest, older)
        self._annotate(deployment, newest.metadata["annotations"][REVISION])
        self._report(deployment.key)

    def _new_replica_set(self, deployment: Stored, name: str, digest: str, owned: list[Stored]) -> Stored:
        spec = deployment.copy()["spec"]
        spec["template"]["metadata"].setdefault("labels", {})[HASH] = digest
        spec["selector"].setdefault("matchLabels", {})[HASH] = digest
        revisions = [int(one.metadata.get("annotations", {}).get(REVISION, 0)) for one in owned]
        content = {
            "metadata": {
                "name": name,
                "labels": spec["template"]["metadata"]["labels"],
                "annotations": {REVISION: str(max(revisions, default=0) + 1)},
                "ownerReferences": [_owner(deployment)],
            },
            "spec": {"replicas": 0, "selector": spec["selector"], "template": spec["template"]},
        }
        return self._api.create(REPLICA_SETS, deployment.key[0], content)

    def _roll(self, spec: Object, newest: Stored, older: list[Stored]) -> None:
        """Never more pods than maxSurge allows, never fewer available ones than maxUnavailable does."""
        wanted, strategy = spec["replicas"], spec["strategy"]
        rolling = strategy.get("rollingUpdate") or {}
        have = newest.content["spec"]["replicas"]
        old = sum(one.content["spec"]["replicas"] for one in older)
        if strategy["type"] == "Recreate":
            for one in older:
                self._scale(one, 0)
            left = sum(one.content["status"].get("replicas", 0) for one in older)
            if not left:
                self._scale(newest, wanted)
            return
        most = wanted + _share(rolling.get("maxSurge", 0), wanted, math.ceil)
        least = wanted - _share(rolling.get("maxUnavailable", 0), wanted, math.floor)
        if have > wanted or not older:
            self._scale(newest, wanted)
        elif have < wanted:
            self._scale(newest, have + max(0, min(wanted - have, most - have - old)))
        available = sum(one.content["status"].get("availableReplicas", 0) for one in [newest, *older])
        unhealthy = sum(
            one.content["spec"]["replicas"] - one.content["status"].get("availableReplicas", 0)
            for one in older
        )
        may_go = max(0, available - least) + unhealthy
        for one in older:
            replicas = one.content["spec"]["replicas"]
            fewer = min(replicas, may_go)
            self._scale(one, replicas - fewer)
            may_go -= fewer

    def _scale(self, replica_set: Stored, replicas: int) -> None:
        def scaled(content: Object) -> Object:
            content["spec"]["replicas"] = replicas
            return content

        self._api.update(REPLICA_SETS, replica_set.key, scaled)

    def _annotate(self, deployment: Stored, revision: str) -> None:
        def annotated(content: Object) -> Object:
            content["metadata"].setdefault("annotations", {})[REVISION] = revision
            return content

        self._api.update(DEPLOYMENTS, deployment.key, annotated)

    def _report(self, key: Key) -> None:
        deployment = self._api.find(DEPLOYMENTS, key)
        spec, status = deployment.content["spec"], dict(deployment.content["status"])
        sets = [
            one for one in self._store.owned_by(deployment.metadata["uid"]) if one.resource == REPLICA_SETS
        ]
        counts = {
            field: sum(one.content["status"].get(field, 0) for one in sets)
            for field in ("replicas", "readyReplicas", "availableReplicas")
        }
        newest = f"{key[1]}-{_digest(spec['template'])}"
        updated = sum(one.content["status"].get("replicas", 0) for one in sets if one.key[1] == newest)
        missing = max(0, spec["replicas"] - counts["availableReplicas"])
        fresh: Object = {
            "observedGeneration": deployment.metadata["generation"],
            **_counted(counts | {"updatedReplicas": updated, "unavailableReplicas": missing}),
            "conditions": status.get("conditions", []),
        }
        enough = missing <= _share(
            (spec["strategy"].get("rollingUpdate") or {}).get("maxUnavailable", 0),
            spec["replicas"],
            math.floor,
        )
        done = missing == 0 and updated == counts["replicas"] == spec["replicas"]
        _condition(fresh, "Available", enough, "MinimumReplicasAvailable", "MinimumReplicasUnavailable")
        progressing = "NewReplicaSetAvailable" if done else "ReplicaSetUpdated"
        _condition(fresh, "Progressing", True, progressing, progressing)
        self._set_status(deployment, fresh)

    # Replica sets

    def _replica_set(self, replica_set: Stored) -> None:
        namespace, name = replica_set.key
        spec = replica_set.content["spec"]
        owned = [one for one in self._store.owned_by(replica_set.metadata["uid"]) if one.resource == PODS]
        pods = [pod for pod in owned if not pod.metadata.get("deletionTimestamp") and not _is_over(pod)]
        for _ in range(spec["replicas"] - len(pods)):
            template = replica_set.copy()["spec"]["template"]
            metadata = {
                "generateName": f"{name}-",
                **template["metadata"],
                "ownerReferences": [_owner(replica_set)],
            }
            pods.append(self._api.create(PODS, namespace, {"metadata": metadata, "spec": template["spec"]}))
        # Pods without a node go first, then those that aren't ready, then the youngest.
        pods.sort(
            key=lambda pod: ("nodeName" in pod.content["spec"], _is_ready(pod), -pod.version), reverse=True
        )
        for pod in pods[spec["replicas"] :]:
            self._api.delete(PODS, pod.key, {})
        kept = pods[: spec["replicas"]]
        ready = sum(_is_ready(pod) for pod in kept)
        counts = {"fullyLabeledReplicas": len(kept), "readyReplicas": ready, "availableReplicas": ready}
        generation = replica_set.metadata["generation"]
        status = {"replicas": len(kept), **_counted(counts), "observedGeneration": generation}
        self._set_status(replica_set, status)

    # Disruption budgets: https://kubernetes.io/docs/tasks/run-application/configure-pdb/

    def _disruption_budget(self, budget: Stored) -> None:
        namespace, spec = budget.key[0], budget.content["spec"]
        pods = [
            pod
            for pod in self._store.every(PODS, namespace)
            if matches_selector(spec.get("selector"), pod.metadata.get("labels") or {}) and not _is_over(pod)
        ]
        expected = self._expected(pods)
        healthy = sum(_is_ready(pod) and not pod.metadata.get("deletionTimestamp") for pod in pods)
        if "maxUnavailable" in spec:
            desired = max(0, expected - _share(spec["maxUnavailable"], expected, math.ceil))
        else:
            desired = _share(spec.get("minAvailable", 0), expected, math.ceil)
        allowed = max(0, healthy - desired)
        status = {
            "conditions": budget.content["status"].get("conditions", []),
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "disruptionsAllowed": allowed,
            "expectedPods": expected,
            "observedGeneration": budget.metadata["generation"],
        }
        _condition(status, "DisruptionAllowed", allowed > 0, "SufficientPods", "InsufficientPods")
        self._set_status(budget, status)

    def _expected(self, pods: list[Stored]) -> int:
        """A pod on its own counts as one; with those of a replica set, count those that it wants."""
        wanted = {}
        for pod in pods:
            owners = pod.metadata.get("ownerReferences") or []
            name = next((owner["name"] for owner in owners if owner["kind"] == "ReplicaSet"), None)
            owner = self._store.get(REPLICA_SETS, (pod.key[0], name)) if name else None
            wanted[owner.key if owner else pod.metadata["uid"]] = (
                owner.content["spec"]["replicas"] if owner else 1
            )
        return sum(wanted.values())

    # Namespaces

    def _namespace(self, namespace: Stored) -> None:
        if not namespace.metadata.get("deletionTimestamp"):
            return
        for resource in RESOURCES:
            if resource.namespaced:
                for stored in self._store.every(resource, namespace.key[1]):
                    self._api.delete(resource, stored.key, {"gracePeriodSeconds": 0})
        self._api.finish_delete(namespace)

    def _set_status(self, stored: Stored, status: Object) -> None:
        def with_status(content: Object) -> Object:
            return {**content, "status": status}

        self._api.update(stored.resource, stored.key, with_status, "status")

    def _blame(self, stored: Stored, message: str) -> None:
        """Say on the object why nothing more happens to it."""
        status = dict(stored.content.get("status") or {})
        _condition(status, "ReplicaFailure", True, "FailedCreate", "")
        status["conditions"][-1]["message"] = message
        self._set_status(stored, status)


def _owner(stored: Stored) -> Object:
    return {
        "apiVersion": stored.resource.group_version,
        "kind": stored.resource.kind,
        "name": stored.key[1],
        "uid": stored.metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _digest(template: Object) -> str:
    number = int(hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest(), 16)
    letters = ""
    while len(letters) < 10:
        number, at = divmod(number, len(HASH_LETTERS))
        letters += HASH_LETTERS[at]
    return letters


def _share(value: Any, whole: int, rounded: Any) -> int:
    """A number as it is, or a percentage of the whole."""
    if isinstance(value, str) and value.endswith("%"):
        return int(rounded(int(value[:-1]) * whole / 100))
    return int(value)


def _counted(counts: dict[str, int]) -> Object:
    """A count of zero isn't written."""
    return {field: count for field, count in counts.items() if count}


def _condition(status: Object, kind: str, true: bool, reason: str, otherwise: str) -> None:
    said = {"type": kind, "status": str(true), "reason": reason if true else otherwise}
    set_condition(status, said)


def _is_ready(pod: Stored) -> bool:
    conditions = pod.content["status"].get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _is_over(pod: Stored) -> bool:
    return pod.content["status"]["phase"] in ("Succeeded", "Failed")
