"""poller.py with a verb, in the tests' process."""

import sys

import pytest
from questions_harness import Done, Run

from lib.questions.verbs import add_verbs
from lib.service.options import run_with_options


@pytest.fixture
def poller(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs poller.py in this process."""

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["poller.py", *arguments])
        with pytest.raises(SystemExit) as end:
            run_with_options(lambda _: pytest.fail("the loop ran"), add_verbs)
        printed = capsys.readouterr()
        status = end.value.code
        return Done(status if isinstance(status, int) else 0, printed.out, printed.err)

    return run
