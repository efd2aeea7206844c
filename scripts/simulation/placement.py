"""Whether a pod may be on a node, by rules of our own: none of poller's code is asked."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from scripts.minicluster.resources import NODES, PODS
from scripts.minicluster.store import Store, Stored

from .history import History
from .values import (
    CARD,
    GPU,
    allocatable_of,
    amounts_of,
    claim_for_extended,
    is_over,
    labels_of,
    node_of,
    ports_of,
    tolerates,
)

ZONE = "topology.kubernetes.io/zone"


class Broken(NamedTuple):
    """A rule that is broken, how, and the names of the objects."""

    rule: str
    what: str
    about: tuple[str, ...]


def accepts(node: Stored, pod: Stored) -> str:
    """Why a node doesn't take a pod, whatever is on it; "" if it does."""
    spec, wanted = node.content["spec"], pod.content["spec"].get("nodeSelector") or {}
    if spec.get("unschedulable"):
        return "it is cordoned"
    for taint in spec.get("taints") or ():
        if taint["effect"] != "PreferNoSchedule" and not tolerates(pod, taint):
            return f"its taint {taint['key']} isn't tolerated"
    if not wanted.items() <= labels_of(node).items():
        return "it isn't selected"
    return ""


def broken_rules(
    store: Store, history: History, pod: Stored, since: float, is_known: Callable[[Stored], bool]
) -> Iterator[Broken]:
    """What is wrong with the node that a pod is on.

    since: how far back the decision may rest on. is_known: whether who decided must have known of a pod on a
    node.
    """
    name, node_name = pod.key[1], node_of(pod)
    nodes = history.node(node_name, since)
    if not nodes:
        yield Broken("a node that exists", f"pod {name} was bound to {node_name}", (name, node_name))
        return
    if all(reasons := [accepts(each, pod) for each in nodes]):
        yield Broken("filters", f"pod {name} was bound to {node_name}: {reasons[0]}", (name, node_name))
    if pod.content["spec"].get("schedulingGates"):
        yield Broken("gates", f"pod {name} was bound though it is gated", (name,))
    here = [each for each in store.every(PODS) if node_of(each) == node_name and not is_over(each)]
    others = [each for each in here if is_known(each) and each.metadata["uid"] != pod.metadata["uid"]]
    yield from _room(history, pod, nodes, others, since)
    for each in others:
        if both := ports_of(pod) & ports_of(each):
            why = f"pods {name} and {each.key[1]} are on {node_name} with the same host port {min(both)}"
            yield Broken("host ports", why, (name, each.key[1], node_name))
        if pod.key[0] == each.key[0] and any(
            {labels_of(version).get("apart") for version in _versions(history, other, since)} == {apart}
            for one, other in ((pod, each), (each, pod))
            if (apart := _keeps_from(one))
        ):
            why = f"pods {name} and {each.key[1]} are on {node_name}, and must be apart"
            yield Broken("anti-affinity", why, (name, each.key[1], node_name))


def _keeps_from(pod: Stored) -> str:
    """The label `apart` of the pods beside which it may not be; "" if there is none."""
    affinity = pod.content["spec"].get("affinity", {}).get("podAntiAffinity")
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"] if affinity else []
    return next((each["labelSelector"]["matchLabels"]["apart"] for each in terms), "")


def _versions(history: History, pod: Stored, since: float) -> list[Stored]:
    return history.pod(pod.metadata["uid"], since) or [pod]


def _room(
    history: History, pod: Stored, nodes: list[Stored], others: list[Stored], since: float
) -> Iterator[Broken]:
    """No resource of the node is given away twice: by the least that pods requested, and the most it had."""
    of_classes = {CARD} if claim_for_extended(pod) else set()
    for resource in ("cpu", "memory", "pods", *({GPU, CARD} & amounts_of(pod).keys() - of_classes)):
        used = sum(
            min(amounts_of(version)[resource] for version in _versions(history, each, since))
            for each in [pod, *others]
            if not (resource == CARD and claim_for_extended(each))
        )
        most = max(allocatable_of(each)[resource] for each in nodes)
        if used > most:
            name, node = pod.key[1], nodes[0].key[1]
            what = (
                f"pod {name} was bound to {node}, whose pods then request {used} of {most} of its {resource}"
            )
            yield Broken("room", what, (name, node))


def broken_by_zone(store: Store, pod: Stored) -> Iterator[Broken]:
    """What is wrong with the zone of a pod, some time after its binding, when nothing else has happened."""
    node = store.get(NODES, ("", node_of(pod)))
    if not node or _may_be_held(pod) or not (zone := labels_of(node).get(ZONE)):
        return
    name = pod.key[1]
    if spread := labels_of(pod).get("spread"):
        zones = sorted({labels_of(each)[ZONE] for each in store.every(NODES) if ZONE in labels_of(each)})
        # A pod that is being deleted may have been evicted just after this decision.
        both = [Counter(_zones(store, pod, "spread", spread, leaving)) for leaving in (False, True)]
        alike = [each for each in store.every(PODS, pod.key[0]) if labels_of(each).get("spread") == spread]
        is_known = all(node_of(each) or not each.content["status"].get("nominatedNodeName") for each in alike)
        too_many = all(each[zone] - min(each[other] for other in zones) > 1 for each in both)
        if is_known and too_many:  # pods that are held count, too
            counts = {each: both[0][each] for each in zones}
            what = f"pod {name} was bound to zone {zone}, which has {counts} of its kind then"
            yield Broken("spread", what, (name,))
    if near := labels_of(pod).get("near"):
        theirs = _zones(store, pod, "near", near, leaving=True)
        if theirs.count(zone) == 1 and len(theirs) > 1:  # itself alone
            yield Broken(
                "affinity", f"pod {name} was bound to zone {zone}, and those it must be near aren't", (name,)
            )


def _may_be_held(pod: Stored) -> bool:
    """Whether a pod may wait on its node before it is bound: its zone isn't looked at again then."""
    spec = pod.content["spec"]
    waits = "hold" in labels_of(pod) or spec.get("volumes") or spec.get("resourceClaims")
    return bool(waits) or CARD in amounts_of(pod)


def _zones(store: Store, pod: Stored, label: str, value: str, leaving: bool) -> list[str]:
    """The zones of the pods with a label in this pod's namespace. leaving: also of those that are deleted."""
    nodes = {each.key[1]: labels_of(each).get(ZONE, "") for each in store.every(NODES)}
    return [
        nodes[node_of(each)]
        for each in store.every(PODS, pod.key[0])
        if labels_of(each).get(label) == value
        and node_of(each) in nodes
        and not is_over(each)
        and (leaving or not each.metadata.get("deletionTimestamp"))
    ]
