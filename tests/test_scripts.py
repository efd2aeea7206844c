"""The first commands on a fresh machine: their output, and their errors when something is missing."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import httpx
import pip
import pytest

from scripts.servers.embedded import minicluster
from scripts.servers.kubectl import KUBECTL
from scripts.servers.process import ROOT
from tests.cluster import eventually

# pip must find nothing: no index but one that isn't there, no cache, no configuration of this machine.
OFFLINE = {
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_NO_CACHE_DIR": "1",
    "PIP_FIND_LINKS": "",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What scripts/install needs of this folder, without .venv."""
    folder = tmp_path / "poller"
    for name in ("scripts/install", "requirements.txt", "requirements.lock"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def install(
    checkout: Path, path: Path | None = None, *arguments: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run scripts/install where `python3` is what the folder `path` holds."""
    folders = [str(path)] if path else []
    tools = {
        str(Path(tool).parent) for name in ("sh", "cat", "tr", "dirname") if (tool := shutil.which(name))
    }
    return subprocess.run(
        [checkout / "scripts" / "install", *arguments],
        env={**os.environ, "PATH": os.pathsep.join([*folders, *sorted(tools)]), **environment},
        capture_output=True,
        text=True,
    )


def python3(folder: Path, script: str) -> Path:
    """A folder whose `python3`, and `python3.11` and so on, is this shell script."""
    folder.mkdir()
    for version in ("", ".11", ".12", ".13", ".14"):
        program = folder / f"python3{version}"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    return folder


def test_install_with_an_old_python_says_so(checkout: Path, tmp_path: Path) -> None:
    old = '[ "$1" = --version ] && echo Python 3.9.2'  # and the check of its version fails
    done = install(checkout, python3(tmp_path / "bin", old))
    assert done.returncode == 1
    assert done.stderr == "scripts/install: Python 3.11 or newer is needed; python3 is Python 3.9.2\n"


def test_install_without_venv_says_so(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "ensurepip.py").write_text("raise ImportError('left out by this distribution')")
    here = python3(tmp_path / "bin", f'PYTHONPATH="{tmp_path}" exec "{sys.executable}" "$@"')
    done = install(checkout, here)
    assert done.returncode == 1
    assert (
        done.stderr
        == "scripts/install: python3 has no venv; on Debian and Ubuntu: apt-get install python3-venv\n"
    )


def test_install_takes_the_file_whose_hash_is_known_or_says_why_not(checkout: Path, tmp_path: Path) -> None:
    """The index is a folder, with one file; then none that can be reached."""
    folder = tmp_path / "packages"
    folder.mkdir()
    wheel = "thing-1-py3-none-any.whl"
    with zipfile.ZipFile(folder / wheel, "w") as content:
        content.writestr("thing.py", "")
        for name, text in (
            ("METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1\n"),
            ("WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
            ("RECORD", ""),
        ):
            content.writestr(f"thing-1.dist-info/{name}", text)
    venv.create(checkout / ".venv", symlinks=True)  # with the pip that there is, which is faster
    (packages,) = (checkout / ".venv" / "lib").glob("*/site-packages")
    (packages / "pip").symlink_to(Path(pip.__file__).parent)
    known = hashlib.sha256((folder / wheel).read_bytes()).hexdigest()
    here = python3(tmp_path / "bin", f'exec "{sys.executable}" "$@"')

    def said(lock: str, *arguments: str, **environment: str) -> str:
        (checkout / "requirements.lock").write_text(lock)
        done = install(checkout, here, *arguments, **{**OFFLINE, **environment})
        return done.stderr.splitlines()[-1] if done.returncode else "installed"

    one_file = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}
    unlike, lacking, right = (
        f"thing=={lock}\n"
        for lock in (f"1 --hash=sha256:{'0' * 64}", f"2 --hash=sha256:{known}", f"1 --hash=sha256:{known}")
    )
    (checkout / "requirements.txt").write_text("thing\n")
    could_not = "scripts/install: pip could not install requirements.lock ("
    by_any = "scripts/install --no-lock requirements.txt): ERROR: "
    unreachable = f"{could_not}is there a network?): the package index can't be reached; "
    assert said(right).startswith(unreachable)
    assert said(lacking, **one_file).startswith(
        f"{could_not}the package index lacks it; to install what it has: {by_any}No matching distribution"
    )
    assert said(unlike, **one_file).startswith(
        f"{could_not}the package index has another file; if you trust it: {by_any}THESE PACKAGES DO NOT MATCH"
    )
    assert said(unlike, "--no-lock", **one_file) == "installed"
    assert said(unlike) == "installed"  # as it was when any file would do

    shutil.rmtree(packages / "thing-1.dist-info")
    (checkout / "wheels").mkdir()  # from the folder of an offline bundle, without an index
    (checkout / "wheels" / wheel).symlink_to(folder / wheel)
    assert said(lacking).startswith("scripts/install: the folder wheels has no packages for ")
    assert said(right) == "installed"
    assert said(right, **one_file) == "installed"


def demo(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [ROOT / "scripts" / "demo", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def shows_it_all(output: str) -> None:
    before, after = output.split("poller\n", 1)
    assert before.count(" 0/1     Pending ") == 6
    assert after.count(" is bound to node") == 6
    assert after.count(" 1/1     Running ") == 6
    assert after.count("Scheduled   pod/") == 6


def test_the_demo_that_is_killed_leaves_nothing_running(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with (tmp_path / "output").open("w") as output:
        killed = subprocess.Popen([ROOT / "scripts" / "demo"], env=environment, stdout=output, stderr=output)
    try:
        where = eventually(
            lambda: [
                text for log in tmp_path.glob("*/minicluster.log") if "http" in (text := log.read_text())
            ],
            within=60,
        )
    finally:
        killed.kill()
        killed.wait()
    address = where[0].split()[-1]
    eventually(lambda: not listens(address), within=60)
    eventually(lambda: not [*tmp_path.glob("poller-demo.*")], within=60)


def listens(address: str) -> bool:
    """Whether anyone is there."""
    try:
        httpx.get(f"{address}/version", trust_env=False)
    except httpx.TransportError:
        return False
    return True


def test_the_demo_on_a_cluster_leaves_it_as_it_was(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with minicluster("--nodes", "3") as url:

        def kubectl(*arguments: str) -> str:
            command = [str(KUBECTL), f"--kubeconfig={kubeconfig}", *arguments]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout

        kubectl("config", "set-cluster", "mine", f"--server={url}")
        kubectl("config", "set-context", "mine", "--cluster=mine")
        kubectl("config", "use-context", "mine")
        output = demo("--cluster", KUBECONFIG=str(kubeconfig))
        shows_it_all(output)
        # No port, which others could use.
        assert re.search(r"\$ kubectl proxy --unix-socket=\S+/proxy\.sock\n", output)
        kubectl("wait", "--for=delete", "namespace/poller-demo", "--timeout=60s")
        assert kubectl("get", "pods", "-A", "-o", "name") == ""


def test_the_demo_shows_what_it_does_and_is_kept_until_it_is_ended(
    tmp_path: Path,
) -> None:
    output = demo("--keep", TMPDIR=str(tmp_path))
    shows_it_all(output)
    assert '{"feasible":"3/3",' in output  # the annotation
    assert "poller-demo/nginx is on node" in output
    assert "node1   NodeResourcesFit: Insufficient cpu" in output  # the dry run's table
    assert "poller-demo/huge waits: it fits on none of 3 nodes" in output
    assert "python poller.py why poller-demo/huge" in output
    reach, page, end = (re.findall(rf"{what}: +(.*)", output)[0] for what in ("reach it", "see it", "end it"))
    address = page.removesuffix("    in a browser")
    assert "<title>poller: pods and nodes, live</title>" in httpx.get(address, trust_env=False).text
    pods = subprocess.run(reach, shell=True, capture_output=True, text=True, cwd=ROOT)
    assert end == "scripts/demo --stop"
    assert demo("--stop", TMPDIR=str(tmp_path)) == "the demo has ended\n"
    assert demo("--stop", TMPDIR=str(tmp_path)) == "no demo is running\n"
    assert pods.stdout.count("Running") == 6, pods.stderr
    eventually(lambda: not listens(address), within=30)


def test_a_kept_demo_of_another_checkout_goes_on(tmp_path: Path) -> None:
    kept = tmp_path / "poller-demo.kept"
    kept.mkdir()
    (kept / "kept").write_text("/home/ada/poller\n")
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "minicluster"]) as its:
        (kept / "started").write_text(f"{its.pid}\n")
        assert demo("--stop", TMPDIR=str(tmp_path)) == "no demo is running\n"
        assert its.poll() is None
        (kept / "kept").write_text(f"{ROOT}\n")
        assert demo("--stop", TMPDIR=str(tmp_path), COLUMNS="40") == "the demo has ended\n"
        assert its.wait(timeout=30) < 0
