"""The command line. Each option may also come from the environment: `--proxy` from POLLER_PROXY."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from lib.kube.lease import LeaderElection
from lib.scheduling.framework.interface import Profile
from lib.scheduling.plugins.registry import Handle
from lib.scheduling.queue import BackoffSettings
from lib.service import option_types
from lib.service.check_config import show
from lib.service.config import ConfigError, KubeSchedulerConfiguration, default_config, load_config
from lib.service.policies import Policy, PolicyError, load_policies
from lib.service.profiles import Asked, PolicyName, profiles_for
from lib.service.telemetry.explain import Explain, as_json, as_table
from lib.service.telemetry.log import LogFormat
from lib.service.telemetry.observer import Address

DEFAULT_PROXY = "http://127.0.0.1:8001"
"""Where `kubectl proxy` listens unless told otherwise."""


CLUSTER, PODS, LOOP = "Where the cluster is", "Which pods are placed, and how", "The loop"
ELECTION, TOLD = "Several pollers, of which one leads", "What poller tells"
"""The parts of --help."""


class ExplainName(StrEnum):
    """How decisions can be shown."""

    TABLE = "table"
    JSON = "json"


EXPLAIN: Mapping[ExplainName, Explain] = {ExplainName.TABLE: as_table, ExplainName.JSON: as_json}


@dataclass(frozen=True)
class Options:
    """What poller was asked to do."""

    proxy: str
    start_proxy: bool
    namespaces: tuple[str, ...]
    config: KubeSchedulerConfiguration
    profiles: Asked
    bind_workers: int
    annotate: bool
    explain: Explain | None
    times: BackoffSettings
    interval: float
    watch: bool
    leader_election: LeaderElection | None
    once: bool
    dry_run: bool
    seed: int | None
    listen: Address | None
    log_format: LogFormat
    verbose: bool


def _duration(panel: str, what: str, default: float | None = None) -> Any:
    """An option that takes seconds; `default` holds where neither it nor the file says anything."""
    shown = True if default is None else f"{default:g}"
    return typer.Option(
        callback=option_types.seconds, metavar="SECONDS", help=what, show_default=shown, rich_help_panel=panel
    )


def _flag(panel: str, what: str, *names: str) -> Any:
    """An option that is given or not, and has no "--no-" beside it."""
    return typer.Option(*names, metavar="", help=what, rich_help_panel=panel)


def _policies(files: list[Path]) -> tuple[Policy, ...]:
    try:
        return tuple(load_policies(files))
    except PolicyError as error:
        raise typer.BadParameter(str(error), param_hint="--plugin") from error


def _config(file: Path | None) -> KubeSchedulerConfiguration:
    try:
        return load_config(file) if file else default_config()
    except ConfigError as error:
        raise typer.BadParameter(str(error), param_hint="--config") from error


def _leader_election(
    config: KubeSchedulerConfiguration, asked_for: bool, **options: float | str | None
) -> LeaderElection | None:
    """How to elect a leader; None if that isn't asked for. The options win over the file.

    A file that has a word on it asks for it, unless it says that it doesn't: so kube-scheduler reads it.
    """
    given = {name: value for name, value in options.items() if value is not None}
    file = config.leader_election
    if not asked_for:
        asked_for = bool(file.settings()) if file.leader_elect is None else file.leader_elect
    if not asked_for:
        if given:
            raise typer.BadParameter("--leader-elect-… say how to elect a leader: give --leader-elect, too")
        return None
    try:
        return LeaderElection(**{**file.settings(), **given})
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--leader-elect") from error


def _times(
    config: KubeSchedulerConfiguration, first: float | None, longest: float | None, last: float
) -> BackoffSettings:
    """What the options say wins over the file."""
    first = first or config.pod_initial_backoff_seconds or BackoffSettings.initial_backoff
    longest = longest or config.pod_max_backoff_seconds or BackoffSettings.max_backoff
    if longest < first:
        raise typer.BadParameter(
            f"{longest:g} s is less than the {first:g} s to begin with", param_hint="--pod-max-backoff"
        )
    return BackoffSettings(first, longest, last)


def _profiles(options: Options, file: Path | None) -> list[Profile]:
    """What would be served. Once connected it is made again, with extenders."""
    try:
        return profiles_for(options.config, options.profiles, Handle())
    except ConfigError as error:
        raise typer.BadParameter(str(ConfigError(error.problems, file)), param_hint="--config") from error


def run_with_options(
    run: Callable[[Options], int],
    add_verbs: Callable[[typer.Typer], None] = lambda _: None,
    prog_name: str | None = None,
) -> None:
    """Read the command line, run, and exit with what `run` returns; with 2 and the usage when it is wrong.

    add_verbs: adds what else can be done, each under a name; without one of these the loop is run.
    prog_name: what poller is called by, where that isn't its file.
    """
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"auto_envvar_prefix": "POLLER", "help_option_names": ["-h", "--help"]},
    )

    @app.callback(invoke_without_command=True)
    def poller(
        context: typer.Context,
        proxy: Annotated[
            str | None,
            typer.Option(
                rich_help_panel=CLUSTER,
                callback=option_types.proxy_address,
                metavar="URL",
                show_default=DEFAULT_PROXY,
                help="Where kubectl proxy listens: http://HOST:PORT or unix:///PATH.",
            ),
        ] = None,
        start_proxy: Annotated[
            bool,
            _flag(
                CLUSTER,
                "Start a kubectl proxy of our own, on a private socket, and end it with us.",
                "--start-proxy",
            ),
        ] = False,
        scheduler_name: Annotated[
            str | None,
            typer.Option(
                rich_help_panel=PODS,
                callback=option_types.scheduler_name,
                metavar="NAME",
                show_default="my-scheduler and random-scheduler",
                help="Serve pods with this spec.schedulerName, and no others.",
            ),
        ] = None,
        namespace: Annotated[
            list[str] | None,
            typer.Option(
                rich_help_panel=PODS,
                callback=option_types.namespaces,
                metavar="NAMESPACE",
                show_default="all",
                help="Serve pods of this namespace, and evict no others. May be given more than once.",
            ),
        ] = None,
        policy: Annotated[
            PolicyName | None,
            typer.Option(
                rich_help_panel=PODS,
                show_default="default",
                help="How pods of --scheduler-name NAME are placed: as kube-scheduler does, or by chance.",
            ),
        ] = None,
        plugin: Annotated[
            list[Path] | None,
            typer.Option(
                rich_help_panel=PODS,
                metavar="FILE.py",
                help="A policy of your own, added to the default ones: filter(pod, node), score(pod, node). "
                "May be given more than once.",
            ),
        ] = None,
        config: Annotated[
            Path | None,
            typer.Option(
                rich_help_panel=PODS,
                metavar="FILE.yaml",
                help="A KubeSchedulerConfiguration: profiles, extenders and more, as kube-scheduler has it.",
            ),
        ] = None,
        check_config: Annotated[
            bool,
            _flag(PODS, "Say which plugins would be asked where, start nothing, and exit.", "--check-config"),
        ] = False,
        no_preemption: Annotated[
            bool,
            _flag(PODS, "Let no pod leave for a more important one.", "--no-preemption"),
        ] = False,
        seed: Annotated[
            int | None,
            typer.Option(rich_help_panel=PODS, metavar="NUMBER", help="Make the random choices repeatable."),
        ] = None,
        bind_workers: Annotated[
            int,
            typer.Option(
                rich_help_panel=LOOP,
                min=1,
                max=256,
                metavar="NUMBER",
                help="Have so many bindings, or events of bound pods, on their way at a time.",
            ),
        ] = 64,
        interval: Annotated[float, _duration(LOOP, "Wait so long between two polls.")] = 1.0,
        watch: Annotated[
            bool,
            _flag(LOOP, "Hear of changes when they happen, and don't wait for the next poll.", "--watch"),
        ] = False,
        pod_initial_backoff: Annotated[
            float | None,
            _duration(
                LOOP, "Try a pod again no sooner; twice that each time.", BackoffSettings.initial_backoff
            ),
        ] = None,
        pod_max_backoff: Annotated[
            float | None, _duration(LOOP, "But never let it wait longer.", BackoffSettings.max_backoff)
        ] = None,
        pod_max_in_unschedulable_pods_duration: Annotated[
            float,
            _duration(LOOP, "Try one that fits nowhere again anyway."),
        ] = BackoffSettings.unschedulable,
        once: Annotated[
            bool,
            _flag(
                LOOP,
                "One pass. Exit 0: all that waited was placed; 3: something was not; 1: no API there.",
                "--once",
            ),
        ] = False,
        dry_run: Annotated[
            bool,
            _flag(LOOP, "Decide and say so, but write nothing to the cluster.", "--dry-run"),
        ] = False,
        leader_elect: Annotated[
            bool,
            _flag(
                ELECTION, "Write only while we hold the lease; another poller may stand by.", "--leader-elect"
            ),
        ] = False,
        leader_elect_lease_duration: Annotated[
            float | None,
            _duration(
                ELECTION,
                "Stand by until the lease hasn't been renewed for so long.",
                LeaderElection.lease_duration,
            ),
        ] = None,
        leader_elect_renew_deadline: Annotated[
            float | None,
            _duration(
                ELECTION, "End if the lease can't be renewed for so long.", LeaderElection.renew_deadline
            ),
        ] = None,
        leader_elect_retry_period: Annotated[
            float | None,
            _duration(ELECTION, "Try to acquire or renew the lease so often.", LeaderElection.retry_period),
        ] = None,
        leader_elect_resource_name: Annotated[
            str | None,
            typer.Option(
                rich_help_panel=ELECTION,
                metavar="NAME",
                show_default=LeaderElection.resource_name,
                help="The lease's name: one for all pollers that serve the same pods.",
            ),
        ] = None,
        leader_elect_resource_namespace: Annotated[
            str | None,
            typer.Option(
                rich_help_panel=ELECTION,
                metavar="NAMESPACE",
                show_default=LeaderElection.resource_namespace,
                help="The lease's namespace.",
            ),
        ] = None,
        explain: Annotated[
            ExplainName | None,
            typer.Option(rich_help_panel=TOLD, help="Show each decision, node by node, on standard output."),
        ] = None,
        no_annotate: Annotated[
            bool,
            _flag(TOLD, "Leave the annotation poller/decision off the pods bound.", "--no-annotate"),
        ] = False,
        listen: Annotated[
            str | None,
            typer.Option(
                rich_help_panel=TOLD,
                metavar="HOST:PORT",
                help="Answer /healthz, /livez, /readyz and /metrics there; with a PORT only, on 127.0.0.1.",
            ),
        ] = None,
        log_format: Annotated[
            LogFormat,
            typer.Option(rich_help_panel=TOLD, help="Log lines for people, or an object of JSON on each."),
        ] = LogFormat.TEXT,
        verbose: Annotated[
            bool,
            _flag(TOLD, "Say why, node by node, and name each request.", "--verbose", "-v"),
        ] = False,
    ) -> None:
        """A Kubernetes scheduler in one small loop, beside kubectl proxy.

        Polls for pods that wait for it, picks a node for each, writes the Binding and the Event.
        """
        if verb := context.invoked_subcommand:
            _refuse_options_before(verb, context)
            return
        if start_proxy and proxy:
            raise typer.BadParameter(
                "a proxy of our own has an address of its own: leave out --proxy, and POLLER_PROXY"
            )
        read = _config(config)
        if policy and read.profiles:
            raise typer.BadParameter(
                "--policy has no say where --config has profiles: leave it out, and POLLER_POLICY"
            )
        if policy and not scheduler_name:
            raise typer.BadParameter("--policy says how to serve --scheduler-name NAME: give that, too")
        if plugin and policy == PolicyName.RANDOM:
            raise typer.BadParameter("--plugin adds to the default policy: leave out --policy random")
        if watch and once:
            raise typer.BadParameter("--once takes one look: leave out --watch, and POLLER_WATCH")
        if leader_elect and (once or dry_run):
            raise typer.BadParameter(
                f"{'--once' if once else '--dry-run'} needs no leader: "
                "leave out --leader-elect, and POLLER_LEADER_ELECT"
            )
        options = Options(
            proxy=proxy or DEFAULT_PROXY,
            start_proxy=start_proxy,
            namespaces=tuple(dict.fromkeys(namespace or ())),
            config=read,
            profiles=Asked(
                scheduler_name, policy or PolicyName.DEFAULT, _policies(plugin or []), not no_preemption
            ),
            bind_workers=bind_workers,
            annotate=not no_annotate,
            explain=EXPLAIN[explain] if explain else None,
            times=_times(read, pod_initial_backoff, pod_max_backoff, pod_max_in_unschedulable_pods_duration),
            interval=interval,
            watch=watch,
            # One look, or one that writes nothing, is nobody's rival, whatever the file says.
            leader_election=None
            if once or dry_run
            else _leader_election(
                read,
                asked_for=leader_elect,
                lease_duration=leader_elect_lease_duration,
                renew_deadline=leader_elect_renew_deadline,
                retry_period=leader_elect_retry_period,
                resource_name=leader_elect_resource_name,
                resource_namespace=leader_elect_resource_namespace,
            ),
            once=once,
            dry_run=dry_run,
            seed=seed,
            listen=option_types.listen_address(listen) if listen else None,
            log_format=log_format,
            verbose=verbose,
        )
        profiles = _profiles(options, config)
        if check_config:
            show(profiles, options.config, options.times, options.leader_election)
            sys.exit(0)
        sys.exit(run(options))

    add_verbs(app)
    app(prog_name=prog_name)


def _refuse_options_before(verb: str, context: typer.Context) -> None:
    """Options before a verb would be the loop's, and without effect."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            raise typer.BadParameter(
                f"put it behind the verb: {context.command_path} {verb} {option} …", param_hint=option
            )
