"""What must hold, checked from the API server's history alone: never from poller's own state."""

import json
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from math import inf

from scripts.minicluster.resources import (
    CLAIMS,
    DISRUPTION_BUDGETS,
    EVENTS,
    LEASES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    VOLUMES,
    Resource,
)
from scripts.minicluster.store import Key, Object, Stored, WatchEvent

from .agenda import Agenda
from .cluster import OPERATOR
from .evictions import State, helps_nobody, is_plain, nominated_to, without_room
from .faults import Kind
from .history import History
from .network import Exchange
from .placement import broken_by_zone, broken_rules
from .preemptions import DONE_WITHIN, SEEN_WITHIN, Preemptions
from .quiet import Quiet
from .reach import Reach, home_of_path, is_of_election
from .server import Server
from .values import CARD, amounts_of, claim_for_extended, is_over, labels_of, node_of, priority_of

STALE = 60.0
"""Seconds for which a decision may rest on what was true before: a binding is tried again for so long."""

CALM = 4.0
"""The same, when nothing has gone wrong in the last minute."""

EVENT_WITHIN = 60.0
"""Seconds after which a binding's event must be there, when nothing goes wrong."""

NOTICES = 13.0
"""Seconds after which who led stops writing, when somebody took its lease: the renew deadline, and a bit."""

STOPS = 0.1
"""The same after it was told that somebody else leads."""

WAITING = ("volumes", "resourceClaims")
"""Fields of the spec of pods that wait, with a node reserved, for what they need there."""

TRIES, TWO_TRIES = 3, 19.5
"""After so many tries, or more, poller gives up an event: they may take 30 s. After two, if the second failed
so many seconds after the first, or more: it may have waited for a place, and hung for 10 s itself."""

