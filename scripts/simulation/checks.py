"""What must hold, checked from the API server's history alone: never from poller's own state."""

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from math import inf

from scripts.minicluster.resources import CLAIMS, DISRUPTION_BUDGETS, EVENTS, LEASES, NODES, PODS, VOLUMES
from scripts.minicluster.store import Event, Object, Stored

from .agenda import Agenda
from .evictions import cpu_of, is_over, is_protected, milli, other_way
from .faults import Kind
from .network import Exchange
from .server import Server

STALE = 60.0
"""Seconds for which a decision may rest on what was true before: a binding is tried again for so long."""

EVENT_WITHIN = 60.0
"""Seconds after which a binding's event must be there, when nothing goes wrong."""

SEEN_WITHIN = 5.0
"""Seconds after which a poller knows of a change, when nothing goes wrong."""

TRIES = 3
"""After so many tries, or more, poller gives up an event: they may take 30 s."""

MAY_PASS = {
    Kind.REFUSED,
    Kind.RESET,
    Kind.LOST,
    Kind.IGNORED,
    Kind.SILENT,
    Kind.BUSY,
    Kind.BROKEN,
    Kind.FAILED,
}
"""After these, a write is tried again."""


@dataclass(frozen=True)
class Violation:
    """Something that must not be. about: the names of the objects."""

    when: float
    rule: str
    what: str
    about: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.when:.3f} s: {self.rule}: {self.what}"


@dataclass
class _Node:
    """A node's history: when it was there, and how much it had."""

    there: list[tuple[float, float]] = field(default_factory=list)  # from, until
    cpu: list[tuple[float, int]] = field(default_factory=list)  # since when, in thousandths


