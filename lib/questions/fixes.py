"""Possible changes of a pod or of nodes that could make a pod fit."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from lib.kube.objects import Node, Pod, Toleration
from lib.kube.storage import CSINode
from lib.questions import edits
from lib.questions.deciding import Decider
from lib.questions.rejections import port_text, requirement_text, untolerated_taints
from lib.questions.text import exact_amount, is_bytes, labels_text, listed, taint_text
from lib.questions.what_if import belongs_to_node, copies, shapes, uncordoned
from lib.scheduling.decision import Decision
from lib.scheduling.node_info import host_ports
from lib.scheduling.plugins.node_resources_fit import amount_left, pods_left
from lib.scheduling.resources import pod_requests

NODES_TRIED = 3
"""At most so many of the equally promising nodes are tried."""

CONDITIONS = "node.kubernetes.io/"
"""The prefix of taints for a node's condition: not ready, cordoned, out of memory."""


@dataclass(frozen=True)
class Fix:
    """A possible change.

    words: the text before "it fits". edit: changes the pod. removed: pods to remove. nodes: nodes to add
    or replace. added, csi_nodes: the pods of DaemonSets on added nodes, and their drivers.
    """

    words: str
    edit: edits.Edit = lambda pod: pod
    removed: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()
    added: tuple[Pod, ...] = ()
    csi_nodes: tuple[CSINode, ...] = ()


class NotPossibleError(Exception):
    """A fix can't be applied to this pod."""


