"""Watches evictions: by the events that tell for whom, those of one preemptor are looked at together."""

import re
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import NamedTuple

from scripts.minicluster.resources import EVENTS, PODS
from scripts.minicluster.store import Store, Stored, WatchEvent

from .agenda import Agenda
from .evictions import Preemption, State, has_room, is_less, is_plain, nominated_to
from .history import History
from .placement import Broken, accepts
from .reach import Reach
from .values import node_of

DONE_WITHIN = 1.5
"""Seconds after which what was decided together is written, when nothing goes wrong."""

SEEN_WITHIN = 2.0
"""Seconds after which a poller knows of a change, when nothing goes wrong."""

PREEMPTED_BY = re.compile("Preempted by pod ([0-9a-f-]+)")


class Eviction(NamedTuple):
    """A pod that is evicted, and the cluster just before."""

    when: float
    victim: Stored
    before: State


class Preemptions:
    """is_settled: whether a poller has known for so long what others do. found: is told what is wrong."""

    def __init__(
        self,
        agenda: Agenda,
        store: Store,
        history: History,
        is_settled: Callable[[str, float, bool], bool],
        found: Callable[[Broken], None],
    ) -> None:
        self._agenda, self._store, self._history = agenda, store, history
        self._is_settled, self._found = is_settled, found
        self._preemptors: dict[str, str] = {}  # by the victim's uid
        self._nominated: dict[str, set[str]] = {}  # by the uid of a pod that waits: nodes
        self._decided: dict[str, float] = {}  # by its uid: when it was nominated to a node last
        self._evicted: list[Eviction] = []

    def happened(self, event: WatchEvent) -> None:
        """Note for whom a pod was evicted."""
        if event.resource == EVENTS and (said := PREEMPTED_BY.match(event.new.content.get("message", ""))):
            self._preemptors[event.new.content["involvedObject"].get("uid", "")] = said[1]
        if event.resource == PODS and event.kind == "MODIFIED":
            self._note_nomination(event.new, nominated_to(event.old) if event.old else "")

    def _note_nomination(self, pod: Stored, before: str) -> None:
        """Note the nodes to which a pod that waits was nominated in a row; a nomination that ends ends it."""
        uid, name = pod.metadata["uid"], nominated_to(pod)
        if name and before != name:
            self._decided[uid] = self._agenda.now
        if name and not node_of(pod):
            self._nominated.setdefault(uid, set()).add(name)
        else:
            self._nominated.pop(uid, None)

    def evicted(self, victim: Stored, poller: str, reach: Reach) -> None:
        """A poller evicts a pod: look at it when it has evicted all that it wants to."""
        now, state = self._agenda.now, State.of(self._store, reach)
        self._evicted = [each for each in self._evicted if each.when > now - 2 * DONE_WITHIN]
        self._evicted.append(eviction := Eviction(now, victim, state))
        self._agenda.after(DONE_WITHIN, lambda: self._look_elsewhere(now, victim, state))
        if self._is_settled(poller, SEEN_WITHIN, True):
            self._agenda.after(DONE_WITHIN, lambda: self._look(eviction, poller))

    def _look_elsewhere(self, when: float, victim: Stored, before: State) -> None:
        """While victims leave the node to which a pod is nominated, nobody else is evicted for it."""
        uid = self._preemptors.get(victim.metadata["uid"], "")
        pod = next((each for each in before.pods if each.metadata["uid"] == uid), None)
        if not pod or not is_plain(pod):
            return
        for other in before.pods:
            name = node_of(other)
            its = self._preemptors.get(other.metadata["uid"])
            leaves = its == uid and other.metadata.get("deletionTimestamp") and name != node_of(victim)
            if not leaves or uid not in self._nominated or self._nominated[uid] != {name, node_of(victim)}:
                continue
            nodes = self._history.node(name, when - SEEN_WITHIN)
            may_fit = all(not accepts(each, pod) and has_room(each, [], pod) for each in nodes)
            may_fit = may_fit and not self._history.was_away(name, when - SEEN_WITHIN)
            if may_fit and not self._is_cleared(pod, name, before):
                what = f"for {pod.key[1]}, {other.key[1]} leaves {name}; {victim.key[1]} is evicted, too"
                self._found(Broken("needless eviction", what, (pod.key[1], other.key[1])))
                return

    def _is_cleared(self, pod: Stored, name: str, before: State) -> bool:
        """Whether a more important pod may have taken a pod's nomination to a node away."""
        return any(nominated_to(each) == name and is_less(pod, each) for each in before.pods)

    def _look(self, eviction: Eviction, poller: str) -> None:
        """When all that were decided on together are evicted: whether that was right."""
        when, victim, before = eviction
        uid = self._preemptors.get(victim.metadata["uid"])
        pod = next((each for each in before.pods if each.metadata["uid"] == uid), None)
        if not pod or not is_plain(pod) or not self._is_settled(poller, DONE_WITHIN, False):
            return
        decided = self._decided_with(eviction, pod)
        if decided[0].when < when:
            return  # it was looked at with the first one
        together = [each.victim for each in decided if node_of(each.victim) == node_of(victim)]
        there = {each.metadata["uid"] for each in before.pods}
        if all(each.metadata["uid"] in there for each in together):
            failed = self._failed(pod, before, when - DONE_WITHIN)
            others = [
                each for each in self._evicted if self._preemptors.get(each.victim.metadata["uid"]) != uid
            ]
            if others and others[0].when < when:  # what budgets allowed before all of them
                before = replace(before, budgets=others[0].before.budgets)
            may_be_charged = [each.victim for each in others]
            charged = self._charged(pod, decided[0], others)
            after = State.of(self._store, before.reach)
            found = Preemption(pod, together, before, after, failed, charged, may_be_charged)
            for broken in found.broken():
                self._found(broken)

    def _charged(self, pod: Stored, first: Eviction, others: list[Eviction]) -> list[Stored]:
        """The victims of others that this pod's poller had decided on before, and of which no budget told.

        They left for pods that are at least as important and came no later: these were decided on first. They
        left after this pod was nominated.
        """
        found = []
        came, decided = self._history.came, self._decided.get(pod.metadata["uid"], inf)
        for each in others:
            uid = self._preemptors.get(each.victim.metadata["uid"], "")
            other = next((one for one in first.before.pods if one.metadata["uid"] == uid), None)
            if not other or is_less(other, pod) or came(uid) > came(pod.metadata["uid"]):
                continue
            if decided <= each.when and self._decided.get(uid, inf) <= first.when:
                found.append(each.victim)
        return found

    def _decided_with(self, eviction: Eviction, pod: Stored) -> list[Eviction]:
        """The evictions for a pod that were decided on with one of them.

        When a more important pod has taken the room that victims left, their preemptor decides again.
        """
        uid, found = pod.metadata["uid"], list[Eviction]()
        for each in self._evicted:
            if self._preemptors.get(each.victim.metadata["uid"]) != uid:
                continue
            if found and _is_taken(pod, found[-1], each.before):
                if eviction in found:
                    break
                found = []
            found.append(each)
        return found

    def _failed(self, pod: Stored, before: State, since: float) -> list[Stored]:
        """Pods that had a node when it was decided for another one, and then ended with an error.

        The API shows the error alone: not which node they had, if any.
        """
        return [
            each
            for each in before.pods
            if each.content["spec"]["schedulerName"] == pod.content["spec"]["schedulerName"]
            and not (node_of(each) or is_less(each, pod))
            and any(map(_has_failed, self._history.written(each.metadata["uid"], since)))
        ]


def _is_taken(pod: Stored, first: Eviction, then: State) -> bool:
    """Whether a victim has left its node, and a pod that is more important than its preemptor has come."""
    name, left = node_of(first.victim), first.victim.metadata["uid"]
    came = _more_important(pod, name, then) - _more_important(pod, name, first.before)
    return bool(came) and all(each.metadata["uid"] != left for each in then.pods)


def _more_important(pod: Stored, name: str, state: State) -> set[str]:
    """The uids of the pods on a node, or nominated to it, that are more important than a pod."""
    return {
        each.metadata["uid"]
        for each in state.pods
        if is_less(pod, each) and name in (node_of(each), nominated_to(each))
    }


def _has_failed(pod: Stored) -> bool:
    """Whether a pod's last attempt ended with an error."""
    conditions = pod.content["status"].get("conditions") or ()
    return any(
        each["type"] == "PodScheduled" and each.get("reason") == "SchedulerError" for each in conditions
    )
