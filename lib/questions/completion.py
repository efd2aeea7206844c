"""Shell completion: verbs, options, pods, nodes, labels of nodes, namespaces, files.

The format is that of cobra, kubectl's library: one candidate per line, then a directive for the shell.
Source: https://github.com/spf13/cobra/blob/main/completions.go
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import typer
from typer.core import TyperCommand

from lib.kube.errors import ApiError
from lib.kube.escaping import escaped
from lib.kube.objects import Namespace, Node, Object, Pod
from lib.kube.paths import path_of
from lib.kube.pod_validation import EFFECTS
from lib.kube.resources import NAMESPACES, NODES
from lib.questions.asking import AnswerFormat, Common
from lib.questions.errors import QuestionError
from lib.scheduling.text import taint_text

T = TypeVar("T", bound=Object)

FILES, NO_FILES, UNFINISHED, IN_ORDER, FAILED = ":0", ":4", ":6", ":36", ":1"
"""Directives for the shell: offer files, too; no files; no files, and no space after the word; no files, in
this order; an error.
"""

OF_CLUSTER = ("proxy", "start_proxy", "context_name", "kubeconfig", "from_file", "namespace")
"""The options that say which cluster is asked."""


def complete(context: typer.Context) -> None:
    """Print the completions of the last of these words; the words before it are complete."""
    start = sys.argv.index(str(context.info_name)) + 1
    *before, last = sys.argv[start:] or [""]  # unchanged: typer would drop "--"
    try:
        found, then = _candidates(context, before, last)
    except (QuestionError, ApiError, typer.BadParameter):
        found, then = [], FAILED
    for one in found:
        if one.startswith(last):
            typer.echo(escaped(one))
    typer.echo(then)


def _candidates(context: typer.Context, before: Sequence[str], last: str) -> tuple[list[str], str]:
    verbs = _verbs(context)
    verb = next((word for word in before if word in verbs), None)
    if verb is None:
        root = context.find_root().command.params
        own = [name for parameter in root for name in parameter.opts if name.startswith("--")]
        return (own if last.startswith("-") else list(verbs)), NO_FILES
    common = _common(context, verbs[verb], [word for word in before if word != verb])
    match before[-1]:
        case "-f" | "--filename" | "--from" | "--config" | "--plugin":
            return [], FILES
        case "-o" | "--output":
            return [form.value for form in AnswerFormat], NO_FILES
        case "--like" | "--remove":
            return list(_nodes(common)), NO_FILES
        case "--label":
            return sorted(_labels(common, last)), NO_FILES if "=" in last else UNFINISHED
        case "--taint":
            return sorted(_taints(common, last)), UNFINISHED if last.count(":") == 0 else NO_FILES
        case "-n" | "--namespace":
            return list(_namespaces(common)), NO_FILES
    if last.startswith("-"):
        return [
            name for parameter in verbs[verb].params for name in parameter.opts if name.startswith("--")
        ], NO_FILES
    match verb:
        case "why":
            return list(_pods(common, last)), IN_ORDER
        case "drain":
            return list(_nodes(common)), NO_FILES
        case "save":
            return [], FILES
    return [], NO_FILES


def _verbs(context: typer.Context) -> dict[str, TyperCommand]:
    """The verbs of the command line, by name."""
    commands: dict[str, TyperCommand] = getattr(context.find_root().command, "commands", {})
    return {name: command for name, command in commands.items() if not command.hidden}


def _common(context: typer.Context, verb: TyperCommand, words: Sequence[str]) -> Common:
    """The options in an incomplete command line that say which cluster is asked."""
    with verb.make_context(verb.name, [*words], parent=context, resilient_parsing=True) as parsed:
        given: dict[str, Any] = {name: parsed.params.get(name) for name in OF_CLUSTER}
        given["from_file"] = [Path(file) for file in given["from_file"] or ()]
        return Common(cast(typer.Context, parsed), **given)


def _pods(common: Common, last: str) -> Iterator[str]:
    """The pods of the namespace in the word, or in an option; first those that wait."""
    where, slash, _ = last.rpartition("/")
    namespace = where if slash else common.usual_namespace
    prefix = f"{namespace}/" if slash else ""
    for pod in sorted(
        _list(common, Pod, path_of("pods", namespace)), key=lambda pod: bool(pod.spec.node_name)
    ):
        if pod.metadata.namespace == namespace:
            yield f"{prefix}{pod.metadata.name}"


def _nodes(common: Common) -> Iterator[str]:
    """All nodes."""
    return (node.metadata.name for node in _list(common, Node, NODES.path))


def _labels(common: Common, last: str) -> set[str]:
    """NODE:KEY=VALUE, as far as the next sign: any node, any key of a label, or any value of the key."""
    nodes = _list(common, Node, NODES.path)
    node, colon, label = last.partition(":")
    key, equals, _ = label.partition("=")
    if equals:
        return {f"{node}:{key}={found}" for info in nodes if (found := info.metadata.labels.get(key))}
    if colon:
        return {f"{node}:{found}=" for info in nodes for found in info.metadata.labels}
    return {f"{node.metadata.name}:" for node in nodes}


def _taints(common: Common, last: str) -> set[str]:
    """NODE:KEY=VALUE:EFFECT: any node; then the taints that there are, and any effect for a new one."""
    nodes = _list(common, Node, NODES.path)
    node, colon, taint = last.partition(":")
    if not colon:
        return {f"{node.metadata.name}:" for node in nodes}
    key, effect, _ = taint.partition(":")
    if effect:
        return {f"{node}:{key}:{effect}" for effect in EFFECTS}
    return {f"{node}:{taint_text(taint)}" for info in nodes for taint in info.spec.taints}


def _namespaces(common: Common) -> Iterator[str]:
    """All namespaces."""
    return (namespace.metadata.name for namespace in _list(common, Namespace, NAMESPACES.path))


def _list(common: Common, kind: type[T], path: str) -> list[T]:
    with common.api() as api:
        return api.list(path, kind).items if api else common.read(None).of(kind)
