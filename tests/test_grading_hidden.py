"""scripts/grade: hidden clusters, what is possible at best, rubrics, and the forms of results."""

import json
import subprocess
from itertools import chain, combinations
from pathlib import Path
from random import Random

import pytest
import yaml
from grader import LAB, SAVE_MONEY, SOLUTION, grade, rows
from questions.questions_harness import Run

from lib.service.policies import load_policy
from scripts.grading.best import Best, _estimated, _tried
from scripts.grading.hand_in import HandIn, clusters_for, shapes_of
from scripts.grading.marks import Mark, mark
from scripts.grading.scenario import Scenario
from scripts.grading.trial import Limits, Task, Trial, run
from scripts.grading.variation import renamed, shaped_like
from scripts.servers.process import ROOT

BEST_PRICE = ROOT / "scripts" / "examples" / "best_price.py"

NAMES = "WEIGHT = 100\n\ndef score(pod, node):\n    return {'small': 100, 'medium': 50}.get(node.name, 0)\n"

TELLS = """
def score(pod, node):
    assert node.name in ("small", "medium", "large", "huge"), f"this is {node.name}"
    return 0
"""
"""Works on the open cluster, and tells in an error how a node of a hidden one is called."""

SEES_ALL = """
from zlib import crc32

WEIGHT = 100

def score(pod, node):
    parts = [pod, pod.metadata, pod.spec, dir(pod), node, node.pods, node.metadata, node.status, node.free]
    return crc32("".join(map(repr, parts)).encode()) % 101

class SeesOthers:
    def pre_filter(self, state, pod, cluster):
        nodes = cluster.nodes.values()
        state["SeesOthers"] = repr([(node.name, [str(each) for each in node.pods]) for node in nodes])

    def filter(self, state, pod, node):
        return None

    def score(self, state, pod, node):
        return crc32((state["SeesOthers"] + node.name).encode())

    def normalize_score(self, state, pod, scores):
        for name in scores:
            scores[name] %= 101
"""

PREEMPTING = {
    "scenario.yaml": "title: Evict\nexpect: {placed: 3, evicted: 3}\n",
    "cluster.yaml": "---\n".join(
        f"kind: Node\nmetadata: {{name: n{i}}}\n"
        "status: {allocatable: {cpu: 2, memory: 4Gi, pods: 10}}\n---\n"
        f"kind: Pod\nmetadata: {{name: old-{i}}}\nspec:\n  nodeName: n{i}\n"
        "  containers: [{name: main, resources: {requests: {cpu: 1500m}}}]\n"
        for i in range(4)
    ),
    "pods.yaml": """
kind: PriorityClass
apiVersion: scheduling.k8s.io/v1
metadata: {name: high}
value: 1000
---
kind: Deployment
apiVersion: apps/v1
metadata: {name: urgent}
spec:
  replicas: 3
  selector: {matchLabels: {app: urgent}}
  template:
    metadata: {labels: {app: urgent}}
    spec:
      priorityClassName: high
      schedulerName: my-scheduler
      containers: [{name: main, resources: {requests: {cpu: 1}}}]
""",
}


def written(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(content)
    return folder


# --- the same decisions as poller's -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scenario", "policy"),
    [
        *((LAB / "scenarios" / each.stem, each) for each in sorted((LAB / "solutions").glob("*.py"))),
        *((LAB / "scenarios/empty-nodes", each) for each in sorted((ROOT / "scripts/examples").glob("*.py"))),
        (LAB / "scenarios/empty-nodes", "sees_all"),
        ("preempting", "sees_all"),
    ],
    ids=lambda each: getattr(each, "stem", each),
)
def test_a_policy_decides_as_it_does_in_poller(
    scenario: Path | str, policy: Path | str, tmp_path: Path, poller: Run
) -> None:
    folder = scenario if isinstance(scenario, Path) else written(tmp_path / scenario, PREEMPTING)
    if isinstance(policy, str):
        policy = written(tmp_path, {f"{policy}.py": SEES_ALL}) / f"{policy}.py"
    read = Scenario(folder)
    cluster = tmp_path / "cluster.json"
    cluster.write_bytes(read.cluster)
    asked = ["try", "--from", str(cluster), "--filename", str(folder / "pods.yaml"), "--plugin", str(policy)]
    printed = poller(*asked, "--seed=1", "--output=json", "--scheduler-name=my-scheduler").json
    graded = run(read, policy, 1, Limits(20, 1024))
    assert printed.pop("question") == "try"
    assert printed.pop("answer") in ("yes", "no")  # both are the verb's own: marks rest on each pod
    assert graded.answer == printed | {"why": [], "unknown": []}, graded.problem


