"""scripts/learn, as a student runs it, in a folder whose name has a space, a quote and an umlaut."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from cluster import eventually

from scripts.learning.pages import LESSONS, lessons
from scripts.learning.progress import Progress, ProgressError
from scripts.learning.report import tasks
from scripts.servers.process import ROOT

PLACE = ("lib", "poller.py", "requirements.txt", "requirements.lock")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The project, without what the lab doesn't need."""
    made = tmp_path / "it's an ümlaut"
    shutil.copytree(ROOT / "scripts", made / "scripts")  # what is compiled, too: that takes seconds
    for name in PLACE:
        (made / name).symlink_to(ROOT / name)
    (made / ".venv").symlink_to(Path(sys.prefix))
    return made


def environment() -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "BROWSER")}
    return {**ours, "COLUMNS": "80", "LINES": "24"}


@contextmanager
def terminal(folder: Path) -> Iterator[Callable[[str, str], str]]:
    """scripts/learn in a terminal. Call it with commands, and with a word that they print at their end."""
    with subprocess.Popen(
        [folder / "scripts" / "learn"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(),
        text=True,
    ) as shell:
        assert shell.stdin
        assert shell.stdout
        stdin, stdout = shell.stdin, shell.stdout

        def types(commands: str, until: str) -> str:
            stdin.write(f"{commands}\n")
            stdin.flush()
            shown = ""
            for line in stdout:
                shown += line
                if line.startswith(until):
                    return shown
            raise AssertionError(shown)

        yield types
        stdin.write("exit\n")
        stdin.close()
        stdout.read()


def learn(folder: Path, *commands: str) -> str:
    """What scripts/learn shows when these are typed into its shell."""
    done = subprocess.run(
        [folder / "scripts" / "learn"],
        input="".join(f"{each}\n" for each in (*commands, "exit")),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


def in_order(shown: str, parts: list[str]) -> None:
    for part in parts:
        _, found, rest = shown.partition(part)
        assert found, f"{part!r} isn't shown, or not in its place: {shown}"
        shown = rest


def test_a_student_goes_through_a_task(folder: Path) -> None:
    shown = learn(
        folder,
        "learn at 1.5",  # the steps before it are done again
        "kubectl get pods --no-headers",
        "learn next",
        "learn hint",
        """kubectl run web --image=nginx --overrides='{"spec": {"schedulerName": "my-scheduler"}}'""",
        "learn next",
        "learn next",
        "learn run",
        "learn next",
        "learn back",
        "learn list",
        "learn report",
        "learn at 1.9",
    )
    in_order(
        shown,
        [
            "1. A pod is Pending",  # the page of the first step
            "Task: a second pod",
            "nginx 0/1 Pending",
            "Not yet: there is no pod web.",
            "Hint 1 of 2",
            "pod/web created",
            "Seen: pod web names my-scheduler, and has no node.",
            "2. Bind it by hand",  # the next lesson, on a cluster without the pods
            "Not yet: there is no pod nginx: the commands of this page make that.",
            '"code": 201',
            "The kubelet takes over",
            "2. Bind it by hand",
            "1 ✓ A pod is Pending",
            "-> 2 - Bind it by hand (step 1 of 5)",
            "1.5 a second pod alone 1 2 ",
            f"1 of {len(tasks(lessons()))} tasks solved, 1 of them alone.",
        ],
    )


def test_a_student_predicts_before_the_commands_run(folder: Path) -> None:
    shown = learn(folder, "learn at 11.1", "learn run", "to list [pods]")
    parts = ["Predict: what is the first", "> ", "deployment.apps/poller created", "You said: to list [pods]"]
    in_order(shown, parts)


def is_at(folder: Path, progress: str) -> Path:
    """A student's folder, with how far the student is."""
    lab = folder / ".lab"
    lab.mkdir()
    (lab / "progress.json").write_text(progress)
    return lab


def test_what_a_student_has_written_stays(folder: Path) -> None:
    """In lesson 24, whose solution is a file."""
    mine = is_at(folder, '{"lesson": 24, "step": 2, "hints": 3}') / "answers.txt"
    pages = mine.with_name("answers.page.txt")
    mine.write_text("# my own\n")
    told = ".lab/answers.txt is yours and stays as it is. What the page writes is in .lab/answers.page.txt."
    shown = learn(
        folder,
        "learn run",
        "cat .lab/answers.txt",
        "echo 1 schedule_one.go ScheduleOne >.lab/answers.txt",  # as the page has it
        "learn run",
        "learn next",
        "echo '# my own' >.lab/answers.txt",
    )
    in_order(shown, [told, "# my own", "Seen: ", "A cluster for a prediction"])
    right = pages.read_text()
    assert right.startswith("1 schedule_one.go numFeasibleNodesToFind\n")
    shown = learn(
        folder,
        "cat .lab/answers.txt",
        "rm .lab/answers.txt .lab/answers.page.txt",
        "learn again",  # now the page makes it
        "echo '# more' >>.lab/answers.txt",
        "learn again",
    )
    in_order(shown, [told, "A cluster for a prediction", "# my own"])
    assert (mine.read_text(), pages.read_text()) == (f"{right}# more\n", right)


def test_terminals_share_a_lab_and_its_page_until_the_last_of_them_ends(folder: Path) -> None:
    with ExitStack() as others:
        with terminal(folder) as first:
            cluster = first("echo at $KUBECONFIG $POLLER_PROXY", "at /tmp").splitlines()[-1]
            second = others.enter_context(terminal(folder))
            shown = second("echo at $KUBECONFIG $POLLER_PROXY", "at /tmp")
            assert "This terminal joins the lab that runs already" in " ".join(shown.split())
            assert shown.splitlines()[-1] == cluster
            second("kubectl create namespace of-the-second", "namespace/of-the-second created")
            assert "of-the-second" in first("kubectl get namespaces; echo done", "done")
            second("learn at 2.1 >/dev/null; echo done", "done")
            assert "->  2" in first("learn list; echo done", "done")
        assert "node1" in second("kubectl get nodes; echo done", "done")  # its first terminal has ended
        (address,) = re.findall(r"http://\S+", second("learn page; echo done", "done"))
        assert address in second("learn page; echo done", "done")  # the same one
        assert httpx.get(f"{address}api/v1/nodes?limit=1").json()["kind"] == "NodeList"
        assert (folder / ".lab" / ".learn").stat().st_mode & 0o077 == 0  # the address has a token
    kubeconfig = Path(cluster.split()[1])
    eventually(lambda: not kubeconfig.exists())
    eventually(lambda: is_away(address))


def test_a_forgotten_scheduler_is_named(folder: Path) -> None:
    shown = learn(
        folder,
        "scripts/lab/scheduler.sh >/dev/null 2>&1 & echo process $!",
        "learn at 3.1",
        "learn next",
        'sed -i.old \'s/.lesson.:.*/"lesson": 6,/; s/.step.:.*/"step": 7,/\' .lab/progress.json',
        "learn next",
        "kill %1; wait",
        "learn next",
    )
    pid = re.findall(r"process (\d+)", shown)[0]
    in_order(
        shown,
        [
            f"(scheduler.sh still runs, as process {pid}.)",
            f"Not yet: scheduler.sh (process {pid}) still runs, and would place the pods of the next lesson.",
            "Lesson 6 is done.",
        ],
    )


def is_away(address: str) -> bool:
    try:
        httpx.get(address)
    except httpx.TransportError:
        return True
    return False


def test_the_labs_proxy_is_private_and_poller_can_show_its_own_page(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "ui.log"
    shown = learn(
        folder,
        'ls -ld "${PROXY_SOCKET%/*}"',
        f"python poller.py --ui 2>{log} &",
        f"until grep -q 'page is at' {log}; do sleep 0.1; done",
        f"curl --silent $(sed -n 's/.*the page is at \\(.*\\): .*/\\1/p' {log})api/v1/nodes?limit=1",
        "kill %1; wait",
    )
    assert "drwx------" in shown
    assert '"kind":"NodeList"' in shown.replace(" ", "")


def test_a_class_is_reported(folder: Path) -> None:
    at = time.strftime("%Y-%m-%dT%H:%M+00:00", time.gmtime())
    for name, task in (("ann", '"hints":1,"tries":2'), ("bob", '"ran":true')):
        progress = f'{{"lesson":2,"step":1,"tasks":{{"1.5":{{{task},"solved":"{at}"}}}}}}'
        (folder / f"{name}.json").write_text(progress)

    def report(*words: str) -> list[str]:
        command = [folder / "scripts/learn", "report", *words]
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=True
        ).stdout.splitlines()

    lines = report("ann.json", "bob.json", "--csv")
    assert lines[:2] == [
        "student,lesson,step,task,solved,by,hints,tries,when",
        f"ann,1,5,a second pod,1,alone,1,2,{at}",
    ]
    assert f"bob,1,5,a second pod,1,learn run,0,0,{at}" in lines
    _, ann, bob = report("ann.json", "bob.json")
    assert (ann.split()[:4], bob.split()[:4]) == (["ann", "1", "0", "0"], ["bob", "0", "0", "1"])

    (folder / "broken.json").write_text('{"lesson": 3, "ta')
    command = [folder / "scripts/learn", "report", "ann.json", "broken.json", "bob.json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["student", "ann", "bob"]
    assert (done.returncode, "broken.json isn't the progress of a student" in done.stderr) == (1, True)


def test_a_progress_that_cannot_be_read_is_kept_and_named(tmp_path: Path) -> None:
    file = tmp_path / "progress.json"
    for broken in ('{"lesson": 3, "ta', '{"tasks": {"1.5": {"solved": "=1+1"}}}'):
        file.write_text(broken)
        with pytest.raises(ProgressError, match="isn't the progress of a student"):
            Progress.read(file, lessons())
        progress = Progress.load(file, lessons())
        assert progress == Progress()
        progress.save(file)
        assert (tmp_path / "progress.unreadable.json").read_text() == broken
        assert Progress.read(file, lessons()) == progress
    file.write_text('{"lesson": 99, "tasks": {"1.5": {"tries": 4}}}')
    found = Progress.load(file, lessons())
    assert (found.lesson, found.step, found.tasks["1.5"].tries) == (1, 1, 4)


def test_outside_of_its_shell_learn_says_where_to_go() -> None:
    done = subprocess.run([ROOT / "scripts" / "learn", "next"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert "start it with scripts/learn" in done.stderr


GNU_ONLY = re.compile(
    r"\bsed -i|\bsed -r|\bgrep -P|\breadlink -f|\bdate -d|\bstat -c|\bstat --|\bxargs -r|\bmapfile\b"
    r"|\breadarray\b|\bdeclare -A|\$\{\w+(\^\^|,,)|&>>|\|&|\bwait -n|\bhead -n -|\btac\b|\btimeout \d|\bps --"
)
"""What bash 3.2, or BSD's tools, on macOS, don't have."""


@pytest.mark.parametrize("file", [*LESSONS.glob("*.md"), *LESSONS.rglob("*.sh")], ids=lambda file: file.name)
def test_commands_also_run_on_macos(file: Path) -> None:
    assert [found[0] for found in GNU_ONLY.finditer(file.read_text())] == []


def test_every_lesson_is_in_the_list_of_lessons() -> None:
    listed = (LESSONS / "README.md").read_text()
    for lesson in lessons():
        assert f"| {lesson.number} | [{lesson.title}]({lesson.path.name}) |" in listed


def test_the_slides_are_one_file_and_each_task_has_its_answer(folder: Path) -> None:
    command = [folder / "scripts/learn"]
    subprocess.run([*command, "slides", "slides.html"], cwd=folder, check=True, capture_output=True)
    slides = (folder / "slides.html").read_text()
    assert slides.count("<section>") == (LESSONS / "lecture.md").read_text().count("\n## ") + 1
    assert slides.count('src="data:image/svg+xml;base64,') == 4
    assert not re.search(r'(href|src)="(?!data:)', slides)  # nothing beside it is needed
    said = subprocess.run([*command, "answers"], check=True, capture_output=True, text=True).stdout
    solved = [step for lesson in lessons() for step in lesson.steps if step.check]
    assert [step.title for step in solved if step.solution.rstrip() not in said] == []


def test_a_dead_proxy_is_named(folder: Path) -> None:
    (folder / ".venv").unlink()
    # An empty one, with the machine's pip: to install pip into it would take seconds.
    making = [sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", folder / ".venv"]
    subprocess.run(making, check=True)
    proxy = "http://127.0.0.1:9"
    done = subprocess.run(
        [folder / "scripts/install", "--no-lock"],
        env={
            **os.environ,
            "HTTPS_PROXY": proxy,
            "https_proxy": proxy,
            "HTTP_PROXY": proxy,
            "http_proxy": proxy,
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert f"the proxy {proxy} doesn't answer. Correct HTTPS_PROXY, or unset it" in done.stderr
