"""Which requests come from a client that calls this machine by a name that no web page has."""

import pytest

from lib.service.telemetry.bounded_server import HttpRequest, is_asked_by_loopback


@pytest.mark.parametrize(
    ("hosts", "port", "is_own"),
    [
        (["127.0.0.1:8001"], None, True),
        (["127.0.0.1:8001"], 8001, True),
        (["127.0.0.1:8001"], 8002, False),
        (["127.0.0.1"], 8001, False),
        (["127.0.0.1"], None, True),
        (["127.255.0.7"], None, True),
        (["LocalHost:8001"], 8001, True),
        (["[::1]:8001"], 8001, True),
        (["::1"], None, False),
        (["10.0.0.1:8001"], None, False),
        (["evil.example:8001"], 8001, False),
        (["127.0.0.1.evil.example:8001"], 8001, False),
        (["localhost.evil.example"], None, False),
        ([""], None, False),
        ([], None, False),
        (["127.0.0.1:8001", "evil.example"], 8001, False),
    ],
)
def test_a_web_page_of_another_name_is_not_this_machine(
    hosts: list[str], port: int | None, is_own: bool
) -> None:
    """Its DNS server may have led that name here."""
    request = HttpRequest("GET", "/", "", [("Host", host) for host in hosts], "127.0.0.1")
    assert is_asked_by_loopback(request, port) == is_own
