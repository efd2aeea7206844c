"""Functions of expressions that Kubernetes adds: addresses, networks, URLs, named formats.

Source: k8s.io/apiserver/pkg/cel/library (ip.go, cidr.go, urls.go, format.go), k8s.io/apimachinery,
pkg/util/validation
"""

import base64
import binascii
import operator
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from lib.kube.label_syntax import A_SUBDOMAIN, A_VALUE, SUBDOMAIN, VALUE, problems_of, problems_of_key
from lib.scheduling.devices.cel.values import (
    NONE,
    Address,
    CelError,
    CelQuantity,
    CelSemver,
    Cidr,
    NamedFormat,
    Optional,
    quoted,
)

# --- quantities and versions ----------------------------------------------------------------------------


def _semver(text: str, normalize: bool = False) -> CelSemver:
    return CelSemver.parse(text, normalize=normalize)


def _sum(sign: int) -> Callable[[CelQuantity, Any], CelQuantity]:
    def function(left: CelQuantity, right: Any) -> CelQuantity:
        other = right if isinstance(right, CelQuantity) else CelQuantity(right * 10**9)
        is_decimal = not (left.is_integer and other.is_integer)
        return CelQuantity(left.nano + sign * other.nano, is_decimal)

    return function


def _as_integer(value: CelQuantity) -> int:
    if not value.is_integer:
        raise CelError("cannot convert value to integer")
    return value.nano // 10**9


# --- addresses and networks -----------------------------------------------------------------------------


def _why_no_address(text: str) -> str:
    """The reason in the words of Go's netip."""
    if not text:
        return 'ParseAddr(""): unable to parse IP'
    parts = text.split(".")
    why = "unable to parse IP"
    if ":" in text:
        why = "unexpected character, want colon"
    elif "." in text:
        why = "unexpected character"
        if all(re.fullmatch("[0-9]*", part) for part in parts):
            if any(len(part) > 1 and part.startswith("0") for part in parts):
                why = "IPv4 field has octet with leading zero"
            elif any(part and int(part) > 255 for part in parts):
                why = "IPv4 field has value >255"
            else:
                why = "IPv4 address too short" if len(parts) < 4 else "IPv4 address too long"
    return f"ParseAddr({quoted(text)}): {why}"


def _ip(text: str) -> Address:
    try:
        found = ip_address(text)
    except ValueError:
        why = _why_no_address(text)
        raise CelError(
            f"IP Address {quoted(text)} parse error during conversion from string: {why}"
        ) from None
    if "%" in text:
        raise CelError(f"IP address {quoted(text)} with zone value is not allowed")
    if isinstance(found, IPv6Address) and found.ipv4_mapped:
        raise CelError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return found


def _cidr(text: str) -> Cidr:
    wrong = "network address parse error during conversion from string"
    before, slash, bits = text.rpartition("/")
    why = ""
    if not slash:
        why = "no '/'"
    elif not re.fullmatch("0|[1-9][0-9]{0,2}", bits):
        why = f"bad bits after slash: {quoted(bits)}"
    else:
        try:
            address = _ip(before)
        except CelError:
            why = _why_no_address(before)
        else:
            if int(bits) > address.max_prefixlen:
                why = "prefix length out of range"
    if why:
        raise CelError(f"{wrong}: {wrong}: netip.ParsePrefix({quoted(text)}): {why}")
    return ip_interface((address, int(bits)))


def _contains_ip(cidr: Cidr, address: Any) -> bool:
    return _parsed(_ip, address) in cidr.network


def _contains_cidr(cidr: Cidr, other: Any) -> bool:
    inner: Cidr = _parsed(_cidr, other)
    return inner.network.prefixlen >= cidr.network.prefixlen and inner.ip in cidr.network


def _parsed(parse: Callable[[str], Any], value: Any) -> Any:
    try:
        return parse(value) if isinstance(value, str) else value
    except CelError:
        raise CelError("no such overload") from None


def _is_global(address: Address) -> bool:
    is_broadcast = address == IPv4Address("255.255.255.255")
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or is_broadcast
    )


