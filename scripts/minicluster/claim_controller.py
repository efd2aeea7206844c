"""A stand-in for the controller of resource claims: makes pods' claims, and frees those that nobody uses.

Source: pkg/controller/resourceclaim/controller.go
"""

from .api import Api
from .resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from .status import is_over, set_status
from .store import Object, Stored, WatchEvent

FINALIZER = "resource.kubernetes.io/delete-protection"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"


class ClaimController:
    """Its steps are taken by `Controllers`."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store

    def pod(self, pod: Stored) -> None:
        """Make the pod's claims of templates that exist, and write their names into its status."""
        if pod.metadata.get("deletionTimestamp") or is_over(pod):
            return
        namespace = pod.key[0]
        statuses = list(pod.content["status"].get("resourceClaimStatuses") or ())
        known = {each["name"] for each in statuses}
        for each in pod.content["spec"].get("resourceClaims") or ():
            wanted = each.get("resourceClaimTemplateName")
            template = wanted and self._store.get(RESOURCE_CLAIM_TEMPLATES, (namespace, wanted))
            if template and each["name"] not in known:
                made = self._of_pod(pod, each["name"]) or self._make(pod, each["name"], template)
                statuses.append({"name": each["name"], "resourceClaimName": made.key[1]})
        if len(statuses) > len(known):
            set_status(self._api, pod, {**pod.content["status"], "resourceClaimStatuses": statuses})

    def _of_pod(self, pod: Stored, name: str) -> Stored | None:
        """The claim that was made for a pod before, if its name isn't in the pod's status yet."""
        for claim in self._store.every(RESOURCE_CLAIMS, pod.key[0]):
            annotations = claim.metadata.get("annotations") or {}
            if annotations.get(POD_CLAIM_NAME) == name and _owner(claim) == pod.metadata["uid"]:
                return claim
        return None

    def _make(self, pod: Stored, name: str, template: Stored) -> Stored:
        namespace, pod_name = pod.key
        of_template = template.content["spec"].get("metadata") or {}
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod_name,
            "uid": pod.metadata["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        metadata = {
            "generateName": f"{pod_name}-{name}-",
            "labels": of_template.get("labels") or {},
            "annotations": {**(of_template.get("annotations") or {}), POD_CLAIM_NAME: name},
            "ownerReferences": [owner],
        }
        made = {"metadata": metadata, "spec": template.content["spec"]["spec"]}
        return self._api.create(RESOURCE_CLAIMS, namespace, made)

    def claim(self, claim: Stored) -> None:
        """Take pods that have finished or are gone out of `reservedFor`; free a claim that nobody uses."""
        status = claim.content.get("status") or {}
        consumers = status.get("reservedFor") or []
        pods = {pod.metadata["uid"]: pod for pod in self._store.every(PODS, claim.key[0])}
        using = [each for each in consumers if each["uid"] in pods and not is_over(pods[each["uid"]])]
        owner = pods.get(_owner(claim))
        if using != consumers:
            now: Object = {**status, "reservedFor": using} if using else {}
            set_status(self._api, claim, now)
        leaves = claim.metadata.get("deletionTimestamp") or (owner and is_over(owner))
        if leaves and not using:
            claim = self._api.find(RESOURCE_CLAIMS, claim.key)
            if (claim.content.get("status") or {}).get("allocation"):
                set_status(self._api, claim, {})
            self._api.update(RESOURCE_CLAIMS, claim.key, _without_finalizer)
            left = self._store.get(RESOURCE_CLAIMS, claim.key)
            if left and not left.metadata.get("deletionTimestamp"):
                self._api.delete(RESOURCE_CLAIMS, claim.key, {})

    def touched_by(self, event: WatchEvent) -> list[Stored]:
        """The objects to handle after an event, besides its own."""
        if event.resource == RESOURCE_CLAIM_TEMPLATES:
            return self._store.every(PODS, event.new.key[0])
        if event.resource == PODS and (event.kind == "DELETED" or is_over(event.new)):
            return self._store.every(RESOURCE_CLAIMS, event.new.key[0])
        return []


def _owner(claim: Stored) -> str:
    """The uid of the owner that controls a claim; "" if there is none."""
    owners = claim.metadata.get("ownerReferences") or ()
    return next((each["uid"] for each in owners if each.get("controller")), "")


def _without_finalizer(content: Object) -> Object:
    metadata = content["metadata"]
    metadata["finalizers"] = [each for each in metadata.get("finalizers") or () if each != FINALIZER]
    return content
