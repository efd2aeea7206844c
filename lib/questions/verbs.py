"""The verbs of the command line that ask something; none writes to the cluster."""

import inspect
import logging
from collections.abc import Callable
from typing import Any

import typer

from lib.kube.errors import ApiError
from lib.questions.asking import Common, common_options, complain
from lib.questions.commands import ALL
from lib.questions.text import QuestionError

YES, FAILED, NO = 0, 1, 3
"""Exit statuses; 2 is that of a command line that is wrong."""

VERBS = "Questions about a cluster; nothing is written to it"
"""A part of --help."""

_OPTIONS = inspect.signature(common_options)


def verb(app: typer.Typer, name: str) -> Callable[[Callable[..., bool]], Callable[..., None]]:
    """Make a function a verb: with the common options after its own, and its answer as exit status."""

    def decorate(answer: Callable[..., bool]) -> Callable[..., None]:
        own = list(inspect.signature(answer).parameters.values())[1:]
        shared = list(_OPTIONS.parameters.values())

        def run(**given: Any) -> None:
            common = common_options(**{each.name: given.pop(each.name) for each in shared})
            raise typer.Exit(_answer(common, lambda: answer(common, **given)))

        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in [*own, *shared]]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        run.__doc__ = answer.__doc__
        app.command(name, rich_help_panel=VERBS)(run)
        return run

    return decorate


def _answer(common: Common, ask: Callable[[], bool]) -> int:
    """Ask, and turn the answer into an exit status; what goes wrong is said in a line."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        return YES if ask() else NO
    except (QuestionError, ApiError) as error:
        complain(common.command, str(error))
        return FAILED


def add_verbs(app: typer.Typer) -> None:
    """Add all verbs to a command line."""
    for name, answer in ALL.items():
        verb(app, name)(answer)
