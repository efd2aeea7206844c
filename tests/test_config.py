"""The configuration file: what is read of it, and what is said of one that is wrong."""

import base64
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from lib.service.config import ConfigError, KubeSchedulerConfiguration, load_config

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
URL = {"urlPrefix": "http://127.0.0.1:1"}
GPU = {"managedResources": [{"name": "example.com/gpu"}]}


def load(folder: Path, **rest: Any) -> KubeSchedulerConfiguration:
    file = folder / "scheduler.yaml"
    file.write_text(yaml.safe_dump({**HEAD, **rest}))
    return load_config(file)


@pytest.mark.parametrize(
    ("written", "seconds"), [(None, 5), ("5s", 5), ("100ms", 0.1), ("1m30s", 90), ("1.5h", 5400)]
)
def test_durations_are_written_as_in_go(tmp_path: Path, written: str | None, seconds: float) -> None:
    (extender,) = load(tmp_path, extenders=[URL | ({"httpTimeout": written} if written else {})]).extenders
    assert extender.http_timeout == seconds


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ({"kind": "Pod"}, "Invalid enum value 'Pod' - at `$.kind`"),
        ({"extenders": [{}]}, "missing required field `urlPrefix` - at `$.extenders[0]`"),
        ({"extenders": [{"urlPrefix": "10.0.0.1:80"}]}, "at `$.extenders[0].urlPrefix`"),
        ({"extenders": [URL, URL | {"verb": "x"}]}, "unknown field `verb` - at `$.extenders[1]`"),
        ({"extenders": [URL | {"httpTimeout": 5}]}, "5 is no Duration, such as 5s - at"),
        ({"extenders": [URL | {"httpTimeout": "5"}]}, "duration 5 - at `$.extenders[0].httpTimeout`"),
        ({"extenders": [URL | {"httpTimeout": "-5s"}]}, "httpTimeout must be more than -5 s - at"),
        ({"extenders": [URL | {"prioritizeVerb": "x"}]}, "must have a positive one - at `$.extenders[0]`"),
        ({"extenders": [URL | {"bindVerb": "x"}] * 2}, "only one may have a bindVerb"),
        ({"extenders": [URL | GPU] * 2}, "example.com/gpu can't be managed twice"),
        ({"extenders": [URL | {"managedResources": [{"name": "cpu"}]}]}, "managedResources[0].name`"),
        ({"extenders": [URL | {"tlsConfig": {"caFile": "/nowhere"}}]}, "tlsConfig can't be used: "),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, rest: Any, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(tmp_path, **rest)
    assert str(error.value).startswith(f"{tmp_path}/scheduler.yaml: ")
    assert words in str(error.value)


@pytest.mark.parametrize("text", [b"", b"[", b"\xff", b"- 1"])
def test_a_file_that_is_no_configuration_is_refused(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_bytes(text)
    with pytest.raises(ConfigError, match=r"scheduler\.yaml: "):
        load_config(file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: No such file"):
        load_config(tmp_path / "nowhere.yaml")


def test_certificates_may_stand_in_the_file(tmp_path: Path) -> None:
    ca = trustme.CA()
    ours = ca.issue_cert("poller")
    chain = b"".join(pem.bytes() for pem in ours.cert_chain_pems)
    data = {"caData": ca.cert_pem.bytes(), "certData": chain, "keyData": ours.private_key_pem.bytes()}
    tls = {name: base64.b64encode(pem).decode() for name, pem in data.items()}
    (extender,) = load(tmp_path, extenders=[URL | {"tlsConfig": tls}]).extenders
    (trusted,) = extender.ssl_context().get_ca_certs()
    assert trusted["serialNumber"]
