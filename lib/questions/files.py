"""Snapshots as files: those that `save` writes, and what kubectl prints of a cluster."""

import codecs
import gzip
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec
from yaml import YAMLError

from lib.kube.bounded_files import MAX_JSON, TooMuchError, read_at_most, unpacked
from lib.kube.decoding import called
from lib.kube.devices import ResourceClaim
from lib.kube.escaping import json_escaped
from lib.kube.kubernetes_yaml import MAX_DEPTH, load_documents, text_of
from lib.kube.objects import KUBERNETES, UNREADABLE, Event, Object, ObjectMeta, Pod, PodGroup, decode_hook
from lib.kube.quantity import Quantity
from lib.kube.resources import GANGS, POD_GROUPS
from lib.kube.storage import PersistentVolumeClaim
from lib.questions.errors import QuestionError, file_errors
from lib.questions.manifest_files import expanded
from lib.questions.snapshot import FOR_DEVICES, RESOURCES, Snapshot

KINDS: dict[str, type[Object]] = {
    **{resource.kind.__name__: resource.kind for resource in RESOURCES},
    "Event": Event,
}

_API_VERSIONS = {resource.kind.__name__: resource.api_version for resource in RESOURCES}

_GROUPS = {(resource.kind.__name__, resource.group) for resource in RESOURCES} | {
    ("Event", ""),
    ("Event", "events.k8s.io"),
}

KEPT_ANNOTATIONS = (
    "poller/",
    "pv.kubernetes.io/",
    "volume.kubernetes.io/",
    "volume.beta.kubernetes.io/",
    "storage.alpha.kubernetes.io/",
    "storageclass.kubernetes.io/",
    "resource.kubernetes.io/",
)
"""Only annotations that begin like this are saved; others may hold anything."""


def is_of_kubernetes(kind: str, api_version: object) -> bool:
    """Whether a kind is the one that decisions depend on: Longhorn has Nodes, too."""
    group, slash, _ = str(api_version or "").rpartition("/")
    return not api_version or (kind, group if slash else "") in _GROUPS


class _Kind(Object):
    kind: str = ""
    api_version: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class _Head(_Kind):
    items: list[msgspec.Raw] | None = None


_head = msgspec.json.Decoder(_Head, dec_hook=decode_hook)
_kind = msgspec.json.Decoder(_Kind, dec_hook=decode_hook)
DECODERS = {name: msgspec.json.Decoder(kind, dec_hook=decode_hook) for name, kind in KINDS.items()}


_LOGS = re.compile(rb"^==== START logs for .*?^==== END logs for [^\n]*\n", re.MULTILINE | re.DOTALL)
"""What `kubectl cluster-info dump` prints between its lists."""

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)


def read_files(files: Sequence[Path]) -> Snapshot:
    """Read a snapshot from files or folders, gzipped or not; "-" is standard input.

    They hold objects and lists, as kubectl prints them in JSON or YAML, also one after another. Kinds that
    decisions don't need are skipped. QuestionError when a file can't be read, or none of them has a node.
    """
    snapshot = Snapshot()
    for file in map(Path, expanded([*map(str, files)], (), recursive=True)):
        try:
            with file_errors(f"--from {file}"):
                for value in _values(unpacked(read_at_most(file, MAX_JSON))):
                    _read(snapshot, value, file)
        except (*UNREADABLE, YAMLError) as error:
            raise QuestionError(
                f"--from {file}: is not JSON or YAML of Kubernetes objects ({error}); "
                "save writes one, and so does kubectl get nodes,pods -A -o json"
            ) from error
    if not any(items for items in snapshot.objects.values()):
        why = "".join(f"; {note}" for note in snapshot.notes[:1])
        raise QuestionError(f"--from {' '.join(map(str, files))}: holds no nodes and no pods{why}")
    if PersistentVolumeClaim not in snapshot.objects:
        snapshot.forbidden.add(PersistentVolumeClaim)  # the file has none, but the cluster may have some
    if not any(resource.kind in snapshot.objects for need in FOR_DEVICES for resource in need.resources):
        snapshot.forbidden.add(ResourceClaim)
    return snapshot


def _values(body: bytes) -> Iterator[bytes]:
    """The objects and lists in a file, as JSON."""
    if body.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        body = text_of(body).encode()
    if not re.match(rb"\s*[{\[]", body):
        yield from map(msgspec.json.encode, load_documents(_LOGS.sub(b"", body)))
        return
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except msgspec.DecodeError:
        values = _one_after_another(_LOGS.sub(b"", body))
        first = next(values, b"")
        if first == body.strip():
            raise
        yield first
        yield from values
    else:
        yield body


