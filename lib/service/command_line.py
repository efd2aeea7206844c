"""The options of the command line; all are defined here.

Each can also be set by the environment: `--bind-workers` by POLLER_BIND_WORKERS.
"""

from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from lib.kube.election import LeaderElection
from lib.scheduling.pod_life import BackoffSettings
from lib.service import option_types
from lib.service.help import OTHER
from lib.service.served_profiles import PolicyName
from lib.service.telemetry.log import LogFormat
from lib.service.telemetry.observer import Address
from lib.version import full_version

DEFAULT_PROXY = "http://127.0.0.1:8001"
"""Where `kubectl proxy` listens by default."""

CLUSTER, PODS, LOOP = "Cluster", "Which pods, and how they are placed", "The loop"
ELECTION, OUTPUT = "Leader election", "Output"
"""The parts of --help."""


class ExplainName(StrEnum):
    """How decisions can be shown."""

    TABLE = "table"
    JSON = "json"


def option(part: str, what: str, *names: str, **more: Any) -> Any:
    """An option in a part of --help. names: of a flag its only one, so that it has no "--no-" form.

    show_default: for defaults that come from elsewhere, such as a file.
    """
    return typer.Option(*names, help=what, rich_help_panel=part, show_envvar=False, **more)


def _seconds(part: str, what: str, default: float) -> Any:
    return option(part, what, metavar="SECONDS", callback=option_types.seconds, show_default=f"{default:g}")


def _show_version(asked: bool) -> None:
    if asked:
        print(f"poller {full_version()}")
        raise typer.Exit


Proxy = Annotated[
    str | None,
    option(
        CLUSTER,
        "Where kubectl proxy listens: http://HOST:PORT or unix:///PATH.",
        metavar="URL",
        callback=option_types.proxy_address,
        envvar="POLLER_PROXY",
        show_default=DEFAULT_PROXY,
    ),
]

StartProxy = Annotated[
    bool,
    option(
        CLUSTER,
        "Start a kubectl proxy on a private socket, and stop it at the end.",
        "--start-proxy",
        envvar="POLLER_START_PROXY",
    ),
]
ContextName = Annotated[
    str | None,
    option(
        CLUSTER,
        "Use the cluster of this context of kubectl, with a kubectl proxy of poller's own.",
        "--context",
        metavar="NAME",
        envvar="POLLER_CONTEXT",
    ),
]

Kubeconfig = Annotated[
    Path | None,
    option(
        CLUSTER,
        "Use this kubeconfig, with a kubectl proxy of poller's own.",
        "--kubeconfig",
        metavar="FILE",
        envvar="POLLER_KUBECONFIG",
    ),
]
"""Four options that the verbs have, too."""


def kubectl_options(context: str | None, kubeconfig: Path | None) -> tuple[str, ...]:
    """The options for kubectl that say which cluster is meant."""
    named = {"--context": context, "--kubeconfig": kubeconfig}
    return tuple(f"{name}={value}" for name, value in named.items() if value)


