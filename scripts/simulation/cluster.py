"""What happens in the cluster by itself: pods and nodes come, change and go."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from scripts.minicluster.disruptions import Disruptions
from scripts.minicluster.errors import ApiError
from scripts.minicluster.resources import (
    DISRUPTION_BUDGETS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    Resource,
)
from scripts.minicluster.store import Event, Object

from .server import Server

NAMESPACE = "default"
SCHEDULER = "my-scheduler"
MOST_PODS = 30
PRIORITIES = {"low": 10, "middle": 100, "high": 1000}


@dataclass(frozen=True)
class Action:
    """Something that happens at a time. verb: a method of Cluster. details: its other arguments."""

    at: float
    verb: str
    name: str
    details: Object = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        said = ", ".join(f"{key} {value}" for key, value in self.details.items() if value)
        return f"{self.verb.replace('_', ' ')} {self.name}" + (f" ({said})" if said else "")


class Cluster:
    """Does the actions. on_action: called with each that had an effect."""

    def __init__(self, server: Server, on_action: Callable[[Action], None]) -> None:
        self._server, self._api, self._store = server, server.api, server.store
        self._on_action = on_action
        self._budgets = Disruptions(self._api)
        for name in (NAMESPACE, "kube-system"):
            self._api.create(NAMESPACES, "", {"metadata": {"name": name}})
        for name, value in PRIORITIES.items():
            self._api.create(PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value})
        self._store.listen(self._count_budgets)

    def do(self, action: Action) -> None:
        """Do it, if the objects that it is about are there."""
        try:
            getattr(self, action.verb)(action.name, **action.details)
        except ApiError:
            return
        self._on_action(action)

    def _count_budgets(self, event: Event) -> None:
        """The disruption controller: a moment after a pod has changed."""
        if event.resource in (PODS, DISRUPTION_BUDGETS):
            self._server.agenda.after(0.05, self._recount)

    def _recount(self) -> None:
        for budget in self._store.every(DISRUPTION_BUDGETS):
            self._budgets.budget(budget)

    # --- nodes ------------------------------------------------------------------------------------------

    def add_node(self, name: str, cpu: int = 4, zone: str = "", labels: Object | None = None) -> None:
        """A node that is ready. cpu: whole ones; as many Gi of memory."""
        resources = {"cpu": str(cpu), "memory": f"{cpu}Gi", "pods": "20"}
        body = {
            "metadata": {
                "name": name,
                "labels": {
                    "kubernetes.io/hostname": name,
                    **({"topology.kubernetes.io/zone": zone} if zone else {}),
                    **(labels or {}),
                },
            },
            "status": {"capacity": resources, "allocatable": resources},
        }
        self._api.create(NODES, "", body)
        self._change(NODES, ("", name), lambda content: content["spec"].pop("taints", None))

    def delete_node(self, name: str) -> None:
        """The node goes, and its pods with it."""
        self._api.delete(NODES, ("", name), {})

    def cordon(self, name: str, on: bool = True) -> None:
        """The node takes no more pods, or does again."""
        self._change(NODES, ("", name), lambda content: content["spec"].update(unschedulable=on))

    def taint(self, name: str, on: bool = True) -> None:
        """The node gets the taint `for=others:NoSchedule`, or loses it."""
        taints = [{"key": "for", "value": "others", "effect": "NoSchedule"}] if on else []
        self._change(NODES, ("", name), lambda content: content["spec"].update(taints=taints))

    def resize(self, name: str, cpu: int) -> None:
        """The node's allocatable changes."""
        new = {"cpu": str(cpu), "memory": f"{cpu}Gi"}
        self._change(NODES, ("", name), lambda content: content["status"]["allocatable"].update(new))

    # --- pods -------------------------------------------------------------------------------------------

    def add_pod(self, name: str, cpu: int = 500, priority: str = "", **more: Any) -> None:
        """A pod that requests so many thousandths of a cpu. more: fields of its spec; `labels`; `ports`.

        The label `apart` keeps it from nodes with pods of the same value; `spread` is spread over zones.
        """
        labels, scheduler = more.pop("labels", {}), more.pop("scheduler", SCHEDULER)
        container = {
            "name": "main",
            "image": "nginx",
            "resources": {"requests": {"cpu": f"{cpu}m", "memory": f"{cpu}Mi"}},
            "ports": [{"containerPort": port, "hostPort": port} for port in more.pop("ports", ())],
        }
        spec = {"schedulerName": scheduler, "containers": [container], **more}
        if apart := labels.get("apart"):
            term = {
                "labelSelector": {"matchLabels": {"apart": apart}},
                "topologyKey": "kubernetes.io/hostname",
            }
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        if spread := labels.get("spread"):
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": 1,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"spread": spread}},
                }
            ]
        if priority:
            spec["priorityClassName"] = priority
        self._api.create(PODS, NAMESPACE, {"metadata": {"name": name, "labels": labels}, "spec": spec})

    def delete_pod(self, name: str, grace: int = 0) -> None:
        """The pod is deleted, at once or after its grace period."""
        self._api.delete(PODS, (NAMESPACE, name), {"gracePeriodSeconds": grace})

    def make_pod_again(self, name: str, **details: Any) -> None:
        """The pod is deleted, and another of the same name is made in the same moment."""
        self.delete_pod(name)
        self.add_pod(name, **details)

    def finish_pod(self, name: str) -> None:
        """The pod has done its work, if it runs."""
        pod = self._api.find(PODS, (NAMESPACE, name))
        if pod.content["spec"].get("nodeName"):
            self._change(PODS, pod.key, lambda content: content["status"].update(phase="Succeeded"))

    def open_gate(self, name: str) -> None:
        """The pod's scheduling gates are removed."""
        self._change(PODS, (NAMESPACE, name), lambda content: content["spec"].pop("schedulingGates", None))

    def relabel_pod(self, name: str, labels: Object) -> None:
        """The pod's labels change."""
        self._change(PODS, (NAMESPACE, name), lambda content: content["metadata"].update(labels=labels))

    # --- others -----------------------------------------------------------------------------------------

    def add_budget(self, name: str, app: str, least: int) -> None:
        """A budget for the pods of an app."""
        spec = {"minAvailable": least, "selector": {"matchLabels": {"app": app}}}
        self._api.create(DISRUPTION_BUDGETS, NAMESPACE, {"metadata": {"name": name}, "spec": spec})

    def change_budget(self, name: str, least: int) -> None:
        """The budget asks for another number."""
        self._change(
            DISRUPTION_BUDGETS, (NAMESPACE, name), lambda content: content["spec"].update(minAvailable=least)
        )

    def _change(self, resource: Resource, key: tuple[str, str], change: Callable[[Object], object]) -> None:
        content = self._api.find(resource, key).copy()
        change(content)
        self._store.put(resource, content)


