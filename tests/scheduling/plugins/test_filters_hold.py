"""Whatever is scheduled in whatever order: no pod is put where a filter, asked afresh, would not have it."""

from collections import Counter
from random import Random
from typing import Any

from hypothesis import given, settings, strategies as st
from objects import node
from plugin_harness import HOSTNAME, filter_one, labelled, selecting, taint

from lib.kube.objects import Node, Pod
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import PreFilterPlugin, implements
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.resources import amounts, pod_requests
from lib.scheduling.scheduling_cycle import Scheduler
from lib.scheduling.status import SKIP, CycleState, Status

PROFILE = default_profile("my-scheduler")
GPU = "example.com/gpu"

# --- clusters and pods ------------------------------------------------------------------------------------

zones = st.sampled_from(["east", "west"])
room = st.fixed_dictionaries(
    {name: st.sampled_from(["1", "3", "8"]) for name in ("cpu", "memory", GPU, "pods")}
)
requests = st.dictionaries(
    st.sampled_from(["cpu", "memory", GPU]), st.sampled_from(["0", "1", "2"]), max_size=2
)
taints = st.sampled_from(["", "", "old:NoSchedule", "old:NoExecute"])


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    found = []
    for name in "abc"[: draw(st.integers(1, 3))]:
        zone = draw(st.fixed_dictionaries({}, optional={"zone": zones}))
        tainted = [taint(each) for each in [draw(taints)] if each]
        cordoned = draw(st.integers(0, 9)) == 9
        found.append(node(name, {HOSTNAME: name, **zone}, draw(room), taints=tainted, unschedulable=cordoned))
    return found


near = st.builds(
    lambda key, app: {"topologyKey": key, "labelSelector": selecting(f"app={app}")},
    st.sampled_from([HOSTNAME, "zone"]),
    st.sampled_from(["web", "db"]),
)
required = near.map(lambda term: {"requiredDuringSchedulingIgnoredDuringExecution": [term]})
spread = st.builds(
    lambda term, skew: {**term, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule"},
    near,
    st.integers(1, 2),
)
demands = st.one_of(
    st.builds(lambda zone: {"nodeSelector": {"zone": zone}}, zones),
    st.just({"tolerations": [{"key": "old", "operator": "Exists"}]}),
    st.builds(lambda terms: {"affinity": {"podAffinity": terms}}, required),
    st.builds(lambda terms: {"affinity": {"podAntiAffinity": terms}}, required),
    st.builds(lambda constraint: {"topologySpreadConstraints": [constraint]}, spread),
)
"""What a pod may ask for besides resources and ports."""


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    ports = [{"hostPort": 80}] if draw(st.integers(0, 2)) == 2 else []
    spec: dict[str, Any] = {"containers": [{"resources": {"requests": draw(requests)}, "ports": ports}]}
    for demand in draw(st.lists(demands, max_size=2)):
        spec |= demand
    return labelled(f"app={draw(st.sampled_from(['web', 'db']))}", **spec)


# --- what must hold ---------------------------------------------------------------------------------------


def feasible(pod: Pod, cluster: Cache) -> set[str]:
    """The nodes that no filter rejects, each asked for itself with nothing known from before."""
    found = set(cluster.nodes)
    for plugin in PROFILE.filters():
        state: CycleState = {}
        answer = plugin.pre_filter(state, pod, cluster) if implements(plugin, PreFilterPlugin) else None
        if answer == SKIP:
            continue
        if isinstance(answer, Status):
            return set()
        if answer is not None:
            found &= answer
        found = {name for name in found if filter_one(plugin, state, pod, cluster, name) is None}
    return found


def not_overfull(node: NodeInfo, here: list[Pod]) -> None:
    has = amounts(node.node.status.allocatable)
    used: Counter[str] = Counter()
    for pod in here:
        used.update(pod_requests(pod))
    assert len(here) <= has["pods"]
    assert all(amount <= has.get(name, 0) for name, amount in used.items())


def no_port_twice(here: list[Pod]) -> None:
    ports = [port.host_port for pod in here for each in pod.spec.containers for port in each.ports]
    assert len(ports) == len(set(ports))


@settings(max_examples=100)
@given(nodes(), st.lists(pods(), min_size=2, max_size=8), st.integers(0, 2**32))
def test_no_pod_is_put_where_a_filter_rejects_it(has: list[Node], wanted: list[Pod], seed: int) -> None:
    cluster, scheduler = Cache(has, []), Scheduler(PROFILE, Random(seed))
    placed: list[tuple[Pod, str]] = []
    for pod in wanted:
        before = Cache(has, [])
        for other, place in placed:
            before.assume(other, place)
        fit = feasible(pod, before)
        decision = scheduler.schedule_one(pod, cluster)
        assert (decision.node_name in fit) if fit else not decision.node_name
        if decision.node_name:
            placed.append((pod, decision.node_name))

    for name, info in cluster.nodes.items():
        here = [pod for pod, place in placed if place == name]
        assert info.pods == here
        not_overfull(info, here)
        no_port_twice(here)
