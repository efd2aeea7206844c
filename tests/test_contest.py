"""scripts/grade with a replay as its scenario: scores, places, and who doesn't take part."""

import json
import shutil
from pathlib import Path

import pytest
from grader import grade, rows

from lib.questions.errors import QuestionError
from scripts.grading.contest import Contest
from scripts.grading.scenario import ScenarioError
from scripts.servers.process import ROOT

DAY = ROOT / "scripts" / "lab" / "contests" / "gpu-day"

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,4000,8192,0,\nn2,4000,8192,0,\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,scheduled_time,deletion_time\n"

PACK = "def score(pod, node):\n    return 100 if node.pods else 0\n"
SPREAD = "def score(pod, node):\n    return 0 if node.pods else 100\n"


def a_contest(folder: Path, score: str, more: str = "") -> Path:
    """Two nodes, and six pods of which three run at a time."""
    folder.mkdir()
    (folder / "nodes.csv").write_text(NODES)
    rows = "".join(f"p{i},1000,1024,0,0,{i},{i},{i + 3}\n" for i in range(6))
    (folder / "pods.csv").write_text(PODS + rows)
    told = f"title: Small\npods: pods.csv\nnodes: nodes.csv\nscore: {score}\nruns: 1\n{more}"
    (folder / "replay.yaml").write_text(told)
    return folder


def written(folder: Path, **sources: str) -> list[Path]:
    files = [folder / f"{name}.py" for name in sources]
    for file, source in zip(files, sources.values(), strict=True):
        file.write_text(source)
    return files


def test_a_table_has_all_submissions_with_their_places(tmp_path: Path) -> None:
    contest = a_contest(tmp_path / "contest", "nodes_used", "beat: beaten.py\n")
    written(contest, beaten=SPREAD)
    files = written(
        tmp_path,
        spread=SPREAD,
        pack=PACK,
        also_pack=PACK,
        fails="def score(pod, node):\n    return node.nope\n",
        refuses=f"{PACK}\ndef filter(pod, node):\n    return False\n",
        gives_up="def score(pod, node):\n    raise ValueError('no')\n",
    )
    done = grade(*files, scenario=contest)
    found = {row["policy"]: row for row in rows(done)}
    assert done.returncode == 3
    assert [(name, row["place"], row["nodes_used"], row["beats"]) for name, row in found.items()] == [
        ("also_pack.py", "1", "1.00", "yes"),
        ("pack.py", "1", "1.00", "yes"),
        ("beaten.py", "3", "1.75", ""),
        ("spread.py", "3", "1.75", "no"),
        ("fails.py", "", "", "no"),
        ("refuses.py", "", "", "no"),
        ("gives_up.py", "", "", "no"),
    ]
    assert "failed at fails.py:2" in found["fails.py"]["problem"]
    assert "here, a policy only scores" in found["refuses.py"]["problem"]
    assert "no" in found["gives_up.py"]["problem"]
    table = grade(files[1], scenario=contest, options=())
    assert table.returncode == 0
    assert "score: nodes that are used, the mean over time; the less the better" in table.stdout


def test_the_day_of_the_lab_has_room_above_best_fit(tmp_path: Path) -> None:
    """The lesson's test beats it with the lesson's solution; here: who copies it doesn't."""
    day = tmp_path / "day"
    shutil.copytree(DAY, day)
    told = (day / "replay.yaml").read_text()
    assert "runs: 3" in told
    (day / "replay.yaml").write_text(told.replace("runs: 3", "runs: 1"))  # one of three proves the same
    (copy,) = written(tmp_path, copy=(DAY / "best_fit.py").read_text())
    done = grade(copy, scenario=day, options=("-o", "json"))
    assert done.returncode == 3
    played = json.loads(done.stdout)
    assert played["score"].startswith("% of alibabacloud.com/gpu-milli that is allocated at the end")
    assert [each["place"] for each in played["entries"]] == [1, 1]
    assert 90 < played["entries"][0]["score"] < 97


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ("title: x\npods: gone.csv\nnodes: nodes.csv\nscore: allocated\n", "gone.csv: No such file"),
        ("title: x\npods: pods.csv\nscore: allocated\n", "--nodes FILE is missing"),
        ("title: x\npods: pods.csv\nnodes: nodes.csv\nscore: allocated\nruns: 0\n", "runs: must be from 1"),
        ("- x\n", "replay.yaml: "),
    ],
)
def test_what_is_wrong_with_a_contest_is_said(tmp_path: Path, told: str, why: str) -> None:
    contest = a_contest(tmp_path / "contest", "allocated")
    (contest / "replay.yaml").write_text(told)
    with pytest.raises((ScenarioError, QuestionError)) as error:
        Contest(contest)
    assert why in str(error.value)


def test_a_contest_that_is_wrong_is_not_played(tmp_path: Path) -> None:
    contest = a_contest(tmp_path / "contest", "fame")
    done = grade(*written(tmp_path, pack=PACK), scenario=contest)
    assert (done.returncode, done.stdout) == (2, "")
    assert "replay.yaml: Invalid enum value 'fame'" in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
