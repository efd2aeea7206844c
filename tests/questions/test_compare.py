"""`compare`: where a configuration places the pods of a cluster again, and where configurations differ."""

import pytest
from questions_harness import a_node, a_pod, decider_of, snapshot_of
from test_drain import made_by

from lib.questions.compare import Comparison, ConfigResult, Replacing, differing
from lib.questions.verdict import Verdict

PODS = (
    a_pod("large", "3", on="n1", priority=10),
    a_pod("small", "2", on="n2"),
    a_pod("waits", "1"),
    a_pod("lost", "9"),
    a_pod("agent", "1", on="n1", metadata=made_by("agent", "DaemonSet")),
)


def replaced(*, pending_only: bool) -> ConfigResult:
    snapshot = snapshot_of(a_node("n1"), a_node("n2"), *PODS)
    replacing = Replacing("default", snapshot, decider_of(snapshot), pending_only=pending_only)
    assert len(list(replacing.steps())) == len(replacing)
    return replacing.answer


@pytest.mark.parametrize(
    ("pending_only", "placed"),
    [(False, {"large", "small", "waits"}), (True, {"waits"})],
)
def test_pods_are_placed_again_but_for_those_that_belong_to_their_nodes(
    *, pending_only: bool, placed: set[str]
) -> None:
    found = replaced(pending_only=pending_only)
    assert found.nodes.keys() == {f"default/{name}" for name in placed}
    assert found.pending.keys() == {"default/lost"}
    assert found.pending["default/lost"].startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert found.left_out == 1


def test_the_requested_shares_of_nodes_are_compared() -> None:
    found = replaced(pending_only=True)
    assert (found.mean["cpu"], found.imbalance["cpu"]) == (0.875, 0.125)  # of n1 all, of n2 three quarters
    snapshot = snapshot_of(*(a_node(f"n{i}", cpu="3") for i in range(3)), a_pod("web", "1"))
    (_,) = (replacing := Replacing("default", snapshot, decider_of(snapshot), pending_only=False)).steps()
    assert (replacing.answer.mean["cpu"], replacing.answer.imbalance["cpu"]) == (0.1111, 0.1571)


@pytest.mark.parametrize(
    ("nodes", "others"),
    [
        ({"a": "n1", "b": "n2"}, []),
        ({"a": "n2", "b": "n2"}, ["a"]),
        ({"b": "n2"}, ["a"]),
        ({"a": "n1", "b": "n2", "c": "n1"}, ["c"]),
    ],
)
def test_configurations_differ_in_pods_that_are_elsewhere_or_nowhere(
    nodes: dict[str, str], others: list[str]
) -> None:
    first, same = ConfigResult("first", {"a": "n1", "b": "n2"}), ConfigResult("same", {"a": "n1", "b": "n2"})
    other = ConfigResult("other", nodes)
    assert differing(first, other) == others
    assert Comparison([first, same, other]).verdict is (Verdict.NO if others else Verdict.YES)