def _is_local_multicast(address: Address) -> bool:
    packed = address.packed
    if isinstance(address, IPv4Address):
        return packed[:3] == b"\xe0\x00\x00"
    return packed[0] == 0xFF and packed[1] & 0x0F == 2


# --- URLs -----------------------------------------------------------------------------------------------


def _url(text: str) -> SplitResult:
    wrong = f"URL parse error during conversion from string: parse {quoted(text)}: "
    if not text:
        raise CelError(f"{wrong}empty url")
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text)
    if not scheme and not text.startswith("/"):
        raise CelError(f"{wrong}invalid URI for request")
    try:
        found = urlsplit(text, allow_fragments=False)
        _ = found.port  # it is checked
    except ValueError:
        raise CelError(f"{wrong}invalid port after host") from None
    if bad := re.search(r'[ "<>\\^`{|}]', _host(found)):
        raise CelError(f"{wrong}invalid character {quoted(bad[0])} in host name")
    if scheme and not found.netloc and not found.path.startswith("/"):
        raise CelError(f"{wrong}invalid URI for request")
    return found


def _host(url: SplitResult) -> str:
    return url.netloc.rpartition("@")[2]


def _host_name(url: SplitResult) -> str:
    host = _host(url)
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _port(url: SplitResult) -> str:
    return _host(url).rpartition("]")[2].partition(":")[2]


# --- formats --------------------------------------------------------------------------------------------

