"""The functions of the verbs: each reads, asks, prints, and returns whether the answer is yes."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from lib.kube.escaping import escaped
from lib.kube.objects import Pod
from lib.questions.asking import Common, now
from lib.questions.compare import Comparison, Replacing
from lib.questions.drain import Draining
from lib.questions.errors import QuestionError
from lib.questions.events import read_events
from lib.questions.files import save
from lib.questions.manifests import read_manifests, workloads_in
from lib.questions.page import run_through
from lib.questions.room import Filling
from lib.questions.show import show_compare, show_drain, show_room, show_trial
from lib.questions.show_why import show_why
from lib.questions.snapshot import look_up_controllers, look_up_pod_groups
from lib.questions.trial import Placing, new_pods
from lib.questions.why import find_pod, why


def ask_why(
    common: Common,
    pod: Annotated[
        str, typer.Argument(metavar="POD", help="A pod, with a node or without one: NAME or NAMESPACE/NAME.")
    ],
) -> bool:
    """Why does a pod wait, and what would help? Or why is it where it is?

    Exit 0: it has a node, or would get one. 3: it fits nowhere.
    """
    with common.api() as api:
        snapshot = common.read(api)
        asked = find_pod(snapshot, pod, common.namespace)
        if api:
            look_up_controllers(api, snapshot, [asked])
            read_events(api, snapshot, asked)
    common.what_if.apply(snapshot)
    answer = why(asked, snapshot, common.decider(snapshot))
    return common.show(snapshot, answer, lambda page: show_why(answer, page, now()))


Manifests = Annotated[
    list[Path],
    typer.Option(
        "--filename",
        "-f",
        metavar="FILE",
        show_envvar=False,
        help="Manifests of pods, Deployments and such; - is standard input. Can be given several times.",
    ),
]

Replicas = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="NUMBER",
        show_envvar=False,
        help="Take this many replicas, whatever the manifests say.",
    ),
]


def ask_try(common: Common, filename: Manifests, replicas: Replicas = None) -> bool:
    """Where would the pods of these manifests go, and who would have to leave for them?

    Exit 0: all would have a node. 3: some wouldn't.
    """
    objects = read_manifests(filename, common.namespace)
    with common.api() as api:
        snapshot = common.read(api, manifests=True)
        if api:
            look_up_pod_groups(api, snapshot, [str(objects)])
    common.what_if.apply(snapshot)
    workloads = workloads_in(objects, snapshot, replicas)
    decider = common.decider(snapshot)
    new = new_pods(workloads, snapshot, decider)
    placing = Placing(new, decider)
    run_through(placing.steps(), len(new), "placing pods")
    trial = placing.trial
    return common.show(snapshot, trial, lambda page: show_trial(trial, page, len(decider.cache.nodes)))


def ask_room(
    common: Common,
    filename: Manifests,
    most: Annotated[
        int, typer.Option(min=1, metavar="NUMBER", show_envvar=False, help="Try no more pods than this.")
    ] = 10_000,
) -> bool:
    """How many more of these pods fit, one of each in turn, and what stops the next?

    Nobody has to leave for them. Exit 0: at least one more of each. 3: not even one.
    """
    objects = read_manifests(filename, common.namespace)
    with common.api() as api:
        snapshot = common.read(api, manifests=True)
        if api:
            look_up_pod_groups(api, snapshot, [str(objects)])
    common.what_if.apply(snapshot)
    workloads = workloads_in(objects, snapshot)
    filling = Filling(workloads, snapshot, common.decider(snapshot), most)
    run_through(filling.steps(), most, "placing pods")
    return common.show(snapshot, filling.room, lambda page: show_room(filling.room, page))


def ask_drain(
    common: Common,
    node: Annotated[list[str], typer.Argument(metavar="NODE...", help="The nodes to be drained.")],
) -> bool:
    """Where would the pods of these nodes go, and which budgets stand in the way?

    Exit 0: all would have a node, and may be evicted. 3: not all.
    """
    with common.api() as api:
        snapshot = common.read(api)
        if api:
            look_up_controllers(
                api, snapshot, [pod for pod in snapshot.of(Pod) if pod.spec.node_name in node]
            )
    common.what_if.apply(snapshot)
    draining = Draining(node, common.decider(snapshot))
    run_through(draining.steps(), len(draining), "moving pods")
    return common.show(snapshot, draining.drain, lambda page: show_drain(draining.drain, page))


def ask_save(
    common: Common,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; - is standard output.")],
) -> bool:
    """Write the cluster into one file, for --from: nodes, pods, and what decisions need.

    Left out are environment, commands, most annotations, and secrets, which are never read.
    """
    with common.api() as api:
        snapshot = common.read(api, whole=True)
    common.what_if.apply(snapshot)
    held = save(snapshot, file)
    common.tell_notes(snapshot)
    if str(file) != "-":
        typer.echo(escaped(f"{file}: {held}"))
    return True


def ask_compare(
    common: Common,
    config: Annotated[
        list[Path],
        typer.Option(
            metavar="FILE.yaml",
            show_envvar=False,
            help="A KubeSchedulerConfiguration. Give two or more; the others are compared with the first.",
        ),
    ],
    pending: Annotated[
        bool, typer.Option("--pending", show_envvar=False, help="Let pods that have a node keep it.")
    ] = False,
) -> bool:
    """How would these configurations place all pods: placed, pending, nodes used, imbalance?

    All pods are placed anew by each, but for DaemonSets' and static ones.

    Exit 0: no pod goes elsewhere. 3: some do.
    """
    if len(config) < 2:
        raise QuestionError("compare needs two configurations: --config A.yaml --config B.yaml")
    with common.api() as api:
        snapshot = common.read(api, whole=True)
    common.what_if.apply(snapshot)
    results = []
    for file in config:
        decider = common.decider(snapshot, file)
        replacing = Replacing(str(file), snapshot, decider, pending_only=pending)
        run_through(replacing.steps(), len(replacing), f"placing pods by {file}")
        results.append(replacing.result)
    return common.show(snapshot, Comparison(results), lambda page: show_compare(results, page))


ALL: Mapping[str, Callable[..., bool]] = {
    "why": ask_why,
    "try": ask_try,
    "room": ask_room,
    "drain": ask_drain,
    "save": ask_save,
    "compare": ask_compare,
}
"""The functions by the verb's name."""
