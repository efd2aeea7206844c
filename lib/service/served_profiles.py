"""The profiles to serve: those of the configuration file, or the built-in ones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from lib.lazily import Lazy
from lib.scheduling.framework.interface import Profile
from lib.scheduling.handle import Handle
from lib.scheduling.plugins.registry import LACKING, PLUGINS, default_profile, random_profile
from lib.service.config import ConfigError

if TYPE_CHECKING:
    from lib.service.config import configured_profiles, fields
    from lib.service.config.file import KubeSchedulerConfiguration
    from lib.service.policies import Policy
else:
    configured_profiles = Lazy("lib.service.config.configured_profiles")
    fields = Lazy("lib.service.config.fields")

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
    config: "KubeSchedulerConfiguration | None",
    asked: Asked,
    handle: Handle,
    problems: Sequence[str] = (),
    file: Path | None = None,
) -> list[Profile]:
    """The profiles to serve: those of the configuration; else the two built-in ones, or one of them.

    config: None without a file. problems: what is known to be wrong with the file. ConfigError with these and
    all others.
    """
    if not config:
        return _own(asked, handle)
    profiles, wrong = (
        configured_profiles.configured_profiles(
            config, handle, asked.scheduler_name, asked.policies, preemption=asked.preemption
        )
        if config.profiles
        else (_own(asked, handle), [])
    )
    if problems := fields.without_repetitions([*problems, *wrong]):
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
