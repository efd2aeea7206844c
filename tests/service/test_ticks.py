"""How much is decided in a tick, and what the loop does between two."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from canned import CannedServer, canned
from poisoned_cluster import node, pod

from lib.scheduling.pod_life import Phase
from lib.service.app import assembled
from lib.service.command_line import CommandLine
from lib.service.options import _options
from lib.service.shutdown import Shutdown
from lib.service.steps import Poller
from lib.service.telemetry.report import Report
from poller import finish, tick

PODS = 25


@contextmanager
def running(*, group: bool = False, **options: Any) -> Iterator[Poller]:
    """A poller whose ticks the test runs, beside a server with 25 pods that wait, alone or as one group."""
    with running_beside(group=group, **options) as (poller, _):
        yield poller


@contextmanager
def running_beside(*, group: bool, **options: Any) -> Iterator[tuple[Poller, CannedServer]]:
    """The same, with the server."""
    pods = [pod(f"web-{i}") for i in range(PODS)]
    for each in pods if group else ():
        each["metadata"]["labels"] = {"poller/group": "g"}
        each["metadata"]["annotations"] = {"poller/group-size": str(PODS)}
    objects = {
        "nodes": [node("n1")],
        "pods": pods,
        "namespaces": [{"metadata": {"name": "default", "labels": {}}}],
        **dict.fromkeys(("services", "replicasets", "podgroups", "poddisruptionbudgets", "events"), ()),
    }
    with canned({kind: [*each] for kind, each in objects.items()}) as server, Shutdown() as shutdown:
        given, _ = _options(CommandLine(proxy=server.url, **options))
        with assembled(given, Report(dry_run=False, explain=None), shutdown) as poller:
            yield poller, server
            finish(poller, poller.end())


def decided(poller: Poller) -> int:
    """How many pods a tick decides on."""
    before = poller.cache.counts()["pods"]
    poller.run_tick(tick)
    return poller.cache.counts()["pods"] - before


def test_a_tick_decides_on_so_many_pods_and_the_next_one_follows_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lib.service.steps.MOST_PODS", 10)
    with running(interval=3600) as poller:
        for count, more in ((10, True), (10, True), (5, False)):
            assert (decided(poller), poller.writes.more) == (count, more)
            if more:
                finish(poller, poller.wait())  # else it would wait for an hour


def test_a_tick_decides_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is over at once here, and still each tick decides on something."""
    with running() as poller:
        monkeypatch.setattr(Poller, "_decides_until", lambda _: poller.now() + 0.001)
        counts = []
        while not counts or poller.writes.more:
            counts.append(decided(poller))
            finish(poller, poller.wait())
        assert sum(counts) == PODS
        assert len(counts) > 1


def test_the_only_tick_decides_on_all_pods_and_waits_for_all_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lib.service.steps.MOST_PODS", 10)
    with running(once=True) as poller:
        assert decided(poller) == PODS
        assert (poller.writes.pipeline.open.total(), len(poller.queue)) == (0, 0)


def test_pods_that_were_left_out_do_not_keep_others_from_being_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lib.service.steps.MOST_PODS", 10)
    with running() as poller:
        first = {f"uid-of-web-{i}" for i in range(10)}
        monkeypatch.setattr(poller.writes.records, "must_wait", lambda uid: uid in first)
        assert (decided(poller), poller.writes.more) == (0, False)  # no spinning
        assert (decided(poller), decided(poller)) == (10, 5)


def test_what_was_sent_is_reported_when_poller_ends(caplog: pytest.LogCaptureFixture) -> None:
    with running_beside(group=False) as (poller, server), caplog.at_level("INFO", logger="poller"):
        poller.run_tick(tick)
        finish(poller, poller.end())
        told = [each for each in caplog.records if "is bound to n1" in each.getMessage()]
        assert len(told) == len(server.bound) > 10  # on a slow machine, the tick ends before all are sent
        assert poller.writes.pipeline.open.total() == 0


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Poller]:
    """A poller that has begun to place a group: its time is over after each pod."""
    monkeypatch.setattr("lib.service.steps.DECIDING_SECONDS", 0.0)
    monkeypatch.setattr("lib.service.steps.PATIENCE", 60.0)  # else a slow answer ends it
    with running(group=True) as poller:
        assert [decided(poller) for _ in range(3)] == [1, 1, 1]
        assert poller.group_turns.under_way
        yield poller


def test_a_group_is_placed_in_parts_and_bound_as_a_whole(in_parts: Poller) -> None:
    assert in_parts.writes.more
    assert not in_parts.writes.pipeline.open.total()
    while in_parts.group_turns.under_way:
        in_parts.run_tick(tick)
    assert in_parts.cache.counts()["pods"] == PODS
    assert in_parts.lives.count([Phase.BINDING, Phase.BOUND]) == PODS


def test_no_room_is_kept_for_a_group_that_waits_for_an_answer(
    in_parts: Poller, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(in_parts.writes.records, "must_wait", lambda _: True)
        assert decided(in_parts) == -3
    assert in_parts.group_turns.under_way is None
    assert decided(in_parts) == 1


def test_who_leads_no_longer_keeps_no_room_for_a_group_and_notes_nothing_for_it(in_parts: Poller) -> None:
    in_parts.leads = lambda: False
    assert decided(in_parts) == -3
    assert (in_parts.group_turns.under_way, in_parts.group_turns.missed) == (None, [])
