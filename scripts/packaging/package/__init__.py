"""poller as an installed package: the commands `poller` and `kubectl poller`.

This folder holds the project's tree: poller.py, lib and scripts. Only a process that runs poller finds `lib`
there: it is no package beside others.
"""

import os
import runpy
import sys
from pathlib import Path
from typing import NoReturn

TREE = Path(__file__).resolve().parent

SCRIPTS = {
    "demo": "shows poller at work, on a small cluster of its own",
    "learn": "lessons on scheduling, with a cluster, a page and a shell",
}
"""The scripts that are commands, too. They run in a copy of the project, which is for reading as well."""

COMPLETION = "completion"
"""The command that prints what a shell needs to complete `poller`."""

COMPLETES = 'Put this into ~/.bashrc: eval "$(poller completion)"'

OWN_FILES = ("__init__.py", "__main__.py", "__pycache__", "completion.bash", "py.typed")


def main() -> None:
    """The command `poller`: as poller.py; `poller demo` and `poller learn` run these scripts."""
    arguments = sys.argv[1:]
    if arguments and arguments[0] in SCRIPTS:
        _run_script(*arguments)
    if arguments and arguments[0] == COMPLETION:
        _complete(*arguments[1:])
        return
    os.environ.setdefault("POLLER_CALLED_AS", "poller")
    sys.path.insert(0, str(TREE))
    try:
        runpy.run_path(str(TREE / "poller.py"), run_name="__main__")
    finally:
        if arguments in (["--help"], ["-h"]):
            more = {
                **SCRIPTS,
                COMPLETION: f"for bash and zsh. {COMPLETES}",
            }
            print("\nScripts:", *(f"  {name:<10}  {what}" for name, what in more.items()), sep="\n")


def _complete(*arguments: str) -> None:
    """Print what a shell needs; or, for --help, how it is used."""
    if arguments in (("-h",), ("--help",)):
        print(
            f"Usage: poller {COMPLETION} [bash|zsh]\n\n"
            f"Prints what the shell needs to complete `poller`. {COMPLETES}"
        )
    elif arguments in ((), ("bash",), ("zsh",)):
        print((TREE / "completion.bash").read_text(), end="")
    else:
        sys.exit(f"poller {COMPLETION}: {' '.join(arguments)}: the shells are bash and zsh")


def kubectl_plugin() -> NoReturn:
    """The command `kubectl-poller`, which kubectl runs for `kubectl poller`."""
    _run_plugin(*sys.argv[1:])


def kubectl_completion() -> NoReturn:
    """The command `kubectl_complete-poller`, which kubectl's shell completion runs."""
    _run_plugin("__complete", *sys.argv[1:])


def _run_plugin(*arguments: str) -> NoReturn:
    os.environ["POLLER_PYTHON"] = sys.executable
    script = str(TREE / "scripts/kubectl-poller")
    os.execv("/bin/sh", ["/bin/sh", script, *arguments])


def _run_script(name: str, *arguments: str) -> NoReturn:
    """Run a script in the copy of the project in the current folder; make the copy if there is none.

    --help needs no copy.
    """
    from importlib.metadata import version

    if arguments and arguments[0] in ("-h", "--help"):
        os.execv("/bin/sh", [name, str(TREE / "scripts" / name), "--help"])
    folder = Path.cwd() / f"poller-{version('poller')}"
    if not folder.exists():
        try:
            _copy_to(folder)
        except OSError as error:
            sys.exit(f"poller {name}: the project can't be copied to {folder}: {error.strerror}")
        print(f"poller {name}: the project is in {folder} now: read it, or delete it", file=sys.stderr)
    os.execv(folder / "scripts" / name, [name, *arguments])


def _copy_to(folder: Path) -> None:
    """Copy the project's tree; there is a whole copy or none. OSError if that fails."""
    import shutil  # here, as are all that few commands need: Ctrl-C while they are imported shows a traceback
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as made:
        copy = Path(made, folder.name)
        shutil.copytree(
            TREE, copy, ignore=lambda where, _: OWN_FILES if Path(where) == TREE else ["__pycache__"]
        )
        for file in (copy / "scripts").rglob("*"):
            if file.is_file() and file.read_bytes()[:2] == b"#!":
                file.chmod(0o755)
        copy.rename(folder)
