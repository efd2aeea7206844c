"""What-if changes of a cluster: more or fewer nodes, other labels and taints."""

import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import count as numbers, islice

from lib.kube.objects import HOSTNAME, Node, Pod, Taint, with_parts
from lib.kube.pod_validation import EFFECTS
from lib.kube.storage import CSINode
from lib.questions.errors import CommandLineError, QuestionError
from lib.questions.snapshot import Snapshot
from lib.scheduling.text import count, verb
from lib.scheduling.workloads import belongs_to_node


def change_cluster(
    snapshot: Snapshot,
    *,
    add: int,
    like: str,
    remove: Iterable[str],
    labels: Iterable[str],
    taints: Iterable[str],
) -> None:
    """Change a snapshot as the what-if options say.

    add: how many new nodes like the node `like`. remove: nodes to remove, with their pods. labels:
    `NODE:KEY=VALUE`, or `NODE:KEY-` for none; taints: `NODE:KEY=VALUE:EFFECT`, or `NODE:KEY-`. NODE may be a
    pattern with * in it. QuestionError when a node doesn't exist, or an option is invalid.
    """
    for text in labels:
        _change_nodes(snapshot, text, "--label", _with_label)
    for text in taints:
        _change_nodes(snapshot, text, "--taint", _with_taint)
    if add or like:
        if not like or add < 1:
            raise CommandLineError(
                "--add NUMBER and --like NODE belong together: how many nodes, and like which?"
            )
        first, *_ = nodes_named(snapshot, [like])
        drivers = snapshot.of(CSINode)
        for new in copies(first, snapshot.of(Pod), add, snapshot.of(Node), drivers):
            snapshot.of(Node).append(new.node)
            snapshot.of(Pod).extend(new.pods)
            drivers.extend([new.csi_node] if new.csi_node else ())
    for node in nodes_named(snapshot, remove):
        _remove(snapshot, node)


def nodes_named(snapshot: Snapshot, texts: Iterable[str], where: str = "") -> list[Node]:
    """The nodes of these names or patterns, also after `node/`. QuestionError when one matches none."""
    there, found = snapshot.of(Node), dict[str, Node]()
    for text in texts:
        pattern = re.sub("^(nodes?|no)/", "", text)
        meant = {node.metadata.name: node for node in there if fnmatchcase(node.metadata.name, pattern)}
        if not meant:
            others = f"there {verb(len(there), 'is', 'are')} {count(len(there), 'node')}"
            raise QuestionError(f"{where}there is no node {pattern}; {others}")
        found |= meant
    return [*found.values()]


@dataclass(frozen=True)
class NewNode:
    """A node that doesn't exist yet, with pods of DaemonSets and, if known, drivers of volumes."""

    node: Node
    pods: tuple[Pod, ...]
    csi_node: CSINode | None = None


def copies(
    like: Node,
    pods: Iterable[Pod],
    number: int,
    nodes: Iterable[Node] = (),
    csi_nodes: Iterable[CSINode] = (),
) -> list[NewNode]:
    """New nodes like an existing one: with pods like those of its DaemonSets, and with its drivers.

    They are ready and not cordoned. Their names are new.
    """
    csi_node = next(
        (csi_node for csi_node in csi_nodes if csi_node.metadata.name == like.metadata.name), None
    )
    named = {node.metadata.name for node in nodes}
    own = [pod for pod in pods if pod.spec.node_name == like.metadata.name and belongs_to_node(pod)]
    names = new_names(f"{like.metadata.name}-copy", number, named)
    return [_copy(like, own, csi_node, name) for name in names]


def new_names(beginning: str, number: int, taken: Container[str]) -> list[str]:
    """Names for so many new nodes, numbered from 1. Those that are taken are left out."""
    names = (f"{beginning}-{i}" for i in numbers(1))
    return [*islice((name for name in names if name not in taken), number)]


