"""The profiles of a configuration file, and what is wrong with them as a whole."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lib.kube.source import MAIN_SCHEDULER
from lib.scheduling.framework.interface import Profile
from lib.scheduling.handle import Handle
from lib.scheduling.plugins.default_preemption import DefaultPreemption
from lib.service.config.file import KubeSchedulerConfiguration
from lib.service.config.profile_builder import ProfileBuilder
from lib.service.config.profiles import KubeSchedulerProfile
from lib.service.config.strict import no_label_key, not_between

if TYPE_CHECKING:
    from lib.service.policies import Policy


def configured_profiles(
    config: KubeSchedulerConfiguration,
    handle: Handle,
    scheduler_name: str | None,
    policies: "Sequence[Policy]",
    *,
    preemption: bool,
) -> tuple[list[Profile], list[str]]:
    """The profiles of a configuration, and what is wrong with them.

    scheduler_name: of the profile without a name, if the command line says it. policies: they have plugins to
    add to the default ones.
    """
    specs = config.profiles
    builders = [ProfileBuilder(spec, f"profiles[{i}]", policies, handle) for i, spec in enumerate(specs)]
    without = () if preemption else (DefaultPreemption.name,)
    own_names = [spec.scheduler_name for spec in specs]
    names = list(own_names)
    if names.count(None) == 1 and (scheduler_name or len(names) == 1):
        names[names.index(None)] = scheduler_name or MAIN_SCHEDULER
    percentages = [spec.percentage_of_nodes_to_score for spec in specs]
    common = config.percentage_of_nodes_to_score
    profiles = [
        builder.profile(name or "", common if own is None else own, without)
        for builder, name, own in zip(builders, names, percentages, strict=True)
    ]
    problems = [problem for builder in builders for problem in builder.problems]
    problems += [*_wrong_names(names), *_wrong_percentages(percentages), *_wrong_queue_sorts(specs)]
    if scheduler_name and None not in own_names:
        problems.append("profiles: they have names; leave out --scheduler-name and POLLER_SCHEDULER_NAME")
    return profiles, problems


def _wrong_names(names: Sequence[str | None]) -> Iterator[str]:
    for i, name in enumerate(names):
        place = f"profiles[{i}].schedulerName"
        if name is None:
            yield f"{place}: is missing; only one of several profiles may take its name from --scheduler-name"
        elif wrong := [*no_label_key(place, name)]:  # an event of a scheduler can have no other name
            yield from wrong
        elif name in names[:i]:
            yield f"{place}: {name} is the name of profiles[{names.index(name)}], too"


def _wrong_percentages(percentages: Sequence[int | None]) -> Iterator[str]:
    for i, percentage in enumerate(percentages):
        yield from not_between(f"profiles[{i}].percentageOfNodesToScore", percentage or 0, 0, 100)


def _wrong_queue_sorts(specs: Sequence[KubeSchedulerProfile]) -> Iterator[str]:
    """Profiles with another queueSort plugin than the first: all profiles share one queue."""
    queue_sorts = [spec.plugins.queue_sort for spec in specs]
    for i, queue_sort in enumerate(queue_sorts):
        if queue_sort != queue_sorts[0]:
            yield f"profiles[{i}].plugins.queueSort: must be as in profiles[0], as all share one queue"
