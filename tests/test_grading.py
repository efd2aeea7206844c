"""scripts/grade: the marks of students' policies, and of policies that fail."""

import subprocess
from pathlib import Path

import pytest
from grader import LAB, SAVE_MONEY, SOLUTION, grade, rows

from scripts.grading import remote_policy, trial
from scripts.grading.scenario import Scenario, ScenarioError
from scripts.servers.process import ROOT

SCENARIOS = LAB / "scenarios"


@pytest.mark.parametrize("scenario", sorted(SCENARIOS.iterdir()), ids=lambda folder: folder.name)
def test_the_solution_has_all_points_on_hidden_clusters_too_and_no_policy_has_not(scenario: Path) -> None:
    policy = LAB / "solutions" / f"{scenario.name}.py"
    done = grade(policy, scenario=scenario, options=("--csv", "--hidden=2"))
    without, solution = rows(done)
    assert (done.returncode, solution["points"], solution["problem"]) == (0, solution["of"], "")
    assert without["policy"] == "(no policy)"
    assert int(without["points"]) < int(without["of"])


BAD = {
    "raises": ("def score(pod, node):\n    return node.prize\n", "failed at raises.py:2"),
    "syntax": ("def score(pod, node)\n", "syntax.py"),
    "greedy": ("kept = bytearray(10**10)\n\ndef score(pod, node):\n    return 0\n", "MiB of memory"),
    "exits": ("import os\n\ndef score(pod, node):\n    os._exit(0)\n", "no answer"),
    "nothing": ("def filter(pod, node):\n    return False\n", ""),
    "many": (
        "from lib.scheduling.framework.interface import unschedulable\n\nclass Many:\n"
        "    def filter_nodes(self, state, pod, nodes):\n        return [unschedulable('no')] * len(nodes)\n",
        "0/4 nodes are available: 4 no.",
    ),
    "chance": (
        "import random\n\nWEIGHT = 100\n\ndef score(pod, node):\n    print({})\n"
        "    return random.randint(0, 100)\n",
        "",
    ),
}
"""A policy's source, and words of what is said of it."""


def test_a_policy_that_goes_wrong_stops_no_other(tmp_path: Path) -> None:
    for name, (source, _) in BAD.items():
        (tmp_path / f"{name}.py").write_text(source)
    policies = [*(tmp_path / f"{name}.py" for name in BAD), SOLUTION]
    done = grade(*policies, options=("--csv", "--seconds=30", "--hidden=0"))
    found = {Path(row["policy"]).stem: row for row in rows(done)}
    assert done.returncode == 3
    assert {name: words in found[name]["problem"] for name, (_, words) in BAD.items()} == dict.fromkeys(
        BAD, True
    )
    assert found["save-money"]["points"] == "3"
    assert found["nothing"]["points"] == "0"  # no node is used, and it costs nothing; but no pod is placed
    assert found["chance"]["placed >= 10"] == "10/10"  # what it prints is not taken for the answer


def test_the_same_seed_gives_the_same_result(tmp_path: Path) -> None:
    policy = tmp_path / "chance.py"
    policy.write_text(BAD["chance"][0])
    limits = trial.Limits(seconds=20, mebibytes=1024)
    first, second, other = (trial.run(Scenario(SAVE_MONEY), policy, seed, limits) for seed in (1, 1, 2))
    assert first.answer
    assert first == second
    assert first != other


def test_one_that_computes_without_end_is_ended(tmp_path: Path) -> None:
    policy = tmp_path / "endless.py"
    policy.write_text("def score(pod, node):\n    while True:\n        pass\n")
    _, found = rows(grade(policy, options=("--csv", "--seconds=1", "--hidden=0")))
    assert "took longer than 1 s of computing time" in found["problem"]


def test_one_that_sleeps_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_policy, "GRACE", 2.0)
    policy = tmp_path / "sleeps.py"
    policy.write_text("import time\ntime.sleep(3600)\n")
    result = trial.run(Scenario(SAVE_MONEY), policy, 1, trial.Limits(seconds=1, mebibytes=1024))
    assert "took longer than" in result.problem


def test_the_table_names_each_policy_and_its_points() -> None:
    """As a teacher calls it."""
    command = [ROOT / "scripts" / "grade", SOLUTION, "--scenario", SAVE_MONEY, "--hidden=0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.startswith("Save money: ")
    last = done.stdout.splitlines()[-1].split()
    assert last[0] == "save-money.py"
    assert last[1:] == ["10/10", "✓", "2", "✓", "0.30", "✓", "3/3"]


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("scenario.yaml", "title: a\nexpect: {plazed: 3}\n", "plazed"),
        ("scenario.yaml", "title: a\nexpect: {avoid: [n9]}\n", "no such node"),
        ("scenario.yaml", "title: a\nexpect: {spread: [{of: x, by: zone}]}\n", "no such workload"),
        ("cluster.yaml", "a: [\n", "cluster.yaml"),
        ("cluster.yaml", "just words\n", "isn't a Kubernetes object"),
    ],
)
def test_a_scenario_that_is_wrong_is_named(tmp_path: Path, file: str, content: str, words: str) -> None:
    for each in SAVE_MONEY.iterdir():
        if each.is_file():
            (tmp_path / each.name).write_text(each.read_text())
    (tmp_path / file).write_text(content)
    with pytest.raises(ScenarioError, match=words) as told:
        Scenario(tmp_path)
    assert str(tmp_path / file) in str(told.value)