def _copy(like: Node, pods: Sequence[Pod], csi_node: CSINode | None, name: str) -> NewNode:
    labels = {**like.metadata.labels, **({HOSTNAME: name} if HOSTNAME in like.metadata.labels else {})}
    taints = [taint for taint in like.spec.taints if not taint.key.startswith("node.kubernetes.io/")]
    node = with_parts(
        like,
        metadata={"name": name, "uid": f"uid-of-{name}", "labels": labels},
        spec={"unschedulable": False, "taints": taints},
    )
    drivers = csi_node and with_parts(csi_node, metadata={"name": name, "uid": f"uid-of-csi-{name}"})
    return NewNode(node, tuple(moved(pod, name) for pod in pods), drivers)


def moved(pod: Pod, node_name: str) -> Pod:
    """A pod like this one on another node."""
    there = {"name": f"{pod.metadata.name}-on-{node_name}", "uid": f"{pod.metadata.uid}-on-{node_name}"}
    return with_parts(pod, metadata=there, spec={"node_name": node_name})


def _remove(snapshot: Snapshot, node: Node) -> None:
    snapshot.of(Node).remove(node)
    name, pods = node.metadata.name, snapshot.of(Pod)
    kept = [pod for pod in pods if pod.spec.node_name != name]
    snapshot.objects[Pod] = [*kept]
    if gone := len(pods) - len(kept):
        pods_are = f"{count(gone, 'pod')} {verb(gone, 'is', 'are')}"
        snapshot.note(f"without {name} its {pods_are} gone, too (see drain for where they go)")


def _change_nodes(
    snapshot: Snapshot, text: str, option: str, change: Callable[[Node, str, str], Node]
) -> None:
    """Change the nodes that an option's text names before its first colon."""
    pattern, colon, what = text.partition(":")
    where = f"{option} {text}"
    if not colon or not what:
        form = "KEY=VALUE" if option == "--label" else "KEY=VALUE:EFFECT"
        raise CommandLineError(f"{where}: write NODE:{form}")
    nodes, meant = snapshot.of(Node), {*nodes_named(snapshot, [pattern], f"{where}: ")}
    nodes[:] = [change(node, what, where) if node in meant else node for node in nodes]


def _with_label(node: Node, what: str, where: str) -> Node:
    labels = dict(node.metadata.labels)
    key, equals, value = what.partition("=")
    if not equals and key.endswith("-"):
        labels.pop(key[:-1], None)
    elif equals and key:
        labels[key] = value
    else:
        raise CommandLineError(f"{where}: write KEY=VALUE, or KEY- to take the label away")
    return with_parts(node, metadata={"labels": labels})


def _with_taint(node: Node, what: str, where: str) -> Node:
    if what.endswith("-"):
        pair, _, effect = what[:-1].partition(":")
        key = pair.partition("=")[0]  # kubectl takes a value, too, and doesn't look at it
        taints = [taint for taint in node.spec.taints if taint.key != key or effect not in ("", taint.effect)]
    else:
        new = parse_taint(what, where)
        taints = [taint for taint in node.spec.taints if (taint.key, taint.effect) != (new.key, new.effect)]
        taints.append(new)
    return with_parts(node, spec={"taints": taints})


def parse_taint(text: str, where: str) -> Taint:
    """The taint KEY=VALUE:EFFECT. QuestionError when it is something else."""
    pair, _, effect = text.partition(":")
    key, _, value = pair.partition("=")
    if effect not in EFFECTS or not key:
        raise CommandLineError(f"{where}: write KEY=VALUE:EFFECT; an effect is one of {', '.join(EFFECTS)}")
    return Taint(key, value, effect)


def shapes(nodes: Iterable[Node]) -> list[Node]:
    """One node of each shape, the most frequent shape first. Nodes of a shape differ only in their names."""
    alike: dict[object, list[Node]] = defaultdict(list)
    for node in nodes:
        labels = frozenset(label for label in node.metadata.labels.items() if label[0] != HOSTNAME)
        taints = frozenset((taint.key, taint.value, taint.effect) for taint in node.spec.taints)
        alike[labels, taints, frozenset(node.status.allocatable.items())].append(node)
    return [nodes_alike[0] for nodes_alike in sorted(alike.values(), key=len, reverse=True)]
