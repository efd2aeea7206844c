"""Tries a student's own scheduler, in whatever language it is written, on a small cluster of its own.

A check creates nodes and pods there, and looks at what becomes of them, and at what the scheduler asks.
"""

import json
import os
import secrets
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import STDOUT, Popen
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, Never, TypeVar

import httpx

from lib.kube.escaping import escaped
from scripts.learning.lab import Json, TrialError, node_of
from scripts.learning.recorder import Recorder, Seen
from scripts.servers import faulty_proxy
from scripts.servers.embedded import minicluster
from scripts.servers.process import ending_with_all_it_starts, kill_all_with

T = TypeVar("T")

NAME = "my-scheduler"
"""The scheduler whose pods a student's scheduler places."""

STEM = "sched"
INTERPRETERS = {".py": [sys.executable], ".sh": ["bash"]}
LOG = "trial.log"
"""The file in the student's folder that gets what the scheduler printed."""

LONGEST = 180.0  # seconds, of a trial as a whole
FIRST_REQUEST = 15.0  # seconds; an interpreter may be slow to start
LINES_KEPT, LONGEST_LINE = 1000, 2000
NOT_OWN = ("poller/", "kube-scheduler/")
"""How the User-Agents of schedulers begin that no student has written."""


@contextmanager
def arena() -> Iterator[str]:
    """The URL of an API server without nodes, whose kubelets are quick."""
    with minicluster("--nodes", "0", "--kubelet-delay", "0.2") as url:
        yield url


def command_of(folder: Path) -> tuple[Path, list[str]]:
    """The scheduler that was changed last in a student's folder, and the command that runs it."""
    found = [each for each in folder.glob(f"{STEM}*") if each.stem == STEM and each.is_file()]
    can_run = [each for each in found if each.suffix in INTERPRETERS or os.access(each, os.X_OK)]
    if not can_run:
        bare = folder / STEM
        raise TrialError(
            f"{_shown(bare)} can't be executed: chmod +x {_shown(bare)}"
            if bare in found
            else "there is no .lab/sched.py; or .lab/sched.sh in bash, or a program .lab/sched"
        )
    program = max(can_run, key=lambda each: each.stat().st_mtime)
    return program, [*INTERPRETERS.get(program.suffix, []), str(program)]


def _shown(file: Path) -> str:
    return f"{file.parent.name}/{file.name}"


@contextmanager
def trial(folder: Path) -> Iterator["Trial"]:
    """A cluster, and the student's scheduler, which `Trial.start` starts. At the end it is killed."""
    program, command = command_of(folder)
    print(f"{_shown(program)} is tried, on a small cluster of its own:", flush=True)
    pages = program.with_name(f"{STEM}.page.py")
    is_newer = pages.is_file() and pages.stat().st_mtime > program.stat().st_mtime
    if program.suffix == ".py" and is_newer and pages.read_bytes() != program.read_bytes():
        print(f"  (To try the page's in its place: cp {_shown(pages)} {_shown(program)})", flush=True)
    with (
        arena() as url,
        faulty_proxy.running(Recorder, url) as proxy,
        TemporaryDirectory(prefix="trial-") as made,
        httpx.Client(base_url=url, timeout=30, trust_env=False) as api,
        ExitStack() as stack,
    ):
        kubeconfig = Path(made, "kubeconfig")
        kubeconfig.write_text(json.dumps(_kubeconfig(proxy.url)))
        of_the_lab = ("PROXY_SOCKET", "NODE1", "NODE2", "NODE3")
        environment = {name: value for name, value in os.environ.items() if name not in of_the_lab}
        environment |= {"POLLER_PROXY": proxy.url, "KUBECONFIG": str(kubeconfig), "PYTHONUNBUFFERED": "1"}
        mark = f"TRIAL_{secrets.token_hex(8)}"
        environment[mark] = "1"

        def start(output: int) -> "Popen[str]":
            running = ending_with_all_it_starts(
                command, cwd=folder.parent, env=environment, stdout=output, stderr=STDOUT
            )
            return stack.enter_context(running)

        tried = Trial(api, proxy, program, start)
        try:
            yield tried
        finally:
            stack.close()
            kill_all_with(mark)  # what has left the scheduler's session
            tried.write_log(folder / LOG)


def _kubeconfig(server: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "trial", "cluster": {"server": server}}],
        "contexts": [{"name": "trial", "context": {"cluster": "trial", "user": ""}}],
        "current-context": "trial",
    }


