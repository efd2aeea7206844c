"""Finds the smallest changes with which a pod would fit; each is verified by a new decision."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, combinations, islice

from lib.kube.objects import Pod
from lib.questions.admission import SYSTEM_PRIORITIES
from lib.questions.deciding import Decider
from lib.questions.explaining import Explaining
from lib.questions.fixes import (
    NODES_TRIED,
    Fix,
    changed_nodes,
    fixed,
    missing_claims,
    missing_classes,
    new_nodes,
)
from lib.scheduling import edits
from lib.scheduling.decision import Decision
from lib.scheduling.framework.interface import Remedy
from lib.scheduling.node_info import NodeInfo, amount_left
from lib.scheduling.resources import pod_requests
from lib.scheduling.status import Code
from lib.scheduling.text import count, listed, names, pods_text, verb
from lib.scheduling.workloads import TEMPLATE_HASH, belongs_to_node, controller_of

NODES_LOOKED_AT = 250_000
"""The most node evaluations for all suggestions together: about 2 s."""

FEWEST_TRIES, MOST_TRIES = 12, 200
"""The limits for the number of tried fixes, whatever the number of nodes."""

SYSTEM = "kube-system"
"""The namespace of pods for which the classes system-cluster-critical and system-node-critical are."""

MOST_LEAVING = 5
"""The most pods that a suggestion removes."""


@dataclass(frozen=True)
class Suggestion:
    """Fixes, the nodes on which the pod fits with them, and the changed pod."""

    fixes: tuple[Remedy, ...]
    fits_on: tuple[str, ...]
    pod: Pod = field(repr=False)

    @property
    def words(self) -> str:
        """What to change."""
        return listed(fix.words for fix in self.fixes)

    @property
    def removed(self) -> list[Pod]:
        """The pods that it removes."""
        return [pod for fix in self.fixes for pod in fix.removed]

    @property
    def sentence(self) -> str:
        """What to change, and the result."""
        many = len(self.fits_on)
        if many <= 3:
            return f"{self.words}: {names(self.fits_on)} {verb(many, 'fits', 'fit')}"
        return f"{self.words}: {count(many, 'node')} fit"

    def made_to(self, pods: Iterable[Pod], asked: Pod) -> Iterator[Pod | None]:
        """The pods as it changes them: that of the question, and all with the same controller.

        None for a pod that can't be changed so.
        """
        controller = controller_of(asked)
        for pod in pods:
            is_changed = pod is asked or (controller is not None and controller_of(pod) == controller)
            yield fixed(pod, self.fixes) if is_changed else pod


def exists(pod: Pod) -> bool:
    """Whether a pod runs, and wasn't only placed here: to remove it is something that a user can do."""
    return bool(pod.spec.node_name)


def with_fixes(decider: Decider, fixes: Sequence[Remedy]) -> AbstractContextManager[None]:
    """A block in which the cluster is as the fixes would make it; the pod is not changed."""
    return decider.temporarily(
        removed=[pod for fix in fixes for pod in fix.removed],
        nodes=[node for fix in fixes for node in fix.nodes],
        added=[pod for fix in fixes if isinstance(fix, Fix) for pod in fix.added],
        storage=[stored for fix in fixes if isinstance(fix, Fix) for stored in fix.storage],
    )


def suggest(decision: Decision, decider: Decider, looked_at: int = NODES_LOOKED_AT) -> list[Suggestion]:
    """What would help a pod that fits nowhere; the smallest change first.

    Single fixes; if none helps, two together. If the result is empty, something else may still help.
    looked_at: so many nodes are evaluated, at most, if the cluster isn't very large.
    """
    found = _Search(decision, decider, looked_at).found()
    return list({suggestion.words: suggestion for suggestion in found}.values())


def _owners(suggestion: Suggestion) -> object:
    """The controllers of the pods that it removes. It makes little difference which of their pods leave."""
    return frozenset(controller_of(pod) or str(pod) for pod in suggestion.fixes[-1].removed)


