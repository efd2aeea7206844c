"""Text from a cluster is escaped before it reaches a terminal or a log."""

import logging

import pytest
from objects import pod

from lib.kube.escaping import escaped
from lib.scheduling.decision import Decision, Outcome
from lib.service.telemetry import explain
from lib.service.telemetry.log import JsonFormatter, TextFormatter

EVIL = "a\x1b[2Jb\nforged line\r\u202egnp.exe\u2028\x9b31m\ud800\x00"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain, with ümlauts, 字 and 🙂", "plain, with ümlauts, 字 and 🙂"),
        ("a\nb", "a\\nb"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202eabc", "\\u202eabc"),
        ("\u2028", "\\u2028"),
        ("\ud800", "\\ud800"),
        ("\x00\x7f", "\\x00\\x7f"),
    ],
)
def test_what_is_not_for_reading_is_escaped(text: str, expected: str) -> None:
    assert escaped(text) == expected


@pytest.mark.parametrize("formatter", [TextFormatter("%(message)s"), JsonFormatter()], ids=["text", "json"])
def test_a_log_line_is_one_line_of_what_can_be_read(formatter: logging.Formatter) -> None:
    record = logging.makeLogRecord({"msg": "%s", "args": (EVIL,)})
    line = formatter.format(record)
    assert len(line.splitlines()) == 1
    assert line.isprintable()


@pytest.mark.parametrize("formatter", [TextFormatter("%(message)s"), JsonFormatter()], ids=["text", "json"])
def test_so_is_a_traceback(formatter: logging.Formatter) -> None:
    error = ValueError(EVIL)
    record = logging.makeLogRecord({"msg": "failed", "exc_info": (ValueError, error, None)})
    assert all(line.isprintable() for line in formatter.format(record).split("\n"))


def test_a_table_has_no_escape_codes_of_others(capfd: pytest.CaptureFixture[str]) -> None:
    decision = Decision(pod("web"), Outcome.UNSCHEDULABLE, all_nodes=1, message=EVIL)
    explain.as_table(decision, decision.message)
    shown = capfd.readouterr().out
    assert all(line.isprintable() for line in shown.split("\n"))
    assert "forged line" in shown
