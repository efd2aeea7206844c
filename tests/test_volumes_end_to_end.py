"""Pods with volumes go where these are, or can be; a pod is bound when its claims are, and only then.

What a volume controller and provisioners would do to these volumes, the tests do.
"""

import signal
from collections.abc import Iterator

import pytest
from cluster import Cluster, eventually
from faults import Fault, answer, faulty
from storage import Volumes, uses

WITHIN = 60
"""Seconds; what is waited for takes far fewer."""


@pytest.fixture
def volumes(cluster: Cluster) -> Iterator[Volumes]:
    """A cluster with the nodes n1, n2 and n3."""
    for name in ("n1", "n2", "n3"):
        cluster.add_node(name)
    volumes = Volumes(cluster)
    yield volumes
    cluster.clear()
    volumes.clear()


WATCHING = pytest.mark.parametrize("options", [[], ["--watch"]], ids=["polling", "watching"])


def test_a_local_volume_draws_its_pod_to_its_node(cluster: Cluster, volumes: Volumes) -> None:
    for i in range(6):
        volumes.add_bound(f"data-{i}", "n2")
        cluster.add_pod(f"web-{i}", volumes=uses(f"data-{i}"))
    cluster.poller()
    assert cluster.placement() == {f"web-{i}": "n2" for i in range(6)}


def test_two_pods_that_race_for_two_volumes_get_one_each(cluster: Cluster, volumes: Volumes) -> None:
    volumes.add_class("local")
    for name in ("left", "right"):
        volumes.add_volume(name, "n1", "local")
        volumes.add_claim(f"of-{name}", "local")
        cluster.add_pod(name, volumes=uses(f"of-{name}"))
    with cluster.running_poller() as poller:
        taken = eventually(
            lambda: claims if all(claims := [*map(volumes.claim_of, ("left", "right"))]) else None, WITHIN
        )
        assert sorted(taken) == ["of-left", "of-right"]
        for volume, claim in zip(("left", "right"), taken, strict=True):
            volumes.finish(claim, volume)
        for name in ("left", "right"):
            poller.says(f"default/{name} is bound to n1", within=WITHIN)


@WATCHING
def test_a_pod_is_bound_when_its_volume_is_made_and_only_then(
    cluster: Cluster, volumes: Volumes, options: list[str]
) -> None:
    volumes.add_class("slow", "example.com/slow")
    volumes.add_claim("data", "slow")
    with cluster.running_poller(*options) as poller:
        cluster.add_pod("web", volumes=uses("data"))
        node = eventually(lambda: volumes.selected_node("data"), WITHIN)
        assert cluster.pod("web")["status"]["nominatedNodeName"] == node
        poller.says(f"default/web has {node} held for it: waiting for claims to be bound: data", WITHIN)
        for name in ("first", "second"):  # the loop goes on meanwhile
            cluster.add_pod(name)
            poller.says(f"default/{name} is bound", WITHIN)
        assert cluster.placement()["web"] is None
        volumes.provision("data")
        poller.says(f"default/web is bound to {node}", WITHIN)


def test_a_pod_whose_status_may_not_be_written_gets_its_volume(cluster: Cluster, volumes: Volumes) -> None:
    volumes.add_class("slow", "example.com/slow")
    volumes.add_claim("data", "slow")
    cluster.add_pod("web", volumes=uses("data"))
    said = '{"kind":"Status","status":"Failure","message":"pods/status is forbidden","code":403}'
    forbidden = Fault("PATCH", "/pods/web/status$", answer(403, said), times=1000)
    with (
        faulty(cluster.proxy, forbidden) as between,
        cluster.running_poller(proxy=between.url) as poller,
    ):
        poller.says("pods/status is forbidden", WITHIN)
        eventually(lambda: volumes.selected_node("data"), WITHIN)


