"""A pod's life: in which phase it is, and what leads from one phase to the next.

           ┌────────┐    ┌────────┐  no node   ┌───────────────┐
     OUT ─>│ GATED  │<──>│ ACTIVE │───────────>│ UNSCHEDULABLE │  tried again when something changes
           └────────┘    └────────┘<───────────└───────────────┘
                          │  ^   ^    error    ┌───────────────┐
                   assume │  │   └────────────>│    BACKOFF    │<──────────────┐
                          v  │ forget          └───────────────┘               │ forget
           ┌────────┐    ┌─────────┐                                           │
           │  HELD  │<──>│ ASSUMED │                                           │
           └────────┘    └─────────┘                                           │
          Permit waits │  │ submit                                             │
               ^       │  v                                                    │
        PreBind│waits  │ ┌─────────┐  the answer is lost   ┌──────────┐        │
               └───────┴>│ BINDING │──────────────────────>│ DOUBTFUL │────────┘
                         └─────────┘                       └──────────┘
                          │ the binding is written               │ looked up: it is bound
                          v                                      v
                         ┌────────┐   it is seen on its node
                         │ BOUND  │─────────────────────────────────> OUT
                         └────────┘

BINDING may last over many ticks. HELD, BINDING and BOUND are forgotten like ASSUMED. A pod can become GATED
from BACKOFF and UNSCHEDULABLE, too. A pod that is deleted, or that is seen on a node, is OUT, in whichever
phase it was; transitions.py says what follows from that for a pod with room. Besides its phase, a pod without
room may be nominated to a node, and a pod with room or a node may be leaving it for a more important one.

Counterpart in kube-scheduler: the states drawn in pkg/scheduler/backend/cache/interface.go; QueuedPodInfo in
pkg/scheduler/framework/types.go
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Any

from lib.kube.objects import Pod, PodGroupRef
from lib.scheduling.pod_groups import group_of
from lib.scheduling.resources import add

CONFIRM_SECONDS = 60.0
"""A binding that isn't seen for so long is looked up."""

ANSWER_SECONDS = 1.0
"""A pod that is being bound, and seems to be gone, is looked up after so long. It may be in no list because
it is bound by now, and the answer that says so is on its way."""


class Phase(StrEnum):
    """Where a pod is in its life."""

    OUT = "out of the queue"
    """Not in the queue yet, or not any more. There is a record only while the pod is nominated or leaving."""
    GATED = "gated"
    """A PreEnqueue plugin keeps it out of the queue."""
    ACTIVE = "active"
    """It is tried in the next tick."""
    BACKOFF = "backoff"
    """It is tried when its backoff ends."""
    UNSCHEDULABLE = "unschedulable"
    """It is tried when something changes that could help it, or after some minutes."""
    ASSUMED = "assumed"
    """A node was picked, and its room is reserved."""
    HELD = "waiting"
    """Its room is reserved; it waits until the Permit and PreBind plugins agree."""
    BINDING = "being bound"
    """Its room is reserved. What PreBind writes, or the binding, is on its way to the API server."""
    DOUBTFUL = "doubtful"
    """Its room is reserved, as it may be bound. It is looked up before it is tried again."""
    BOUND = "bound"
    """It was bound, and wasn't seen on its node yet."""


ROOM = (Phase.ASSUMED, Phase.HELD, Phase.BINDING, Phase.DOUBTFUL, Phase.BOUND)
"""Phases in which room on a node is reserved: the cache counts the pod there."""

UNSENT = (Phase.ASSUMED, Phase.HELD)
"""Phases in which room is reserved, and no binding is sent."""

QUEUED = (
    Phase.ACTIVE,
    Phase.BACKOFF,
    Phase.UNSCHEDULABLE,
    Phase.ASSUMED,
    Phase.HELD,
    Phase.BINDING,
    Phase.DOUBTFUL,
)
"""Phases of pods in the queue: they have no node, as far as is known."""

TRIED_LATER = (Phase.BACKOFF, Phase.UNSCHEDULABLE)

TRIED = (Phase.ACTIVE, Phase.DOUBTFUL, *TRIED_LATER)
"""Pods that are tried, now or later."""

