"""Reads YAML and JSON as Kubernetes does: kubectl its manifests, kube-scheduler its configuration.

`y`, `on` and `No` are booleans, 08 and 1e+06 are whole numbers, 1:30 is text, each key is text, and a merged
mapping counts where it stands. Nobody knows who wrote a file, so its size and its depth are bounded: with
aliases of aliases, 500 bytes can stand for billions of values, and deep nesting overflows the parser's stack.

Sources: yaml.go of sigs.k8s.io/yaml; resolve.go and decode.go of go.yaml.in/yaml/v2; decoder.go in
apimachinery/pkg/util/yaml; visitor.go in cli-runtime/pkg/resource
"""

import binascii
import codecs
import json
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import chain
from math import inf, isfinite, isinf, isnan, nan
from struct import pack, unpack
from typing import Any, NoReturn

import yaml

from lib.kube.bounded_files import MAX_YAML, MIB, TooMuchError

MAX_DEPTH = 200
"""The deepest nesting. A pod's fields are up to 20 deep."""

_TAG = "tag:yaml.org,2002:"

_RESOLVED = {_TAG + name for name in ("str", "bool", "int", "float", "null", "timestamp")}
"""A value with any other tag is text."""


def _spellings(words: str) -> set[str]:
    return {spelt for word in words.split() for spelt in (word, word.capitalize(), word.upper())}


_WORDS: Mapping[str, tuple[str, Any]] = {
    **dict.fromkeys(_spellings("y yes true on"), ("bool", True)),
    **dict.fromkeys(_spellings("n no false off"), ("bool", False)),
    **dict.fromkeys(("", "~", *_spellings("null")), ("null", None)),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), ("float", nan)),
    **{sign + word: ("float", inf) for word in (".inf", ".Inf", ".INF") for sign in ("", "+")},
    **{f"-{word}": ("float", -inf) for word in (".inf", ".Inf", ".INF")},
}

_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_BASES = (16, 2, 8, 10)
_SIGNED_BINARY = re.compile(r"0b([-+][01]+)")  # as resolve.go takes it
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_TIMESTAMP = re.compile(r"\d{4}-\d\d?-\d\d?([Tt ]\d\d?:\d\d?:\d\d?(\.\d+)?(Z|[-+]\d\d:\d\d)?)?", re.ASCII)
_SEPARATOR = re.compile(r"^---(.*)\n?", re.MULTILINE)
_SPACE = re.compile(r"\s*")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the fast one, if it is there


def text_of(body: bytes) -> str:
    """The text of a file in UTF-8, or in UTF-16 with a byte order mark; what is neither is replaced."""
    is_wide = body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return body.decode("utf-16" if is_wide else "utf-8-sig", "replace").replace("\r\n", "\n")


def load_documents(body: bytes) -> Iterator[Any]:
    """The documents of a file as kubectl reads them: JSON values one after another, or YAML.

    yaml.YAMLError, with line and column, when it is malformed; TooMuchError.
    """
    text = text_of(body)
    at = count = 0
    if text.lstrip().startswith("{"):
        while (at := _after_space(text, at)) < len(text):
            try:
                value, at = json_value(text, at)
            except ValueError as error:
                if count > 1:
                    raise yaml.YAMLError(str(error)) from error
                break  # it may be YAML, in braces or after one value
            yield value
            count += 1
        else:
            return
    for lines_before, document in _split(text, at):
        value, _ = _build(document, lines_before)
        if value is not None:
            yield value


def load_strictly(body: bytes) -> tuple[Any, list[str]]:
    """The first document of a file, and the fields that are given twice, with line and column.

    yaml.YAMLError when it is malformed; TooMuchError.
    """
    return _build(text_of(body), 0)


# --- JSON -------------------------------------------------------------------------------------------------


def json_value(text: str, at: int = 0) -> tuple[Any, int]:
    """The value that begins there, and where it ends. ValueError when it is malformed; TooMuchError."""
    try:
        value, end = _JSON.raw_decode(text, at)
    except RecursionError as error:
        raise TooMuchError(f"is nested deeper than {MAX_DEPTH} levels") from error
    return _plain(value, 0), end


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


_JSON = json.JSONDecoder(
    parse_float=lambda text: _number(float(text)),
    parse_int=lambda text: _number(int(text)),
    parse_constant=_refused,
)