MAY_PASS = {
    Kind.REFUSED,
    Kind.RESET,
    Kind.LOST,
    Kind.IGNORED,
    Kind.SILENT,
    Kind.BUSY,
    Kind.BUSY_FOR_LONG,
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


@dataclass(frozen=True)
class _Bound:
    """A binding: when, where, which pod, and by whom. process: its id."""

    when: float
    node: str
    pod: str
    by: str
    process: int
    reach: Reach


class Checks:
    """Watches the store and the requests. ends: when the run does, at the earliest.

    violations: what was found. quiet: the end of the run. bound_at: when each pod was bound by a poller.
    """

    def __init__(self, agenda: Agenda, server: Server, ends: float) -> None:
        self.violations: list[Violation] = []
        self.bindings = self.evictions = 0
        self._agenda, self._server, self._store = agenda, server, server.store
        self.quiet = Quiet(agenda, server.store, ends, self._found)
        self._history = History(agenda)
        self._bound: dict[str, _Bound] = {}  # by uid
        self.bound_at: dict[Key, float] = {}
        self._seen_on_node: dict[str, float] = {}  # by uid: since when any pod is on its node
        self._scheduled: set[str] = set()  # uids of pods with an event
        self._excused: set[str] = set()  # uids whose event need not come
        self._pending: dict[str, tuple[Stored, float]] = {}  # by uid: the pod, and until when it waited
        self._told: set[tuple[int, str]] = set()  # by process and uid: the binding was answered by 201
        self._tried: set[tuple[int, str]] = set()  # by process and uid: a binding was sent
        self._looked_up: set[tuple[int, str]] = set()  # the same: then the pod was found on a node
        self._targets: dict[str, str] = {}  # by uid: the node of the binding that was sent last
        self._forgotten: set[str] = set()  # uids of pods whose binding was answered, and isn't there
        self._failed_events: dict[str, list[float]] = defaultdict(list)  # by the pod's uid: when
        self._identities: dict[int, str] = {}  # of candidates, by their process
        self._lease_taken = -inf  # when somebody who is no poller took the lease
        self._told_so: dict[int, float] = {}  # by process: when it was told after that who leads
        self._left: dict[str, float] = {}  # the same, when pods had gone that were being deleted
        self._changed: dict[str, float] = defaultdict(
            lambda: -inf
        )  # by whom, "" for nobody: what others decide on
        self._given: dict[str, tuple[str, float]] = {}  # by a claim's uid: who gave it devices, and when
        self._claims_changed: dict[tuple[Resource, Key], float] = defaultdict(lambda: -inf)  # not by a poller
        self._trouble = self._trouble_began = -inf  # until when something went wrong last, and since when
        self._preemptions = Preemptions(
            agenda,
            server.store,
            self._history,
            self._is_settled,
            lambda broken: self._found(*broken[:2], *broken.about),
        )
        self._troubled: set[str] = (
            set()
        )  # names of pods about which a request failed, or its poller was killed
        server.store.listen(self._happened)

    def _found(self, rule: str, what: str, *about: str) -> None:
        self.violations.append(Violation(self._agenda.now, rule, what, about))

    # --- the history --------------------------------------------------------------------------------------

    def trouble(self, until: float = -inf) -> None:
        """Something goes wrong, now or until then: what a poller knows may be old for a while."""
        if self._is_calm():
            self._trouble_began = self._agenda.now
        self._trouble = max(self._trouble, until, self._agenda.now)

    def _is_calm(self) -> bool:
        return self._trouble < self._agenda.now - STALE

    def _known_since(self) -> float:
        """Since when what a decision rests on may have been true."""
        now = self._agenda.now
        return now - CALM if self._is_calm() else max(now - STALE, self._trouble_began - CALM)

    def _is_settled(self, poller: str, seconds: float = SEEN_WITHIN, left: bool = True) -> bool:
        """Whether nothing has happened for so long but what this poller did itself.

        left: whether that a pod has gone which was being deleted counts, too.
        """
        before = self._agenda.now - seconds
        others = [*self._changed.items(), *(self._left.items() if left else ())]
        return self._is_calm() and all(when <= before for who, when in others if who != poller)

    def _since(self, pod: Stored) -> float:
        """The same for a decision about this pod, which may wait for its claims after that.

        It waits for longer than a minute while its claims can't be read.
        """
        waits = "hold" in labels_of(pod) or any(pod.content["spec"].get(each) for each in WAITING)
        if not (waits or CARD in amounts_of(pod)):
            return self._known_since()
        began = inf if self._is_calm() else self._trouble_began - CALM
        return min(self._agenda.now - STALE, began)

    def _happened(self, event: WatchEvent) -> None:
        self._history.happened(event)
        self._preemptions.happened(event)
        self.quiet.happened(event)
        actor = self._server.actor
        if _matters(event):
            has_left = event.kind == "DELETED" and event.new.metadata.get("deletionTimestamp")
            changes = self._left if has_left else self._changed
            changes[actor.name if actor else ""] = self._agenda.now
        if event.resource == LEASES and event.new.content["spec"].get("holderIdentity") == OPERATOR:
            self._lease_taken = self._agenda.now
            self._told_so.clear()
            self.trouble()
        if event.resource == PODS:
            self._pod_changed(event)
        elif event.resource == RESOURCE_CLAIMS:
            self._check_devices(event.new)
        if event.resource in (CLAIMS, VOLUMES, RESOURCE_CLAIMS) and not actor and event.kind != "MODIFIED":
            self._claims_changed[event.resource, event.new.key] = self._agenda.now
        if event.resource == EVENTS and event.new.content.get("reason") == "Scheduled":
            uid = event.new.content["involvedObject"].get("uid", "")
            self._scheduled.add(uid)
            is_told = (
                uid in self._forgotten or uid in self._seen_on_node
            )  # of one bound by hand, nothing else is
            if uid not in self._bound and not is_told:
                self._found("binding before event", f"{event.new.key[1]} says so of a pod that isn't bound")
            elif uid in self._bound and not event.new.content["message"].endswith(
                f" to {self._bound[uid].node}"
            ):
                said = event.new.content["message"]
                self._found("true event", f"{said!r}, but the pod was bound to {self._bound[uid].node}")

    def _pod_changed(self, event: WatchEvent) -> None:
        new, old = event.new, event.old
        uid, name = new.metadata["uid"], new.key[1]
        node_name, before = node_of(new), node_of(old) if old else ""
        waits = event.kind != "DELETED" and not node_name
        if waits or not before:
            self._pending[uid] = new, inf if waits else self._agenda.now
        if event.kind == "DELETED" or (
            new.metadata.get("deletionTimestamp") and old and not old.metadata.get("deletionTimestamp")
        ):
            self._check_eviction(new)
        if event.kind != "DELETED" and old and uid in self._bound:
            self._check_condition(new, old)
        if event.kind == "DELETED" or node_name == before:
            return
        if before or uid in self._bound:
            self._found("bound once", f"pod {name} was bound to {before}, and now to {node_name}", name)
            return
        self._seen_on_node[uid] = self._agenda.now
        if not (actor := self._server.actor):
            return
        self.bindings += 1
        self._bound[uid] = _Bound(self._agenda.now, node_name, name, actor.name, id(actor), actor.reach)
        self.bound_at[new.key] = self._agenda.now
        scheduler = new.content["spec"]["schedulerName"]
        since = self._since(new)
        is_known = partial(self._is_known, scheduler, since)
        for broken in broken_rules(self._store, self._history, new, since, is_known):
            self._found(*broken[:2], *broken.about)
        self._check_members(new)
        self._check_volumes(new, node_name)
        self._check_its_devices(new, node_name)
        if self._is_settled(actor.name):
            self._agenda.after(DONE_WITHIN, partial(self._check_zone, new, actor.name))
        if self._is_settled(actor.name, left=False) and is_plain(new):
            state = State.of(self._store, actor.reach)
            for other in without_room(state, self._history, new, self._agenda.now - SEEN_WITHIN):
                self._agenda.after(DONE_WITHIN, partial(self._check_nominated, new, other, actor.name))

    def _check_condition(self, pod: Stored, before: Stored) -> None:
        """Who bound a pod doesn't write that it isn't scheduled."""
        actor, bound = self._server.actor, self._bound[pod.metadata["uid"]]
        if actor and id(actor) == bound.process and _is_unscheduled(pod) and not _is_unscheduled(before):
            what = f"{bound.by} wrote that pod {pod.key[1]} isn't scheduled, and had bound it to {bound.node}"
            self._found("true condition", what, pod.key[1])

    def _check_members(self, pod: Stored) -> None:
        """A pod of a group is bound only as long as there are as many pods of it as the group needs.

        With PodGroups, a group may have more.
        """
        size = (pod.metadata.get("annotations") or {}).get("poller/group-size")
        if not (size and (group := labels_of(pod).get("poller/group"))):
            return
        since, there = self._known_since(), 0
        for uid, (each, _) in self._pending.items():
            if labels_of(each).get("poller/group") == group and each.key[0] == pod.key[0]:
                versions = self._history.pod(uid, since)
                there += any(not (is_over(one) or one.metadata.get("deletionTimestamp")) for one in versions)
        if there < int(size):
            what = f"pod {pod.key[1]} was bound, and of its group only {there} of {size} pods are there"
            self._found("all or none", what, pod.key[1])

    def _is_known(self, scheduler: str, since: float, pod: Stored) -> bool:
        """Whether a scheduler must have known of a pod on a node: all but what others have just bound.

        Somebody may have bound one of its pods by hand: it knows that when it has looked it up.
        """
        uid, actor = pod.metadata["uid"], self._server.actor
        bound = self._bound.get(uid)
        own = (
            bound
            and pod.content["spec"]["schedulerName"] == scheduler
            and actor
            and bound.reach == actor.reach
        )
        if actor and not actor.reach.sees(pod):
            return False
        was_told = (id(actor), uid) in self._looked_up
        return bool(own) or was_told or self._seen_on_node.get(uid, -inf) < since

    def _check_zone(self, pod: Stored, poller: str) -> None:
        """A while after a binding: what concerns all pods of a zone."""
        now = self._store.get(PODS, pod.key)
        same = (
            now and now.metadata["uid"] == pod.metadata["uid"] and not now.metadata.get("deletionTimestamp")
        )
        if now and same and self._is_settled(poller, SEEN_WITHIN + DONE_WITHIN):
            for broken in broken_by_zone(self._store, now):
                self._found(*broken[:2], *broken.about)

    def _check_nominated(self, pod: Stored, other: Stored, poller: str) -> None:
        """A while after a binding: whether a pod still waits for the room that it took.

        A poller that has ended a nomination tells so after the bindings of that tick.
        """
        now, node_name = self._store.get(PODS, other.key), node_of(pod)
        if not now or now.metadata["uid"] != other.metadata["uid"] or node_of(now):
            return
        since = self._history.pod(other.metadata["uid"], self._agenda.now - DONE_WITHIN)
        still = {nominated_to(each) for each in since} == {node_name}
        if still and self._is_settled(poller, SEEN_WITHIN + DONE_WITHIN, left=False):
            what = f"pod {pod.key[1]} was bound to {node_name}, whose room is kept for {other.key[1]}"
            self._found("nominated room", what, pod.key[1], other.key[1])

    # --- volumes and devices ------------------------------------------------------------------------------

    def _check_volumes(self, pod: Stored, node_name: str) -> None:
        """Each claim of a pod that is bound has a volume, which the node can reach."""
        for volume in pod.content["spec"].get("volumes") or ():
            key = pod.key[0], volume["persistentVolumeClaim"]["claimName"]
            claim = self._store.get(CLAIMS, key)
            volume_key = "", claim.content["spec"].get("volumeName", "") if claim else ""
            if self._was_replaced(CLAIMS, key) or self._was_replaced(VOLUMES, volume_key):
                continue
            held = self._store.get(VOLUMES, volume_key)
            if claim and not held:
                what = f"pod {pod.key[1]} was bound to {node_name} before its claim had a volume"
                self._found("volumes", what, pod.key[1])
            elif held and not _reaches(node_name, held):
                what = f"pod {pod.key[1]} was bound to {node_name}, which can't reach volume {held.key[1]}"
                self._found("volumes", what, pod.key[1])

    def _was_replaced(self, resource: Resource, key: Key) -> bool:
        """Whether an object has come or gone so lately that a decision may rest on what was before."""
        return self._claims_changed[resource, key] > self._agenda.now - STALE

    def _check_devices(self, claim: Stored) -> None:
        """No poller gives a device to two claims, nor one that it knew to be given by another."""
        mine, uid = _devices_of(claim), claim.metadata["uid"]
        if not mine:
            self._given.pop(uid, None)
        if not mine or not (actor := self._server.actor) or uid in self._given:
            return
        self._given[uid] = actor.name, self._agenda.now
        for other in self._store.every(RESOURCE_CLAIMS):
            by, when = self._given.get(other.metadata["uid"], (actor.name, 0.0))
            is_known = by == actor.name or when < self._known_since()
            if other.metadata["uid"] != uid and is_known and (both := mine & _devices_of(other)):
                what = (
                    f"device {'/'.join(min(both))} is allocated to claims {claim.key[1]} and {other.key[1]}"
                )
                self._found("devices", what)

    def _check_its_devices(self, pod: Stored, node_name: str) -> None:
        """Each claim of a pod that is bound has a device of the node, and is reserved for the pod."""
        given = {each["name"]: each.get("resourceClaimName") for each in _claim_statuses(pod)}
        names = [
            each.get("resourceClaimName") or given.get(each["name"]) or ""
            for each in pod.content["spec"].get("resourceClaims") or ()
        ]
        names += [name] if (name := claim_for_extended(pod)) else []
        for name in names:
            key = pod.key[0], name
            claim = self._store.get(RESOURCE_CLAIMS, key)
            if self._was_replaced(RESOURCE_CLAIMS, key):
                continue
            status = (claim and claim.content.get("status")) or {}
            if pod.metadata["uid"] not in {one["uid"] for one in status.get("reservedFor") or ()}:
                what = (
                    f"pod {pod.key[1]} was bound to {node_name}, and its claim {key[1]} isn't reserved for it"
                )
                self._found("devices", what, pod.key[1])
            elif claim and {pool for pool, _ in _devices_of(claim)} != {node_name}:
                what = f"pod {pod.key[1]} was bound to {node_name}, and its devices are elsewhere"
                self._found("devices", what, pod.key[1])
            elif (
                claim and name == claim_for_extended(pod) and len(_devices_of(claim)) != amounts_of(pod)[CARD]
            ):
                what = f"pod {pod.key[1]} was bound with {len(_devices_of(claim))} devices for its {CARD}"
                self._found("devices", what, pod.key[1])

    # --- evictions ----------------------------------------------------------------------------------------

    def _check_eviction(self, victim: Stored) -> None:
        """A poller deletes a pod only for one that waits, is more important, and fits then."""
        actor = self._server.actor
        if not actor:
            return
        self.evictions += 1
        name = victim.key[1]
        since = self._known_since()
        more = [
            pod
            for pod, until in self._pending.values()
            if until > since and priority_of(pod) > priority_of(victim)
        ]
        if not more:
            self._found("eviction", f"{actor.name} evicts pod {name} for nobody who is more important", name)
            return
        preemptors = [each for pod in more for each in self._history.pod(pod.metadata["uid"], since) or [pod]]
        # One whose binding is on its way, or whose answer was lost, has room there as well.
        node_name = node_of(victim) or self._targets.get(victim.metadata["uid"], "") or nominated_to(victim)
        if not node_name and any(victim.content["spec"].get(each) for each in WAITING):
            return  # its claims are being written, and that it is nominated couldn't be
        nodes = self._history.node(node_name, since)
        here = [each for each in self._store.every(PODS) if node_of(each) == node_name and not is_over(each)]
        # what others have put there since may be in the way
        seen = [each for each in here if actor.reach.sees(each)]
        known = [each for each in seen if self._seen_on_node.get(each.metadata["uid"], -inf) < since]
        if helps_nobody(nodes, preemptors, known):
            self._found("eviction", f"{actor.name} evicts pod {name}, and that helps nobody who waits", name)
        if self._is_calm():
            self._preemptions.evicted(victim, actor.name, actor.reach)

    # --- requests -----------------------------------------------------------------------------------------

    def exchanged(self, exchange: Exchange) -> None:
        """A poller's request has reached the server, or a fault."""
        asked = exchange.asked
        if exchange.fault:
            self.trouble()
        path = asked.target.partition("?")[0]
        self.quiet.exchanged(exchange)
        if asked.is_read:
            self._note_looked_up(exchange, path)
            if "/leases/" in path and exchange.code == 200 and not exchange.fault:
                self._told_so.setdefault(id(exchange.process), exchange.when)
            return
        home, reach = home_of_path(path), exchange.process.reach
        if home and reach.namespaces and home not in reach.namespaces and not is_of_election(path):
            what = f"{exchange.process.name} wrote {asked}, and serves {' and '.join(reach.namespaces)} alone"
            self._found("served namespaces", what)
        body: Object = json.loads(asked.body) if asked.body else {}
        if "/events" in path:
            self._note_event(exchange, (body.get("involvedObject") or {}).get("uid", ""))
        if path.endswith("/binding"):
            uid = body["metadata"].get("uid", "")
            self._targets[uid] = body["target"]["name"]
            self._tried.add((id(exchange.process), uid))
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
            if exchange.fault == Kind.FORGOTTEN:
                self._forgotten.add(body["metadata"]["uid"])
            self._check_again(exchange, path.split("/")[6], body["metadata"]["uid"])

    def _note_looked_up(self, exchange: Exchange, path: str) -> None:
        """A pod was looked up after its binding, and its node was told.

        For an extender a pod is read, too, with all its fields: nothing is concluded from these.
        """
        parts = path.split("/")
        if len(parts) == 7 and parts[5] == "pods" and exchange.code == 200 and not exchange.fault:
            pod = self._store.get(PODS, (parts[4], parts[6]))
            key = id(exchange.process), pod.metadata["uid"] if pod else ""
            if pod and node_of(pod) and key in self._tried:
                self._looked_up.add(key)

    def _check_again(self, exchange: Exchange, pod: str, uid: str) -> None:
        """Who was told that a pod is bound doesn't bind it again."""
        key = id(exchange.process), uid
        if key in self._told:
            self._found("bound once", f"{exchange.process.name} binds pod {pod} again", pod)
        elif exchange.code == 201 and not exchange.fault:
            self._told.add(key)

    def _note_event(self, exchange: Exchange, uid: str) -> None:
        """An event that was refused need not come, nor one whose write has failed several times."""
        failed = self._failed_events[uid]
        if exchange.fault is not None or exchange.code >= 300:
            failed.append(exchange.when)
        is_refused = exchange.fault not in MAY_PASS and (exchange.fault or exchange.code >= 300)
        took = failed[-1] - failed[0] if failed else 0.0
        if is_refused or len(failed) >= TRIES or took >= TWO_TRIES:
            self._excused.add(uid)

    def _check_leads(self, exchange: Exchange) -> None:
        """Who writes holds the lease."""
        lease = self._store.get(LEASES, ("kube-system", "poller"))
        holder = lease.content["spec"].get("holderIdentity") if lease else ""
        if holder == OPERATOR and not self._must_know(exchange):
            return
        if not holder or holder != self._identities.get(id(exchange.process)):
            self._found("leader", f"{exchange.process.name} wrote {exchange.asked}, and doesn't lead")

    def _must_know(self, exchange: Exchange) -> bool:
        """Whether a process must have noticed that somebody took the lease."""
        process = exchange.process
        told = max(self._told_so.get(id(process), inf), process.frozen_until)
        return exchange.when > min(told + STOPS, self._lease_taken + NOTICES)

    def killed(self, poller: str) -> None:
        """A poller was killed: events of what it bound shortly before need not come, nor all of a group."""
        now = self._agenda.now
        self._troubled |= {
            each.pod for each in self._bound.values() if each.by == poller and each.when > now - 5
        }
        for uid, each in self._bound.items():
            if each.by == poller and uid not in self._scheduled and each.when > now - STALE - EVENT_WITHIN:
                self._excused.add(uid)

    # --- at the end ---------------------------------------------------------------------------------------

    def at_end(self) -> None:
        """Each binding has its event; no group is bound in part."""
        now = self._agenda.now
        self._check_groups()
        self.quiet.check()
        there = {each.metadata["uid"] for each in self._store.every(PODS)}
        for uid, each in self._bound.items():
            if uid in self._scheduled or uid in self._excused or each.when > now - EVENT_WITHIN:
                continue
            if uid in there:
                bound = f"{each.pod} was bound to {each.node} by {each.by} at {each.when:.3f} s"
                what = f"pod {bound} without an event"
                self._found("event", what, each.pod)

    def _check_groups(self) -> None:
        """A group of which a poller bound a pod is bound whole, unless something went wrong just then."""
        waiting: dict[str, str] = {}
        for pod in self._store.every(PODS):
            group = labels_of(pod).get("poller/group")
            if group and not pod.content["spec"].get("nodeName"):
                waiting[group] = pod.key[1]
        for each in self._bound.values():
            group = each.pod.rpartition("-")[0]
            if group in waiting and each.pod not in self._troubled and waiting[group] not in self._troubled:
                bound = f"{each.pod} was bound to {each.node} by {each.by} at {each.when:.3f} s"
                self._found("all or none", f"{bound}, and {waiting[group]} never", each.pod, waiting[group])


def _matters(event: WatchEvent) -> bool:
    """Whether an event changes what decisions depend on."""
    new, old = event.new.content, event.old.content if event.old else None
    if event.resource == DISRUPTION_BUDGETS:
        if not old or event.kind == "DELETED" or new["spec"] != old["spec"]:
            return True
        allowed, before = (each["status"].get("disruptionsAllowed", 0) for each in (new, old))
        return bool(allowed > before)  # it falls when pods go, which matters itself
    if event.resource == NODES or (event.resource == PODS and event.kind == "DELETED"):
        return True
    if event.resource != PODS or not old:
        return event.resource == PODS and bool(new["spec"].get("nodeName"))  # one that waits takes no room
    return (
        new["spec"] != old["spec"]
        or is_over(event.new)
        or any(
            new["metadata"].get(each) != old["metadata"].get(each) for each in ("labels", "deletionTimestamp")
        )
    )


def _is_unscheduled(pod: Stored) -> bool:
    """Whether a pod's condition says that it has no node."""
    conditions = pod.content["status"].get("conditions") or ()
    return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)


def _reaches(node_name: str, volume: Stored) -> bool:
    """Whether a node reaches a volume: without an affinity, it was made for a node that has gone since."""
    if not (affinity := volume.content["spec"].get("nodeAffinity")):
        return True
    (term,) = affinity["required"]["nodeSelectorTerms"]
    return node_name in term["matchExpressions"][0]["values"]


def _devices_of(claim: Stored) -> set[tuple[str, str]]:
    """The devices that are allocated to a claim: the pool of each, named like its node, and its name."""
    allocation = (claim.content.get("status") or {}).get("allocation") or {}
    return {(each["pool"], each["device"]) for each in (allocation.get("devices") or {}).get("results") or ()}


def _claim_statuses(pod: Stored) -> list[Object]:
    return pod.content["status"].get("resourceClaimStatuses") or []
