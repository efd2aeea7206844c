"""The table of --explain."""

import io
import sys
from random import Random

import pytest
from objects import node, pod

from lib.kube.objects import Node, Pod
from lib.scheduling.cache import Cache
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.telemetry.explain import as_table


class Terminal(io.StringIO):
    """Says that it is a terminal; its width is in $COLUMNS."""

    def isatty(self) -> bool:
        return True


def table(
    monkeypatch: pytest.MonkeyPatch, asked: Pod, nodes: list[Node], *pods: Pod, out: io.StringIO | None = None
) -> list[str]:
    """The lines that are printed of a decision, with one space between words. out: by default, a file."""
    out = out or io.StringIO()
    monkeypatch.setattr(sys, "__stdout__", out)
    scheduler = Scheduler(default_profile("default-scheduler"), Random(1))
    as_table(scheduler.schedule_one(asked, Cache(nodes, pods)), "the headline")
    return [" ".join(line.split()) for line in out.getvalue().splitlines() if line.strip()]


def test_the_picked_node_comes_first_then_the_others_by_their_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [
        node("small", has={"cpu": "2"}),
        node("large", has={"cpu": "64"}),
        node("off", unschedulable=True),
    ]
    said = table(monkeypatch, pod(requests={"cpu": "1"}), nodes)
    assert said[0] == "default/web: the headline"
    picked, other, rejected = said[-3:]
    assert picked.startswith("-> large ")
    assert other.startswith("small ")
    assert int(picked.split()[-1]) > int(other.split()[-1])
    assert rejected == "off NodeUnschedulable: node(s) were unschedulable"


def test_of_many_nodes_the_best_are_shown_and_those_that_are_rejected_alike_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = [node(f"n{i}", has={"cpu": str(2 * i)}) for i in range(10)]
    nodes += [node(f"off{i}", unschedulable=True) for i in range(5)]
    said = table(monkeypatch, pod(requests={"cpu": "1"}), nodes)
    assert sum(line.startswith("-> n") for line in said) == 1
    assert sum(line[0] == "n" and line[1].isdigit() and line[-1].isdigit() for line in said) == 5
    assert "n0 NodeResourcesFit: Insufficient cpu" in said
    assert "off0 and 4 more NodeUnschedulable: node(s) were unschedulable" in said
    assert said[-1] == "nodes not shown: 3 that fit"


def test_the_only_node_that_fits_has_no_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    said = table(monkeypatch, pod(requests={"cpu": "3"}), [node("n1"), node("n2", has={"cpu": "1"})])
    assert said[-2:] == ["-> n1 the only one that fits", "n2 NodeResourcesFit: Insufficient cpu"]


def test_the_node_on_which_others_are_preempted_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    low = pod("low", {"cpu": "3"}, nodeName="n2")
    high = pod("high", {"cpu": "3"}, nodeName="n1", priority=9)
    said = table(monkeypatch, pod(requests={"cpu": "3"}, priority=5), [node("n1"), node("n2")], low, high)
    assert said[-2:] == [
        "n2 NodeResourcesFit: Insufficient cpu; fits without default/low",
        "n1 NodeResourcesFit: Insufficient cpu",
    ]


def test_in_a_narrow_terminal_plugins_are_shortened_with_a_legend(monkeypatch: pytest.MonkeyPatch) -> None:
    for width, is_short in (("45", True), ("150", False)):
        monkeypatch.setenv("COLUMNS", width)
        nodes = [node("n1"), node("n2")]
        said = " ".join(table(monkeypatch, pod(requests={"cpu": "1"}), nodes, out=Terminal()))
        assert ("NRF NodeResourcesFit" in said) == is_short
