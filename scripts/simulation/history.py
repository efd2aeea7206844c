"""What nodes and pods were at a time: what a poller may have known when it decided."""

from collections import defaultdict
from collections.abc import Iterator
from math import inf

from scripts.minicluster.resources import NODES, PODS
from scripts.minicluster.store import Stored, WatchEvent

from .agenda import Agenda


class History:
    """The versions of each node and pod, with the time from which each was the current one."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._nodes: dict[str, list[tuple[float, Stored | None]]] = defaultdict(list)  # by name
        self._pods: dict[str, list[tuple[float, Stored | None]]] = defaultdict(list)  # by uid

    def happened(self, event: WatchEvent) -> None:
        """Note an event of the store."""
        new = None if event.kind == "DELETED" else event.new
        if event.resource == NODES:
            self._nodes[event.new.key[1]].append((self._agenda.now, new))
        elif event.resource == PODS:
            self._pods[event.new.metadata["uid"]].append((self._agenda.now, new))

    def node(self, name: str, since: float) -> list[Stored]:
        """The versions of a node that were there at some time since then."""
        return [each for each in _since(self._nodes[name], since) if each]

    def was_away(self, name: str, since: float) -> bool:
        """Whether a node wasn't there at some time since then."""
        return None in _since(self._nodes[name], since)

    def pod(self, uid: str, since: float) -> list[Stored]:
        """The versions of a pod that were there at some time since then."""
        return [each for each in _since(self._pods[uid], since) if each]

    def came(self, uid: str) -> int:
        """The version of the cluster with which a pod came."""
        _, first = self._pods[uid][0]
        return first.version if first else 0

    def written(self, uid: str, since: float) -> list[Stored]:
        """Those of them that were made since then."""
        return [each for when, each in self._pods[uid] if each and when >= since]


def _since(versions: list[tuple[float, Stored | None]], since: float) -> Iterator[Stored | None]:
    """What was there at some time since then, the newest first; None for nothing."""
    until = inf
    for when, stored in reversed(versions):
        if until <= since:
            return
        yield stored
        until = when
