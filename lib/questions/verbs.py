"""The verbs of the command line that ask questions; none writes to the cluster."""

import inspect
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any

import typer

from lib.kube.escaping import escaped
from lib.service.help import Command

log = logging.getLogger(__name__)

FAILED, WRONG = 1, 2
"""The exit status if there is no answer, and if the command line, a configuration or a policy is wrong."""

VERBS: Mapping[str, str] = {
    "why": "Why a pod waits, and what would help; or why it is where it is.",
    "try": "Where the pods of manifests would go.",
    "room": "How many more pods fit, and what stops the next.",
    "drain": "Where the pods of nodes would go.",
    "save": "Write the cluster into a file, to ask it later.",
    "compare": "Compare how configurations place the same pods.",
    "record": "Record nodes and pods as they come and go, for replay.",
    "replay": "What would have become of a trace's pods.",
    "size": "The cheapest nodes on which all pods fit.",
}
"""Each verb's purpose, in a few words."""

COMPLETE = "__complete"
"""The verb for shell completion."""


def add_verbs(app: typer.Typer, arguments: Sequence[str] | None = None) -> None:
    """Add the verbs to a command line, if one of these arguments is a verb: the loop doesn't need them.

    arguments: by default those of the process.
    """
    if arguments is None:
        sys.argv[1:] = verb_first(sys.argv[1:])
    given = sys.argv[1:] if arguments is None else arguments
    _check_first_word(given)
    if not any(word in VERBS or word in (COMPLETE, "-h", "--help") for word in given):
        return
    from lib.questions.commands import ALL

    for name, answer in ALL.items():
        _add(app, name, answer)
    if COMPLETE in given:
        from lib.questions.completion import complete

        settings = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
        app.command(COMPLETE, hidden=True, context_settings=settings)(complete)


KUBECTL_FLAGS = ("-n", "--namespace", "--context", "--kubeconfig")
"""Options that kubectl takes before a verb, too. Each has a value."""


def verb_first(words: Sequence[str]) -> list[str]:
    """The same words with the verb first, if only kubectl's own options are before it."""
    at = 0
    while at < len(words) and words[at].partition("=")[0] in KUBECTL_FLAGS:
        at += 1 if "=" in words[at] else 2
    if 0 < at < len(words) and words[at] in VERBS:
        return [words[at], *words[:at], *words[at + 1 :]]
    return [*words]


def _check_first_word(words: Sequence[str]) -> None:
    """SystemExit if the first word looks like a verb, and isn't one."""
    first = words[0] if words else "-"
    if first.startswith("-") or first in (*VERBS, COMPLETE):
        return
    near = get_close_matches(first, VERBS, 1)
    meant = f"did you mean {near[0]}?" if near else f"the verbs are {', '.join(VERBS)}"
    name = os.environ.get("POLLER_CALLED_AS") or "poller.py"
    print(f"{name}: there is no verb {escaped(first)}; {meant}", file=sys.stderr)
    raise SystemExit(2)


def _add(app: typer.Typer, name: str, answer: Callable[..., int]) -> None:
    """Make a function a verb; its answer is the exit status.

    A parameter whose type is a dataclass stands for the options that its fields are. The first one is such:
    verbs share it. Other options come before those, and may take the place of some.
    """
    parameters = inspect.signature(answer).parameters.values()
    parts = {parameter.name: _options(parameter.annotation) or [parameter] for parameter in parameters}
    shared, *own = parts.values()
    options = {option.name: option for part in own for option in part}
    options |= {parameter.name: parameter for parameter in shared if parameter.name not in options}

    def run(**given: Any) -> None:
        def taken(parameter: inspect.Parameter) -> Any:
            if not _options(parameter.annotation):
                return given[parameter.name]
            of_part = [option.name for option in parts[parameter.name] if option is options[option.name]]
            return parameter.annotation(**{name: given[name] for name in of_part})

        ask = partial(answer, *map(taken, parameters))
        raise typer.Exit(_status(given["context"].command_path, ask))

    keywords = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options.values()]
    run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]  # typer reads it
    run.__annotations__ = {keyword.name: keyword.annotation for keyword in keywords}
    run.__doc__ = answer.__doc__
    app.command(name, cls=Command, short_help=VERBS[name])(run)


def _options(kind: type) -> list[inspect.Parameter]:
    """The options that a dataclass's fields are; none for another type."""
    return [*inspect.signature(kind).parameters.values()] if is_dataclass(kind) else []


class _Escaping(logging.Formatter):
    """Warnings, such as of a policy that failed, with texts of a cluster."""

    def format(self, record: logging.LogRecord) -> str:
        return escaped(super().format(record), keep="\n")


def _status(command: str, ask: Callable[[], int]) -> int:
    """Ask, and turn the answer into an exit status; an error is printed in one line."""
    from lib.kube.errors import ApiError
    from lib.questions.asking import complain
    from lib.questions.errors import CommandLineError, QuestionError
    from lib.service.config import ConfigError
    from lib.service.policies import PolicyError

    handler = logging.StreamHandler()
    handler.setFormatter(_Escaping("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    try:
        return ask()
    except QuestionError as error:
        complain(command, *error.lines)
        return WRONG if isinstance(error, CommandLineError) else FAILED
    except (ConfigError, PolicyError) as error:
        complain(command, *str(error).splitlines())
        return WRONG
    except ApiError as error:
        complain(command, str(error))
    except BrokenPipeError:  # who reads has enough; Python must not flush into the pipe at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception:  # a defect, or a policy's: a traceback of Python would print texts as they are
        log.exception("%s: there is no answer, because of an unexpected error:", command)
    return FAILED
