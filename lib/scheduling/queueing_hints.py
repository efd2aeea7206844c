"""Which changes could help a pod that was rejected: the plugins that rejected it say so.

Counterpart in kube-scheduler: isPodWorthRequeuing in pkg/scheduler/backend/queue/scheduling_queue.go
"""

import logging
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Set

from lib.kube.changes import AnyChange, AnyObject, Change, Kind
from lib.kube.objects import Pod
from lib.kube.storage import PersistentVolumeClaim
from lib.scheduling.framework.interface import (
    ClaimHintPlugin,
    EnqueueExtensions,
    HintSignPlugin,
    Profile,
    QueueingHintPlugin,
    SignPlugin,
    implements,
)
from lib.scheduling.framework.runtime import raise_if_interrupted
from lib.scheduling.hints import changes_anything, event_of, placed_pod
from lib.scheduling.looked_up import BUDGETS_UNSEEN
from lib.scheduling.pod_groups import HOLDING, REJECTING, group_of
from lib.scheduling.pod_life import LifeIndex, PodLife, PodLives
from lib.scheduling.pod_limits import TOO_COMPLEX
from lib.scheduling.volumes.claims import claim_names

log = logging.getLogger(__name__)


QUEUE, QUEUE_SKIP, ERROR = "Queue", "QueueSkip", "Error"
"""What came of asking a hint, in kube-scheduler's metric."""

RESOURCE_CLAIM = "ResourceClaim"
"""The class, which is imported only when a pod needs devices."""

PluginOfProfile = tuple[str, str]
"""A scheduler name, and a plugin that rejected pods."""

Hinted = Callable[[str, str, str, float], None]
"""Called with a plugin's name, the event, what came of asking the plugin's hint, and the seconds it took."""


