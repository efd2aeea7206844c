"""Disruption budgets: which pods they protect, and how many more evictions they allow.

Source: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go, filterPodsWithPDBViolation
"""

from collections.abc import Iterable, Mapping, Sequence

from lib.kube.label_syntax import problem_of_selector
from lib.kube.objects import LabelSelector, Pod, PodDisruptionBudget
from lib.kube.selectors import selects


def covers(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Whether a budget protects a pod; a pod that has been disrupted already isn't counted again."""
    return (
        budget.spec.selector != LabelSelector()
        and bool(pod.metadata.labels)
        and guards(budget, pod)
        and pod.metadata.name not in budget.status.disrupted_pods
    )


def guards(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Whether the API server asks a budget before it evicts a pod.

    A budget with an empty selector guards all pods there; kube-scheduler's preemption ignores such a budget.
    Both ignore a budget whose selector is invalid. Source: pkg/registry/core/pod/storage/eviction.go
    """
    selector = budget.spec.selector
    return (
        budget.metadata.namespace == pod.metadata.namespace
        and selects(selector, pod.metadata.labels)
        and not problem_of_selector(selector)
    )


class DisruptionsLeft:
    """How many more disruptions each budget allows, after the evictions that are decided already.

    The disruption controller counts an eviction only after it was made. Without this, all preemptors of one
    tick would use the same budget.
    """

    def __init__(self) -> None:
        self._budgets: object = None
        self._covering: dict[str, Sequence[int]] = {}
        """By the uid of each leaving pod, the indexes of the budgets that cover it."""

    def of(self, budgets: Sequence[PodDisruptionBudget], leaving: Mapping[str, Pod]) -> tuple[int, ...]:
        """For each budget, how many more pods may be evicted; below 0 if it is violated already.

        leaving: by uid, the pods that will be evicted.
        """
        if budgets is not self._budgets:
            self._budgets, self._covering = budgets, {}
        left = [budget.status.disruptions_allowed for budget in budgets]
        before, self._covering = self._covering, {}  # only of those that still leave
        for uid, pod in leaving.items():
            covering = before.get(uid)
            if covering is None:
                covering = [i for i, budget in enumerate(budgets) if covers(budget, pod)]
            self._covering[uid] = covering
            for i in covering:
                left[i] -= 1
        return tuple(left)


def by_budget(
    pods: Iterable[Pod], budgets: Sequence[PodDisruptionBudget], left: Sequence[int]
) -> tuple[list[Pod], list[Pod]]:
    """The pods whose eviction would violate a budget, and the others. Each eviction uses budgets up.

    left: for each budget, how many disruptions it allows.
    """
    remaining = list(left)
    protected: list[Pod] = []
    others: list[Pod] = []
    for pod in pods:
        violated = False
        for i, budget in enumerate(budgets):
            if covers(budget, pod):
                remaining[i] -= 1
                violated = violated or remaining[i] < 0
        (protected if violated else others).append(pod)
    return protected, others