WITHOUT_NODE = frozenset([Phase.GATED, *TRIED])
"""Phases of pods that have no node, as far as plugins that rejected them know."""

STEPS: dict[Phase, Collection[Phase]] = {
    Phase.OUT: [Phase.GATED, Phase.ACTIVE, Phase.ASSUMED, Phase.BOUND],
    Phase.GATED: [Phase.ACTIVE, Phase.BACKOFF, Phase.OUT],
    Phase.ACTIVE: [Phase.ASSUMED, Phase.UNSCHEDULABLE, Phase.BACKOFF, Phase.GATED, Phase.OUT],
    Phase.BACKOFF: [Phase.BACKOFF, Phase.ACTIVE, Phase.GATED, Phase.OUT],
    Phase.UNSCHEDULABLE: [Phase.ACTIVE, Phase.BACKOFF, Phase.GATED, Phase.OUT],
    Phase.ASSUMED: [Phase.HELD, Phase.BINDING, Phase.ACTIVE, Phase.OUT],
    Phase.HELD: [Phase.ASSUMED, Phase.ACTIVE, Phase.OUT],
    Phase.BINDING: [Phase.HELD, Phase.BOUND, Phase.DOUBTFUL, Phase.ACTIVE, Phase.OUT],
    Phase.DOUBTFUL: [Phase.BACKOFF, Phase.OUT],
    Phase.BOUND: [Phase.ACTIVE, Phase.OUT],
}
"""The phases that can follow each phase. A pod that backs off may back off anew."""


class UnknownStepError(Exception):
    """A pod can't go from its phase to another: a mistake in this program."""


class LifeIndex:
    """Records by a key, such as their group. Keys without any record aren't kept."""

    def __init__(self) -> None:
        self._by_key: dict[Hashable, dict[str, PodLife]] = {}

    def add(self, key: Hashable, life: "PodLife") -> None:
        """Add a record."""
        self._by_key.setdefault(key, {})[life.key] = life

    def discard(self, key: Hashable, life: "PodLife") -> None:
        """Remove a record, if it is there."""
        of_key = self._by_key.get(key, {})
        if of_key.pop(life.key, None) and not of_key:
            del self._by_key[key]

    def of(self, key: Hashable) -> "Collection[PodLife]":
        """The records with a key. Don't add or remove any while you walk over them."""
        return self._by_key.get(key, {}).values()

    def all(self) -> "Iterable[Collection[PodLife]]":
        """The records of each key in turn. Don't add or remove any meanwhile, either."""
        return (by_uid.values() for by_uid in self._by_key.values())


@dataclass(slots=True, eq=False, repr=False)
class PodLife:
    """The record of a pod. Times are in seconds."""

    pod: Pod
    key: str
    """Its `pod_key`."""
    timestamp: float = 0.0
    """When it was seen first; later, when it was tried last. Of pods with the same priority, the earliest is
    tried first."""
    group: PodGroupRef | None = None

    phase: Phase = Phase.OUT
    since: float = 0.0
    """When it came into its phase."""
    look_up_at: float = inf
    """When it is looked up, if it isn't seen on its node before."""
    entry: Any = None
    """Its entry in a PodHeap, as long as it is in its phase."""
    listed: list[tuple[LifeIndex, Hashable]] = field(default_factory=list)
    """The indexes that have it as long as it is in its phase, each with the key."""

    queued: float = 0.0
    """When it was queued for the first time."""
    attempts: int = 0
    """How many attempts without success there were since it came: `rejections`, and errors."""
    rejections: int = 0
    """How many of them ended with a rejection."""
    errors: int = 0
    """How many attempts in a row, up to the last one, have ended with an error."""
    rejected_by: Collection[str] = frozenset()
    """The plugins that rejected it, whose hints say what could help; empty after an error."""
    reason: str = ""
    """Why it has no node."""
    flushed: bool = False
    """Whether it is tried because it was unschedulable for too long, not because of a change."""
    event: Any = None
    """Its FailedScheduling event, as it was written last; only lib/service/writes knows what that is."""

    decision: Any = None  # a Decision, which must not be imported here: it imports this file
    """For a pod with room, why it is there."""
    found: bool = False
    """Whether it was looked up, and is on a node."""
    is_gone: bool = False
    """Whether it is in no list of pods without a node any more, or ends."""
    seen_on: str = ""
    """The node on which it was seen when it left the queue."""

    nominated: str = ""
    """The node where room is kept for it."""
    victims: set[str] = field(default_factory=set)
    """The uids of the pods that have not yet left a node for it."""
    leaving: bool = False
    """Whether it is being preempted, and isn't seen to be deleted yet."""

    @property
    def is_queued(self) -> bool:
        """Whether it has no node, as far as is known, and is to get one."""
        return self.phase in QUEUED

    @property
    def has_room(self) -> bool:
        """Whether room on a node is reserved for it."""
        return self.phase in ROOM


