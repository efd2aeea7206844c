"""The options: the settings from the command line and the configuration file."""

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from lib.kube.election import LeaderElection
from lib.lazily import Lazy
from lib.scheduling.framework.interface import Profile
from lib.scheduling.handle import Handle
from lib.scheduling.pod_life import BackoffSettings
from lib.service.command_line import DEFAULT_PROXY, CommandLine, ExplainName
from lib.service.config import ConfigError
from lib.service.help import CommandGroup
from lib.service.served_profiles import Asked, PolicyName, profiles_for

if TYPE_CHECKING:
    from lib.service import check_config, policies
    from lib.service.config import file as config_file, written
    from lib.service.config.file import KubeSchedulerConfiguration
    from lib.service.telemetry import explain
else:
    check_config, policies = Lazy("lib.service.check_config"), Lazy("lib.service.policies")
    written, explain = Lazy("lib.service.config.written"), Lazy("lib.service.telemetry.explain")
    config_file = Lazy("lib.service.config.file")

CALLED_AS = "POLLER_CALLED_AS"
"""The environment variable that says what poller is called in its messages, where that isn't its file."""


@dataclass(frozen=True, kw_only=True)
class Options(CommandLine):
    """The settings that are used. If the command line and the file differ, the command line wins."""

    proxy: str = DEFAULT_PROXY
    config: "KubeSchedulerConfiguration | None"
    """What the file says; None without a file."""
    profiles: Asked
    times: BackoffSettings
    leader_election: LeaderElection | None

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces whose pods are scheduled; empty for all."""
        return tuple(dict.fromkeys(self.namespace or ()))

    @property
    def explain(self) -> "explain.Explain | None":
        """The function that shows a decision."""
        if self.explain_as is None:
            return None
        return explain.as_table if self.explain_as == ExplainName.TABLE else explain.as_json


@contextmanager
def _blaming(option: str, kind: type[Exception]) -> Iterator[None]:
    """A block in which errors of this kind are those of an option's value."""
    try:
        yield
    except kind as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def _leader_election(
    config: "KubeSchedulerConfiguration | None", options: CommandLine
) -> LeaderElection | None:
    """The settings of leader election; None without it. The options take precedence over the file.

    A file with any field of `leaderElection` turns it on, unless `leaderElect` is false, as in
    kube-scheduler. --once and --dry-run need no leader.
    """
    if options.once or options.dry_run:
        return None
    names = ("lease_duration", "renew_deadline", "retry_period", "resource_name", "resource_namespace")
    values = {name: getattr(options, f"leader_elect_{name}") for name in names}
    given = {name: value for name, value in values.items() if value is not None}
    in_file = config.leader_election.settings() if config else {}
    asked_for = options.leader_elect
    if config and not asked_for:
        leader_elect = config.leader_election.leader_elect
        asked_for = bool(in_file) if leader_elect is None else leader_elect
    if not asked_for:
        if given:
            raise typer.BadParameter("--leader-elect-… options need --leader-elect")
        return None
    with _blaming("--leader-elect", ValueError):
        return LeaderElection(**{**in_file, **given})


def _times(config: "KubeSchedulerConfiguration | None", options: CommandLine) -> BackoffSettings:
    """How long pods wait before they are tried again. The options take precedence over the file."""
    first, longest = options.pod_initial_backoff, options.pod_max_backoff
    if config:
        first = first or config.pod_initial_backoff_seconds
        longest = longest or config.pod_max_backoff_seconds
    first, longest = first or BackoffSettings.initial_backoff, longest or BackoffSettings.max_backoff
    if longest < first:
        raise typer.BadParameter(
            f"{longest:g} s is less than the initial backoff of {first:g} s", param_hint="--pod-max-backoff"
        )
    return BackoffSettings(first, longest, options.pod_max_in_unschedulable_pods_duration)


def _intent(options: Options, names: Sequence[str], command: str) -> str:
    """What a loop without any options is about to do: it writes to a cluster."""
    from lib.scheduling.text import listed  # here, as few runs need it

    whose = f"poller schedules pods that name {listed(names)} in spec.schedulerName"
    return f"""{whose}, in the cluster of the kubectl proxy at {options.proxy}.
Ctrl-C ends it. {command} --help shows its options, and questions that write nothing."""


def run_with_options(
    run: Callable[[Options], int],
    add_verbs: Callable[[typer.Typer], None] = lambda _: None,
) -> NoReturn:
    """Read the command line, run, and exit with what `run` returns; with 2 and the usage when it is wrong.

    add_verbs: adds subcommands; without one of them, the loop is run.
    """
    app = typer.Typer(
        cls=CommandGroup,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"auto_envvar_prefix": "POLLER", "help_option_names": ["-h", "--help"]},
    )

    def poller(context: typer.Context, **given: Any) -> None:
        """A Kubernetes scheduler in one small loop, beside kubectl proxy.

        It polls for pods that have no node yet, picks a node for each, and writes the Binding and the Event.
        """
        if verb := context.invoked_subcommand:
            _refuse_options_before(verb, context)
            return
        options, profiles = _options(CommandLine(**given))
        if not sys.argv[1:] and sys.stderr.isatty():
            typer.echo(
                _intent(options, [profile.scheduler_name for profile in profiles], context.command_path),
                err=True,
            )
        if options.check_config:
            check_config.show(
                profiles,
                options.config,
                options.times,
                options.leader_election,
                options.profiles.known_plugins,
            )
            sys.exit(0)
        if options.write_config_to:
            _write_config(options, profiles, options.write_config_to)
            sys.exit(0)
        sys.exit(run(options))

    of_context = inspect.signature(poller).parameters["context"]
    options = inspect.signature(CommandLine).parameters.values()
    poller.__signature__ = inspect.Signature([of_context, *options])  # type: ignore[attr-defined]  # typer reads it
    app.callback(
        invoke_without_command=True,
        epilog="Each option can also come from the environment: --bind-workers from POLLER_BIND_WORKERS.",
    )(poller)
    add_verbs(app)
    app(prog_name=os.environ.get(CALLED_AS))
    raise AssertionError("typer exits")


