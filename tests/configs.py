"""Reads a configuration file that must be right as far as it can be read without the plugins."""

from pathlib import Path

from lib.service.config import ConfigError
from lib.service.config.file import KubeSchedulerConfiguration, read_config


def load_config(file: Path) -> KubeSchedulerConfiguration:
    """The configuration. ConfigError with all that is wrong."""
    config, problems = read_config(file)
    if problems:
        raise ConfigError(problems, file)
    return config
