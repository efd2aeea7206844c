"""The functions that expressions may call, with the types of their parameters and results.

A member is called as TARGET.FUNCTION(...): its target is the first parameter.

Source: github.com/google/cel-go, common/stdlib, ext and cel/library.go; k8s.io/apiserver/pkg/cel/library, as
environment/base.go chooses them
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from lib.scheduling.devices.cel_types import Type, parsed, parsed_list

COMPARED = ["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"]
NUMBERS = ["int", "uint", "double"]
MIXED = [f"{one}, {other}" for one in NUMBERS for other in NUMBERS]
ORDERED = [f"{each}, {each}" for each in COMPARED if each not in NUMBERS] + MIXED
FORMATS = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
]


class Overload(NamedTuple):
    """One form of a function."""

    parameters: Sequence[Type]
    result: Type
    is_member: bool


FUNCTIONS = """
_?_:_(bool, A, A) A
_&&_(bool, bool) bool
_||_(bool, bool) bool
!_(bool) bool
@not_strictly_false(bool) bool
_==_(A, A) bool
_!=_(A, A) bool
_+_(bytes, bytes) bytes
_+_(double, double) double
_+_(duration, duration) duration
_+_(duration, timestamp) timestamp
_+_(timestamp, duration) timestamp
_+_(int, int) int
_+_(list(A), list(A)) list(A)
_+_(string, string) string
_+_(uint, uint) uint
_-_(double, double) double
_-_(duration, duration) duration
_-_(int, int) int
_-_(timestamp, duration) timestamp
_-_(timestamp, timestamp) duration
_-_(uint, uint) uint
_*_(double, double) double
_*_(int, int) int
_*_(uint, uint) uint
_/_(double, double) double
_/_(int, int) int
_/_(uint, uint) uint
_%_(int, int) int
_%_(uint, uint) uint
-_(double) double
-_(int) int
_[_](list(A), int) A
_[_](map(A, B), A) B
_[_](optional_type(list(V)), int) optional_type(V)
_[_](optional_type(map(K, V)), K) optional_type(V)
_[?_](list(V), int) optional_type(V)
_[?_](optional_type(list(V)), int) optional_type(V)
_[?_](map(K, V), K) optional_type(V)
_[?_](optional_type(map(K, V)), K) optional_type(V)
@in(A, list(A)) bool
@in(A, map(A, B)) bool
type(A) type(A)
dyn(A) dyn
bool(bool) bool
bool(string) bool
bytes(bytes) bytes
bytes(string) bytes
double(double) double
double(int) double
double(string) double
double(uint) double
duration(duration) duration
duration(int) duration
duration(string) duration
int(int) int
int(double) int
int(duration) int
int(string) int
int(timestamp) int
int(uint) int
string(string) string
string(bool) string
string(bytes) string
string(double) string
string(duration) string
string(int) string
string(timestamp) string
string(uint) string
string(net.IP) string
string(net.CIDR) string
timestamp(timestamp) timestamp
timestamp(int) timestamp
timestamp(string) timestamp
uint(uint) uint
uint(double) uint
uint(int) uint
uint(string) uint
matches(string, string) bool
string.matches(string) bool
string.contains(string) bool
string.endsWith(string) bool
string.startsWith(string) bool
duration.getHours() int
duration.getMinutes() int
duration.getSeconds() int
duration.getMilliseconds() int
string.charAt(int) string
string.indexOf(string) int
string.indexOf(string, int) int
string.lastIndexOf(string) int
string.lastIndexOf(string, int) int
string.lowerAscii() string
string.upperAscii() string
string.replace(string, string) string
string.replace(string, string, int) string
string.split(string) list(string)
string.split(string, int) list(string)
string.substring(int) string
string.substring(int, int) string
string.trim() string
string.format(list(dyn)) string
strings.quote(string) string
list(string).join() string
list(string).join(string) string
list(A).indexOf(A) int
list(A).lastIndexOf(A) int
list(A).slice(int, int) list(A)
list(list(A)).flatten() list(A)
list(dyn).flatten(int) list(dyn)
lists.range(int) list(int)
list(A).reverse() list(A)
list(A).distinct() list(A)
list(A).first() optional_type(A)
list(A).last() optional_type(A)
sets.contains(list(A), list(A)) bool
sets.equivalent(list(A), list(A)) bool
sets.intersects(list(A), list(A)) bool
cel.@mapInsert(map(A, B), A, B) map(A, B)
cel.@mapInsert(map(A, B), map(A, B)) map(A, B)
optional.of(A) optional_type(A)
optional.ofNonZeroValue(A) optional_type(A)
optional.none() optional_type(A)
optional_type(A).value() A
optional_type(A).hasValue() bool
optional_type(A).or(optional_type(A)) optional_type(A)
optional_type(A).orValue(A) A
quantity(string) kubernetes.Quantity
isQuantity(string) bool
sign(kubernetes.Quantity) int
kubernetes.Quantity.isGreaterThan(kubernetes.Quantity) bool
kubernetes.Quantity.isLessThan(kubernetes.Quantity) bool
kubernetes.Quantity.compareTo(kubernetes.Quantity) int
kubernetes.Quantity.asApproximateFloat() double
kubernetes.Quantity.asInteger() int
kubernetes.Quantity.isInteger() bool
kubernetes.Quantity.add(kubernetes.Quantity) kubernetes.Quantity
kubernetes.Quantity.add(int) kubernetes.Quantity
kubernetes.Quantity.sub(kubernetes.Quantity) kubernetes.Quantity
kubernetes.Quantity.sub(int) kubernetes.Quantity
semver(string) kubernetes.Semver
semver(string, bool) kubernetes.Semver
isSemver(string) bool
isSemver(string, bool) bool
kubernetes.Semver.isGreaterThan(kubernetes.Semver) bool
kubernetes.Semver.isLessThan(kubernetes.Semver) bool
kubernetes.Semver.compareTo(kubernetes.Semver) int
kubernetes.Semver.major() int
kubernetes.Semver.minor() int
kubernetes.Semver.patch() int
ip(string) net.IP
isIP(string) bool
ip.isCanonical(string) bool
net.IP.family() int
net.IP.isUnspecified() bool
net.IP.isLoopback() bool
net.IP.isLinkLocalMulticast() bool
net.IP.isLinkLocalUnicast() bool
net.IP.isGlobalUnicast() bool
cidr(string) net.CIDR
isCIDR(string) bool
net.CIDR.containsIP(string) bool
net.CIDR.containsIP(net.IP) bool
net.CIDR.containsCIDR(string) bool
net.CIDR.containsCIDR(net.CIDR) bool
net.CIDR.ip() net.IP
net.CIDR.prefixLength() int
net.CIDR.masked() net.CIDR
url(string) kubernetes.URL
isURL(string) bool
kubernetes.URL.getScheme() string
kubernetes.URL.getHost() string
kubernetes.URL.getHostname() string
kubernetes.URL.getPort() string
kubernetes.URL.getEscapedPath() string
kubernetes.URL.getQuery() map(string, list(string))
string.find(string) string
string.findAll(string) list(string)
string.findAll(string, int) list(string)
format.named(string) optional_type(kubernetes.NamedFormat)
kubernetes.NamedFormat.validate(string) optional_type(list(string))
dyn.includes(dyn) bool
kubernetes.authorization.Authorizer.path(string) kubernetes.authorization.PathCheck
kubernetes.authorization.PathCheck.check(string) kubernetes.authorization.Decision
kubernetes.authorization.Decision.allowed() bool
"""
"""Each with its parameters and its result. The last ones are declared, but nothing is of their types."""

GLOBAL = ("strings.", "lists.", "sets.", "optional.", "format.", "ip.isCanonical", "cel.@")
MOMENTS = [
    "FullYear",
    "Month",
    "DayOfYear",
    "DayOfMonth",
    "Date",
    "DayOfWeek",
    "Hours",
    "Minutes",
    "Seconds",
    "Milliseconds",
]


def _lines() -> Iterator[str]:
    yield from FUNCTIONS.strip().splitlines()
    for name in ("_<_", "_<=_", "_>_", "_>=_"):
        for each in ORDERED:
            yield f"{name}({each}) bool"
    for each in ("bytes", "list(A)", "map(A, B)", "string"):
        yield f"size({each}) int"
        yield f"{each}.size() int"
    for each in MOMENTS:
        yield f"timestamp.get{each}() int"
        yield f"timestamp.get{each}(string) int"
    for each in COMPARED:
        yield f"list({each}).isSorted() bool"
        yield f"list({each}).min() {each}"
        yield f"list({each}).max() {each}"
        yield f"list({each}).sort() list({each})"
        yield f"list(T).@sortByAssociatedKeys(list({each})) list(T)"
    for each in ("int", "uint", "double", "duration"):
        yield f"list({each}).sum() {each}"
    for each in FORMATS:
        yield f"format.{each}() kubernetes.NamedFormat"


@cache
def declarations() -> dict[str, list[Overload]]:
    """The functions, by name."""
    found: dict[str, list[Overload]] = {}
    for line in _lines():
        call, result = _halves(line)
        name, arguments = _function_of(call)
        target, _, short = name.rpartition(".")
        is_member = bool(target) and not name.startswith(GLOBAL)
        parameters = parsed_list(arguments)
        if is_member:
            name, parameters = short, (parsed(target), *parameters)
        found.setdefault(name, []).append(Overload(parameters, parsed(result), is_member))
    return found


def _halves(line: str) -> tuple[str, str]:
    """The call, and its result: what comes after the last space outside of parentheses."""
    depth = 0
    for at in reversed(range(len(line))):
        depth += {")": 1, "(": -1}.get(line[at], 0)
        if line[at] == " " and not depth:
            return line[:at], line[at + 1 :]
    raise ValueError(line)


def _function_of(call: str) -> tuple[str, str]:
    """The function's name, and what is in the last pair of parentheses."""
    depth = 0
    for at in reversed(range(len(call))):
        depth += {")": 1, "(": -1}.get(call[at], 0)
        if call[at] == "(" and not depth:
            return call[:at], call[at + 1 : -1]
    raise ValueError(call)
