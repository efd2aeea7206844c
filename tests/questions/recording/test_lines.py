"""What is kept of an object in a recording."""

import pytest
from canned import Json
from objects import read

from lib.kube.objects import Node, Object, Pod
from lib.kube.storage import PersistentVolumeClaim
from lib.questions.recording.lines import body_of, names_of

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
METADATA = {
    "name": "web",
    "uid": "its-uid",
    "resourceVersion": "7",
    "generation": 3,
    "labels": {"app": "web"},
    "annotations": {**BOUND, "note": "secret"},
}


@pytest.mark.parametrize(("kind", "annotations"), [(Pod, None), (Node, None), (PersistentVolumeClaim, BOUND)])
def test_annotations_are_kept_only_where_decisions_depend_on_them(
    kind: type[Object], annotations: Json | None
) -> None:
    metadata = body_of(read(kind, {"metadata": METADATA}))["metadata"]
    assert metadata.get("annotations") == annotations
    assert metadata["labels"] == {"app": "web"}
    assert metadata.keys().isdisjoint({"resourceVersion", "generation"})  # each write changes them


def test_of_a_pods_status_only_the_node_is_kept_that_is_nominated_for_it() -> None:
    status = {"nominatedNodeName": "n1", "phase": "Pending", "startTime": "2026-01-01T00:00:00Z"}
    kept = body_of(read(Pod, {"metadata": METADATA, "status": status}))
    assert kept["status"] == {"nominatedNodeName": "n1"}
    assert "status" not in body_of(read(Pod, {"metadata": METADATA, "status": {"phase": "Running"}}))


def test_of_what_is_gone_only_what_tells_it_from_others_is_kept() -> None:
    gone = names_of(read(Pod, {"metadata": {"namespace": "shop", **METADATA}}))
    metadata = {"namespace": "shop", "name": "web", "uid": "its-uid"}
    assert gone == {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}
