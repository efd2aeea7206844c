"""The default profile decides as kube-scheduler 1.36 did, on 388 small clusters with a pod each.

The answers come from running the plugins; the recorded ones are only compared with. kube-scheduler also ran
DynamicResources, which scores every node alike here.
"""

import gzip
import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from all_cases import check_each
from objects import read

from lib.kube.objects import Node, Pod
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.looked_up import LookedUp
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.scheduling_cycle import Scheduler


@cache
def cases() -> list[dict[str, Any]]:
    file = Path(__file__).parent / "data" / "decisions-1.36.jsonl.gz"
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


NOT_OURS = "DynamicResources"


def decide(case: dict[str, Any]) -> Decision:
    cluster = Cache(
        [read(Node, each) for each in case["nodes"]],
        [read(Pod, each) for each in case["bound"]],
        looked_up=LookedUp(case["namespaces"]),
    )
    return Scheduler(default_profile("my-scheduler"), Random(case["seed"])).schedule_one(
        read(Pod, case["pod"]), cluster
    )


def test_there_are_as_many_as_were_recorded() -> None:
    assert len(cases()) == 388


@pytest.mark.parametrize("part", range(8))
def test_decides_as_kube_scheduler(part: int) -> None:
    named = ((f"{case['focus']}-{case['seed']}", case) for case in cases()[part::8])
    check_each(named, decides_alike)


def decides_alike(case: dict[str, Any]) -> None:
    decision, answer = decide(case), case["answer"]
    assert decision.outcome == answer["outcome"]
    if answer["outcome"] == Outcome.UNSCHEDULABLE:
        assert decision.message == answer["message"]
        return
    assert sorted(decision.scores) == sorted(answer["feasible"])
    for node, scores in answer["scores"].items():
        assert decision.scores[node] == {name: score for name, score in scores.items() if name != NOT_OURS}
    assert decision.totals[answer["node"]] == max(decision.totals.values())
    assert decision.node_name in answer["feasible"]
    assert decision.totals[decision.node_name] == max(decision.totals.values())
