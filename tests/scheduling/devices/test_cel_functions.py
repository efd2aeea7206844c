"""Functions of expressions, with the examples that cel-go's and Kubernetes' own pages give."""

import pytest

from lib.kube.devices import Device
from lib.scheduling.devices.selectors import SelectorError, evaluate

pytest.importorskip("cel_expr_python", reason="poller knows devices only with cel-expr-python")


@pytest.mark.parametrize(
    "expression",
    [
        # texts: cel-go, ext/strings.go
        "'hello mellow'.indexOf('') == 0",
        "'hello mellow'.indexOf('ello') == 1",
        "'hello mellow'.indexOf('jello') == -1",
        "'hello mellow'.indexOf('', 2) == 2",
        "'hello mellow'.indexOf('ello', 2) == 7",
        "'hello mellow'.lastIndexOf('') == 12",
        "'hello mellow'.lastIndexOf('ello') == 7",
        "'hello mellow'.lastIndexOf('jello') == -1",
        "'hello mellow'.lastIndexOf('ello', 6) == 1",
        "'hello'.charAt(4) == 'o'",
        "'hello'.charAt(5) == ''",
        "'tacocat'.substring(4) == 'cat'",
        "'tacocat'.substring(0, 4) == 'taco'",
        "'hello hello hello'.split(' ') == ['hello', 'hello', 'hello']",
        "'hello hello hello'.split(' ', 0) == []",
        "'hello hello hello'.split(' ', 1) == ['hello hello hello']",
        "'hello hello hello'.split(' ', 2) == ['hello', 'hello hello']",
        "'hello hello'.replace('he', 'we', 1) == 'wello hello'",
        "['hello', 'mellow'].join() == 'hellomellow'",
        "['hello', 'mellow'].join(' ') == 'hello mellow'",
        "'TacoCÆt Xii'.lowerAscii() == 'tacocÆt xii'",
        "'TacoCÆt Xii'.upperAscii() == 'TACOCÆT XII'",
        # lists and sets: ext/lists.go, ext/sets.go
        "[1, 2, 3, 4].slice(1, 3) == [2, 3]",
        "[1, 2, 3, 4].slice(2, 4) == [3, 4]",
        "[[1], [2, 3], [4]].flatten() == [1, 2, 3, 4]",
        "[[[1], [2, 3]], [[4]]].flatten(2) == [1, 2, 3, 4] && [[[1]]].flatten(1) == [[1]]",
        "[1, 2, 2, 3, 3, 3].distinct() == [1, 2, 3]",
        "[5, 1, 2, 3].reverse() == [3, 2, 1, 5]",
        "[3, 2, 1].sort() == [1, 2, 3]",
        "[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2 && [1].lastIndexOf(3) == -1",
        "[1, 3].isSorted() && ![3, 1].isSorted()",
        "[1, 3].sum() == 4 && [1, 3].max() == 3 && [1, 3].min() == 1",
        "sets.contains([1, 2, 3, 4], [2, 3]) && !sets.contains([1], [1, 2])",
        "sets.equivalent([1], [1, 1]) && !sets.equivalent([1, 2], [1]) && !sets.equivalent([1], [1, 2])",
        "sets.intersects([1, 2], [2, 3]) && !sets.intersects([1], [])",
        # moments
        "duration('1h30m').getHours() == 1 && duration('1h30m').getMinutes() == 90",
        "duration('90s').getSeconds() == 90 && duration('1.5s').getMilliseconds() == 1500",
        "timestamp('2026-02-03T04:05:06.789Z').getMilliseconds() == 789",
        "timestamp('2026-02-03T04:05:06Z').getMonth() == 1",
        "timestamp('2026-02-03T04:05:06Z').getDayOfMonth() == 2",
        "timestamp('2026-02-03T04:05:06Z').getDate() == 3",
        "timestamp('2026-02-03T04:05:06Z').getHours('+02:00') == 6",
        # versions, quantities, addresses: the Kubernetes API's reference of CEL
        "semver('1.0.0-alpha').isLessThan(semver('1.0.0'))",
        "semver('1.0.0-alpha.1').isLessThan(semver('1.0.0-alpha.beta'))",
        "semver('1.0.0-2').isLessThan(semver('1.0.0-10'))",
        "semver('v1.0', true) == semver('1.0.0') && !isSemver('v1.0') && !isSemver('01.0.0')",
        "semver('0.1.0').isGreaterThan(semver('0.0.9'))",
        "quantity('50k').add(20) == quantity('50020')",
        "quantity('50k').sub(quantity('10k')) == quantity('40k')",
        "quantity('2Gi').isGreaterThan(quantity('1Gi')) && quantity('50k').asInteger() == 50000",
        "isQuantity('1.3Gi') && !isQuantity('100 k') && !quantity('1.5Gi').isInteger()",
        "ip('fe80::1').isLinkLocalUnicast() && ip('::1').isLoopback() && ip('127.0.0.1').family() == 4",
        "cidr('192.168.0.0/24').containsIP('192.168.0.1')",
        "!cidr('192.168.0.0/24').containsIP('192.168.1.1')",
        "cidr('192.168.1.5/24').masked() == cidr('192.168.1.0/24')",
        "url('https://user:pass@example.com:80/path?k=1').getHostname() == 'example.com'",
        "url('https://example.com:80/').getPort() == '80' && url('https://[::1]:80/').getHostname() == '::1'",
        "!format.dns1123Label().validate('my-name').hasValue()",
        "format.dns1123Label().validate('My-name').hasValue()",
        # texts made of values: ext/formatting.go
        "'%s %d %.2f %x %o %b %%'.format(['a', 1, 2.5, 255, 8, 5]) == 'a 1 2.50 ff 10 101 %'",
        "'%s'.format([[1, 2]]) == '[1, 2]' && '%X'.format(['j']) == '6A' && '%x'.format(['j']) == '6a'",
        "string(1.0) == '1' && string(true) == 'true' && string(duration('90s')) == '90s'",
        "string(timestamp('2026-02-03T04:05:06Z')) == '2026-02-03T04:05:06Z' && string(b'a') == 'a'",
    ],
)
def test_what_a_function_returns(expression: str) -> None:
    assert evaluate(expression, Device("gpu"), "d")


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("'hello'.charAt(-1) == ''", "index out of range: -1"),
        ("'tacocat'.substring(2, 1) == ''", "invalid substring range. start: 2, end: 1"),
        ("'tacocat'.substring(0, 9) == ''", "index out of range: 9"),
        ("'hello'.indexOf('h', -1) == 0", "index out of range: -1"),
        ("[1, 2].slice(0, 3) == []", "cannot slice(0, 3), list is length 2"),
        ("[1, 2].slice(0, -1) == []", "cannot slice(0, -1), negative indexes not supported"),
        ("[1, 2].slice(2, 1) == []", "start index must be less than or equal to end index"),
        ("quantity('1.5Gi').asInteger() == 1", "cannot convert value to integer"),
        ("[1][1] == 1", "index out of bounds: 1"),
        ("1 / 0 == 1", "division by zero"),
        ("9223372036854775807 + 1 == 0", "integer overflow"),
    ],
)
def test_what_has_no_value(expression: str, why: str) -> None:
    with pytest.raises(SelectorError) as error:
        evaluate(expression, Device("gpu"), "d")
    assert why in str(error.value)
