"""Counts, by domain, the pods that a spread constraint selects."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from lib.kube.matcher import Matcher
from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.kept import CountOfPods, NodeChange
from lib.scheduling.node_info import NodeInfo


@dataclass(frozen=True)
class Domains:
    """Which nodes belong together, for example because they have the same value of a label."""

    by_node: Mapping[str, str]
    """By node name, the domain of each node whose pods count."""
    key: Hashable
    """Equal for domains that were found in the same way."""


class _MatchingPods(CountOfPods):
    """The pods of a namespace that match a selector, without those being deleted, by domain."""

    def __init__(self, cache: Cache, namespace: str, selector: Matcher, domains: Domains | None) -> None:
        self._namespace, self._selector = namespace, selector
        self._domains = domains.by_node if domains else None
        self.counts = {} if self._domains is None else dict.fromkeys(self._domains.values(), 0)
        self._begin(cache)

    def follow(self, changes: Sequence[NodeChange]) -> bool:
        """With domains, an updated node ends the counts, because it may be in another domain."""
        if self._domains is not None and any(pod is None for _, pod, _ in changes):
            return False
        return super().follow(changes)

    def _count(self, node: NodeInfo, pod: Pod, sign: int) -> None:
        domain = node.name if self._domains is None else self._domains.get(node.name)
        if domain is None or not self._matches(pod):
            return
        self.counts[domain] = self.counts.get(domain, 0) + sign
        if self._domains is None and not self.counts[domain]:
            del self.counts[domain]

    def _matches(self, pod: Pod) -> bool:
        return (
            pod.metadata.namespace == self._namespace
            and pod.metadata.deletion_timestamp is None
            and self._selector.matches(pod.metadata.labels)
        )


def matching_pods(
    cache: Cache, namespace: str, selector: Matcher, domains: Domains | None
) -> Mapping[str, int]:
    """By domain, how many pods of a namespace match a selector; without those being deleted.

    Don't keep the result: it changes. domains: None makes each node its own domain, and leaves out nodes
    without such pods.
    """
    key = "matching pods", namespace, selector, domains and domains.key
    return cache.kept.get(key, _MatchingPods, cache, namespace, selector, domains).counts
