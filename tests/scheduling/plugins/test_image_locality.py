"""ImageLocality: a node scores by the pod's images that it has.

An image counts by its size, times the share of nodes that have it. The sum scores 0 up to 23 MB and 100 from
1000 MB for each container, between that in proportion. A name without a tag means `:latest`.

Figures as in imagelocality/image_locality_test.go.
"""

from typing import Any

import pytest
from objects import pod, read
from plugin_harness import raw_scores

from lib.kube.objects import Node
from lib.scheduling.cache import Cache
from lib.scheduling.plugins.image_locality import ImageLocality, normalized

MB = 1024 * 1024


def node_with(name: str, *sizes: int) -> Node:
    """A node with an image of each size, called after it: images.example/40:latest has 40 MB."""
    images = [{"names": [f"images.example/{size}:latest"], "sizeBytes": size * MB} for size in sizes]
    made: Node = read(Node, {"metadata": {"name": name}, "status": {"images": images}})
    return made


def images(*sizes: int) -> list[dict[str, str]]:
    return [{"image": f"images.example/{size}"} for size in sizes]


@pytest.mark.parametrize(
    ("spec", "nodes", "expected"),
    [
        # 40 / 2 is less than 23; (250 / 2 - 23) / (2 x 1000 - 23).
        ({"containers": images(40, 250)}, {"a": [40, 300, 2000], "b": [250, 10]}, {"a": 0, "b": 5}),
        ({"containers": images(40, 300)}, {"a": [40, 300, 2000], "b": [250, 10]}, {"a": 7, "b": 0}),
        # 4000 / 2 reaches the most, 10 / 2 not the least.
        ({"containers": images(10, 4000)}, {"a": [4000, 30], "b": [250, 10]}, {"a": 100, "b": 0}),
        # Another node without it makes it count less: 4000 / 3.
        (
            {"containers": images(10, 4000)},
            {"a": [4000, 30], "b": [250, 10], "c": []},
            {"a": 66, "b": 0, "c": 0},
        ),
        # What two of three nodes have counts twice as much as what one has.
        (
            {"containers": images(300, 600, 900)},
            {"a": [600, 40, 900], "b": [300, 600, 900], "c": []},
            {"a": 32, "b": 36, "c": 0},
        ),
        ({"containers": images(30, 40)}, {"a": [20, 30, 40], "b": [4000, 30]}, {"a": 1, "b": 0}),
        # An image volume counts, but isn't a container: (300 / 2 - 23) / (1000 - 23), not 2000 - 23 …
        (
            {"containers": images(30), "volumes": [{"image": {"reference": "images.example/300"}}, {}]},
            {"a": [300, 600, 900], "b": [4000, 30]},
            {"a": 12, "b": 0},
        ),
        # … and an init container is one.
        (
            {"containers": images(30), "initContainers": images(300)},
            {"a": [40, 300, 2000], "b": [20, 30, 40]},
            {"a": 6, "b": 0},
        ),
        # An image that two containers run counts twice, as their limit does: (2 x 500 - 23) / (2000 - 23).
        ({"containers": images(500, 500)}, {"a": [500]}, {"a": 49}),
        ({"containers": images(500)}, {"a": [500]}, {"a": 48}),
    ],
)
def test_images_count_by_their_size_and_spread(
    spec: Any, nodes: dict[str, list[int]], expected: dict[str, int]
) -> None:
    cluster = Cache([node_with(name, *sizes) for name, sizes in nodes.items()], [])
    assert raw_scores(ImageLocality(), pod(**spec), cluster) == expected


DIGEST = "root@sha256:" + "4" * 64


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("root", "root:latest"),
        ("root:tag", "root:tag"),
        ("images.example:5000/root", "images.example:5000/root:latest"),  # a port is no tag
        ("images.example:5000/root:tag", "images.example:5000/root:tag"),
        (DIGEST, DIGEST),
    ],
)
def test_a_name_without_a_tag_means_latest(name: str, meant: str) -> None:
    assert normalized(name) == meant
    found = {"names": [DIGEST if "@" in name else "x", meant], "sizeBytes": 1000 * MB}
    one: Node = read(Node, {"metadata": {"name": "a"}, "status": {"images": [found]}})
    assert raw_scores(ImageLocality(), pod(containers=[{"image": name}]), Cache([one], [])) == {"a": 100}


@pytest.mark.parametrize(
    "image", ["images.example/1000:v2", "1000", "other.example/1000", "", "images.example/1000@sha256:1"]
)
def test_another_name_is_another_image(image: str) -> None:
    cluster = Cache([node_with("a", 1000)], [])
    assert raw_scores(ImageLocality(), pod(containers=[{"image": image}]), cluster) == {"a": 0}


def test_images_without_names_are_passed_over() -> None:
    nameless: Node = read(
        Node, {"metadata": {"name": "a"}, "status": {"images": [{"names": None, "sizeBytes": 5000 * MB}]}}
    )
    assert raw_scores(ImageLocality(), pod(containers=images(40)), Cache([nameless], [])) == {"a": 0}
