"""A cluster with 50 pods that wait, and poller's loop in this process, which must place all of them.

The server doesn't validate objects.
"""

import dataclasses
import logging
import time
from collections import Counter
from collections.abc import Collection
from typing import Any

import pytest
from all_cases import ALL_CASES
from canned import CannedServer, canned

from lib.service.app import assembled
from lib.service.command_line import CommandLine
from lib.service.options import _options
from lib.service.shutdown import Shutdown
from lib.service.telemetry.report import Report
from poller import finish, tick

Json = dict[str, Any]

NODES, HEALTHY = 6, 50

WAYS = pytest.mark.parametrize("by_watch", [False, True], ids=["polling", "watching"])


def one_way(by_watch: bool) -> slice:
    """Of odd objects, those to be read so: each in one of the two ways, all in both with POLLER_ALL_CASES."""
    return slice(None) if ALL_CASES else slice(int(by_watch), None, 2)


def node(name: str, **more: Any) -> Json:
    has = {"cpu": "64", "memory": "256Gi", "pods": "1000", "ephemeral-storage": "1Ti", "k": "1000"}
    labels = {"kubernetes.io/hostname": name, "k": "x", "x": "x"}
    metadata = {"name": name, "uid": f"uid-of-{name}", "resourceVersion": "1", "labels": labels}
    return {"metadata": metadata, "spec": {}, "status": {"allocatable": has}, **more}


def pod(name: str, namespace: str = "default", **spec: Any) -> Json:
    container = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "10m"}}}
    labels = {"app": "web"}
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-of-{name}", "resourceVersion": "1"}
    whole_spec = {"schedulerName": "my-scheduler", "containers": [container], **spec}
    return {"metadata": {**metadata, "labels": labels}, "spec": whole_spec, "status": {"phase": "Pending"}}


def healthy() -> list[Json]:
    """50 pods; poller looks up other objects for some of them."""
    web = {"matchLabels": {"app": "web"}}
    near = {"topologyKey": "kubernetes.io/hostname", "labelSelector": web, "namespaceSelector": {}}
    likes = {
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": near}]
        }
    }
    pods = [pod(f"web-{i}", priority=10) for i in range(HEALTHY)]
    for i, each in enumerate(pods):
        if i % 5 == 0:
            each["spec"]["affinity"] = likes
        elif i % 5 == 1:
            owner = {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "web",
                "uid": "u",
                "controller": True,
            }
            each["metadata"]["ownerReferences"] = [owner]
        elif i % 5 == 2:
            each["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = "web"
    return pods


def around() -> dict[str, list[Any]]:
    """A cluster with 50 pods that wait, and all that these need."""
    named = {"metadata": {"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "1"}}
    return {
        "nodes": [node(f"n{i}") for i in range(NODES)],
        "pods": [pod("running", nodeName="n0", priority=1), *healthy()],
        "namespaces": [{"metadata": {"name": "default", "labels": {"k": "x"}}}],
        "services": [{**named, "spec": {"selector": {"app": "web"}}}],
        "replicasets": [{**named, "spec": {"selector": {"matchLabels": {"app": "web"}}}}],
        "podgroups": [{**named, "spec": {"minMember": 2}}],
        "poddisruptionbudgets": [{**named, "spec": {"selector": {}}}],
        "events": [],
    }


def place(
    objects: dict[str, list[Any]],
    caplog: pytest.LogCaptureFixture,
    *,
    by_watch: bool = False,
    dry_run: bool = False,
    failing: Collection[str] = (),
) -> CannedServer:
    """Run two ticks. All 50 pods must be placed; the log may have no line twice, and no traceback."""
    with canned(objects, by_watch=by_watch, failing=failing) as server, Shutdown() as shutdown:
        options, _ = _options(CommandLine(proxy=server.url, once=True, dry_run=dry_run))
        options = dataclasses.replace(options, watch=by_watch)
        report = Report(dry_run=dry_run, explain=None)
        with caplog.at_level(logging.INFO), assembled(options, report, shutdown) as poller:
            poller.run_tick(tick)
            for _ in range(1000 if by_watch else 1):
                finish(poller, poller.writes.pipeline.run(time.monotonic() + 0.05))
                poller.source.wait(0.05)
                poller.run_tick(tick)
                if len(_placed(caplog)) == HEALTHY:
                    break
            finish(poller, poller.end())
    assert _placed(caplog) == {f"default/web-{i}" for i in range(HEALTHY)}
    said = Counter(record.getMessage() for record in caplog.records)
    assert [line[:200] for line, times in said.items() if times > 1] == []
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
    return server


def _placed(caplog: pytest.LogCaptureFixture) -> set[str]:
    lines = [record.getMessage() for record in caplog.records]
    found = {line.split()[0] for line in lines if " is bound to " in line or " would be assigned to " in line}
    return {each for each in found if each.startswith("default/web-")}
