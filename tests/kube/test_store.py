"""Objects as they were seen last, and the order in which those of a list come."""

from objects import read

from lib.kube.objects import Pod
from lib.kube.store import Store


def made(name: str, second: int | None) -> Pod:
    created = {} if second is None else {"creationTimestamp": f"2026-01-01T00:00:{second:02}Z"}
    whole: Pod = read(Pod, {"metadata": {"name": name, "uid": name, **created}, "spec": {}})
    return whole


def test_waiting_pods_of_a_list_come_in_the_order_in_which_they_were_created() -> None:
    """The API server lists them by name. Who came first is to be tried first."""
    pods = [made("a", 2), made("b", 1), made("c", None), made("d", 1)]
    changes = Store[Pod](oldest_first=True).replace(pods)
    assert [each.object.metadata.name for each in changes] == ["b", "d", "a", "c"]
    assert [each.object.metadata.name for each in Store[Pod]().replace(pods)] == ["a", "b", "c", "d"]
