"""The volumes for which a pod waits: another program is to provision them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lib.kube.objects import Pod
from lib.kube.storage import NO_PROVISIONER, SELECTED_NODE, WAIT_FOR_FIRST_CONSUMER, PersistentVolumeClaim
from lib.questions.events import Said, last_said_of
from lib.questions.snapshot import Snapshot
from lib.scheduling.storage import Storage
from lib.scheduling.volumes.claims import existing_claims


@dataclass(frozen=True)
class ToProvision:
    """A claim that waits for its volume.

    node: the one that was selected for it; "" for any. said: its last event.
    """

    claim: str
    storage_class: str
    provisioner: str
    node: str
    said: Said | None

    @property
    def text(self) -> str:
        """Who is to make the volume, for which claim and where."""
        where = f" for {self.node}" if self.node else ""
        return f"{self.provisioner} is to provision claim {self.claim} (class {self.storage_class}){where}"

    def as_json(self) -> dict[str, Any]:
        """The whole of it."""
        return {
            "claim": self.claim,
            "class": self.storage_class,
            "provisioner": self.provisioner,
            "node": self.node or None,
            "said": self.said,
        }


def to_provision(pod: Pod, storage: Storage, snapshot: Snapshot) -> list[ToProvision]:
    """The claims of a pod for which a provisioner is to make a volume now."""
    return [
        waiting for claim in existing_claims(pod, storage) for waiting in _waiting(claim, storage, snapshot)
    ]


def _waiting(claim: PersistentVolumeClaim, storage: Storage, snapshot: Snapshot) -> Iterator[ToProvision]:
    found = storage.classes.get(claim.storage_class)
    if claim.spec.volume_name or found is None or found.provisioner in ("", NO_PROVISIONER):
        return
    node = claim.metadata.annotations.get(SELECTED_NODE, "")
    if node or found.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
        said = last_said_of(snapshot, claim.metadata.uid)
        yield ToProvision(str(claim), found.metadata.name, found.provisioner, node, said)
