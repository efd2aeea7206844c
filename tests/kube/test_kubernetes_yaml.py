"""YAML is read as the real kubectl reads it, and a configuration as kube-scheduler does."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
import yaml

from lib.kube.bounded_files import MAX_YAML, TooMuchError
from lib.kube.kubernetes_yaml import load_documents, load_strictly
from scripts.servers.kubectl import KUBECTL

HEAD = "kind: X\napiVersion: v1\np: &p {a: 1}\n"

WORDS = """
    = 1e+06 30.0 1e-3 1234e5 08 0080 010 0o644 0O7 0x1F -0b11 0b-1 +.5 1_000 _1 1__ - + . 1. .5_0 ._5 1e
    y Y n on Off No yES ~ Null .NaN .inf -.INF 1:30 2026-01-01 1e999 .1e999 -0.0 0x http://x?y=z @a %a << *q
    9223372036854775807 9223372036854775808 -9223372036854775809 18446744073709551616 1e21
"""
KNOWN = [
    *WORDS.split(),
    *('!!bool "true"', '!!int "5"', "!!int 3.0", "!!float 3", "!!str 3", "!!null x", "!vault x", "! 1"),
    *("!!binary aGk=", "!!binary aGk", "!!timestamp 2026-1-1", "!!timestamp x", "!!int 2026-01-01", '"1"'),
    *("!!set x", "!!merge x", "{1: a}", "{1.5: a, 1e6: b, 0.00001: c, 1e300: d}", "{y: a, ~: b}", "{~: b}"),
    *("{true: a, .inf: b}", "{[1]: a}", "{a: 2, <<: *p}", "{<<: *p, a: 2}", '{"<<": *p}', "{!!merge x: *p}"),
    *("{<<: [*p, {a: 3, b: 4}]}", "{<<: 1}", "{a: 1, a: 2}", "&r [*r]", "[http://x?y=z]", "[a, b,]"),
    *("{a, b}", "|\n  a\n  b", '"\\ud800"', "\ta", "a: b: c", "[", "'é'", "9" * 400),
]
"""Where other readers of YAML differ from Kubernetes' own, or could."""

PIECES = """
    0 1 7 8 9 00 0x 0o 0b _ + - . e E 1e inf nan y N yes On off TRUE ~ null = << 1:30 2026-01-01 5 f ? # é
    12345678901234567890 9223372036854775808 123456789 0.1
"""


def documents(random: Random, number: int) -> Iterator[str]:
    """Random scalars, as values, keys and items.

    None ends with a colon: before a comma that is text to kubectl, and an error of libyaml.
    """
    for _ in range(number):
        text = "".join(random.choices(PIECES.split(), k=random.randint(1, 3)))
        text = random.choice(["", "", "", "", "!!int ", "!!float ", "!!bool ", "!x "]) + text
        yield HEAD + random.choice(["d: {}", "d: {{{}: 1}}", "d: [{}, *p]", "d:\n  {}: 1", "d: '{}'"]).format(
            text
        )


def read_by_kubectl(folder: Path) -> dict[str, object]:
    """What kubectl reads, by file; files that it refuses are missing."""
    command = [KUBECTL, "label", "--local", "--dry-run=client", "-f", str(folder), "-o", "json", "zz=1"]
    out = subprocess.run(command, capture_output=True, text=True).stdout
    found, at = {}, 0
    while at < len(out):
        value, end = json.JSONDecoder().raw_decode(out, at)
        at = end + 1
        found[value.pop("metadata")["name"]] = value
    return found


def test_yaml_is_read_as_kubectl_reads_it(tmp_path: Path) -> None:
    texts = [*(f"{HEAD}d: {text}" for text in KNOWN), *documents(Random(1), 300)]
    for i, text in enumerate(texts):
        (tmp_path / f"{i}.yaml").write_text(f"{text}\nmetadata: {{name: '{i}'}}\n")
    by_kubectl = read_by_kubectl(tmp_path)
    assert len(by_kubectl) > len(texts) / 2
    for i, text in enumerate(texts):
        try:
            (own,) = load_documents((tmp_path / f"{i}.yaml").read_bytes())
            del own["metadata"]
        except (yaml.YAMLError, TooMuchError):
            own = None
        assert json.dumps(own, sort_keys=True) == json.dumps(by_kubectl.get(str(i)), sort_keys=True), text


