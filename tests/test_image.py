"""The image, as scripts/deploy/image builds it: started by runc as the Deployment starts it.

It is built first, as that takes minutes: scripts/deploy/image. The tests are skipped without it. The poller
in it is that of this tree: its files are mounted over the image's, which may be older.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster, eventually, http_client
from test_deploy import arguments_of, manifests, of_kind

from lib import __version__
from lib.version import full_version
from scripts.benchmark.processes import process
from scripts.packaging.images import BuildError, mounted, parts_of
from scripts.servers.process import ROOT, serving

Json = dict[str, Any]

NAME = f"localhost/poller:{__version__}-amd64"

ON_ONE_SERVER = True

TOOLS = ("buildah", "runc")


@pytest.fixture(scope="module")
def image() -> Iterator[Path]:
    """The files of the image."""
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        pytest.skip(f"{' and '.join(missing)} aren't installed")
    if os.geteuid() != 0:
        pytest.skip("runc needs root")
    try:
        with mounted(NAME) as root:
            yield root
    except BuildError:
        pytest.skip(f"there is no image {NAME}: build it by scripts/deploy/image")


@pytest.fixture(scope="module")
def pod_spec() -> Json:
    spec: Json = of_kind("Deployment", manifests())["spec"]["template"]["spec"]
    return spec


def bundle(image: Path, folder: Path, pod_spec: Json, *arguments: str) -> list[str]:
    """The command that runs the image in a container with what the Deployment grants, and no more.

    The container is on the host's network.
    """
    subprocess.run(["runc", "spec"], cwd=folder, check=True)
    file = folder / "config.json"
    config = json.loads(file.read_text())
    context, (container,) = pod_spec["securityContext"], pod_spec["containers"]
    config["root"] = {
        "path": str(image),
        "readonly": container["securityContext"]["readOnlyRootFilesystem"],
    }
    inspected = subprocess.run(
        ["buildah", "inspect", "--type", "image", NAME], capture_output=True, text=True, check=True
    )
    built = json.loads(inspected.stdout)["OCIv1"]["config"]
    config["process"] |= {
        "terminal": False,
        "user": {"uid": context["runAsUser"], "gid": context["runAsGroup"]},
        "args": [*built["Entrypoint"], *arguments],
        "env": [*built["Env"], "NAMESPACE=default"],
        "cwd": built["WorkingDir"],
        "noNewPrivileges": not container["securityContext"]["allowPrivilegeEscalation"],
        "capabilities": {kind: [] for kind in config["process"]["capabilities"]},
    }
    config["mounts"] += [
        {"destination": "/run/poller", "type": "bind", "source": str(folder), "options": ["rbind", "ro"]},
        {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["size=1m"]},
        *(
            {
                "destination": f"/opt/poller/{name}",
                "type": "bind",
                "source": str(ROOT / name),
                "options": ["rbind", "ro"],
            }
            for name in ("poller.py", "lib")
        ),
    ]
    config["linux"]["namespaces"] = [
        each for each in config["linux"]["namespaces"] if each["type"] != "network"
    ]
    file.write_text(json.dumps(config))
    return ["runc", "run", "--bundle", str(folder), f"poller-{folder.name}-{os.getpid()}"]


def test_it_places_a_pod_as_a_user_without_rights_on_a_root_that_cant_be_written(
    image: Path, cluster: Cluster, pod_spec: Json, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    socket = tmp_path / "proxy.sock"
    kubectl = image / "usr/local/bin/kubectl"
    proxy = [str(kubectl), "proxy", f"--unix-socket={socket}", f"--kubeconfig={cluster.kubeconfig}"]
    cluster.add_node("n1")
    arguments = arguments_of(pod_spec, "default", Path("/run/poller"))
    log = tmp_path / "poller.log"
    with serving(proxy):
        socket.chmod(0o777)
        with process(bundle(image, tmp_path, pod_spec, *arguments), log) as container:
            cluster.add_pod("web")
            eventually(lambda: "/metrics at" in log.read_text())
            (url,) = re.findall(r"/metrics at (http://127\.0\.0\.1:\d+)", log.read_text())
            with http_client(url) as client:
                eventually(lambda: client.get("/readyz").status_code == 200)
            eventually(lambda: cluster.placement() == {"web": "n1"})
            container.handle.terminate()
            eventually(lambda: "released the lease" in log.read_text())
    said = log.read_text()
    assert f"poller {full_version()}, connecting to unix:///run/poller/proxy.sock" in said
    assert "released the lease default/poller" in said


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import os; print(os.getuid(), os.getgid())", "65532 65532\n"),
        ("open('/opt/poller/x', 'w')", "Read-only file system"),
        ("open('/proc/self/status').read().index('CapEff:\\t0000000000000000'); print('none')", "none\n"),
        ("from cel_expr_python import cel; print('cel')", "cel\n"),
        ("import pip", "No module named 'pip'"),
    ],
)
def test_what_a_program_in_it_can_do(
    image: Path, pod_spec: Json, tmp_path: Path, program: str, said: str
) -> None:
    command = bundle(image, tmp_path, pod_spec)
    file = tmp_path / "config.json"
    config = json.loads(file.read_text())
    config["process"]["args"] = ["python", "-c", program]
    file.write_text(json.dumps(config))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert said in done.stdout + done.stderr


def test_the_list_of_its_parts_names_what_is_in_it(image: Path) -> None:
    parts = parts_of(image, "amd64", __version__)
    named = {each["name"].lower().replace("_", "-"): each for each in parts["components"]}
    lock = (ROOT / "scripts/deploy/requirements.lock").read_text()
    for name, version in re.findall(r"^([a-z0-9-]+)==(\S+) \\$", lock, re.MULTILINE):
        assert named[name]["purl"] == f"pkg:pypi/{name}@{version}"
    assert named["kubectl"]["version"].startswith("v1.")
    assert named["tini"]["purl"].startswith("pkg:deb/debian/tini@")
    assert len({each["bom-ref"] for each in parts["components"]}) == len(parts["components"])
    assert re.search(r"^\d+\.\d+", str(named["python3"]["version"]))


def test_its_user_can_read_all_of_poller_and_write_nothing(image: Path) -> None:
    """Whatever the umask of who built it."""
    for each in (image / "opt/poller").rglob("*"):
        mode = each.lstat().st_mode
        assert mode & 0o004, each
        assert each.is_symlink() or not mode & 0o022, each
