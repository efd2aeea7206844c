"""The configuration that is used, with all defaults, in the form of a configuration file: it can be read.

kube-scheduler lists most plugins at multiPoint. Here each extension point lists those that run there.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import durationpy
import msgspec
import yaml

from lib.kube.election import LeaderElection
from lib.scheduling.framework.interface import EXTENSION_POINTS, Profile
from lib.scheduling.plugins.registry import DEFAULT_PLUGINS
from lib.scheduling.pod_life import BackoffSettings
from lib.service.config.extenders import ExtenderConfig
from lib.service.config.fields import read
from lib.service.config.file import (
    KIND,
    KubeSchedulerConfiguration,
    LeaderElectionConfiguration,
    default_config,
)
from lib.service.config.plugin_arguments import ARGUMENTS
from lib.service.config.profile_builder import names_at
from lib.service.config.profiles import ALL, KubeSchedulerProfile
from lib.service.config.strict import VERSION, Duration

WITHHELD = "withheld"


def as_used(
    config: KubeSchedulerConfiguration | None,
    profiles: Sequence[Profile],
    times: BackoffSettings,
    election: LeaderElection | None,
    *,
    secrets: bool = False,
) -> dict[str, Any]:
    """The configuration. secrets: with the users, passwords and keys of extenders."""
    config = config or default_config()
    specs = config.profiles or [KubeSchedulerProfile()] * len(profiles)
    backoff = {
        "podInitialBackoffSeconds": times.initial_backoff,
        "podMaxBackoffSeconds": times.max_backoff,
    }
    return {
        "apiVersion": VERSION,
        "kind": KIND,
        "leaderElection": _leader_election(election),
        "percentageOfNodesToScore": config.percentage_of_nodes_to_score,
        # An option can set parts of a second; a file can't.
        **{name: int(seconds) for name, seconds in backoff.items() if seconds == int(seconds)},
        "profiles": [_profile(profile, spec) for profile, spec in zip(profiles, specs, strict=True)],
        **(
            {"extenders": [_extender(extender, secrets) for extender in config.extenders]}
            if config.extenders
            else {}
        ),
    }


def write(configuration: dict[str, Any], file: Path) -> None:
    """Write the configuration as YAML, for the user alone. OSError when that fails."""
    named = {plugin["name"] for plugin in _enabled(configuration)}
    own = sorted(named.difference(DEFAULT_PLUGINS))
    with open(file, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
        if own:
            out.write(f"# kube-scheduler can't use this file: it has no plugin {' or '.join(own)}.\n")
        yaml.safe_dump(configuration, out, sort_keys=False)


def _enabled(configuration: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for profile in configuration["profiles"]:
        for plugins in profile["plugins"].values():
            yield from plugins.get("enabled", ())


def _leader_election(election: LeaderElection | None) -> dict[str, Any]:
    if not election:
        return {"leaderElect": False}
    settings: dict[str, Any] = {
        name: Duration(value) if isinstance(value, float) else value
        for name, value in asdict(election).items()
    }
    used = LeaderElectionConfiguration(leader_elect=True, resource_lock="leases", **settings)
    found: dict[str, Any] = _as_builtins(used)
    return found


def _profile(profile: Profile, spec: KubeSchedulerProfile) -> dict[str, Any]:
    plugins: dict[str, Any] = {"multiPoint": _only([])}
    for point in EXTENSION_POINTS:
        names = names_at(profile, point)
        weights = {name: {"weight": profile.weights[name]} for name in names if point == "score"}
        plugins[point] = _only([{"name": name, **weights.get(name, {})} for name in names])
    return {
        "schedulerName": profile.scheduler_name,
        "percentageOfNodesToScore": profile.percentage_of_nodes_to_score,
        "plugins": plugins,
        "pluginConfig": [*_arguments(profile, spec)],
    }


def _only(enabled: list[dict[str, Any]]) -> dict[str, Any]:
    """The set of these plugins, and no default ones."""
    return {**({"enabled": enabled} if enabled else {}), "disabled": [{"name": ALL}]}


def _arguments(profile: Profile, spec: KubeSchedulerProfile) -> Iterator[dict[str, Any]]:
    """The arguments of each plugin that has some, with defaults."""
    given = {config.name: config.args for config in spec.plugin_config}
    for name in sorted({plugin.name for plugin in profile.plugins}):
        if kind := ARGUMENTS.get(name):
            args, _ = read({**given.get(name, {}), "kind": f"{name}Args"}, kind)
            yield {"name": name, "args": _as_builtins(args)}


def _extender(extender: ExtenderConfig, secrets: bool) -> dict[str, Any]:
    found: dict[str, Any] = _as_builtins(extender)
    if not secrets:
        if "@" in extender.url_prefix:
            url = extender.url
            found["urlPrefix"] = str(url.copy_with(userinfo=WITHHELD.encode())) if url else WITHHELD
        if extender.tls_config and extender.tls_config.key_data:
            found["tlsConfig"]["keyData"] = WITHHELD
    return found


def _as_builtins(part: msgspec.Struct) -> Any:
    return _without_empty(msgspec.to_builtins(part, enc_hook=_encode))


def _encode(value: Any) -> Any:
    if isinstance(value, Duration):
        return _duration(value)
    raise NotImplementedError


def _duration(seconds: float) -> str:
    return durationpy.to_str(timedelta(seconds=seconds))


def _without_empty(found: Any) -> Any:
    """Without the fields that say nothing: the empty ones. Items of lists stay."""
    if isinstance(found, dict):
        fields = {name: _without_empty(value) for name, value in found.items()}
        return {name: value for name, value in fields.items() if value not in (None, "", [], {})}
    return [_without_empty(item) for item in found] if isinstance(found, list | tuple) else found
