"""Log lines as JSON: one object per line, whoever writes it; and characters that no line may have."""

import json
import re
import threading
from base64 import b64encode
from typing import Any

import pytest
import typer
from cluster import Cluster
from extenders import extender
from msgspec.structs import replace
from objects import pod

from lib.kube.api import Api
from lib.kube.pod_writes import BOUND_BY_ANOTHER
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.queue import SchedulingQueue
from lib.scheduling.status import BadAnswerError, ExtenderError, checked
from lib.service.config.extenders import ExtenderConfig
from lib.service.http_extender import connected
from lib.service.option_types import proxy_address
from lib.service.telemetry.log import of_attempt
from lib.service.telemetry.report import Report

ON_ONE_SERVER = True

TALKS = """
import logging
import warnings
from lib.scheduling.status import Interruption

class Bug(Interruption):  # as if poller itself ended
    pass

def filter(pod, node):
    name = pod.metadata.name
    if name == "a-talker":
        print("one", "line")
        print("and two\\nmore", flush=True)
        warnings.warn("old news")
        logging.getLogger("library").error("no luck with %s", 5, extra={"secret": pod})
    if name == "b-broken":
        raise ValueError("no such rack")
    if name == "z-fatal":
        raise Bug("beyond repair")
    return True

class Tidy:
    def post_bind(self, state, pod, node_name):
        raise KeyError(node_name)
"""

PASSWORD = "tops3cret"


def lines(said: str) -> list[dict[str, Any]]:
    """Each line as the object it must be."""
    return [json.loads(line) for line in said.splitlines()]


def one(lines: list[dict[str, Any]], words: str) -> dict[str, Any]:
    (line,) = [line for line in lines if words in line["msg"]]
    return line


def test_every_line_is_json_and_says_what_it_is_about(cluster: Cluster) -> None:
    cluster.add_node("n1")
    policy = cluster.folder / "talks.py"
    policy.write_text(TALKS)
    for name in ("a-talker", "b-broken", "z-fatal"):
        cluster.add_pod(name)
    cluster.add_pod("c-huge", requests={"cpu": "64"})
    said = lines(cluster.poller("-v", "--log-format=json", f"--plugin={policy}", afresh=True).stderr)
    for line in said:
        assert list(line)[:3] == ["ts", "level", "msg"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["ts"])

    bound = one(said, "default/a-talker is bound to n1")
    assert bound.pop("duration") > 0
    assert {name: bound[name] for name in list(bound)[1:]} == {
        "level": "info",
        "msg": "default/a-talker is bound to n1",
        "pod": "default/a-talker",
        "node": "n1",
        "attempt": 1,
        "scheduler": "my-scheduler",
    }
    huge = one(said, "default/c-huge fits nowhere: 0/1 nodes are available: 1 Insufficient cpu.")
    assert (huge["level"], huge["pod"], huge["attempt"]) == ("info", "default/c-huge", 1)
    assert "node" not in huge
    broken = one(said, "default/b-broken: plugin talks failed at talks.py:")
    assert (broken["level"], broken["pod"]) == ("error", "default/b-broken")
    tidy = one(said, "plugin Tidy failed after default/a-talker was bound")
    assert tidy["node"] == "n1"
    assert tidy["traceback"].splitlines()[-1] == "KeyError: 'n1'"

    assert [line["msg"] for line in said if line["msg"] in ("one line", "and two", "more")] == [
        "one line",
        "and two",
        "more",
    ]
    assert one(said, "old news")["level"] == "warning"
    assert one(said, "no luck with 5").keys() == {"ts", "level", "msg"}
    last_words = one(said, "ended after")
    assert re.match(r"ended after .* s; pods: 1 bound, ", last_words["msg"])
    assert said[-1]["level"] == "critical"
    assert said[-1]["msg"] == "ended by Bug"
    assert said[-1]["traceback"].endswith("Bug: beyond repair")


def test_an_object_that_a_policy_answers_is_not_shown_whole() -> None:
    with pytest.raises(BadAnswerError, match=r"^Pod\(.{1,40} is neither None nor a Status$"):
        checked(pod("web", {"cpu": "1"}, nodeSelector={"a": "b"}))  # type: ignore[arg-type]


def test_an_attempt_that_picked_no_node_names_none() -> None:
    decision = Decision(pod(schedulerName="s"), Outcome.UNSCHEDULABLE, began=1, ended=3, attempt=4)
    about = {"pod": "default/web", "scheduler": "s", "attempt": 4, "duration": 2}
    assert of_attempt(decision) == about
    rejected = replace(decision, node_name="n1")  # a plugin rejected it in the end
    assert of_attempt(rejected) == about
    assert of_attempt(replace(rejected, outcome=Outcome.WAITING)) == {**about, "node": "n1"}


def test_another_that_binds_the_same_pods_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    report = Report(dry_run=False, explain=None)
    for name, scheduler in (("a", "s"), ("b", "s"), ("c", "t")):
        decision = Decision(pod(name, schedulerName=scheduler), Outcome.SCHEDULED, node_name="n1")
        report.taken(decision, BOUND_BY_ANOTHER)
        report.tick_done(SchedulingQueue({"s": default_profile("s")}), Cache())
    said = [message.partition(",")[0] for message in caplog.messages]
    assert said == ["something else binds pods of s", "something else binds pods of t"]


@pytest.mark.parametrize("proxy", ["ftp://{}@h", "http://{}@h:99999", "http://{}/x@h:y", "{}@h:8001"])
def test_a_bad_address_is_shown_without_its_password(proxy: str) -> None:
    with pytest.raises(typer.BadParameter) as raised:
        proxy_address(proxy.format(f"user:{PASSWORD}"))
    assert "***@h" in raised.value.message
    assert PASSWORD not in raised.value.message


def test_an_extender_is_told_its_password_and_nobody_else_is() -> None:
    with extender({"bind": lambda _: 500}) as running, Api("http://127.0.0.1:1", threading.Event()) as api:
        url = running.url.replace("//", f"//user:{PASSWORD}@")
        with (
            connected([ExtenderConfig(url_prefix=url, bind_verb="bind")], api, print) as extenders,
            pytest.raises(ExtenderError, match=f"extender {running.url}/bind: 500 ") as raised,
        ):
            extenders.bind(pod(), "n1")
        assert PASSWORD not in str(raised.value)
        assert running.authorization == f"Basic {b64encode(f'user:{PASSWORD}'.encode()).decode()}"
