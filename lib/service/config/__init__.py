"""The configuration file: a KubeSchedulerConfiguration, as kube-scheduler reads it."""

from lib.service.config.fields import ConfigError
from lib.service.config.file import (
    KubeSchedulerConfiguration,
    LeaderElectionConfiguration,
    default_config,
    load_config,
    read_config,
)

__all__ = [
    "ConfigError",
    "KubeSchedulerConfiguration",
    "LeaderElectionConfiguration",
    "default_config",
    "load_config",
    "read_config",
]
