"""poller answers as kube-scheduler's own plugins did, for pods and clusters of Kubernetes' unit tests.

`scripts/compare` asks these plugins for new ones, where KUBE_SCHEDULER_ASK names the program.
"""

import os
import subprocess
import sys
from copy import deepcopy
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from all_cases import check_each

from scripts.comparison.__main__ import asks
from scripts.comparison.cases import PLUGINS, recorded
from scripts.comparison.differences import differences
from scripts.comparison.intended import reason_for
from scripts.comparison.kube_scheduler import PROGRAM

lines = cache(recorded)


def line(name: str) -> Any:
    return deepcopy(next(each for each in lines() if each["ask"]["id"] == name))


def test_there_are_as_many_as_were_recorded() -> None:
    assert len(lines()) == 968
    assert {each["name"] for line in lines() for each in line["ask"]["plugins"]} >= {*PLUGINS}


def answers_alike(recorded: Any) -> None:
    assert differences(recorded["ask"], recorded["answer"]) == []


@pytest.mark.parametrize("part", range(4))
def test_answers_as_kube_scheduler(part: int) -> None:
    check_each(((line["ask"]["id"], line) for line in lines()[part::4]), answers_alike)


# --- what is compared -------------------------------------------------------------------------------------


def test_each_part_of_an_answer_is_compared() -> None:
    """Another answer is a difference: of a filter, of a score, of PreFilter."""
    found = line("extended resource of a DeviceClass in scoringStrategy.resources")
    for path, value in (
        (("filter", "n1", "code"), "Unschedulable"),
        (("scores", "n1", "NodeResourcesFit"), 65),
        (("preFilter", "code"), "Error"),
        (("preFilter", "code"), "Unschedulable"),
        (("score", "code"), "Error"),
    ):
        answer = deepcopy(found["answer"])
        part = answer
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = value
        assert differences(found["ask"], answer), path


def test_reasons_victims_gates_and_hints_are_compared() -> None:
    names = (
        "reasons on a node with a nominated pod",
        "two anti-affinity terms: a change frees the node for one",
    )
    reasons, hint = map(line, names)
    reasons["answer"]["filter"]["n1"]["reasons"] = ["Too many pods"]
    assert differences(reasons["ask"], reasons["answer"])
    for change in hint["ask"]["changes"]:
        change["new"] = change["old"]  # then it helps nobody
    assert differences(hint["ask"], hint["answer"]) == []
    preempting = deepcopy(next(each for each in lines() if each["answer"].get("deleted")))
    preempting["answer"]["deleted"] = ["another"]
    assert [each.what for each in differences(preempting["ask"], preempting["answer"])] == ["victims"]
    gated = deepcopy(next(each for each in lines() if each["answer"].get("preEnqueue")))
    gated["answer"] = {}
    assert [each.what for each in differences(gated["ask"], gated["answer"])] == ["PreEnqueue"]


def test_what_differs_on_purpose_is_known_with_its_reason() -> None:
    """What kube-scheduler 1.36.2 answered: the other pod's namespace has the label, so no term matches it."""
    selector = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]}
    labels = {"matchLabels": {"app": "x"}}
    term = {"labelSelector": labels, "topologyKey": "zone", "namespaceSelector": selector}
    far = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    containers = [{"name": "c"}]
    names = {"name": "other", "uid": "o", "namespace": "other", "labels": {"app": "x"}}
    running = {"metadata": names, "spec": {"containers": containers, "nodeName": "a"}}
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    node = {"metadata": {"name": "a", "labels": {"zone": "a"}}, "status": {"allocatable": room}}
    ask = {
        "plugins": [{"name": "InterPodAffinity"}],
        "pod": {
            "metadata": {"name": "web", "uid": "w", "namespace": "default"},
            "spec": {"containers": containers, "affinity": far},
        },
        "nodes": [{"node": node, "pods": [running]}],
        "objects": {"Namespace": [{"metadata": {"name": "other", "labels": {"team": "red"}}}]},
        "want": ["filter"],
    }
    said = {"code": "Unschedulable", "reasons": ["node(s) didn't match pod anti-affinity rules"]}
    answer = {"preFilter": {"code": "Success"}, "filter": {"a": said}}
    assert [each.what for each in differences(ask, answer)] == ["filter a"]
    assert "141526" in reason_for(ask)
    selector["matchExpressions"][0]["operator"] = "In"
    assert reason_for(ask) == ""


# --- new cases ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["NodeResourcesFit", "profile", "DynamicResources/hints"])
def test_a_seed_always_means_the_same(kind: str) -> None:
    first, again, other = ([*islice(asks(kind, seed), 5)] for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.skipif(PROGRAM not in os.environ, reason=f"{PROGRAM} names no program")
def test_new_cases_are_answered_alike() -> None:
    command = [sys.executable, "-m", "scripts.comparison", "--cases=20", "--seed=3"]
    root = Path(__file__).parent.parent
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("20 equal") >= len(PLUGINS)
