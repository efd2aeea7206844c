"""The verb `size`: the cheapest nodes on which all pods fit."""

from typing import Annotated

from rich.console import Console

from lib.kube.escaping import escaped
from lib.kube.objects import Node
from lib.questions.asking import Common, ManifestFiles, Replicas, own_option
from lib.questions.errors import CommandLineError, QuestionError
from lib.questions.manifests import read_manifests, workloads_in
from lib.questions.sizing.node_types import FORM, like_nodes, node_types
from lib.questions.sizing.search import SizeSearch
from lib.questions.sizing.show import Sized, show_size
from lib.questions.sizing.trying import Trying
from lib.questions.snapshot import Snapshot
from lib.questions.verdict import Verdict

MOST_PODS = 5000
"""The most pods that are placed; each is placed hundreds of times."""


def ask_size(
    common: Common,
    manifests: ManifestFiles,
    replicas: Replicas = None,
    node_type: Annotated[
        list[str] | None,
        own_option(
            "A type of node: what its pods can have (cpu, memory, pods, other resources), its price, "
            "and perhaps most:10, zones:a/b/c, label:KEY=VALUE, taint:KEY=VALUE:EFFECT, volumes/DRIVER:25. "
            "Can be given several times. Without it, for a cluster: nodes like its own.",
            metavar=FORM,
        ),
    ] = None,
    max_utilization: Annotated[
        float,
        own_option(
            "How much of a new node's cpu and memory pods may request.", min=1, max=100, metavar="PERCENT"
        ),
    ] = 100,
) -> Verdict:
    """The cheapest nodes on which all pods fit, each choice tried by placing them as the scheduler would.

    With -f these are the pods of manifests, on nodes of their own. Without it, those that wait in a cluster,
    on nodes beside its own. They must fit in each of three orders of arrival, and nobody is evicted.

    Exit 0: there is an answer. 3: some pods fit on none of these nodes.
    """
    snapshot, workloads = Snapshot(), None
    if manifests.filename or manifests.kustomize:
        workloads = workloads_in(
            read_manifests(manifests.names(), common.namespace or "default"), snapshot, replicas
        )
        if not node_type:
            raise CommandLineError(f"which nodes can be had? --node-type {FORM}")
    else:
        with common.api() as api:
            snapshot = common.read(api, whole=True)
    share = max_utilization / 100
    taken = {node.metadata.name for node in snapshot.of(Node)}
    types = node_types(node_type, share, taken) if node_type else like_nodes(snapshot, share)
    if not types:
        raise QuestionError(f"the cluster has no nodes to have more of: --node-type {FORM}")
    trying = Trying(snapshot, types, workloads, common.decider)
    waiting = trying.waiting()
    if len(waiting) > MOST_PODS:
        raise QuestionError(f"these are {len(waiting):,} pods; size places no more than {MOST_PODS:,}")
    if not waiting and workloads is None:
        raise QuestionError("no pod waits in this cluster: it needs no more nodes")
    with Console(stderr=True, markup=False).status("placing pods") as status:
        found = SizeSearch(trying, waiting, lambda text: status.update(escaped(text))).run()
    nodes = trying.place(found.counts).nodes if found.counts else []
    answer = Sized(found, types, len(waiting), nodes, trying.tried, more=workloads is None)
    return common.show(snapshot, answer, show_size)
