"""The tests that the pages on reliability and security name are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


@pytest.mark.parametrize("page", ["reliability.md", "security.md"])
def test_each_test_that_is_named_is_there(page: str) -> None:
    named = NAMED.findall((ROOT / "lib/service" / page).read_text())
    assert len(named) > 10
    for file, test in named:
        assert f"def {test}" in (ROOT / file).read_text(), (file, test)


def test_each_limit_of_the_threat_model_names_a_test() -> None:
    rows = [
        line.strip("| ").split(" | ")
        for line in (ROOT / "lib/service/security.md").read_text().splitlines()
        if line.startswith("| ") and "---" not in line
    ]
    assert len(rows) > 15
    for *_, shown_by in rows[1:]:
        assert NAMED.search(shown_by), shown_by
