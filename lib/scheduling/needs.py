"""What must be looked up, besides nodes and pods, before some pods can be scheduled."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence

from lib.kube.objects import Pod
from lib.kube.resources import ALL, GROUP_SIZES, Need
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import Profile
from lib.scheduling.pod_groups import group_of

Needs = Mapping[Need, Mapping[Hashable, Sequence[Pod]]]
"""What some pods need: by the need, then by the key of what is looked up (see `Listers`), these pods."""


def needs_of(pods: Sequence[Pod], cache: Cache, profiles: Iterable[Profile]) -> Needs:
    """What these pods need, and no more. profiles: of all schedulers that they name."""
    by_name = {profile.scheduler_name: profile for profile in profiles}
    needs: dict[Need, dict[Hashable, list[Pod]]] = defaultdict(lambda: defaultdict(list))
    for pod in pods:
        profile = by_name[pod.spec.scheduler_name]
        for need in profile.plain_needs:
            if need.of(pod):
                needs[need][ALL].append(pod)
        for plugin in profile.needing:
            for need, key in plugin.needed_for(pod, cache, plugin.name in profile.weights):
                needs[need][key].append(pod)
        if (group := group_of(pod)) and group.api:
            needs[GROUP_SIZES][group].append(pod)
    return needs
