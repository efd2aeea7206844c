"""NodePorts: a host port can be taken once on a node, for each protocol and address; 0.0.0.0 takes them all.

Sidecars count, as they run beside the containers; other init containers don't, as they are gone by then.

Figures as in nodeports/node_ports_test.go.
"""

from typing import Any

import pytest
from objects import node, pod
from plugin_harness import any_name, reasons

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.plugins.node_ports import NodePorts
from lib.scheduling.status import SKIP

TAKEN = {"n1": ["node(s) didn't have free ports for the requested pod ports"]}


def ports(text: str) -> list[dict[str, Any]]:
    """Ports from `TCP/127.0.0.1/8080`; without an address, `TCP//8080`; without a protocol, `//8080`."""
    found = []
    for each in text.split():
        protocol, address, port = each.split("/")
        named = {"protocol": protocol, "hostIP": address}
        found.append({"hostPort": int(port)} | {key: value for key, value in named.items() if value})
    return found


def wanting(text: str) -> Pod:
    return pod(any_name(), containers=[{"ports": ports(text)}])


def asked(asking: Pod, *others: Pod) -> dict[str, list[str]]:
    cluster = Cache([node("n1")], [])
    for other in others:
        cluster.assume(other, "n1")
    return reasons(NodePorts(), asking, cluster)


@pytest.mark.parametrize(
    ("wanted", "used", "expected"),
    [
        ("", "TCP/127.0.0.1/8080", {}),
        ("UDP/127.0.0.1/8080", "UDP/127.0.0.1/9090", {}),
        ("UDP/127.0.0.1/8080", "UDP/127.0.0.1/8080", TAKEN),
        ("TCP/127.0.0.1/8080", "TCP/127.0.0.1/8080", TAKEN),
        ("TCP/127.0.0.1/8080", "TCP/127.0.0.2/8080", {}),  # another address
        ("UDP/127.0.0.1/8080", "TCP/127.0.0.1/8080", {}),  # another protocol
        ("SCTP//8080", "TCP//8080", {}),
        ("UDP/127.0.0.1/8000 UDP/127.0.0.1/8080", "UDP/127.0.0.1/8080", TAKEN),  # one of two
        ("TCP/127.0.0.1/8001 UDP/127.0.0.1/8080", "TCP/127.0.0.1/8001 UDP/127.0.0.1/8081", TAKEN),
        # 0.0.0.0 is all addresses, whoever has it.
        ("TCP/0.0.0.0/8001", "TCP/127.0.0.1/8001", TAKEN),
        ("TCP/127.0.0.1/8001", "TCP/0.0.0.0/8001", TAKEN),
        ("TCP/10.0.10.10/8001 TCP/0.0.0.0/8001", "TCP/127.0.0.1/8001", TAKEN),
        ("UDP/127.0.0.1/8001", "TCP/0.0.0.0/8001", {}),
        # Without an address it is 0.0.0.0, without a protocol TCP.
        ("//8001", "TCP/127.0.0.1/8001", TAKEN),
        ("TCP/127.0.0.1/8001", "//8001", TAKEN),
        ("//0", "//0", {}),  # no host port
    ],
)
def test_a_host_port_is_taken_once(wanted: str, used: str, expected: dict[str, list[str]]) -> None:
    assert asked(wanting(wanted), wanting(used)) == expected


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("init_container", "expected"),
    [({}, {}), ({"restartPolicy": "OnFailure"}, {}), (SIDECAR, TAKEN)],
)
def test_sidecars_ports_count_and_other_init_containers_do_not(
    init_container: dict[str, str], expected: dict[str, list[str]]
) -> None:
    starting = pod(
        any_name(), containers=[{}], initContainers=[{"ports": ports("TCP//8001"), **init_container}]
    )
    assert asked(starting, wanting("TCP//8001")) == expected
    assert asked(wanting("TCP//8001"), starting) == expected


def test_a_port_is_free_when_its_pod_is_gone() -> None:
    cluster, first, second = Cache([node("n1")], []), wanting("TCP//8001"), wanting("TCP//8001")
    cluster.assume(first, "n1")
    cluster.assume(second, "n1")  # there is no filter here
    cluster.nodes["n1"].remove(first)
    assert reasons(NodePorts(), wanting("TCP//8001"), cluster) == TAKEN
    cluster.nodes["n1"].remove(second)
    assert reasons(NodePorts(), wanting("TCP//8001"), cluster) == {}


@pytest.mark.parametrize(("wanted", "expected"), [("", SKIP), ("//0", SKIP), ("//80", None)])
def test_a_pod_without_host_ports_is_not_filtered(wanted: str, expected: Any) -> None:
    assert NodePorts().pre_filter({}, wanting(wanted), Cache([], [])) == expected
