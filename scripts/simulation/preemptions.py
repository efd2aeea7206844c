"""Watches evictions: by the events that tell for whom, those of one preemptor are looked at together."""

import re
from collections.abc import Callable

from scripts.minicluster.resources import EVENTS, PODS
from scripts.minicluster.store import Event, Store, Stored

from .agenda import Agenda
from .evictions import Preemption, State, has_room, is_less, is_plain, nominated_to
from .history import History
from .placement import Broken, accepts
from .values import node_of

DONE_WITHIN = 1.5
"""Seconds after which what was decided together is written, when nothing goes wrong."""

SEEN_WITHIN = 2.0
"""Seconds after which a poller knows of a change, when nothing goes wrong."""

PREEMPTED_BY = re.compile("Preempted by pod ([0-9a-f-]+)")


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
        self._evicted: list[tuple[float, Stored, State]] = []  # victims, and the cluster before each

    def happened(self, event: Event) -> None:
        """Note for whom a pod was evicted."""
        if event.resource == EVENTS and (said := PREEMPTED_BY.match(event.new.content.get("message", ""))):
            self._preemptors[event.new.content["involvedObject"].get("uid", "")] = said[1]
        if event.resource == PODS and event.kind == "MODIFIED":
            self._note_nomination(event.new)

    def _note_nomination(self, pod: Stored) -> None:
        """Note the nodes to which a pod that waits was nominated in a row; a nomination that ends ends it."""
        uid, name = pod.metadata["uid"], nominated_to(pod)
        if name and not node_of(pod):
            self._nominated.setdefault(uid, set()).add(name)
        else:
            self._nominated.pop(uid, None)

    def evicted(self, victim: Stored, poller: str) -> None:
        """A poller evicts a pod: look at it when it has evicted all that it wants to."""
        now, state = self._agenda.now, State.of(self._store)
        self._evicted = [each for each in self._evicted if each[0] > now - 2 * DONE_WITHIN]
        self._evicted.append((now, victim, state))
        self._agenda.after(DONE_WITHIN, lambda: self._look_elsewhere(now, victim, state))
        if self._is_settled(poller, SEEN_WITHIN, True):
            self._agenda.after(DONE_WITHIN, lambda: self._look(now, victim, state, poller))

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
            may_fit = nodes and all(not accepts(each, pod) and has_room(each, [], pod) for each in nodes)
            if may_fit and not self._is_cleared(pod, name, before):
                what = f"for {pod.key[1]}, {other.key[1]} leaves {name}; {victim.key[1]} is evicted, too"
                self._found(Broken("needless eviction", what, (pod.key[1], other.key[1])))
                return

    def _is_cleared(self, pod: Stored, name: str, before: State) -> bool:
        """Whether a more important pod may have taken a pod's nomination to a node away."""
        return any(nominated_to(each) == name and is_less(pod, each) for each in before.pods)

    def _look(self, when: float, victim: Stored, before: State, poller: str) -> None:
        uid = self._preemptors.get(victim.metadata["uid"])
        pod = next((each for each in before.pods if each.metadata["uid"] == uid), None)
        if not pod or not is_plain(pod) or not self._is_settled(poller, DONE_WITHIN, False):
            return
        victims = [
            (at, other)
            for at, other, _ in self._evicted
            if self._preemptors.get(other.metadata["uid"]) == uid
        ]
        if min(at for at, _ in victims) < when:
            return  # it was looked at with the first one
        together = [
            other
            for _, other in victims
            if other.content["spec"]["nodeName"] == victim.content["spec"]["nodeName"]
        ]
        there = {each.metadata["uid"] for each in before.pods}
        if all(each.metadata["uid"] in there for each in together):
            for broken in Preemption(pod, together, before, State.of(self._store)).broken():
                self._found(broken)
