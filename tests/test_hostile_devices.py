"""Claims that are hostile, or change at the worst moment: other pods are placed, and no device is lost."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from all_cases import ALL_CASES
from cluster import Cluster
from device_objects import API, CLAIMS, DRIVER, Devices, uses, uses_template
from faults import Answer, Effect, Exchange, Fault, faulty

ON_ONE_SERVER = True

WITHIN = 60
"""Seconds; what is waited for takes far fewer."""

HOWS = {"watching": ["--watch"], **({"polling": []} if ALL_CASES else {})}
WATCHING = pytest.mark.parametrize("options", HOWS.values(), ids=HOWS)


@pytest.fixture
def devices(cluster: Cluster) -> Iterator[Devices]:
    """A cluster with the node n1, which has 40 devices of the class gpu."""
    cluster.add_node("n1")
    devices = Devices(cluster)
    devices.add_class()
    yield devices
    cluster.clear()
    devices.clear()


def add_halves(cluster: Cluster) -> None:
    """40 devices. No 21 of them have the same value of `half`; to find that out takes for ever."""
    each = [{"name": f"gpu-{at}", "attributes": {"half": {"int": at % 2}}} for at in range(40)]
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": each}
    cluster.post(f"{API}/resourceslices", {"metadata": {"name": "of-n1"}, "spec": spec})


def add_claim(cluster: Cluster, name: str, constraints: list[Any] | None = None, **exactly: Any) -> None:
    request = {"name": name, "exactly": {"deviceClassName": "gpu", **exactly}}
    spec = {"devices": {"requests": [request], "constraints": constraints or []}}
    cluster.post(CLAIMS, {"metadata": {"name": name}, "spec": spec})


@WATCHING
def test_pods_whose_claims_take_for_ever_hold_up_no_others(
    cluster: Cluster, devices: Devices, options: list[str], tmp_path: Path
) -> None:
    """Each of them alone might take the time limit, here 2 s; all together take hardly more."""
    config = tmp_path / "config.yaml"
    args = "pluginConfig: [{name: DynamicResources, args: {filterTimeout: 2s}}]"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{schedulerName: my-scheduler, {args}}}]\n"
    )
    add_halves(cluster)
    for number in range(60):
        add_claim(cluster, f"slow-{number}", [{"matchAttribute": f"{DRIVER}/half"}], count=21)
        cluster.add_pod(f"slow-{number}", resourceClaims=uses(f"slow-{number}"))
    with cluster.running_poller(*options, f"--config={config}") as poller:
        poller.says("timed out trying to allocate devices", WITHIN)
        add_claim(cluster, "good")
        cluster.add_pod("good", resourceClaims=uses("good"))
        cluster.add_pod("plain")
        poller.says("default/good is bound to n1", 20)
        poller.says("default/plain is bound to n1", 20)


@WATCHING
def test_a_class_whose_expression_fails_holds_up_no_others(
    cluster: Cluster, devices: Devices, options: list[str]
) -> None:
    devices.add_class("bad", selectors=[{"cel": {"expression": 'device.attributes["x"].y == 1'}}])
    devices.add_devices("n1", 2)
    for number in range(20):
        add_claim(cluster, f"bad-{number}", deviceClassName="bad")
        cluster.add_pod(f"bad-{number}", resourceClaims=uses(f"bad-{number}"))
    with cluster.running_poller(*options) as poller:
        poller.says("class bad: selector #0: CEL runtime error: no such key: y", WITHIN)
        add_claim(cluster, "good")
        cluster.add_pod("good", resourceClaims=uses("good"))
        poller.says("default/good is bound to n1", WITHIN)


@WATCHING
def test_a_pod_does_not_get_the_claim_of_another_that_its_status_names(
    cluster: Cluster, devices: Devices, options: list[str]
) -> None:
    devices.add_devices("n1", 1)
    devices.add_claim("theirs")
    cluster.add_pod("thief", resourceClaims=uses_template("none"))
    status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "theirs"}]}
    cluster.patch("/api/v1/namespaces/default/pods/thief/status", {"status": status})
    with cluster.running_poller(*options) as poller:
        poller.says("ResourceClaim default/theirs was not created for Pod default/thief", WITHIN)
        cluster.add_pod("owner", resourceClaims=uses("theirs"))
        poller.says("default/owner is bound to n1", WITHIN)
    assert devices.users_of("theirs") == ["owner"]


def first(do: Callable[[], object]) -> Effect:
    """Do something right before a request reaches the server."""

    def effect(exchange: Exchange) -> Answer:
        do()
        return exchange.forward()

    return effect


@WATCHING
def test_a_claim_that_is_deleted_between_decision_and_write_is_awaited(
    cluster: Cluster, devices: Devices, options: list[str]
) -> None:
    devices.add_devices("n1", 1)
    devices.add_claim("train")
    cluster.add_pod("web", resourceClaims=uses("train"))
    deleted = Fault("PATCH", "/resourceclaims/train$", first(lambda: cluster.api.delete(f"{CLAIMS}/train")))
    with (
        faulty(cluster.proxy, deleted) as between,
        cluster.running_poller(*options, proxy=between.url) as poller,
    ):
        poller.says("default/web: binding failed", WITHIN)
        devices.add_claim("train")
        poller.says("default/web is bound to n1", WITHIN)
    assert (devices.device_of("train"), devices.users_of("train")) == ("n1/gpu-0", ["web"])


PERMITS = """
from pathlib import Path

