"""Which pods are evicted for a pod that fits nowhere, and on which node: small clusters, solved by hand.

The rule is that of kube-scheduler's DefaultPreemption: of each node where pods of lower priority are in the
way, all of these are taken away; then as many as possible are given back, those first that a disruption
budget protects, the more important before the less. The node where that does least harm is nominated.

Source: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go, framework/preemption/
preemption.go, pickOneNodeForPreemption and DryRunPreemption, and util/utils.go, MoreImportantPod
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from objects import node, pod as plain, read
from waiting import recheck_permit

from lib.kube.changes import Change, Kind
from lib.kube.objects import Node, Pod, PodDisruptionBudget
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.extenders import Extenders
from lib.scheduling.framework.interface import Profile
from lib.scheduling.handle import Handle
from lib.scheduling.looked_up import BUDGETS_UNSEEN, LookedUp
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.plugins.default_preemption import DefaultPreemption
from lib.scheduling.plugins.node_resources_fit import NodeResourcesFit
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.pod_life import Phase
from lib.scheduling.scheduling_cycle import Scheduler
from lib.scheduling.status import NodeError, Status, unschedulable, wait

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
LEAST_PRIORITY = -(2**31)


def a(
    name: str,
    priority: int = 0,
    cpu: str = "1",
    *,
    at: int | None = 0,
    labels: dict[str, str] | None = None,
    namespace: str = "default",
    port: int | None = None,
    leaving: str = "",
    **spec: Any,
) -> Pod:
    """A pod, started `at` a minute, or not yet; `leaving`: who deletes it; `spec` as in the API."""
    container: dict[str, Any] = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    if port:
        container["ports"] = [{"hostPort": port}]
    metadata: dict[str, Any] = {"namespace": namespace, "name": name, "uid": f"uid-of-{name}"}
    metadata["labels"] = labels or {}
    status: dict[str, Any] = {} if at is None else {"startTime": f"2026-01-01T00:{at:02}:00Z"}
    if leaving:
        metadata["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    if leaving in (SCHEDULER, LATER_A_USER):
        is_true = "True" if leaving == SCHEDULER else "False"
        status["conditions"] = [
            {"type": "DisruptionTarget", "status": is_true, "reason": "PreemptionByScheduler"}
        ]
    body = {"priority": priority, "containers": [container], **spec}
    made: Pod = read(Pod, {"metadata": metadata, "spec": body, "status": status})
    return made


SCHEDULER, USER, LATER_A_USER = "scheduler", "user", "later a user"
"""Who deletes pods. The scheduler says why in a condition, which is no longer true if only a user deletes the
pod later."""


def new(cpu: str = "4", priority: int = 10, name: str = "new", **more: Any) -> Pod:
    """The pod that is to be placed."""
    return a(name, priority, cpu, at=None, **more)


Place = tuple[Node, tuple[Pod, ...]]


def on(name: str, *pods: Pod, labels: dict[str, str] | None = None, **more: Any) -> Place:
    """A node of 4 cpu, if nothing else is said, and what runs there."""
    for each in pods:
        each.spec.node_name = name
    return node(name, labels={HOSTNAME: name, **(labels or {})}, **more), pods


def budget(
    selector: Any, allowed: int = 0, namespace: str = "default", disrupted: Iterable[str] = ()
) -> PodDisruptionBudget:
    """A disruption budget; `selector` None leaves it out, a dict without expressions is labels."""
    if selector is not None and "matchExpressions" not in selector and selector:
        selector = {"matchLabels": selector}
    status = {
        "disruptionsAllowed": allowed,
        "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z"),
    }
    body = {"metadata": {"namespace": namespace, "name": "budget"}, "status": status}
    made: PodDisruptionBudget = read(
        PodDisruptionBudget, body if selector is None else body | {"spec": {"selector": selector}}
    )
    return made


def picture(
    places: Iterable[Place],
    budgets: Iterable[PodDisruptionBudget] = (),
    nominated: Iterable[tuple[Pod, str]] = (),
) -> Cache:
    places = list(places)
    cluster = Cache([each for each, _ in places], [each for _, pods in places for each in pods])
    cluster.looked_up = LookedUp(budgets=list(budgets))
    for pod, where in nominated:
        cluster.nominator.add(pod, where)
    return cluster


def decide(pod: Pod, cluster: Cache, *, preemption: bool = True) -> Decision:
    profile = default_profile("my-scheduler", preemption=preemption)
    return Scheduler(profile, Random(1)).schedule_one(pod, cluster)


def names(pods: Iterable[Pod]) -> set[str]:
    return {each.metadata.name for each in pods}


def apart_from(key: str, **labels: str) -> dict[str, Any]:
    """Required anti-affinity to pods with these labels."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def near_to(key: str, **labels: str) -> dict[str, Any]:
    """Required affinity to pods with these labels."""
    return {"podAffinity": apart_from(key, **labels)["podAntiAffinity"]}


# --- the table ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A cluster, the pod that comes, and what should be: its node and who leaves it, or the last words."""

    rule: str
    places: list[Place]
    pod: Pod
    node: str | None
    victims: set[str] | str
    budgets: tuple[PodDisruptionBudget, ...] = ()
    nominated: tuple[tuple[Pod, str], ...] = ()


NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
ON_THEIR_WAY = (
    "no new claims to deallocate, preemption: not eligible due to a terminating pod on the nominated node."
)


def nowhere(nodes: int, *counted: str) -> str:
    return f"no new claims to deallocate, preemption: 0/{nodes} nodes are available: {', '.join(counted)}."


DB = {"app": "db"}
WEB = {"app": "web"}
NO_DB_MAY_GO = budget(DB, allowed=0)
GPU = [{"key": "gpu", "effect": "NoSchedule"}]
SPREAD = [
    {
        "topologyKey": HOSTNAME,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": WEB},
    }
]
ONLY_N2 = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
            ]
        }
    }
}