@dataclass(frozen=True)
class BackoffSettings:
    """How long a pod backs off, in seconds.

    Counterpart in kube-scheduler: pkg/scheduler/backend/queue/backoff_queue.go
    """

    initial_backoff: float = 1.0
    """How long after the first attempt; after each further attempt, twice as long."""
    max_backoff: float = 10.0
    """The longest backoff."""
    unschedulable: float = 300.0
    """An unschedulable pod is tried again after so long, even without any change."""

    def ends_at(self, life: PodLife) -> float:
        """When a pod's backoff ends. It grows with the errors in a row, or else with the rejections."""
        count = life.errors or life.rejections
        if not count:
            return 0.0
        # The limit keeps the float from overflowing.
        doubled = self.initial_backoff * 2.0 ** min(count - 1, 100)
        return life.timestamp + min(doubled, self.max_backoff)


class PodLives:
    """The records of all pods that are in the queue, have reserved room, are nominated or leave."""

    def __init__(self, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.clock = clock
        self._by_key: dict[str, PodLife] = {}
        self._in_phase: dict[Phase, dict[str, PodLife]] = {phase: {} for phase in Phase}
        self._leaving: dict[str, PodLife] = {}
        self.listed_at = -inf
        """When all pods were listed last."""
        self.nominated: dict[str, dict[str, PodLife]] = {}
        """The pods that are nominated to a node and have no room, by the node's name, then by key. A node
        without such pods isn't in it."""
        self.kept_with_nominated: dict[str, dict[Any, Any]] = {}
        """By node name, what others keep of the node as long as pods are nominated to it."""
        self.rejected: Counter[tuple[str, str]] = Counter()
        """How many pods without a node each plugin rejected, by the plugin's and the scheduler's name."""
        self._groups, self._waiting_for = LifeIndex(), LifeIndex()

    def get(self, key: str) -> PodLife | None:
        """The record of a pod, by `pod_key`."""
        return self._by_key.get(key)

    def of(self, pod: Pod) -> PodLife:
        """The record of a pod; a new one, if there is none."""
        key = pod_key(pod)
        if key not in self._by_key:
            now = self.clock()
            life = PodLife(pod, key, now, group_of(pod), since=now)
            self._by_key[key] = self._in_phase[Phase.OUT][key] = life
            if life.group:
                self._groups.add(life.group, life)
        return self._by_key[key]

    def update(self, life: PodLife, pod: Pod) -> None:
        """A pod has changed. If it is active, it may be tried sooner or later than before."""
        life.pod = pod
        if (group := group_of(pod)) != life.group:
            self._groups.discard(life.group, life)
            life.group = group
            if group:
                self._groups.add(group, life)
        if life.phase == Phase.ACTIVE:
            self.renew(life)

    def renew(self, life: PodLife) -> None:
        """Have a record stand in its phase as if it had just come there."""
        self._in_phase[life.phase][life.key] = self._in_phase[life.phase].pop(life.key)
        if life.entry is not None:
            life.entry[-1] = life.entry = None

    def of_group(self, group: PodGroupRef) -> list[PodLife]:
        """The records of a group's pods."""
        return [*self._groups.of(group)]

    def phase_of(self, pod: Pod) -> Phase:
        """The phase of a pod."""
        life = self._by_key.get(pod_key(pod))
        return life.phase if life else Phase.OUT

    def all(self) -> list[PodLife]:
        """All records. Any thread may ask."""
        return list(self._by_key.values())

    def in_phase(self, *phases: Phase) -> list[PodLife]:
        """The records in these phases; of each phase, those first that have been in it for longest."""
        return [life for phase in phases for life in self._in_phase[phase].values()]

    def new_in(self, phase: Phase) -> list[PodLife]:
        """The records that came into a phase and aren't in a PodHeap yet, in the order in which they came."""
        new = []
        for life in reversed(self._in_phase[phase].values()):
            if life.entry is not None:
                break
            new.append(life)
        return new[::-1]

    def count(self, phases: Iterable[Phase]) -> int:
        """How many pods are in these phases."""
        return sum(len(self._in_phase[phase]) for phase in phases)

    def move(self, life: PodLife, phase: Phase, look_up_at: float = inf) -> None:
        """Move a pod from its phase to another. UnknownStepError if that one can't follow.

        look_up_at: when it is looked up, if it isn't seen on its node before.
        """
        if phase not in STEPS[life.phase]:
            known = f"{life.phase.name} is not followed by {phase.name}"
            raise UnknownStepError(f"{life.pod}: {known}")
        if life.rejected_by and (life.phase in WITHOUT_NODE) != (phase in WITHOUT_NODE):
            self._count_rejected(life, 1 if phase in WITHOUT_NODE else -1)
        if life.listed:
            self.unlist(life)
        del self._in_phase[life.phase][life.key]
        self._in_phase[phase][life.key] = life
        if life.entry is not None:
            life.entry[-1] = life.entry = None
        life.phase, life.since, life.look_up_at = phase, self.clock(), look_up_at
        life.found = life.is_gone = False
        if phase not in ROOM:
            life.decision = None
        if life.nominated:
            self.index_nomination(life)
        if phase == Phase.OUT:
            life.attempts = life.rejections = life.errors = 0  # if it comes back, it is tried at once
            self.tidy(life)

    def index_nomination(self, life: PodLife) -> None:
        """Put a pod where it is nominated into `nominated`; take it out while it has room already."""
        if life.has_room:
            self.forget_nomination(life)
        else:
            self.nominated.setdefault(life.nominated, {})[life.key] = life

    def forget_nomination(self, life: PodLife) -> None:
        """Take a pod out of `nominated`."""
        of_node = self.nominated.get(life.nominated, {})
        if of_node.pop(life.key, None) and not of_node:
            del self.nominated[life.nominated]
            self.kept_with_nominated.pop(life.nominated, None)

    def forget(self, life: PodLife) -> None:
        """A pod's room is given back. It is tried again: at once, or when its backoff ends."""
        self.spare([life.pod])
        is_gone = life.is_gone
        self.move(life, Phase.BACKOFF if life.phase == Phase.DOUBTFUL else Phase.ACTIVE)
        life.is_gone = is_gone  # then it isn't tried: the caller, who gives the room back, drops it

    def end(self, pod: Pod) -> None:
        """A pod is gone, or was seen on a node: it is out of the queue."""
        life = self._by_key.get(pod_key(pod))
        if life and life.phase != Phase.OUT:
            self.move(life, Phase.OUT)
            life.seen_on = pod.spec.node_name
        elif life:
            self.tidy(life)

    def tidy(self, life: PodLife) -> None:
        """Drop a record that nobody needs any more."""
        if life.phase == Phase.OUT and not (life.nominated or life.leaving):
            self._by_key.pop(life.key, None)
            self._in_phase[Phase.OUT].pop(life.key, None)
            if life.group:
                self._groups.discard(life.group, life)
            if life.victims:
                self.await_victims(life, ())

    # --- what a pod waits for ---------------------------------------------------------------------------

    def reject(self, life: PodLife, plugins: Iterable[str]) -> None:
        """These plugins have rejected a pod; none has if an error was in the way."""
        if life.phase in WITHOUT_NODE:
            self._count_rejected(life, -1)
        life.rejected_by = frozenset(plugins)
        if life.phase in WITHOUT_NODE:
            self._count_rejected(life, 1)

    def _count_rejected(self, life: PodLife, sign: int) -> None:
        for plugin in life.rejected_by:
            add(self.rejected, (plugin, life.pod.spec.scheduler_name), sign)

    def list_in(self, index: LifeIndex, key: Hashable, life: PodLife) -> None:
        """Have a record in an index, until its pod goes to another phase."""
        index.add(key, life)
        life.listed.append((index, key))

    def unlist(self, life: PodLife) -> None:
        """Remove a record from the indexes that have it."""
        for index, key in life.listed:
            index.discard(key, life)
        life.listed = []

    def await_victims(self, life: PodLife, victims: Iterable[str]) -> None:
        """A pod waits until the pods with these uids have left their nodes."""
        for victim in life.victims:
            self._waiting_for.discard(victim, life)
        life.victims = {*victims}
        for victim in life.victims:
            self._waiting_for.add(victim, life)

    def victim_left(self, victim: str) -> list[PodLife]:
        """A pod has left its node. Returns the records of those that wait for it."""
        waiting = [*self._waiting_for.of(victim)]
        for life in waiting:
            self._waiting_for.discard(victim, life)
            life.victims.remove(victim)
        return waiting

    # --- bindings ---------------------------------------------------------------------------------------

    def hold(self, key: str, reason: str) -> None:
        """A pod with reserved room waits. It may have waited before."""
        if life := self._by_key.get(key):
            life.reason = reason
            if life.phase != Phase.HELD:
                self.move(life, Phase.HELD)

    def bound(self, key: str, now: float) -> None:
        """A pod was bound at this time. With infinity, it is never looked up.

        Nothing follows if it was seen on its node before the answer came.
        """
        if (life := self._by_key.get(key)) and life.phase == Phase.BINDING:
            is_gone, look_up_at = life.is_gone, now + CONFIRM_SECONDS
            if is_gone and now < inf:  # deleted, or on its node: a list or the next look-up shows that
                look_up_at = min(look_up_at, life.look_up_at)
            if life.since <= self.listed_at:  # it may have been bound and deleted before that list
                look_up_at = min(look_up_at, now + ANSWER_SECONDS)
            self.move(life, Phase.BOUND, look_up_at)
            life.is_gone = is_gone

    def doubt(self, key: str, now: float) -> None:
        """A pod may have been bound at this time."""
        if life := self._by_key.get(key):
            self.move(life, Phase.DOUBTFUL, now + CONFIRM_SECONDS)

    def find(self, pod: Pod, decision: Any, now: float) -> None:
        """A pod was looked up, and is on a node. It counts as bound until a poll shows it there.

        It is looked up again if no poll does: it may be deleted before.
        """
        life = self.of(pod)
        if life.phase == Phase.OUT:
            self.move(life, Phase.BOUND, now + CONFIRM_SECONDS)
            life.decision, life.found = decision, True

    def overdue(self, now: float) -> Iterator[PodLife]:
        """The pods to look up now. Each is returned once, until it is to be looked up again."""
        for life in self.in_phase(Phase.BINDING, Phase.BOUND, Phase.DOUBTFUL):
            if now >= life.look_up_at:
                life.look_up_at = inf
                yield life

    # --- pods that leave --------------------------------------------------------------------------------

    @property
    def leaving(self) -> Collection[str]:
        """The keys of the pods that are being preempted, and aren't seen to be deleted yet."""
        return self._leaving.keys()

    def are_leaving(self) -> list[PodLife]:
        """The records of the pods that are being preempted, and aren't seen to be deleted yet."""
        return [*self._leaving.values()]

    def preempt(self, pods: Iterable[Pod]) -> None:
        """These pods leave for a more important one."""
        for pod in pods:
            life = self._leaving[pod_key(pod)] = self.of(pod)
            life.leaving = True
            if life.phase == Phase.HELD:
                self.renew(life)  # so that it gives its room back at once

    def spare(self, pods: Iterable[Pod]) -> None:
        """These pods aren't leaving any more: they stay, or they have left."""
        for pod in pods:
            if life := self._leaving.pop(pod_key(pod), None):
                life.leaving = False
                self.tidy(life)


def pod_key(pod: Pod) -> str:
    """A pod's key: its uid, or its name if it has no uid."""
    return pod.metadata.uid or str(pod)
