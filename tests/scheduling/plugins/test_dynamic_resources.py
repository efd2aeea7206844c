"""DynamicResources, where devices are not known. How they are given: tests/scheduling/devices."""

import pytest
from objects import node, pod, read

from lib.kube.devices import DeviceClass
from lib.scheduling.cache import Cache
from lib.scheduling.looked_up import LookedUp
from lib.scheduling.plugins.dynamic_resources import DynamicResources
from lib.scheduling.status import SKIP, PluginError

USES = [{"name": "gpu", "resourceClaimName": "train"}]


@pytest.mark.parametrize(
    "needs", [{"resourceClaims": USES}, {"requests": {"example.com/gpu": "1"}}], ids=["claim", "resource"]
)
def test_no_devices_are_given_while_it_cannot_be_read_who_has_them(needs: dict[str, object]) -> None:
    cluster = Cache([node()], looked_up=LookedUp(devices_unseen="devices can't be read: 403"))
    spec = {"extendedResourceName": "example.com/gpu"}
    cluster.devices.put(read(DeviceClass, {"metadata": {"name": "gpu"}, "spec": spec}))
    with pytest.raises(PluginError, match="devices can't be read: 403"):
        DynamicResources().pre_filter({}, pod(**needs), cluster)
    assert DynamicResources().pre_filter({}, pod(requests={"cpu": "1"}), cluster) == SKIP
