"""Changes in a cluster while a workload is measured."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from scripts.benchmark.arena import NODES, Arena, pods_path
from scripts.benchmark.client import Client, RefusedError, Request
from scripts.benchmark.objects import WAITING
from scripts.benchmark.processes import FailedError
from scripts.benchmark.workloads import UNSCHEDULABLE, Churn, churn_node

SERVICES = "/api/v1/namespaces/default/services"
STOPPED = (OSError, RefusedError, http.client.HTTPException)


@contextmanager
def churning(arena: Arena, churn: Churn | None, scheduler_name: str) -> Iterator[None]:
    """Make the changes of a workload while the block runs. FailedError if one of them fails."""
    if churn is None:
        yield
        return
    ended = threading.Event()
    problems: list[Exception] = []

    def go_on() -> None:
        client = arena.new_client()
        try:
            _churn(client, churn, scheduler_name, ended)
        except STOPPED as error:
            problems.append(error)
        finally:
            client.close()

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if problems:
        raise FailedError(f"the churn ended: {problems[0]}")


def _churn(client: Client, churn: Churn, scheduler_name: str, ended: threading.Event) -> None:
    there: list[str] = []  # paths of the objects that are deleted the next time
    number = 0
    while not ended.wait(churn.seconds):
        if there:
            _delete(client, there)
            there = []
            continue
        pod = UNSCHEDULABLE.pod("default", f"churn-{number}", scheduler_name, WAITING)
        client.send(Request("POST", pods_path(pod), pod))
        if churn.recreate:
            name = f"churn-{number}"
            client.send(Request("POST", NODES, churn_node(name)))
            spec = {"selector": {"app": "foo"}, "ports": [{"port": 8080}]}
            client.send(Request("POST", SERVICES, {"metadata": {"name": name}, "spec": spec}))
            there = [f"{pods_path(pod)}/{name}", f"{NODES}/{name}", f"{SERVICES}/{name}"]
        number += 1
    with suppress(*STOPPED):
        _delete(client, there)


def _delete(client: Client, paths: list[str]) -> None:
    for path in paths:
        client.send(Request("DELETE", f"{path}?gracePeriodSeconds=0"))