def test_provisioning_that_fails_gives_the_node_back(cluster: Cluster, volumes: Volumes) -> None:
    volumes.add_class("slow", "example.com/slow")
    volumes.add_claim("data", "slow")
    only = {"nodeSelector": {"kubernetes.io/hostname": "n1"}, "requests": {"cpu": "3"}}
    with cluster.running_poller() as poller:
        cluster.add_pod("web", volumes=uses("data"), **only)
        eventually(lambda: volumes.selected_node("data") == "n1", WITHIN)
        poller.says("default/web has n1 held for it", WITHIN)
        cluster.add_pod("other", **only)
        poller.says("default/other fits nowhere", WITHIN)
        volumes.fail_to_provision("data")
        poller.says('binding volumes: provisioning failed for PVC "data"', WITHIN)
        poller.says("default/other is bound to n1", WITHIN)
        cluster.api.delete("/api/v1/namespaces/default/pods/other", params={"gracePeriodSeconds": "0"})
        eventually(lambda: volumes.selected_node("data") == "n1", WITHIN)  # it is tried again
        volumes.provision("data")
        poller.says("default/web is bound to n1", WITHIN)


def test_a_pod_that_waits_too_long_is_tried_again(cluster: Cluster, volumes: Volumes) -> None:
    volumes.add_class("slow", "example.com/slow")
    volumes.add_claim("data", "slow")
    cluster.add_pod("web", volumes=uses("data"))
    config = cluster.folder / "volumes.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: my-scheduler, pluginConfig: "
        "[{name: VolumeBinding, args: {bindTimeoutSeconds: 1}}]}]\n"
    )
    with cluster.running_poller(f"--config={config}") as poller:
        poller.says("waiting for claims to be bound: data: not within 1 s", WITHIN)
        eventually(lambda: poller.said.count("default/web has n") > 0, WITHIN)
        volumes.provision("data")
        poller.says(f"default/web is bound to {volumes.selected_node('data')}", WITHIN)


@pytest.mark.parametrize("made", ["before", "for it"])
def test_what_a_killed_poller_leaves_the_next_one_finishes(
    cluster: Cluster, volumes: Volumes, made: str
) -> None:
    volumes.add_class("local")
    volumes.add_class("slow", "example.com/slow")
    volumes.add_claim("data", "local" if made == "before" else "slow")
    if made == "before":
        volumes.add_volume("disk", "n3", "local")
    cluster.add_pod("web", volumes=uses("data"))

    def written() -> object:
        return volumes.claim_of("disk") if made == "before" else volumes.selected_node("data")

    with cluster.running_poller(afresh=True) as poller:
        eventually(written, WITHIN)
        poller.stop(signal.SIGKILL)
    with (
        cluster.running_poller()
    ):  # the embedded server's volume controller may have been faster than the kill
        if made == "before":
            volumes.finish("data", "disk")
        else:
            volumes.provision("data")
        node = "n3" if made == "before" else volumes.selected_node("data")
        eventually(lambda: cluster.placement() == {"web": node}, WITHIN)


@WATCHING
def test_nothing_of_volumes_is_read_while_no_pod_needs_it(cluster: Cluster, options: list[str]) -> None:
    cluster.add_node("n1")
    cluster.add_pod("web", volumes=[{"name": "scratch", "emptyDir": {}}])
    no_business = answer(500, "nobody asked for volumes")
    about_volumes = Fault("GET", r"/persistentvolume|/storage\.k8s\.io/", no_business, times=1000)
    with (
        faulty(cluster.proxy, about_volumes) as between,
        cluster.running_poller(*options, proxy=between.url) as poller,
    ):
        poller.says("default/web is bound to n1", WITHIN)
        assert "volumes" not in poller.said


@WATCHING
def test_a_pod_is_tried_again_when_its_claim_is_there(
    cluster: Cluster, volumes: Volumes, options: list[str]
) -> None:
    with cluster.running_poller(*options) as poller:
        cluster.add_pod("web", volumes=uses("data"))
        poller.says('0/3 nodes are available: persistentvolumeclaim "data" not found.', WITHIN)
        volumes.add_bound("data", "n3")
        poller.says("default/web is bound to n3", WITHIN)