def _one_after_another(body: bytes) -> Iterator[bytes]:
    """The JSON values in a text that has several. What stands between them is one, too: it isn't decoded."""
    depth = end = start = 0
    for token in _TOKEN.finditer(body):
        opens, closes = token[0] in b"[{", token[0] in b"]}"
        if opens and not depth:
            start = token.start()
            yield from filter(None, [body[end:start].strip()])
        depth += opens - closes
        if depth > MAX_DEPTH:
            raise TooMuchError(f"is nested deeper than {MAX_DEPTH} levels")
        if closes and not depth:
            end = token.end()
            yield body[start:end]
    yield from filter(None, [body[end:].strip()])


def _read(snapshot: Snapshot, body: bytes, file: Path) -> None:
    if body.lstrip().startswith(b"["):
        body = b'{"items": %b}' % body
    head = _head.decode(body)
    if head.items is None:
        if is_of_kubernetes(head.kind, head.api_version):
            _add(snapshot, head.kind, msgspec.Raw(body), file)
        return
    of_list = head.kind.removesuffix("List")
    for raw in head.items:
        its = head if of_list else _kind.decode(raw)
        kind = of_list or its.kind
        if is_of_kubernetes(kind, its.api_version):
            _add(snapshot, kind, raw, file)


def _add(snapshot: Snapshot, kind: str, raw: msgspec.Raw, file: Path) -> None:
    decoder = DECODERS.get(kind)
    if decoder is None:
        return
    try:
        read = decoder.decode(raw)
    except UNREADABLE as error:
        name = called(_kind.decode(raw).metadata)
        snapshot.note(f"{file}: {kind} {name} can't be read and is left out: {error}")
        return
    if isinstance(read, Pod) and read.has_finished:
        snapshot.finished.append(read)
        return
    snapshot.of(KINDS[kind]).append(read)


# --- writing ----------------------------------------------------------------------------------------------


def save(snapshot: Snapshot, file: Path) -> str:
    """Write a snapshot into a file, gzipped if its name ends in .gz. Returns a summary in words.

    The file is complete, or isn't written at all. QuestionError when it can't be written.
    """
    with file_errors(file):
        if str(file) == "-":
            return write_file(snapshot, sys.stdout.buffer)
        part = file.with_name(f"{file.name}.part")
        with gzip.open(part, "wb") if file.suffix == ".gz" else part.open("wb") as out:
            held = write_file(snapshot, out)
        part.replace(file)
    return held


def write_file(snapshot: Snapshot, out: gzip.GzipFile | IO[bytes]) -> str:
    """Write a snapshot as a List, one object per line. Returns a summary in words.

    It has only what decisions need: no environment, no commands, no secrets' names, few annotations.
    """
    out.write(b'{"kind": "List", "apiVersion": "v1", "items": [\n')
    first = True
    counts = []
    for kind in snapshot.objects:
        for item in snapshot.of(kind):
            out.write(b"" if first else b",\n")
            out.write(json_escaped(msgspec.json.encode(slim(item)).decode()).encode())
            first = False
        if many := len(snapshot.of(kind)):
            counts.append(f"{many:,} {kind.__name__}")
    out.write(b"\n]}\n")
    return ", ".join(counts)


def slim(item: Object) -> dict[str, Any]:
    """An object as JSON, with what decisions need."""
    plain = msgspec.to_builtins(item, enc_hook=_plain)
    body: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(plain))  # with lists for tuples
    annotations = body.get("metadata", {}).pop("annotations", {})
    if kept := {key: value for key, value in annotations.items() if key.startswith(KEPT_ANNOTATIONS)}:
        body["metadata"]["annotations"] = kept
    kind = body.pop("kind")
    version = _API_VERSIONS.get(kind, "v1")
    if isinstance(item, PodGroup):
        version = (GANGS if item.ref.api == KUBERNETES else POD_GROUPS).api_version
    return {"kind": kind, "apiVersion": version, **body}


def _plain(value: object) -> str:
    if isinstance(value, Quantity):
        return quantity_text(value)
    if isinstance(value, msgspec.Raw):  # the parameters of a device's driver: they may hold anything
        return ""
    raise NotImplementedError(type(value))


def quantity_text(value: int) -> str:
    """A quantity (in billionths) as the API writes it, exactly."""
    for suffix, size in (("", 10**9), ("m", 10**6), ("u", 10**3)):
        if value % size == 0:
            return f"{value // size}{suffix}"
    return f"{value}n"
