"""How questions are asked and answered: words, kubectl's options, where manifests are, completion, looks."""

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

import httpx
import pytest
from poller_process import run_poller
from questions_harness import Run
from test_drain import made_by
from test_verbs import CONFIG, a_node, a_pod, write

from lib.kube.refusals import refusal
from lib.kube.system import System
from lib.questions.verbs import verb_first
from scripts.servers.kubectl import KUBECTL
from scripts.servers.process import ROOT


class Quiet(SimpleHTTPRequestHandler):
    """A web server that prints nothing."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    ("word", "said"),
    [("wyh", "did you mean why?"), ("rooms", "did you mean room?"), ("x", "the verbs are why")],
)
def test_a_misspelt_verb(word: str, said: str) -> None:
    done = run_poller(word, "web")
    assert done.returncode == 2
    assert f"there is no verb {word}; {said}" in done.stderr


def test_kubectls_options_may_come_before_the_verb() -> None:
    assert verb_first(["-n", "a", "--context=b", "why", "x"]) == ["why", "-n", "a", "--context=b", "x"]
    for unchanged in (["why", "-n", "a"], ["--once", "why"], ["-n"], []):
        assert verb_first(unchanged) == unchanged


def test_without_a_kubeconfig_nothing_is_tried(tmp_path: Path) -> None:
    """Before: five tries at localhost:8080, and a message about the proxy."""
    nowhere = str(tmp_path / "nowhere")
    for options in (["--kubeconfig", nowhere], ["--start-proxy"]):
        done = run_poller("why", *options, KUBECONFIG=nowhere)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"there is no kubeconfig: {nowhere} isn't there; set KUBECONFIG, or log in" in done.stderr


def test_manifests_in_folders_behind_urls_and_built_by_kustomize(
    poller: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{KUBECTL.parent}:{os.environ['PATH']}")
    file = write(tmp_path / "cluster.json", a_node("n1"))
    folder = tmp_path / "app"
    (folder / "deeper").mkdir(parents=True)
    (folder / "README.md").write_text("not: [yaml")
    (folder / "a.yaml").write_text(json.dumps(a_pod("a", "1")))
    (folder / "deeper/b.yml").write_text(json.dumps(a_pod("b", "1")))
    (folder / "kustomization").mkdir()
    (folder / "kustomization/kustomization.yaml").write_text("resources: [c.yaml]\nnamePrefix: my-\n")
    (folder / "kustomization/c.yaml").write_text(json.dumps(a_pod("c", "1")))

    def pods(*options: str) -> list[str]:
        found = poller("try", *options, "--from", file, "-o", "json").json
        return [each["pod"] for each in found["pods"]]

    assert pods("-f", str(folder)) == ["default/a"]
    assert pods("-f", str(folder / "deeper"), "-f", str(folder / "a.yaml")) == ["default/b", "default/a"]
    assert pods("-k", str(folder / "kustomization")) == ["default/my-c"]
    assert poller("try", "--from", file).status == 2
    serve = partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert pods("-f", f"{url}/a.yaml") == ["default/a"]
        missing = poller("try", "-f", f"{url}/nothing.yaml", "--from", file)
        server.shutdown()
    assert (missing.status, "404" in missing.err) == (1, True)
    (folder / "a.yaml").unlink()
    empty = poller("try", "-f", str(folder), "--from", file)
    assert "-R looks into its folders, too" in empty.err
    (folder / "kustomization/kustomization.yaml").unlink()
    assert sorted(pods("-R", "-f", str(folder))) == ["default/b", "default/c"]


class Endless(Quiet):
    """Sends a comment, byte by byte, until the client has gone."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        with suppress(OSError):
            while True:
                self.wfile.write(b"#")
                time.sleep(0.01)


