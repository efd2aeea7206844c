"""How much of a resource is missing on a node, and what has it."""

from collections.abc import Mapping
from functools import partial

from lib.kube.objects import Pod
from lib.scheduling import edits
from lib.scheduling.cache import Cache
from lib.scheduling.explaining.sum_texts import sum_text
from lib.scheduling.framework.interface import Lines, Rejected, Remedies, Remedy
from lib.scheduling.node_info import NodeInfo, amount_left, capacity, pods_left
from lib.scheduling.plugins.node_resources_fit import INSUFFICIENT, TOO_MANY_PODS, positive_requests
from lib.scheduling.resources import NATIVE, pod_requests
from lib.scheduling.status import CycleState, Status
from lib.scheduling.text import Line, amount, exact_amount, is_bytes, listed, pods_text
from lib.scheduling.workloads import belongs_to_node

LEAST_PART = 10
"""Of cpu and memory, to request less than a tenth is no remedy."""

FREEST_TRIED = 3
"""Smaller requests are tried for so many of the nodes that lack the same resources."""


class NodeResourcesFitExplainer:
    """Explains NodeResourcesFit."""

    name = "NodeResourcesFit"

    def explain(self, state: CycleState, pod: Pod, cache: Cache, node: NodeInfo, status: Status) -> Lines:
        """How much is missing, what the pod's sum is made of, and which pod has the most of it."""
        if TOO_MANY_PODS in status.reasons:
            most = capacity(node, "pods")
            words = f"has {len(node.pods)} of {most} pods"
            yield Line(words, resource="pods", needs=1, has=most, free=pods_left(node))
        for name, wanted in pod_requests(pod).items():
            if INSUFFICIENT.format(name) not in status.reasons:
                continue
            total, left = capacity(node, name), amount_left(node, name)
            made_of = sum_text(pod, name)
            needs = f"needs {name} {amount(name, wanted)}{f' ({made_of})' if made_of else ''}"
            daemons = sum(pod_requests(other).get(name, 0) for other in node.pods if belongs_to_node(other))
            line = partial(Line, resource=name, needs=wanted, has=total, free=left)
            if not total:
                yield line(f"{needs}, the node has none")
            elif wanted > total:
                yield line(f"{needs}, the node has {amount(name, total)} in all")
            elif wanted > total - daemons:
                of_daemons = f"DaemonSets' and static pods have {amount(name, daemons)} of them"
                words = f"{needs}, the node has {amount(name, total)} in all, and {of_daemons}"
                yield line(words, daemons=daemons)
            elif wanted <= left:  # what is free is kept for nominated pods
                others = cache.nominator.nominated_before_on(node.name, pod)
                words = f"{needs}, {amount(name, left)} free is kept for {pods_text(others)}"
                yield line(words, kept_for=[str(other) for other in others])
            else:
                largest = max(node.pods, key=lambda other: pod_requests(other).get(name, 0))
                requests = pod_requests(largest).get(name, 0)
                free = f"{amount(name, left)} of {amount(name, total)} free"
                words = f"{needs}, {free}: {largest} has {amount(name, requests)}"
                yield line(words, largest={"pod": str(largest), "requests": requests})

    def remedies(self, state: CycleState, pod: Pod, cache: Cache, rejected: Rejected) -> Remedies:
        """Request less: as much as the freest nodes have of what they lack.

        A pod needs its cpu and memory: a small part of that helps nobody.
        """
        requests = positive_requests(pod)
        for lacked, by_share in _nodes_by_lacked(requests, cache, rejected):
            by_share.sort(key=lambda node: node[0], reverse=True)
            tried: list[dict[str, int]] = []
            for _, left_on_node in by_share:
                rounded = {name: _rounded(name, left) for name, left in sorted(left_on_node.items())}
                if any(
                    name in NATIVE and left * LEAST_PART < requests[name] for name, left in rounded.items()
                ):
                    continue
                if rounded not in tried and len(tried) < FREEST_TRIED:
                    tried.append(rounded)
                    words = listed(_less_text(name, left, requests[name]) for name, left in rounded.items())
                    yield Remedy(words, partial(edits.requesting, wanted=rounded), one_of=(self.name, lacked))


Lacked = tuple[bool, frozenset[str]]
"""The resources that a node lacks, and before them, whether these are not why it was rejected."""

Left = tuple[float, dict[str, int]]
"""What a node has left of each resource that it lacks; and before that, its least share of a request."""


def _nodes_by_lacked(
    requests: Mapping[str, int], cache: Cache, rejected: Rejected
) -> list[tuple[Lacked, list[Left]]]:
    """The nodes that lack something, those together that lack the same resources.

    First those that were rejected for that, then those that lack the fewest resources.
    """
    by_lacked: dict[Lacked, list[Left]] = {}
    for node in cache.node_list:
        lacking = {
            name: max(amount_left(node, name), 0)
            for name, wanted in requests.items()
            if wanted > amount_left(node, name)
        }
        if not lacking or pods_left(node) <= 0:
            continue
        status = rejected.get(node.name)
        reasons = status.reasons if status else ()
        is_reason = any(INSUFFICIENT.format(name) in reasons for name in lacking)
        share = min(left / requests[name] for name, left in lacking.items())
        by_lacked.setdefault((not is_reason, frozenset(lacking)), []).append((share, lacking))
    return sorted(by_lacked.items(), key=lambda item: (item[0][0], len(item[0][1])))


def _less_text(name: str, left: int, wanted: int) -> str:
    if not left:
        return f"without {name}"
    return f"at {name} {exact_amount(name, left)} in place of {exact_amount(name, wanted)}"


def _rounded(name: str, left: int) -> int:
    """An amount that is easy to write: memory in whole Mi, unless that is 0."""
    mebi = 2**20
    return left // mebi * mebi if is_bytes(name) and left >= mebi else left
