"""Each answer in JSON has the fields that the page and the schema say, and no others: `Run` checks all."""

from pathlib import Path

import pytest
from questions.answers import files
from questions_harness import Run
from test_verbs import a_node, a_pod, write


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    taken = a_pod("db", "3", nodeName="n1")
    return write(tmp_path / "c.json", a_node("n1"), a_node("n2"), taken, a_pod("web", "9"))


@pytest.mark.parametrize(
    "question",
    [
        "why web",
        "why db",
        "why",
        "try -f {app}",
        "room -f {app}",
        "drain n1",
        "size -f {app} --node-type m5=cpu:4,memory:16Gi,price:0.19",
        "compare --config {config} --config {config}",
    ],
)
def test_an_answer_has_the_fields_of_the_page(
    poller: Run, tmp_path: Path, cluster: str, question: str
) -> None:
    app = write(tmp_path / "app.json", a_pod("new", "1"), a_pod("huge", "99"))
    config = tmp_path / "config.yaml"
    config.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    words = question.format(app=app, config=config).split()
    found = poller(*words, "--from", cluster, "-o", "json").json
    assert found["question"] == words[0]


def test_a_replay_has_the_fields_of_the_page(poller: Run, cluster: str) -> None:
    asked = ["--nodes", cluster, "--arrivals", "poisson:1/s", "--for", "10s"]
    assert poller("replay", *asked, "-o", "json").json["question"] == "replay"


def test_what_a_node_lacks_is_there_as_numbers(poller: Run, cluster: str) -> None:
    nodes = poller("why", "web", "--from", cluster, "-o", "json").json["nodes"]
    assert nodes["n1"]["lacks"] == [{"resource": "cpu", "needs": 9000, "has": 4000, "free": 1000}]
    busy = poller("why", "web", "--from", cluster, "--add", "1", "--like", "n2", "-o", "json").json["nodes"]
    assert busy.keys() == {"n1", "n2", "n2-copy-1"}


@pytest.mark.parametrize(("file", "content"), [*files()], ids=["schema", "page"])
def test_the_page_and_the_schema_say_what_there_is(file: Path, content: str) -> None:
    assert file.read_text() == content, "run .venv/bin/python -m tests.questions.answers"
