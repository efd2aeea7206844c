"""/readyz tells the truth about the API server: from its last good answer, and of one that is silent."""

import re
import time

from lib.kube.errors import ForbiddenError, LostAnswerError
from lib.service.telemetry.health import FRESH, Health

FORBIDDEN = ForbiddenError("GET /api/v1/pods: 403")


def heard_long_ago(probe: Exception | None) -> Health:
    """A loop that has heard nothing of the API server for a minute; `probe` is what asking raises."""
    health = Health()
    health.reached()
    health.last_answer = time.monotonic() - 60

    def ask() -> None:
        if probe:
            raise probe

    health.probe = ask
    return health


def test_a_quiet_watch_of_a_server_that_answers_is_ready() -> None:
    assert heard_long_ago(None).ready()["api-server"] == ""
    assert heard_long_ago(FORBIDDEN).ready()["api-server"] == ""


def test_a_quiet_watch_of_a_frozen_server_is_not_ready() -> None:
    said = heard_long_ago(LostAnswerError("no answer within 3 s")).ready()["api-server"]
    assert re.fullmatch(r"unreachable for \d+ s: no answer within 3 s", said)


def test_a_server_that_was_heard_just_now_is_not_asked() -> None:
    health = heard_long_ago(LostAnswerError("it was asked"))
    health.last_answer = time.monotonic() + 60 - FRESH  # it stays fresh however slow this machine is
    assert health.ready()["api-server"] == ""


def test_trouble_counts_from_the_last_good_answer() -> None:
    health = heard_long_ago(None)
    health.failed(FORBIDDEN)
    said = health.ready()["api-server"]
    assert re.fullmatch(r"failing for [6-9]\d s: GET /api/v1/pods: 403", said)
