"""Which pods belong together: what the services that select a pod and its controller select, all of it.

Figures as in helper/spread_test.go.
"""

from typing import Any

import pytest
from objects import read
from plugin_harness import labelled, pairs, selecting

from lib.kube.objects import LabelSelector, Pod, Requirement, Service
from lib.scheduling.workloads import Workloads, controller_of


def service(selector: str | None, namespace: str = "default") -> Service:
    spec: dict[str, Any] = {} if selector is None else {"selector": pairs(selector)}
    made: Service = read(Service, {"metadata": {"namespace": namespace}, "spec": spec})
    return made


def owned(labels: str, *uids: str, controller: bool = True, namespace: str = "default") -> Pod:
    owners = [{"kind": "ReplicaSet", "name": uid, "uid": uid, "controller": controller} for uid in uids]
    return labelled(labels, metadata={"ownerReferences": owners, "namespace": namespace})


EXPRESSION = Requirement("tier", "In", ("front", "back"))
SELECTORS = {
    controller_of(owned("", name)): selector
    for name, selector in {
        "rs": LabelSelector({"rs": "1"}),
        "expressive": LabelSelector({"rs": "1"}, (EXPRESSION,)),
        "only": LabelSelector({}, (EXPRESSION,)),
        "empty": LabelSelector(),
    }.items()
}


@pytest.mark.parametrize(
    ("asking", "services", "expected"),
    [
        (labelled("app=web"), [], None),
        (labelled("app=web"), [service("app=web")], LabelSelector({"app": "web"})),
        # The service selects what the pod has, and perhaps less; never more.
        (labelled("app=web rev=1"), [service("app=web")], LabelSelector({"app": "web"})),
        (labelled("app=web"), [service("app=web rev=1")], None),
        (labelled("app=web"), [service("app=db")], None),
        (labelled("app=web"), [service("app=web", "elsewhere")], None),
        (labelled("app=web"), [service(None), service("")], None),  # these select nothing
        (labelled(""), [service("app=web")], None),
        # Of several services, what all of them select.
        (
            labelled("app=web rev=1"),
            [service("app=web"), service("app=db"), service("rev=1")],
            LabelSelector({"app": "web", "rev": "1"}),
        ),
        # And what the controller selects.
        (owned("app=web", "rs"), [], LabelSelector({"rs": "1"})),
        (owned("app=web", "rs"), [service("app=web")], LabelSelector({"app": "web", "rs": "1"})),
        (
            owned("app=web", "expressive"),
            [service("app=web")],
            LabelSelector({"app": "web", "rs": "1"}, (EXPRESSION,)),
        ),
        (owned("app=web", "only"), [], LabelSelector({}, (EXPRESSION,))),
        (owned("app=web", "empty"), [], None),
        # A controller that isn't known says nothing, nor does an owner that isn't the controller.
        (owned("app=web", "unknown"), [service("app=web")], LabelSelector({"app": "web"})),
        (owned("app=web", "rs", controller=False), [], None),
        # The pod's author writes the uid: another namespace's controller is another one.
        (owned("app=web", "rs", namespace="elsewhere"), [], None),
    ],
)
def test_what_selects_the_pods_that_a_pod_belongs_with(
    asking: Pod, services: list[Service], expected: LabelSelector | None
) -> None:
    assert Workloads(services=services, selectors=SELECTORS).selector_for(asking) == expected


def test_the_controller_is_the_owner_that_says_so() -> None:
    owners = [{"uid": "a"}, {"uid": "b", "controller": True}, {"uid": "c"}]
    found = controller_of(labelled(metadata={"ownerReferences": owners}))
    assert found is not None
    assert found.uid == "b"
    assert controller_of(owned("", "a", "b", controller=False)) is None


def test_a_selector_from_a_service_reads_as_one_from_the_api() -> None:
    found = Workloads(services=[service("app=web")]).selector_for(labelled("app=web"))
    assert found == read(LabelSelector, selecting("app=web"))
