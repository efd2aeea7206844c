"""Log lines on standard error: text for people, or JSON for programs, an object a line."""

import io
import logging
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TextIO

import msgspec

from lib.kube.escaping import escaped
from lib.kube.objects import Pod
from lib.scheduling.decision import PLACED, Decision

log = logging.getLogger("poller")


class LogFormat(StrEnum):
    """How log lines look."""

    TEXT = "text"
    JSON = "json"


FIELDS = ("pod", "node", "attempt", "duration", "scheduler")
"""The fields that a line of JSON may have."""

Fields = Mapping[str, Any]
"""Some of them with their values: a log call's `extra`."""


def of_pod(pod: Pod) -> Fields:
    """The fields of a line about a pod."""
    return {"pod": str(pod), "scheduler": pod.spec.scheduler_name}


def of_attempt(decision: Decision) -> Fields:
    """The fields of a line about an attempt to schedule a pod, which took so many seconds."""
    fields = {**of_pod(decision.pod), "attempt": decision.attempt, "duration": round(decision.seconds, 6)}
    if decision.node_name and decision.outcome in PLACED:
        fields["node"] = decision.node_name
    return fields


def set_up_logging(log_format: LogFormat, *, verbose: bool) -> TextIO:
    """Log to standard error; `verbose` adds each request, retry and rejection. Returns the stream for prints.

    With JSON, everything there is JSON: also warnings, prints of policies, and uncaught exceptions.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(text_formatter())
    if log_format == LogFormat.JSON:
        handler.setFormatter(JsonFormatter())
        logging.captureWarnings(True)
        sys.excepthook = lambda *raised: _log_uncaught(raised[1])
        threading.excepthook = lambda raised: _log_uncaught(raised.exc_value)
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler])
    # Don't collect what no line shows: docs.python.org/3/howto/logging.html#optimization
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    for noisy in ("httpx", "httpcore"):  # lib.kube.api logs each request itself
        logging.getLogger(noisy).setLevel(logging.WARNING)
    return Printed() if log_format == LogFormat.JSON else sys.stderr


def _log_uncaught(error: BaseException | None) -> None:
    log.critical("ended by %s", type(error).__name__, exc_info=error)


class Printed(io.StringIO):
    """Logs what is printed, line by line."""

    _rest = ""  # the last line, not complete yet

    def write(self, text: str) -> int:
        """Log each line that is complete."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            log.info("%s", line)
        return len(text)


class TextFormatter(logging.Formatter):
    """A line of text: time and message. Only a traceback, if the log call asks for one, has more lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """The line, without its end."""
        record.message = escaped(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """The traceback, with its line breaks, which come from Python or from an error's text."""
        return escaped(super().formatException(ei), keep="\n")


def text_formatter() -> TextFormatter:
    """The formatter for lines of text."""
    return TextFormatter("%(asctime)s %(message)s", datefmt="%H:%M:%S")


class JsonFormatter(logging.Formatter):
    """A line of JSON: time, level, message, and FIELDS."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "ts": when.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "msg": escaped(record.getMessage()),
            **{name: vars(record)[name] for name in FIELDS if name in vars(record)},
        }
        if record.exc_info:
            line["traceback"] = escaped(self.formatException(record.exc_info), keep="\n")
        return msgspec.json.encode(line).decode()