def test_a_download_that_never_ends_is_given_up(
    poller: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = System()
    clock.monotonic = count(step=20).__next__  # so much later at each look
    monkeypatch.setattr("lib.questions.manifest_files.MACHINE", clock)
    file = write(tmp_path / "cluster.json", a_node("n1"))
    with ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        said = poller("try", "-f", f"http://127.0.0.1:{server.server_port}/a.yaml", "--from", file)
        server.shutdown()
    assert (said.status, "takes longer than 60 s to be fetched" in said.err) == (1, True)


def test_piped_lines_are_not_broken(poller: Run, tmp_path: Path) -> None:
    labels = {f"a-long-label-{i}": "value" * 5 for i in range(12)}
    file = write(tmp_path / "cluster.json", a_node("n1"), a_pod("web", "1", nodeSelector=labels))
    said = poller("why", "web", "--from", file).out
    assert any(all(key in line for key in labels) for line in said.splitlines())
    assert not [line for line in said.splitlines() if line != line.rstrip()]


@pytest.mark.parametrize("output", ["table", "json"])
def test_who_reads_a_part_of_the_answer_gets_no_traceback(tmp_path: Path, output: str) -> None:
    """As `poller.py why web | head -1`, where the answer is longer than what a pipe holds."""
    nodes = [a_node(f"n{i}", f"{i + 1}m") for i in range(1500)]
    file = write(tmp_path / "cluster.json", *nodes, a_pod("web", "2"))
    words = ["why", "web", "--from", file, "-o", "wide" if output == "table" else output]
    command = [sys.executable, str(ROOT / "poller.py"), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asked:
        assert asked.stdout
        assert asked.stderr
        asked.stdout.readline()
        asked.stdout.close()
        assert asked.stderr.read() == ""


def test_a_suspended_job_is_told_of(poller: Run, tmp_path: Path) -> None:
    template = {"spec": {"containers": [{"name": "main", "image": "x"}], "restartPolicy": "Never"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "late"}}
    manifest = tmp_path / "job.json"
    for suspend in (True, False):
        manifest.write_text(json.dumps({**job, "spec": {"suspend": suspend, "template": template}}))
        said = poller("try", "-f", str(manifest), "--from", write(tmp_path / "c.json", a_node("n1"))).err
        assert ("Job default/late is suspended: its pods come only when it is resumed" in said) == suspend


def test_several_workloads_fit_in_turn(poller: Run, tmp_path: Path) -> None:
    manifests = tmp_path / "both.json"
    manifests.write_text(json.dumps({"kind": "List", "items": [a_pod("a", "1"), a_pod("b", "1")]}))
    said = poller("room", "-f", str(manifests), "--from", write(tmp_path / "c.json", a_node("n1", "5"))).out
    assert said.startswith("2 more of each would fit, placed in turn, one of each\n")


def test_room_in_nodes_is_the_same_however_it_is_counted(poller: Run, tmp_path: Path) -> None:
    """Pods that don't depend on each other are counted node by node, others one after the other."""
    nodes = [a_node("n1", "3"), a_node("n2", "5"), a_node("n3", "1", unschedulable=True)]
    file = write(tmp_path / "c.json", *nodes, a_pod("db", "1500m", "n2"))
    spread = {"maxSkew": 99, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    fits = []
    for constraints in ([], [spread]):
        manifest = tmp_path / "web.json"
        manifest.write_text(json.dumps(a_pod("web", "1", topologySpreadConstraints=constraints)))
        found = poller("room", "-f", str(manifest), "--from", file, "-o", "json").json["workloads"][0]
        fits.append((found["fit"], found["nodes"], found["stopped"]["message"]))
    assert fits[0] == fits[1]
    assert fits[0][:2] == (6, {"n1": 3, "n2": 3})


def test_compare_says_whom_it_leaves_out(poller: Run, tmp_path: Path) -> None:
    agent = a_pod("agent", "1", "n1", made_by("agent", "DaemonSet"))
    file = write(tmp_path / "cluster.json", a_node("n1"), agent, a_pod("web", "1", "n1"))
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG % "LeastAllocated")
    both = ("--config", str(config), "--config", str(config))
    assert "1 pod of DaemonSets, or static ones, stay where they are." in (
        poller("compare", *both, "--from", file).out
    )
    assert poller("compare", *both, "--from", file, "-o", "json").json["configs"][0]["left_out"] == 1


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["why", ""], ["web", "db", ":36"]),
        (["--sche"], ["--scheduler-name", ":4"]),
        (["why", "--taint", ""], ["n1:", ":6"]),
        (["why", "--taint", "n1:"], ["n1:gpu=true:NoSchedule", ":4"]),
        (["why", "--taint", "n1:a=b:No"], ["n1:a=b:NoExecute", "n1:a=b:NoSchedule", ":4"]),
    ],
)
def test_what_completion_offers(poller: Run, tmp_path: Path, words: list[str], offered: list[str]) -> None:
    gpu = {"taints": [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]}
    file = write(tmp_path / "c.json", a_node("n1", **gpu), a_pod("db", "1", "n1"), a_pod("web", "1"))
    given = [words[0], "--from", file, *words[1:]] if words[0] == "why" else words
    assert poller("__complete", *given).out.splitlines() == offered


def test_a_checked_configuration_shows_arguments_alone(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG % "MostAllocated")
    done = run_poller("--check-config", "--config", str(config))
    assert done.returncode == 0
    assert "MostAllocated" in done.stdout
    assert "object at 0x" not in done.stdout


def test_credentials_that_have_expired_are_said_to_be() -> None:
    def refused(code: int, message: str) -> str:
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "x", "code": code}
        body = json.dumps({**status, "metadata": {}, "message": message}).encode()
        return str(refusal("POST /x", "POST", "/x", httpx.Response(code), body, lambda: False))

    words = "401 Unauthorized; the credentials of kubectl's context are wrong or have expired: log in again"
    assert refused(401, "Unauthorized") == f"POST /x: {words}"
    quota = 'pods "x" is forbidden: exceeded quota: q'
    assert refused(403, quota) == f"POST /x: 403 {quota}"


def test_custom_resources_are_named(poller: Run, tmp_path: Path) -> None:
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "x"}, "spec": {}}
    manifest = tmp_path / "m.json"
    manifest.write_text(json.dumps({"kind": "List", "items": [a_pod("web", "1"), widget]}))
    found = poller(
        "try", "-f", str(manifest), "--from", write(tmp_path / "c.json", a_node("n1")), "-o", "json"
    )
    assert "which pods Widget default/x leads to: it is a custom resource" in found.json["unknown"]
