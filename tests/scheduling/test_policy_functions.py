"""What a policy's functions can do besides `filter` and `score`: a device that pods share, for example."""

import textwrap
from pathlib import Path
from random import Random

import pytest
from cluster import Cluster
from objects import node, pod

from lib.kube.changes import AnyChange, Change, Kind
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.framework.interface import SignPlugin, implements
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.pod_life import Phase, pod_key
from lib.scheduling.queue import SchedulingQueue
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.policies import PolicyError, load_policies

ON_ONE_SERVER = True

SLOTS = """
calls = []

def state(node):
    calls.append(node.name)
    return {int(each.annotations["slot"]) for each in node.pods if "slot" in each.annotations}

def sign(pod):
    return pod.requests["cpu"]

def filter(pod, node):
    return len(node.state) < 2 or "node(s) had no free slot"

def score(pod, node):
    return 1000 * len(node.state)

def normalize(pod, scores):
    best = max(scores.values())
    for name in scores:
        scores[name] = 100 if scores[name] == best else 0

def annotate(pod, node):
    return {"slot": str(min({0, 1} - node.state))}
"""


def scheduler(folder: Path, source: str) -> Scheduler:
    (folder / "slots.py").write_text(textwrap.dedent(source))
    (policy,) = load_policies([folder / "slots.py"])
    return Scheduler(default_profile("s", *policy.plugins, weights={"slots": 100}), Random(1))


def decide(folder: Path, source: str) -> Decision:
    return scheduler(folder, source).schedule_one(pod("web"), Cache([node("n1"), node("n2")]))


def test_slots_are_taken_one_after_the_other_and_node_by_node(tmp_path: Path) -> None:
    cache, slots = Cache([node("n1"), node("n2")]), scheduler(tmp_path, SLOTS)
    decisions = [slots.schedule_one(pod(f"web-{i}"), cache) for i in range(5)]
    placed = [(each.node_name, each.annotations["slot"]) for each in decisions[:4]]
    first = placed[0][0]
    other = "n2" if first == "n1" else "n1"
    assert placed == [(first, "0"), (first, "1"), (other, "0"), (other, "1")]
    assert decisions[4].outcome == Outcome.UNSCHEDULABLE
    assert "2 node(s) had no free slot" in decisions[4].message
    cache.forget(decisions[1].pod)
    assert slots.schedule_one(pod("again"), cache).annotations == {"slot": "1"}


def test_answers_are_kept_until_a_node_changes(tmp_path: Path) -> None:
    nodes = [node(f"n{i}") for i in range(50)]
    cache, slots = Cache(nodes), scheduler(tmp_path, SLOTS)
    for i in range(10):
        slots.schedule_one(pod(f"web-{i}"), cache)
    (plugin,) = [each for each in slots.profile.plugins if each.name == "slots"]
    assert implements(plugin, SignPlugin)
    calls = plugin.functions["state"].__globals__["calls"]  # type: ignore[attr-defined]
    assert 50 <= len(calls) <= 50 + 10 * 4  # each node once, and then the node that a pod came to


def test_prepare_is_called_once_with_the_pods_that_are_known(tmp_path: Path) -> None:
    source = """
    seen = []
    def prepare(pods): seen.append(sorted(pod.name for pod in pods))
    def score(pod, node): return 100 if seen == [["old", "web-0"]] and node.name == "n2" else 0
    """
    cache = Cache([node("n1"), node("n2")], [pod("old", nodeName="n1")])
    slots = scheduler(tmp_path, source)
    assert [slots.schedule_one(pod(f"web-{i}"), cache).node_name for i in range(3)] == ["n2"] * 3


def test_normalize_may_choose_by_name_among_equal_nodes(tmp_path: Path) -> None:
    source = """
    def sign(pod): return 1
    def score(pod, node): return 5
    def normalize(pod, scores):
        for name in scores: scores[name] = 100 if name == "n17" else 0
    """
    cache, by_name = Cache([node(f"n{i}") for i in range(30)]), scheduler(tmp_path, source)
    assert [by_name.schedule_one(pod(f"web-{i}"), cache).node_name for i in range(5)] == ["n17"] * 5


HINTS = """
heard = []

def filter(pod, node):
    return "no"

def queueing_hint(pod, change, about):
    heard.append((change, about.name if about else None))
    return change == "node modified"
"""


def test_only_a_change_that_the_policy_says_could_help_wakes_a_pod(tmp_path: Path) -> None:
    slots = scheduler(tmp_path, HINTS)
    queue, clock = SchedulingQueue({"my-scheduler": slots.profile}), 100.0
    waits, runs, n2 = pod("waits", schedulerName="my-scheduler"), pod("runs", nodeName="n1"), node("n2")
    queue.apply(Change(Kind.ADDED, waits), clock)
    assert [*queue.ready(clock)]
    queue.requeue(pod_key(waits), {"slots"}, "no", clock)
    changes: list[tuple[AnyChange, bool]] = [
        (Change(Kind.MODIFIED, runs, pod("runs")), False),
        (Change(Kind.MODIFIED, pod("runs", nodeName="n1", priority=1), runs), False),
        (Change(Kind.DELETED, runs), False),
        (Change(Kind.ADDED, n2), False),
        (Change(Kind.ADDED, pod("also-waits", schedulerName="my-scheduler")), False),
        (Change(Kind.MODIFIED, node("n2", has={"cpu": "64"}), n2), True),
    ]
    for change, wakes in changes:
        queue.apply(change, clock)
        assert (queue.lives.phase_of(waits) != Phase.UNSCHEDULABLE) == wakes
    (plugin,) = [each for each in slots.profile.plugins if each.name == "slots"]
    heard = plugin.functions["queueing_hint"].__globals__["heard"]  # type: ignore[attr-defined]
    assert heard == [
        ("pod added", "runs"),
        ("pod modified", "runs"),
        ("pod deleted", "runs"),
        ("node added", "n2"),
        ("node modified", "n2"),
    ]


