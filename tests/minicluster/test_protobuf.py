"""The protobuf bodies that kubectl sends, and the server's own protobuf messages."""

import pytest

from scripts.minicluster.errors import ApiError
from scripts.minicluster.protobuf import MAGIC, decode


def field(number: int, content: bytes | str) -> bytes:
    data = content.encode() if isinstance(content, str) else content
    size, rest = len(data) & 0x7F, len(data) >> 7
    return bytes([number << 3 | 2]) + (bytes([size | 0x80, rest]) if rest else bytes([size])) + data


def sent(kind: str, raw: bytes, version: str = "v1") -> bytes:
    return MAGIC + field(1, field(1, version) + field(2, kind)) + field(2, raw)


@pytest.mark.parametrize("length", [1, 126, 127, 128, 300])
def test_names_of_all_lengths(length: int) -> None:
    name = "n" * length
    decoded = decode(sent("Namespace", field(1, field(1, name))))
    assert decoded == {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def test_fields_that_are_empty_are_not_there() -> None:
    empty_status = field(3, field(1, ""))
    decoded = decode(sent("Namespace", field(1, field(1, "team") + field(2, "")) + empty_status))
    assert decoded["metadata"] == {"name": "team"}
    assert "status" not in decoded


def test_maps_and_bytes() -> None:
    entry = field(1, "key") + field(2, "value")
    assert decode(sent("ConfigMap", field(2, entry)))["data"] == {"key": "value"}
    assert decode(sent("Secret", field(2, entry)))["data"] == {"key": "dmFsdWU="}


def test_a_number_or_a_percentage() -> None:
    number, percentage = b"\x10\x02", b"\x08\x01" + field(3, "50%")
    for raw, value in ((number, 2), (percentage, "50%")):
        budget = sent("PodDisruptionBudget", field(2, field(1, raw)), "policy/v1")
        assert decode(budget)["spec"] == {"minAvailable": value}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (sent("Unheard", b""), 415),
        (sent("Namespace", field(1, field(9, "a field that isn't in the table"))), 415),
        (b"not protobuf", 400),
        (sent("Namespace", field(1, "n" * 20)[:-5]), 400),
    ],
)
def test_what_cannot_be_decoded_is_refused(body: bytes, code: int) -> None:
    with pytest.raises(ApiError) as raised:
        decode(body)
    assert raised.value.code == code
