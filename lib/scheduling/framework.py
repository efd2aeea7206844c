"""Extension points: what a plugin may have, under the names of the scheduling framework.

A plugin has a `name` and the methods it needs. What it works out once for a pod it keeps in the CycleState
under its own name, and reads there for each node.

Source: k8s.io/kube-scheduler/framework/interface.go; in words,
https://kubernetes.io/docs/concepts/scheduling-eviction/scheduling-framework/
"""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from lib.kube.objects import Pod
from lib.scheduling.cluster import NodeInfo

CycleState = dict[str, Any]
"""What plugins know of the pod whose cycle it is, by plugin name."""

FITS: tuple[str, ...] = ()
"""No reason against a node."""


@runtime_checkable
class PreFilterPlugin(Protocol):
    """Looks at a pod once, before any node is looked at."""

    name: str

    def pre_filter(self, state: CycleState, pod: Pod) -> None:
        """Keep in `state` what `filter` needs of the pod."""


@runtime_checkable
class FilterPlugin(Protocol):
    """Rules nodes out."""

    name: str

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Sequence[str]:
        """The reasons why a pod can't go to a node, in kube-scheduler's words; none when it can."""


Plugin = PreFilterPlugin | FilterPlugin
