"""A profile as a configuration file has it; what it amounts to, `enabling` says.

Source: https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/#KubeSchedulerProfile
"""

from typing import Any

import msgspec

from lib.service.config.fields import Strict


class Plugin(Strict):
    """A plugin by name; what its scores are multiplied by, where they are."""

    name: str
    weight: int = 0


class PluginSet(Strict):
    """Which plugins are asked at an extension point, besides the default ones, and which of these aren't."""

    enabled: tuple[Plugin, ...] = ()
    disabled: tuple[Plugin, ...] = ()


_NONE: Any = msgspec.field(default_factory=PluginSet)


class Plugins(Strict):
    """What may be configured; multiPoint stands for all extension points that a plugin has."""

    pre_enqueue: PluginSet = _NONE
    queue_sort: PluginSet = _NONE
    pre_filter: PluginSet = _NONE
    filter: PluginSet = _NONE
    post_filter: PluginSet = _NONE
    pre_score: PluginSet = _NONE
    score: PluginSet = _NONE
    reserve: PluginSet = _NONE
    permit: PluginSet = _NONE
    pre_bind: PluginSet = _NONE
    bind: PluginSet = _NONE
    post_bind: PluginSet = _NONE
    multi_point: PluginSet = _NONE
    placement_generate: PluginSet = _NONE
    placement_score: PluginSet = _NONE

    def by_name(self) -> dict[str, PluginSet]:
        """The sets under the names that the file has for them."""
        return {field.encode_name: getattr(self, field.name) for field in msgspec.structs.fields(self)}


class PluginConfig(Strict):
    """What a plugin is told."""

    name: str
    args: dict[str, Any] = msgspec.field(default_factory=dict)


class KubeSchedulerProfile(Strict):
    """A scheduler name, and what is different for pods that name it."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: int | None = None
    plugins: Plugins = msgspec.field(default_factory=Plugins)
    plugin_config: tuple[PluginConfig, ...] = ()
