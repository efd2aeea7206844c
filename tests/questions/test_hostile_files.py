"""Files that somebody else wrote: they neither fill the memory nor control the terminal."""

import gzip
import json
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from poller_process import POLLER, run_poller
from questions_harness import Run

from lib.kube.bounded_files import MAX_YAML

Asked = Callable[..., "subprocess.CompletedProcess[str]"]

MEMORY = 2560 * 2**20
"""The most address space that a run may have here; poller alone needs a fifth of it."""

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: web, annotations: {a: *i}}\n"
    "spec: {containers: [{name: a, args: *i}]}\n"
)
SCALAR = f"a: &a {'x' * 1000}\nb: &b [{', '.join(['*a'] * 1000)}]\nc: [{', '.join(['*b'] * 1000)}]\n"
HOST = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "1"}}}


LIMITED = f"""
import resource, runpy
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
runpy.run_path({str(POLLER)!r}, run_name="__main__")
"""


@pytest.fixture
def run(tmp_path: Path) -> Asked:
    """poller.py, with little memory."""
    script = tmp_path / "limited.py"
    script.write_text(LIMITED)
    return partial(run_poller, script=script)


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(HOST))
    return str(file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LAUGHS + POD, "with its aliases written out it is larger than 16 MiB"),
        (SCALAR + POD.replace("*i", "*c"), "with its aliases written out it is larger than 16 MiB"),
        (f"{POD.replace('*i', 'x')}a: &a [*a]\n", "*a stands inside itself"),
        ("[" * 100_000, "is nested deeper than 200 levels"),
        ("a: !!int " + ":".join(["1"] * 200_000), "cannot decode !!str"),
        ("a: " + "9" * 5000, "it has the fields a, but no kind"),
        (f"{POD.replace('*i', 'x')}# {'x' * MAX_YAML}", "is larger than 16 MiB"),
        (f"{POD.replace('kind: Pod', 'kind: Pods').replace('*i', 'x')}", "there are no pods"),
    ],
    ids=["laughs", "long scalar", "endless", "deep", "base 60", "digits", "long", "harmless"],
)
def test_a_manifest_takes_no_more_memory_than_it_may(
    tmp_path: Path, run: Asked, cluster: str, text: str, said: str
) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(text)
    done = run("try", "-f", str(file), "--from", cluster)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_configuration_takes_no_more_memory_than_it_may(tmp_path: Path, run: Asked, cluster: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"kind: KubeSchedulerConfiguration\n{LAUGHS}profiles: *i\n")
    for done in (
        run("why", "web", "--config", str(file), "--from", cluster.replace("cluster.json", "pods.json")),
        run("--config", str(file), "--check-config"),
    ):
        assert done.returncode
    assert "with its aliases written out it is larger than 16 MiB" in done.stderr + done.stdout


def test_a_manifest_cannot_ask_for_any_number_of_pods(tmp_path: Path, run: Asked, cluster: str) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n"
        "spec: {replicas: 1000000000, template: {spec: {containers: []}}}"
    )
    done = run("try", "-f", str(file), "--from", cluster)
    assert (done.returncode, done.stdout) == (1, "")
    assert "these are 1,000,000,000 pods; try places no more than 100,000" in done.stderr


@pytest.mark.parametrize("endless", [False, True], ids=["packed", "a device"])
def test_a_cluster_takes_no_more_memory_than_it_may(tmp_path: Path, run: Asked, *, endless: bool) -> None:
    file = tmp_path / "cluster.json.gz"
    if endless:
        file.symlink_to("/dev/zero")
    else:
        file.write_bytes(gzip.compress(bytes(50 * 2**20)) * 40)
    done = run("why", "web", "--from", str(file))
    assert done.returncode == 1
    assert done.stdout == ""
    assert ("is larger than 1024 MiB" if endless else "unpacks to more than 128 MiB") in done.stderr


def test_a_damaged_gzip_file_is_told_of(tmp_path: Path, run: Asked) -> None:
    good = gzip.compress(json.dumps(HOST).encode() * 100)
    for i, body in enumerate((good[:40], good[:30] + b"\xff\xff" + good[32:])):
        file = tmp_path / f"{i}.gz"
        file.write_bytes(body)
        done = run("why", "web", "--from", str(file))
        assert done.returncode == 1
        assert f"--from {file}: " in done.stderr
        assert "Traceback" not in done.stderr


EVIL = "\x1b]0;owned\x07\x9b31m\x7f\u202e"
"""A title for the terminal, a colour, a deletion, and a change of direction."""


