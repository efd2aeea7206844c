"""An API server for tests, embedded or real, with a real `kubectl proxy`, kubectl and poller.py."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from poller_process import POLLER, PollerProcess, run_poller, started

from lib.kube.transport import KeepAliveTransport, to_host
from scripts.servers.kubectl import KUBECTL
from scripts.servers.real import assets

Json = dict[str, Any]

PATIENCE = 60
"""The longest time, in seconds, that a test waits for anything: a busy machine may be slow."""

NEVER = "--interval=3600"
"""The option for a poll so late that a test can't see its effects."""

ONE_SERVER = "real" if assets() else "embedded"
"""The server for tests that need the real one, if it is there, and not both."""


def refusals(said: str) -> list[str]:
    """The lines that report an answer 403; a port may have these digits, too."""
    return [line for line in said.splitlines() if re.search(r"\b403\b", line)]


def eventually(condition: Callable[[], Any], within: float = PATIENCE) -> Any:
    """Wait until `condition` returns something true, and return it; AssertionError after so many seconds."""
    deadline = time.monotonic() + within
    pause = 0.02
    while not (result := condition()):
        assert time.monotonic() < deadline, f"not within {within} s"
        time.sleep(pause)
        pause = min(0.2, pause * 1.3)  # asking an API server costs more than waiting a little longer
    return result


def http_client(url: str) -> httpx.Client:
    """A client of a server that speaks plain HTTP. With httpx's own transport it takes twice the time."""
    address = urlsplit(url)
    transport = KeepAliveTransport(to_host(address.hostname or "", address.port or 80))
    return httpx.Client(base_url=url, timeout=60, trust_env=False, transport=transport)


class RunningPoller:
    """A poller.py process, and its log so far."""

    def __init__(self, process: "PollerProcess | subprocess.Popen[bytes]", log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def said(self) -> str:
        return self._log.read_text()

    def says(self, words: str, within: float = PATIENCE) -> None:
        """Wait until the log has these words."""
        try:
            eventually(lambda: words in self.said, within)
        except AssertionError:
            raise AssertionError(f"{words!r} isn't said within {within} s:\n{self.said}") from None

    def last_lines(self) -> str:
        """The end of the log; if poller still runs, with the phase of each pod."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGUSR1)
            time.sleep(1)
        return "\n".join(self.said.splitlines()[-30:])

    def stop(self, signal: int) -> None:
        """Send a signal and wait for the end."""
        self.process.send_signal(signal)
        self.process.wait(PATIENCE)


@dataclass
class Cluster:
    """A running API server.

    server: its URL. proxy: the URL of a kubectl proxy in front of it. kubeconfig: the file for kubectl.
    folder: for the test's files. api: a client of the server, as its admin. kubeconfig_for: makes a
    kubeconfig for a user without any rights, where the server has users.
    """

    server: str
    proxy: str
    kubeconfig: Path
    folder: Path
    api: httpx.Client
    kubeconfig_for: Callable[[str], Path] | None = None

    # --- the doors that users go through ----------------------------------------------------------------

    def kubectl(self, *arguments: str) -> str:
        """Run the real kubectl, which must succeed; returns its output."""
        command = [str(KUBECTL), f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def poller(
        self,
        *arguments: str,
        proxy: str = "",
        script: Path = POLLER,
        afresh: bool = False,
        **environment: str,
    ) -> "subprocess.CompletedProcess[str]":
        """Run `poller.py --once` against the proxy, to its end; or a script that runs it."""
        command = [*self._where(proxy, arguments), "--once", *arguments]
        return run_poller(*command, script=script, afresh=afresh, **environment)

    @contextmanager
    def running_poller(
        self,
        *arguments: str,
        proxy: str = "",
        script: Path = POLLER,
        afresh: bool = False,
        **environment: str,
    ) -> Iterator[RunningPoller]:
        """Run poller.py's loop for as long as the block takes; or a script that runs it."""
        log = self.folder / f"poller-{time.monotonic_ns()}.log"
        command = [*self._where(proxy, arguments), "--interval=0.1", *arguments]
        with started(command, Path(os.devnull), log, script, afresh, **environment) as process:
            poller = RunningPoller(process, log)
            try:
                yield poller
            except AssertionError as error:
                error.add_note(f"poller's last lines:\n{poller.last_lines()}")
                raise

    def _where(self, proxy: str, arguments: tuple[str, ...]) -> list[str]:
        return [] if "--start-proxy" in arguments else [f"--proxy={proxy or self.proxy}"]

    # --- what is in the cluster -------------------------------------------------------------------------

    def post(self, path: str, body: Json) -> Json:
        answer = self.api.post(path, json=body)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def add_node(self, name: str, labels: dict[str, str] | None = None, **allocatable: str) -> None:
        """A node that is ready: 4 cpu, 8Gi of memory and 110 pods, or as given."""
        has = {"cpu": "4", "memory": "8Gi", "pods": "110"} | allocatable
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name} | (labels or {})}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok"}
        status = {"capacity": has, "allocatable": has, "conditions": [ready]}
        self.post("/api/v1/nodes", {"metadata": metadata, "status": status})
        self.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})

    def patch(self, path: str, patch: Json) -> None:
        answer = self.api.patch(path, json=patch, headers={"Content-Type": "application/merge-patch+json"})
        assert answer.status_code == 200, answer.text

    def add_pod(
        self,
        name: str,
        scheduler: str = "my-scheduler",
        namespace: str = "default",
        requests: dict[str, str] | None = None,
        metadata: Json | None = None,
        **spec: Any,
    ) -> Json:
        """A pod that waits for a scheduler; `spec` as in the API."""
        container = {"name": "main", "image": "nginx", "resources": {"requests": requests or {"cpu": "100m"}}}
        whole = {"schedulerName": scheduler, "containers": [container], **spec}
        body = {"metadata": {"name": name, **(metadata or {})}, "spec": whole}
        return self.post(f"/api/v1/namespaces/{namespace}/pods", body)

    def pod(self, name: str, namespace: str = "default") -> Json:
        return dict(self.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}").json())

    def pods(self) -> dict[str, Json]:
        items = self.api.get("/api/v1/pods").json()["items"]
        return {item["metadata"]["name"]: item for item in items}

    def placement(self) -> dict[str, str | None]:
        """Each pod's node."""
        return {name: pod["spec"].get("nodeName") for name, pod in self.pods().items()}

    def events(self, reason: str) -> list[Json]:
        items = self.api.get("/api/v1/events", params={"fieldSelector": f"reason={reason}"}).json()["items"]
        return [item for item in items if item["involvedObject"]["kind"] == "Pod"]

    def clear(self) -> None:
        """Delete all pods, their events, and all nodes: first by collections, then those that are left."""
        for kind in ("namespaces/default/pods", "namespaces/default/events", "nodes"):
            self.api.request("DELETE", f"/api/v1/{kind}", params={"gracePeriodSeconds": "0"})
        for path in ("/api/v1/pods", "/api/v1/events", "/api/v1/nodes"):
            for item in self.api.get(path).json()["items"]:
                names = item["metadata"]
                if names.get("finalizers"):
                    self.patch(_path_of(path, names), {"metadata": {"finalizers": None}})
                self.api.delete(_path_of(path, names), params={"gracePeriodSeconds": "0"})


def _path_of(collection: str, names: Json) -> str:
    start, kind = collection.rsplit("/", 1)
    namespace = f"/namespaces/{names['namespace']}" if "namespace" in names else ""
    return f"{start}{namespace}/{kind}/{names['name']}"
