"""`why` says what a policy of one's own says: values of rejections, and remedies that help."""

from pathlib import Path

import pytest
from questions_harness import Done, Run
from test_verbs import a_node, a_pod, write

FUNCTIONS = """
def filter(pod, node):
    return "fast" in node.labels or "node(s) had no fast disk"

def explain(pod, node):
    yield f"has the disk {node.labels.get('disk', 'none')}"
    yield f"{pod.name} is in a hurry"

def remedies(pod, nodes):
    for node in nodes:
        fast = {"metadata": {"labels": {"fast": ""}}}
        yield f"with the label fast on {node.name}", {"nodes": {node.name: fast}}
    yield "with the label calm", {"pod": {"metadata": {"labels": {"calm": "true"}}}}
"""

CLASS = """
from lib.scheduling.edits import patched
from lib.scheduling.framework.interface import Remedy
from lib.scheduling.status import unschedulable

class Calm:
    def filter(self, state, pod, node):
        return None if "calm" in pod.metadata.labels else unschedulable("node(s) take calm pods only")

    def explain(self, state, pod, cache, node, status):
        return f"{status.reasons[0]}: {pod.metadata.labels} on {node.name}, 1 of {len(cache.nodes)}"

    def remedies(self, state, pod, cache, rejected):
        yield Remedy("with the label calm", lambda pod: patched(pod, {"metadata": {"labels": {"calm": ""}}}))
        yield Remedy("with the label loud", lambda pod: patched(pod, {"metadata": {"labels": {"loud": ""}}}))
        for node in cache.node_list:
            yield Remedy(removed=tuple(node.pods))
"""


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """n1, and n2 where `db` has all but 1 cpu; a pod `web` that wants 2."""
    return write(
        tmp_path / "cluster.json", a_node("n1"), a_node("n2"), a_pod("db", "3", "n2"), a_pod("web", "2")
    )


def lines(done: Done) -> list[str]:
    return [line.strip() for line in done.out.splitlines()]


def policy(folder: Path, source: str) -> str:
    file = folder / "fast.py"
    file.write_text(source)
    return str(file)


def test_the_functions_of_a_policy(poller: Run, cluster: str, tmp_path: Path) -> None:
    done = poller("why", "web", "--from", cluster, "--plugin", policy(tmp_path, FUNCTIONS))
    assert "1  node(s) had no fast disk (fast)" in lines(done)
    assert "n1: has the disk none; web is in a hurry" in lines(done)
    assert "-  with the label fast on n1: n1 fits" in done.out
    assert "with the label fast on n2" not in done.out  # n2 lacks cpu, too
    assert "with the label calm" not in done.out  # it was tried, and doesn't help


def test_the_methods_of_a_class(poller: Run, cluster: str, tmp_path: Path) -> None:
    done = poller("why", "web", "--from", cluster, "--plugin", policy(tmp_path, CLASS), "-o", "json").json
    assert done["nodes"]["n1"] == {
        "rejected_by": "Calm",
        "reasons": ["node(s) take calm pods only"],
        "details": ["node(s) take calm pods only: {} on n1, 1 of 2"],
        "lacks": [],
    }
    assert {"changes": ["with the label calm"], "nodes": ["n1"]} in done["suggestions"]
    assert not [each for each in done["suggestions"] if "loud" in each["changes"][0]]


@pytest.mark.parametrize(
    ("explain", "said"),
    [
        ("return 1 / 0", "plugin fast failed at fast.py:5 for node n1: ZeroDivisionError: division by zero"),
        (
            "return [7]",
            "plugin fast failed: explain at fast.py:4 returned [7] for node n1, not a line, or several",
        ),
        ("exit()", "plugin fast failed at fast.py:5 for node n1: SystemExit: None"),
        (
            "return {'a': 1}",
            "plugin fast failed: explain at fast.py:4 returned {'a': 1} for node n1, not a line, or several",
        ),
        ("return 'a line'", "a line"),
        ("return None", "n1"),
    ],
)
def test_what_an_explanation_says(poller: Run, cluster: str, tmp_path: Path, explain: str, said: str) -> None:
    source = f"def filter(pod, node):\n    return False\n\ndef explain(pod, node):\n    {explain}\n"
    done = poller("why", "web", "--from", cluster, "--plugin", policy(tmp_path, source))
    assert done.status == 3
    assert said in [line.removeprefix("n1: ") for line in lines(done)]


@pytest.mark.parametrize(
    ("remedies", "said"),
    [
        ("return 1 / 0", "plugin fast failed at fast.py:5: ZeroDivisionError: division by zero"),
        ("yield 'a', {'pod': {'spce': {}}}", "ValueError: Pod has no field spce"),
        ("yield 'a', {'spec': {}}", "plugin fast failed: 'a' has spec, and not only pod and nodes"),
        ("yield 'a', {'nodes': {'n9': {}}}", "plugin fast failed: 'a' changes n9: there is no such node"),
        ("return ['a']", "remedies at fast.py:4 returned 'a' for pod default/web, not words and a patch"),
        ("return {'a': {}}", "remedies at fast.py:4 returned {'a': {}} for pod default/web, not words"),
        ("yield 'a', {'nodes': {'n1': 5}}", "returned ('a', {'nodes': {'n1': 5}}) for pod default/web"),
    ],
)
def test_remedies_that_fail_are_told_of_beside_the_answer(
    poller: Run,
    cluster: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    remedies: str,
    said: str,
) -> None:
    source = f"def filter(pod, node):\n    return False\n\ndef remedies(pod, nodes):\n    {remedies}\n"
    done = poller("why", "web", "--from", cluster, "--plugin", policy(tmp_path, source))
    assert done.status == 3
    assert "fits on none of 2 nodes" in done.out
    assert said in caplog.text


def test_an_edit_that_fails_after_another_edit_changes_no_answer(
    poller: Run, cluster: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = """
from lib.scheduling.edits import patched
from lib.scheduling.framework.interface import Remedy
from lib.scheduling.status import unschedulable

def labelled(pod, key):
    if pod.metadata.labels:
        raise LookupError("which of them?")
    return patched(pod, {"metadata": {"labels": {key: ""}}})

class Picky:
    def filter(self, state, pod, node):
        return None if len(pod.metadata.labels) == 2 else unschedulable("node(s) want two labels")

    def remedies(self, state, pod, cache, rejected):
        yield Remedy("with the label one", lambda pod: labelled(pod, "one"))
        yield Remedy("with the label two", lambda pod: labelled(pod, "two"))
"""
    done = poller("why", "web", "--from", cluster, "--plugin", policy(tmp_path, source))
    assert done.status == 3
    assert "fits on none of 2 nodes" in done.out
    assert "with the label two: this can't be tried: LookupError: which of them?" in caplog.text


def test_an_edit_that_returns_no_pod_is_told_of(
    poller: Run, cluster: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = CLASS.replace('patched(pod, {"metadata": {"labels": {"loud": ""}}})', '"a loud pod"')
    done = poller("why", "web", "--from", cluster, "--plugin", policy(tmp_path, source))
    assert done.status == 3
    assert "fits on none of 2 nodes" in done.out
    assert "plugin Calm failed: a remedy's edit returned 'a loud pod', which is not a Pod" in caplog.text