def evil_cluster(file: Path) -> str:
    """A cluster whose every text has control codes, as no API server accepts it, but as a file may say it."""
    labels = {"app": "web", f"label{EVIL}": f"value{EVIL}"}

    def pod(name: str, **spec: object) -> dict[str, object]:
        wanted = {"cpu": "100m", f"example.com/{EVIL}": "1"}
        return {
            "kind": "Pod",
            "metadata": {
                "namespace": f"default{EVIL}",
                "name": f"{name}{EVIL}",
                "labels": labels,
                "uid": name,
            },
            "spec": {
                "schedulerName": f"default-scheduler{EVIL}",
                "containers": [{"name": "a", "resources": {"requests": wanted}}],
                **spec,
            },
        }

    def node(name: str) -> dict[str, object]:
        size = {"cpu": "4", "pods": "10", f"example.com/{EVIL}": "2"}
        taint = {"key": f"taint{EVIL}", "value": EVIL, "effect": "NoSchedule"}
        return {
            "kind": "Node",
            "metadata": {"name": f"{name}{EVIL}", "labels": {"kubernetes.io/hostname": EVIL, **labels}},
            "spec": {"taints": [taint] if name == "n2" else []},
            "status": {"allocatable": size},
        }

    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"namespace": f"default{EVIL}", "name": f"budget{EVIL}"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    }
    claims = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data{EVIL}"}}]
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": f"default{EVIL}", "name": f"data{EVIL}"},
        "spec": {"storageClassName": EVIL},
    }
    event = {
        "kind": "Event",
        "metadata": {"name": "e", "namespace": f"default{EVIL}"},
        "involvedObject": {"kind": "Pod", "uid": "waiting"},
        "reason": "FailedScheduling",
        "message": EVIL,
        "source": {"component": EVIL},
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    unreadable = {"kind": "Pod", "metadata": {"name": EVIL, "namespace": EVIL}, "spec": {"containers": EVIL}}
    objects = [
        node("n1"),
        node("n2"),
        pod("bound", nodeName=f"n1{EVIL}"),
        pod("waiting", nodeSelector={f"disk{EVIL}": EVIL}),
        pod("claiming", volumes=claims),
        budget,
        claim,
        event,
        unreadable,
    ]
    file.write_text(json.dumps({"kind": "List", "items": objects}))
    return str(file)


def evil_manifest(file: Path) -> str:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "a", "resources": {"requests": {f"example.com/{EVIL}": "1"}}}]},
    }
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"shop{EVIL}"},
        "spec": {"replicas": 3},
    }
    body["spec"]["template"] = template  # type: ignore[index]
    file.write_text(json.dumps(body))
    return str(file)


@pytest.mark.parametrize("output", ["table", "wide", "json"])
@pytest.mark.parametrize(
    "verb",
    [
        ["why", f"waiting{EVIL}"],
        ["why", f"bound{EVIL}"],
        ["why", f"claiming{EVIL}"],
        ["why", f"nobody{EVIL}"],
        ["try", "-f"],
        ["room", "-f"],
        ["drain", f"n1{EVIL}"],
        ["drain", f"n9{EVIL}"],
        ["save", "-"],
        ["save", f"saved{EVIL}.json"],
        ["compare", "--config", "a.yaml", "--config", "b.yaml"],
        ["__complete", "why", ""],
        ["__complete", "drain", ""],
        ["__complete", "why", "--label", ""],
        ["__complete", "why", "--label", f"n1{EVIL}:"],
        ["__complete", "why", "--label", f"n1{EVIL}:label{EVIL}="],
    ],
    ids=lambda verb: " ".join(each.replace(EVIL, "") for each in verb),
)
def test_no_text_of_a_file_controls_the_terminal(
    tmp_path: Path, verb: list[str], output: str, poller: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = evil_cluster(tmp_path / "cluster.json")
    for name in "ab":
        Path(f"{name}.yaml").write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        )
    if verb[-1] == "-f":
        verb = [*verb, evil_manifest(tmp_path / "web.yaml")]
    options = ["--from", file, "-n", f"default{EVIL}", *([] if verb[0] == "__complete" else ["-o", output])]
    if verb[0] == "__complete":
        verb, options = verb[:2], [*options, *verb[2:]]
    done = poller(*verb, *options)
    assert done.out.strip() or done.err.strip()
    assert not {*EVIL} - {*"]0;owned31m"} & {*(done.out + done.err)}