class Fixes:
    """The possible changes after a decision that found no node."""

    def __init__(self, decision: Decision, decider: Decider) -> None:
        self._decision, self._decider, self._pod = decision, decider, decision.pod
        self._nodes = list(decider.cache.nodes.values())

    # --- the pod ----------------------------------------------------------------------------------------

    def of_pod(self) -> Iterator[Fix]:
        """Changes of the pod: no selector, a toleration, another skew, no required term, no host port."""
        spec = self._pod.spec
        for key, value in spec.node_selector.items():
            yield Fix(
                f"without nodeSelector {labels_text({key: value})}", partial(edits.without_selector, key=key)
            )
        yield from self._of_node_affinity()
        taints = {
            (taint.key, taint.value, taint.effect): taint
            for node in self._nodes
            for taint in untolerated_taints(node.taints, self._pod)
            if not taint.key.startswith(CONDITIONS)  # such taints say that something is wrong there
        }
        for taint in taints.values():
            toleration = Toleration(taint.key, "Equal", taint.value, taint.effect)
            words = f"with a toleration for {taint_text(taint)}"
            yield Fix(words, partial(edits.tolerating, toleration=toleration))
        for i, constraint in enumerate(spec.topology_spread_constraints):
            if constraint.when_unsatisfiable == "DoNotSchedule":
                yield from self._of_constraint(i, constraint.topology_key, constraint.max_skew)
        for which, name in (("pod_affinity", "pod affinity"), ("pod_anti_affinity", "anti-affinity")):
            affinity = getattr(spec.affinity, which)
            terms = affinity.required_during_scheduling_ignored_during_execution if affinity else ()
            for i, term in enumerate(terms):
                selected = term.label_selector and labels_text(term.label_selector.match_labels)
                to = f" to {selected}" if selected else ""
                words = f"without the required {name}{to} ({term.topology_key})"
                yield Fix(words, partial(edits.without_required_term, which=which, term=i))
        for port in host_ports(self._pod):
            yield Fix(f"without host port {port_text(port)}", partial(edits.without_port, port=port))

    def _of_node_affinity(self) -> Iterator[Fix]:
        affinity = self._pod.spec.affinity.node_affinity
        required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
        if not required or belongs_to_node(self._pod):
            return
        terms = required.node_selector_terms
        for i, term in enumerate(terms):
            if len(term.match_expressions) + len(term.match_fields) < 2:
                continue
            for j, expression in enumerate(term.match_expressions):
                words = f"without {requirement_text(expression)} in its node affinity"
                yield Fix(words, partial(edits.without_expression, term=i, expression=j))
        yield Fix("without its required node affinity", edits.without_node_affinity)

    def _of_constraint(self, which: int, key: str, skew: int) -> Iterator[Fix]:
        counted = self._decision.state.get("PodTopologySpread/filter", ())
        hard = [
            i
            for i, each in enumerate(self._pod.spec.topology_spread_constraints)
            if each.when_unsatisfiable == "DoNotSchedule"
        ]
        if which in hard and len(counted) == len(hard):
            known = counted[hard.index(which)]
            fewest = min(known.pods.values(), default=0)
            needed = fewest + known.selects_itself - known.fewest_pods
            if needed > skew:
                words = f"with maxSkew {needed} in place of {skew} for {key}"
                yield Fix(words, partial(edits.with_constraint, which=which, max_skew=needed))
        words = f"with whenUnsatisfiable: ScheduleAnyway for {key}"
        yield Fix(words, partial(edits.with_constraint, which=which, when_unsatisfiable="ScheduleAnyway"))

    # --- requests ---------------------------------------------------------------------------------------

    def smaller_requests(self) -> list[list[Fix]]:
        """For each set of resources that nodes lack: requests that fit the freest of these nodes."""
        requests = pod_requests(self._pod)
        best: dict[tuple[bool, frozenset[str]], list[tuple[float, dict[str, int]]]] = {}
        for node in self._nodes:
            lacking = {
                name: max(amount_left(node, name), 0)
                for name, wanted in requests.items()
                if wanted > amount_left(node, name)
            }
            if not lacking or pods_left(node) <= 0:
                continue
            rejection = self._decision.rejected.get(node.name)
            first = rejection is not None and rejection.plugin == "NodeResourcesFit"
            share = min(left / requests[name] for name, left in lacking.items())
            best.setdefault((not first, frozenset(lacking)), []).append((share, lacking))
        fixes = []
        for (_, lacking_names), found in sorted(best.items(), key=lambda each: (each[0][0], len(each[0][1]))):
            found.sort(key=lambda each: each[0], reverse=True)
            tried: list[dict[str, int]] = []
            for _, lacking in found:
                rounded = {name: _rounded(name, left) for name, left in lacking.items()}
                if rounded not in tried and len(tried) < NODES_TRIED:
                    tried.append(rounded)
            fixes.append([self._smaller(sorted(lacking_names), each, requests) for each in tried])
        return fixes

    def _smaller(self, lacking: Sequence[str], left: Mapping[str, int], requests: Mapping[str, int]) -> Fix:
        parts = [
            f"at {name} {exact_amount(name, left[name])} in place of {exact_amount(name, requests[name])}"
            if left[name]
            else f"without {name}"
            for name in lacking
        ]

        def edit(pod: Pod) -> Pod:
            smaller = edits.requesting(pod, left)
            if smaller is None:
                raise NotPossibleError
            return smaller

        return Fix(listed(parts), edit)

    # --- the nodes --------------------------------------------------------------------------------------

    def of_nodes(self) -> Iterator[Fix]:
        """Changes of nodes: uncordon one, or add one like an existing one."""
        cordoned = [node.node for node in self._nodes if node.node.spec.unschedulable]
        if len(cordoned) > NODES_TRIED:
            words = f"with the {len(cordoned)} cordoned nodes uncordoned"
            yield Fix(words, nodes=tuple(uncordoned(each) for each in cordoned))
        else:
            for node in cordoned:
                yield Fix(f"with {node.metadata.name} uncordoned", nodes=(uncordoned(node),))
        everyone = [node.node for node in self._nodes]
        for shape in shapes(everyone)[:NODES_TRIED]:
            pods = self._decider.cache.nodes[shape.metadata.name].pods
            (new,) = copies(shape, pods, 1, everyone, self._decider.cache.storage.csi_nodes.values())
            words = f"with one more node like {shape.metadata.name}"
            drivers = (new.csi_node,) if new.csi_node else ()
            yield Fix(words, nodes=(new.node,), added=new.pods, csi_nodes=drivers)


def _rounded(name: str, left: int) -> int:
    """An amount that is easy to write: memory in whole Mi, unless that is 0."""
    mebi = 2**20
    return left // mebi * mebi if is_bytes(name) and left >= mebi else left