def test_a_policy_imports_a_file_beside_it_and_hides_no_other_module(tmp_path: Path) -> None:
    for name, score in (("one", "1"), ("two", "2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "helper.py").write_text(f"import random\nS = {score}, random.Random\n")
        (tmp_path / name / "random.py").write_text("raise SystemExit\n")
        (tmp_path / name / f"{name}.py").write_text(
            "from helper import S\ndef score(pod, node): return S[0]\n"
        )
    policies = load_policies([tmp_path / "one/one.py", tmp_path / "two/two.py"])
    scores = [policy.plugins[0].functions["score"](None, None) for policy in policies]  # type: ignore[attr-defined]
    assert scores == [1, 2]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("def annotate(pod, node): return ['x']\ndef score(pod, node): return 1", "a dict of strings"),
        ("def annotate(pod, node): return {'a': 1}\ndef score(pod, node): return 1", "a dict of strings"),
        ("def sign(pod): return [1]\ndef score(pod, node): return 1", "text, a number or a tuple of these"),
        ("def filter(pod, node): return 1", "for node n1, not True, False or a reason"),
        ("def score(pod, node): return 101", "returned 101 for node n1, not a whole number from 0 to 100"),
        ("def score(pod, node): return -1", "returned -1 for node n1, not a whole number from 0 to 100"),
        ("def normalize(pod, scores): pass\ndef score(pod, node): return 0.5", "n1, not a whole number"),
        (
            "def normalize(pod, scores): return {n: 1 for n in scores}\ndef score(pod, node): return 1",
            "normalize at slots.py:1 returned {'n1': 1, 'n2': 1} for pod default/web, not None",
        ),
        ("def normalize(pod, scores): scores.clear()\ndef score(pod, node): return 1", "remove no node"),
        (
            "def prepare(pods): return len(pods)\ndef score(pod, node): return 1",
            "prepare at slots.py:1 returned 1",
        ),
        ("def normalize(pod, scores): pass\ndef score(pod, node): return 101", "score 101 of node n"),
        ("def state(node): return 1 / 0\ndef score(pod, node): return 1", "slots.py:1 for node n"),
        ("def prepare(pods): return 1 / 0\ndef score(pod, node): return 1", "slots.py:1"),
    ],
)
def test_a_wrong_answer_is_named(tmp_path: Path, source: str, why: str) -> None:
    decision = decide(tmp_path, source)
    assert decision.outcome == Outcome.ERROR
    assert why in decision.message


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("False", "0/2 nodes are available: 2 node(s) were rejected by slots."),
        ("''", "0/2 nodes are available: 2 node(s) were rejected by slots."),
        ("'no ' + node.name", "0/2 nodes are available: 1 no n1, 1 no n2."),
    ],
)
def test_a_filter_may_say_why(tmp_path: Path, answer: str, message: str) -> None:
    decision = decide(tmp_path, f"def filter(pod, node): return {answer}")
    assert decision.outcome == Outcome.UNSCHEDULABLE
    assert decision.message.startswith(message)


@pytest.mark.parametrize("answer", ["False", "True", "None"])
def test_a_pod_that_has_changed_is_tried_again_whatever_the_policy_says_of_other_changes(
    tmp_path: Path, answer: str
) -> None:
    source = f"def filter(pod, node): return 'no'\ndef queueing_hint(pod, change, about): return {answer}"
    queue = SchedulingQueue({"my-scheduler": scheduler(tmp_path, source).profile})
    waits, now = (pod("waits", schedulerName="my-scheduler", priority=i) for i in (1, 2))
    queue.apply(Change(Kind.ADDED, waits), 100.0)
    queue.requeue(pod_key(waits), {"slots"}, "no", 100.0)
    queue.apply(Change(Kind.MODIFIED, now, waits), 100.0)
    assert queue.lives.phase_of(now) != Phase.UNSCHEDULABLE


def test_a_function_that_takes_other_arguments_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"state\(pod, node\) doesn't take a node"):
        decide(tmp_path, "def state(pod, node): pass\ndef score(pod, node): return 1")


def test_the_annotations_are_written_with_the_binding(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "slots.py").write_text(SLOTS)
    cluster.add_node("n1")
    for i in range(2):
        cluster.add_pod(f"web-{i}")
    cluster.poller("--plugin", str(tmp_path / "slots.py"))
    assert sorted(cluster.pod(f"web-{i}")["metadata"]["annotations"]["slot"] for i in range(2)) == ["0", "1"]
