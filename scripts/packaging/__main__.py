"""Makes a release: `scripts/release`."""

import argparse
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from scripts.packaging import images
from scripts.packaging.images import BuildError
from scripts.servers.kubectl import KUBECTL
from scripts.servers.process import ROOT

UNRELEASED = "## Not released yet\n"
VERSION = re.compile(r"\d+\.\d+\.\d+")
OF_LIB = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
OF_CHART = re.compile(r"^(version|appVersion): .+$", re.MULTILINE)

INIT, CHANGELOG, CHART = (ROOT / each for each in ("lib/__init__.py", "CHANGELOG.md", "scripts/deploy/chart"))


def main() -> None:
    """Make the release that the command line asks for."""
    parser = argparse.ArgumentParser("scripts/release", description=__doc__)
    parser.add_argument(
        "version", nargs="?", metavar="X.Y.Z", help="the new version; without it, the present one"
    )
    parser.add_argument(
        "--out", required=True, type=Path, metavar="DIR", help="a folder that isn't there yet"
    )
    parser.add_argument(
        "--image",
        action="append",
        choices=[*images.ARCHITECTURES, "none"],
        help="build the image for this architecture only, or none; by default for all of them",
    )
    asked = parser.parse_args()
    architectures = [each for each in asked.image or images.ARCHITECTURES if each != "none"]
    try:
        _check_folder(asked.out)
        if architectures:
            images.check_tools()
        if asked.version:
            change_version(asked.version, datetime.now(UTC).date().isoformat())
        version = present_version()
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=asked.out.parent, prefix=".release-") as folder:
            made = Path(folder, "made")
            try:
                build(version, made, architectures)
            except BuildError:
                if asked.version:
                    _output("git", "checkout", "--", str(INIT), str(CHANGELOG), str(CHART))
                raise
            made.rename(asked.out)
    except BuildError as error:
        sys.exit(f"scripts/release: {error}")
    for each in sorted(asked.out.iterdir()):
        print(f"{each.stat().st_size:>12,}  {each.name}")
    if asked.version:
        print(
            f"\nIf all is well, let it be this commit:\n  git commit --all --message 'Release {version}' "
            f"&& git tag v{version}"
        )


def _check_folder(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BuildError(f"{out} isn't an empty folder; name a folder that isn't there yet")
    if _output("git", "status", "--porcelain", "--untracked-files=no"):
        raise BuildError("there are changes that aren't committed, see git status; commit them first")


def present_version() -> str:
    """The version that lib says."""
    found = OF_LIB.search(INIT.read_text())
    assert found
    return found[1]


def change_version(version: str, date: str) -> None:
    """Write the version where it stands, and date what isn't released. BuildError when it can't be that."""
    if not VERSION.fullmatch(version):
        raise BuildError(f"{version!r} is no version such as 1.2.3")
    present = present_version()
    if _parts(version) < _parts(present):
        raise BuildError(f"{version} comes before {present}, which is the present version")
    changes = CHANGELOG.read_text()
    if f"## {version} " in changes:
        raise BuildError(f"CHANGELOG.md has {version} already")
    _, found, rest = changes.partition(UNRELEASED)
    if not found or not rest.partition("\n## ")[0].strip():
        raise BuildError(f"CHANGELOG.md says nothing of changes, below {UNRELEASED.strip()!r}")
    CHANGELOG.write_text(changes.replace(UNRELEASED, f"{UNRELEASED}\n## {version} ({date})\n", 1))
    INIT.write_text(OF_LIB.sub(f'__version__ = "{version}"', INIT.read_text()))
    chart = CHART / "Chart.yaml"
    chart.write_text(OF_CHART.sub(rf"\1: {version}", chart.read_text()))


def _parts(version: str) -> list[int]:
    return [int(each) for each in version.split(".")]


def build(version: str, out: Path, architectures: Sequence[str]) -> None:
    """Build everything into a folder, from the files that git knows.

    architectures: those of the images.
    """
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in _output("git", "ls-files", "-z").split("\0"):
            if name:
                target = tree / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, target, follow_symlinks=False)
        date = str(_date_of(version))
        for architecture in architectures:
            print(f"building the image for {architecture}", file=sys.stderr)
            name = images.build(architecture, version, int(date), tree)
            print(images.write(name, architecture, version, int(date), out), file=sys.stderr)
        _output(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out.resolve()),
                where=tree, SOURCE_DATE_EPOCH=date)  # fmt: skip
        deploy = tree / "scripts/deploy"
        _pin(deploy, version)
        (out / f"poller-chart-{version}.tgz").write_bytes(packed(deploy / "chart", "poller", int(date)))
        manifests = _output(str(KUBECTL), "kustomize", str(deploy))
        (out / f"poller-{version}.yaml").write_text(manifests)
        assert len([*yaml.safe_load_all(manifests)]) > 5
        for name in ("alerts.yaml", "dashboard.json"):
            shutil.copy(deploy / "monitoring" / name, out / f"poller-{version}-{name}")
    sums = [f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}" for each in sorted(out.iterdir())]
    (out / "SHA256SUMS").write_text("\n".join(sums) + "\n")


def _date_of(version: str) -> int:
    """The date of all files in the packages, in seconds: of the release, so that it is the same each time.

    Before a release it is that of the commit.
    """
    found = re.search(rf"^## {re.escape(version)} \((.+)\)$", CHANGELOG.read_text(), re.MULTILINE)
    if not found:
        return int(_output("git", "log", "-1", "--format=%ct"))
    return int(datetime.fromisoformat(found[1]).replace(tzinfo=UTC).timestamp())


def _pin(deploy: Path, version: str) -> None:
    """Have the manifests and the chart name this version of the image: else nodes keep the one they have."""
    for file, before, after in (
        ("poller.yaml", "image: &image poller ", f"image: &image poller:{version} "),
        ("chart/values.yaml", '  tag: ""\n', f'  tag: "{version}"\n'),
    ):
        text = (deploy / file).read_text()
        assert before in text, file
        (deploy / file).write_text(text.replace(before, after))


def packed(folder: Path, name: str, date: int) -> bytes:
    """A folder as a .tgz in which it has this name. The same files give the same bytes."""

    def alike(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime, member.mode = date, 0o755 if member.isdir() else 0o644
        return member

    packing = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packing, mode="wb", mtime=date) as compressed,
        tarfile.open(fileobj=compressed, mode="w", dereference=True) as archive,
    ):
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.add(file, f"{name}/{file.relative_to(folder)}", filter=alike)
    return packing.getvalue()


def _output(*command: str, where: Path = ROOT, **environment: str) -> str:
    """The output of a command. BuildError when it fails."""
    done = subprocess.run(
        command, cwd=where, capture_output=True, text=True, env={**os.environ, **environment}
    )
    if done.returncode:
        raise BuildError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout


main()
