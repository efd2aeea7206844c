"""The common options of all verbs, and how they read the cluster."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, partial
from pathlib import Path
from random import Random
from typing import Annotated, Any, Protocol, TypeVar

import typer

from lib.kube.api import Api
from lib.kube.errors import ApiError, LostAnswerError
from lib.kube.escaping import escaped
from lib.kube.proxy import OwnProxy, ProxyError, answers, context_namespace
from lib.kube.source import MAIN_SCHEDULER
from lib.kube.system import MACHINE
from lib.questions.deciding import Decider
from lib.questions.files import read_files
from lib.questions.manifest_files import expanded
from lib.questions.past import as_it_was
from lib.questions.printing import Printer, Question, print_json, run_through
from lib.questions.recording.reading import is_recording
from lib.questions.snapshot import Snapshot, read_cluster
from lib.questions.verdict import Verdict
from lib.questions.what_if import change_cluster
from lib.scheduling.handle import Handle
from lib.service.command_line import (
    CLUSTER,
    DEFAULT_PROXY,
    ContextName,
    Kubeconfig,
    Proxy,
    StartProxy,
    kubectl_options,
    option,
)
from lib.service.config.file import read_config
from lib.service.policies import load_policies
from lib.service.served_profiles import Asked, profiles_for

ASKED, WHAT_IF = "How to decide, and how to answer", "What if the cluster were different"
"""The parts of --help."""

own_option = partial(option, "")
"""An option that not all verbs have: in the last part of --help."""

KUBECTL_NAME = "kubectl poller"
"""poller's name as a plugin of kubectl; it then uses kubectl's current cluster."""


@dataclass(frozen=True)
class ManifestFiles:
    """The options of verbs that are about manifests."""

    filename: Annotated[
        list[str] | None,
        own_option(
            "Manifests of pods, Deployments and such: a file, a folder or a URL; - is standard input. "
            "Can be given several times.",
            "--filename",
            "-f",
            metavar="FILE",
        ),
    ] = None
    kustomize: Annotated[
        list[str] | None,
        own_option("A kustomization: a folder or a URL.", "--kustomize", "-k", metavar="FOLDER"),
    ] = None
    recursive: Annotated[bool, own_option("Also the folders in the folder of -f.", "--recursive", "-R")] = (
        False
    )

    def names(self) -> list[str]:
        """All files, also those in folders. QuestionError when there are none."""
        return expanded(self.filename or (), self.kustomize or (), recursive=self.recursive)


Replicas = Annotated[
    int | None,
    own_option("Take this many replicas, whatever the manifests say.", min=0, metavar="NUMBER"),
]


class AnswerFormat(StrEnum):
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
        """The whole answer, but for the question and the verdict."""


A = TypeVar("A", bound=Answer)


@dataclass(frozen=True)
class Common:
    """The options that all verbs have, as given. typer.BadParameter when they contradict each other."""

    context: typer.Context
    proxy: Proxy = None
    start_proxy: StartProxy = False
    context_name: ContextName = None
    kubeconfig: Kubeconfig = None
    from_file: Annotated[
        list[Path] | None,
        option(
            CLUSTER,
            "Read the cluster from this file or folder, which `save`, kubectl get -o json (or yaml) or "
            "kubectl cluster-info dump has written. Can be given several times.",
            "--from",
            metavar="FILE",
        ),
    ] = None
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
    ] = None
    scheduler_name: Annotated[
        str | None,
        option(
            ASKED,
            "Decide as this scheduler does.",
            envvar="POLLER_SCHEDULER_NAME",
            metavar="NAME",
            show_default="the one that the pod names",
        ),
    ] = None
    config: Annotated[
        Path | None,
        option(
            ASKED, "A KubeSchedulerConfiguration to decide by.", envvar="POLLER_CONFIG", metavar="FILE.yaml"
        ),
    ] = None
    plugin: Annotated[
        list[Path] | None,
        option(
            ASKED,
            "Add a policy of your own to the default plugins. Can be given several times.",
            envvar="POLLER_PLUGIN",
            metavar="FILE.py",
        ),
    ] = None
    seed: Annotated[
        int | None,
        option(ASKED, "Make the random choices repeatable.", envvar="POLLER_SEED", metavar="NUMBER"),
    ] = None
    output: Annotated[
        AnswerFormat, option(ASKED, "wide shows all; json is for programs.", "--output", "-o")
    ] = AnswerFormat.TABLE
    add: Annotated[
        int,
        option(
            WHAT_IF,
            "Add this many nodes, each a copy of the one that --like names.",
            min=0,
            metavar="NUMBER",
        ),
    ] = 0
    like: Annotated[
        str, option(WHAT_IF, "The node that --add copies, with the pods of its DaemonSets.", metavar="NODE")
    ] = ""
    remove: Annotated[
        list[str] | None,
        option(WHAT_IF, "Leave out this node and its pods. Can be given several times.", metavar="NODE"),
    ] = None
    label: Annotated[
        list[str] | None,
        option(
            WHAT_IF,
            "Set a label of a node; KEY- removes it. NODE can have * in it. Can be given several times.",
            metavar="NODE:KEY=VALUE",
        ),
    ] = None
    taint: Annotated[
        list[str] | None,
        option(
            WHAT_IF,
            "Add a taint to a node; KEY- removes it. Can be given several times.",
            metavar="NODE:KEY=VALUE:EFFECT",
        ),
    ] = None

    at: Annotated[
        str,
        option(
            CLUSTER,
            "With a recording in --from: the cluster as it was then, such as 02:13 or 2026-11-28T02:13Z.",
            metavar="TIME",
            show_default="the end of the recording",
        ),
    ] = ""

    def __post_init__(self) -> None:
        if self.at and not self.recording:
            raise typer.BadParameter("--at needs a recording: --from day.jsonl.gz")
        own = {"start_proxy": "--start-proxy", "context_name": "--context", "kubeconfig": "--kubeconfig"}
        if self.from_file:  # ignore what comes from the environment
            for name, option_name in {"proxy": "--proxy", **own}.items():
                source = self.context.get_parameter_source(name)
                if source and source.name == "COMMANDLINE":
                    raise typer.BadParameter(
                        f"--from can't be combined with {option_name}: the cluster is read from files"
                    )
        elif self.proxy and (given := [text for name, text in own.items() if getattr(self, name)]):
            raise typer.BadParameter(f"{given[0]} can't be combined with --proxy (POLLER_PROXY)")

    @property
    def kubectl_options(self) -> tuple[str, ...]:
        """The options for kubectl that say which cluster is asked."""
        return kubectl_options(self.context_name, self.kubeconfig)

    @cached_property
    def _by_kubectl(self) -> bool:
        """Whether kubectl's cluster is asked: no proxy is given, nor is there one at the default address."""
        if self.proxy or self.from_file:
            return False
        asked = self.start_proxy or self.kubectl_options
        return bool(asked) or self.context.find_root().info_name == KUBECTL_NAME or not answers(DEFAULT_PROXY)

    @property
    def usual_namespace(self) -> str:
        """The namespace of names without one: by default that of kubectl's context, if it is asked."""
        if self._by_kubectl and not self.namespace:
            with suppress(ProxyError):  # it is told when the cluster is asked, if it is
                return context_namespace(*self.kubectl_options)
        return self.namespace or "default"

    @property
    def recording(self) -> Path | None:
        """The recording that is asked, if --from names one. typer.BadParameter if it names more."""
        recordings = [file for file in self.from_file or () if is_recording(file)]
        if recordings and len(self.from_file or ()) > 1:
            raise typer.BadParameter(
                f"--from {recordings[0]}: a recording can't be combined with other files"
            )
        return recordings[0] if recordings else None

    @contextmanager
    def api(self) -> Iterator[Api | None]:
        """The connection to the cluster; None if it is read from files."""
        if self.from_file:
            yield None
        elif not self._by_kubectl:
            with Api(self.proxy or DEFAULT_PROXY, MACHINE.event()) as api:
                yield api
        else:
            with OwnProxy(*self.kubectl_options) as own, Api(own.address, MACHINE.event()) as api:
                try:
                    yield api
                except ApiError as error:  # a plugin that logs in may have said more
                    waits = "; kubectl proxy waits for its API server, or for a plugin that logs in"
                    more = waits if isinstance(error, LostAnswerError) else ""
                    error.args = (own.with_its_words(str(error)) + more,)
                    raise

    def read(self, api: Api | None, *, manifests: bool = False, whole: bool = False) -> Snapshot:
        """Read the cluster, and change it as the what-if options say. QuestionError when they are wrong."""
        if api:
            snapshot = read_cluster(api, manifests=manifests, whole=whole)
        elif self.recording:
            snapshot = as_it_was(self.recording, self.at)
        else:
            snapshot = read_files(self.from_file or ())
        remove, labels, taints = self.remove or (), self.label or (), self.taint or ()
        change_cluster(snapshot, add=self.add, like=self.like, remove=remove, labels=labels, taints=taints)
        self.tell_notes(snapshot)
        return snapshot

    def tell_notes(self, snapshot: Snapshot) -> None:
        """Print the notes of a snapshot, once."""
        for note in snapshot.notes:
            complain(self.context.command_path, note)
        snapshot.notes.clear()

    def ask(
        self, snapshot: Snapshot, question: Question[A], doing: str, show: Callable[[A, Printer], None]
    ) -> Verdict:
        """Take a question's steps, and show its answer; returns what it comes to."""
        run_through(question, doing)
        return self.show(snapshot, question.answer, show)

    def show(self, snapshot: Snapshot, answer: A, show: Callable[[A, Printer], None]) -> Verdict:
        """Print the notes, and the answer as JSON or by `show`; returns what it comes to."""
        self.tell_notes(snapshot)
        if self.output == AnswerFormat.JSON:
            head = {"question": self.context.info_name, "answer": answer.verdict.word}
            print_json({**head, **answer.as_json()})
        else:
            show(answer, Printer(wide=self.output == AnswerFormat.WIDE))
        return answer.verdict

    def decider(
        self, snapshot: Snapshot, config: Path | None = None, random: Random | None = None
    ) -> Decider:
        """The decider for a snapshot, by the options. QuestionError when they contradict each other.

        Its profiles are those of the configuration, or the built-in ones, kube-scheduler's first. ConfigError
        or PolicyError when they can't be used.
        """
        config, random = config or self.config, random or MACHINE.random(self.seed)
        policies = tuple(load_policies(self.plugin or ()))
        read, problems = read_config(config) if config else (None, [])
        first = None if read and read.profiles else self.scheduler_name or MAIN_SCHEDULER
        profiles = profiles_for(read, Asked(first, policies=policies), Handle(random), problems, config)
        if first:
            others = profiles_for(read, Asked(policies=policies), Handle(random))
            profiles += [profile for profile in others if profile.scheduler_name != first]
        return Decider(snapshot, profiles, random, self.scheduler_name)


def complain(command: str, *lines: str) -> None:
    """Print on standard error what is wrong, and in which command."""
    for line in lines:
        typer.echo(f"{command}: {escaped(line)}", err=True)
