"""What happens in a cluster, by a seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from scripts.minicluster.store import Object

from .cluster import Action
from .simple import SIMPLE
from .values import CARD, GPU

MOST_PODS = 30
MOST_GROUPS = 4
MOST_NODES = 6
VOLUMES = 8

TAKE = (0, 0, 0, 4, 15)
"""Seconds that pods take to end; 0: hardly any."""

POINTS = ("pre_filter", "filter", "score", "reserve", "permit", "pre_bind", "post_bind", "unreserve")
"""Where the policy in `policy.py` raises errors."""


@dataclass(frozen=True)
class Workload:
    """What is in a cluster beside plain pods. policy: pods that a policy holds, or raises errors about.

    namespaces: a namespace that ends. resizes: pods whose requests and labels change. simple: pods of a
    simple other scheduler. extended: pods that request extended resources.
    """

    preempts: bool = False
    budget: bool = False
    groups: bool = False
    volumes: bool = False
    policy: bool = False
    affinity: bool = False
    deployments: bool = False
    devices: bool = False
    namespaces: bool = False
    resizes: bool = False
    simple: bool = False
    extended: bool = False


def random_workload(chance: Random) -> Workload:
    """Some of all that."""
    preempts = chance.random() < 0.5
    rest = (chance.random() < share for share in (0.3, 0.3, 0.3, 0.3, 0.3, 0.2, 0.2, 0.2, 0.2))
    return Workload(preempts, preempts and chance.random() < 0.6, *rest)


def random_actions(
    chance: Random, until: float, rate: float, schedulers: Sequence[str], workload: Workload
) -> tuple[Action, ...]:
    """Nodes, and then what happens to them and to pods. rate: actions a minute. schedulers: of the pods."""
    nodes = [f"n{i}" for i in range(chance.randint(2, MOST_NODES))]
    actions = [
        Action(0.0, "add_node", name, {**_node(chance, workload), "zone": f"z{i % 2}"})
        for i, name in enumerate(nodes)
    ]
    pods: list[str] = []  # that are there, as far as their own deletion is known
    groups: list[str] = []
    count = 0
    if workload.budget:
        actions.append(
            Action(0.0, "add_budget", "budget", {"app": "web", "least": chance.choice((2, 100, 100))})
        )
    if workload.volumes:
        volumes = chance.choice((3, VOLUMES))
        actions += [
            Action(0.0, "add_volume", f"v{i}", {"node": chance.choice(nodes)}) for i in range(volumes)
        ]
    if workload.extended:
        actions.append(Action(0.0, "add_device_class", "card", {"resource": CARD}))
    if workload.deployments:
        for name in ("d0", "d1"):
            details: Object = {"replicas": chance.choice((2, 4)), "cpu": chance.choice((500, 1000, 2000))}
            if workload.preempts:
                details["priority"] = chance.choice(("", "low", "high"))
                if len(schedulers) > 1:  # else two schedulers may evict and replace the same pods for ever
                    details["priority"] = "high"
                details["ends"] = chance.choice(TAKE)
            actions.append(Action(1.0, "add_deployment", name, {**details, "scheduler": schedulers[0]}))
    at = 0.0
    while (at := at + chance.expovariate(rate / 60)) < until:
        if workload.groups and chance.random() < 0.1:
            actions.append(_group_action(chance, at, groups, schedulers, workload))
            continue
        if chance.random() < 0.15 and (special := _special_action(chance, at, pods, nodes, workload)):
            actions += special
            continue
        roll = chance.random() if pods else 0.0
        if len(pods) < MOST_PODS and roll < 0.45:
            for _ in range(chance.choice((1, 1, 1, 3, 8))):
                pods.append(f"{'x' if workload.namespaces and chance.random() < 0.4 else 'p'}{count}")
                count += 1
                actions.append(Action(at, "add_pod", pods[-1], _pod(chance, workload, schedulers)))
        elif roll < 0.70:
            gone = pods.pop(chance.randrange(len(pods)))
            actions.append(Action(at, "delete_pod", gone, {"grace": chance.choice((0, 0, 5))}))
        elif roll < 0.75:
            actions.append(
                Action(at, "make_pod_again", chance.choice(pods), _pod(chance, workload, schedulers))
            )
        elif roll < 0.82:
            actions.append(Action(at, "finish_pod", pods.pop(chance.randrange(len(pods)))))
        elif roll < 0.86:
            actions.append(Action(at, "open_gate", chance.choice(pods)))
        else:
            actions += _node_action(chance, at, chance.choice(nodes), workload)
    return tuple(sorted(actions, key=lambda each: each.at))


def random_rush(chance: Random, until: float, schedulers: Sequence[str]) -> tuple[float, tuple[Action, ...]]:
    """Many pods come at a time, and then some that are more important. Returns when, and what happens.

    Or the important ones come with them, and don't tolerate the taints that all nodes have for a while.
    """
    at, scheduler = until * chance.choice((chance.uniform(0, 0.8), 0.8)), chance.choice(schedulers)
    many: Object = {"cpu": chance.choice((500, 1000)), "priority": "low", "scheduler": scheduler}
    few: Object = {"cpu": chance.choice((1000, 2000)), "priority": "high", "scheduler": scheduler}
    later = at + chance.choice((0.3, 2.0, 6.0))
    is_hindered = chance.random() < 0.5
    if is_hindered:
        many["tolerations"] = [{"key": "for", "operator": "Exists"}]
    come = [Action(at, "add_pod", f"many{i}", {**many, "ends": chance.choice(TAKE)}) for i in range(16)]
    if not is_hindered:
        come += [Action(later + i * chance.random(), "add_pod", f"few{i}", few) for i in range(4)]
        return at, (*come,)
    come += [Action(at, "add_pod", f"few{i}", few) for i in range(4)]
    later += chance.choice((0.0, 12.0, 18.0))
    for i in range(MOST_NODES):
        come += [Action(at - 1, "taint", f"n{i}"), Action(later, "taint", f"n{i}", {"on": False})]
    return at, (*come,)


def _special_action(
    chance: Random, at: float, pods: Sequence[str], nodes: Sequence[str], workload: Workload
) -> list[Action]:
    """What happens in some clusters alone; nothing, if it can't."""
    later, here = at + chance.choice((0.2, 3.0, 20.0)), _in_default(pods)
    menu: list[list[Action]] = []
    if workload.budget:
        menu.append([Action(at, "change_budget", "budget", {"least": chance.choice((0, 2, 100))})])
    if workload.volumes:
        name = f"v{chance.randrange(VOLUMES)}"
        again = Action(later, "add_volume", name, {"node": chance.choice(nodes)})
        menu.append([Action(at, "delete_volume", name), again])
        if here:
            kind = {"kind": chance.choice(("local", "made"))}
            menu.append([Action(at, "make_claim_again", chance.choice(here), kind)])
    if workload.deployments:
        menu.append(
            [Action(at, "scale", chance.choice(("d0", "d1")), {"replicas": chance.choice((0, 2, 5))})]
        )
    if workload.extended:
        name, what = chance.choice(nodes), {"resource": chance.choice((GPU, GPU, CARD))}
        gone = Action(at, "plug", name, {**what, "number": 0})
        menu.append([gone, Action(later, "plug", name, {**what, "number": chance.choice((1, 2))})])
    if workload.namespaces:
        passing = "passing"
        menu.append([Action(at, "end_namespace", passing), Action(later, "begin_namespace", passing)])
    if workload.resizes and pods:
        name = chance.choice(pods)
        menu.append([Action(at, "resize_pod", name, {"cpu": chance.choice((100, 500, 2000))})])
        labels = {chance.choice(("apart", "near", "app")): chance.choice(("a", "b", "web"))}
        menu.append([Action(at, "relabel_pod", name, {"labels": labels})])
    return chance.choice(menu) if menu else []


