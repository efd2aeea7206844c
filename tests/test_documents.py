"""Everything that the documents refer to exists: files, pictures, and functions."""

import ast
import re
from itertools import chain
from pathlib import Path

import pytest

from scripts.servers.process import ROOT

FOLDERS = ("lib", "scripts", "tests")
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / ".github/CONTRIBUTING.md",
    *sorted(chain(*((ROOT / each).rglob("*.md") for each in FOLDERS))),
]

LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)|(?:src|srcset)=\"([^\"]+)\"")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: str(each.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    targets = [target for target in chain(*LINK.findall(text)) if target]
    gone = [each for each in targets if ":" not in each and not (document.parent / each).exists()]
    assert gone == []


def test_each_page_is_linked_once() -> None:
    links = re.findall(r"\]\(([^)]+/README\.md)\)", (ROOT / "README.md").read_text())
    assert sorted(links) == sorted(set(links))
    here = {str(each.relative_to(ROOT)) for each in DOCUMENTS if each.name == "README.md"}
    assert set(links) == here - {"README.md"}


def test_the_walk_leads_through_functions_that_there_are() -> None:
    walk = (ROOT / "lib/README.md").read_text().split("## One pod, from poll to event\n")[1].split("\n## ")[0]
    hops = re.findall(r"\[`([\w.]+)`\]\(([\w./]+)\)", walk)
    assert walk.count("](") == len(hops) > 10
    assert [hop for hop in hops if hop[0] not in defined_in(ROOT / "lib" / hop[1])] == []


def test_the_functions_beside_those_of_kube_scheduler_are_there() -> None:
    page = (ROOT / "scripts/lab/24-read-kube-scheduler.md").read_text()
    rows = re.findall(r"\| `\w+` \| `(\w+)` in `(\w+\.py)` \|", page)
    assert len(rows) > 10
    found = {
        each.name: {name.rpartition(".")[2] for name in defined_in(each)}
        for each in (ROOT / "poller.py", *(ROOT / "lib").rglob("*.py"))
        if each.name in dict(map(reversed, rows))
    }
    assert [row for row in rows if row[0] not in found[row[1]]] == []


def test_pictures_are_small_files() -> None:
    sizes = {each.name: each.stat().st_size for each in (ROOT / "scripts/pictures").glob("*.png")}
    assert sizes
    assert max(sizes.values()) < 150_000, sizes


def defined_in(file: Path) -> set[str]:
    """The functions of a file by name, and the methods as Class.method."""
    names = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return names


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: str(each.relative_to(ROOT)))
def test_tests_that_are_named_exist(document: Path) -> None:
    for file, test in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", document.read_text()):
        code = (ROOT / file).read_text()
        assert not test or f"def {test}(" in code, f"{file}::{test}"