WHO_MAY_GO = [
    Case("lower priority yields, equal does not",
         [on("n1", a("equal", 10, "2"), a("lower", 9, "2"))], new("2"), "n1", {"lower"}),
    Case("equal priority is no victim",
         [on("n1", a("equal", 10, "4"))], new(), None, nowhere(1, f"1 {NO_VICTIMS}")),
    Case("higher priority is no victim",
         [on("n1", a("x", 11, "4")), on("n2", a("y", 12, "4"))], new(), None, nowhere(2, f"2 {NO_VICTIMS}")),
    Case("an empty node has no victims",
         [on("n1", has={"pods": "0"})], new("1"), None, nowhere(1, f"1 {NO_VICTIMS}")),
    Case("below nothing there are negative priorities",
         [on("n1", a("x", 0, "2"), a("y", -1, "2"))], new("2", priority=0), "n1", {"y"}),
    Case("a pod that would preempt may, as its policy says",
         [on("n1", a("x", 1, "4"))], new(preemptionPolicy="PreemptLowerPriority"), "n1", {"x"}),
    Case("preemptionPolicy Never",
         [on("n1", a("x", 1, "4"))], new(preemptionPolicy="Never"),
         None, "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never."),
]  # fmt: skip

WHO_STAYS = [
    Case("as many stay as possible, the more important first",
         [on("n1", a("p1", 1), a("p4", 4), a("p2", 2), a("p3", 3))], new("2"), "n1", {"p1", "p2"}),
    Case("an important pod stays, though it alone would be enough",
         [on("n1", a("vip", 5, "2"), a("x", 1), a("y", 1))], new("2"), "n1", {"x", "y"}),
    Case("where some room is free, a smaller pod is enough",
         [on("n1", a("large", 5, "4")), on("n2", a("small", 1, "2"))], new("3"), "n2", {"small"}),
    Case("an important pod stays, though it is large",
         [on("n1", a("large", 5, "3"), a("small", 1))], new("1"), "n1", {"small"}),
    Case("where the important cannot stay, the less important still may",
         [on("n1", a("vip", 5, "3"), a("x", 1))], new("2"), "n1", {"vip"}),
    Case("of equals those stay that have run for longer",
         [on("n1", a("young", 1, "2", at=9), a("old", 1, "2", at=5))], new("2"), "n1", {"young"}),
    Case("what has not started is the youngest",
         [on("n1", a("unstarted", 1, "2", at=None), a("old", 1, "2", at=5))], new("2"), "n1", {"unstarted"}),
    Case("priority counts before age",
         [on("n1", a("old", 1, "2", at=1), a("young", 2, "2", at=9))], new("2"), "n1", {"old"}),
    Case("all go if they must",
         [on("n1", a("w", 1), a("x", 2), a("y", 3), a("z", 4))], new("4"), "n1", {"w", "x", "y", "z"}),
]  # fmt: skip

WHICH_NODE = [
    Case("fewest violated budgets before everything else",
         [on("n1", a("db", 1, "4", labels=DB)), on("n2", a("w", 9), a("x", 9), a("y", 9), a("z", 9))],
         new(), "n2", {"w", "x", "y", "z"}, (NO_DB_MAY_GO,)),
    Case("one violated budget rather than two",
         [on("n1", a("x", 1, "2", labels=DB), a("y", 1, "2", labels=DB)),
          on("n2", a("z", 9, "4", labels=DB))],
         new(), "n2", {"z"}, (NO_DB_MAY_GO,)),
    Case("then the lowest of the highest priorities, though the victims are more",
         [on("n1", a("x", 5, "4")), on("n2", a("y", 4, "2"), a("z", 4, "2"))], new(), "n2", {"y", "z"}),
    Case("then the smallest sum of priorities",
         [on("n1", a("w", 5, "2"), a("x", 3, "2")), on("n2", a("y", 5, "2"), a("z", 2, "2"))],
         new(), "n2", {"y", "z"}),
    Case("to that sum a victim of negative priority adds, too",
         [on("n1", a("x", -1, "2"), a("y", -5, "2")), on("n2", a("z", -1, "4"))], new(), "n2", {"z"}),
    Case("the sum counts before the age",
         [on("n1", a("w", 5, "2", at=9), a("x", 3, "2", at=9)), on("n2", a("y", 5, "2"), a("z", 2, "2"))],
         new(), "n2", {"y", "z"}),
    # The sums are made of priorities raised by 2^31, so only a victim of the least priority adds nothing.
    Case("then the fewest victims",
         [on("n1", a("x", 5, "2", at=9), a("y", LEAST_PRIORITY, "2", at=9)), on("n2", a("z", 5, "4", at=1))],
         new(), "n2", {"z"}),
    Case("but a smaller sum rather than fewer victims",
         [on("n1", a("w", 5, "2"), a("x", 5, "2")),
          on("n2", a("y", 5, "2"), a("z", LEAST_PRIORITY), a("zz", LEAST_PRIORITY))],
         new(), "n2", {"y", "z", "zz"}),
    Case("then those that started last",
         [on("n1", a("old", 5, "4", at=1)), on("n2", a("young", 5, "4", at=9))], new(), "n2", {"young"}),
    Case("whereby the less important do not count",
         [on("n1", a("w", 5, "2", at=5), a("x", 1, "2", at=8)),
          on("n2", a("y", 5, "2", at=9), a("z", 1, "2", at=1))],
         new(), "n2", {"y", "z"}),
    Case("and of the most important the oldest does",
         [on("n1", a("w", 5, "2", at=1), a("x", 5, "2", at=9)),
          on("n2", a("y", 5, "2", at=4), a("z", 5, "2", at=5))],
         new(), "n2", {"y", "z"}),
    # kube-scheduler says "the first such node", too, but leaves it to chance which is the first.
    Case("then the first",
         [on("n1", a("x", 5, "4")), on("n2", a("y", 5, "4")), on("n3", a("z", 5, "4"))], new(), "n1", {"x"}),
]  # fmt: skip