# --- hidden clusters --------------------------------------------------------------------------------------


def test_names_of_nodes_in_the_code_help_on_the_open_cluster_only(tmp_path: Path) -> None:
    policy = written(tmp_path, {"names.py": NAMES}) / "names.py"
    assert all(each.good for each in marks_on(Scenario(SAVE_MONEY), policy))
    _, found = rows(grade(policy, options=("--csv", "--hidden=1")))
    assert found["points"] == "1"
    assert found["cost <= 0.3"].endswith("hidden")
    assert "cost" in found["problem"]


def test_a_hidden_cluster_has_the_same_shape_and_no_name_of_the_open_one() -> None:
    for folder in sorted((LAB / "scenarios").iterdir()):
        scenario = Scenario(folder)
        shape = shaped_like(scenario, "a class")
        assert shape.cluster == shaped_like(scenario, "a class").cluster
        assert shape.cluster != shaped_like(scenario, "another one").cluster
        one, same, other = (renamed(shape, secret) for secret in ("ann", "ann", "ben"))
        assert one.cluster == same.cluster
        assert one.cluster != other.cluster
        assert len(one.nodes) == len(scenario.nodes)
        assert not {*one.nodes} & {*scenario.nodes}
        assert all(name in one.nodes for name in [*one.expect.avoid, *one.running.values()])
        assert {each.of for each in one.expect.spread} <= {each["metadata"]["name"] for each in one.manifests}


def test_it_is_told_how_far_the_search_for_hidden_clusters_is() -> None:
    told: list[str] = []
    shapes = shapes_of(Scenario(SAVE_MONEY), 1, 2, told.append)
    assert [told[0], len(shapes)] == ["hidden cluster 1 of 2: trying shape 1 of at most 30", 2]
    assert any(each.startswith("hidden cluster 2 of 2") for each in told)


def marks_on(cluster: Scenario, policy: Path) -> tuple[Mark, ...]:
    """The marks for a policy that runs in this process."""
    task = Task(cluster)
    trial = task.placed(task.decider(1, load_policy(policy)))
    return mark(cluster, Trial(trial.as_json())).marks


BY_NAME = """
WEIGHT = 100

class ByName:
    def pre_filter(self, state, pod, cluster):
        state["ByName"] = sorted(node.name for node in cluster.nodes.values())

    def score(self, state, pod, node):
        return state["ByName"].index(node.name)
"""
"""The last name in the alphabet is best."""


def test_a_mark_depends_on_nobodys_name_and_on_no_comment(tmp_path: Path) -> None:
    by_name = written(tmp_path, {"by_name.py": BY_NAME}) / "by_name.py"
    for folder, file, names in (
        (SAVE_MONEY, by_name, 20),
        (SAVE_MONEY, BEST_PRICE, 5),
        (LAB / "scenarios/empty-nodes", by_name, 5),
    ):
        shape = shaped_like(Scenario(folder), "a class")
        found = [marks_on(renamed(shape, f"student-{i} {i}"), file) for i in range(names)]
        assert len({tuple((each.value, each.points) for each in marks) for marks in found}) == 1


CHEAPEST = """
WEIGHT = 100

def score(pod, node):
    return 100 - round(500 * float(node.annotations["example.com/price"]))
"""

AWS = {"small": "0.0104", "medium": "0.0208", "large": "0.0416", "huge": "0.0832"}


def test_prices_are_not_rounded(tmp_path: Path) -> None:
    """Whatever a teacher's prices are, the cheapest placement has all points on each hidden cluster."""
    told = {each.name: each.read_text() for each in SAVE_MONEY.iterdir()}
    for before, price in zip(("0.10", "0.20", "0.40", "0.80"), AWS.values(), strict=True):
        told["cluster.yaml"] = told["cluster.yaml"].replace(f'"{before}"', f'"{price}"')
    told["scenario.yaml"] = told["scenario.yaml"].replace("0.30", "0.0312")
    scenario = Scenario(written(tmp_path, told))
    policy = written(tmp_path, {"cheapest.py": CHEAPEST}) / "cheapest.py"
    for i in range(3):
        shape = shaped_like(scenario, str(i))
        assert all(each.good for each in marks_on(renamed(shape, "ann"), policy)), shape.expect


