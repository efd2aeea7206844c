"""A bad option is refused with the usage and exit status 2, before anything is done."""

import os
import subprocess
import sys

import pytest

from lib.service.options import run_with_options
from scripts.servers.process import ROOT


def poller(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, ROOT / "poller.py", *arguments],
        env={**os.environ, "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        timeout=20,
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--interval", "0"], "no number of seconds"),
        (["--interval", "-1"], "no number of seconds"),
        (["--interval", "nan"], "no number of seconds"),
        (["--interval", "soon"], "Invalid value for '--interval'"),
        (["--proxy", "127.0.0.1:8001"], "is neither http://HOST:PORT nor unix:///PATH"),
        (["--proxy", "ftp://127.0.0.1"], "is neither http://HOST:PORT nor unix:///PATH"),
        (["--proxy", "http://127.0.0.1:99999"], "is neither http://HOST:PORT nor unix:///PATH"),
        (["--proxy", "http://me:secret@127.0.0.1:8001"], "asks for no user and no password"),
        (["--pod-initial-backoff", "30"], "10 s is less than the 30 s to begin with"),
        (["--proxy", "me:secret@127.0.0.1:8001"], "is neither http://HOST:PORT nor unix:///PATH"),
        (["--proxy", "unix://relative"], "is neither http://HOST:PORT nor unix:///PATH"),
        (["--scheduler-name", "a,b"], "spec.schedulerName"),
        (["--scheduler-name", ""], "spec.schedulerName"),
        (["--seed", "x"], "Invalid value for '--seed'"),
        (["--sed", "1"], "No such option: --sed"),
        (["surplus"], "No such command"),
        (["--start-proxy", "--proxy", "http://127.0.0.1:1"], "leave out --proxy"),
        (["--once", "--watch"], "leave out --watch"),
        (["--once", "--leader-elect"], "--once needs no leader"),
        (["--namespace", "a,b"], "no name that a namespace can have"),
        (["--leader-elect-retry-period", "1"], "give --leader-elect, too"),
        (["--leader-elect", "--leader-elect-lease-duration", "10"], "must be longer than the renew deadline"),
        (["--leader-elect", "--leader-elect-retry-period", "9"], "longer than 1.2 times the retry period (9"),
        (["--leader-elect", "--leader-elect-resource-name", "a/b"], "no name that a Kubernetes object"),
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


def test_help_names_each_option_and_its_variable() -> None:
    said = poller("--help").stdout
    for option in (
        "proxy",
        "start-proxy",
        "scheduler-name",
        "config",
        "check-config",
        "interval",
        "watch",
        "once",
        "dry-run",
        "seed",
    ):
        assert f"--{option}" in said
        assert f"POLLER_{option.upper().replace('-', '_')}" in said
