"""A stand-in for the controllers of volumes: binds claims to volumes, makes volumes, and claims for pods.

Volumes are made only for classes of the provisioner `minicluster`, after a while: no other provisioner runs
here. Parameters of a class: `delay`, in seconds, and `failures`, how often it fails first for each claim.

Source: pkg/controller/volume/persistentvolume, and ephemeral; the CSI external-provisioner.
"""

import asyncio
from collections import Counter
from collections.abc import Callable

from .api import Api
from .resources import CLAIMS, NODES, STORAGE_CLASSES, VOLUMES
from .selectors import matches_selector
from .status import set_status
from .store import Key, Object, Stored, WatchEvent

PROVISIONER = "minicluster"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
HOSTNAME = "kubernetes.io/hostname"

UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


class VolumeController:
    """delay: seconds until a volume is made, where the class doesn't say."""

    def __init__(self, api: Api, delay: float) -> None:
        self._api = api
        self._store = api.store
        self._delay = delay
        self._provisioning: set[str] = set()  # uids of claims
        self._failed: Counter[str] = Counter()  # how often it failed, by the claim's uid

    # --- claims -----------------------------------------------------------------------------------------

    def claim(self, claim: Stored) -> None:
        """Take the next step towards a claim's volume."""
        if claim.metadata.get("deletionTimestamp"):
            return
        wanted = claim.content["spec"].get("volumeName")
        if wanted:
            volume = self._store.get(VOLUMES, ("", wanted))
            if volume and (_is_for(volume, claim) or not volume.content["spec"].get("claimRef")):
                self._bind(volume, claim)
            elif BIND_COMPLETED in _annotations(claim):
                self._say(claim, {"phase": "Lost"})
            return
        kept = [each for each in self._store.every(VOLUMES) if _is_for(each, claim)]
        found = kept or self._matching(claim)
        if found:
            self._bind(found[0], claim)
        else:
            self._begin_provisioning(claim)

    def _matching(self, claim: Stored) -> list[Stored]:
        """Free volumes, the smallest first; none for a claim that waits for a pod: the scheduler picks."""
        kind = self._class_of(claim)
        if kind and kind.content["volumeBindingMode"] == "WaitForFirstConsumer":
            return []
        spec = claim.content["spec"]
        free = [
            volume
            for volume in self._store.every(VOLUMES)
            if not (there := volume.content["spec"]).get("claimRef")
            and there.get("storageClassName", "") == spec.get("storageClassName", "")
            and there["volumeMode"] == spec["volumeMode"]
            and set(spec["accessModes"]) <= set(there["accessModes"])
            and _size(volume) >= _requested(claim)
            and ("selector" not in spec or matches_selector(spec["selector"], _labels(volume)))
        ]
        return sorted(free, key=_size)

    def _bind(self, volume: Stored, claim: Stored) -> None:
        """Write on both that they belong together, unless they have that already."""
        namespace, name = claim.key
        reference = {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": namespace,
            "name": name,
            "uid": claim.metadata["uid"],
        }

        def taken(content: Object) -> Object:
            if not _is_for(volume, claim):
                content["metadata"].setdefault("annotations", {})[BOUND_BY_CONTROLLER] = "yes"
            content["spec"]["claimRef"] = {**(content["spec"].get("claimRef") or {}), **reference}
            return content

        def given(content: Object) -> Object:
            annotations = content["metadata"].setdefault("annotations", {})
            annotations[BIND_COMPLETED] = "yes"
            if not content["spec"].get("volumeName"):
                annotations[BOUND_BY_CONTROLLER] = "yes"
            content["spec"]["volumeName"] = volume.key[1]
            return content

        self._api.update(VOLUMES, volume.key, taken)
        self._say(volume, {"phase": "Bound"})
        self._api.update(CLAIMS, claim.key, given)
        spec = volume.content["spec"]
        self._say(claim, {"phase": "Bound", "accessModes": spec["accessModes"], "capacity": spec["capacity"]})

    def _say(self, stored: Stored, status: Object) -> None:
        set_status(self._api, self._api.find(stored.resource, stored.key), status)

    # --- volumes ----------------------------------------------------------------------------------------

    def volume(self, volume: Stored) -> None:
        """Take the next step for a volume: by `claim` if it has one that exists."""
        claimed = volume.content["spec"].get("claimRef")
        if not claimed:
            self._say(volume, {"phase": "Available"})
            return
        claim = self._store.get(CLAIMS, (claimed.get("namespace", ""), claimed.get("name", "")))
        if claim and _is_for(volume, claim):
            self.claim(claim)
        elif not claimed.get("uid"):
            self._say(volume, {"phase": "Available"})
        elif volume.content["spec"]["persistentVolumeReclaimPolicy"] == "Delete":
            self._api.delete(VOLUMES, volume.key, {})
        else:
            self._say(volume, {"phase": "Released"})

    # --- provisioning -----------------------------------------------------------------------------------

    def _class_of(self, claim: Stored) -> Stored | None:
        return self._store.get(STORAGE_CLASSES, ("", claim.content["spec"].get("storageClassName", "")))

    def _begin_provisioning(self, claim: Stored) -> None:
        kind, uid = self._class_of(claim), claim.metadata["uid"]
        if not kind or kind.content["provisioner"] != PROVISIONER or uid in self._provisioning:
            return
        waits = kind.content["volumeBindingMode"] == "WaitForFirstConsumer"
        if waits and SELECTED_NODE not in _annotations(claim):
            return
        delay = float((kind.content.get("parameters") or {}).get("delay", self._delay))
        self._provisioning.add(uid)
        self._later(delay, self._provision, claim.key, uid)

    def _later(self, seconds: float, action: Callable[..., None], *args: object) -> None:
        asyncio.get_running_loop().call_later(seconds, action, *args)

    def _provision(self, key: Key, uid: str) -> None:
        self._provisioning.discard(uid)
        claim = self._store.get(CLAIMS, key)
        if not claim or claim.metadata["uid"] != uid or claim.content["spec"].get("volumeName"):
            return
        kind = self._class_of(claim)
        if not kind:
            return
        failures = int((kind.content.get("parameters") or {}).get("failures", 0))
        if self._failed[uid] < failures:
            self._failed[uid] += 1
            self._give_back(claim)
            return
        name = f"pvc-{uid}"
        if not self._store.get(VOLUMES, ("", name)):
            self._api.create(VOLUMES, "", self._volume_for(claim, kind, name))

    def _give_back(self, claim: Stored) -> None:
        """After a failure: the scheduler has to pick a node again."""

        def unselected(content: Object) -> Object:
            content["metadata"].get("annotations", {}).pop(SELECTED_NODE, None)
            return content

        self._api.update(CLAIMS, claim.key, unselected)

    def _volume_for(self, claim: Stored, kind: Stored, name: str) -> Object:
        spec, (namespace, claim_name) = claim.content["spec"], claim.key
        made: Object = {
            "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
            "spec": {
                "accessModes": spec["accessModes"],
                "capacity": {"storage": spec["resources"]["requests"]["storage"]},
                "storageClassName": kind.key[1],
                "volumeMode": spec["volumeMode"],
                "persistentVolumeReclaimPolicy": kind.content["reclaimPolicy"],
                "csi": {"driver": PROVISIONER, "volumeHandle": name},
                "claimRef": {
                    "kind": "PersistentVolumeClaim",
                    "apiVersion": "v1",
                    "namespace": namespace,
                    "name": claim_name,
                    "uid": claim.metadata["uid"],
                },
            },
        }
        node = self._store.get(NODES, ("", _annotations(claim).get(SELECTED_NODE, "")))
        if node:
            host = _labels(node).get(HOSTNAME, node.key[1])
            here = {"key": HOSTNAME, "operator": "In", "values": [host]}
            made["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
        return made

    # --- ephemeral volumes ------------------------------------------------------------------------------

    def pod(self, pod: Stored) -> None:
        """Make the claims of a pod's ephemeral volumes; they are deleted with the pod."""
        if pod.metadata.get("deletionTimestamp"):
            return
        namespace, name = pod.key
        for volume in pod.content["spec"].get("volumes") or ():
            template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
            key = namespace, f"{name}-{volume['name']}"
            if template and not self._store.get(CLAIMS, key):
                owner = {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": name,
                    "uid": pod.metadata["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
                metadata = {**(template.get("metadata") or {}), "name": key[1], "ownerReferences": [owner]}
                self._api.create(CLAIMS, namespace, {"metadata": metadata, "spec": template["spec"]})

    # --- what happened ----------------------------------------------------------------------------------

    def touched_by(self, event: WatchEvent) -> list[Stored]:
        """The objects to handle after an event, besides its own."""
        resource, stored = event.resource, event.new
        if resource == STORAGE_CLASSES:
            return [each for each in self._store.every(CLAIMS) if not each.content["spec"].get("volumeName")]
        if resource == VOLUMES and event.kind != "MODIFIED":
            return [each for each in self._store.every(CLAIMS) if _may_want(each, stored)]
        if resource == CLAIMS and event.kind == "DELETED":
            return [each for each in self._store.every(VOLUMES) if _is_for(each, stored)]
        return []


def _may_want(claim: Stored, volume: Stored) -> bool:
    return claim.content["spec"].get("volumeName") in (None, volume.key[1])


def _labels(stored: Stored) -> dict[str, str]:
    return stored.metadata.get("labels") or {}


def _annotations(stored: Stored) -> Object:
    return stored.metadata.get("annotations") or {}


def _is_for(volume: Stored, claim: Stored) -> bool:
    """Whether a volume is reserved for a claim."""
    kept_for = volume.content["spec"].get("claimRef") or {}
    return (kept_for.get("namespace"), kept_for.get("name")) == claim.key and kept_for.get("uid") in (
        None,
        claim.metadata["uid"],
    )


def _bytes(quantity: str) -> float:
    unit = quantity.lstrip("0123456789.")
    return float(quantity.removesuffix(unit)) * UNITS.get(unit, 1)


def _size(volume: Stored) -> float:
    return _bytes(volume.content["spec"]["capacity"]["storage"])


def _requested(claim: Stored) -> float:
    return _bytes(claim.content["spec"]["resources"]["requests"]["storage"])