@pytest.mark.parametrize("policy", ["bin_packing", "headroom"])
def test_who_reads_no_price_has_not_all_points_where_costs_count(policy: str) -> None:
    file = ROOT / "scripts" / "examples" / f"{policy}.py"
    for i in range(2):
        shape = shaped_like(Scenario(SAVE_MONEY), f"class {i}")
        assert not all(each.good for each in marks_on(shape, file))
        assert all(each.good for each in marks_on(shape, SOLUTION))


def test_each_student_has_hidden_clusters_of_their_own(tmp_path: Path) -> None:
    handed_in = [written(tmp_path / name, {"policy.py": NAMES}) / "policy.py" for name in ("ann", "ben")]
    done = grade(*handed_in, options=("--output=json", "--hidden=1"))
    _, ann, ben = json.loads(done.stdout)["results"]
    assert (ann["student"], ben["student"]) == ("ann", "ben")
    assert ann["hidden_clusters"] == ben["hidden_clusters"] == 1


def test_names_are_others_for_each_student_and_for_each_file(tmp_path: Path) -> None:
    scenario = Scenario(SAVE_MONEY)
    shape = shaped_like(scenario, "a class")
    names = set()
    for student, comment in (("ann", "# first"), ("ann", "# second"), ("ben", "# first"), ("ann", "# first")):
        file = written(tmp_path, {"policy.py": NAMES + comment}) / "policy.py"
        _, hidden = clusters_for(scenario, HandIn(file, file.name, student), 1, [shape])
        names.add(tuple(hidden.nodes))
    assert len(names) == 3


def test_an_error_tells_nothing_of_a_hidden_cluster(tmp_path: Path) -> None:
    policy = written(tmp_path, {"ann.py": TELLS}) / "ann.py"
    found = rows(grade(policy, options=("--csv", "--hidden=1")))[1]["problem"]
    assert found == "on a hidden cluster: it failed at ann.py:3, with AssertionError"


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    outputs = []
    for i in range(2):
        options = "--output=json", "--hidden=1", f"--reports={tmp_path / str(i)}"
        done = grade(BEST_PRICE, SOLUTION, options=options)
        reports = {each.name: each.read_text() for each in sorted((tmp_path / str(i)).iterdir())}
        outputs.append((done.stdout, reports))
    assert outputs[0] == outputs[1]
    assert [*outputs[0][1]] == ["best_price.md", "save-money.md"]


# --- what is possible at best -----------------------------------------------------------------------------


def test_a_placement_that_is_too_good_to_be_true_has_no_points() -> None:
    pods = [{"pod": f"default/p{i}", "node": "small", "message": "", "victims": []} for i in range(10)]
    answer = {"pods": pods, "workloads": []}
    marks = mark(Scenario(SAVE_MONEY), Trial(answer, best=Best(0.3, 1)))
    assert (marks.marks, marks.problem) == ((), "no placement can have a cost of 0.10: the least is 0.3")


def test_the_best_is_that_of_all_sets_of_nodes_and_an_estimate_is_no_better() -> None:
    random = Random(1)
    for _ in range(200):
        nodes = [
            (random.randint(1, 9) / 10, {"cpu": random.randint(0, 8), "memory": random.randint(0, 8)})
            for _ in range(random.randint(1, 6))
        ]
        left = {"cpu": random.randint(1, 12), "memory": random.randint(1, 12)}
        enough = [
            some
            for some in chain.from_iterable(combinations(nodes, i) for i in range(1, len(nodes) + 1))
            if all(sum(free[name] for _, free in some) >= left[name] for name in left)
        ]
        cost, number = _tried(left, nodes)
        if enough:
            assert cost == pytest.approx(min(sum(price for price, _ in some) for some in enough))
            assert number == min(map(len, enough))
            estimated = _estimated(left, nodes)
            assert estimated[0] <= cost + 1e-9
            assert estimated[1] <= number


# --- rubrics, and forms -----------------------------------------------------------------------------------


