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
)
from lib.scheduling.framework.runtime import raise_if_interrupted
from lib.scheduling.hints import changes_anything, event_of, placed_pod
from lib.scheduling.looked_up import BUDGETS_UNSEEN
from lib.scheduling.pod_groups import HOLDING, REJECTING, group_of
from lib.scheduling.pod_life import Index, PodLife, PodLives
from lib.scheduling.pod_limits import TOO_COMPLEX
from lib.scheduling.volumes.claims import claim_names

log = logging.getLogger(__name__)


QUEUE, QUEUE_SKIP, ERROR = "Queue", "QueueSkip", "Error"
"""What came of asking a hint, in kube-scheduler's metric."""

RESOURCE_CLAIM = "ResourceClaim"
"""The class, which is imported only when a pod needs devices."""

Waiting = tuple[str, str]
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
        self._waiting: dict[Waiting, Index] = {}
        """The pods that wait, by signature."""
        self._events: dict[Waiting, Collection[str]] = {}
        """Those that could help; without an entry, all could."""
        self._signers: dict[Waiting, Callable[[Pod], Hashable]] = {}
        """What tells apart the pods of which a hint is asked."""
        self._claim_hints: dict[Waiting, ClaimHintPlugin] = {}
        self._by_claim = Index()
        """The pods that wait, and that one of these plugins rejected, by the claims that they have."""
        for scheduler_name, hints in self._hints.items():
            for name, plugin in hints.items():
                if isinstance(plugin, EnqueueExtensions):
                    self._events[scheduler_name, name] = plugin.events_to_register
                if isinstance(plugin, ClaimHintPlugin):
                    self._claim_hints[scheduler_name, name] = plugin
                if isinstance(plugin, HintSignPlugin):
                    self._signers[scheduler_name, name] = plugin.sign_for_hint
                elif isinstance(plugin, SignPlugin):
                    self._signers[scheduler_name, name] = plugin.sign_pod

    def add(self, life: PodLife) -> None:
        """A pod waits, as long as it is in its phase, for a change that could help it."""
        self._lives.unlist(life)
        scheduler_name = life.pod.spec.scheduler_name
        for name in life.rejected_by:
            if name not in (TOO_COMPLEX, BUDGETS_UNSEEN):  # what could help these isn't a change of others
                index = self._waiting.setdefault((scheduler_name, name), Index())
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
            return sign(life.pod) if sign else life.key
        except BaseException as error:
            raise_if_interrupted(error)
            log.debug("plugin %s failed to sign %s", name, life.pod, exc_info=error)
            return life.key

    def helped(self, change: AnyChange) -> list[PodLife]:
        """The records of the pods that a change could help. Without a hint, every change could.

        A hint that fails counts as one that says yes. No change helps a pod that has itself left a node only
        because it is nominated to another, or one that still waits for other victims to leave.
        """
        found: dict[str, PodLife] = {}
        for waiting, index in self._waiting.items():
            for alike in self._asked(change, waiting, index):
                if alike and self._says_yes(change, next(iter(alike)).pod, waiting[1]):
                    found.update((life.key, life) for life in alike)
        other = placed_pod(change)
        return [life for life in found.values() if not (other and _is_in_vain(other, life))]

    def _asked(self, change: AnyChange, waiting: Waiting, index: Index) -> Iterable[Collection[PodLife]]:
        """The pods about which a plugin is asked, together if they are alike."""
        if waiting[1] in (REJECTING, HOLDING):  # does the change add a pod to its group?
            other = placed_pod(change)
            return [index.of(group_of(other))] if other else []
        events, claims = self._events.get(waiting), self._claim_hints.get(waiting)
        if events is not None and event_of(change) not in events:
            return []
        if claims and claims.helps_owners_alone(change):
            owners = self._owners(change.object)
            return [[life] for life in owners if any(its is index for its, _ in life.listed)]
        return index.all()

    def _owners(self, claim: AnyObject) -> Iterable[PodLife]:
        """The pods that wait, and that name a claim or own it."""
        names = type(claim).__name__, claim.metadata.namespace, claim.metadata.name
        keys = [names, *(each.uid for each in claim.metadata.owner_references)]
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
        if name == BUDGETS_UNSEEN:
            return False  # it is tried again after some seconds
        if name in (TOO_COMPLEX, REJECTING, HOLDING):
            return True
        plugin = self._hints[pod.spec.scheduler_name].get(name)
        if plugin is None:
            return True
        began = self._lives.clock()
        try:
            yes = bool(plugin.queueing_hint(pod, change))
            said = QUEUE if yes else QUEUE_SKIP
        except BaseException as error:
            raise_if_interrupted(error)
            log.exception("plugin %s failed to say what could help %s", name, pod, extra={"pod": str(pod)})
            yes, said = True, ERROR
        if self._hinted:
            self._hinted(name, event_of(change), said, self._lives.clock() - began)
        return yes


def _is_in_vain(left: Pod, life: PodLife) -> bool:
    """Whether a pod isn't helped by what another pod, or it itself, did on a node."""
    uid = left.metadata.uid
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
    for named in pod.spec.resource_claims:
        yield RESOURCE_CLAIM, namespace, named.resource_claim_name
    for made in pod.status.resource_claim_statuses:
        yield RESOURCE_CLAIM, namespace, made.resource_claim_name
