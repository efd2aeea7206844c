"""The profiles to serve: those of the configuration file, or the built-in ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from lib.kube.source import MAIN_SCHEDULER
from lib.lazily import Lazy
from lib.scheduling.framework.arguments import no_label_key, not_between
from lib.scheduling.framework.interface import Profile
from lib.scheduling.handle import Handle
from lib.scheduling.plugins.default_preemption import DefaultPreemption
from lib.scheduling.plugins.registry import LACKING, PLUGINS, default_profile, random_profile
from lib.service.config.fields import ConfigError, without_repetitions
from lib.service.config.file import KubeSchedulerConfiguration
from lib.service.config.profiles import KubeSchedulerProfile

if TYPE_CHECKING:
    from lib.service.config import profile_builder
    from lib.service.policies import Policy
else:
    profile_builder = Lazy("lib.service.config.profile_builder")

DEFAULT_NAME, RANDOM_NAME = "my-scheduler", "random-scheduler"


class PolicyName(StrEnum):
    """The built-in policies."""

    DEFAULT = "default"
    RANDOM = "random"


@dataclass(frozen=True)
class Asked:
    """The options about the profiles to serve."""

    scheduler_name: str | None = None
    """The name of the only profile, in place of the two built-in ones."""
    policy: PolicyName = PolicyName.DEFAULT
    """The policy of that profile."""
    policies: "tuple[Policy, ...]" = ()
    """They have plugins to add to the default ones."""
    preemption: bool = True
    """Whether pods may preempt others."""

    @property
    def known_plugins(self) -> Sequence[str]:
        """The names of all plugins that a configuration may name; kube-scheduler's other ones, too."""
        own = [plugin.name for policy in self.policies for plugin in policy.plugins]
        return (*PLUGINS, *LACKING, *own)


def profiles_for(
    config: KubeSchedulerConfiguration,
    asked: Asked,
    handle: Handle,
    problems: Sequence[str] = (),
    file: Path | None = None,
) -> list[Profile]:
    """The profiles to serve: those of the configuration; else the two built-in ones, or one of them.

    problems: what is known to be wrong with the file. ConfigError with these and all others.
    """
    profiles, wrong = _configured(config, asked, handle) if config.profiles else (_own(asked, handle), [])
    if problems := without_repetitions([*problems, *wrong]):
        raise ConfigError(problems, file)
    if config.profiles:
        return profiles
    percentage = config.percentage_of_nodes_to_score
    return [replace(profile, percentage_of_nodes_to_score=percentage) for profile in profiles]


def _own(asked: Asked, handle: Handle) -> list[Profile]:
    preemption = asked.preemption
    if asked.policy == PolicyName.RANDOM and asked.scheduler_name:
        return [random_profile(asked.scheduler_name, handle, preemption=preemption)]
    more = [plugin for policy in asked.policies for plugin in policy.plugins]
    weights = {name: weight for policy in asked.policies for name, weight in policy.weights.items()}
    name = asked.scheduler_name or DEFAULT_NAME
    profile = default_profile(name, *more, weights=weights, preemption=preemption, handle=handle)
    if asked.scheduler_name:
        return [profile]
    return [profile, random_profile(RANDOM_NAME, handle, preemption=preemption)]


def _configured(
    config: KubeSchedulerConfiguration, asked: Asked, handle: Handle
) -> tuple[list[Profile], list[str]]:
    """The profiles of a configuration, and what is wrong with them."""
    specs = config.profiles
    builders = [
        profile_builder.ProfileBuilder(spec, f"profiles[{i}]", asked.policies, handle)
        for i, spec in enumerate(specs)
    ]
    without = () if asked.preemption else (DefaultPreemption.name,)
    own_names = [spec.scheduler_name for spec in specs]
    names = list(own_names)
    if names.count(None) == 1 and (asked.scheduler_name or len(names) == 1):
        names[names.index(None)] = asked.scheduler_name or MAIN_SCHEDULER
    percentages = [spec.percentage_of_nodes_to_score for spec in specs]
    common = config.percentage_of_nodes_to_score
    profiles = [
        builder.profile(name or "", common if own is None else own, without)
        for builder, name, own in zip(builders, names, percentages, strict=True)
    ]
    problems = [problem for builder in builders for problem in builder.problems]
    problems += [*_wrong_names(names), *_wrong_percentages(percentages), *_wrong_queue_sorts(specs)]
    if asked.scheduler_name and None not in own_names:
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
