"""ActualLoad: what it makes of samples, of old ones, and of none."""

from datetime import UTC, datetime, timedelta

import pytest
from objects import node, pod

from lib.kube.objects import NodeMetrics, ObjectMeta
from lib.kube.quantity import Quantity
from lib.scheduling.cache import Cache
from lib.scheduling.handle import Handle
from lib.scheduling.looked_up import MAX_SAMPLES, REFRESH, Load, LookedUp
from lib.scheduling.plugins.actual_load import ActualLoad
from lib.service.config.plugin_arguments import ActualLoadArgs

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def sample(cpu: str, seconds_ago: float = 20, memory: str = "0") -> NodeMetrics:
    usage = {"cpu": Quantity.parse(cpu), "memory": Quantity.parse(memory)}
    return NodeMetrics(ObjectMeta("n1"), NOW - timedelta(seconds=seconds_ago), usage)


def score(samples: list[NodeMetrics], requested: str = "1", target: int = 0) -> int:
    """Of a node with 10 cpu and 10 Gi on which a pod requests 4 cpu, for a pod that requests `requested`."""
    load = Load()
    for each in reversed(samples):
        load = load.with_more([each], now=0)
    there = pod("there", requests={"cpu": "4", "memory": "1"}, nodeName="n1")
    there.status.start_time = NOW - timedelta(hours=1)
    cache = Cache([node("n1", has={"cpu": "10", "memory": "10Gi"})], [there], LookedUp(load=load))
    plugin = ActualLoad(target, handle=Handle(now=lambda: NOW))
    new, state = pod("new", requests={"cpu": requested, "memory": "1"}), {}
    plugin.pre_score(state, new, cache, cache.node_list)
    return plugin.score(state, new, cache.nodes["n1"])


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([sample("1")], 90),  # 1 and 1 of 10 cpu: 20 %, so the risk is 10 %
        ([sample("9")], 50),
        ([sample("20")], 0),
        ([sample("2"), sample("4", 35)], 75),  # 30 % on average and 10 % for the pod, 10 % deviation
        ([sample("0", memory="9Gi")], 55),  # of memory a larger share is used
        ([], 75),  # 4 and 1 of 10 cpu are requested
        ([sample("9", seconds_ago=181)], 75),  # too old
        ([sample("1"), sample("9", 181)], 90),
    ],
)
def test_the_less_is_used_and_the_less_that_varies_the_better(
    samples: list[NodeMetrics], expected: int
) -> None:
    assert score(samples) == expected


@pytest.mark.parametrize(
    ("cpu", "expected"), [("0", 67), ("2", 80), ("5", 100), ("5100m", 58), ("7", 30), ("9", 0), ("20", 0)]
)
def test_up_to_the_target_the_more_is_used_the_better(cpu: str, expected: int) -> None:
    assert score([sample(cpu)], target=60) == expected


def test_pods_that_came_since_count_with_their_requests() -> None:
    samples = [sample("1")]
    load = Load().with_more(samples, now=0)
    came = pod("came", requests={"cpu": "4", "memory": "1"}, nodeName="n1")
    came.status.start_time = NOW - timedelta(seconds=45)  # the sample is of 50 to 20 s ago
    assumed = pod("assumed", requests={"cpu": "3", "memory": "1"}, nodeName="n1")
    cache = Cache([node("n1", has={"cpu": "10", "memory": "10Gi"})], [came, assumed], LookedUp(load=load))
    plugin, state = ActualLoad(handle=Handle(now=lambda: NOW)), {}
    new = pod("new", requests={"cpu": "1", "memory": "1"})
    plugin.pre_score(state, new, cache, cache.node_list)
    assert plugin.score(state, new, cache.nodes["n1"]) == 55  # 1 + 4 + 3 + 1 of 10


def test_only_so_many_samples_are_kept_and_none_twice() -> None:
    load = Load()
    assert load.is_old(0)
    for i in range(50):
        load = load.with_more([sample("1", 50 - i // 2)], now=i)
    assert len(load.since("n1", NOW - timedelta(hours=1))) == MAX_SAMPLES
    assert not load.is_old(49 + REFRESH - 1)
    assert load.is_old(49 + REFRESH)
    assert load.with_more([], now=50).since("n1", NOW - timedelta(hours=1)) == []  # the node is gone


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (ActualLoadArgs(target_utilization=100), "x.targetUtilization: 100 is not between 0 and 99"),
        (ActualLoadArgs(max_age=0), "x.maxAge: must be more than 0 s"),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_is_refused(args: ActualLoadArgs, problem: str) -> None:
    assert [*args.problems("x")] == [problem]