@pytest.mark.parametrize(
    ("body", "values"),
    [
        (b"a: 1\n---\n# nothing\n---\n--- # b\nb: 1\n...\nc: 1\n", [{"a": 1}, {"b": 1}]),
        (b"a: &x 1\nb: *x\n---\nc: &x 2\nd: *x", [{"a": 1, "b": 1}, {"c": 2, "d": 2}]),
        (b'{"a": 1.0} {"b": "\\ud800"}\n{"c": 1}', [{"a": 1}, {"b": "\ufffd"}, {"c": 1}]),
        (b'{"a": 1}\n---\nb: 1\n', [{"a": 1}, {"b": 1}]),
        (b"{a: 1}\n---\r\nb: 1\r\n", [{"a": 1}, {"b": 1}]),
        (b"\xef\xbb\xbfa: 1", [{"a": 1}]),
        ("a: é".encode("utf-16"), [{"a": "é"}]),
        (b"a: '\xfc'", [{"a": "\ufffd"}]),
        (b"", []),
        (b"a: &x 1\n---\nb: *x", "line 3, column 4: unknown anchor 'x' referenced"),
        (b"a: 1\n---\nb: [\n", "line 4, column 1: did not find expected node content"),
        (b"a: 1\n--- b", "invalid Yaml document separator: b"),
        (b"%YAML 1.1\n---\na: 1\n", "line 2, column 1: did not find expected <document start>"),
        (b"a: \x01", "control characters are not allowed"),
        (b'{"a": ' * 5000, "is nested deeper than 200 levels"),
        (b" " * (MAX_YAML + 1), "is larger than 16 MiB"),
        (b'{"a": NaN}', [{"a": "NaN"}]),  # no JSON, so it is YAML
        (b'a: ["x?y", z]\nb: x?y', [{"a": ["x?y", "z"], "b": "x?y"}]),
        (b"a: [x?y]", "line 1, column 5: ? ends a text in [] or {}; put it into quotes"),
        (b'{"a": 1} {"b": 2} {"c"', "Expecting ':' delimiter"),
        (b'{"a": ' * 201 + b"1" + b"}" * 201, "is nested deeper than 200 levels"),
        (b"a: " + b"[" * 201 + b"]" * 201, "line 1, column 204: is nested deeper than 200 levels"),
        (
            b"a: &a [" + b"x, " * 5000 + b"]\nb: &b [" + b"*a, " * 60 + b"]\nc: [" + b"*b, " * 60 + b"]",
            "with its aliases written out it is larger than 16 MiB",
        ),
    ],
)
def test_the_documents_of_a_file(body: bytes, values: list[object] | str) -> None:
    if isinstance(values, list):
        assert list(load_documents(body)) == values
    else:
        with pytest.raises((yaml.YAMLError, TooMuchError), match=re.escape(values)):
            list(load_documents(body))


def test_a_configuration_for_another_version_of_yaml_is_refused() -> None:
    assert load_strictly(b"%YAML 1.1\n---\na: 1\n") == ({"a": 1}, [])
    with pytest.raises(yaml.YAMLError, match="found incompatible YAML document"):
        load_strictly(b"%YAML 1.2\n---\na: 1\n")


def test_a_configuration_is_the_first_document_and_names_what_is_given_twice() -> None:
    text = b"a: 1\nb: &b {c: 1}\nd: {<<: *b, c: 2}\na: 2\n---\n"
    twice = ["line 3, column 13: c is given twice", "line 4, column 1: a is given twice"]
    assert load_strictly(text) == ({"a": 2, "b": {"c": 1}, "d": {"c": 2}}, twice)
