"""Which namespaces a poller serves, and what it may read and write."""

from dataclasses import dataclass

from scripts.minicluster.store import Stored

ONLY_EVERYWHERE = ("pods", "services", "namespaces", "persistentvolumeclaims", "poddisruptionbudgets")
"""Resources that a ClusterRole would have to grant; others that are read everywhere are no namespace's."""

OF_ELECTION = ("leases", "events")
"""Resources that it writes in the namespace of its lease."""


@dataclass(frozen=True)
class Reach:
    """namespaces: as of `--namespace`; empty for all. narrow: whether it has rights in these alone."""

    namespaces: tuple[str, ...] = ()
    narrow: bool = False

    def serves(self, pod: Stored) -> bool:
        """Whether it places a pod, and may evict it."""
        return not self.namespaces or pod.key[0] in self.namespaces

    def sees(self, pod: Stored) -> bool:
        """Whether it may read a pod."""
        return not self.narrow or self.serves(pod)

    def may(self, method: str, path: str) -> bool:
        """Whether it has the right to a request."""
        if not self.narrow:
            return True
        if not (home := home_of_path(path)):
            return method != "GET" or path.rpartition("/")[2] not in ONLY_EVERYWHERE
        return home in self.namespaces or is_of_election(path)


EVERYWHERE = Reach()


def home_of_path(path: str) -> str:
    """The namespace of the object that a request is about; "" if it has none."""
    _, found, rest = path.partition("/namespaces/")
    return rest.split("/")[0] if found else ""


def is_of_election(path: str) -> bool:
    """Whether a request is about a lease, or may tell of one."""
    parts = path.partition("/namespaces/")[2].split("/")
    return parts[0] == "kube-system" and len(parts) > 1 and parts[1] in OF_ELECTION
