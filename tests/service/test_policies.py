"""A policy of one's own: which files are valid, and the errors for the others."""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from objects import node, pod

from lib.kube.changes import Change, Kind
from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.queue import SchedulingQueue
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.lookups import needs_of
from lib.service.policies import PolicyError, load_policies

ON_ONE_SERVER = True

GOOD = "def score(pod, node): return 1\n"


TAINTS = ({"key": "gpu"},)


def decide(
    folder: Path, source: str, name: str = "mine", taints: Sequence[dict[str, str]] = TAINTS
) -> Decision:
    """What the default profile and the policy decide for a pod, with nodes n1 (of rack r1) and n2."""
    file = folder / f"{name}.py"
    file.write_text(source)
    (policy,) = load_policies([file])
    profile = default_profile("my-scheduler", *policy.plugins, weights=policy.weights)
    nodes = [node("n1", labels={"rack": "r1"}, taints=[*taints]), node("n2")]
    running = [pod("old", requests={"cpu": "1"}, nodeName="n1")]
    return Scheduler(profile, Random(1)).schedule_one(pod("web"), Cache(nodes, running))


def test_of_two_forms_of_a_filter_that_of_the_derived_class_counts(tmp_path: Path) -> None:
    source = """
class Many:
    def filter_nodes(self, state, pod, nodes):
        return [None for node in nodes]

class One(Many):
    def filter(self, state, pod, node):
        return unschedulable(f"not {node.name}") if self.name == "One" else None

class ManyAgain(One):
    def filter_nodes(self, state, pod, nodes):
        return [None for node in nodes]
"""
    decision = decide(tmp_path, f"from lib.scheduling.framework.interface import unschedulable\n{source}")
    rejected = {name: (each.plugin, *each.status.reasons) for name, each in decision.rejected.items()}
    assert rejected == {"n1": ("One", "not n1"), "n2": ("One", "not n2")}


NEEDED = "    def needed_for(self, pod, cache, scores):\n        raise LookupError\n"


@pytest.mark.parametrize("own", ["", NEEDED])
def test_a_class_may_call_something_of_its_own_needs(tmp_path: Path, own: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        f"class Mine:\n    needs = files = ['gpu']\n{own}"
        "    def filter(self, state, pod, node):\n        return None\n"
    )
    (policy,) = load_policies([file])
    profile = default_profile("my-scheduler", *policy.plugins)
    assert "gpu" not in profile.needs
    assert not any(plugin in profile.needing for plugin in policy.plugins)
    waiting = pod("web", schedulerName="my-scheduler")
    assert "gpu" not in needs_of([waiting], Cache([node("n1")]), [profile])


@pytest.mark.parametrize(
    ("answer", "rejected"),
    [
        ("True", {}),
        ("node.name == 'n2'", {"n1": ("node(s) were rejected by mine",)}),
        ("True if node.labels else 'has no label'", {"n2": ("has no label",)}),
        ("not node.pods", {"n1": ("node(s) were rejected by mine",)}),
        ("not node.taints", {"n1": ("node(s) were rejected by mine",)}),
        ("node.requested.get('cpu', 0) < 1000", {"n1": ("node(s) were rejected by mine",)}),
        ("node.allocatable['cpu'] == 4000", {}),
        ("'x' not in node.annotations", {}),
        ("pod.metadata.name == 'web'", {}),
    ],
)
def test_a_filter_function(tmp_path: Path, answer: str, rejected: object) -> None:
    decision = decide(tmp_path, f"def filter(pod, node): return {answer}")
    assert {name: each.status.reasons for name, each in decision.rejected.items()} == rejected


def test_a_score_function_counts_with_its_weight(tmp_path: Path) -> None:
    decision = decide(tmp_path, "WEIGHT = 9\ndef score(pod, node): return 100 if node.name == 'n1' else 0")
    assert (decision.scores["n1"]["mine"], decision.scores["n2"]["mine"]) == (900, 0)
    assert decision.node_name == "n1"


