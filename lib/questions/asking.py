"""The common options of all verbs, and how they read the cluster."""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Annotated, Any, Protocol

import typer

from lib.kube.api import Api
from lib.kube.escaping import escaped
from lib.kube.proxy import OwnProxy
from lib.kube.source import MAIN_SCHEDULER
from lib.kube.system import MACHINE
from lib.questions.deciding import Decider
from lib.questions.files import read_files
from lib.questions.page import Page, print_json
from lib.questions.snapshot import Snapshot, read_cluster
from lib.questions.verdict import Verdict
from lib.questions.what_if import WhatIf
from lib.scheduling.framework.arguments import Handle
from lib.scheduling.framework.interface import Profile
from lib.service.command_line import CLUSTER, DEFAULT_PROXY, option
from lib.service.config.file import default_config, load_config
from lib.service.option_types import proxy_address
from lib.service.policies import load_policies
from lib.service.served_profiles import Asked, profiles_for

ASKED, WHAT_IF = "How to decide, and how to answer", "What if the cluster were different"
"""The parts of --help."""

KUBECTL_NAME = "kubectl poller"
"""poller's name as a plugin of kubectl; it then uses kubectl's current cluster."""


class Output(StrEnum):
    """How an answer is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


class Answer(Protocol):
    """The answer of any verb."""

    @property
    def verdict(self) -> Verdict:
        """What it comes to: the exit status."""

    def as_json(self) -> dict[str, Any]:
        """The whole answer."""


@dataclass(frozen=True)
class Common:
    """The values of the common options. command: the called command, such as `poller.py why`."""

    command: str
    proxy: str
    start_proxy: bool
    kubectl_options: tuple[str, ...]
    from_files: tuple[Path, ...]
    scheduler_name: str | None
    config: Path | None
    plugin: tuple[Path, ...]
    namespace: str
    seed: int | None
    output: Output
    what_if: WhatIf

    @contextmanager
    def api(self) -> Iterator[Api | None]:
        """The connection to the cluster; None if it is read from files."""
        if self.from_files:
            yield None
            return
        with ExitStack() as stack:
            address = self.proxy
            if self.start_proxy:
                address = stack.enter_context(OwnProxy(*self.kubectl_options)).address
            yield stack.enter_context(Api(address, MACHINE.event()))

    def read(self, api: Api | None, *, manifests: bool = False, whole: bool = False) -> Snapshot:
        """Read the cluster; `what_if` changes it afterwards."""
        snapshot = read_cluster(api, manifests=manifests, whole=whole) if api else read_files(self.from_files)
        self.tell_notes(snapshot)
        return snapshot

    def tell_notes(self, snapshot: Snapshot) -> None:
        """Print the notes of a snapshot, once."""
        for note in snapshot.notes:
            complain(self.command, note)
        snapshot.notes.clear()

    def show(self, snapshot: Snapshot, answer: Answer, show_on: Callable[[Page], None]) -> Verdict:
        """Print the notes, and the answer as JSON or by `show_on`; returns what it comes to."""
        self.tell_notes(snapshot)
        if self.output == Output.JSON:
            print_json(answer.as_json())
        else:
            show_on(Page(wide=self.output == Output.WIDE))
        return answer.verdict

    def decider(self, snapshot: Snapshot, config: Path | None = None) -> Decider:
        """The decider for a snapshot, by the options. QuestionError when they contradict each other.

        ConfigError or PolicyError when the configuration, or a policy, can't be used.
        """
        random = MACHINE.random(self.seed)
        profiles = self.profiles(config or self.config, random)
        return Decider(snapshot, profiles, random, self.scheduler_name)

    def profiles(self, config: Path | None, random: Random) -> list[Profile]:
        """The profiles of the configuration, or the built-in ones; kube-scheduler's first.

        ConfigError or PolicyError when they can't be used.
        """
        policies = tuple(load_policies(self.plugin))
        read = load_config(config) if config else default_config()
        handle = Handle(random)
        if read.profiles:
            return profiles_for(read, Asked(policies=policies), handle)
        name = self.scheduler_name or MAIN_SCHEDULER
        main = profiles_for(read, Asked(name, policies=policies), handle)
        others = profiles_for(read, Asked(policies=policies), handle)
        return main + [each for each in others if each.scheduler_name != name]


def common_options(
    context: typer.Context,
    proxy: Annotated[
        str | None,
        option(
            CLUSTER,
            "Where kubectl proxy listens: http://HOST:PORT or unix:///PATH.",
            envvar="POLLER_PROXY",
            callback=proxy_address,
            metavar="URL",
            show_default=DEFAULT_PROXY,
        ),
    ] = None,
    start_proxy: Annotated[
        bool,
        option(
            CLUSTER,
            "Start a kubectl proxy on a private socket, and stop it at the end.",
            "--start-proxy",
            envvar="POLLER_START_PROXY",
        ),
    ] = False,
    context_name: Annotated[
        str | None,
        option(CLUSTER, "Ask the cluster of this context of kubectl.", "--context", metavar="NAME"),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        option(CLUSTER, "Use this kubeconfig.", "--kubeconfig", metavar="FILE"),
    ] = None,
    from_file: Annotated[
        list[Path] | None,
        option(
            CLUSTER,
            "Read the cluster from this file, which `save` or kubectl get -o json has written. "
            "Can be given several times.",
            "--from",
            metavar="FILE",
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        option(
            CLUSTER,
            "The namespace of names that have none.",
            "--namespace",
            "-n",
            metavar="NAMESPACE",
            show_default="default; that of kubectl's context if its cluster is asked",
        ),
    ] = None,
    scheduler_name: Annotated[
        str | None,
        option(
            ASKED,
            "Decide as this scheduler does.",
            envvar="POLLER_SCHEDULER_NAME",
            metavar="NAME",
            show_default="the one that the pod names",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        option(
            ASKED, "A KubeSchedulerConfiguration to decide by.", envvar="POLLER_CONFIG", metavar="FILE.yaml"
        ),
    ] = None,
    plugin: Annotated[
        list[Path] | None,
        option(
            ASKED,
            "Add a policy of your own to the default plugins. Can be given several times.",
            envvar="POLLER_PLUGIN",
            metavar="FILE.py",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        option(ASKED, "Make the random choices repeatable.", envvar="POLLER_SEED", metavar="NUMBER"),
    ] = None,
    output: Annotated[
        Output, option(ASKED, "wide shows all; json is for programs.", "--output", "-o")
    ] = Output.TABLE,
    add: Annotated[
        int,
        option(
            WHAT_IF,
            "Add this many nodes, each a copy of the one that --like names.",
            min=0,
            metavar="NUMBER",
        ),
    ] = 0,
    like: Annotated[
        str, option(WHAT_IF, "The node that --add copies, with the pods of its DaemonSets.", metavar="NODE")
    ] = "",
    remove: Annotated[
        list[str] | None,
        option(WHAT_IF, "Leave out this node and its pods. Can be given several times.", metavar="NODE"),
    ] = None,
    label: Annotated[
        list[str] | None,
        option(
            WHAT_IF,
            "Set a label of a node; KEY- removes it. NODE can have * in it. Can be given several times.",
            metavar="NODE:KEY=VALUE",
        ),
    ] = None,
    taint: Annotated[
        list[str] | None,
        option(
            WHAT_IF,
            "Add a taint to a node; KEY- removes it. Can be given several times.",
            metavar="NODE:KEY=VALUE:EFFECT",
        ),
    ] = None,
) -> Common:
    """The options that all verbs have."""
    named = {"--context": context_name, "--kubeconfig": kubeconfig}
    kubectl_options = tuple(f"{name}={value}" for name, value in named.items() if value)
    if kubectl_options and (proxy or from_file):
        other = "--from" if from_file else "--proxy (POLLER_PROXY)"
        raise typer.BadParameter(f"{kubectl_options[0]} can't be combined with {other}")
    by_kubectl = bool(kubectl_options) or context.find_root().info_name == KUBECTL_NAME
    if from_file:  # ignore a proxy from the environment
        for name, other in (("proxy", "--proxy"), ("start_proxy", "--start-proxy")):
            source = context.get_parameter_source(name)
            if source and source.name == "COMMANDLINE":
                raise typer.BadParameter(
                    f"--from can't be combined with {other}: the cluster is read from files"
                )
    elif start_proxy and proxy:
        raise typer.BadParameter("--start-proxy can't be combined with --proxy (POLLER_PROXY)")
    return Common(
        command=context.command_path,
        proxy=proxy or DEFAULT_PROXY,
        start_proxy=start_proxy or (by_kubectl and not proxy),
        kubectl_options=kubectl_options,
        from_files=tuple(from_file or ()),
        scheduler_name=scheduler_name,
        config=config,
        plugin=tuple(plugin or ()),
        namespace=namespace
        or _usual_namespace(kubectl_options, asks=by_kubectl or start_proxy, files=from_file),
        seed=seed,
        output=output,
        what_if=WhatIf(add, like, tuple(remove or ()), tuple(label or ()), tuple(taint or ())),
    )


def _usual_namespace(kubectl_options: Sequence[str], *, asks: bool, files: object) -> str:
    """The namespace of names without one: that of kubectl's context, if kubectl's cluster is asked."""
    return context_namespace(kubectl_options) if asks and not files else "default"


def context_namespace(kubectl_options: Sequence[str] = ()) -> str:
    """The namespace of kubectl's current context, or of the one that the options name."""
    command = ["kubectl", "config", "view", "--minify", "--output=jsonpath={..namespace}", *kubectl_options]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=10).stdout  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        said = ""
    return said.strip() or "default"


def complain(command: str, *lines: str) -> None:
    """Print on standard error what is wrong, and in which command."""
    for each in lines:
        typer.echo(f"{command}: {escaped(each)}", err=True)


def now() -> datetime:
    """The time."""
    return MACHINE.now()
