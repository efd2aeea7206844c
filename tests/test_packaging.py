"""The package, a release, the alerts and the dashboard."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster import PATIENCE, Cluster
from packaging.requirements import Requirement
from prometheus_client import generate_latest
from test_deploy import DEPLOY, of_kind

from lib import __version__
from lib.service.telemetry.health import Health
from lib.service.telemetry.metrics import Metrics
from lib.version import full_version
from scripts.servers.kubectl import KUBECTL
from scripts.servers.process import ROOT

ON_ONE_SERVER = True

Json = dict[str, Any]

MONITORING = DEPLOY / "monitoring"


def run(command: Sequence[str | Path], **more: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=PATIENCE, **more)


# --- the package ----------------------------------------------------------------------------------------


def built(folder: Path) -> Path:
    done = run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what pip installs of the wheel alone: its packages are those of the tests."""
    folder = tmp_path_factory.mktemp("installed") / "with a space"
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--no-compile"]
    done = run([*pip, "--disable-pip-version-check", "--target", folder, wheel])
    assert done.returncode == 0, done.stderr
    return folder


def called(installed: Path, command: str, *arguments: str, **more: Any) -> "subprocess.CompletedProcess[str]":
    """Run a command of the package, as a shell does: not in the project's folder."""
    environment = {**os.environ, "PYTHONPATH": str(installed), **more.pop("env", {})}
    more.setdefault("cwd", installed)
    return run([installed / "bin" / command, *arguments], env=environment, **more)


def test_the_wheel_has_one_name_at_its_top_and_the_packages_that_poller_needs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
        metadata = message_from_bytes(files.read(f"poller-{__version__}.dist-info/METADATA"))
    assert {name.partition("/")[0] for name in names} == {"poller", f"poller-{__version__}.dist-info"}
    assert metadata["Version"] == __version__
    needed = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if line[0] != "#"]
    needed.append('cel-expr-python>=0.1.3,<1; extra == "dra"')
    assert {*map(Requirement, metadata.get_all("Requires-Dist", []))} == {*map(Requirement, needed)}
    assert not [
        name for name in names if "__pycache__" in name or ".venv" in name or name.startswith("tests")
    ]


def test_it_is_the_same_bytes_each_time(wheel: Path, tmp_path: Path) -> None:
    again = built(tmp_path)
    assert hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(wheel.read_bytes()).digest()


def test_the_installed_commands_place_a_pod_and_say_why(cluster: Cluster, installed: Path) -> None:
    assert called(installed, "poller", "--version").stdout == f"poller {full_version()}\n"
    cluster.add_node("n1")
    cluster.add_pod("web")
    placed = called(installed, "poller", "--once", f"--proxy={cluster.proxy}")
    assert placed.returncode == 0, placed.stderr
    assert cluster.placement() == {"web": "n1"}
    environment = {"KUBECONFIG": str(cluster.kubeconfig), "PATH": f"{KUBECTL.parent}:{os.environ['PATH']}"}
    asked = called(installed, "kubectl-poller", "why", "web", env=environment)
    assert asked.stdout.startswith("default/web is on n1"), asked.stderr
    offered = called(installed, "kubectl_complete-poller", "wh")
    assert offered.stdout.startswith("why"), offered.stderr
    wrong = called(installed, "poller", "whx")
    assert wrong.stderr == "poller: there is no verb whx; did you mean why?\n"


def test_help_names_the_scripts_that_are_commands_too(installed: Path) -> None:
    assert re.search(r"^  demo  +shows poller at work", called(installed, "poller", "--help").stdout, re.M)


