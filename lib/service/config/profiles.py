"""The profiles of a configuration file: which plugins are asked at each extension point, and in which order.

Source: mergePlugins in pkg/scheduler/apis/config/v1/default_plugins.go, NewFramework, expandMultiPointPlugins
and getValidScoreWeights in pkg/scheduler/framework/runtime/framework.go; which plugins there are,
pkg/scheduler/framework/plugins/names/names.go
"""

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

import msgspec

from lib.scheduling import framework
from lib.scheduling.framework import EXTENSION_POINTS, Profile
from lib.scheduling.plugins.registry import DEFAULT_PLUGINS, PLUGINS, Handle
from lib.service.config.arguments import ARGS, Args
from lib.service.config.fields import ConfigError, Strict, read, wrong_head

LACKING = {
    "DynamicResources",
    "GangScheduling",
    "NodeDeclaredFeatures",
    "NodeVolumeLimits",
    "PodGroupPodsCount",
    "TopologyPlacementGenerator",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
}
"""kube-scheduler's plugins that poller hasn't."""

ALL = "*"

LARGEST_WEIGHT = 2**31 - 1

PREPARED_BY = {"filter": "preFilter", "score": "preScore"}
"""What a plugin finds out at the one point it needs at the other: who is asked here is asked there."""


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


class Policies(NamedTuple):
    """What people have written themselves, by name: it joins the default plugins, with these weights."""

    plugins: Mapping[str, Sequence[framework.Plugin]]
    weights: Mapping[str, int]


class Enabled(NamedTuple):
    """A plugin that is to be asked. place: where the file names it; nothing if it doesn't."""

    name: str
    weight: int
    place: str = ""


