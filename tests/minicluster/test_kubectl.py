"""The real kubectl prints of the embedded server what it printed of a real kube-apiserver 1.36.

The recorded commands run again, in their order: directly, and through a real `kubectl proxy`. Exit status,
output and errors are the same but for ages, times, uids and versions.
"""

import gzip
import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from all_cases import ALL_CASES

from scripts.servers.embedded import minicluster
from scripts.servers.kubectl import KUBECTL, kubectl_proxy

RECORDING = Path(__file__).parent.parent / "data" / "kubectl-1.37.jsonl.gz"
COMMANDS: list[dict[str, Any]] = [
    json.loads(line) for line in gzip.decompress(RECORDING.read_bytes()).splitlines()
]
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# `explain` prints the API's documentation, which the embedded server doesn't have.
LEFT_OUT = {"kubectl explain pod.spec.schedulerName"}
COMPARED = [number for number, command in enumerate(COMMANDS) if command["command"] not in LEFT_OUT]


@dataclass
class Output:
    exit: int
    stdout: str
    stderr: str


@pytest.fixture(scope="module", params=["through the proxy", *["directly"] * ALL_CASES])
def outputs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Output]]:
    folder = tmp_path_factory.mktemp("kubectl")
    write_files(folder)
    with minicluster("--nodes", "0", "--bare") as server:
        create_nodes(server)
        if request.param == "directly":
            yield run_all(server, folder)
        else:
            with kubectl_proxy(server) as proxy:
                yield run_all(proxy, folder)


def write_files(folder: Path) -> None:
    """What was applied and created then, taken from the requests that this made."""
    for command in COMMANDS:
        words = shlex.split(command["command"])
        bodies = [e["body"] for e in command["exchanges"] if isinstance(e.get("body"), dict)]
        if "-f" in words and bodies and words[1] in ("apply", "create"):
            body = bodies[-1]
            applied = body.get("metadata", {}).get("annotations", {}).get(APPLIED)
            (folder / words[words.index("-f") + 1]).write_text(applied or json.dumps(body))


def create_nodes(server: str) -> None:
    """Three nodes, of which each is as `kubectl describe node node1` found one then."""
    [node] = (
        exchange["response"]
        for command in COMMANDS
        if command["command"] == "kubectl describe node node1"
        for exchange in command["exchanges"]
        if exchange["path"] == "/api/v1/nodes/node1" and isinstance(exchange["response"], dict)
    )
    for number in (1, 2, 3):
        text = json.dumps(node).replace("node1", f"node{number}").replace("10.0.0.1", f"10.0.0.{number}")
        content = json.loads(text)
        for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
            del content["metadata"][field]
        httpx.post(f"{server}/api/v1/nodes", json=content, timeout=60, verify=False).raise_for_status()
        merge_patch = {"Content-Type": "application/merge-patch+json"}
        untaint = {"spec": {"taints": None}}
        url = f"{server}/api/v1/nodes/node{number}"
        httpx.patch(url, json=untaint, headers=merge_patch, verify=False).raise_for_status()


def run_all(server: str, folder: Path) -> list[Output]:
    results = []
    for command in COMMANDS:
        if command["command"] == "kubectl get events":
            schedule(server)
        results.append(run(server, folder, command["command"]))
    return results


def schedule(server: str) -> None:
    """What the scheduler did between two of the commands."""
    pods = f"{server}/api/v1/namespaces/default"
    binding = {"metadata": {"name": "nginx"}, "target": {"kind": "Node", "name": "node1"}}
    httpx.post(f"{pods}/pods/nginx/binding", json=binding, timeout=60, verify=False).raise_for_status()
    then = (datetime.now(UTC) - timedelta(hours=7, minutes=37, seconds=30)).strftime("%Y-%m-%dT%H:%M:%SZ")
    event = {
        "metadata": {"generateName": "nginx-"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "nginx"},
        "reason": "Scheduled",
        "message": "Successfully assigned default/nginx to node1",
        "type": "Normal",
        "source": {"component": "my-scheduler"},
        "firstTimestamp": then,
        "lastTimestamp": then,
    }
    httpx.post(f"{pods}/events", json=event, timeout=60, verify=False).raise_for_status()


def run(server: str, folder: Path, command: str) -> Output:
    # A cache of its own: kubectl would remember what another server of the same address has.
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "KUBECONFIG": "/dev/null"}
    words = words_of(command)
    assert words[0] == "kubectl"
    done = subprocess.run(
        [str(KUBECTL), "--server", server, *words[1:]],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Output(done.returncode, done.stdout.replace(server, "http://SERVER"), done.stderr)


def words_of(command: str) -> list[str]:
    """The recording has the words joined by spaces, and JSON among them without quotes around it."""
    return re.findall(r"\{\"\S+|\S+", command)


@pytest.mark.parametrize("number", COMPARED, ids=lambda n: f"{n}-{COMMANDS[n]['command'].replace(' ', '_')}")
def test_prints_the_same(outputs: list[Output], number: int) -> None:
    recorded, ours = COMMANDS[number], outputs[number]
    assert (ours.exit, comparable(ours.stderr)) == (recorded["exit"], comparable(expected_errors(recorded)))
    if recorded["command"] == "kubectl api-resources":
        real, served = lines_by_name(whole_lines(recorded["stdout"])), lines_by_name(ours.stdout)
        common = real.keys() & served.keys()  # fewer are served, and the recording breaks off after the first
        assert len(common) > 10
        assert [served[name] for name in common] == [real[name] for name in common]
    else:
        assert comparable(ours.stdout) == comparable(expected_output(recorded))


def whole_lines(text: str) -> str:
    return text[: text.rindex("\n")]


def lines_by_name(text: str) -> dict[str, str]:
    return {line.split()[0]: line for line in comparable(text)}


def expected_output(recorded: dict[str, Any]) -> str:
    """Without what the real server, a build of OpenShift's, put there itself: an event, a lease."""
    if recorded["command"] == "kubectl get leases -n kube-system":
        return ""
    lines: list[str] = recorded["stdout"].splitlines(keepends=True)
    return "".join(line for line in lines if "KubeAPIReadyz" not in line)


def expected_errors(recorded: dict[str, Any]) -> str:
    if recorded["command"] == "kubectl get leases -n kube-system":
        return "No resources found in kube-system namespace.\n"
    errors: str = recorded["stderr"]
    return errors


def comparable(text: str) -> list[str]:
    """Lines, columns apart by two spaces, without what time and chance bring."""
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID", text)
    text = re.sub(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d", "DATE", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text)
    text = re.sub(r'(resourceVersion: )"\d+"', r"\1VERSION", text)
    text = re.sub(r"(?<=\s)\d+[smhd](\d+[smhd])?(?=\s)", "AGE", text)
    return [re.sub(r" {2,}", "  ", line).rstrip() for line in text.splitlines()]
