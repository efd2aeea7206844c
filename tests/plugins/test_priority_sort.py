"""PrioritySort: the highest priority goes first, then the oldest pod, then the name decides.

The first two as in queuesort/priority_sort_test.go, where a pod is as old as its place in the queue.
"""

import pytest
from objects import read

from lib.kube.objects import Pod
from lib.scheduling.plugins.priority_sort import PrioritySort


def waiting(name: str, priority: int | None = None, time: str | None = "00:00:00") -> Pod:
    created = {"creationTimestamp": f"2026-01-01T{time}Z"} if time else {}
    spec = {} if priority is None else {"priority": priority}
    made: Pod = read(Pod, {"metadata": {"namespace": "default", "name": name, **created}, "spec": spec})
    return made


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (waiting("b", 100), waiting("a", 10)),
        (waiting("b", 100, "23:00:00"), waiting("a", 10)),  # priority goes before age
        (waiting("b", 0), waiting("a", -1)),
        (waiting("b"), waiting("a", -1)),  # without a priority it is 0
        (waiting("b", 100, "00:00:00"), waiting("a", 100, "00:00:01")),
        (waiting("b", 100, "09:00:00"), waiting("a", 100, "10:00:00")),
        (waiting("b", 100), waiting("a", 100, None)),  # no time is the youngest
        (waiting("a", 100), waiting("b", 100)),
    ],
)
def test_which_of_two_pods_goes_first(first: Pod, second: Pod) -> None:
    for pods in ([first, second], [second, first]):
        assert sorted(pods, key=PrioritySort().queue_sort) == [first, second]
