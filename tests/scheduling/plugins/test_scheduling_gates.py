"""SchedulingGates: a pod isn't queued until its last gate has been lifted.

Figures as in schedulinggates/scheduling_gates_test.go.
"""

import pytest
from objects import pod

from lib.scheduling.plugins.scheduling_gates import SchedulingGates
from lib.scheduling.status import Status, unresolvable


@pytest.mark.parametrize(
    ("gates", "expected"),
    [
        ("", None),
        ("foo", unresolvable("waiting for scheduling gates: [foo]")),
        ("foo bar", unresolvable("waiting for scheduling gates: [foo bar]")),
    ],
)
def test_a_gated_pod_is_not_queued(gates: str, expected: Status | None) -> None:
    gated = pod(schedulingGates=[{"name": name} for name in gates.split()])
    assert SchedulingGates().pre_enqueue(gated) == expected