class _Search:
    """Tries fixes, up to a limit."""

    def __init__(self, decision: Decision, decider: Decider, looked_at: int) -> None:
        self._decision, self._decider = decision, decider
        self._pod, self._first = decision.pod, tuple[Remedy, ...]()
        if decider.gated(self._pod):
            gates = ", ".join(gate.name for gate in self._pod.spec.scheduling_gates)
            freed = partial(edits.patched, patch={"spec": {"schedulingGates": []}})
            self._first = (Remedy(f"without the scheduling gate {gates}", freed),)
        nodes = len(decider.cache.nodes) or 1
        self._left = min(max(looked_at // nodes, FEWEST_TRIES), MOST_TRIES)
        self._nodes = list(decider.cache.nodes.values())

    def found(self) -> list[Suggestion]:
        """All fixes that help."""
        if self._first and (freed := self._try(())):
            return [freed]
        of_pod: list[Remedy] = []
        of_nodes: list[Remedy] = []
        if_left: list[Remedy] = []
        one_of: dict[Hashable, list[Remedy]] = {}
        profile = self._decider.profile_of(self._pod)
        for remedy in Explaining(self._decision, profile, self._decider.cache).remedies():
            if remedy.one_of is not None:
                one_of.setdefault(remedy.one_of, []).append(remedy)
            else:
                (if_left if remedy.removed else of_nodes if remedy.nodes else of_pod).append(remedy)
        cache = self._decider.cache
        created = [*missing_claims(self._pod, cache), *missing_classes(self._pod, cache)]
        found = [helping for fix in (*created, *of_pod) if (helping := self._try((fix,)))]
        less: list[Suggestion] = []
        for some in one_of.values():  # the smallest reduction is tried first
            helps = next((helping for fix in some if (helping := self._try((fix,)))), None)
            if helps and not any({*helps.fits_on} <= {*other.fits_on} for other in less):
                less.append(helps)
        found += less
        of_nodes += changed_nodes(self._pod, self._nodes)
        found += list(islice(self._of_nodes(of_nodes), 3))
        added = new_nodes(self._decider.cache, self._freed)
        found += list(islice((helping for fix in added if (helping := self._try((fix,)))), 1))
        found += self._by_priority()
        found += self._if_left(if_left)
        if not found:
            pairs = combinations([*of_pod, *chain.from_iterable(one_of.values())], 2)
            found = list(islice((helping for pair in pairs if (helping := self._try(pair))), 3))
        if not found and len(of_pod) > 2:
            found = self._all_that_is_needed(of_pod)
        return found

    def _of_nodes(self, fixes: Iterable[Remedy]) -> Iterator[Suggestion]:
        """What helps of changes of nodes; of those that are alike but for the node, one."""
        alike: dict[str, list[Remedy]] = {}
        for fix in fixes:
            names = {node.metadata.name for node in fix.nodes}
            words = [word for word in fix.words.split() if word not in names]
            alike.setdefault(" ".join(words), []).append(fix)
        for some in alike.values():
            helps = next((helping for fix in some[:NODES_TRIED] if (helping := self._try((fix,)))), None)
            if helps and len(some) > NODES_TRIED:
                last = helps.fixes[-1]
                said = f"{last.words} (one of {len(some):,} such nodes)"
                helps = replace(helps, fixes=(*helps.fixes[:-1], replace(last, words=said)))
            if helps:
                yield helps

    def _by_priority(self) -> list[Suggestion]:
        """The lowest PriorityClass with which the pod would get the place of others."""
        if self._decision.victims or self._left <= 0:
            return []
        of_system = self._pod.metadata.namespace == SYSTEM
        higher = [
            priority_class
            for priority_class in self._decider.priorities
            if priority_class.value > self._pod.spec.priority
            and (of_system or priority_class.metadata.name not in SYSTEM_PRIORITIES)
        ]
        for priority_class in sorted(higher, key=lambda priority_class: priority_class.value)[:NODES_TRIED]:
            raised = {"priority": priority_class.value, "preemptionPolicy": priority_class.preemption_policy}
            edit = partial(edits.patched, patch={"spec": raised})
            pod = fixed(self._pod, (*self._first, Remedy(edit=edit)))
            decision = self._decider.ask(pod) if pod else None
            if pod and decision and decision.nominated:
                if not all(map(exists, decision.preempted)):
                    return []
                instead = f"in the place of {pods_text(decision.preempted)}"
                words = f"with priorityClassName {priority_class.metadata.name}, {instead}"
                return [Suggestion((*self._first, Remedy(words, edit)), (decision.nominated,), pod)]
        return []

    def _all_that_is_needed(self, fixes: Sequence[Remedy]) -> list[Suggestion]:
        """All of these together, but for those without which the pod fits, too."""
        best = self._try(tuple(fixes))
        needed = [*fixes]
        for fix in fixes if best else ():
            fewer = [other for other in needed if other is not fix]
            if helps := self._try(tuple(fewer)):
                best, needed = helps, fewer
        return [best] if best else []

    def _try(self, fixes: tuple[Remedy, ...]) -> Suggestion | None:
        """Decide with some fixes; None if that doesn't help, or the limit is reached."""
        fixes = self._first + fixes
        if self._left <= 0 or not fixes:
            return None
        pod = fixed(self._pod, fixes)
        if pod is None or not self._decider.agrees_with_class(pod):
            return None
        self._left -= 1
        with with_fixes(self._decider, fixes):
            if self._decider.gated(pod):
                return None
            fits_on = self._decider.fitting(pod)
        return Suggestion(fixes, tuple(fits_on), pod) if fits_on else None

    # --- other pods -------------------------------------------------------------------------------------

    def _if_left(self, remedies: Iterable[Remedy]) -> list[Suggestion]:
        """Pods that could be removed, where preemption would not remove them."""
        if self._decision.victims:
            return []
        tried = sorted(filter(self._could_help, self._nodes), key=self._how_far, reverse=True)
        found = [helping for node in tried[:NODES_TRIED] if (helping := self._if_left_one(node))]
        of_plugins = (self._leaving(fix.removed) for fix in remedies if all(map(exists, fix.removed)))
        found += [helping for fix in of_plugins if (helping := self._try((fix,)))]
        if not found:
            return []
        fewest = min(len(suggestion.fixes[-1].removed) for suggestion in found)
        few: dict[object, Suggestion] = {}
        for suggestion in found:
            if len(suggestion.fixes[-1].removed) == fewest:
                few.setdefault(_owners(suggestion), suggestion)
        return list(few.values())[:2]

    def _could_help(self, node: NodeInfo) -> bool:
        rejection = self._decision.rejected.get(node.name)
        return rejection is not None and rejection.status.code == Code.UNSCHEDULABLE

    def _how_far(self, node: NodeInfo) -> float:
        """The free share of what is requested: if it is larger, fewer pods must be removed."""
        requests = pod_requests(self._pod)
        return min(
            (amount_left(node, name) / wanted for name, wanted in requests.items() if wanted), default=1
        )

    def _if_left_one(self, node: NodeInfo) -> Suggestion | None:
        """The fewest pods to remove from one node, the least important first."""
        decider, pod = self._decider, self._freed
        leave = [pod for pod in node.pods if not belongs_to_node(pod) and exists(pod)]
        leave = [pod for pod in leave if pod.spec.priority < min(SYSTEM_PRIORITIES.values())]
        with decider.temporarily(removed=leave):
            if decider.rejection(pod, node.name):
                return None
        leave.sort(key=lambda pod: (-pod.spec.priority, -self._weight(pod)))
        enough = [pod for pod in leave if self._fits_without(node, [pod])]
        if enough:
            return self._try((self._leaving(enough[-1:]),))
        for pod in list(leave):
            fewer = [other for other in leave if other is not pod]
            if self._fits_without(node, fewer):
                leave = fewer
        return self._try((self._leaving(leave),)) if len(leave) <= MOST_LEAVING else None

    def _fits_without(self, node: NodeInfo, removed: Sequence[Pod]) -> bool:
        with self._decider.temporarily(removed=removed):
            return self._decider.rejection(self._freed, node.name) is None

    @property
    def _freed(self) -> Pod:
        """The pod without scheduling gates."""
        return fixed(self._pod, self._first) or self._pod

    def _weight(self, pod: Pod) -> float:
        """How much a pod has of the requested resources."""
        wanted, has = pod_requests(self._pod), pod_requests(pod)
        return max((has.get(name, 0) / amount for name, amount in wanted.items() if amount), default=0)

    def _leaving(self, pods: Sequence[Pod]) -> Remedy:
        lower = all(pod.spec.priority < self._pod.spec.priority for pod in pods)
        words = f"if {pods_text(pods)}{' of lower priority' if lower else ''} left"
        if all(_is_replaced_by(self._pod, pod) for pod in pods):
            words += f", as with maxUnavailable: {len(pods)} in its Deployment's rollout"
        return Remedy(words, removed=tuple(pods))


def _is_replaced_by(new: Pod, old: Pod) -> bool:
    """Whether a pod is one of the earlier template of another's Deployment."""
    hashes = [pod.metadata.labels.get(TEMPLATE_HASH, "") for pod in (new, old)]
    owners = [controller_of(pod) for pod in (new, old)]
    if not all(hashes) or hashes[0] == hashes[1] or not all(owners):
        return False
    one, other = (
        (owner.namespace, owner.kind, owner.name.removesuffix(f"-{template_hash}"))
        for owner, template_hash in zip(owners, hashes, strict=True)
        if owner
    )
    return one == other
