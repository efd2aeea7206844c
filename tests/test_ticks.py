"""How much is decided in a tick, and what the loop does between two."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from canned import canned
from poisoned_cluster import node, pod

from lib.service.app import assembled
from lib.service.command_line import CommandLine
from lib.service.options import _options
from lib.service.shutdown import Shutdown
from lib.service.steps import Poller
from lib.service.telemetry.report import Report
from poller import finish, tick

PODS = 25


@contextmanager
def running(**options: Any) -> Iterator[Poller]:
    """A poller whose ticks the test runs, beside a server with 25 pods that wait."""
    objects = {
        "nodes": [node("n1")],
        "pods": [pod(f"web-{i}") for i in range(PODS)],
        "namespaces": [{"metadata": {"name": "default", "labels": {}}}],
        **dict.fromkeys(("services", "replicasets", "podgroups", "poddisruptionbudgets", "events"), ()),
    }
    with canned({kind: [*each] for kind, each in objects.items()}) as server, Shutdown() as shutdown:
        given, _ = _options(CommandLine(proxy=server.url, **options))
        with assembled(given, Report(dry_run=False, explain=None), shutdown) as poller:
            yield poller
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
    with running() as poller, caplog.at_level("INFO", logger="poller"):
        poller.run_tick(tick)
        finish(poller, poller.end())
        assert sum("is bound to n1" in each.getMessage() for each in caplog.records) == PODS
        assert poller.writes.pipeline.open.total() == 0
