"""The verbs of the command line that ask questions; none writes to the cluster."""

import inspect
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import typer

from lib.kube.escaping import escaped
from lib.service.help import Command

log = logging.getLogger(__name__)

YES, FAILED, NO = 0, 1, 3
"""Exit statuses; 2 is that of a command line that is wrong."""

VERBS: Mapping[str, str] = {
    "why": "Why a pod waits, and what would help; or why it is where it is.",
    "try": "Where the pods of manifests would go.",
    "room": "How many more pods fit, and what stops the next.",
    "drain": "Where the pods of nodes would go.",
    "save": "Write the cluster into a file, to ask it later.",
    "compare": "Compare how configurations place the same pods.",
}
"""Each verb's purpose, in a few words."""

COMPLETE = "__complete"
"""The verb for shell completion."""


def add_verbs(app: typer.Typer, arguments: Sequence[str] | None = None) -> None:
    """Add the verbs to a command line, if one of these arguments is a verb: the loop doesn't need them.

    arguments: by default those of the process.
    """
    given = sys.argv[1:] if arguments is None else arguments
    if not any(each in VERBS or each in (COMPLETE, "-h", "--help") for each in given):
        return
    from lib.questions.commands import ALL

    for name, answer in ALL.items():
        _add(app, name, answer)
    if COMPLETE in given:
        from lib.questions.completion import complete

        settings = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
        app.command(COMPLETE, hidden=True, context_settings=settings)(complete)


def _add(app: typer.Typer, name: str, answer: Callable[..., bool]) -> None:
    """Make a function a verb, with its own options and the common ones; its answer is the exit status."""
    from lib.questions.asking import common_options

    own = list(inspect.signature(answer).parameters.values())[1:]
    named = {each.name for each in own}
    common = list(inspect.signature(common_options).parameters.values())
    shared = [each for each in common if each.name not in named]

    def run(**given: Any) -> None:
        asked = common_options(**{each.name: given.pop(each.name) for each in shared})
        raise typer.Exit(_status(asked.command, lambda: answer(asked, **given)))

    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in [*own, *shared]]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__doc__ = answer.__doc__
    app.command(name, cls=Command, short_help=VERBS[name])(run)


class _Escaping(logging.Formatter):
    """Warnings, such as of a policy that failed, with texts of a cluster."""

    def format(self, record: logging.LogRecord) -> str:
        return escaped(super().format(record), keep="\n")


def _status(command: str, ask: Callable[[], bool]) -> int:
    """Ask, and turn the answer into an exit status; an error is printed in one line."""
    from lib.kube.errors import ApiError
    from lib.questions.asking import complain
    from lib.questions.errors import QuestionError

    handler = logging.StreamHandler()
    handler.setFormatter(_Escaping("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    try:
        return YES if ask() else NO
    except (QuestionError, ApiError) as error:
        complain(command, str(error))
    except Exception:  # a defect, or a policy's: a traceback of Python would print texts as they are
        log.exception("%s: there is no answer, because of an unexpected error:", command)
    return FAILED
