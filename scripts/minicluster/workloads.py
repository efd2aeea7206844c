"""The controllers of Deployments and ReplicaSets: create pods of a template, and roll out a new one.

https://kubernetes.io/docs/concepts/workloads/controllers/deployment/
"""

import hashlib
import json
import math

from .api import SAFE_LETTERS, Api
from .resources import DEPLOYMENTS, PODS, REPLICA_SETS
from .status import add_condition, is_over, is_ready, set_status, share
from .store import Key, Object, Stored

REVISION = "deployment.kubernetes.io/revision"
HASH = "pod-template-hash"


class Workloads:
    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store

    def deployment(self, deployment: Stored) -> None:
        spec = deployment.content["spec"]
        owned = [
            one for one in self._store.owned_by(deployment.metadata["uid"]) if one.resource == REPLICA_SETS
        ]
        digest = _digest(spec["template"])
        name = f"{deployment.key[1]}-{digest}"
        newest = next((one for one in owned if one.key[1] == name), None)
        revision = 1 + max((_revision(one) for one in owned if one is not newest), default=0)
        if not newest:
            newest = self._new_replica_set(deployment, name, digest, revision)
        elif _revision(newest) < revision:  # an older template again, as after `kubectl rollout undo`
            newest = self._annotate(newest, str(revision))
        older = [one for one in owned if one.key != newest.key and one.content["spec"]["replicas"]]
        if not spec.get("paused"):
            self._roll(spec, newest, older)
        self._annotate(deployment, str(_revision(newest)))
        self._report(deployment.key)

    def _new_replica_set(self, deployment: Stored, name: str, digest: str, revision: int) -> Stored:
        spec = deployment.copy()["spec"]
        spec["template"]["metadata"].setdefault("labels", {})[HASH] = digest
        spec["selector"].setdefault("matchLabels", {})[HASH] = digest
        content = {
            "metadata": {
                "name": name,
                "labels": spec["template"]["metadata"]["labels"],
                "annotations": {REVISION: str(revision)},
                "ownerReferences": [_owner(deployment)],
            },
            "spec": {"replicas": 0, "selector": spec["selector"], "template": spec["template"]},
        }
        return self._api.create(REPLICA_SETS, deployment.key[0], content)

    def _roll(self, spec: Object, newest: Stored, older: list[Stored]) -> None:
        """A step of a rollout, within maxSurge (most pods) and maxUnavailable (least available pods)."""
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
        most = wanted + share(rolling.get("maxSurge", 0), wanted, math.ceil)
        least = wanted - share(rolling.get("maxUnavailable", 0), wanted, math.floor)
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

    def _annotate(self, stored: Stored, revision: str) -> Stored:
        def annotated(content: Object) -> Object:
            content["metadata"].setdefault("annotations", {})[REVISION] = revision
            return content

        return self._api.update(stored.resource, stored.key, annotated)

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
        enough = missing <= share(
            (spec["strategy"].get("rollingUpdate") or {}).get("maxUnavailable", 0),
            spec["replicas"],
            math.floor,
        )
        done = missing == 0 and updated == counts["replicas"] == spec["replicas"]
        add_condition(fresh, "Available", enough, "MinimumReplicasAvailable", "MinimumReplicasUnavailable")
        progressing = "NewReplicaSetAvailable" if done else "ReplicaSetUpdated"
        add_condition(fresh, "Progressing", True, progressing, progressing)
        set_status(self._api, deployment, fresh)

    def replica_set(self, replica_set: Stored) -> None:
        namespace, name = replica_set.key
        spec = replica_set.content["spec"]
        owned = [one for one in self._store.owned_by(replica_set.metadata["uid"]) if one.resource == PODS]
        pods = [pod for pod in owned if not pod.metadata.get("deletionTimestamp") and not is_over(pod)]
        for _ in range(spec["replicas"] - len(pods)):
            template = replica_set.copy()["spec"]["template"]
            metadata = {
                "generateName": f"{name}-",
                **template["metadata"],
                "ownerReferences": [_owner(replica_set)],
            }
            pods.append(self._api.create(PODS, namespace, {"metadata": metadata, "spec": template["spec"]}))
        # Pods without a node are deleted first, then those that aren't ready, then the youngest.
        pods.sort(
            key=lambda pod: ("nodeName" in pod.content["spec"], is_ready(pod), -pod.version), reverse=True
        )
        for pod in pods[spec["replicas"] :]:
            self._api.delete(PODS, pod.key, {})
        kept = pods[: spec["replicas"]]
        ready = sum(is_ready(pod) for pod in kept)
        counts = {"fullyLabeledReplicas": len(kept), "readyReplicas": ready, "availableReplicas": ready}
        generation = replica_set.metadata["generation"]
        status = {"replicas": len(kept), **_counted(counts), "observedGeneration": generation}
        set_status(self._api, replica_set, status)


def _revision(replica_set: Stored) -> int:
    return int((replica_set.metadata.get("annotations") or {}).get(REVISION, 0))


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
        number, at = divmod(number, len(SAFE_LETTERS))
        letters += SAFE_LETTERS[at]
    return letters


def _counted(counts: dict[str, int]) -> Object:
    """A count of zero isn't written."""
    return {field: count for field, count in counts.items() if count}