def test_the_shell_completes_what_poller_knows(installed: Path, cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_pod("web")
    script = called(installed, "poller", "completion").stdout
    assert called(installed, "poller", "completion", "bash").stdout == script
    assert "Usage: poller completion" in called(installed, "poller", "completion", "--help").stdout
    assert "the shells are bash" in called(installed, "poller", "completion", "fish").stderr
    for words, offered in {
        "wh": "why\n",
        "de": "demo\n",
        "why w": "web\n",
        "--start": "--start-proxy\n",
    }.items():
        asked = [
            script,
            f"COMP_WORDS=(poller {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))",
            "_poller",
            "printf '%s\\n' \"${COMPREPLY[@]}\"",
        ]
        programs = f"{installed / 'bin'}:{KUBECTL.parent}:{os.environ['PATH']}"
        environment = {
            **os.environ,
            "PATH": programs,
            "PYTHONPATH": str(installed),
            "KUBECONFIG": str(cluster.kubeconfig),
        }
        done = run(["bash", "-c", "\n".join(asked)], env=environment)
        assert done.stdout == offered, done.stderr


def test_demo_and_lessons_run_in_a_copy_that_can_be_read(installed: Path, tmp_path: Path) -> None:
    assert "scripts/demo --keep" in called(installed, "poller", "demo", "--help", cwd=tmp_path).stderr
    assert "Lessons on scheduling" in called(installed, "poller", "learn", "--help", cwd=tmp_path).stdout
    assert [*tmp_path.iterdir()] == []
    done = called(installed, "poller", "demo", "--no-such-option", cwd=tmp_path)
    assert done.stderr.startswith(f"poller demo: the project is in {tmp_path}/poller-{__version__} now")
    (copy,) = tmp_path.iterdir()
    assert (copy / "poller.py").read_text() == (ROOT / "poller.py").read_text()
    assert not (copy / "__init__.py").exists()
    (copy / "poller.py").write_text("# mine\n")
    again = called(installed, "poller", "demo", "--no-such-option", cwd=tmp_path)
    assert "the project is in" not in again.stderr
    assert (copy / "poller.py").read_text() == "# mine\n"


# --- a release ------------------------------------------------------------------------------------------


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of the project, with the tests' packages."""
    folder = tmp_path / "a clone"
    done = run(["git", "clone", "--quiet", ROOT, folder])
    if done.returncode:
        pytest.skip(f"this isn't a clone of the project: {done.stderr.strip()}")
    (folder / ".venv").symlink_to(ROOT / ".venv")
    changes = folder / "CHANGELOG.md"
    changes.write_text(
        changes.read_text().replace("## Not released yet\n", "## Not released yet\n\n- A change.\n")
    )
    commit(folder, "a change")
    return folder


def commit(clone: Path, message: str) -> None:
    """Commit all changes."""
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    run(["git", "-C", clone, *who, "commit", "-qam", message], check=True)


def released(clone: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [clone / "scripts/release", "--image=none", *arguments]
    return run(command, env={**os.environ, "SOURCE_DATE_EPOCH": "0"})


def test_a_release_changes_the_version_everywhere_and_builds_the_same_bytes_twice(
    clone: Path, tmp_path: Path
) -> None:
    (clone / "notes").write_text("This file is not known to git, and doesn't matter.")
    done = released(clone, "77.0.1", f"--out={clone / 'one'}")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^## 77\.0\.1 \(20\d\d-\d\d-\d\d\)$", (clone / "CHANGELOG.md").read_text(), re.M)
    changed = run(["git", "-C", clone, "diff", "--name-only"]).stdout.split()
    assert changed == ["CHANGELOG.md", "lib/__init__.py", "scripts/deploy/chart/Chart.yaml"]
    chart = yaml.safe_load((clone / "scripts/deploy/chart/Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == "77.0.1"
    names = {each.name for each in (clone / "one").iterdir()}
    assert {"poller-77.0.1-py3-none-any.whl", "poller-chart-77.0.1.tgz", "SHA256SUMS"} < names
    refused = released(clone, f"--out={tmp_path / 'two'}")
    assert "there are changes that aren't committed" in refused.stderr
    commit(clone, "77")
    assert released(clone, f"--out={tmp_path / 'two'}").returncode == 0
    sums = [(folder / "SHA256SUMS").read_text() for folder in (clone / "one", tmp_path / "two")]
    assert sums[0] == sums[1]
    with tarfile.open(tmp_path / "two/poller-chart-77.0.1.tgz") as chart:
        values = chart.extractfile("poller/values.yaml")
        assert values
        assert yaml.safe_load(values)["image"]["tag"] == "77.0.1"
    deployment = of_kind(
        "Deployment", [*yaml.safe_load_all((tmp_path / "two/poller-77.0.1.yaml").read_text())]
    )
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "poller:77.0.1"
    assert run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path / "two").returncode == 0


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("1.2", "'1.2' is no version such as 1.2.3"),
        ("0.0.0", "0.0.0 comes before"),
    ],
)
def test_a_version_that_cant_be_released_changes_nothing(clone: Path, version: str, said: str) -> None:
    done = released(clone, version, f"--out={clone.parent / 'out'}")
    assert done.returncode == 1
    assert said in done.stderr
    assert run(["git", "-C", clone, "status", "--porcelain"]).stdout == ""
    assert not (clone.parent / "out").exists()


def test_a_release_that_fails_leaves_nothing(clone: Path, tmp_path: Path) -> None:
    file = clone / "scripts/deploy/kustomization.yaml"
    file.write_text(file.read_text() + "  - no-such-file.yaml\n")
    commit(clone, "broken")
    done = released(clone, "77.0.1", f"--out={tmp_path / 'out'}")
    assert done.returncode == 1
    assert "no-such-file.yaml" in done.stderr
    assert run(["git", "-C", clone, "status", "--porcelain", "--untracked-files=no"]).stdout == ""
    assert not [*tmp_path.glob("*out*"), *tmp_path.glob(".release*")]
    there = tmp_path / "there"
    there.write_text("")
    assert "isn't an empty folder" in released(clone, f"--out={there}").stderr


def test_without_what_builds_images_a_release_says_what_to_do(clone: Path, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "cat", "dirname", "tr", "git"):
        (programs / name).symlink_to(shutil.which(name) or "")
    command = [clone / "scripts/release", "77.0.1", f"--out={tmp_path / 'out'}"]
    done = run(command, env={**os.environ, "PATH": str(programs)})
    assert done.returncode == 1
    assert "apt-get install buildah mmdebstrap" in done.stderr
    assert run(["git", "-C", clone, "status", "--porcelain"]).stdout == ""


# --- alerts and dashboard -------------------------------------------------------------------------------


def test_alerts_and_dashboard_name_metrics_that_there_are() -> None:
    metrics = Metrics(Health())
    metrics.elects("poller", bool)
    there = set(re.findall(r"^# TYPE (\S+)", generate_latest(metrics.registry).decode(), re.M))
    alerts = yaml.safe_load((MONITORING / "alerts.yaml").read_text())
    rules = [rule for group in alerts["groups"] for rule in group["rules"]]
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    queries += [rule["expr"] for rule in rules]
    pattern = r"\b(?:scheduler|poller|rest_client|leader_election|process)_[a-z_]+(?=[{\[) ]|$)"
    named = {name for query in queries for name in re.findall(pattern, query)}
    assert len(named) > 15
    assert {re.sub(r"_(bucket|sum)$", "", name) for name in named} <= there
    told = (MONITORING / "README.md").read_text()
    assert [rule["alert"] for rule in rules] == re.findall(r"^\| (Poller\w+) \|", told, re.M)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool isn't installed")
def test_each_alert_fires_for_what_it_is_for() -> None:
    done = run(["promtool", "test", "rules", "alerts_test.yaml"], cwd=MONITORING)
    assert done.returncode == 0, done.stdout + done.stderr