class Trial:
    """A cluster, and a scheduler that is tried on it.

    proxy: what the scheduler asks goes through it. namespace: another one than `default`.
    """

    def __init__(
        self, api: httpx.Client, proxy: Recorder, program: Path, start: Callable[[int], "Popen[str]"]
    ) -> None:
        self.proxy = proxy
        self._api, self._start, self._name = api, start, _shown(program)
        self._process: Popen[str] | None = None
        self._said: deque[str] = deque(maxlen=LINES_KEPT)
        self._deadline = time.monotonic() + LONGEST
        self.namespace = new_name("team")
        self._post("/api/v1/namespaces", {"metadata": {"name": self.namespace}})

    # --- the scheduler ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the scheduler, and wait for its first request."""
        reading, writing = os.pipe()
        self._process = self._start(writing)
        os.close(writing)
        # Nobody waits for it: what the scheduler has started may outlive it, and hold the pipe.
        self._reader = Thread(target=self._read, args=[reading], daemon=True)
        self._reader.start()
        self.until(
            lambda: self.proxy.seen,
            FIRST_REQUEST,
            f"{self._name} has asked the API server nothing for {FIRST_REQUEST:g} s. The variable"
            " POLLER_PROXY says where it is",
        )

    def _read(self, output: int) -> None:
        with open(output, encoding="utf-8", errors="replace") as lines:
            while line := lines.readline(LONGEST_LINE):
                self._said.append(line)

    def write_log(self, file: Path) -> None:
        """Write what the scheduler has printed."""
        if self._process:
            self._reader.join(1)
            file.write_text("".join(list(self._said)))

    def passed(self, what: str) -> None:
        """Tell the student what is right so far."""
        print(f"  ✓ {what}", flush=True)

    def fail(self, what: str) -> Never:
        """TrialError: what is wrong. What the scheduler asked and printed last is told, too."""
        time.sleep(0.1)  # its last words may be on their way
        asked = [str(each) for each in self.proxy.seen[-3:]]
        said = [escaped(line.rstrip()) for line in list(self._said)[-3:]]
        for heading, lines in ("its last requests", asked), (f"the end of .lab/{LOG}", said):
            if lines:
                print(f"  - {heading}:", *lines, sep="\n      ", flush=True)
        raise TrialError(what)

    def require(self, holds: object, instead: str) -> None:
        """TrialError with this text unless the condition holds."""
        if not holds:
            self.fail(instead)

    def until(self, look: Callable[[], T], seconds: float, instead: str | Callable[[], str]) -> T:
        """What `look` returns, as soon as that is something. TrialError if it takes longer than that."""
        deadline = time.monotonic() + seconds
        while not (found := look()):
            self.require_it_runs()
            if time.monotonic() > deadline:
                self.fail(instead if isinstance(instead, str) else instead())
            time.sleep(0.1)
        return found

    def pause(self, seconds: float) -> None:
        """Let the scheduler run for so long."""
        self.watch_for(seconds, lambda: "")

    def watch_for(self, seconds: float, wrong: Callable[[], str]) -> None:
        """TrialError if `wrong` returns a text within so many seconds."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.require_it_runs()
            if found := wrong():
                self.fail(found)
            time.sleep(0.1)

    def require_it_runs(self) -> None:
        """TrialError if the scheduler has ended, or is no student's own."""
        if self._process and (status := self._process.poll()) is not None:
            how = f"was killed by signal {-status}" if status < 0 else f"has ended with exit status {status}"
            self.fail(f"{self._name} {how}; a scheduler goes on until it is ended")
        if time.monotonic() > self._deadline:
            self.fail(f"{self._name} was tried for {LONGEST:g} s: it is too slow")
        if any(each.startswith(NOT_OWN) for each in self.proxy.binders.copy()):
            self.fail(f"{self._name} lets a finished scheduler bind the pods; write one of your own")

    # --- the cluster ------------------------------------------------------------------------------------

    def add_node(self, name: str, cpu: str = "4", memory: str = "8Gi", *, cordoned: bool = False) -> str:
        """A node that is ready; returns its name."""
        has = {"cpu": cpu, "memory": memory, "pods": "110"}
        status = {"capacity": has, "allocatable": has, "conditions": [{"type": "Ready", "status": "True"}]}
        labels = {"kubernetes.io/hostname": name}
        self._post("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status})
        self.patch(f"nodes/{name}", {"spec": {"taints": None, "unschedulable": cordoned or None}})
        return name

    def add_pod(
        self,
        name: str,
        *,
        cpu: str = "",
        memory: str = "",
        namespace: str = "default",
        scheduler: str = NAME,
        metadata: Json | None = None,
        **spec: Any,
    ) -> str:
        """A pod; returns its name. spec: as in the API."""
        requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
        container = {"name": "main", "image": "nginx", "resources": {"requests": requests}}
        self._post(
            f"/api/v1/namespaces/{namespace}/pods",
            {
                "metadata": {"name": name, **(metadata or {})},
                "spec": {"schedulerName": scheduler, "containers": [container], **spec},
            },
        )
        return name

    def add_priority(self, value: int) -> None:
        """A priority class with a value; its name is `p` and the value."""
        content = {"metadata": {"name": f"p{value}"}, "value": value}
        self._post("/apis/scheduling.k8s.io/v1/priorityclasses", content)

    def hold(self, name: str) -> None:
        """A pod of `namespace` takes long to leave: until `release`."""
        self.patch(f"namespaces/{self.namespace}/pods/{name}", {"metadata": {"finalizers": ["lab/held"]}})

    def release(self, name: str) -> None:
        """A pod of `namespace` may leave."""
        self.patch(f"namespaces/{self.namespace}/pods/{name}", {"metadata": {"finalizers": None}})

    def leaving(self) -> list[str]:
        """The pods that are being deleted."""
        return [name for name, pod in self.pods().items() if pod["metadata"].get("deletionTimestamp")]

    def patch(self, path: str, patch: Json) -> None:
        """Change an object: `nodes/NAME`, `namespaces/default/pods/NAME`."""
        headers = {"Content-Type": "application/merge-patch+json"}
        self._api.patch(f"/api/v1/{path}", json=patch, headers=headers).raise_for_status()

    def occupy(self, node: str, cpu: str = "", **spec: Any) -> str:
        """A pod of somebody else that is on a node, in `namespace`; returns its name."""
        name = new_name("old")
        more = {"nodeName": node, **spec}
        return self.add_pod(
            name, cpu=cpu, namespace=self.namespace, scheduler="somebody", metadata=None, **more
        )

    def finish(self, name: str) -> None:
        """Let a pod of `namespace` end with success."""
        self.patch(f"namespaces/{self.namespace}/pods/{name}/status", {"status": {"phase": "Succeeded"}})

    def cordon(self, node: str, *, cordoned: bool = True) -> None:
        """Cordon a node, or uncordon it."""
        self.patch(f"nodes/{node}", {"spec": {"unschedulable": cordoned or None}})

    def delete_pod(self, name: str) -> None:
        """Delete a pod at once, if it is there."""
        if pod := self.pods().get(name):
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{name}"
            self._api.delete(path, params={"gracePeriodSeconds": 0})

    def allocatable(self) -> dict[str, dict[str, str]]:
        """By node, the cpu and memory that it has."""
        return {
            node["metadata"]["name"]: {
                name: node["status"]["allocatable"][name] for name in ("cpu", "memory")
            }
            for node in self._api.get("/api/v1/nodes").json()["items"]
        }

    def pods(self) -> dict[str, Json]:
        """All pods, by name."""
        return {pod["metadata"]["name"]: pod for pod in self._api.get("/api/v1/pods").json()["items"]}

    def node_of(self, name: str) -> str:
        """The node of a pod of any namespace; empty when it has none, or is gone."""
        pod = self.pods().get(name)
        return node_of(pod) if pod else ""

    def events(self, pod: str, reason: str) -> list[Json]:
        """The events with this reason about a pod."""
        about = {"fieldSelector": f"reason={reason},involvedObject.kind=Pod,involvedObject.name={pod}"}
        return list(self._api.get("/api/v1/events", params=about).json()["items"])

    def bindings_of(self, pod: str) -> list[Seen]:
        """The requests that would bind a pod."""
        return [each for each in self.proxy.seen if each.pod == pod]

    def _post(self, path: str, content: Json) -> None:
        self._api.post(path, json=content).raise_for_status()


def new_name(first: str, last: str = "") -> str:
    """A name that no program knows before."""
    return "-".join([first, secrets.token_hex(2), *([last] if last else [])])
