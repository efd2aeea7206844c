"""What the cluster looks like now, by asking."""

from lib.kube.api import Api, Listing
from lib.kube.objects import Node, Pod


class Feed:
    """Polls for the pods that wait for one scheduler, and for what they could be placed on."""

    def __init__(self, api: Api, scheduler_name: str) -> None:
        self._api = api
        self._scheduler_name = scheduler_name

    def waiting_pods(self) -> Listing[Pod]:
        """Pods of all namespaces that name this scheduler and have no node yet.

        The server filters, so that a tick on a busy cluster where nothing waits costs one small answer.
        """
        selector = f"spec.nodeName=,spec.schedulerName={self._scheduler_name}"
        return self._api.list("/api/v1/pods", Pod, fieldSelector=selector)

    def nodes(self) -> Listing[Node]:
        """All nodes."""
        return self._api.list("/api/v1/nodes", Node)

    def assigned_pods(self) -> Listing[Pod]:
        """Pods that have a node and haven't finished: they use what it has, whoever placed them."""
        selector = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
        return self._api.list("/api/v1/pods", Pod, fieldSelector=selector)