def random_actions(
    chance: Random, until: float, rate: float, schedulers: Sequence[str]
) -> tuple[Action, ...]:
    """Nodes, and then what happens to them and to pods. rate: actions a minute. schedulers: of the pods."""
    nodes = [f"n{i}" for i in range(chance.randint(2, 6))]
    actions = [
        Action(0.0, "add_node", name, {"cpu": chance.choice((2, 4, 8)), "zone": f"z{i % 2}"})
        for i, name in enumerate(nodes)
    ]
    pods: list[str] = []  # that are there, as far as their own deletion is known
    count, preempts = 0, chance.random() < 0.5
    if preempts and chance.random() < 0.5:
        actions.append(Action(0.0, "add_budget", "budget", {"app": "web", "least": 2}))
    at = 0.0
    while (at := at + chance.expovariate(rate / 60)) < until:
        roll = chance.random() if pods else 0.0
        if len(pods) < MOST_PODS and roll < 0.45:
            for _ in range(chance.choice((1, 1, 1, 3, 8))):
                pods.append(f"p{count}")
                count += 1
                actions.append(Action(at, "add_pod", pods[-1], _pod(chance, preempts, schedulers)))
        elif roll < 0.70:
            gone = pods.pop(chance.randrange(len(pods)))
            actions.append(Action(at, "delete_pod", gone, {"grace": chance.choice((0, 0, 5))}))
        elif roll < 0.75:
            actions.append(
                Action(at, "make_pod_again", chance.choice(pods), _pod(chance, preempts, schedulers))
            )
        elif roll < 0.82:
            actions.append(Action(at, "finish_pod", pods.pop(chance.randrange(len(pods)))))
        elif roll < 0.86:
            actions.append(Action(at, "open_gate", chance.choice(pods)))
        else:
            actions += _node_action(chance, at, chance.choice(nodes))
    return tuple(sorted(actions, key=lambda each: each.at))


def _node_action(chance: Random, at: float, name: str) -> list[Action]:
    """Something happens to a node and, mostly, is undone some time later."""
    later = at + chance.choice((0.2, 3.0, 20.0))
    roll = chance.random()
    if roll < 0.25:
        back = Action(later, "add_node", name, {"cpu": chance.choice((2, 4, 8)), "zone": "z0"})
        return [Action(at, "delete_node", name), back]
    if roll < 0.5:
        return [Action(at, "cordon", name), Action(later, "cordon", name, {"on": False})]
    if roll < 0.75:
        return [Action(at, "taint", name), Action(later, "taint", name, {"on": False})]
    return [Action(at, "resize", name, {"cpu": chance.choice((1, 2, 4, 8))})]


def _pod(chance: Random, preempts: bool, schedulers: Sequence[str]) -> Object:
    details: Object = {"cpu": chance.choice((100, 250, 500, 500, 1000, 2000))}
    details["scheduler"] = chance.choice(schedulers)
    if preempts:
        details["priority"] = chance.choice(("", "low", "low", "middle", "high"))
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