def _in_default(pods: Sequence[str]) -> list[str]:
    """The pods in the namespace `default`."""
    return [each for each in pods if not each.startswith("x")]


def _group_action(
    chance: Random, at: float, groups: list[str], schedulers: Sequence[str], workload: Workload
) -> Action:
    """A group comes, or the oldest one goes."""
    if len(groups) == MOST_GROUPS or (groups and chance.random() < 0.4):
        return Action(at, "delete_group", groups.pop(0))
    groups.append(f"g{at * 1000:.0f}")
    details = {"size": chance.choice((2, 3, 4)), "cpu": chance.choice((500, 1000, 2000))}
    details |= _needs(chance, workload, 0.3)
    return Action(at, "add_group", groups[-1], {**details, "scheduler": chance.choice(schedulers)})


def _node(chance: Random, workload: Workload) -> Object:
    """What a node has."""
    details: Object = {"cpu": chance.choice((2, 4, 8)), "pods": chance.choice((3, 20, 20, 20))}
    if workload.extended:
        extended = {GPU: chance.choice((0, 1, 2)), CARD: chance.choice((0, 0, 1))}
        return {**details, "extended": extended, "devices": chance.choice((0, 1, 3))}
    return {**details, "devices": chance.choice((0, 1, 3))} if workload.devices else details