def test_a_rubric_gives_a_part_of_the_points(tmp_path: Path) -> None:
    for each in SAVE_MONEY.iterdir():
        (tmp_path / each.name).write_text(each.read_text())
    told = yaml.safe_load((SAVE_MONEY / "scenario.yaml").read_text())
    told["rubric"] = {"cost": {"points": 6, "none_at": 1.5}, "nodes_used": {"points": 3, "none_at": 4}}
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(told))
    options = "--csv", "--hidden=0"
    without, found, solution = rows(grade(BEST_PRICE, SOLUTION, scenario=tmp_path, options=options))
    assert (without["points"], without["of"]) == ("1", "10")
    assert float(found["points"]) == pytest.approx(1 + 6 * (1.5 - 0.7) / 1.2 + 3 * 0.5)
    assert solution["points"] == "10"


def test_autolab_and_gradescope_get_their_forms(tmp_path: Path) -> None:
    done = grade(BEST_PRICE, options=("--output=autolab", "--hidden=0"))
    scores = {"placed >= 10": 1.0, "nodes <= 2": 0.0, "cost <= 0.3": 0.0}
    assert json.loads(done.stdout.splitlines()[-1]) == {"scores": scores, "scoreboard": [1.0]}
    body = json.loads(grade(BEST_PRICE, options=("--output=gradescope", "--hidden=0")).stdout)
    assert body["score"] == 1.0
    assert [(each["name"], each["score"], each["max_score"]) for each in body["tests"]] == [
        (name, score, 1) for name, score in scores.items()
    ]
    broken = written(tmp_path, {"broken.py": "import os\nos._exit(0)\n"}) / "broken.py"
    body = json.loads(grade(broken, options=("--output=gradescope", "--hidden=0")).stdout)
    assert (body["score"], len(body["tests"])) == (0, 3)
    assert "its process ended" in body["output"]
    refused = grade(BEST_PRICE, SOLUTION, options=("--output=autolab",))
    assert (refused.returncode, "is for one policy" in refused.stderr) == (2, True)


def test_a_report_says_which_pods_went_where_and_what_was_possible(tmp_path: Path) -> None:
    grade(BEST_PRICE, options=(f"--reports={tmp_path}", "--hidden=0"))
    text = (tmp_path / "best_price.md").read_text()
    assert "best_price: 1 of 3 points: nodes <= 2: it is 3" in text
    assert "your score decided for 7 pods; PodTopologySpread 3" in text
    assert "| cost <= 0.3 | 0.70 | 0.3 or less | 0.3 | 0 of 1 |" in text
    assert all(f"default/batch-{i}" in text for i in range(1, 5))


def test_a_cell_is_no_formula(tmp_path: Path) -> None:
    policy = written(tmp_path, {"=1+1.py": "def filter(pod, node):\n    return '\\x1b[2J=cmd'\n"}) / "=1+1.py"
    _, found = rows(grade(policy, options=("--csv", "--hidden=0")))
    assert (found["policy"], found["student"]) == ("'=1+1.py", "'=1+1")
    assert "\x1b" not in found["problem"]


# --- what students get ------------------------------------------------------------------------------------


def test_the_handout_has_no_solutions_and_the_teachers_folder_has(tmp_path: Path) -> None:
    made = subprocess.run(
        [ROOT / "scripts" / "handout", tmp_path / "a class"], capture_output=True, text=True, timeout=60
    )
    assert (made.returncode, made.stderr) == (0, "")
    students, teacher = tmp_path / "a class" / "students" / "poller", tmp_path / "a class" / "teacher"
    solutions = [each.read_text() for each in (LAB / "solutions").glob("*.py")]
    assert [each for each in students.rglob("*.py") if each.read_text() in solutions] == []
    assert (students / "scripts" / "learn").stat().st_mode & 0o111
    scenario = teacher / "save-money"
    assert Scenario(scenario).hidden.clusters == 3
    done = grade(scenario / "solution.py", scenario=scenario, options=("--output=json",))
    result = json.loads(done.stdout)["results"][1]
    assert (done.returncode, result["points"], result["hidden_clusters"]) == (0, 3, 3)
    again = subprocess.run(
        [ROOT / "scripts" / "handout", tmp_path / "a class"], capture_output=True, text=True, timeout=60
    )
    assert (again.returncode, "nothing was written" in again.stderr) == (1, True)