# Where there are two nodes, "n1" has the less important pods: it is passed over only if they are protected.
BUDGETS = [
    Case("a protected pod stays before a more important one",
         [on("n1", a("db", 1, "2", labels=DB), a("x", 5, "2"))], new("2"), "n1", {"x"}, (NO_DB_MAY_GO,)),
    Case("a budget is violated if there is no other way",
         [on("n1", a("db", 1, "4", labels=DB))], new(), "n1", {"db"}, (NO_DB_MAY_GO,)),
    # The more important pod is counted first, uses the budget up, and so is the one that may go.
    Case("a budget that allows one of two",
         [on("n1", a("x", 5, "2", labels=DB), a("y", 4, "2", labels=DB))],
         new("2"), "n1", {"x"}, (budget(DB, allowed=1),)),
    Case("a budget that allows one is violated by two",
         [on("n1", a("x", 5, "2", labels=DB), a("y", 4, "2", labels=DB)), on("n2", a("z", 9, "4"))],
         new(), "n2", {"z"}, (budget(DB, allowed=1),)),
    Case("a budget that allows two is not",
         [on("n1", a("x", 5, "2", labels=DB), a("y", 4, "2", labels=DB)), on("n2", a("z", 9, "4"))],
         new(), "n1", {"x", "y"}, (budget(DB, allowed=2),)),
    Case("a budget may select by expressions",
         [on("n1", a("x", 1, "4", labels=DB)), on("n2", a("y", 5, "4"))], new(), "n2", {"y"},
         (budget({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db"]}]}),)),
    Case("of two budgets that cover a pod one is enough to protect it",
         [on("n1", a("x", 1, "4", labels={**DB, "tier": "1"})), on("n2", a("y", 5, "4"))],
         new(), "n2", {"y"}, (budget(DB, allowed=3), budget({"tier": "1"}, allowed=0))),
    Case("a budget protects only whom it selects",
         [on("n1", a("x", 1, "4", labels=WEB)), on("n2", a("y", 5, "4"))],
         new(), "n1", {"x"}, (NO_DB_MAY_GO,)),
    Case("a budget with an empty selector protects nobody",
         [on("n1", a("x", 1, "4", labels=DB)), on("n2", a("y", 5, "4", namespace="other"))], new(),
         "n1", {"x"}, (budget({}),)),
    Case("a budget without a selector protects nobody",
         [on("n1", a("x", 1, "4", labels=DB)), on("n2", a("y", 5, "4"))], new(),
         "n1", {"x"}, (budget(None),)),
    Case("a budget whose selector is invalid protects nobody",
         [on("n1", a("x", 1, "4", labels=DB)), on("n2", a("y", 5, "4"))], new(), "n1", {"x"},
         (budget({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": []}]}),)),
    Case("a budget of another namespace protects nobody here",
         [on("n1", a("x", 1, "4", labels=DB)), on("n2", a("y", 5, "4"))],
         new(), "n1", {"x"}, (budget(DB, namespace="other"),)),
    Case("a pod that counts as disrupted already violates nothing",
         [on("n1", a("x", 1, "4", labels=DB)), on("n2", a("y", 5, "4"))],
         new(), "n1", {"x"}, (budget(DB, disrupted=["x"]),)),
    Case("nor does it use up what is allowed",
         [on("n1", a("x", 5, "2", labels=DB), a("y", 4, "2", labels=DB)), on("n2", a("z", 9, "4"))],
         new(), "n1", {"x", "y"}, (budget(DB, allowed=1, disrupted=["x"]),)),
    Case("no budget protects a pod without labels",
         [on("n1", a("x", 1, "4")), on("n2", a("y", 5, "4", labels=DB))], new(), "n1", {"x"},
         (budget({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}),)),
]  # fmt: skip

NOT_TRIED = [
    Case("a taint stays",
         [on("n1", a("x", 1, "4"), taints=GPU)], new(), None, nowhere(1, f"1 {NOT_HELPFUL}")),
    Case("a cordoned node stays so",
         [on("n1", a("x", 1, "4"), unschedulable=True)], new(), None, nowhere(1, f"1 {NOT_HELPFUL}")),
    Case("a node that the pod does not select",
         [on("n1", a("x", 1, "4"))], new(nodeSelector={"disk": "ssd"}), None, nowhere(1, f"1 {NOT_HELPFUL}")),
    Case("a node that the pod's affinity does not name",
         [on("n1", a("x", 1, "4")), on("n2", a("y", 10, "4"))], new(affinity=ONLY_N2),
         None, nowhere(2, f"1 {NO_VICTIMS}", f"1 {NOT_HELPFUL}")),
    Case("a node that is smaller than the pod",
         [on("n1", a("x", 1, "4"))], new("5"), None, nowhere(1, f"1 {NOT_HELPFUL}")),
    Case("a node far from what the pod must be near to",
         [on("n1", a("x", 1, "3"))], new("1", affinity=near_to(HOSTNAME, app="db")),
         None, nowhere(1, f"1 {NOT_HELPFUL}")),
    Case("others are tried, though their pods are more important",
         [on("n1", a("x", 1, "4"), taints=GPU), on("n2", a("y", 5, "4"))], new(), "n2", {"y"}),
    Case("each node says why",
         [on("n1", a("x", 1, "4"), unschedulable=True), on("n2", a("y", 10, "4")),
          on("n3", a("z", 10, "3"), a("low", 1))],
         new("2"), None, nowhere(3, "1 Insufficient cpu", f"1 {NO_VICTIMS}", f"1 {NOT_HELPFUL}")),
]  # fmt: skip

WHAT_IS_IN_THE_WAY = [
    Case("a host port",
         [on("n1", a("x", 5, port=80), a("y", 1, port=81), a("z", 1))],
         new("1", port=80), "n1", {"x"}),
    Case("a victim that keeps the pod away",
         [on("n1", a("x", 5, affinity=apart_from(HOSTNAME, app="web")), a("y", 1))],
         new("1", labels=WEB), "n1", {"x"}),
    Case("a victim that the pod keeps away from",
         [on("n1", a("x", 5, labels=DB), a("y", 1))],
         new("1", affinity=apart_from(HOSTNAME, app="db")), "n1", {"x"}),
    Case("only pods of the node itself are taken away, not others of its zone",
         [on("n1", a("x", 1), labels={ZONE: "z"}), on("n2", a("db", 5, labels=DB), labels={ZONE: "z"})],
         new("1", affinity=apart_from(ZONE, app="db")), "n2", {"db"}),
    Case("a pod that keeps it away and does not yield",
         [on("n1", a("x", 10, affinity=apart_from(HOSTNAME, app="web")), a("y", 1))],
         new("1", labels=WEB),
         None, nowhere(1, "1 node(s) didn't satisfy existing pods anti-affinity rules")),
    Case("a pod too many of those that are to be spread",
         [on("n1", a("x", 5, labels=WEB), a("y", 1)), on("n2", a("z", 10, "4"))],
         new("1", labels=WEB, topologySpreadConstraints=SPREAD), "n1", {"x"}),
    Case("the number of pods",
         [on("n1", a("x", 5, "100m"), a("y", 1, "100m"), has={"pods": "2"})], new("100m"), "n1", {"y"}),
    Case("too much that does not yield",
         [on("n1", a("x", 10, "3"), a("y", 1))], new("2"), None, nowhere(1, "1 Insufficient cpu")),
    Case("a node where all that go are not enough is passed over",
         [on("n1", a("x", 10, "3"), a("y", 1)), on("n2", a("z", 5, "4"))], new("2"), "n2", {"z"}),
    Case("what is counted in the end is what stays in the way",
         [on("n1", a("x", 10, "3"), a("y", 1, port=80))], new("2", port=80),
         None, nowhere(1, "1 Insufficient cpu")),
    Case("what the pod must be near to cannot go",
         [on("n1", a("x", 1, "4", labels=DB))], new("1", affinity=near_to(HOSTNAME, app="db")),
         None, nowhere(1, "1 node(s) didn't match pod affinity rules")),
]  # fmt: skip

# Pods that leave anyway are among the victims, but aren't deleted a second time.
LEAVING = [
    Case("what somebody else deletes is a victim like any other",
         [on("n1", a("x", 1, "4", leaving=USER)), on("n2", a("y", 5, "4"))], new(), "n1", {"x"}),
    Case("and is given back after the more important",
         [on("n1", a("x", 1, "2", leaving=USER), a("y", 5, "2"))], new("2"), "n1", {"x"}),
    Case("if its room is not enough, others must go, too",
         [on("n1", a("x", 1, "2", leaving=USER), a("y", 5, "2"))], new("4"), "n1", {"x", "y"}),
    Case("the room of what leaves and would not yield does not count",
         [on("n1", a("x", 10, "2", leaving=USER), a("y", 1, "2"))], new("2"), "n1", {"y"}),
    Case("nor is it a victim",
         [on("n1", a("x", 10, "4", leaving=USER))], new(), None, nowhere(1, f"1 {NO_VICTIMS}")),
    Case("what leaves is given back like the others, if it is more important than they are",
         [on("n1", a("x", 5, "2", leaving=USER), a("y", 1, "2"))], new("2"), "n1", {"y"}),
    Case("the importance of what leaves counts when nodes are compared",
         [on("n1", a("x", 8, "4", leaving=USER)), on("n2", a("y", 1, "4"))], new(), "n2", {"y"}),
    # kube-scheduler counts what leaves for no constraint, yet one less where it is taken away for a try.
    Case("what leaves makes room for what is spread",
         [on("n1", a("x", 1, "0", labels=WEB, at=1), a("y", 1, "0", labels=WEB, at=9, leaving=USER),
             has={"pods": "2"}),
          on("n2", a("z", 1, "0", labels=WEB, at=5)), on("n3", has={"pods": "0"})],
         new("0", labels=WEB, topologySpreadConstraints=SPREAD), "n1", {"y"}),
]  # fmt: skip

PLACES_KEPT = [
    Case("a place that is kept for an equal is not there for the pod",
         [on("n1", a("x", 1, "2"), a("y", 2, "2"))], new("2"), "n1", {"x", "y"},
         nominated=((new("2", 10, "other"), "n1"),)),
    Case("a place that is kept for a less important pod is",
         [on("n1", a("x", 1, "2"), a("y", 2, "2"))], new("2"), "n1", {"x"},
         nominated=((new("2", 9, "other"), "n1"),)),
    Case("a place kept on another node does not matter",
         [on("n1", a("x", 1, "2"), a("y", 2, "2")), on("n2", a("z", 10, "4"))], new("2"), "n1", {"x"},
         nominated=((new("2", 20, "other"), "n2"),)),
    Case("a pod for which a place is kept is no victim",
         [on("n1")], new("4"), None, nowhere(1, f"1 {NO_VICTIMS}"),
         nominated=((new("1", 20, "other"), "n1"),)),
    Case("while its victims leave, a pod has no others go",
         [on("n1", a("x", 1, "4", leaving=SCHEDULER)), on("n2", a("y", 1, "4"))], new(), None, ON_THEIR_WAY,
         nominated=((new(), "n1"),)),
    Case("what leaves another node is no reason to wait",
         [on("n1", a("x", 1, "4")), on("n2", a("y", 1, "2", leaving=SCHEDULER), a("z", 10, "2"))],
         new(), "n1", {"x"}, nominated=((new(), "n1"),)),
    Case("nor is what leaves and is not less important",
         [on("n1", a("x", 10, "2", leaving=SCHEDULER), a("y", 1, "2"))], new("2"), "n1", {"y"},
         nominated=((new("2"), "n1"),)),
    Case("nor is what somebody else deletes",
         [on("n1", a("x", 1, "2", leaving=USER), a("y", 1, "2"))], new(), "n1", {"x", "y"},
         nominated=((new(), "n1"),)),
    Case("nor is what somebody else deletes after the scheduler did not",
         [on("n1", a("x", 1, "2", leaving=LATER_A_USER), a("y", 1, "2"))], new(), "n1", {"x", "y"},
         nominated=((new(), "n1"),)),
    Case("a pod does not wait for a node that has become impossible",
         [on("n1", a("x", 1, "4", leaving=SCHEDULER), unschedulable=True), on("n2", a("y", 5, "4"))],
         new(), "n2", {"y"}, nominated=((new(), "n1"),)),
]  # fmt: skip

CASES = [
    *WHO_MAY_GO,
    *WHO_STAYS,
    *WHICH_NODE,
    *BUDGETS,
    *NOT_TRIED,
    *WHAT_IS_IN_THE_WAY,
    *LEAVING,
    *PLACES_KEPT,
]


@pytest.mark.parametrize(
    "case",
    [pytest.param(each, id=each.rule) for each in CASES],
)
def test_the_least_harm_is_done(case: Case) -> None:
    decision = decide(case.pod, picture(case.places, case.budgets, case.nominated))
    assert decision.outcome == Outcome.UNSCHEDULABLE
    assert not decision.node_name
    if isinstance(case.victims, str):
        assert (decision.nominated, names(decision.victims)) == ("", set())
        assert decision.message.endswith(f". {case.victims}")
    else:
        assert (decision.nominated, names(decision.victims)) == (case.node, case.victims)
        assert "preemption" not in decision.message  # the reasons why it fits nowhere now, and no more


# --- around it ------------------------------------------------------------------------------------------


def state_of(cluster: Cache) -> Any:
    """All that the picture says of its nodes, whatever the order of the pods."""
    return {
        name: (
            sorted(str(each) for each in info.pods),
            sorted(str(each) for each, _ in info.pods_with_affinity),
            +Counter(info.requested),
            +Counter(info.non_zero_requested),
            dict(info.ports),
        )
        for name, info in cluster.nodes.items()
    }


@pytest.mark.parametrize("case", [pytest.param(each, id=each.rule) for each in CASES])
def test_a_dry_run_leaves_the_picture_as_it_is(case: Case) -> None:
    cluster = picture(case.places, case.budgets, case.nominated)
    before, leaving, kept = state_of(cluster), set(cluster.lives.leaving), cluster.nominator.node_of(case.pod)
    decision = decide(case.pod, cluster)
    assert state_of(cluster) == before
    # Only from now on the victims count as leaving, and the place is kept.
    assert set(cluster.lives.leaving) == leaving | {each.metadata.uid for each in decision.victims}
    assert cluster.nominator.node_of(case.pod) == (decision.nominated or kept)


def test_without_the_plugin_nothing_is_nominated() -> None:
    decision = decide(new(), picture([on("n1", a("x", 1, "4"))]), preemption=False)
    assert (decision.outcome, decision.nominated, decision.victims) == (Outcome.UNSCHEDULABLE, "", ())
    assert decision.message == "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate"


class RefusesN1(Extenders):
    """An extender to which n1 is no use now."""

    def __bool__(self) -> bool:
        return True

    def filter(self, pod: Pod, nodes: Sequence[NodeInfo]) -> dict[str, tuple[str, Status]]:
        return {each.name: ("extender", unschedulable("no")) for each in nodes if each.name == "n1"}


@pytest.mark.parametrize("yields", [True, False])
def test_a_node_that_only_an_extender_refuses_needs_no_victim_and_is_no_candidate(yields: bool) -> None:
    """Source: preemption.go, DryRunPreemption: "expected at least one victim pod on node"."""
    cluster = picture([on("n1", a("x", 1)), on("n2", a("y", 5 if yields else 10, "4"))])
    scheduler = Scheduler(default_profile("my-scheduler"), Random(1), RefusesN1())
    decision = scheduler.schedule_one(new("2"), cluster)
    assert (decision.nominated, names(decision.victims)) == (("n2", {"y"}) if yields else ("", set()))
    assert yields or decision.message.endswith(nowhere(2, f"2 {NO_VICTIMS}"))


def test_the_least_harm_is_done_among_the_nodes_to_which_extenders_agree() -> None:
    cluster = picture([on("n1", a("x", 5, "4")), on("n2", a("y", 1, "4")), on("n3", a("z", 9, "4"))])
    profile = default_profile("my-scheduler", handle=Handle(extenders=RefusesN1()))
    assert Scheduler(profile, Random(1)).schedule_one(new(), cluster).nominated == "n2"


def test_where_one_pod_finds_no_victims_another_that_is_not_alike_may() -> None:
    """A pod affinity term is compared with pods of all nodes, so results of such pods aren't kept."""
    cluster = picture([on("n1", a("vip", 20, "2"), a("x", 1, "2"))])
    large, small = (new(cpu, name=f"{cpu} cpu", affinity=apart_from(HOSTNAME, app="db")) for cpu in "32")
    scheduler = Scheduler(default_profile("my-scheduler"), Random(1))
    assert [scheduler.schedule_one(each, cluster).nominated for each in (large, small)] == ["", "n1"]


def test_why_nobody_yields_stands_behind_why_the_pod_fits_nowhere() -> None:
    decision = decide(new(), picture([on("n1", a("x", 10, "4")), on("n2", a("y", 1), taints=GPU)]))
    assert decision.message == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). "
        f"no new claims to deallocate, preemption: 0/2 nodes are available: 1 {NO_VICTIMS}, 1 {NOT_HELPFUL}."
    )


def test_a_pod_that_fits_somewhere_preempts_nobody() -> None:
    decision = decide(new("1"), picture([on("n1", a("x", 1, "4")), on("n2", a("y", 1, "3"))]))
    assert (decision.outcome, decision.node_name) == (Outcome.SCHEDULED, "n2")
    assert (decision.nominated, decision.victims) == ("", ())


@pytest.mark.parametrize(("priority", "placed"), [(4, True), (5, False), (6, False)])
def test_a_place_is_kept_from_pods_that_are_not_more_important(priority: int, placed: bool) -> None:
    cluster = picture([on("n1")], nominated=[(new("4", priority, "first"), "n1")])
    decision = decide(new("1", 5), cluster)
    assert decision.node_name == ("n1" if placed else "")
    if not placed:
        assert decision.message == (
            f"0/1 nodes are available: 1 Insufficient cpu. {nowhere(1, f'1 {NO_VICTIMS}')}"
        )


def test_what_does_not_fit_beside_a_nominated_pod_says_nothing_of_pods_that_are_not_alike() -> None:
    """A pod affinity term is compared with pods of all nodes, so results of such pods aren't kept."""
    cluster = picture([on("n1")], nominated=[(new("2", name="first"), "n1")])
    apart = apart_from(HOSTNAME, app="db")
    large, small = (new(cpu, 5, f"{cpu} cpu", affinity=apart) for cpu in "31")
    scheduler = Scheduler(default_profile("my-scheduler"), Random(1))
    assert [scheduler.schedule_one(each, cluster).node_name for each in (large, small)] == ["", "n1"]


def test_a_place_is_kept_no_longer_than_it_is_wanted() -> None:
    first = new("4", 20, "first")
    cluster = picture([on("n1")], nominated=[(first, "n1")])
    cluster.nominator.add(first, "")
    assert decide(new("1"), cluster).node_name == "n1"


def test_a_pod_keeps_away_from_the_place_of_another() -> None:
    """Source: framework/runtime/framework.go, addGENominatedPods: what PreFilter knows takes them in, too."""
    cluster = picture([on("n1")], nominated=[(new("1", 20, "db", labels=DB), "n1")])
    decision = decide(new("1", affinity=apart_from(HOSTNAME, app="db")), cluster)
    assert not decision.node_name


@pytest.mark.parametrize(
    ("selector", "leaving", "namespace", "fits"),
    [
        ({"matchLabels": WEB}, "", "default", False),
        ({"matchLabels": WEB}, USER, "default", False),
        ({}, "", "default", False),
        ({}, USER, "default", False),
        ({}, USER, "other", True),
        ({"matchLabels": DB}, USER, "default", True),
        (None, USER, "default", True),
    ],
)
def test_for_spreading_all_pods_that_match_count_where_they_are_nominated(
    selector: Any, leaving: str, namespace: str, *, fits: bool
) -> None:
    """As in kube-scheduler: those that leave, too, and with an empty selector, which counts no other pod."""
    first = new("1", 20, "first", labels=WEB, leaving=leaving, namespace=namespace)
    cluster = picture([on("n1"), on("n2", unschedulable=True)], nominated=[(first, "n1")])
    constraint = {**SPREAD[0], "labelSelector": selector}
    decision = decide(new("1", labels=WEB, topologySpreadConstraints=[constraint]), cluster)
    assert decision.node_name == ("n1" if fits else "")
    cluster.nominator.delete(first)
    decision = decide(new("1", labels=WEB, topologySpreadConstraints=[constraint]), cluster)
    assert decision.node_name == "n1"


@pytest.mark.parametrize(
    ("nominated", "goes_to"),
    [("n1", "n1"), ("", "n2"), ("n3", "n2"), ("gone", "n2")],
    ids=["where it fits", "control: the best", "where it does not fit", "where no node is any more"],
)
def test_a_pod_goes_where_room_was_made_though_another_node_is_better(nominated: str, goes_to: str) -> None:
    """Source: schedule_one.go, evaluateNominatedNode."""
    pod = new("1")
    places = [on("n1", a("x", 10, "3")), on("n2"), on("n3", a("z", 10, "4"))]
    decision = decide(pod, picture(places, nominated=[(pod, nominated)]))
    assert (decision.outcome, decision.node_name) == (Outcome.SCHEDULED, goes_to)


def test_from_the_victims_to_the_place() -> None:
    pod, rival, victim = new("4"), new("1", 5, "rival"), a("x", 1, "4")
    cluster = picture([on("n1", victim)])

    first = decide(pod, cluster)
    assert (first.nominated, names(first.victims)) == ("n1", {"x"})
    assert cluster.nominator.node_of(pod) == "n1"

    cluster.apply(Change(Kind.MODIFIED, on("n1", a("x", 1, "4", leaving=SCHEDULER))[1][0]))
    second = decide(pod, cluster)
    assert (second.nominated, second.victims) == ("", ())
    assert second.message == f"0/1 nodes are available: 1 Insufficient cpu. {ON_THEIR_WAY}"

    cluster.apply(Change(Kind.DELETED, victim))
    assert not decide(rival, cluster).node_name  # though there is room, it is another's
    assert decide(pod, cluster).node_name == "n1"
    assert cluster.nominator.node_of(pod) is None


def test_the_search_goes_on_until_no_budget_is_violated() -> None:
    """Source: preemption.go, DryRunPreemption: enough candidates, one of which at least violates none."""
    protected = [on(f"n{i}", a(f"db{i}", 1, "4", labels=DB)) for i in range(100)]
    cluster = picture([*protected, on("last", a("x", 5, "4"))], [NO_DB_MAY_GO])
    decision = decide(new(), cluster)
    assert (decision.nominated, names(decision.victims)) == ("last", {"x"})


def test_after_a_failed_binding_a_pod_is_nominated_as_before() -> None:
    pod, rival = new("4"), new("1", 5, "rival")
    cluster = picture([on("n1")], nominated=[(pod, "n1")])
    scheduler = Scheduler(default_profile("my-scheduler"), Random(1))
    decision = scheduler.schedule_one(pod, cluster)
    assert (decision.node_name, cluster.nominator.node_of(pod)) == ("n1", None)
    scheduler.unreserve_and_forget(decision, cluster)
    assert cluster.nominator.node_of(pod) == "n1"
    assert not decide(rival, cluster).node_name


def test_what_is_heard_late_of_an_assumed_pod_does_not_nominate_it_again() -> None:
    pod = new("4")
    cluster = picture([on("n1")], nominated=[(pod, "n1")])
    assert decide(pod, cluster).node_name == "n1"
    late = new("4")
    late.status.nominated_node_name = "n1"
    cluster.apply(Change(Kind.MODIFIED, late, pod))
    assert cluster.nominator.node_of(pod) is None


def test_less_important_pods_lose_their_nomination_where_a_pod_preempts() -> None:
    """Source: framework/preemption/preemption.go, getLowerPriorityNominatedPods."""
    low, equal, elsewhere = new("4", 5, "low"), new("1", 10, "equal"), new("4", 5, "elsewhere")
    nominated = [(low, "n1"), (equal, "n1"), (elsewhere, "n2")]
    cluster = picture([on("n1", a("x", 1, "4")), on("n2", a("y", 20, "4"))], nominated=nominated)
    decision = decide(new("3"), cluster)
    assert (decision.nominated, names(decision.cleared_nominations)) == ("n1", {"low"})
    assert [cluster.nominator.node_of(each) for each in (low, equal, elsewhere)] == [None, "n1", "n2"]


def test_they_keep_it_if_nothing_has_to_be_done_because_the_victims_leave_already() -> None:
    """Source: prepareCandidateAsync in pkg/scheduler/framework/preemption/executor.go."""
    victim = a("victim", cpu="4", leaving=SCHEDULER)
    cluster = picture([on("n1", victim)], nominated=[(new(priority=5, name="low"), "n1")])
    decision = decide(new(priority=10), cluster)
    assert (decision.nominated, decision.cleared_nominations) == ("n1", ())


def test_a_pod_that_permit_holds_is_tried_again_and_not_deleted() -> None:
    """Source: framework/preemption/executor.go: the victim's WaitingPod is preempted."""

    class Holds:
        name = "Holds"

        def permit(self, state: Any, pod: Pod, node_name: str, waited: float) -> Status | None:
            return wait("not yet") if pod.metadata.name == "held" else None

    scheduler = Scheduler(default_profile("my-scheduler", Holds()), Random(1))
    held, running = new("2", 1, "held", schedulerName="my-scheduler"), a("runs", 1, "2")
    cluster, schedulers = picture([on("n1", running)]), {"my-scheduler": scheduler}
    kept = scheduler.schedule_one(held, cluster)
    assert kept.outcome == Outcome.WAITING

    pod = new("4")
    decision = scheduler.schedule_one(pod, cluster)
    assert (names(decision.victims), names(decision.preempted_held)) == ({"runs"}, {"held"})
    (kept,) = recheck_permit(cluster, schedulers, now=1)
    assert (kept.outcome, kept.message) == (Outcome.ERROR, "waiting on permit for pod: preempted")
    assert kept.rejected_by == set()  # it backs off, and waits for no change
    assert not cluster.lives.in_phase(Phase.HELD)
    assert set(cluster.lives.leaving) == {"uid-of-runs"}
    cluster.apply(Change(Kind.DELETED, running))
    assert scheduler.schedule_one(pod, cluster).node_name == "n1"


class FailsWhileTrying:
    """Fails for a node where nobody runs: while preemption tries that."""

    name = "FailsWhileTrying"

    def filter(self, state: Any, pod: Pod, node: Any) -> Status | None:
        if not any(each.metadata.name == "x" for each in node.pods):
            raise RuntimeError("empty")
        return None


def test_nothing_is_left_behind_by_a_try_that_fails_or_succeeds() -> None:
    cluster = picture([on("n1", a("x", 1, "4", port=80))], nominated=[(new("0", 20, "kept", port=81), "n1")])
    node = cluster.nodes["n1"]
    before = [each.copy() for each in (node.requested, node.non_zero_requested, node.ports)]
    profile = default_profile("my-scheduler", FailsWhileTrying())
    decision = Scheduler(profile, Random(1)).schedule_one(new("4"), cluster)
    assert decision.outcome == Outcome.ERROR
    assert [node.requested, node.non_zero_requested, node.ports] == before
    assert (names(node.pods), set(cluster.lives.leaving), cluster.removed) == ({"x"}, set(), {})
    assert not decide(new("1"), cluster).node_name
    assert [node.requested, node.non_zero_requested, node.ports] == before


# --- how many nodes are tried -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("percentage", "absolute", "nominated"),
    [
        (10, 200, "n99"),  # all
        (0, 1, "n9"),  # those that are tried first
        (0, 40, "n39"),
        (40, 1, "n39"),  # the larger of both counts
        (19, 0, "n18"),
        (0, 0, "n9"),
        (100, 0, "n99"),
    ],
)
def test_the_best_of_so_many_nodes_is_taken(percentage: int, absolute: int, nominated: str) -> None:
    """Each node's victim is less important than that of the node before. The least important may stay."""
    places = [on(f"n{i}", a(f"stays-{i}", 0, "0"), a(f"victim-{i}", 100 - i, "4")) for i in range(100)]
    preemption = DefaultPreemption(
        min_candidate_nodes_percentage=percentage, min_candidate_nodes_absolute=absolute
    )
    plugins = (NodeResourcesFit(), preemption)
    decision = Scheduler(Profile("my-scheduler", plugins, {}), Random(1)).schedule_one(
        new("4", 101), picture(places)
    )
    assert decision.nominated == nominated


@pytest.mark.parametrize("alike", [True, False])
def test_all_preemptors_together_evict_no_more_than_a_budget_allows(*, alike: bool) -> None:
    """Each node has a pod that could go instead; without budgets the protected one would."""
    protected = [a(f"db-{i}", 0, "2", labels={"app": "db"}) for i in range(40)]
    places = [on(f"n{i}", each, a(f"other-{i}", 1, "2")) for i, each in enumerate(protected)]
    cluster = picture(places, [budget({"app": "db"}, allowed=3)])
    scheduler = Scheduler(default_profile("my-scheduler"), Random(1))
    victims: list[Pod] = []
    for i in range(40):
        cpu = "2" if alike else f"{1900 + i}m"
        victims += scheduler.schedule_one(new(cpu, name=f"new-{i}"), cluster).victims
    assert len(victims) == 40
    assert sum(each in protected for each in victims) == 3


def test_an_eviction_that_is_given_up_may_be_made_for_another() -> None:
    places = [on(f"n{i}", a(f"db-{i}", 0, labels={"app": "db"}), a(f"other-{i}", 5, "3")) for i in range(2)]
    cluster = picture(places, [budget({"app": "db"}, allowed=1)])
    scheduler = Scheduler(default_profile("my-scheduler"), Random(1))
    first = scheduler.schedule_one(new("1", name="first"), cluster)
    assert names(first.victims) == {"db-0"}
    second = scheduler.schedule_one(new("1", name="second"), cluster)
    assert names(second.victims) == {"other-0"}
    cluster.nominator.undo_preemption(first)
    third = scheduler.schedule_one(new("1", name="third"), cluster)
    assert names(third.victims) == {"db-1"}


# --- filters that fail ----------------------------------------------------------------------------------


@dataclass
class Fails:
    """A filter that fails on a node that has exactly these pods, by the node's name."""

    where: dict[str, set[str]]
    name: str = "Fails"

    def filter(self, state: Any, pod: Pod, node: NodeInfo) -> Status | None:
        if names(node.pods) == self.where.get(node.name):
            raise NodeError(f"failed on {node.name}")
        return None


@pytest.mark.parametrize(
    ("where", "nominated", "victims"),
    [
        ({}, "n1", {"y"}),
        ({"n1": set()}, "n2", {"z"}),  # on n1 it isn't known whether evictions help
        ({"n1": {"x"}}, "n1", {"x"}),  # with x the pod doesn't fit, so y stays
    ],
)
def test_a_filter_that_fails_while_victims_are_sought_concerns_that_node_alone(
    where: dict[str, set[str]], nominated: str, victims: set[str]
) -> None:
    cluster = picture([on("n1", a("x", 2, "2"), a("y", 1, "2")), on("n2", a("z", 5, "4"))])
    scheduler = Scheduler(default_profile("my-scheduler", Fails(where)), Random(1))
    decision = scheduler.schedule_one(new("2"), cluster)
    assert (decision.nominated, names(decision.victims)) == (nominated, victims)


def test_if_filters_fail_on_all_nodes_only_that_is_said_and_the_nomination_stays() -> None:
    """Source: framework/preemption/preemption.go, Preempt; framework/runtime/framework.go."""
    pod = new()
    places = [on("n1", a("x", 1, "4")), on("n2", a("y", 1, "4")), on("n3", a("z", 20, "4"))]
    cluster = picture(places, nominated=[(pod, "n1")])
    scheduler = Scheduler(default_profile("my-scheduler", Fails({"n1": set(), "n2": set()})), Random(1))
    decision = scheduler.schedule_one(pod, cluster)
    assert decision.outcome == Outcome.UNSCHEDULABLE
    full = "0/3 nodes are available: 3 Insufficient cpu."
    assert decision.message == f"{full} preemption: [failed on n1, failed on n2]"
    assert not decision.clears_nomination
    assert cluster.nominator.node_of(pod) == "n1"


# --- the end of a nomination ----------------------------------------------------------------------------


class Breaks:
    """A filter that fails."""

    name = "Breaks"

    def filter(self, state: Any, pod: Pod, node: NodeInfo) -> Status | None:
        raise ValueError("broken")


class Refuses:
    """Rejects the node that was picked."""

    name = "Refuses"

    def reserve(self, state: Any, pod: Pod, node_name: str) -> Status | None:
        return unschedulable("not there")


NEVER = {"preemptionPolicy": "Never"}


@pytest.mark.parametrize(
    ("why", "places", "pod", "plugins", "kept"),
    [
        ("no victims are found", [on("n1", a("x", 20, "4"))], new(), (), False),
        ("the node is unschedulable", [on("n1", unschedulable=True)], new(), (), False),
        ("there is no node", [], new(), (), False),
        ("a filter fails", [on("n1")], new(), (Breaks(),), False),
        ("the picked node is refused", [on("n1")], new(), (Refuses(),), False),
        ("it may not preempt", [on("n1", a("x", 1, "4"))], new(**NEVER), (), True),
        ("victims are leaving", [on("n1", a("x", 1, "4", leaving=SCHEDULER))], new(), (), True),
    ],
)
def test_an_attempt_without_a_node_ends_the_nomination_unless_no_other_was_looked_for(
    why: str, places: list[Place], pod: Pod, plugins: tuple[Any, ...], kept: bool
) -> None:
    """Source: clearNominatedNode in pkg/scheduler/schedule_one.go; framework/preemption/preemption.go."""
    cluster = picture(places, nominated=[(pod, "n1")])
    decision = Scheduler(default_profile("my-scheduler", *plugins), Random(1)).schedule_one(pod, cluster)
    assert decision.outcome in (Outcome.UNSCHEDULABLE, Outcome.ERROR), why
    assert (cluster.nominator.node_of(pod) is not None, decision.clears_nomination) == (kept, not kept)


@pytest.mark.parametrize(
    ("pod", "said", "keeps", "rejected_by"),
    [
        (new(), "preemption: not possible as disruption budgets can't be seen.", True, {BUDGETS_UNSEEN}),
        (new(nodeSelector={"no": "where"}), f"0/1 nodes are available: 1 {NOT_HELPFUL}.", False, set()),
        (new(priority=0), f"0/1 nodes are available: 1 {NO_VICTIMS}.", False, set()),
    ],
    ids=["it could preempt", "no eviction helps", "nobody is less important"],
)
def test_without_budgets_only_a_pod_that_could_preempt_others_waits_for_them(
    pod: Pod, said: str, keeps: bool, rejected_by: set[str]
) -> None:
    cluster = picture([on("n1", a("low", 0, "4"))], nominated=[(pod, "n1")])
    cluster.looked_up = LookedUp(budgets=None)
    decision = decide(pod, cluster)
    assert decision.message.endswith(said)
    assert (cluster.nominator.node_of(pod) == "n1") == keeps
    assert decision.rejected_by & {BUDGETS_UNSEEN} == rejected_by


@pytest.mark.parametrize(("priority", "outcome"), [(100, Outcome.ERROR), (0, Outcome.UNSCHEDULABLE)])
def test_only_a_pod_that_could_preempt_others_fails_if_budgets_cannot_be_looked_up(
    priority: int, outcome: Outcome
) -> None:
    cluster = picture([on("n1", a("low", 0, "4"))])
    cluster.looked_up = LookedUp(budgets_error="the answer is no list")
    decision = decide(new(priority=priority), cluster)
    assert (decision.outcome, decision.victims) == (outcome, ())
    if outcome == Outcome.ERROR:
        assert decision.message == 'running PostFilter plugin "DefaultPreemption": the answer is no list'


@pytest.mark.parametrize(("priority", "waits"), [(100, True), (0, False)])
def test_a_pod_that_could_preempt_others_waits_for_a_budget_that_cannot_be_decoded(
    priority: int, waits: bool
) -> None:
    cluster = picture([on("n1", a("low", 0, "4"))])
    cluster.looked_up = LookedUp(budgets_unread={"default"})
    decision = decide(new(priority=priority), cluster)
    assert decision.message.endswith(f"1 {NO_VICTIMS}.")
    assert (BUDGETS_UNSEEN in decision.rejected_by) is waits


def test_why_a_node_does_not_fit_is_said_with_the_pods_that_are_nominated_to_it() -> None:
    """As in kube-scheduler, which filters with them first. Pods that are alike are asked once."""

    def wanting_port(name: str) -> Pod:
        ports = [{"containerPort": 80, "hostPort": 80}]
        return plain(name, containers=[{"name": "c", "ports": ports}], priority=10)

    nominated = wanting_port("nominated")
    full = plain("e", nodeName="n1", priority=100)
    cluster = Cache([node("n1", has={"pods": "1"})], [full])
    ours = Scheduler(default_profile("s", preemption=False), Random(1))

    def why(name: str) -> str:
        return ours.schedule_one(wanting_port(name), cluster).message.partition(". ")[0]

    too_many = "0/1 nodes are available: 1 Too many pods"
    assert why("a") == too_many
    cluster.nominator.add(nominated, "n1")
    taken = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports"
    assert [why("b"), why("c")] == [taken, taken]
    cluster.nominator.delete(nominated)
    assert why("d") == too_many
    cluster.nominator.add(plain("other", priority=10), "n1")
    assert [why("f"), why("g")] == [too_many, too_many]
    cluster.apply(Change(Kind.DELETED, full))
    assert why("h") == too_many  # there would be one pod too many
    cluster.apply(Change(Kind.MODIFIED, node("n1", has={"pods": "2"})))
    assert ours.schedule_one(wanting_port("i"), cluster).node_name == "n1"
