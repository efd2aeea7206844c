"""PrioritySort: the highest priority goes first. With equal priority, the queue's order decides."""

import pytest
from objects import read

from lib.kube.objects import Pod
from lib.scheduling.plugins.priority_sort import PrioritySort


def waiting(priority: int | None = None) -> Pod:
    spec = {} if priority is None else {"priority": priority}
    made: Pod = read(Pod, {"metadata": {"namespace": "default", "name": "web"}, "spec": spec})
    return made


@pytest.mark.parametrize(
    ("first", "second"),
    [(waiting(100), waiting(10)), (waiting(0), waiting(-1)), (waiting(), waiting(-1))],
)
def test_which_of_two_pods_goes_first(first: Pod, second: Pod) -> None:
    assert PrioritySort().queue_sort(first) < PrioritySort().queue_sort(second)


def test_without_a_priority_it_is_0() -> None:
    assert PrioritySort().queue_sort(waiting()) == PrioritySort().queue_sort(waiting(0))