def _plain(value: Any, depth: int) -> Any:
    """A JSON value whose text can be written as UTF-8."""
    if depth > MAX_DEPTH:
        raise TooMuchError(f"is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        return {_plain(key, depth): _plain(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner, depth + 1) for inner in value]
    return _LONE_SURROGATE.sub("\ufffd", value) if isinstance(value, str) else value


def _number(value: float) -> float:
    """A number as Go writes it into JSON and reads it again: a whole one has no fraction."""
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    value = float(value)
    if not isfinite(value):
        raise ValueError(f"{value} is no number in JSON")
    is_whole = value.is_integer() and abs(value) < 1e21  # Go writes larger ones with an exponent
    return int(Decimal(repr(value))) if is_whole else value


# --- YAML -------------------------------------------------------------------------------------------------


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _split(text: str, at: int) -> Iterator[tuple[int, str]]:
    """The documents, divided by lines that begin with ---, with the number of lines before them."""
    lines_before = text.count("\n", 0, at)
    for separator in chain(_SEPARATOR.finditer(text, at), (None,)):
        document = text[at : separator.start() if separator else len(text)]
        if document:
            yield lines_before, document
        if separator:
            if (more := separator[1].strip()) and not more.startswith("#"):
                raise yaml.YAMLError(f"invalid Yaml document separator: {more}")
            lines_before += document.count("\n") + 1
            at = separator.end()


def _build(text: str, lines_before: int) -> tuple[Any, list[str]]:
    if len(text) > MAX_YAML:
        raise TooMuchError(f"is larger than {MAX_YAML // MIB} MiB")
    builder = _Builder(yaml.parse(text, _PARSER), lines_before)
    try:
        return builder.first_document(), builder.twice
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise yaml.YAMLError(f"{builder.place(mark) if mark else ''}{error.problem}") from error
    except yaml.reader.ReaderError as error:
        raise yaml.YAMLError(error.reason) from error
    except (ValueError, RecursionError) as error:  # such as a number of 5,000 digits
        raise yaml.YAMLError(f"{builder.place(builder.mark)}{error}") from error


class _Open:
    """Stands for an anchor's value that isn't complete."""


class _Builder:
    """Makes the value of a document of the parser's events. twice: the keys that are given twice.

    A scalar is kept as YAML means it until it is put into something: a key and a value become JSON otherwise.
    """

    def __init__(self, events: Iterable[yaml.Event], lines_before: int) -> None:
        self._events, self._lines_before = iter(events), lines_before
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._size = self._flow = 0
        self.mark: Any = None
        self.twice: list[str] = []

    def place(self, mark: Any) -> str:
        """`line 3, column 5: `."""
        return f"line {self._lines_before + mark.line + 1}, column {mark.column + 1}: "

    def first_document(self) -> Any:
        """The value of the first document; None if there is none."""
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if event.version not in (None, (1, 1)):
                    self._fail("found incompatible YAML document")
                return _json(self._value(self._next(), 0))
        return None

    def _next(self) -> yaml.Event:
        event = next(self._events)
        self.mark = event.start_mark
        return event

    def _value(self, event: yaml.Event, depth: int) -> Any:
        """The value that begins with this event."""
        if depth > MAX_DEPTH:
            raise TooMuchError(f"{self.place(self.mark)}is nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(str(event.anchor))
        anchor, before = getattr(event, "anchor", None), self._size
        if anchor:
            self._anchors[anchor] = _Open, 0
        value: Any
        if isinstance(event, yaml.ScalarEvent):
            self._grow(1 + len(event.value))
            if self._flow and event.implicit[0] and "?" in event.value:
                self._fail(f'? ends a text in [] or {{}}; put it into quotes: "{event.value}"')
            value = _scalar(event.tag, event.value, is_plain=event.implicit[0])
        else:
            self._grow(1)
            is_flow = bool(getattr(event, "flow_style", False))
            self._flow += is_flow
            is_list = isinstance(event, yaml.SequenceStartEvent)
            value = self._list(depth) if is_list else self._mapping(depth)
            self._flow -= is_flow
        if anchor:
            self._anchors[anchor] = value, self._size - before
        return value

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > MAX_YAML:
            raise TooMuchError(
                f"{self.place(self.mark)}with its aliases written out it is larger than {MAX_YAML // MIB} MiB"
            )

    def _alias(self, anchor: str) -> Any:
        if anchor not in self._anchors:
            self._fail(f"unknown anchor '{anchor}' referenced")
        value, size = self._anchors[anchor]
        if value is _Open:
            raise TooMuchError(f"{self.place(self.mark)}*{anchor} stands inside itself, so it never ends")
        self._grow(size)
        return value

    def _list(self, depth: int) -> list[Any]:
        found = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            found.append(_json(self._value(event, depth + 1)))
        return found

    def _mapping(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            mark, is_merge = event.start_mark, _is_merge(event)
            key = self._value(event, depth + 1)
            value = self._value(self._next(), depth + 1)
            if is_merge:
                self._merge(value, found, mark)
            else:
                self._set(_key(key), _json(value), found, mark)
        return found

    def _merge(self, value: Any, into: dict[str, Any], mark: Any) -> None:
        """Earlier mappings of a list take precedence."""
        mappings = value if isinstance(value, list) else [value]
        if not all(isinstance(mapping, dict) for mapping in mappings):
            self._fail("map merge requires map or sequence of maps as the value")
        for mapping in reversed(mappings):
            for key, inner in mapping.items():
                self._set(key, inner, into, mark)

    def _set(self, key: str, value: Any, into: dict[str, Any], mark: Any) -> None:
        if key in into:
            self.twice.append(f"{self.place(mark)}{key} is given twice")
        into[key] = value

    def _fail(self, problem: str) -> NoReturn:
        raise yaml.YAMLError(f"{self.place(self.mark)}{problem}" if self.mark else problem)


def _is_merge(event: yaml.Event) -> bool:
    if not isinstance(event, yaml.ScalarEvent) or event.value != "<<":
        return False
    return event.implicit[0] or event.tag == f"{_TAG}merge"


def _json(value: Any) -> Any:
    """A value in JSON."""
    return _number(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _key(value: Any) -> str:
    """A key in JSON. ValueError if there is none."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float_key(value)
    if isinstance(value, int) and value < 2**63:
        return str(value)
    raise ValueError(f"invalid map key: {json.dumps(value)[:60]}")


def _float_key(value: float) -> str:
    """As Go's strconv.FormatFloat(value, 'g', -1, 32)."""
    try:
        packed = pack("f", value)
        value = unpack("f", packed)[0]
    except OverflowError:
        value = inf if value > 0 else -inf
    if isnan(value) or isinf(value):
        return ".nan" if isnan(value) else ".inf" if value > 0 else "-.inf"
    digits = next(digits for digits in range(9) if pack("f", float(f"{value:.{digits}e}")) == packed)
    text = f"{value:.{digits}e}"
    exponent = int(text.partition("e")[2])
    return f"{value:.{max(digits - exponent, 0)}f}" if -4 <= exponent < 6 else text


def _scalar(tag: str | None, text: str, *, is_plain: bool) -> Any:
    """What a scalar means. ValueError when it isn't what its tag says."""
    if not tag:
        return _resolved(text)[1] if is_plain else text
    if tag == f"{_TAG}binary":
        try:
            return b64decode(text.replace("\n", ""), validate=True).decode("utf-8", "replace")
        except binascii.Error as error:
            raise ValueError("!!binary value contains invalid base64 data") from error
    if tag not in _RESOLVED or tag == f"{_TAG}str":
        return text
    wanted = tag.removeprefix(_TAG)
    if wanted == "timestamp" and _TIMESTAMP.fullmatch(text):
        return text
    kind, value = _resolved(text)
    if kind == "int" and wanted == "float" and value < 2**63:
        return float(value)
    if kind != wanted:
        raise ValueError(f"cannot decode !!{kind} `{text}` as a !!{wanted}")
    return value


def _resolved(text: str) -> tuple[str, Any]:
    """The kind of a plain scalar, and its value."""
    if text in _WORDS:
        return _WORDS[text]
    if not text.isascii() or text[0] not in "+-.0123456789":
        return "str", text
    try:
        if text[0] == ".":
            value: float = float(text)
            return ("float", value) if isfinite(value) else ("str", text)
        plain = text.replace("_", "")
        if (number := _integer(plain)) is not None:
            return "int", number
        if _FLOAT.fullmatch(plain) and isfinite(value := float(plain)):
            return "float", value
    except ValueError:
        pass
    return "str", text


def _integer(text: str) -> int | None:
    """As Go's strconv.ParseInt(text, 0, 64), or ParseUint."""
    if found := _INTEGER.fullmatch(text):
        sign, *numbers = found.groups()
        digits, base = next((number, base) for number, base in zip(numbers, _BASES, strict=True) if number)
        number = int(sign + digits, base)
        is_in_range = -(2**63) <= number < (2**63 if sign else 2**64)
        return number if is_in_range else None
    if found := _SIGNED_BINARY.fullmatch(text):
        return int(found[1], 2)
    return None