def _node_action(chance: Random, at: float, name: str, workload: Workload) -> list[Action]:
    """Something happens to a node and, mostly, is undone some time later."""
    later = at + chance.choice((0.2, 3.0, 20.0, 40.0))
    roll = chance.random()
    if roll < 0.25:
        details = {**_node(chance, workload), "zone": chance.choice(("z0", "z1"))}
        if chance.random() < 0.2:
            return [Action(at, "replace_node", name, details)]
        return [Action(at, "delete_node", name), Action(later, "add_node", name, details)]
    if roll < 0.5:
        return [Action(at, "cordon", name), Action(later, "cordon", name, {"on": False})]
    if roll < 0.75:
        return [Action(at, "taint", name), Action(later, "taint", name, {"on": False})]
    return [Action(at, "resize", name, {"cpu": chance.choice((1, 2, 4, 8))})]


def _pod(chance: Random, workload: Workload, schedulers: Sequence[str]) -> Object:
    details: Object = {"cpu": chance.choice((100, 250, 500, 500, 1000, 2000))}
    details["scheduler"] = chance.choice(schedulers)
    if workload.simple and chance.random() < 0.3:
        return {**details, "scheduler": SIMPLE}
    if chance.random() < 0.1:
        details["memory"] = 3000
    if workload.preempts:
        details["priority"] = chance.choice(("", "low", "low", "middle", "high"))
        details["ends"] = chance.choice(TAKE)
    labels = _asks_policy(chance) if workload.policy and chance.random() < 0.3 else {}
    if workload.extended and chance.random() < 0.5:
        extended = {chance.choice((GPU, CARD)): chance.choice((1, 1, 2))}
        return {**details, "extended": extended, "labels": labels}
    if needs := _needs(chance, workload, 0.4):
        return {**details, **needs, "labels": labels}
    if workload.affinity and chance.random() < 0.4:
        kind = chance.choice(("apart", "near", "near", "spread"))
        return {**details, "labels": {kind: chance.choice(("a", "b")), **labels}}
    if labels:
        return {**details, "labels": labels}
    if workload.preempts:
        details["labels"] = {"app": chance.choice(("web", "job"))}
    roll = chance.random()
    if roll < 0.1:
        details["ports"] = [chance.choice((80, 443))]
    elif roll < 0.15:
        details["schedulingGates"] = [{"name": "wait"}]
    elif roll < 0.2:
        details["nodeSelector"] = {"topology.kubernetes.io/zone": chance.choice(("z0", "z1"))}
    elif roll < 0.25:
        details["tolerations"] = [{"key": "for", "operator": "Exists"}]
    elif roll < 0.33:
        details["labels"] = {"apart": chance.choice(("a", "b"))}
    elif roll < 0.41:
        details["labels"] = {"spread": chance.choice(("a", "b"))}
    return details


def _needs(chance: Random, workload: Workload, share: float) -> Object:
    """A device or a volume that a pod needs; nothing for most pods. share: of those that need one."""
    if workload.devices and chance.random() < share:
        return {"device": chance.choice(("claim", "template"))}
    if workload.volumes and chance.random() < share:
        return {"claim": chance.choice(("local", "made"))}
    return {}


def _asks_policy(chance: Random) -> Object:
    """Labels that `policy.py` knows."""
    if chance.random() < 0.5:
        return {"hold": chance.choice(("3", "12", "rejected"))}
    return {"raises": chance.choice(POINTS), "times": chance.choice(("1", "3"))}
