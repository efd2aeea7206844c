"""Every command of a lesson has the output that the page shows, and every task passes its check.

A run goes through every second lesson, and with POLLER_ALL_CASES=1 through all. So does it with
LESSONS_REWRITE=1, and then writes what is shown now into the pages.
"""

import os
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from all_cases import HALF
from conftest import EMBEDDED_KUBECONFIG
from lessons import difference, rewrite
from rich.console import Console

from scripts.learning.bash import Bash
from scripts.learning.checks import CHECKS
from scripts.learning.lab import Lab, NotYetError, eventually, node_of
from scripts.learning.made import check_made
from scripts.learning.markdown import COLOURS, LessonText
from scripts.learning.pages import Block, Lesson, lessons
from scripts.learning.session import environment_for
from scripts.servers.embedded import minicluster
from scripts.servers.kubectl import kubectl_proxy
from scripts.servers.process import ROOT

WIDEST = 76  # columns of a block that rich shows whole at 80


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A cluster, and the variables of a shell beside it."""
    kubeconfig = tmp_path_factory.mktemp("lab") / "kubeconfig"
    with minicluster("--kubelet-delay", "0.1") as url:
        kubeconfig.write_text(EMBEDDED_KUBECONFIG.format(url=url))
        with kubectl_proxy(url, kubeconfig, kubeconfig.with_name("proxy.sock")) as proxy:
            lab = Lab(proxy, own=True, folder=kubeconfig.parent)
            yield environment_for(lab, proxy, str(kubeconfig))


@pytest.fixture
def lab(environment: dict[str, str], one_arena: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """The cluster, as good as new; and the variables of the lab's shell, which checks use, too."""
    for name, value in {**environment, "LAB_FOLDER": str(tmp_path / ".lab")}.items():
        monkeypatch.setenv(name, value)
    lab = Lab(environment["POLLER_PROXY"], own=True, folder=tmp_path / ".lab")
    lab.reset()
    return lab


@pytest.fixture
def bash(lab: Lab, tmp_path: Path) -> Iterator[Bash]:
    """A shell in a folder that holds what the project's does, and a `.lab` of its own."""
    for name in ("lib", "poller.py", "scripts"):
        (tmp_path / name).symlink_to(ROOT / name)
    lab.folder.mkdir()
    with Bash({}, tmp_path) as shell:
        yield shell


REWRITE = bool(os.environ.get("LESSONS_REWRITE"))


@pytest.mark.parametrize(
    "lesson", lessons()[slice(None) if REWRITE else HALF], ids=lambda lesson: lesson.path.stem
)
def test_a_page_shows_what_its_commands_show(lesson: Lesson, lab: Lab, bash: Bash) -> None:
    seen: list[tuple[Block, str]] = []
    wrong: list[str] = []
    made: list[str] = []
    solution = ""
    for step in lesson.steps:
        if new := [item for item in step.made if item not in made]:
            with pytest.raises(NotYetError):
                check_made(lab, new, os.environ)
            made += new
        for block in step.blocks:
            seen.append((block, bash.run(block.commands)))
            if found := difference(block, seen[-1][1]):
                wrong.append(f"{step.title}:\n{block.commands}{found}")
        check_made(lab, step.made, os.environ)
        if not step.check:
            continue
        check = CHECKS[step.check]
        if step.solution != solution:  # the one before may do what this step asks for, too
            with pytest.raises(NotYetError):
                check(lab)
        solution = step.solution
        shown = bash.run(solution)
        try:
            seen_by_lab = eventually(lambda check=check: check(lab), 30)
        except NotYetError as error:
            raise AssertionError(f"{step.title}: not solved: {error}\n{shown}\n{wrong}") from error
        for pod, node in re.findall(r"\bpod ([\w-]+) is on (node\d)", seen_by_lab):
            assert node_of(lab.pod(pod)) == node, seen_by_lab
    if REWRITE:
        rewrite(lesson, seen)
    assert not wrong, "\n\n".join(wrong)


def test_a_script_that_knows_the_name_of_a_node_is_not_enough(lab: Lab, bash: Bash) -> None:
    (task,) = (
        step for lesson in lessons() for step in lesson.steps if step.check == "all_six_are_on_the_third_node"
    )
    bash.run("kubectl cordon $NODE1 $NODE2")
    bash.run(
        task.solution.replace(
            "s/get nodes/& --field-selector spec.unschedulable=false/", "s/\\$(get nodes)/node3/"
        )
    )
    with pytest.raises(NotYetError, match="with node3 cordoned and node1 free, it has bound pods to node3"):
        CHECKS[task.check](lab)
    cordoned = [name for name, node in lab.nodes().items() if node["spec"].get("unschedulable")]
    assert cordoned == ["node1", "node2"]  # as before


PYTHON = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


@pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.path.stem)
def test_a_page_quotes_what_is_in_the_source(lesson: Lesson) -> None:
    lines = [line.strip() for line in (ROOT / "poller.py").read_text().splitlines()]
    source = {*lines, *(line.partition("  # ")[0] for line in lines)}  # comments may be left out
    quoted = [line.strip() for quote in PYTHON.findall(lesson.source) for line in quote.splitlines()]
    assert [line for line in quoted if line and line not in source] == []


@pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.path.stem)
def test_a_page_fits_a_terminal_of_80_columns(lesson: Lesson) -> None:
    blocks = [block.commands for step in lesson.steps for block in step.blocks]
    lines = [line for block in blocks for line in block.splitlines()]
    prose = re.sub(r"(?ms)^```.*?^```$", "", lesson.source).splitlines()
    assert [line for line in lines if len(line) > WIDEST] + [line for line in prose if len(line) > 80] == []


@pytest.mark.parametrize("width", [80, 40])
def test_commands_are_shown_as_they_are_typed(width: int) -> None:
    """From the first column to their last letter, so that a terminal's text can be copied into a shell."""
    for step in (step for lesson in lessons() for step in lesson.steps):
        printed = StringIO()
        console = Console(width=width, file=printed, theme=COLOURS)
        for part in (step.text, *step.hints):
            console.print(LessonText(part), crop=False)
        shown = f"\n{printed.getvalue()}"
        typed = [*(block.commands for block in step.blocks), step.solution]
        assert [commands for commands in typed if f"\n{commands}" not in shown] == []


def test_commands_use_no_variable_that_other_commands_set() -> None:
    """`learn run` gives each block, and a solution, a shell of its own."""
    typed = [
        commands
        for lesson in lessons()
        for step in lesson.steps
        for commands in (*(block.commands for block in step.blocks), step.solution)
    ]
    of_the_lab = {"NODE1", "NODE2", "NODE3", "PROXY_SOCKET", "d"}  # d: sed's, to the last line
    unset = {
        commands: unknown
        for commands in typed
        if (
            unknown := set(re.findall(r"\$(\w+)", commands))
            - set(re.findall(r"(\w+)(?:=| in )", commands))
            - of_the_lab
        )
    }
    assert unset == {}


def test_every_task_is_asked_for_once_and_has_hints() -> None:
    steps = [step for lesson in lessons() for step in lesson.steps if step.check]
    assert sorted(step.check for step in steps) == sorted(CHECKS)
    assert [step.title for step in steps if len(step.hints) < 2 or not step.solution] == []
