"""A bad option is refused with the usage and exit status 2, before anything is done."""

import ast
import os
import re
import subprocess
import sys
from dataclasses import fields

import pytest

from lib import startup
from lib.service.command_line import CommandLine
from lib.service.options import run_with_options
from lib.version import full_version
from scripts.servers.process import ROOT


def poller(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, ROOT / "poller.py", *arguments],
        env={**os.environ, "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--interval", "0"], "not a valid number of seconds"),
        (["--interval", "-1"], "not a valid number of seconds"),
        (["--interval", "nan"], "not a valid number of seconds"),
        (["--interval", "soon"], "Invalid value for '--interval'"),
        (["--proxy", "127.0.0.1:8001"], "is neither http://HOST:PORT nor unix:///PATH"),
        (["--proxy", "ftp://127.0.0.1"], "is neither http://HOST:PORT nor unix:///PATH"),
        (["--proxy", "http://127.0.0.1:99999"], "is neither http://HOST:PORT nor unix:///PATH"),
        (["--proxy", "http://me:secret@127.0.0.1:8001"], "asks for no user and no password"),
        (["--pod-initial-backoff", "30"], "10 s is less than the initial backoff of 30 s"),
        (["--proxy", "me:secret@127.0.0.1:8001"], "is neither http://HOST:PORT nor unix:///PATH"),
        (["--proxy", "unix://relative"], "is neither http://HOST:PORT nor unix:///PATH"),
        (["--scheduler-name", "a,b"], "not a valid scheduler name"),
        (["--scheduler-name", ""], "not a valid scheduler name"),
        (["--seed", "x"], "Invalid value for '--seed'"),
        (["--sed", "1"], "No such option: --sed"),
        (["surplus"], "No such command 'surplus'"),
        (["--start-proxy", "--proxy", "http://127.0.0.1:1"], "can't be combined with --proxy"),
        (["--context", "a", "--proxy", "http://127.0.0.1:1"], "--context can't be combined with --proxy"),
        (["--ui"], "needs --start-proxy, or a --proxy on a unix socket"),
        (["--ui", "--start-proxy", "--once"], "--once can't be combined with --ui"),
        (["--top"], "standard output is not one that it can draw on"),
        (["--top", "--once"], "--once can't be combined with --top"),
        (["--top", "--explain", "json"], "--explain can't be combined with --top"),
        (["--once", "--watch"], "--once can't be combined with --watch"),
        (["--once", "--leader-elect"], "--once can't be combined with --leader-elect"),
        (["--namespace", "a,b"], "not a valid namespace name"),
        (["--leader-elect-retry-period", "1"], "options need --leader-elect"),
        (["--leader-elect", "--leader-elect-lease-duration", "10"], "must be longer than the renew deadline"),
        (["--leader-elect", "--leader-elect-retry-period", "9"], "longer than 1.2 times the retry period (9"),
        (["--leader-elect", "--leader-elect-resource-name", "a/b"], "not a valid object name"),
    ],
)
def test_a_bad_option_is_refused(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["poller.py", *arguments])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as exit_:
        run_with_options(lambda _: pytest.fail("it ran"))
    assert exit_.value.code == 2
    complaint = capsys.readouterr().err
    assert "Usage: poller.py" in complaint
    assert said in complaint
    assert "secret" not in complaint


def test_a_bad_variable_is_refused_too() -> None:
    done = poller(POLLER_INTERVAL="soon")
    assert done.returncode == 2
    assert "Invalid value for '--interval'" in done.stderr


def test_help_can_be_read_at_80_columns_and_in_a_pipe() -> None:
    said = poller("--help", COLUMNS="80").stdout
    assert max(map(len, said.splitlines())) <= 80
    for field in fields(CommandLine):
        option = {"config_file": "config", "explain_as": "explain", "context_name": "context"}.get(
            field.name, field.name
        )
        assert re.search(rf"^  (-v, )?--{option.replace('_', '-')}( |$)", said, re.MULTILINE), option
    assert "…" not in said
    assert "--bind-workers from POLLER_BIND_WORKERS" in said.replace("\n  ", " ")


def test_the_page_on_options_shows_the_help() -> None:
    said = poller("--help", COLUMNS="80").stdout
    assert said in (ROOT / "lib/service/README.md").read_text(), "put COLUMNS=80 poller.py --help there"


def test_the_version_stands_in_one_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert poller("--version").stdout == f"poller {full_version()}\n"


def test_without_its_packages_poller_says_what_to_do() -> None:
    command = [sys.executable, "-S", ROOT / "poller.py"]  # -S: without the packages of .venv
    done = subprocess.run(command, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True)
    assert done.returncode == 1
    assert "doesn't have these packages: durationpy, httptools, httpx," in done.stderr
    assert "Run scripts/install once, then start poller with .venv/bin/python poller.py" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_startup_looks_for_is_what_is_required() -> None:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    required = {re.split("[<>=]", line)[0] for line in lines if line and not line.startswith("#")}
    assert set(startup.MODULES) == required


def test_an_old_python_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("poller.py", "lib/__init__.py", "lib/startup.py"):  # what it reads before it is told
        ast.parse((ROOT / name).read_text(), feature_version=(3, 8))
    monkeypatch.setattr(sys, "version_info", (3, 9, 2, "final", 0))
    with pytest.raises(
        SystemExit, match=r"is Python 3\.9; poller needs 3\.11 or newer\. Run scripts/install"
    ):
        startup.check()
