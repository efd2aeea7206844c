"""Which changes could help a pod that was rejected: the plugins that rejected it say so.

Counterpart in kube-scheduler: isPodWorthRequeuing in pkg/scheduler/backend/queue/scheduling_queue.go
"""

import logging
from collections.abc import Callable, Mapping

from lib.kube.changes import AnyChange, Change, Kind
from lib.kube.objects import Pod
from lib.scheduling.framework.interface import Profile, QueueingHintPlugin
from lib.scheduling.framework.runtime import Clock, raise_if_interrupted
from lib.scheduling.groups.pod_groups import REJECTING, group_of
from lib.scheduling.hints import changed_itself, changes_anything, event_of, placed_pod
from lib.scheduling.looked_up import BUDGETS_UNSEEN
from lib.scheduling.pod_life import PodLife
from lib.scheduling.pod_limits import TOO_COMPLEX

log = logging.getLogger(__name__)


QUEUE, QUEUE_SKIP, ERROR = "Queue", "QueueSkip", "Error"
"""What came of asking a hint, in kube-scheduler's metric."""

Hinted = Callable[[str, str, str, float], None]
"""Called with a plugin's name, the event, what came of asking the plugin's hint, and the seconds it took."""


class QueueingHints:
    """The queueing hints of all profiles. profiles: by scheduler name. hinted: called after each hint."""

    def __init__(
        self, profiles: Mapping[str, Profile], clock: Clock = lambda: 0.0, hinted: Hinted | None = None
    ) -> None:
        self._clock, self._hinted = clock, hinted
        self._hints = {
            name: {plugin.name: plugin for plugin in profile.with_point(QueueingHintPlugin)}
            for name, profile in profiles.items()
        }

    def may_help(self, change: AnyChange, queued: PodLife) -> bool:
        """Whether a change could help a pod that was rejected. Without a hint, every change could.

        A hint that fails counts as one that says yes. No change helps a pod that has itself left a node only
        because it is nominated to another, or one that still waits for other victims to leave.
        """
        pod, left = queued.pod, placed_pod(change)
        if left and left.metadata.uid == pod.metadata.uid and pod.status.nominated_node_name:
            return False
        if left and left.metadata.uid in queued.victims and len(queued.victims) > 1:
            return False
        return any(self._says_yes(change, queued, name) for name in queued.rejected_by)

    def helps_itself(self, queued: PodLife, before: Pod) -> bool:
        """Whether a pod that was rejected has changed so that it may fit. before: as it was then."""
        change = Change(Kind.MODIFIED, queued.pod, before)
        return changes_anything(change) and self.may_help(change, queued)

    def _says_yes(self, change: AnyChange, queued: PodLife, name: str) -> bool:
        pod = queued.pod
        if name == TOO_COMPLEX:
            return changed_itself(pod, change)
        if name == BUDGETS_UNSEEN:
            return False  # it is tried again after some seconds
        if name == REJECTING:  # does the change add a pod to its group?
            other = placed_pod(change)
            return changed_itself(pod, change) or (other is not None and group_of(other) == group_of(pod))
        plugin = self._hints[pod.spec.scheduler_name].get(name)
        if plugin is None:
            return True
        began = self._clock()
        try:
            yes = bool(plugin.queueing_hint(pod, change))
            said = QUEUE if yes else QUEUE_SKIP
        except BaseException as error:
            raise_if_interrupted(error)
            log.exception("plugin %s failed to say what could help %s", name, pod, extra={"pod": str(pod)})
            yes, said = True, ERROR
        if self._hinted:
            self._hinted(name, event_of(change), said, self._clock() - began)
        return yes