@dataclass(frozen=True, kw_only=True)
class CommandLine:
    """The options as given. None: the configuration file, or a default, decides."""

    proxy: Proxy = None
    start_proxy: StartProxy = False
    context_name: ContextName = None
    kubeconfig: Kubeconfig = None
    ui: Annotated[
        bool,
        option(
            CLUSTER,
            "Show pods, nodes and decisions in a browser; the address is logged. Needs a proxy on a socket.",
            "--ui",
        ),
    ] = False
    scheduler_name: Annotated[
        str | None,
        option(
            PODS,
            "Schedule only pods with this spec.schedulerName.",
            metavar="NAME",
            callback=option_types.scheduler_name,
            show_default="my-scheduler and random-scheduler",
        ),
    ] = None
    namespace: Annotated[
        list[str] | None,
        option(
            PODS,
            "Schedule only pods of this namespace, and evict no others. Can be given several times.",
            metavar="NAMESPACE",
            callback=option_types.namespaces,
            show_default="all",
        ),
    ] = None
    policy: Annotated[
        PolicyName | None,
        option(
            PODS,
            "How to place the pods of --scheduler-name NAME: as kube-scheduler does, or at random.",
            show_default="default",
        ),
    ] = None
    plugin: Annotated[
        list[Path] | None,
        option(
            PODS,
            "Add a policy of your own to the default plugins: a file with filter(pod, node), score(pod, node)"
            " or both. Can be given several times.",
            metavar="FILE.py",
        ),
    ] = None
    config_file: Annotated[
        Path | None,
        option(
            PODS,
            "A KubeSchedulerConfiguration, as kube-scheduler reads it.",
            "--config",
            metavar="FILE.yaml",
            envvar="POLLER_CONFIG",
        ),
    ] = None
    check_config: Annotated[
        bool,
        option(
            PODS,
            "Check the configuration, show which plugins run at each extension point, and exit.",
            "--check-config",
        ),
    ] = False
    write_config_to: Annotated[
        Path | None,
        option(
            PODS,
            "Write the configuration that would be used, with all defaults, into this file, and exit.",
            metavar="FILE.yaml",
        ),
    ] = None
    no_preemption: Annotated[
        bool,
        option(PODS, "Disable preemption: never evict a pod to make room for another.", "--no-preemption"),
    ] = False
    seed: Annotated[int | None, option(PODS, "Make the random choices repeatable.", metavar="NUMBER")] = None
    bind_workers: Annotated[
        int,
        option(
            LOOP,
            "Send at most this many bindings at once, and a fourth of it of other writes. Half of it is for"
            " the pods of one namespace.",
            metavar="NUMBER",
            min=1,
            max=256,
        ),
    ] = 64
    interval: Annotated[float, _seconds(LOOP, "How long to wait between two polls.", 1)] = 1.0
    watch: Annotated[
        bool,
        option(
            LOOP,
            "Watch for changes instead of polling for them: a new pod is bound within milliseconds.",
            "--watch",
        ),
    ] = False
    pod_initial_backoff: Annotated[
        float | None,
        _seconds(
            LOOP,
            "Retry a pod after this time; each further retry waits twice as long.",
            BackoffSettings.initial_backoff,
        ),
    ] = None
    pod_max_backoff: Annotated[
        float | None,
        _seconds(LOOP, "The longest time between two retries.", BackoffSettings.max_backoff),
    ] = None
    pod_max_in_unschedulable_pods_duration: Annotated[
        float,
        _seconds(
            LOOP,
            "Retry an unschedulable pod after this time even if nothing has changed.",
            BackoffSettings.unschedulable,
        ),
    ] = BackoffSettings.unschedulable
    once: Annotated[
        bool,
        option(
            LOOP,
            "Do one pass and exit: 0 if all pods were placed, 3 if some were not, 1 if the API server"
            " can't be reached.",
            "--once",
        ),
    ] = False
    dry_run: Annotated[
        bool, option(LOOP, "Decide and report, but write nothing to the cluster.", "--dry-run")
    ] = False
    leader_elect: Annotated[
        bool,
        option(
            ELECTION,
            "Write only while holding the lease, so that several pollers can run and one of them leads.",
            "--leader-elect",
        ),
    ] = False
    leader_elect_lease_duration: Annotated[
        float | None,
        _seconds(
            ELECTION,
            "Take over a lease that hasn't been renewed for this time.",
            LeaderElection.lease_duration,
        ),
    ] = None
    leader_elect_renew_deadline: Annotated[
        float | None,
        _seconds(
            ELECTION, "Exit if the lease can't be renewed for this time.", LeaderElection.renew_deadline
        ),
    ] = None
    leader_elect_retry_period: Annotated[
        float | None,
        _seconds(ELECTION, "How often to try to acquire or renew the lease.", LeaderElection.retry_period),
    ] = None
    leader_elect_resource_name: Annotated[
        str | None,
        option(
            ELECTION,
            "The lease's name: the same for all pollers that schedule the same pods.",
            metavar="NAME",
            show_default=LeaderElection.resource_name,
        ),
    ] = None
    leader_elect_resource_namespace: Annotated[
        str | None,
        option(
            ELECTION,
            "The lease's namespace.",
            metavar="NAMESPACE",
            show_default=LeaderElection.resource_namespace,
        ),
    ] = None
    explain_as: Annotated[
        ExplainName | None,
        option(
            OUTPUT,
            "Show each decision node by node, on standard output; json is one line for each.",
            "--explain",
            envvar="POLLER_EXPLAIN",
        ),
    ] = None
    top: Annotated[
        bool,
        option(OUTPUT, "Show nodes, pods, the queue and the log, live, on the whole terminal.", "--top"),
    ] = False
    no_annotate: Annotated[
        bool, option(OUTPUT, "Don't write the annotation poller/decision on pods.", "--no-annotate")
    ] = False
    listen: Annotated[
        Address | None,
        option(
            OUTPUT,
            "Serve /healthz, /livez, /readyz and /metrics at this address; the host is 127.0.0.1 if there is"
            " only a PORT. To clients on this machine also /configz, /flagz, /statusz, /metrics/resources.",
            metavar="HOST:PORT",
            parser=option_types.listen_address,
        ),
    ] = None
    pod_resources: Annotated[
        bool,
        option(
            OUTPUT,
            "Serve /metrics/resources to all: the names, nodes, requests and limits of the cluster's pods.",
            "--pod-resources",
        ),
    ] = False
    log_format: Annotated[
        LogFormat, option(OUTPUT, "Log lines as text for people, or as one JSON object each.")
    ] = LogFormat.TEXT
    verbose: Annotated[
        bool,
        option(OUTPUT, "Log each request, and why each node was rejected.", "--verbose", "-v"),
    ] = False
    version: Annotated[
        bool,
        option(OTHER, "Show the version and exit.", "--version", callback=_show_version, is_eager=True),
    ] = False

    def by_name(self) -> dict[str, object]:
        """The values, by the options' names."""
        hints = get_type_hints(CommandLine, include_extras=True)
        values = {}
        for field in fields(CommandLine):
            about = hints[field.name].__metadata__[0]
            names = (about.default, *(about.param_decls or ()))  # typer takes the first name for a default
            long = next((name for name in names if str(name).startswith("--")), f"--{field.name}")
            values[long[2:].replace("_", "-")] = getattr(self, field.name)
        return values