from lib.scheduling.status import wait

class Permits:
    def permit(self, state, pod, node_name, waited):
        return None if (Path(__file__).parent / "permitted").exists() else wait("not permitted yet")
"""


@WATCHING
def test_a_claim_that_is_deleted_while_its_pod_waits_is_awaited(
    cluster: Cluster, devices: Devices, options: list[str], tmp_path: Path
) -> None:
    """Its device is free again for another pod."""
    policy = tmp_path / "permits.py"
    policy.write_text(PERMITS)
    devices.add_devices("n1", 1)
    devices.add_claim("train")
    cluster.add_pod("web", resourceClaims=uses("train"))
    with cluster.running_poller(*options, f"--plugin={policy}") as poller:
        poller.says("default/web has n1 held for it: not permitted yet", WITHIN)
        cluster.api.delete(f"{CLAIMS}/train")
        (tmp_path / "permitted").touch()
        poller.says("default/web: binding failed", WITHIN)
        devices.add_claim("other")
        cluster.add_pod("next", resourceClaims=uses("other"))
        poller.says("default/next is bound to n1", WITHIN)
        devices.add_claim("train")
        poller.says(
            "default/web fits nowhere: 0/1 nodes are available: 1 cannot allocate all claims.", WITHIN
        )
    assert devices.users_of("other") == ["next"]


@WATCHING
def test_a_claim_that_loses_its_devices_between_decision_and_write_gets_others(
    cluster: Cluster, devices: Devices, options: list[str]
) -> None:
    """The first pod's claim is shared; when it is taken away the second pod's decision counts no longer."""
    devices.add_devices("n1", 1)
    devices.add_claim("shared")
    cluster.add_pod("one", resourceClaims=uses("shared"))
    cluster.poller()
    cluster.add_pod("two", resourceClaims=uses("shared"))
    freed = Fault("PATCH", "/resourceclaims/shared/status$", first(lambda: devices.free("shared")))
    with (
        faulty(cluster.proxy, freed) as between,
        cluster.running_poller(*options, proxy=between.url) as poller,
    ):
        poller.says("claim default/shared got deallocated elsewhere in the meantime", WITHIN)
        poller.says("default/two is bound to n1", WITHIN)
    assert (devices.device_of("shared"), devices.users_of("shared")) == ("n1/gpu-0", ["two"])


@WATCHING
def test_a_pool_that_is_being_replaced_gives_nothing_until_it_is_complete(
    cluster: Cluster, devices: Devices, options: list[str]
) -> None:
    devices.add_devices("n1", 1)

    def replace(name: str, device: str) -> None:
        pool = {"name": "n1", "generation": 2, "resourceSliceCount": 2}
        spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": [{"name": device}]}
        cluster.post(f"{API}/resourceslices", {"metadata": {"name": name}, "spec": spec})

    replace("new-1", "new-b")
    devices.add_claim("train")
    cluster.add_pod("web", resourceClaims=uses("train"))
    with cluster.running_poller(*options) as poller:
        poller.says("0/1 nodes are available: 1 cannot allocate all claims.", WITHIN)
        replace("new-0", "new-a")
        poller.says("default/web is bound to n1", WITHIN)
    assert devices.device_of("train") == "n1/new-a"
