"""Shell completion: verbs, options, pods, nodes, labels of nodes, namespaces, files.

The format is that of cobra, kubectl's library: one candidate per line, then a directive for the shell.
Source: https://github.com/spf13/cobra/blob/main/completions.go
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import typer
from typer.core import TyperCommand

from lib.kube.errors import ApiError
from lib.kube.escaping import escaped
from lib.kube.objects import Namespace, Node, Object, Pod
from lib.kube.paths import NAMESPACES, NODES, path_of
from lib.questions.asking import Common, Output
from lib.questions.errors import QuestionError
from lib.questions.what_if import EFFECTS
from lib.scheduling.text import taint_text

T = TypeVar("T", bound=Object)

FILES, NO_FILES, UNFINISHED, IN_ORDER, FAILED = ":0", ":4", ":6", ":36", ":1"
"""Directives for the shell: offer files, too; no files; no files, and no space after the word; no files, in
this order; an error.
"""

TAKE_FILES = ("-f", "--filename", "--from", "--config", "--plugin")
TAKE_NODES = ("--like", "--remove")
TAKE_LABELS, TAKE_TAINTS = ("--label",), ("--taint",)
TAKE_NAMESPACES = ("-n", "--namespace")
TAKE_OUTPUTS = ("-o", "--output")


def complete(context: typer.Context) -> None:
    """Print the completions of the last of these words; the words before it are complete."""
    start = sys.argv.index(str(context.info_name)) + 1
    *before, last = sys.argv[start:] or [""]  # unchanged: typer would drop "--"
    try:
        found, then = _candidates(context, before, last)
    except (QuestionError, ApiError, typer.BadParameter):
        found, then = [], FAILED
    for each in found:
        if each.startswith(last):
            typer.echo(escaped(each))
    typer.echo(then)


def _candidates(context: typer.Context, before: Sequence[str], last: str) -> tuple[list[str], str]:
    verbs = _verbs(context)
    verb = next((word for word in before if word in verbs), None)
    if verb is None:
        root = context.find_root().command.params
        own = [name for each in root for name in each.opts if name.startswith("--")]
        return (own if last.startswith("-") else list(verbs)), NO_FILES
    previous = before[-1] if before else ""
    if previous in TAKE_FILES:
        return [], FILES
    if previous in TAKE_OUTPUTS:
        return [each.value for each in Output], NO_FILES
    asked = _Asked(context, before)
    if previous in TAKE_NODES:
        return list(asked.nodes()), NO_FILES
    if previous in TAKE_LABELS:
        return sorted(asked.labels(last)), NO_FILES if "=" in last else UNFINISHED
    if previous in TAKE_TAINTS:
        return sorted(asked.taints(last)), UNFINISHED if last.count(":") == 0 else NO_FILES
    if previous in TAKE_NAMESPACES:
        return list(asked.namespaces()), NO_FILES
    if last.startswith("-"):
        return [name for each in verbs[verb].params for name in each.opts if name.startswith("--")], NO_FILES
    match verb:
        case "why":
            return list(asked.pods(last)), IN_ORDER
        case "drain":
            return list(asked.nodes()), NO_FILES
        case "save":
            return [], FILES
    return [], NO_FILES


def _verbs(context: typer.Context) -> dict[str, TyperCommand]:
    """The verbs of the command line, by name."""
    commands: dict[str, TyperCommand] = getattr(context.find_root().command, "commands", {})
    return {name: each for name, each in commands.items() if not each.hidden}


class _Asked:
    """The names in the cluster that an incomplete command line is about."""

    def __init__(self, context: typer.Context, words: Sequence[str]) -> None:
        self._words = words
        file, kubeconfig = self._value("--from"), self._value("--kubeconfig")
        self._common = Common(
            context,
            proxy=self._value("--proxy") or None,
            start_proxy="--start-proxy" in words,
            context_name=self._value("--context") or None,
            kubeconfig=Path(kubeconfig) if kubeconfig else None,
            from_file=[Path(file)] if file else None,
            namespace=self._value(*TAKE_NAMESPACES) or None,
        )

    def _value(self, *options: str) -> str:
        for i, word in enumerate(self._words):
            name, equals, value = word.partition("=")
            if name in options:
                return value if equals else "".join(self._words[i + 1 : i + 2])
        return ""

    def pods(self, last: str) -> Iterator[str]:
        """The pods of the namespace in the word, or in an option; first those that wait."""
        where, slash, _ = last.rpartition("/")
        namespace = where if slash else self._common.usual_namespace
        prefix = f"{namespace}/" if slash else ""
        for pod in sorted(
            self._list(Pod, path_of("pods", namespace)), key=lambda pod: bool(pod.spec.node_name)
        ):
            if pod.metadata.namespace == namespace:
                yield f"{prefix}{pod.metadata.name}"

    def nodes(self) -> Iterator[str]:
        """All nodes."""
        return (node.metadata.name for node in self._list(Node, NODES))

    def labels(self, last: str) -> set[str]:
        """NODE:KEY=VALUE, as far as the next sign: any node, any key of a label, or any value of the key."""
        nodes = self._list(Node, NODES)
        node, colon, label = last.partition(":")
        key, equals, _ = label.partition("=")
        if equals:
            return {f"{node}:{key}={found}" for each in nodes if (found := each.metadata.labels.get(key))}
        if colon:
            return {f"{node}:{found}=" for each in nodes for found in each.metadata.labels}
        return {f"{each.metadata.name}:" for each in nodes}

    def taints(self, last: str) -> set[str]:
        """NODE:KEY=VALUE:EFFECT: any node; then the taints that there are, and any effect for a new one."""
        nodes = self._list(Node, NODES)
        node, colon, taint = last.partition(":")
        if not colon:
            return {f"{each.metadata.name}:" for each in nodes}
        key, effect, _ = taint.partition(":")
        if effect:
            return {f"{node}:{key}:{each}" for each in EFFECTS}
        return {f"{node}:{taint_text(each)}" for info in nodes for each in info.spec.taints}

    def namespaces(self) -> Iterator[str]:
        """All namespaces."""
        return (each.metadata.name for each in self._list(Namespace, NAMESPACES))

    def _list(self, kind: type[T], path: str) -> list[T]:
        with self._common.api() as api:
            return api.list(path, kind).items if api else self._common.read(None).of(kind)
