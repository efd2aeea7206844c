"""The types of a profile in a configuration file; profile_builder.py builds a profile of them.

Source: https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/#KubeSchedulerProfile
"""

from collections.abc import Collection, Iterator
from difflib import get_close_matches
from typing import Any

import msgspec

from lib.service.config.strict import Strict

ALL = "*"
"""In the place of a plugin's name: all of them are disabled."""


class PluginEntry(Strict):
    """A plugin by name, with the weight of its scores, if it has any."""

    name: str
    weight: int = 0


class PluginSet(Strict):
    """Which plugins run at an extension point besides the default ones, and which of these don't."""

    enabled: tuple[PluginEntry, ...] = ()
    disabled: tuple[PluginEntry, ...] = ()


_NONE: Any = msgspec.field(default_factory=PluginSet)


class Plugins(Strict):
    """A set for each extension point; multiPoint is for all that a plugin has."""

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
        """The sets, by the file's names."""
        return {field.encode_name: getattr(self, field.name) for field in msgspec.structs.fields(self)}


class PluginConfig(Strict):
    """A plugin's arguments."""

    name: str
    args: Any = msgspec.field(default_factory=dict)


class KubeSchedulerProfile(Strict):
    """A scheduler name, and the settings for pods that name it."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: int | None = None
    plugins: Plugins = msgspec.field(default_factory=Plugins)
    plugin_config: tuple[PluginConfig, ...] = ()

    def ignored(self, path: str, known: Collection[str]) -> Iterator[str]:
        """What is said of plugins that aren't there. kube-scheduler, too, ignores that."""
        for point, plugins in self.plugins.by_name().items():
            for i, plugin in enumerate(plugins.disabled):
                if plugin.name not in (ALL, *known):
                    yield f"{path}.plugins.{point}.disabled[{i}]: {no_plugin(plugin.name, known)}"
        for i, config in enumerate(self.plugin_config):
            if config.name not in known:
                yield f"{path}.pluginConfig[{i}]: {no_plugin(config.name, known)}"


def no_plugin(name: str, known: Collection[str]) -> str:
    """That a plugin isn't there, and which may be meant."""
    close = get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]}?" if close else ", nor a --plugin of that name"
    return f"there is no plugin {name!r}{hint}"
