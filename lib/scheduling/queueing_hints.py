"""Which changes could help a pod that was rejected: the plugins that rejected it say so.

Counterpart in kube-scheduler: isPodWorthRequeuing in pkg/scheduler/backend/queue/scheduling_queue.go
"""

import logging
from collections.abc import Mapping

from lib.kube.changes import AnyChange, Change, Kind
from lib.kube.objects import Pod
from lib.scheduling.framework.interface import Profile, QueueingHintPlugin
from lib.scheduling.framework.runtime import raise_if_interrupted
from lib.scheduling.groups.pod_groups import REJECTING, group_of
from lib.scheduling.hints import changed_itself, placed_pod
from lib.scheduling.pod_life import PodLife
from lib.scheduling.pod_limits import TOO_COMPLEX

log = logging.getLogger(__name__)


class QueueingHints:
    """The queueing hints of all profiles. profiles: by scheduler name."""

    def __init__(self, profiles: Mapping[str, Profile]) -> None:
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
        if _asks_for(before) == _asks_for(queued.pod):
            return False
        return self.may_help(Change(Kind.MODIFIED, queued.pod, before), queued)

    def _says_yes(self, change: AnyChange, queued: PodLife, name: str) -> bool:
        pod = queued.pod
        if name == TOO_COMPLEX:
            return changed_itself(pod, change)
        if name == REJECTING:  # does the change add a pod to its group?
            other = placed_pod(change)
            return changed_itself(pod, change) or (other is not None and group_of(other) == group_of(pod))
        plugin = self._hints[pod.spec.scheduler_name].get(name)
        try:
            return plugin is None or bool(plugin.queueing_hint(pod, change))
        except BaseException as error:
            raise_if_interrupted(error)
            log.exception("plugin %s failed to say what could help %s", name, pod, extra={"pod": str(pod)})
            return True


def _asks_for(pod: Pod) -> object:
    """The fields that scheduling depends on. A change of other fields is no reason to try the pod again."""
    return pod.spec, pod.metadata.labels, pod.metadata.annotations, pod.metadata.deletion_timestamp
