"""Bindings that poller made, or may have made, and that it has not seen yet: each is looked up in the end."""

from dataclasses import dataclass

from lib.kube.changes import AnyChange, Kind
from lib.kube.objects import Pod
from lib.scheduling.decision import Decision

CONFIRM_SECONDS = 60.0
"""A binding that isn't seen for so long is looked up."""


@dataclass
class UnconfirmedBinding:
    """A decision whose binding was written; or, where it isn't settled, may have been.

    look_up_at: in time.monotonic's seconds.
    """

    decision: Decision
    look_up_at: float
    settled: bool


class UnconfirmedBindings:
    """By uid. `now` is in seconds, and only grows."""

    def __init__(self) -> None:
        self._by_uid: dict[str, UnconfirmedBinding] = {}

    def add(self, decision: Decision, now: float, *, settled: bool) -> None:
        """A pod was bound, or may have been."""
        binding = UnconfirmedBinding(decision, now + CONFIRM_SECONDS, settled)
        self._by_uid[decision.pod.metadata.uid] = binding

    def get(self, uid: str) -> UnconfirmedBinding | None:
        """The binding of a pod, if it isn't confirmed."""
        return self._by_uid.get(uid)

    def pop(self, uid: str) -> UnconfirmedBinding | None:
        """A pod is confirmed, or is to be decided on again."""
        return self._by_uid.pop(uid, None)

    def apply(self, change: AnyChange) -> None:
        """Apply a change: a pod that has a node is confirmed, and one that is gone needs no look."""
        pod = change.object
        if self._by_uid and isinstance(pod, Pod) and (pod.spec.node_name or change.kind == Kind.DELETED):
            self.pop(pod.metadata.uid)

    def overdue(self, now: float) -> list[UnconfirmedBinding]:
        """Those that are to be looked up now, and if need be once more after as long."""
        overdue = [each for each in self._by_uid.values() if now >= each.look_up_at]
        for each in overdue:
            each.look_up_at = now + CONFIRM_SECONDS
        return overdue