class QueueingHints:
    """The pods that wait for a change that could help them, and the queueing hints of all profiles.

    A hint is asked once for pods that its plugin can't tell apart (SignPlugin, HintSignPlugin), and only
    about events that could help at all (EnqueueExtensions).

    profiles: by scheduler name. hinted: called after each hint.
    """

    def __init__(
        self, profiles: Mapping[str, Profile], lives: PodLives, hinted: Hinted | None = None
    ) -> None:
        self._lives, self._hinted = lives, hinted
        self._hints = {
            name: {plugin.name: plugin for plugin in profile.with_point(QueueingHintPlugin)}
            for name, profile in profiles.items()
        }
        self._waiting: dict[PluginOfProfile, LifeIndex] = {}
        """The pods that a plugin rejected, and that wait, by signature."""
        self._events: dict[PluginOfProfile, Collection[str]] = {}
        """The events that could help; for a plugin without an entry, all events could."""
        self._signers: dict[PluginOfProfile, Callable[[Pod], Hashable]] = {}
        """Signs a pod. The signatures are equal of pods that the plugin's hint can't tell apart."""
        self._claim_hints: dict[PluginOfProfile, ClaimHintPlugin] = {}
        """The plugins that can say that a change of a claim helps its owners alone."""
        self._by_claim = LifeIndex()
        """The pods that wait, and that one of these plugins rejected, by the claims that they have."""
        for scheduler_name, hints in self._hints.items():
            for name, plugin in hints.items():
                if implements(plugin, EnqueueExtensions):
                    self._events[scheduler_name, name] = plugin.events_to_register
                if implements(plugin, ClaimHintPlugin):
                    self._claim_hints[scheduler_name, name] = plugin
                if implements(plugin, HintSignPlugin):
                    self._signers[scheduler_name, name] = plugin.sign_for_hint
                elif implements(plugin, SignPlugin):
                    self._signers[scheduler_name, name] = plugin.sign_pod

    def add(self, life: PodLife) -> None:
        """A pod waits, as long as it is in its phase, for a change that could help it."""
        self._lives.unlist(life)
        scheduler_name = life.pod.spec.scheduler_name
        for name in life.rejected_by:
            if name not in (TOO_COMPLEX, BUDGETS_UNSEEN):  # no change of another object helps these
                index = self._waiting.setdefault((scheduler_name, name), LifeIndex())
                self._lives.list_in(index, self._signature(life, name), life)
        if any((scheduler_name, name) in self._claim_hints for name in life.rejected_by):
            for key in _claims_of(life.pod):
                self._lives.list_in(self._by_claim, key, life)

    def _signature(self, life: PodLife, name: str) -> Hashable:
        """Equal for pods that get the same answer from a plugin's hint."""
        scheduler_name = life.pod.spec.scheduler_name
        if name not in self._hints[scheduler_name]:
            return life.group
        try:
            sign = self._signers.get((scheduler_name, name))
            signature = sign(life.pod) if sign else life.key
            hash(signature)
            return signature
        except BaseException as error:
            raise_if_interrupted(error)
            log.debug("plugin %s failed to sign %s", name, life.pod, exc_info=error)
            return life.key

    def helped(self, change: AnyChange) -> list[PodLife]:
        """The records of the pods that a change could help. Without a hint, every change could.

        A hint that fails counts as one that says yes. A pod that left a node isn't helped by that if it is
        nominated to another node. Nor is a pod helped by a victim that leaves, while its other victims stay.
        """
        helped: dict[str, PodLife] = {}
        for rejecting, index in self._waiting.items():
            for alike in self._asked(change, rejecting, index):
                if alike and self._says_yes(change, next(iter(alike)).pod, rejecting[1]):
                    helped.update((life.key, life) for life in alike)
        placed = placed_pod(change)
        return [life for life in helped.values() if not (placed and _is_in_vain(placed, life))]

    def _asked(
        self, change: AnyChange, rejecting: PluginOfProfile, index: LifeIndex
    ) -> Iterable[Collection[PodLife]]:
        """The pods about which a plugin is asked, together if they are alike. index: all that it rejected."""
        if rejecting[1] in (REJECTING, HOLDING):  # does the change add a pod to its group?
            placed = placed_pod(change)
            return [index.of(group_of(placed))] if placed else []
        events, claim_hint = self._events.get(rejecting), self._claim_hints.get(rejecting)
        if events is not None and event_of(change) not in events:
            return []
        if claim_hint and _helps_owners_alone(claim_hint, change):
            owners = self._owners(change.object)
            return [[life] for life in owners if any(listing is index for listing, _ in life.listed)]
        return index.all()

    def _owners(self, claim: AnyObject) -> Iterable[PodLife]:
        """The pods that wait, and that name a claim or own it."""
        names = type(claim).__name__, claim.metadata.namespace, claim.metadata.name
        keys = [names, *(owner.uid for owner in claim.metadata.owner_references)]
        return {life.key: life for key in keys for life in self._by_claim.of(key)}.values()

    def rejected_by(self, plugins: Set[str]) -> list[PodLife]:
        """The records of the pods that wait, and that one of these plugins rejected."""
        indexes = [index for (_, name), index in self._waiting.items() if name in plugins]
        return [*{life.key: life for index in indexes for alike in index.all() for life in alike}.values()]

    def helps_itself(self, life: PodLife, before: Pod) -> bool:
        """Whether a pod that was rejected has changed so that it may fit. before: as it was then."""
        change = Change(Kind.MODIFIED, life.pod, before)
        return changes_anything(change) and any(
            self._says_yes(change, life.pod, name) for name in life.rejected_by
        )

    def _says_yes(self, change: AnyChange, pod: Pod, name: str) -> bool:
        """Whether a plugin says that a change could help a pod. name: the plugin, or what stands for one."""
        if name == BUDGETS_UNSEEN:
            return False  # the pod is tried again after some seconds
        if name in (TOO_COMPLEX, REJECTING, HOLDING):
            return True
        plugin = self._hints[pod.spec.scheduler_name].get(name)
        if plugin is None:
            return True
        began = self._lives.clock()
        try:
            answer = QUEUE if plugin.queueing_hint(pod, change) else QUEUE_SKIP
        except BaseException as error:
            raise_if_interrupted(error)
            log.exception("plugin %s failed to say what could help %s", name, pod, extra={"pod": str(pod)})
            answer = ERROR
        if self._hinted:
            self._hinted(name, event_of(change), answer, self._lives.clock() - began)
        return answer != QUEUE_SKIP


def _helps_owners_alone(plugin: ClaimHintPlugin, change: AnyChange) -> bool:
    try:
        return plugin.helps_owners_alone(change)
    except BaseException as error:
        raise_if_interrupted(error)
        log.exception("plugin %s failed to say whom a change of a claim could help", plugin.name)
        return False


def _is_in_vain(placed: Pod, life: PodLife) -> bool:
    """Whether a pod isn't helped by what a pod with a node, another one or it itself, did there."""
    uid = placed.metadata.uid
    if uid == life.pod.metadata.uid and life.pod.status.nominated_node_name:
        return True
    return uid in life.victims and len(life.victims) > 1


def _claims_of(pod: Pod) -> Iterable[Hashable]:
    """The claims that a pod names, and its uid, by which it may own others."""
    namespace = pod.metadata.namespace
    yield pod.metadata.uid
    if pod.spec.volumes:
        for claim in claim_names(pod):
            yield PersistentVolumeClaim.__name__, namespace, claim.name
    for reference in pod.spec.resource_claims:
        yield RESOURCE_CLAIM, namespace, reference.resource_claim_name
    for status in pod.status.resource_claim_statuses:
        yield RESOURCE_CLAIM, namespace, status.resource_claim_name
