"""Which profiles the options ask for."""

from random import Random

from lib.scheduling.extender import Extenders
from lib.scheduling.framework import Profile
from lib.scheduling.plugins.registry import default_profile, random_profile
from lib.service.options import Options, PolicyName

DEFAULT_NAME, RANDOM_NAME = "my-scheduler", "random-scheduler"


def profiles_for(options: Options, random: Random, extenders: Extenders) -> list[Profile]:
    """The profiles to serve: the two that come with poller, or one with a name of the user's choice."""
    preemption = options.preemption
    more = [plugin for policy in options.plugins for plugin in policy.plugins]
    weights = {name: weight for policy in options.plugins for name, weight in policy.weights.items()}
    if options.policy == PolicyName.RANDOM and options.scheduler_name:
        return [random_profile(options.scheduler_name, random, preemption=preemption, extenders=extenders)]
    name = options.scheduler_name or DEFAULT_NAME
    profile = default_profile(name, *more, weights=weights, preemption=preemption, extenders=extenders)
    if options.scheduler_name:
        return [profile]
    return [profile, random_profile(RANDOM_NAME, random, preemption=preemption, extenders=extenders)]