class Checks:
    """Watches the store and the requests. violations: what was found."""

    def __init__(self, agenda: Agenda, server: Server) -> None:
        self.violations: list[Violation] = []
        self.bindings = self.evictions = 0
        self._agenda, self._server, self._store = agenda, server, server.store
        self._nodes: dict[str, _Node] = defaultdict(_Node)
        self._bound: dict[str, tuple[float, str, str, str]] = {}  # by uid: when, node, pod, by whom
        self._scheduled: set[str] = set()  # uids of pods with an event
        self._excused: set[str] = set()  # uids whose event need not come
        self._pending: dict[str, tuple[int, float]] = {}  # by uid: priority, and until when it waited
        self._told: set[tuple[int, str]] = set()  # by process and uid: the binding was answered by 201
        self._failed_events: Counter[str] = Counter()  # by the pod's uid
        self._identities: dict[int, str] = {}  # of candidates, by their process
        self._last_change = 0.0  # of nodes, of pods on them, and of budgets
        self._last_fault = -inf
        self._troubled: set[str] = (
            set()
        )  # names of pods about which a request failed, or its poller was killed
        server.store.listen(self._happened)

    def _found(self, rule: str, what: str, *about: str) -> None:
        self.violations.append(Violation(self._agenda.now, rule, what, about))

    # --- the history --------------------------------------------------------------------------------------

    def _happened(self, event: Event) -> None:
        if event.resource == NODES:
            self._node_changed(event)
        elif event.resource == PODS:
            self._pod_changed(event)
        on_node = event.resource == PODS and event.new.content["spec"].get("nodeName")
        if not self._server.actor and (on_node or event.resource in (NODES, DISRUPTION_BUDGETS)):
            self._last_change = self._agenda.now
        if event.resource == EVENTS and event.new.content.get("reason") == "Scheduled":
            uid = event.new.content["involvedObject"]["uid"]
            self._scheduled.add(uid)
            if uid not in self._bound:
                self._found("binding before event", f"{event.new.key[1]} says so of a pod that isn't bound")
            elif not event.new.content["message"].endswith(f" to {self._bound[uid][1]}"):
                said = event.new.content["message"]
                self._found("true event", f"{said!r}, but the pod was bound to {self._bound[uid][1]}")

    def _node_changed(self, event: Event) -> None:
        node, now = self._nodes[event.new.key[1]], self._agenda.now
        if event.kind == "ADDED":
            node.there.append((now, inf))
        elif event.kind == "DELETED":
            node.there[-1] = node.there[-1][0], now
        node.cpu.append((now, milli(event.new.content["status"]["allocatable"]["cpu"])))

    def _pod_changed(self, event: Event) -> None:
        new, old = event.new, event.old
        uid, name = new.metadata["uid"], new.key[1]
        node_name = new.content["spec"].get("nodeName", "")
        before = old.content["spec"].get("nodeName", "") if old else ""
        waits = event.kind != "DELETED" and not node_name
        if waits or not before:
            self._pending[uid] = new.content["spec"].get("priority", 0), inf if waits else self._agenda.now
        if event.kind == "DELETED" or (
            new.metadata.get("deletionTimestamp") and old and not old.metadata.get("deletionTimestamp")
        ):
            self._check_eviction(new)
        if event.kind == "DELETED" or node_name == before:
            return
        if before or uid in self._bound:
            self._found("bound once", f"pod {name} was bound to {before}, and now to {node_name}", name)
            return
        actor = self._server.actor
        if not actor:
            return
        self.bindings += 1
        self._bound[uid] = self._agenda.now, node_name, name, actor.name
        self._check_node(new, node_name)
        self._check_volumes(new, node_name)

    def _check_volumes(self, pod: Stored, node_name: str) -> None:
        """Each claim of a pod that is bound has a volume, which the node can reach."""
        for volume in pod.content["spec"].get("volumes") or ():
            claim = self._store.get(CLAIMS, (pod.key[0], volume["persistentVolumeClaim"]["claimName"]))
            held = claim and self._store.get(VOLUMES, ("", claim.content["spec"].get("volumeName", "")))
            if (
                claim
                and not held
                and claim.metadata["creationTimestamp"] <= pod.metadata["creationTimestamp"]
            ):
                what = f"pod {pod.key[1]} was bound to {node_name} before its claim had a volume"
                self._found("volumes", what, pod.key[1])
            elif held and not _reaches(node_name, held):
                what = f"pod {pod.key[1]} was bound to {node_name}, which can't reach volume {held.key[1]}"
                self._found("volumes", what, pod.key[1])

    def _check_node(self, pod: Stored, node_name: str) -> None:
        name, spec, now = pod.key[1], pod.content["spec"], self._agenda.now
        node = self._nodes[node_name]
        if not any(until > now - STALE for _, until in node.there):
            self._found("a node that exists", f"pod {name} was bound to {node_name}", name, node_name)
            return
        here = [
            each
            for each in self._store.every(PODS)
            if each.content["spec"].get("nodeName") == node_name and not is_over(each)
        ]
        known = [each for each in here if self._is_known(each, spec["schedulerName"])]
        used = sum(map(cpu_of, known))
        most = self._most_cpu(node, now)
        if used > most:
            why = f"pod {name} was bound to {node_name}, whose pods then request {used}m of {most}m cpu"
            self._found("room", why, name, node_name)
        ports = _ports(pod)
        apart = (pod.metadata.get("labels") or {}).get("apart")
        for each in known:
            if each.metadata["uid"] == pod.metadata["uid"]:
                continue
            if ports & _ports(each):
                why = f"pods {name} and {each.key[1]} are on {node_name} with the same host port"
                self._found("host ports", why, name, each.key[1], node_name)
            if apart and (each.metadata.get("labels") or {}).get("apart") == apart:
                why = f"pods {name} and {each.key[1]} are on {node_name}, and must be apart"
                self._found("anti-affinity", why, name, each.key[1], node_name)
        if spec.get("schedulingGates"):
            self._found("gates", f"pod {name} was bound though it is gated", name)

    def _is_known(self, pod: Stored, scheduler: str) -> bool:
        """Whether a scheduler must have known of a pod on a node: all but what others have just bound."""
        if pod.content["spec"]["schedulerName"] == scheduler:
            return True
        bound = self._bound.get(pod.metadata["uid"])
        return bound is not None and bound[0] < self._agenda.now - STALE

    def _check_eviction(self, victim: Stored) -> None:
        """A poller deletes a pod only for one that waits and is more important."""
        actor = self._server.actor
        if not actor:
            return
        self.evictions += 1
        priority, since = victim.content["spec"].get("priority", 0), self._agenda.now - STALE
        if not any(more > priority and until > since for more, until in self._pending.values()):
            name = victim.key[1]
            self._found("eviction", f"{actor.name} evicts pod {name} for nobody who is more important", name)
        self._check_budget(victim)

    def _check_budget(self, victim: Stored) -> None:
        """No budget is violated if another eviction would do, as far as the poller could know."""
        now = self._agenda.now
        if now - self._last_fault < STALE or now - self._last_change < SEEN_WITHIN:
            return
        if is_protected(self._store, victim) and (node := other_way(self._store, victim)):
            what = f"pod {victim.key[1]} is evicted against its budget; evictions on {node} would have done"
            self._found("budget", what, victim.key[1])

    def _most_cpu(self, node: _Node, now: float) -> int:
        """The most that a node had in the time on which a decision may rest."""
        most = 0
        for i, (_, cpu) in enumerate(node.cpu):
            until = node.cpu[i + 1][0] if i + 1 < len(node.cpu) else inf
            if until > now - STALE:
                most = max(most, cpu)
        return most

    # --- requests -----------------------------------------------------------------------------------------

    def exchanged(self, exchange: Exchange) -> None:
        """A poller's request has reached the server, or a fault."""
        asked = exchange.asked
        if exchange.fault:
            self._last_fault = exchange.when
        path = asked.target.partition("?")[0]
        if asked.is_read:
            return
        body: Object = json.loads(asked.body) if asked.body else {}
        if "/events" in path:
            self._note_event(exchange, (body.get("involvedObject") or {}).get("uid", ""))
        if exchange.code == 0:
            if "/pods/" in path:
                self._troubled.add(path.split("/")[6])
            return
        if "/leases" in path:
            self._identities[id(exchange.process)] = body["spec"]["holderIdentity"]
            return
        if exchange.elects and (body.get("involvedObject") or {}).get("kind") != "Lease":
            self._check_leads(exchange)
        if "/pods" not in path:
            return
        if exchange.fault or exchange.code >= 300:
            self._troubled.add(path.split("/")[6])
        holder = body.get("preconditions") if asked.method == "DELETE" else body.get("metadata")
        if not (holder or {}).get("uid"):
            self._found("uid", f"{asked.method} {path} doesn't name the pod's uid", path.split("/")[6])
        elif path.endswith("/binding"):
            self._check_again(exchange, path.split("/")[6], body["metadata"]["uid"])

    def _check_again(self, exchange: Exchange, pod: str, uid: str) -> None:
        """Who was told that a pod is bound doesn't bind it again."""
        key = id(exchange.process), uid
        if key in self._told:
            self._found("bound once", f"{exchange.process.name} binds pod {pod} again", pod)
        elif exchange.code == 201 and not exchange.fault:
            self._told.add(key)

    def _note_event(self, exchange: Exchange, uid: str) -> None:
        """An event that was refused need not come, nor one whose write has failed several times."""
        self._failed_events[uid] += exchange.fault is not None or exchange.code >= 300
        is_refused = exchange.fault not in MAY_PASS and (exchange.fault or exchange.code >= 300)
        if is_refused or self._failed_events[uid] >= TRIES:
            self._excused.add(uid)

    def _check_leads(self, exchange: Exchange) -> None:
        """Who writes holds the lease."""
        lease = self._store.get(LEASES, ("kube-system", "poller"))
        holder = lease.content["spec"].get("holderIdentity") if lease else ""
        if not holder or holder != self._identities.get(id(exchange.process)):
            self._found("leader", f"{exchange.process.name} wrote {exchange.asked}, and doesn't lead")

    def killed(self, poller: str) -> None:
        """A poller was killed: events of what it bound shortly before need not come, nor all of a group."""
        now = self._agenda.now
        self._troubled |= {
            name for when, _, name, by in self._bound.values() if by == poller and when > now - 5
        }
        for uid, (when, _, _, by) in self._bound.items():
            if by == poller and uid not in self._scheduled and when > now - STALE - EVENT_WITHIN:
                self._excused.add(uid)

    # --- at the end ---------------------------------------------------------------------------------------

    def at_end(self) -> None:
        """Each binding has its event; no group is bound in part."""
        now = self._agenda.now
        self._check_groups()
        for uid, (when, node, name, by) in self._bound.items():
            if uid in self._scheduled or uid in self._excused or when > now - EVENT_WITHIN:
                continue
            pod = self._store.get(PODS, ("default", name))
            if pod and pod.metadata["uid"] == uid:
                self._found(
                    "event", f"pod {name} was bound to {node} by {by} at {when:.3f} s without an event", name
                )

    def _check_groups(self) -> None:
        """A group of which a poller bound a pod is bound whole, unless something went wrong just then."""
        waiting: dict[str, str] = {}
        for pod in self._store.every(PODS):
            group = pod.metadata["labels"].get("poller/group")
            if group and not pod.content["spec"].get("nodeName"):
                waiting[group] = pod.key[1]
        for when, node, name, by in self._bound.values():
            group = name.rpartition("-")[0]
            if group in waiting and name not in self._troubled and waiting[group] not in self._troubled:
                what = f"{name} was bound to {node} by {by} at {when:.3f} s, and {waiting[group]} never"
                self._found("all or none", what, name, waiting[group])


def _reaches(node_name: str, volume: Stored) -> bool:
    """Whether a node reaches a volume: without an affinity, it was made for a node that has gone since."""
    if not (affinity := volume.content["spec"].get("nodeAffinity")):
        return True
    (term,) = affinity["required"]["nodeSelectorTerms"]
    return node_name in term["matchExpressions"][0]["values"]


def _ports(pod: Stored) -> set[int]:
    containers = pod.content["spec"]["containers"]
    return {
        port["hostPort"] for each in containers for port in each.get("ports") or () if port.get("hostPort")
    }
