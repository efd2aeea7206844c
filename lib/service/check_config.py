"""--check-config: shows for each profile which plugins run at each extension point."""

import shutil
import textwrap
from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields, is_dataclass

from lib.kube.election import LeaderElection
from lib.scheduling.framework.interface import EXTENSION_POINTS, Profile
from lib.scheduling.pod_life import BackoffSettings
from lib.service.config.extenders import NO_ADDRESS
from lib.service.config.file import KubeSchedulerConfiguration, default_config
from lib.service.config.plugin_arguments import ARGUMENTS
from lib.service.config.profile_builder import names_at

NONE = "(none)"


def show(
    profiles: Sequence[Profile],
    config: KubeSchedulerConfiguration | None,
    times: BackoffSettings,
    election: LeaderElection | None,
    plugins: Collection[str],
) -> None:
    """Print it, for people. plugins: the names of all that are there."""
    config = config or default_config()
    width = shutil.get_terminal_size().columns
    lines = [line for profile in profiles for line in _of(profile, width)]
    extenders = ", ".join(extender.url_prefix or "(no urlPrefix)" for extender in config.extenders) or NONE
    lines.append(f"extenders, for the pods of all profiles: {extenders}")
    lines += [
        f"extenders[{i}]: no call of it can succeed: {NO_ADDRESS}"
        for i, extender in enumerate(config.extenders)
        if not extender.url
    ]
    lines.append(
        f"backoff between two attempts for a pod: {times.initial_backoff:g} to {times.max_backoff:g} s"
    )
    if election:
        lines.append(f"leader election: lease {election}, lease duration {election.lease_duration:g} s")
    else:
        lines.append("leader election: off")
    if ignored := [*config.ignored(plugins)]:
        lines += ["ignored, as it changes no decision:", *(_indented(line, width) for line in ignored)]
    print(*lines, sep="\n")


def _of(profile: Profile, width: int) -> Iterator[str]:
    """The lines about one profile."""
    enough = profile.percentage_of_nodes_to_score
    yield f"{profile.scheduler_name}: for pods with this spec.schedulerName"
    for point, kinds in EXTENSION_POINTS.items():
        purpose = (kinds[0].__doc__ or "").partition(".")[0]
        yield f"  {point}: {purpose[0].lower()}{purpose[1:]}"
        yield _indented(", ".join(_names(profile, point)) or NONE, width)
    if told := [*_told(profile)]:
        yield "  plugin arguments (those that differ from the defaults):"
        yield from (_indented(line, width) for line in told)
    yield "  percentageOfNodesToScore:"
    yield _indented(f"{enough} %" if enough else "adaptive (above 100 nodes: 50 %, falling to 5 %)", width)
    yield ""


def _indented(text: str, width: int) -> str:
    return textwrap.fill(text, width, initial_indent=" " * 6, subsequent_indent=" " * 6)


def _told(profile: Profile) -> Iterator[str]:
    """The arguments that differ from the defaults, by plugin."""
    for plugin in profile.plugins:
        if plugin.name in ARGUMENTS and is_dataclass(plugin):
            own, usual = (
                {
                    field.name: getattr(one, field.name)
                    for field in fields(one)
                    if field.repr and field.name != "extenders"
                }
                for one in (plugin, type(plugin)())
            )
            other = [f"{name}={value!r}" for name, value in own.items() if value != usual[name]]
            if other:
                yield f"{plugin.name}: {', '.join(other)}"


def _names(profile: Profile, point: str) -> list[str]:
    """The names of the plugins at an extension point; scores with weights."""
    names = names_at(profile, point)
    return [f"{name}*{profile.weights[name]}" for name in names] if point == "score" else names
