"""The command line. Each option may also come from the environment: `--proxy` from POLLER_PROXY."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Annotated
from urllib.parse import urlsplit

import typer

DEFAULT_PROXY = "http://127.0.0.1:8001"
"""Where `kubectl proxy` listens unless told otherwise."""


@dataclass(frozen=True)
class Options:
    """What poller was asked to do."""

    proxy: str
    start_proxy: bool
    scheduler_name: str
    interval: float
    once: bool
    dry_run: bool
    seed: int | None
    verbose: bool


def _address(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        url = urlsplit(text)
        good = url.path.startswith("/") if url.scheme == "unix" else bool(url.hostname) and url.port != 0
    except ValueError:
        good = False
    if not good or url.scheme not in ("http", "https", "unix"):
        raise typer.BadParameter(f"{text!r} is neither http://HOST:PORT nor unix:///PATH")
    return text


def _name(text: str) -> str:
    if not re.fullmatch("[a-z0-9]([-.a-z0-9]*[a-z0-9])?", text):
        raise typer.BadParameter(f"{text!r} is no name that a pod's spec.schedulerName can have")
    return text


def _seconds(number: float) -> float:
    if not (isfinite(number) and number > 0):
        raise typer.BadParameter(f"{number} is no number of seconds to wait")
    return number


def run_with_options(run: Callable[[Options], int]) -> None:
    """Read the command line, run, and exit with what `run` returns; with 2 and the usage when it is wrong."""
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"auto_envvar_prefix": "POLLER", "help_option_names": ["-h", "--help"]},
    )

    @app.command()
    def poller(
        proxy: Annotated[
            str | None,
            typer.Option(
                callback=_address,
                metavar="URL",
                show_default=DEFAULT_PROXY,
                help="Where kubectl proxy listens: http://HOST:PORT or unix:///PATH.",
            ),
        ] = None,
        start_proxy: Annotated[
            bool,
            typer.Option(
                "--start-proxy",
                metavar="",
                help="Start a kubectl proxy of our own, on a private socket, and end it with us.",
            ),
        ] = False,
        scheduler_name: Annotated[
            str,
            typer.Option(callback=_name, metavar="NAME", help="Serve pods with this spec.schedulerName."),
        ] = "my-scheduler",
        interval: Annotated[
            float, typer.Option(callback=_seconds, metavar="SECONDS", help="Wait so long between two polls.")
        ] = 1.0,
        once: Annotated[
            bool,
            typer.Option(
                "--once",
                metavar="",
                help="One pass. Exit 0: all that waited was placed; 3: something was not; 1: no API there.",
            ),
        ] = False,
        dry_run: Annotated[
            bool,
            typer.Option(
                "--dry-run", metavar="", help="Decide and say so, but write nothing to the cluster."
            ),
        ] = False,
        seed: Annotated[
            int | None, typer.Option(metavar="NUMBER", help="Make the random choices repeatable.")
        ] = None,
        verbose: Annotated[
            bool,
            typer.Option("--verbose", "-v", metavar="", help="Say why, node by node, and name each request."),
        ] = False,
    ) -> None:
        """A Kubernetes scheduler in one small loop, beside kubectl proxy.

        Polls for pods that wait for it, picks a node for each, writes the Binding and the Event.
        """
        if start_proxy and proxy:
            raise typer.BadParameter("a proxy of our own has an address of its own: leave out --proxy")
        options = Options(
            proxy=proxy or DEFAULT_PROXY,
            start_proxy=start_proxy,
            scheduler_name=scheduler_name,
            interval=interval,
            once=once,
            dry_run=dry_run,
            seed=seed,
            verbose=verbose,
        )
        sys.exit(run(options))

    app()
