"""The folder `.lab`: a student's files, and the lab's own. The lab never overwrites what a student wrote.

A file that was typed or copied as a page says, and not changed since, is the page's.
"""

import hashlib
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from scripts.learning.pages import LESSONS, lessons
from scripts.servers.process import ROOT

FOLDER = ROOT / ".lab"

OWN = FOLDER / ".learn"
"""The lab's own files. Only this user may read them: the page's address is a secret."""

PROGRESS = FOLDER / "progress.json"

WRITTEN = OWN / "written-by-pages.json"
"""By the name of a file in FOLDER: the hash of what a page has written into it."""

LARGEST = 1_000_000  # bytes; a larger file is no text that a page or a student has written


def make_folders() -> None:
    """Make the folders that aren't there yet."""
    OWN.mkdir(mode=0o700, parents=True, exist_ok=True)


def files(folder: Path) -> dict[str, bytes]:
    """The files of a student, or of a page: by name, what is in them."""
    if not folder.is_dir():
        return {}
    return {
        file.name: file.read_bytes()
        for file in sorted(folder.iterdir())
        if file.is_file() and file.name != PROGRESS.name and file.stat().st_size <= LARGEST
    }


def remove_logs() -> None:
    """Remove the logs that pages write: a page would find in them what an earlier try has left."""
    for name in _logs():
        (FOLDER / name).unlink(missing_ok=True)


@contextmanager
def pages_folder(told: list[str], *, with_files: bool) -> Iterator[Path]:
    """A copy of the project's folder where a page's commands run. Afterwards `.lab` gets what they wrote.

    If a student has another file of that name, the page's is put beside it, and `told` gets a sentence.
    with_files: the copy's `.lab` begins with the student's files, else empty. Then it gets no logs, either.
    """
    with TemporaryDirectory(prefix="lab-") as made:
        copy = Path(made)
        for each in ROOT.iterdir():
            if each != FOLDER:
                (copy / each.name).symlink_to(each)
        lab = copy / FOLDER.name
        lab.mkdir()
        if with_files:
            for name in files(FOLDER):
                shutil.copy2(FOLDER / name, lab / name)
        before = files(lab)
        try:
            yield copy
        finally:
            logs = _logs()
            for name, content in files(lab).items():
                if content != before.get(name) and (with_files or name not in logs):
                    _bring_back(lab / name, content, told, replace=name in logs)


def _bring_back(source: Path, content: bytes, told: list[str], *, replace: bool) -> None:
    """Copy a page's file to FOLDER, under its own name or, if a student's file has that, under another."""
    written, theirs = _written(), files(FOLDER)
    stem, suffix = source.stem, source.suffix
    names = [source.name, f"{stem}.page{suffix}", *(f"{stem}.page-{n}{suffix}" for n in range(2, 100))]
    for name in names:
        now = theirs.get(name)
        is_free = now is None and not (FOLDER / name).exists()
        if now == content or is_free or replace:
            break
        if now is not None and (_hash(now) == written.get(name) or _stands_in_the_lab(now)):
            break
    else:
        told.append(f".lab/{source.name} is yours and stays as it is; the page's is left out.")
        return
    if now != content:
        shutil.copy2(source, FOLDER / name)
        make_folders()
        WRITTEN.write_bytes(msgspec.json.encode({**written, name: _hash(content)}))
    if name != source.name:
        told.append(
            f".lab/{source.name} is yours and stays as it is. What the page writes is in .lab/{name}."
        )


def _stands_in_the_lab(content: bytes) -> bool:
    """Whether a page, or another file of the lab, has this text: then nothing is lost with it."""
    return any(file.is_file() and content in file.read_bytes() for file in LESSONS.rglob("*"))


def _written() -> dict[str, str]:
    try:
        return msgspec.json.decode(WRITTEN.read_bytes(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError):
        return {}


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _logs() -> set[str]:
    """The names of the logs in `.lab` that pages write."""
    found = (re.findall(r">\s*\.lab/(\S+\.log)\b", lesson.source) for lesson in lessons())
    return {name for names in found for name in names}