def test_a_file_may_have_both_and_a_class(tmp_path: Path) -> None:
    decision = decide(
        tmp_path,
        """
import collections  # what a file imports is not its policy
from lib.scheduling.status import unschedulable

def filter(pod, node): return True
def score(pod, node): return 3

class Helper:
    pass

class Careful:
    def pre_filter(self, state, pod, cluster): state["seen"] = len(cluster.nodes)
    def filter(self, state, pod, node):
        return unschedulable("is n1") if state["seen"] and node.name == "n1" else None
""",
    )
    assert decision.rejected["n1"].plugin == "Careful"
    assert decision.node_name == "n2"


def test_a_class_may_call_its_own_methods_have_static_ones_and_normalize(tmp_path: Path) -> None:
    decision = decide(
        tmp_path,
        """
class Own:
    __slots__ = ()
    name = "Own"

    @staticmethod
    def filter(state, pod, node): return None

    def score(self, state, pod, node):
        return len(node.name) + len(node.pods) * 10

    def score_nodes(self, state, pod, nodes):
        return [self.score(state, pod=pod, node=node) for node in nodes]

    def normalize_score(self, state, pod, scores):
        scores.update({name: score * 2 for name, score in scores.items()})
""",
    )
    assert {name: scores["Own"] for name, scores in decision.scores.items()} == {"n1": 24, "n2": 4}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "def score(pod, node):\n    return 1 / 0",
            "plugin mine failed at mine.py:2 for node n1: ZeroDivisionError",
        ),
        (
            "import sys\ndef score(pod, node): sys.exit(7)",
            "plugin mine failed at mine.py:2 for node n1: SystemExit: 7",
        ),
        (
            "import json\ndef score(pod, node):\n    return json.loads('x')",
            "plugin mine failed at mine.py:3 for node n1: JSONDecodeError",
        ),
        (
            "class F:\n    def filter(self, *_): return True",
            "plugin F failed: F.filter at mine.py:2 returned True for node n1, not None or a Status",
        ),
        (
            "class F:\n    def pre_filter(self, *_): return ['n1']",
            "F.pre_filter at mine.py:2 returned ['n1'], not None, a Status, or a set of names of nodes",
        ),
        (
            "from functools import partial\nscore = partial(lambda x, pod, node: x, 500)",
            "the function returned 500 for node n1, not a whole number",
        ),
        (
            "def score(pod, node):\n    return pod.nmae",
            "for node n1: AttributeError: pod has no nmae; did you mean name?",
        ),
        (
            "def score(pod, node): return 101",
            "score at mine.py:1 returned 101 for node n1, not a whole",
        ),
        (
            "def score(pod, node): return 0.5",
            "score at mine.py:1 returned 0.5 for node n1, not a whole",
        ),
        (
            "\ndef filter(pod, node): pass",
            "filter at mine.py:2 returned None for node n1, not True, False or a reason; is there a way"
            " through the function without a `return`?",
        ),
        (
            "def score(pod, node): return node.free.cpu",
            'AttributeError: resources are read as in a dict: ["cpu"], not .cpu',
        ),
        (
            "def score(pod, node): return 1 if node > 3 else 0",
            "TypeError: '>' not supported between instances of 'node' and 'int'",
        ),
    ],
)
def test_an_error_in_a_policy_fails_its_pods_cycle_and_names_the_line(
    tmp_path: Path, source: str, said: str
) -> None:
    decision = decide(tmp_path, source)
    assert decision.outcome == Outcome.ERROR
    assert said in decision.message


@pytest.mark.parametrize(
    ("point", "answer", "said"),
    [
        ("pre_filter", "{5}", "returned {5}, not None, a Status, or a set of names of nodes"),
        ("filter", "'no'", "returned 'no' for node n1, not None or a Status"),
        ("filter_nodes", "[None]", "returned [None], not a list with an answer for each node"),
        ("pre_score", "True", "returned True, not None or a Status"),
        ("score", "'5'", "returned '5' for node n1, not a whole number"),
        ("score_nodes", "{'n1': 1, 'n2': 1}", "not a list with an answer for each node"),
        ("annotate", "['x']", "returned ['x'] for node n2, not a dict of strings"),
        ("reserve", "False", "returned False, not None or a Status"),
        ("permit", "5", "returned 5, not None or a Status"),
    ],
)
def test_a_method_that_returns_the_wrong_kind_is_named(
    tmp_path: Path, point: str, answer: str, said: str
) -> None:
    decision = decide(
        tmp_path,
        f"class F:\n    def {point}(self, *_): return {answer}\n",
        taints=TAINTS if point == "annotate" else [],
    )
    assert decision.outcome == Outcome.ERROR
    assert f"plugin F failed: F.{point} at mine.py:2 returned" in decision.message
    assert said in decision.message


