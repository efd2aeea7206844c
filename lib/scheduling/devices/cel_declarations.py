"""The functions that expressions may call, with the types of their parameters and results.

A member is called as TARGET.FUNCTION(...): its target is the first parameter. Most operators aren't among
them: the library has those.

Source: github.com/google/cel-go, common/stdlib, ext and cel/library.go; k8s.io/apiserver/pkg/cel/library, as
environment/base.go chooses them
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import NamedTuple

from lib.scheduling.devices.cel_functions import MOMENTS
from lib.scheduling.devices.cel_kubernetes import FORMATS

COMPARED = ["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"]
NUMBERS = ["int", "uint", "double"]
ORDERED = [(each, each) for each in COMPARED if each not in NUMBERS] + [*product(NUMBERS, NUMBERS)]


class Overload(NamedTuple):
    """One form of a function. result: "" if the library declares it. parameters: the names of their types."""

    signature: str
    result: str
    parameters: Sequence[str]
    is_member: bool


FUNCTIONS = r"""
type(~A) type<~A>
dyn(~A) dyn
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
matches(string,string) bool
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
string.indexOf(string,int) int
string.lastIndexOf(string) int
string.lastIndexOf(string,int) int
string.lowerAscii() string
string.upperAscii() string
string.replace(string,string) string
string.replace(string,string,int) string
string.split(string) list<string>
string.split(string,int) list<string>
string.substring(int) string
string.substring(int,int) string
string.trim() string
string.format(list<dyn>) string
strings\.quote(string) string
list<string>.join() string
list<string>.join(string) string
list<~A>.indexOf(~A) int
list<~A>.lastIndexOf(~A) int
list<~A>.slice(int,int)
list<list<~A>>.flatten()
list<dyn>.flatten(int)
lists\.range(int)
list<~A>.reverse()
list<~A>.distinct()
list<~A>.first()
list<~A>.last()
sets\.contains(list<~A>,list<~A>) bool
sets\.equivalent(list<~A>,list<~A>) bool
sets\.intersects(list<~A>,list<~A>) bool
cel\.@mapInsert(map<~A,~B>,~A,~B)
cel\.@mapInsert(map<~A,~B>,map<~A,~B>)
optional\.of(~A)
optional\.ofNonZeroValue(~A)
optional\.none()
optional_type<~A>.value()
optional_type<~A>.hasValue()
optional_type<~A>.or(optional_type<~A>)
optional_type<~A>.orValue(~A)
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
semver(string,bool) kubernetes.Semver
isSemver(string) bool
isSemver(string,bool) bool
kubernetes.Semver.isGreaterThan(kubernetes.Semver) bool
kubernetes.Semver.isLessThan(kubernetes.Semver) bool
kubernetes.Semver.compareTo(kubernetes.Semver) int
kubernetes.Semver.major() int
kubernetes.Semver.minor() int
kubernetes.Semver.patch() int
ip(string) net.IP
isIP(string) bool
ip\.isCanonical(string) bool
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
kubernetes.URL.getQuery() map<string,list<string>>
string.find(string) string
string.findAll(string) list<string>
string.findAll(string,int) list<string>
format\.named(string) optional_type<kubernetes.NamedFormat>
kubernetes.NamedFormat.validate(string) optional_type<list<string>>
dyn.includes(dyn) bool
kubernetes.authorization.Authorizer.path(string) kubernetes.authorization.PathCheck
kubernetes.authorization.PathCheck.check(string) kubernetes.authorization.Decision
kubernetes.authorization.Decision.allowed() bool
"""
"""Each with its parameters and its result, as the library has them: ~A is any type, and a dot in the name of
a function has a backslash. Those without a result are declared by extensions of the library. Nothing is of
the types of the last ones."""


def _lines() -> Iterator[str]:
    yield from FUNCTIONS.strip().splitlines()
    for name in (
        r"_\<_",
        r"_\<=_",
        r"_\>_",
        r"_\>=_",
    ):  # as the library doesn't compare numbers of several types
        for one, other in ORDERED:
            yield f"{name}({one},{other}) bool"
    for each in ("bytes", "list<~A>", "map<~A,~B>", "string"):
        yield f"size({each}) int"
        yield f"{each}.size() int"
    for each in MOMENTS:
        yield f"timestamp.{each}() int"
        yield f"timestamp.{each}(string) int"
    for each in COMPARED:
        yield f"list<{each}>.isSorted() bool"
        yield f"list<{each}>.min() {each}"
        yield f"list<{each}>.max() {each}"
        yield f"list<{each}>.sort()"
        yield f"list<~T>.@sortByAssociatedKeys(list<{each}>)"
    for each in ("int", "uint", "double", "duration"):
        yield f"list<{each}>.sum() {each}"
    for each in FORMATS:
        yield rf"format\.{each}() kubernetes.NamedFormat"


PARTS = re.compile(r"(?:(?P<target>.+)(?<!\\)\.)?(?P<name>(?:[\w@=]|\\.)+)\((?P<arguments>.*)\)")


@cache
def declarations() -> Mapping[str, Sequence[Overload]]:
    """The functions, by name."""
    found: dict[str, list[Overload]] = defaultdict(list)
    for line in _lines():
        signature, _, result = line.partition(" ")
        parts = PARTS.fullmatch(_without_parameters(signature))
        assert parts
        parameters = [each for each in (parts["target"], *parts["arguments"].split(",")) if each]
        overload = Overload(signature, result, parameters, bool(parts["target"]))
        found[parts["name"].replace("\\", "")].append(overload)
    return found


def _without_parameters(signature: str) -> str:
    """A signature with types like `list`, for `list<int>`."""
    before = ""
    while signature != before:
        before, signature = signature, re.sub(r"(?<!\\)<[^<>]*>", "", signature)
    return signature
