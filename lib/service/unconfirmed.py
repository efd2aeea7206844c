"""Bindings that poller wrote, or may have written, and has not seen yet. Each is looked up in the end."""

from dataclasses import dataclass

from lib.kube.changes import AnyChange, Kind
from lib.kube.objects import Pod
from lib.scheduling.decision import Decision

CONFIRM_SECONDS = 60.0
"""A binding that isn't seen for so long is looked up."""


@dataclass
class UnconfirmedBinding:
    """A decision whose binding was written, or, if not settled, may have been written.

    look_up_at: in time.monotonic's seconds.
    """

    decision: Decision
    look_up_at: float
    settled: bool


class UnconfirmedBindings:
    """The unconfirmed bindings by uid. `now` is in seconds, and only grows."""

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
        """A pod is confirmed, or is to be tried again."""
        return self._by_uid.pop(uid, None)

    def apply(self, change: AnyChange) -> None:
        """Apply a change: it confirms a pod that has a node; a deleted pod needs no lookup."""
        pod = change.object
        if self._by_uid and isinstance(pod, Pod) and (pod.spec.node_name or change.kind == Kind.DELETED):
            self.pop(pod.metadata.uid)

    def overdue(self, now: float) -> list[UnconfirmedBinding]:
        """The bindings to look up now. If need be, each is returned again after the same time."""
        overdue = [each for each in self._by_uid.values() if now >= each.look_up_at]
        for each in overdue:
            each.look_up_at = now + CONFIRM_SECONDS
        return overdue