def test_a_method_of_a_class_that_is_derived_from_one_of_ours_is_named_too(tmp_path: Path) -> None:
    source = "from lib.scheduling.plugins.node_number import NodeNumber as Base\n"
    decision = decide(tmp_path, f"{source}class F(Base):\n    def permit(self, *_): return 5\n")
    assert (
        decision.message == "plugin NodeNumber failed: F.permit at mine.py:3 returned 5, not None or a Status"
    )


NORMALIZES = "def score(self, *_): return 7\n    def normalize_score(self, state, pod, scores):"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "class F:\n    {}\n        return {{'n1': 5}}",
            "F.normalize_score at mine.py:3 returned {'n1': 5}, not None",
        ),
        ("class F:\n    {}\n        scores.pop('n1')", "may change them, but add or remove no node"),
        ("class F:\n    {}\n        scores['n1'] = scores.pop('n1')", "but add or remove no node"),
        ("class F:\n    {}\n        return scores", "web to n"),
    ],
)
def test_what_normalizes_scores_changes_them_in_place(tmp_path: Path, source: str, said: str) -> None:
    assert said in decide(tmp_path, source.format(NORMALIZES), taints=[]).message


@pytest.mark.parametrize(
    ("attribute", "said"),
    [
        (
            "events_to_register = 'NodeAdd'",
            "F.events_to_register is 'NodeAdd', not a list of names of events",
        ),
        ("reads = 'pods'", "F.reads is 'pods', not DependsOn.NODES or DependsOn.PODS"),
        ("resources = ['cpu']", "F.resources is ['cpu'], not a dict of weights"),
    ],
)
def test_an_attribute_of_the_wrong_kind_is_named(tmp_path: Path, attribute: str, said: str) -> None:
    with pytest.raises(PolicyError, match=re.escape(said)):
        decide(tmp_path, f"class F:\n    {attribute}\n    def filter(self, *_): return None\n")


def test_a_slow_call_is_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    decide(tmp_path, "import time\ndef score(pod, node):\n    time.sleep(1.1)\n    return 1")
    (said,) = caplog.messages
    assert re.match(r"score at mine.py:2 took 1\.\d s for one node; it is called for each pod", said)


def test_the_policys_part_of_the_traceback_is_there_for_who_wants_to_see_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    helper = "import json\ndef read():\n    return json.loads('x')\n"
    decide(tmp_path, f"{helper}def score(pod, node):\n    return read()")
    (said,) = caplog.messages
    assert re.findall(r"mine.py\", line (\d+), in (\w+)", said) == [("5", "score"), ("3", "read")]
    assert said.startswith("plugin mine failed:\n")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("", "mine.py: there is no filter(pod, node), no score(pod, node), and no class"),
        ("import sys; sys.exit(0)", "mine.py:1: SystemExit: 0"),
        ("x = (", "mine.py:1: '(' was never closed"),
        ("import there_is_no_such_module", "mine.py:1: ModuleNotFoundError"),
        ("\n1 / 0", "mine.py:2: ZeroDivisionError: division by zero"),
        (f"WEIGHT = 0\n{GOOD}", "WEIGHT is 0, not a whole number from 1 to 100"),
        (f"WEIGHT = '2'\n{GOOD}", "WEIGHT is '2'"),
        (
            "class A:\n    def __init__(self, x): pass\n    def filter(self, *_): pass",
            "A() failed: TypeError",
        ),
    ],
)
def test_a_file_that_is_no_policy_is_refused(tmp_path: Path, source: str, said: str) -> None:
    with pytest.raises(PolicyError) as raised:
        decide(tmp_path, source)
    assert said in str(raised.value)


ODD_NAME = "class A:\n    name = 5\n    def filter(self, *_): pass"


@pytest.mark.parametrize(("name", "source"), [("caf\udce9", GOOD), ("mine", ODD_NAME)])
def test_a_name_must_be_text(tmp_path: Path, name: str, source: str) -> None:
    (tmp_path / f"{name}.py").write_text(source)
    with pytest.raises(PolicyError, match="is given as a name, but isn't text") as raised:
        load_policies([tmp_path / f"{name}.py"])
    assert str(raised.value).encode()


