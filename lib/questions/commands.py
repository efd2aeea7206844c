"""The functions of the verbs: each reads, asks, prints, and returns what the answer comes to."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from lib.kube.escaping import escaped
from lib.kube.selectors import selects
from lib.kube.system import MACHINE
from lib.questions.admission import ServerSaid, not_asked
from lib.questions.asking import Common, ManifestFiles, Replicas, own_option
from lib.questions.compare import Comparison, Replacing
from lib.questions.device_claims import may_need_devices
from lib.questions.drain import Draining
from lib.questions.dry_run import DryRun
from lib.questions.errors import CommandLineError, QuestionError
from lib.questions.events import read_events
from lib.questions.files import save
from lib.questions.manifests import Workload, custom_resources, named, read_manifests, workloads_in
from lib.questions.past import AskingPast
from lib.questions.pending import Asking, read_uncreated
from lib.questions.printing import run_through
from lib.questions.recording.command import ask_record
from lib.questions.replay.command import ask_replay
from lib.questions.room import Filling
from lib.questions.show import show_compare, show_room, show_trial
from lib.questions.show_drain import show_drain
from lib.questions.show_past import show_past
from lib.questions.show_why import show_pending, show_why
from lib.questions.sizing.command import ask_size
from lib.questions.snapshot import (
    Snapshot,
    look_up_controllers,
    look_up_devices,
    look_up_for_drain,
    look_up_pod_groups,
)
from lib.questions.subjects import Subject, find_pods, parse_selector, subject
from lib.questions.trial import Placing, new_pods
from lib.questions.verdict import Verdict
from lib.questions.what_if import nodes_named
from lib.questions.why import why
from lib.scheduling.pod_groups import POD_GROUP
from lib.scheduling.volumes.claims import existing_claims


def ask_why(
    common: Common,
    pod: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[POD | TYPE/NAME]",
            help="A pod, with a node or without one: NAME or NAMESPACE/NAME; or all pods of deploy/NAME, "
            "sts/NAME and such. Without it, all pods that wait.",
        ),
    ] = None,
    all_namespaces: Annotated[
        bool,
        own_option("The pods of all namespaces.", "--all-namespaces", "-A"),
    ] = False,
    selector: Annotated[
        str,
        own_option("Pods with these labels: app=web.", "--selector", "-l", metavar="LABELS"),
    ] = "",
    since: Annotated[
        str,
        own_option(
            "With a recording in --from: who waited from then on. --at asks about one time.",
            metavar="TIME",
            show_default="the beginning of the recording",
        ),
    ] = "",
    until: Annotated[
        str,
        own_option(
            "With a recording in --from: who waited until then.",
            metavar="TIME",
            show_default="the end of the recording",
        ),
    ] = "",
) -> Verdict:
    """Why do pods wait, and what would help? Or why is a pod where it is?

    Of a recording, without --at: which pods waited between two times, for what, and what would have helped.

    Exit 0: it has a node, or would get one. 3: it fits nowhere. 4: it needs devices that can't be seen.
    """
    meant = subject(pod or (), "" if all_namespaces else common.usual_namespace)
    if common.recording and not common.at:
        return _why_past(common, meant, selector, since, until)
    if since or until:
        raise CommandLineError("--since and --until need a recording, and no --at: --from day.jsonl.gz")
    if meant.kind == "pod":
        if all_namespaces or selector:
            raise CommandLineError("-A and -l choose among all pods that wait: leave out the name")
        return _why_one(common, meant)
    wanted = parse_selector(selector)
    with common.api() as api:
        snapshot = common.read(api)
        pods = [pod for pod in find_pods(snapshot, meant) if selects(wanted, pod.metadata.labels)]
        waiting = [pod for pod in pods if not pod.spec.node_name]
        if api:
            look_up_controllers(api, snapshot, waiting)
        uncreated = read_uncreated(api, snapshot, meant) if api and not selector else []
    if meant.kind and not pods and not uncreated:
        raise QuestionError(f"there are no pods of {meant}")
    chosen = f" with {selector}" if selector else ""
    asking = Asking(pods, uncreated, snapshot, common.decider(snapshot), f"{meant.where}{chosen}")
    return common.ask(snapshot, asking, "asking about pods", show_pending)


def _why_past(common: Common, meant: Subject, selector: str, since: str, until: str) -> Verdict:
    """Why pods of a recording waited."""
    if common.add or common.remove or common.label or common.taint:
        raise CommandLineError(
            "--add, --remove, --label and --taint change a recorded cluster only at one time: --at"
        )
    assert common.recording
    labels = parse_selector(selector)
    asking = AskingPast(
        common.recording,
        (since, until),
        lambda pod: meant.covers(pod) and selects(labels, pod.metadata.labels),
        common.decider,
        f"{meant.where}{f' with {selector}' if selector else ''}",
    )
    return common.ask(asking.snapshot, asking, "asking about pods", show_past)


def _why_one(common: Common, meant: Subject) -> Verdict:
    with common.api() as api:
        snapshot = common.read(api)
        (asked,) = find_pods(snapshot, meant)
        if api:
            look_up_controllers(api, snapshot, [asked])
        decider = common.decider(snapshot)
        if api:
            claims = existing_claims(asked, decider.cache.storage)
            for about in (asked, *(claim for claim in claims if not claim.spec.volume_name)):
                read_events(api, snapshot, about)
    return common.show(snapshot, why(asked, snapshot, decider), show_why)


def _asked_of(
    common: Common, manifests: ManifestFiles, replicas: int | None = None
) -> tuple[list[Workload], Snapshot, ServerSaid]:
    """The workloads of manifests, the cluster with all other objects of theirs, and what the server said."""
    objects = read_manifests(manifests.names(), common.usual_namespace)
    if unversioned := [
        f"{named(manifest)}: it has no apiVersion" for manifest in objects if not manifest.get("apiVersion")
    ]:
        raise QuestionError(*unversioned)
    with common.api() as api:
        snapshot = common.read(api, manifests=True)
        if api:
            if any(mark in str(objects) for mark in (POD_GROUP, "schedulingGroup")):
                look_up_pod_groups(api, snapshot)
            if may_need_devices(list(objects)):
                look_up_devices(api, snapshot)
        dry_run = DryRun(api, objects, snapshot) if api else None
        if dry_run:
            objects = dry_run.stored()
        workloads = workloads_in(objects, snapshot, replicas)
        if dry_run:
            said = dry_run.ask(workloads)
        else:
            said = not_asked(workloads, snapshot, "the cluster is read from a file")
    heard_of = " ".join(said.unknown)
    said.unknown += [said for name, said in custom_resources(objects) if name not in heard_of]
    return workloads, snapshot, said


def ask_try(
    common: Common,
    manifests: ManifestFiles,
    replicas: Replicas = None,
    rollout: Annotated[
        bool,
        own_option("Show each step of the rollout of workloads that are there already.", "--rollout"),
    ] = False,
) -> Verdict:
    """Where would the pods of these manifests go, and who would have to leave for them?

    The API server is asked, too, whether it takes them: a dry run, which stores nothing.

    Exit 0: all would have a node. 3: some wouldn't. 4: it can't be said.
    """
    workloads, snapshot, said = _asked_of(common, manifests, replicas)
    decider = common.decider(snapshot)
    emptied = [
        workload for workload in workloads if workload.replicas == 0 and str(workload) not in said.refused
    ]
    placing = Placing(new_pods(workloads, snapshot, decider, said), decider, said, emptied=emptied)
    show = partial(show_trial, all_nodes=len(decider.cache.nodes), rollouts=rollout)
    return common.ask(snapshot, placing, "placing pods", show)


def ask_room(
    common: Common,
    manifests: ManifestFiles,
    most: Annotated[int, own_option("Try no more pods than this.", min=1, metavar="NUMBER")] = 10_000,
) -> Verdict:
    """How many more of these pods fit, one of each in turn, and what stops the next?

    Nobody has to leave for them. Exit 0: at least one more of each. 3: not even one. 4: it can't be said.
    """
    workloads, snapshot, said = _asked_of(common, manifests)
    filling = Filling(workloads, snapshot, common.decider(snapshot), most, said)
    return common.ask(snapshot, filling, "placing pods", show_room)


def ask_drain(
    common: Common,
    node: Annotated[
        list[str],
        typer.Argument(
            metavar="NODE...", help='The nodes to be drained: NAME, node/NAME, or a pattern: "gpu-*".'
        ),
    ],
) -> Verdict:
    """What would kubectl drain do: who leaves in which wave, where do they go, and where does it stick?

    Exit 0: all are evicted, and have other nodes. 3: not all. 4: some need devices, or nobody knows when
    they are gone.
    """
    with common.api() as api:
        snapshot = common.read(api)
        nodes = [found.metadata.name for found in nodes_named(snapshot, node)]
        if api:
            look_up_for_drain(api, snapshot, nodes)
    return common.ask(
        snapshot, Draining(nodes, common.decider(snapshot), snapshot), "moving pods", show_drain
    )


def ask_save(
    common: Common,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; - is standard output.")],
    force: Annotated[bool, own_option("Replace a file that is there already.", "--force")] = False,
) -> Verdict:
    """Write the cluster into one file, for --from: nodes, pods, and what decisions need.

    Left out are environment, commands, most annotations, and secrets, which are never read.
    """
    if str(file) != "-" and file.exists() and not force:
        raise QuestionError(f"{file} is there already: name another file, or replace it with --force")
    with common.api() as api:
        snapshot = common.read(api, whole=True)
    held = save(snapshot, file)
    common.tell_notes(snapshot)
    if str(file) != "-":
        typer.echo(escaped(f"{file}: {held}"))
    return Verdict.YES


def ask_compare(
    common: Common,
    config: Annotated[
        list[Path],
        own_option(
            "A KubeSchedulerConfiguration. Give two or more; the others are compared with the first.",
            metavar="FILE.yaml",
        ),
    ],
    pending: Annotated[bool, own_option("Let pods that have a node keep it.", "--pending")] = False,
) -> Verdict:
    """How would these configurations place all pods: placed, pending, nodes used, imbalance?

    All pods are placed anew by each, but for DaemonSets' and static ones.

    Exit 0: no pod goes elsewhere. 3: some do.
    """
    if len(config) < 2:
        raise CommandLineError("compare needs two configurations: --config A.yaml --config B.yaml")
    with common.api() as api:
        snapshot = common.read(api, whole=True)
    seed = common.seed if common.seed is not None else MACHINE.random().getrandbits(32)
    results = []
    for file in config:
        decider = common.decider(snapshot, file, MACHINE.random(seed))  # the same draws among equal nodes
        replacing = Replacing(str(file), snapshot, decider, pending_only=pending)
        run_through(replacing, f"placing pods by {file}")
        results.append(replacing.answer)
    return common.show(snapshot, Comparison(results), show_compare)


ALL: Mapping[str, Callable[..., Verdict]] = {
    "why": ask_why,
    "try": ask_try,
    "room": ask_room,
    "drain": ask_drain,
    "save": ask_save,
    "compare": ask_compare,
    "record": ask_record,
    "replay": ask_replay,
    "size": ask_size,
}
"""The functions by the verb's name."""