class Reading:
    """Makes a profile of what the file says of it; `problems` gathers what is wrong.

    path: where it stands, as `profiles[0]`.
    """

    def __init__(self, spec: KubeSchedulerProfile, path: str, policies: Policies, handle: Handle) -> None:
        self.problems: list[str] = []
        self._path, self._policies, self._handle = path, policies, handle
        self._arguments = self._read_arguments(spec.plugin_config)
        self._made: dict[str, Mapping[str, Sequence[framework.Plugin]]] = {}
        self._sets = spec.plugins.by_name()
        for point in ("placementGenerate", "placementScore"):
            if self._sets[point].enabled:
                self._wrong(f"{path}.plugins.{point}", "poller places no groups by topology; leave it out")
        for point, each in self._sets.items():
            self._check_disabled(point, each)

    def profile(self, scheduler_name: str, percentage: int = 0, without: Collection[str] = ()) -> Profile:
        """The profile, without some plugins; it is good for nothing if there are problems."""
        through_all = [each for each in self._multi_point() if each.name not in without]
        points: dict[str, tuple[framework.Plugin, ...]] = {}
        names: dict[str, list[str]] = {}
        for point in EXTENSION_POINTS:
            own = [each for each in self._enabled_at(point) if each.name not in without]
            names[point] = self._expand(point, own, through_all)
            if point == "score":
                weights = {each.name: each.weight or 1 for each in reversed([*own, *through_all])}
        if len(names["queueSort"]) != 1:
            found = " and ".join(names["queueSort"]) or "none"
            self._wrong(f"{self._path}.plugins.queueSort", f"must be exactly one plugin, not {found}")
        if not names["bind"]:
            self._wrong(f"{self._path}.plugins.bind", "must be at least one plugin, such as DefaultBinder")
        for point, before in PREPARED_BY.items():
            names[before] += [
                name for name in names[point] if self._has(name, before) and name not in names[before]
            ]
        points = {
            point: tuple(each for name in found for each in self._make(name)[point])
            for point, found in names.items()
        }
        used = {id(plugin): plugin for found in points.values() for plugin in found}
        asked = {*names["score"], *names["preScore"]}
        return Profile(
            scheduler_name,
            tuple(used.values()),
            {name: weights.get(name, 1) for name in asked},
            percentage,
            points,
        )

    # --- which plugins are asked ------------------------------------------------------------------------

    def _enabled_at(self, point: str) -> list[Enabled]:
        """What the file enables at a point, of what there is; each once."""
        found: dict[str, Enabled] = {}
        for i, each in enumerate(self._sets[point].enabled):
            place = f"{self._path}.plugins.{point}.enabled[{i}]"
            if not 0 <= each.weight <= LARGEST_WEIGHT:
                self._wrong(f"{place}.weight", f"{each.weight} is not between 0 and {LARGEST_WEIGHT}")
            if not self._is_there(each.name, f"{place}.name"):
                continue
            if point in EXTENSION_POINTS and not self._has(each.name, point):
                has = ", ".join(name for name in EXTENSION_POINTS if self._has(each.name, name))
                self._wrong(f"{place}.name", f"{each.name} has no {point}; it has {has}")
            elif each.name in found:
                self._wrong(f"{place}.name", f"{each.name} is enabled twice")
            else:
                found[each.name] = Enabled(each.name, each.weight, place)
        return [*found.values()]

    def _multi_point(self) -> list[Enabled]:
        """What is asked wherever it can: the default plugins that aren't disabled, then what else is enabled.

        One that is named again keeps its place, but has the weight that is given there.
        """
        named = {each.name: each for each in self._enabled_at("multiPoint")}
        disabled = {each.name for each in self._sets["multiPoint"].disabled}
        *most, last = DEFAULT_PLUGINS.items()
        default = {} if ALL in disabled else {**dict(most), **self._policies.weights, **dict([last])}
        kept = {name: Enabled(name, weight) for name, weight in default.items() if name not in disabled}
        return [*{**kept, **named}.values()]

    def _expand(self, point: str, own: Sequence[Enabled], through_all: Sequence[Enabled]) -> list[str]:
        """Who is asked at a point, in order.

        First those that are named here and that multiPoint would have asked, too; then the others of
        multiPoint that have the point and aren't disabled here; then the others that are named here.
        """
        disabled = {each.name for each in self._sets[point].disabled}
        names = [each.name for each in own]
        if ALL in disabled:
            return names
        having = [
            each.name for each in through_all if self._has(each.name, point) and each.name not in disabled
        ]
        return [
            *(name for name in names if name in having),
            *(name for name in having if name not in names),
            *(name for name in names if name not in having),
        ]

    def _check_disabled(self, point: str, found: PluginSet) -> None:
        for i, each in enumerate(found.disabled):
            if each.name != ALL and each.name not in LACKING:
                self._is_there(each.name, f"{self._path}.plugins.{point}.disabled[{i}].name")

    # --- what there is ----------------------------------------------------------------------------------

    def _is_there(self, name: str, place: str) -> bool:
        if name in PLUGINS or name in self._policies.plugins:
            return True
        if name in LACKING:
            self._wrong(place, f"poller hasn't kube-scheduler's {name}; leave it out")
        elif name == ALL:
            self._wrong(place, f"{ALL} can only be disabled")
        else:
            close = get_close_matches(name, [*PLUGINS, *self._policies.plugins], n=1)
            hint = f"; did you mean {close[0]}?" if close else ", nor a --plugin of that name"
            self._wrong(place, f"there is no plugin {name!r}{hint}")
        return False

    def _has(self, name: str, point: str) -> bool:
        return bool(self._make(name)[point])

    def _make(self, name: str) -> Mapping[str, Sequence[framework.Plugin]]:
        """A plugin by its points, made once; a policy may be several, for its functions are plugins each."""
        if name not in self._made:
            plugins = self._policies.plugins.get(name)
            plugins = plugins or [PLUGINS[name](self._handle, self._arguments.get(name, {}))]
            self._made[name] = {
                point: [each for each in plugins if any(isinstance(each, kind) for kind in kinds)]
                for point, kinds in EXTENSION_POINTS.items()
            }
        return self._made[name]

    def _read_arguments(self, configs: Sequence[PluginConfig]) -> dict[str, Mapping[str, Any]]:
        """What plugins are told, by name."""
        found: dict[str, Mapping[str, Any]] = {}
        for i, each in enumerate(configs):
            place = f"{self._path}.pluginConfig[{i}]"
            if not self._is_there(each.name, f"{place}.name"):
                continue
            if each.name in found:
                self._wrong(f"{place}.name", f"{each.name} is configured twice")
                continue
            found[each.name] = {}
            try:
                if each.name not in ARGS and each.args:
                    raise ConfigError([f"{place}.args: {each.name} takes none; leave them out"])
                if wrong := [*wrong_head(each.args, f"{each.name}Args", f"{place}.args.")]:
                    raise ConfigError(wrong)
                args = read(each.args, ARGS.get(each.name, Args), f"{place}.args")
                if wrong := [*args.problems(f"{place}.args")]:
                    raise ConfigError(wrong)
                found[each.name] = args.for_plugin()
            except ConfigError as error:
                self.problems += error.problems
        return found

    def _wrong(self, place: str, what: str) -> None:
        self.problems.append(f"{place}: {what}")
