"""Where manifests come from: files, folders, URLs, standard input, and kustomizations."""

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lib.kube.bounded_files import MAX_YAML, TooMuchError, read_at_most
from lib.kube.system import MACHINE
from lib.lazily import Lazy
from lib.questions.errors import CommandLineError, QuestionError

if TYPE_CHECKING:
    import httpx
else:
    httpx = Lazy("httpx")

SUFFIXES = (".yaml", ".yml", ".json")
"""kubectl reads such files of a folder."""

KUSTOMIZE = "kustomization "
"""What a name begins with that `kubectl kustomize` is to build."""

PATIENCE = 60
"""Seconds for a download, or for kustomize."""


def expanded(names: Sequence[str], kustomizations: Sequence[str], *, recursive: bool) -> list[str]:
    """The files of these names, with those in folders. QuestionError when there are none."""
    if not names and not kustomizations:
        raise CommandLineError("say which manifests: -f FILE, -f FOLDER, -f URL, or -k FOLDER")
    found = [file for name in names for file in _files(name, recursive=recursive)]
    return [*found, *(f"{KUSTOMIZE}{folder}" for folder in kustomizations)]


def _files(name: str, *, recursive: bool) -> Iterator[str]:
    if name == "-" or not Path(name).is_dir():
        yield name
        return
    inside = sorted(Path(name).rglob("*") if recursive else Path(name).iterdir())
    files = [str(file) for file in inside if file.suffix in SUFFIXES and file.is_file()]
    if not files:
        hint = "" if recursive else "; -R looks into its folders, too"
        raise QuestionError(f"{name}: there are no files {', '.join(SUFFIXES)} in this folder{hint}")
    yield from files


def content_of(name: str | Path) -> bytes:
    """The content of a file, a URL or a kustomization. OSError or TooMuchError when it can't be read."""
    text = str(name)
    if text.startswith(KUSTOMIZE):
        return _kustomized(text.removeprefix(KUSTOMIZE))
    if text.startswith(("http://", "https://")):
        return _downloaded(text)
    return read_at_most(Path(name), MAX_YAML)


def _downloaded(url: str) -> bytes:
    body, until = bytearray(), MACHINE.monotonic() + PATIENCE
    try:
        with httpx.stream("GET", url, timeout=PATIENCE, follow_redirects=True) as answer:
            answer.raise_for_status()
            for chunk in answer.iter_bytes():
                body += chunk
                if len(body) > MAX_YAML:
                    raise TooMuchError(f"is larger than {MAX_YAML >> 20} MiB")
                if MACHINE.monotonic() > until:
                    raise OSError(f"takes longer than {PATIENCE} s to be fetched")
    except httpx.HTTPError as error:
        raise OSError(f"can't be fetched: {error}") from error
    return bytes(body)


def _kustomized(folder: str) -> bytes:
    try:
        command = ["kubectl", "kustomize", "--", folder]  # the user's own kubectl
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise OSError(f"kubectl kustomize took longer than {PATIENCE} s") from error
    if done.returncode:
        raise OSError(done.stderr.decode(errors="replace").strip() or "kubectl kustomize failed")
    return done.stdout