def _options(given: CommandLine) -> tuple[Options, list[Profile]]:
    """The settings, and the profiles. BadParameter when something is wrong."""
    _check_ways_to_show(given)
    with _blaming("--config", ConfigError):
        config, problems = config_file.read_config(given.config_file) if given.config_file else (None, [])
    _check_pods_and_loop(given, config)
    loaded: tuple[policies.Policy, ...] = ()
    if given.plugin:
        with _blaming("--plugin", policies.PolicyError):
            loaded = tuple(policies.load_policies(given.plugin))
    policy, preemption = given.policy or PolicyName.DEFAULT, not given.no_preemption
    asked = Asked(given.scheduler_name, policy, loaded, preemption)
    with _blaming("--config", ConfigError):  # when poller is connected, they are made again, with extenders
        profiles = profiles_for(config, asked, Handle(), problems, given.config_file)
    raw = {field.name: getattr(given, field.name) for field in fields(given)}
    raw["start_proxy"] = _starts_proxy(given)
    options = Options(
        **raw | {"proxy": given.proxy or DEFAULT_PROXY},
        config=config,
        profiles=asked,
        times=_times(config, given),
        leader_election=_leader_election(config, given),
    )
    return options, profiles


def _starts_proxy(given: CommandLine) -> bool:
    return given.start_proxy or bool(given.context_name or given.kubeconfig)


def _check_ways_to_show(given: CommandLine) -> None:
    """BadParameter when options about the proxy, --listen, --ui or --top can't be combined."""
    if given.pod_resources and not given.listen:
        raise typer.BadParameter("--pod-resources (POLLER_POD_RESOURCES) needs --listen")
    if given.proxy and _starts_proxy(given):
        name = "--start-proxy" if given.start_proxy else "--context" if given.context_name else "--kubeconfig"
        raise typer.BadParameter(f"{name} can't be combined with --proxy (POLLER_PROXY)")
    if given.ui and not (_starts_proxy(given) or (given.proxy or "").startswith("unix:")):
        raise typer.BadParameter(
            "--ui (POLLER_UI) needs --start-proxy, or a --proxy on a unix socket: any web page in a browser"
            " could use one on a port"
        )
    if given.ui and given.once:
        raise typer.BadParameter("--once can't be combined with --ui: the page ends with poller")
    if given.top:
        _check_top(given)


def _check_pods_and_loop(given: CommandLine, config: "KubeSchedulerConfiguration | None") -> None:
    """BadParameter when options about which pods are scheduled, and how, can't be combined."""
    if given.policy and config and config.profiles:
        raise typer.BadParameter(
            "--policy (POLLER_POLICY) can't be combined with a --config that has profiles"
        )
    if given.policy and not given.scheduler_name:
        raise typer.BadParameter("--policy needs --scheduler-name NAME")
    if given.plugin and given.policy == PolicyName.RANDOM:
        raise typer.BadParameter(
            "--plugin can't be combined with --policy random: it adds to the default one"
        )
    if given.watch and given.once:
        raise typer.BadParameter("--once can't be combined with --watch (POLLER_WATCH)")
    if given.leader_elect and (given.once or given.dry_run):
        name = "--once" if given.once else "--dry-run"
        raise typer.BadParameter(f"{name} can't be combined with --leader-elect (POLLER_LEADER_ELECT)")


def _write_config(options: Options, profiles: list[Profile], file: Path) -> None:
    """Write the configuration that is used. BadParameter when the file can't be written."""
    used = written.as_used(options.config, profiles, options.times, options.leader_election, secrets=True)
    try:
        written.write(used, file)
    except OSError as error:
        raise typer.BadParameter(
            f"{file}: {error.strerror or error}", param_hint="--write-config-to"
        ) from error
    print(f"the configuration is in {file}")


def _check_top(given: CommandLine) -> None:
    if given.once or given.explain_as:
        other = "--once" if given.once else "--explain"
        raise typer.BadParameter(f"{other} can't be combined with --top (POLLER_TOP)")
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        raise typer.BadParameter(
            "--top (POLLER_TOP) needs a terminal, and standard output is not one that it can draw on."
            " Leave it out, or start poller in a terminal"
        )


def _refuse_options_before(verb: str, context: typer.Context) -> None:
    """Refuse options before a verb: they would be options of the loop, without effect."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source and source.name == "COMMANDLINE":
            option = parameter.opts[0]
            raise typer.BadParameter(
                f"put it after the verb: {context.command_path} {verb} {option} …", param_hint=option
            )
