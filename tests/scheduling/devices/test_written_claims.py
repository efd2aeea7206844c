"""What is known of a claim that poller has written, when other news of it comes earlier or never."""

import threading

import pytest
from scheduling.devices.test_given_twice import claim_with

from lib.kube.api import Api
from lib.kube.claims import PolledClaims
from lib.kube.decoding import Listing
from lib.kube.devices import ResourceClaim
from lib.kube.resources import DEVICES, RESOURCE_CLAIMS
from lib.scheduling.cache import Cache


def claim(version: str, device: str = "d0") -> ResourceClaim:
    found = claim_with(device)
    found.metadata.resource_version = version
    return found


def taken(cache: Cache) -> list[str]:
    return sorted(each.device for each in cache.devices.taken.devices)


@pytest.mark.parametrize(
    ("listed", "left"),
    [
        pytest.param(Listing[ResourceClaim](resource_version="9"), ["d0"], id="a list from before"),
        pytest.param(Listing[ResourceClaim](resource_version="11"), [], id="a later list"),
        pytest.param(Listing([claim("12", "d1")], resource_version="12"), ["d1"], id="it has changed"),
    ],
)
def test_a_claim_that_was_made_is_gone_if_a_later_list_is_without_it(
    listed: Listing[ResourceClaim], left: list[str]
) -> None:
    cache = Cache()
    with Api("http://127.0.0.1:1", threading.Event()) as api:
        polled = PolledClaims(api, (), DEVICES)
    polled.unlisted = cache.unlisted_claims
    cache.devices.written(claim("10"), reserved_as="made")
    for change in [*polled.changes({RESOURCE_CLAIMS.path: listed})]:
        cache.apply(cache.with_own_writes(change))
    assert taken(cache) == left
    assert bool(cache.unlisted_claims) == (left == ["d0"])


def test_the_late_answer_of_a_release_brings_back_no_claim_that_is_gone() -> None:
    cache = Cache()
    cache.devices.put(claim("10"))
    cache.devices.delete(claim("12"))
    cache.devices.written(claim("11"), reserved_as="")
    assert cache.devices.claim("default", "theirs") is None
    assert taken(cache) == []


@pytest.mark.parametrize("reserved_as", ["", "theirs"])
def test_a_late_answer_hides_no_newer_version(reserved_as: str) -> None:
    cache = Cache()
    cache.devices.put(claim("10"))
    reserved = claim("10").status.allocation
    assert reserved
    cache.devices.reserve("theirs", reserved)
    cache.devices.put(claim("12", "d1"))
    cache.devices.written(claim("11"), reserved_as)
    assert taken(cache) == (["d1"] if reserved_as else ["d0", "d1"])
    known = cache.devices.claim("default", "theirs")
    assert known
    assert known.metadata.resource_version == "12"
