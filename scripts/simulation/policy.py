"""A policy that holds pods and raises errors, as their labels ask it to.

`hold: "3"` holds a pod for 3 seconds, `hold: rejected` for 2, and then rejects it the first time.
`raises: filter` with `times: "3"` raises an error in the pod's first 3 calls of that point.
"""

from collections import Counter
from typing import Any

from lib.kube.objects import Pod
from lib.scheduling.status import Status, unschedulable, wait


class Unreliable:
    """Holds and raises. A new one, as after a restart, begins to count again."""

    def __init__(self) -> None:
        self._calls: Counter[tuple[str, str]] = Counter()  # by uid and point
        self._rejected: set[str] = set()

    def _raise_in(self, point: str, pod: Pod) -> None:
        labels, key = pod.metadata.labels, (pod.metadata.uid, point)
        if labels.get("raises") == point and self._calls[key] < int(labels["times"]):
            self._calls[key] += 1
            raise RuntimeError(f"raised in {point}")

    def permit(self, state: Any, pod: Pod, node_name: str, waited: float) -> Status | None:
        self._raise_in("permit", pod)
        hold, uid = pod.metadata.labels.get("hold", ""), pod.metadata.uid
        if hold == "rejected" and uid not in self._rejected:
            if waited < 2:
                return wait()
            self._rejected.add(uid)
            return unschedulable("rejected for once")
        return wait() if hold.isdecimal() and waited < int(hold) else None

    def pre_filter(self, state: Any, pod: Pod, cluster: Any) -> None:
        self._raise_in("pre_filter", pod)

    def filter(self, state: Any, pod: Pod, node: Any) -> Status | None:
        self._raise_in("filter", pod)
        return None

    def score(self, state: Any, pod: Pod, node: Any) -> int:
        self._raise_in("score", pod)
        return 0

    def reserve(self, state: Any, pod: Pod, node_name: str) -> None:
        self._raise_in("reserve", pod)

    def unreserve(self, state: Any, pod: Pod, node_name: str) -> None:
        self._raise_in("unreserve", pod)

    def pre_bind(self, state: Any, pod: Pod, node_name: str) -> None:
        self._raise_in("pre_bind", pod)

    def post_bind(self, state: Any, pod: Pod, node_name: str) -> None:
        self._raise_in("post_bind", pod)
