"""Replaces names in a recording by hashes: the same name by the same hash, so that selectors still select.

Every text is replaced, but for those that are listed here: words, numbers and names of Kubernetes itself.
"""

import re
import secrets
from hashlib import blake2b
from typing import Any

KEPT_FIELDS = frozenset(
    {
        *("kind", "apiVersion", "creationTimestamp", "schedulerName", "preemptionPolicy", "phase"),
        *("operator", "effect", "whenUnsatisfiable", "nodeAffinityPolicy", "nodeTaintsPolicy"),
        *("protocol", "restartPolicy", "action", "accessModes", "volumeBindingMode", "declaredFeatures"),
    }
)
"""Fields with words of Kubernetes' own, and the scheduler's name, by which a profile is found."""

AMOUNTS = frozenset(
    {"requests", "limits", "overhead", "podFixed", "allocatable", "allocatedResources", "capacity"}
)
"""Maps with quantities: only the names of device classes are replaced in their keys, and no values."""

MAPS = frozenset(["annotations", "labels", "matchLabels", "nodeSelector", "selector"])
"""Maps with names on both sides."""

NUMBERS = re.compile(r"metadata\.name|0\.0\.0\.0||\d{1,6}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
"""Texts that stay: the name of a field, short numbers, which a selector may compare, and times, such as that
of a namespace's deletion."""

_WELL_KNOWN = """
kubernetes.io arch config.hash config.mirror config.seen config.source hostname metadata.name os
kubernetes.io aws-ebs azure-disk azure-file cinder gce-pd no-provisioner portworx-volume vsphere-volume
kubernetes.io pv-protection pvc-protection
app.kubernetes.io component created-by instance managed-by name part-of version
apps.kubernetes.io pod-index
batch.kubernetes.io controller-uid cronjob-scheduled-timestamp job-completion-index job-name job-tracking
beta.kubernetes.io arch instance-type os
failure-domain.beta.kubernetes.io region zone
node.cloudprovider.kubernetes.io shutdown uninitialized
node.kubernetes.io disk-pressure instance-type memory-pressure network-unavailable not-ready out-of-service
node.kubernetes.io pid-pressure unreachable unschedulable
node-role.kubernetes.io control-plane master worker
pod-security.kubernetes.io audit enforce enforce-version warn
pv.kubernetes.io bind-completed bound-by-controller migrated-to provisioned-by
resource.kubernetes.io delete-protection extended-resource-claim pod-claim-name
scheduling.x-k8s.io pod-group
statefulset.kubernetes.io pod-name
storage.alpha.kubernetes.io migrated-plugins
storageclass.beta.kubernetes.io is-default-class
storageclass.kubernetes.io is-default-class
topology.kubernetes.io region zone
volume.beta.kubernetes.io storage-class storage-provisioner
volume.kubernetes.io selected-node storage-provisioner
"""
"""Domains and names of Kubernetes' own; its documentation calls most of them well-known. Other names below
these domains, such as that of a node's role, and other domains below kubernetes.io, were chosen by people."""

DOMAINS = {line.split()[0] for line in _WELL_KNOWN.split("\n") if line}
WELL_KNOWN = {
    f"{domain}/{name}" for domain, *names in map(str.split, _WELL_KNOWN.strip().split("\n")) for name in names
}

OF_A_CLASS = "deviceclass.resource.kubernetes.io/"
"""So begins the resource that stands for the devices of a class; its name follows."""


class Hashing:
    """Hashes names with a key of its own, so that nobody finds them by hashing guesses."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def of(self, text: str) -> str:
        """The hash of a name; a valid name itself."""
        if text in WELL_KNOWN or NUMBERS.fullmatch(text):
            return text
        domain, _, _ = text.rpartition("/")
        hashed = f"x{blake2b(text.encode(), key=self._key, digest_size=6).hexdigest()}"
        return f"{domain}/{hashed}" if domain in DOMAINS else hashed

    def body(self, value: Any, field: str = "") -> Any:
        """An object, or a part of one, with all names replaced. field: whose value it is."""
        if isinstance(value, str):
            return value if field in KEPT_FIELDS else self.of(value)
        if isinstance(value, list | tuple):
            return [
                self._owner(inner) if field == "ownerReferences" else self.body(inner, field)
                for inner in value
            ]
        if not isinstance(value, dict):
            return value
        if field in AMOUNTS:
            return {self._resource(name): amount for name, amount in value.items()}
        if field in MAPS:
            return {self.of(key): self.body(inner) for key, inner in value.items()}
        return {key: self.body(inner, key) for key, inner in value.items()}

    def _resource(self, name: str) -> str:
        return OF_A_CLASS + self.of(name.removeprefix(OF_A_CLASS)) if name.startswith(OF_A_CLASS) else name

    def _owner(self, owner: dict[str, Any]) -> dict[str, Any]:
        """An owner. Its kind is a name, too, if it isn't one of Kubernetes' own."""
        hashed: dict[str, Any] = self.body(owner)
        domain = str(owner.get("apiVersion", "")).rpartition("/")[0]
        if "." in domain and not domain.endswith(".k8s.io"):
            hashed["kind"], hashed["apiVersion"] = self.of(owner["kind"]), self.of(owner["apiVersion"])
        return hashed