def test_what_fails_in_a_file_of_any_name_can_be_written(tmp_path: Path) -> None:
    decision = decide(tmp_path, "class A:\n    def filter(self, *_): return 1 / 0", "caf\udce9")
    assert r"plugin A failed at caf\udce9.py:2" in decision.message
    assert decision.message.encode()


def test_files_must_be_there_be_python_and_have_names_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="file not found"):
        load_policies([tmp_path / "nothing.py"])
    with pytest.raises(PolicyError, match="a policy is a Python file"):
        load_policies([tmp_path / "policy.yaml"])
    twins = [tmp_path / "a" / "mine.py", tmp_path / "b" / "mine.py"]
    for file in twins:
        file.parent.mkdir()
        file.write_text(GOOD)
    with pytest.raises(PolicyError, match="two policies are named mine"):
        load_policies(twins)


def test_a_policy_may_not_take_a_built_in_plugins_name(tmp_path: Path) -> None:
    (tmp_path / "NodeAffinity.py").write_text(GOOD)
    with pytest.raises(PolicyError, match="NodeAffinity is already the name of a plugin"):
        load_policies([tmp_path / "NodeAffinity.py"])


def test_a_plugin_that_poller_has_but_does_not_use_can_be_imported(tmp_path: Path) -> None:
    decision = decide(tmp_path, "from lib.scheduling.plugins.node_number import NodeNumber")
    assert decision.outcome == Outcome.WAITING
    decision = decide(tmp_path, "from lib.scheduling.plugins.random_score import RandomFilter as Coin")
    assert {each.plugin for each in decision.rejected.values()} <= {"RandomFilter"}


def test_a_policy_that_was_edited_within_a_second_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = tmp_path / "mine.py"
    for weight in (1, 2):
        file.write_text(f"WEIGHT = {weight}\n{GOOD}")
        os.utime(file, (1_000_000_000, 1_000_000_000))
        assert load_policies([file])[0].weight == weight
    assert list(tmp_path.iterdir()) == [file]


class Broken:
    """A plugin that always fails."""

    name = "Broken"

    def pre_enqueue(self, pod: Pod) -> None:
        raise KeyError("nothing")

    def queueing_hint(self, pod: Pod, change: object) -> bool:
        raise KeyError("nothing")


def test_a_plugin_that_fails_in_the_queue_stops_nothing() -> None:
    profile = default_profile("my-scheduler", Broken())
    queue = SchedulingQueue({"": profile})
    assert queue.apply(Change(Kind.ADDED, pod("web")), now=0) == "plugin Broken failed: KeyError: 'nothing'"

    class Hint:
        name, queueing_hint = "Hint", Broken.queueing_hint

    queue = SchedulingQueue({"my-scheduler": default_profile("my-scheduler", Hint())})
    queue.apply(Change(Kind.ADDED, pod("web", schedulerName="my-scheduler")), now=0)
    queue.requeue("uid-of-web", {"Hint"}, "no", now=0)
    queue.apply(Change(Kind.ADDED, node("n1")), now=50)
    assert len(queue.ready(now=50)) == 1


def test_a_hint_of_the_wrong_kind_is_named_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "mine.py"
    methods = ("sign_for_hint(self, pod): return [1]", "helps_owners_alone(self, change): return 1 / 0")
    hint = "queueing_hint(self, pod, change): return 'yes'"
    file.write_text("\n    def ".join(["class Hint:", *methods, hint]))
    (policy,) = load_policies([file])
    queue = SchedulingQueue({"my-scheduler": default_profile("my-scheduler", *policy.plugins)})
    queue.apply(Change(Kind.ADDED, pod("web", schedulerName="my-scheduler")), now=0)
    queue.requeue("uid-of-web", {"Hint"}, "no", now=0)
    queue.apply(Change(Kind.ADDED, node("n1")), now=50)
    assert len(queue.ready(now=50)) == 1
    assert "Hint.queueing_hint at mine.py:4 returned 'yes', not True or False" in caplog.text
    assert "plugin Hint failed to say whom a change of a claim could help" in caplog.text
