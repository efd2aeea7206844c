"""One cluster for all terminals: a process of its own keeps it, until the last of their shells has ended.

`scripts/learn` in a second terminal finds the cluster of the first, and joins it. Locks say who is there: the
kernel frees them when a process ends, however that ends.
"""

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

import msgspec

from scripts.learning.folder import OWN, make_folders
from scripts.learning.lab import LabError
from scripts.learning.session import current_cluster, lab_of, own_cluster
from scripts.servers.process import ROOT

SHELLS, KEEPER, STARTING = "shells.lock", "keeper.lock", "starting.lock"
"""Shells share the first; the keeper holds the second, and the first when the last shell has ended. Who looks
for a keeper, or starts one, holds the third."""

SESSION, LOG = OWN / "session.json", OWN / "keeper.log"


@dataclass(frozen=True)
class Session:
    """A lab. environment: the variables of its shells. joined: another terminal has begun it."""

    environment: dict[str, str]
    joined: bool


@contextmanager
def session(*, of_current_context: bool) -> Iterator[Session]:
    """The running lab of this folder, which is begun if there is none. LabError when that doesn't work."""
    make_folders()
    with locked(SHELLS, fcntl.LOCK_SH):
        with locked(STARTING, fcntl.LOCK_EX):
            joined = is_held(KEEPER)
            if not joined:
                _start_keeper(of_current_context)
            environment = msgspec.json.decode(SESSION.read_bytes(), type=dict[str, str])
        lab = lab_of(environment)
        if joined and of_current_context and lab and lab.own:
            raise LabError(
                "a lab with a cluster of its own runs in another terminal: leave it with `exit` first"
            )
        yield Session(environment, joined)


@contextmanager
def locked(name: str, how: int) -> Iterator[IO[str]]:
    """Hold a lock while the block runs; wait for it if need be. BlockingIOError with LOCK_NB instead."""
    with (OWN / name).open("a") as file:
        fcntl.flock(file, how)
        yield file


def is_held(name: str) -> bool:
    """Whether another process holds a lock alone."""
    try:
        with locked(name, fcntl.LOCK_SH | fcntl.LOCK_NB):
            return False
    except BlockingIOError:
        return True


def _start_keeper(of_current_context: bool) -> None:
    command = [
        sys.executable,
        "-m",
        "scripts.learning.keeper",
        *(["--cluster"] if of_current_context else []),
    ]
    with LOG.open("w") as log:
        keeper = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,  # so that it outlives this terminal
        )
    assert keeper.stdout
    with keeper.stdout:
        said = keeper.stdout.readline().strip()
    if said != "ready":
        raise LabError(said or f"the cluster didn't start; {LOG} says why")


def main() -> None:
    """Keep a cluster until the last shell has ended. Says "ready" on standard output, or what is wrong."""
    own = "--cluster" not in sys.argv
    with (OWN / SHELLS).open("a") as shells:
        try:
            with locked(KEEPER, fcntl.LOCK_EX), own_cluster() if own else current_cluster() as environment:
                SESSION.write_bytes(msgspec.json.encode(environment))
                print("ready", flush=True)
                fcntl.flock(shells, fcntl.LOCK_EX)
                lab = lab_of(environment)
                if lab and not own:
                    lab.reset()
        except LabError as error:
            print(" ".join(str(error).split()), flush=True)


if __name__ == "__main__":
    main()
