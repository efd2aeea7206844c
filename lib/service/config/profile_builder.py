"""Builds profiles from a configuration file: which plugins run at each extension point, and in which order.

Source: mergePlugins in pkg/scheduler/apis/config/v1/default_plugins.go, NewFramework, expandMultiPointPlugins
and getValidScoreWeights in pkg/scheduler/framework/runtime/framework.go; which plugins there are,
pkg/scheduler/framework/plugins/names/names.go
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lib.scheduling.framework.interface import EXTENSION_POINTS, Plugin, Profile, implements
from lib.scheduling.handle import Handle
from lib.scheduling.plugins.registry import DEFAULT_PLUGINS, LACKING, PLUGINS, make
from lib.service.config import ConfigError
from lib.service.config.fields import read, without_repetitions, wrong_head
from lib.service.config.plugin_arguments import ARGUMENTS
from lib.service.config.profiles import ALL, KubeSchedulerProfile, PluginConfig, no_plugin

if TYPE_CHECKING:
    from lib.service.policies import Policy

LARGEST_WEIGHT = 2**31 - 1

REMOVED = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
"""kube-scheduler refuses a file that configures one of these, whereas it ignores other names."""

UNLIKE = {
    ("preEnqueue", "DefaultPreemption"): True,
    ("preScore", "DynamicResources"): False,
    ("preScore", "ImageLocality"): False,
}
"""Whether kube-scheduler's plugin has an extension point, where poller's differs; files go by this."""

PREPARED_AT = {"filter": "preFilter", "score": "preScore"}
"""A plugin that runs at the first extension point also runs at the second, which prepares it."""

Weights = dict[str, int]
"""Names of plugins in the order in which they run, with weights; 0 if none is given."""


class ProfileBuilder:
    """Builds a profile from the file; `problems` collects what is wrong.

    path: the profile's place in the file, such as `profiles[0]`. policies: their plugins are added to the
    default ones.
    """

    def __init__(
        self, spec: KubeSchedulerProfile, path: str, policies: "Iterable[Policy]", handle: Handle
    ) -> None:
        self.problems: list[str] = []
        self._path, self._handle = path, handle
        self._policies: dict[str, list[Plugin]] = {}  # a file's functions are plugins of one name
        self._policy_weights: Weights = {}
        for policy in policies:
            self._policy_weights |= policy.weights
            for plugin in policy.plugins:
                self._policies.setdefault(plugin.name, []).append(plugin)
        self._arguments = self._read_arguments(spec.plugin_config)
        self._made: dict[str, Mapping[str, Sequence[Plugin]]] = {}
        self._sets = spec.plugins.by_name()

    def profile(self, scheduler_name: str, percentage: int = 0, without: Collection[str] = ()) -> Profile:
        """The profile, without some plugins. Don't use it if there are problems."""
        for point in ("placementGenerate", "placementScore"):
            if self._sets[point].enabled:
                self._wrong(
                    f"{self._path}.plugins.{point}", "poller doesn't place groups by topology; leave it out"
                )
        own = {point: self._enabled_at(point) for point in EXTENSION_POINTS}
        everywhere = self._multi_point()
        names = {
            point: [name for name in self._expand(point, own[point], everywhere) if name not in without]
            for point in EXTENSION_POINTS
        }
        if len(names["queueSort"]) != 1:
            found = " and ".join(names["queueSort"]) or "none"
            self._wrong(f"{self._path}.plugins.queueSort", f"must be exactly one plugin, not {found}")
        if not names["bind"]:
            self._wrong(f"{self._path}.plugins.bind", "must be at least one plugin, such as DefaultBinder")
        for point, before in PREPARED_AT.items():
            listed = names[before]
            names[before] += [
                name for name in names[point] if self._make(name)[before] and name not in listed
            ]
        points = {
            point: tuple(plugin for name in names_there for plugin in self._make(name)[point])
            for point, names_there in names.items()
        }
        plugins = {id(plugin): plugin for plugins_there in points.values() for plugin in plugins_there}
        weights = {**everywhere, **own["score"]}
        scoring = [*names["score"], *names["preScore"]]
        return Profile(
            scheduler_name,
            tuple(plugins.values()),
            {name: weights.get(name) or 1 for name in scoring},
            percentage,
            points,
        )

    # --- which plugins run ------------------------------------------------------------------------------

    def _enabled_at(self, point: str) -> Weights:
        """The existing plugins that the file enables at an extension point."""
        weights: Weights = {}
        for i, plugin in enumerate(self._sets[point].enabled):
            place, name = f"{self._path}.plugins.{point}.enabled[{i}]", plugin.name
            if not self._is_there(name, f"{place}.name"):
                continue
            counts = point in ("score", "multiPoint") and self._has(name, "score")
            if not (0 if counts else -LARGEST_WEIGHT) <= plugin.weight <= LARGEST_WEIGHT:
                self._wrong(f"{place}.weight", f"{plugin.weight} is not between 0 and {LARGEST_WEIGHT}")
            if point in EXTENSION_POINTS and not self._has(name, point):
                has = ", ".join(other for other in EXTENSION_POINTS if self._has(name, other))
                self._wrong(f"{place}.name", f"{name} has no {point}; it has {has}")
            elif name in weights:
                self._wrong(f"{place}.name", f"{name} is enabled twice")
            else:
                weights[name] = plugin.weight
        return weights

    def _disabled_at(self, point: str) -> set[str]:
        return {plugin.name for plugin in self._sets[point].disabled}

    def _multi_point(self) -> Weights:
        """The plugins of multiPoint: the default plugins that aren't disabled, then others that are enabled.

        A default plugin that is enabled again keeps its place, but gets the given weight.
        """
        disabled = self._disabled_at("multiPoint")
        *most, last = DEFAULT_PLUGINS.items()  # the last is DefaultBinder
        default = {} if ALL in disabled else {**dict(most), **self._policy_weights, **dict([last])}
        kept = {name: weight for name, weight in default.items() if name not in disabled}
        return {**kept, **self._enabled_at("multiPoint")}

    def _expand(self, point: str, own: Collection[str], everywhere: Iterable[str]) -> list[str]:
        """The plugins that run at an extension point, in order.

        First those that are enabled both here and by multiPoint; then the others of multiPoint that have this
        extension point and aren't disabled here; then the others that are enabled here.
        """
        disabled = self._disabled_at(point)
        if ALL in disabled:
            return [*own]
        through_multi_point = [name for name in everywhere if self._has(name, point) and name not in disabled]
        return [
            *(name for name in own if name in through_multi_point),
            *(name for name in through_multi_point if name not in own),
            *(name for name in own if name not in through_multi_point),
        ]

    # --- plugins ----------------------------------------------------------------------------------------

    def _is_there(self, name: str, place: str) -> bool:
        if name in PLUGINS or name in self._policies:
            return True
        if name in LACKING:
            self._wrong(place, f"poller doesn't have kube-scheduler's {name}; leave it out")
        elif name == ALL:
            self._wrong(place, f"{ALL} can only be disabled")
        else:
            self._wrong(place, no_plugin(name, (*PLUGINS, *self._policies)))
        return False

    def _has(self, name: str, point: str) -> bool:
        return UNLIKE.get((point, name), bool(self._make(name)[point]))

    def _make(self, name: str) -> Mapping[str, Sequence[Plugin]]:
        """Create the plugins of a name, once. A policy's functions are several plugins of one name."""
        if name not in self._made:
            arguments = self._arguments.get(name, {})
            plugins = self._policies.get(name) or [make(name, self._handle, arguments)]
            self._made[name] = {
                point: [plugin for plugin in plugins if any(implements(plugin, kind) for kind in kinds)]
                for point, kinds in EXTENSION_POINTS.items()
            }
        return self._made[name]

    def _read_arguments(self, configs: Sequence[PluginConfig]) -> dict[str, Mapping[str, Any]]:
        """The plugins' arguments, by name."""
        arguments: dict[str, Mapping[str, Any]] = {}
        for i, config in enumerate(configs):
            place, name = f"{self._path}.pluginConfig[{i}]", config.name
            if name in arguments:
                self._wrong(f"{place}.name", f"{name} is configured twice")
                continue
            if name in REMOVED:
                self._wrong(f"{place}.name", f"kube-scheduler's {name} is no longer there; leave it out")
            arguments[name] = {}
            try:
                arguments[name] = arguments_for(name, config.args, f"{place}.args")
            except ConfigError as error:
                self.problems += error.problems
        return arguments

    def _wrong(self, place: str, what: str) -> None:
        self.problems.append(f"{place}: {what}")


def names_at(profile: Profile, point: str) -> list[str]:
    """The names of the plugins at an extension point, as a file has them; a policy's functions share one."""
    there = dict.fromkeys(plugin.name for plugin in profile.with_point(*EXTENSION_POINTS[point]))
    names = [name for name in there if UNLIKE.get((point, name), True)]
    names += [plugin.name for plugin in profile.plugins if UNLIKE.get((point, plugin.name))]
    scores = point in ("preScore", "score")
    return [name for name in names if name in profile.weights] if scores else names


def arguments_for(plugin: str, raw: Any, path: str) -> dict[str, Any]:
    """The arguments of a plugin's constructor. ConfigError when something is wrong.

    As in kube-scheduler, a plugin that takes none ignores what it is given.
    """
    kind = ARGUMENTS.get(plugin)
    if kind is None:
        return {}
    if isinstance(raw, dict) and (wrong := [*wrong_head(raw, f"{plugin}Args", f"{path}.")]):
        raise ConfigError(wrong)
    args, wrong = read(raw, kind, path)
    if wrong := without_repetitions([*wrong, *args.problems(path)]):
        raise ConfigError(wrong)
    return args.for_plugin()