LABEL = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?")
LABEL_1035 = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
UUID = re.compile("[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)

A_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
A_LABEL_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def _named(pattern: re.Pattern[str], most: int, what: str, *, is_prefix: bool = False) -> Any:
    def problems(text: str) -> list[str]:
        if is_prefix and text.endswith("-") and len(text) > 1:
            text = text[:-2] + "a"
        return problems_of(text, pattern, most, what)

    return problems


def _if_fails(parse: Callable[[str], object], what: str) -> Callable[[str], list[str]]:
    def problems(text: str) -> list[str]:
        try:
            return [] if parse(text) is not None else [what]
        except (ValueError, binascii.Error):
            return [what]

    return problems


def _uri(text: str) -> list[str]:
    try:
        _url(text)
    except CelError as error:
        return [str(error).removeprefix("URL parse error during conversion from string: ")]
    return []


FORMATS: Mapping[str, NamedFormat] = {
    name: NamedFormat(name, size, problems)
    for name, size, problems in (
        ("dns1123Label", 30, _named(LABEL, 63, A_LABEL)),
        ("dns1123Subdomain", 60, _named(SUBDOMAIN, 253, A_SUBDOMAIN)),
        ("dns1035Label", 30, _named(LABEL_1035, 63, A_LABEL_1035)),
        ("qualifiedName", 60, problems_of_key),
        ("dns1123LabelPrefix", 30, _named(LABEL, 63, A_LABEL, is_prefix=True)),
        ("dns1123SubdomainPrefix", 60, _named(SUBDOMAIN, 253, A_SUBDOMAIN, is_prefix=True)),
        ("dns1035LabelPrefix", 30, _named(LABEL_1035, 63, A_LABEL_1035, is_prefix=True)),
        ("labelValue", 40, _named(VALUE, 63, A_VALUE)),
        ("uri", 1103, _uri),
        ("uuid", 70, _if_fails(UUID.fullmatch, "does not match the UUID format")),
        ("byte", 84, _if_fails(lambda text: base64.b64decode(text, validate=True), "invalid base64")),
        ("date", 71, _if_fails(lambda text: len(text) == 10 and date.fromisoformat(text), "invalid date")),
        ("datetime", 71, _if_fails(datetime.fromisoformat, "invalid datetime")),
    )
}


def _validate(of: NamedFormat, text: str) -> Optional:
    problems = of.problems(text)
    return Optional.of(problems) if problems else NONE


def _format_named(name: str) -> Optional:
    return Optional.of(FORMATS[name]) if name in FORMATS else NONE


def _can(parse: Callable[..., Any]) -> Callable[..., bool]:
    def function(*values: Any) -> bool:
        try:
            parse(*values)
        except CelError:
            return False
        return True

    return function


QUANTITY_OR_SEMVER = "{kubernetes.Quantity|kubernetes.Semver}"

KUBERNETES: Mapping[str, Callable[..., Any]] = {
    "quantity(string) kubernetes.Quantity": CelQuantity.parse,
    "isQuantity(string) bool": _can(CelQuantity.parse),
    "semver(string{|,bool}) kubernetes.Semver": _semver,
    "isSemver(string{|,bool}) bool": _can(_semver),
    f"{QUANTITY_OR_SEMVER}.isGreaterThan({QUANTITY_OR_SEMVER}) bool": operator.gt,
    f"{QUANTITY_OR_SEMVER}.isLessThan({QUANTITY_OR_SEMVER}) bool": operator.lt,
    f"{QUANTITY_OR_SEMVER}.compareTo({QUANTITY_OR_SEMVER}) int": lambda a, b: (a > b) - (a < b),
    "kubernetes.Quantity.add({kubernetes.Quantity|int}) kubernetes.Quantity": _sum(1),
    "kubernetes.Quantity.sub({kubernetes.Quantity|int}) kubernetes.Quantity": _sum(-1),
    "sign(kubernetes.Quantity) int": lambda value: (value.nano > 0) - (value.nano < 0),
    "kubernetes.Quantity.isInteger() bool": lambda value: value.is_integer,
    "kubernetes.Quantity.asInteger() int": _as_integer,
    "kubernetes.Quantity.asApproximateFloat() double": lambda value: value.nano / 10**9,
    "kubernetes.Semver.major() int": lambda version: version.major,
    "kubernetes.Semver.minor() int": lambda version: version.minor,
    "kubernetes.Semver.patch() int": lambda version: version.patch,
    "ip(string) net.IP": _ip,
    "isIP(string) bool": _can(_ip),
    r"ip\.isCanonical(string) bool": lambda text: str(_ip(text)) == text,
    "net.IP.family() int": lambda address: address.version,
    "net.IP.isLoopback() bool": lambda address: address.is_loopback,
    "net.IP.isUnspecified() bool": lambda address: address.is_unspecified,
    "net.IP.isLinkLocalMulticast() bool": _is_local_multicast,
    "net.IP.isLinkLocalUnicast() bool": lambda address: address.is_link_local,
    "net.IP.isGlobalUnicast() bool": _is_global,
    "cidr(string) net.CIDR": _cidr,
    "isCIDR(string) bool": _can(_cidr),
    "net.CIDR.ip() net.IP": lambda cidr: cidr.ip,
    "net.CIDR.containsIP({string|net.IP}) bool": _contains_ip,
    "net.CIDR.containsCIDR({string|net.CIDR}) bool": _contains_cidr,
    "net.CIDR.prefixLength() int": lambda cidr: cidr.network.prefixlen,
    "net.CIDR.masked() net.CIDR": lambda cidr: ip_interface(cidr.network),
    "url(string) kubernetes.URL": _url,
    "isURL(string) bool": _can(_url),
    "kubernetes.URL.getScheme() string": lambda url: url.scheme,
    "kubernetes.URL.getHost() string": _host,
    "kubernetes.URL.getHostname() string": _host_name,
    "kubernetes.URL.getPort() string": _port,
    "kubernetes.URL.getEscapedPath() string": lambda url: url.path,
    "kubernetes.URL.getQuery() map<string,list<string>>": lambda url: parse_qs(
        url.query, keep_blank_values=True
    ),
    r"format\.named(string) optional_type<kubernetes.NamedFormat>": _format_named,
    "kubernetes.NamedFormat.validate(string) optional_type<list<string>>": _validate,
    **{rf"format\.{name}() kubernetes.NamedFormat": lambda made=made: made for name, made in FORMATS.items()},
}
"""What is called, by its form (declarations.py)."""
