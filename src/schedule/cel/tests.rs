//! Libraries of expressions, each by what Kubernetes' documentation says of it.

use serde_json::json;

use super::*;

/// Checks that each expression is true, and that it compiles.
fn all_hold<T: AsRef<str>>(expressions: &[T]) {
    for expression in expressions.iter().map(AsRef::as_ref) {
        let compiled = ObjectExpression::compile(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
        assert!(compiled.holds(&json!({"kind": "Any"})), "{expression}");
    }
}

/// Checks that each expression compiles and ends with an error: neither it nor its negation is true.
fn all_fail(expressions: &[&str]) {
    for expression in expressions {
        for expression in [format!("({expression}) == ({expression})"), format!("({expression}) != ({expression})")] {
            let compiled = ObjectExpression::compile(&expression).unwrap_or_else(|error| panic!("{error}"));
            assert!(!compiled.holds(&json!({})), "{expression}");
        }
    }
}

#[test]
fn addresses() {
    all_hold(&[
        "isIP('127.0.0.1') && isIP('::1') && !isIP('127.0.0.256') && !isIP(':::1') && !isIP('')",
        "!isIP('127.0.0.01') && !isIP('fe80::1%eth0') && !isIP('::ffff:1.2.3.4') && !isIP('10.0.0.0/8')",
        "ip('127.0.0.1').family() == 4 && ip('::1').family() == 6",
        "ip('::1') == ip('0:0::1') && ip('::1') != ip('::2') && string(ip('2001:DB8::0:0:0:1')) == '2001:db8::1'",
        "ip.isCanonical('127.0.0.1') && ip.isCanonical('2001:db8::abcd')",
        "!ip.isCanonical('2001:DB8::ABCD') && !ip.isCanonical('2001:db8::0:0:0:abcd')",
        "ip('0.0.0.0').isUnspecified() && ip('::').isUnspecified() && !ip('::1').isUnspecified()",
        "ip('127.0.0.1').isLoopback() && ip('::1').isLoopback() && !ip('192.168.0.1').isLoopback()",
        "ip('224.0.0.1').isLinkLocalMulticast() && ip('ff02::1').isLinkLocalMulticast()",
        "!ip('224.0.1.1').isLinkLocalMulticast() && !ip('fd00::1').isLinkLocalMulticast()",
        "ip('169.254.169.254').isLinkLocalUnicast() && ip('fe80::1').isLinkLocalUnicast()",
        "!ip('192.168.0.1').isLinkLocalUnicast() && !ip('fd80::1').isLinkLocalUnicast()",
        "ip('192.168.0.1').isGlobalUnicast() && ip('2001:db8::abcd').isGlobalUnicast()",
        "!ip('255.255.255.255').isGlobalUnicast() && !ip('ff00::1').isGlobalUnicast() && !ip('::').isGlobalUnicast()",
        "['10.0.0.1', '::1'].all(ip, ip.size() > 2)",
    ]);
    all_fail(&["ip('x')", "ip('::ffff:1.2.3.4')", "ip.isCanonical('x')", "ip(1)"]);
}

#[test]
fn networks() {
    all_hold(&[
        "isCIDR('192.168.0.0/16') && isCIDR('::1/128') && isCIDR('0.0.0.0/0') && isCIDR('192.168.0.1/24')",
        "!isCIDR('192.168.0.0/33') && !isCIDR('::1/129') && !isCIDR('192.168.0.0') && !isCIDR('192.168.0.0/08')",
        "!isCIDR('192.168.0.0/+8') && !isCIDR('192.168.0.0/') && !isCIDR('::ffff:1.2.3.4/24')",
        "cidr('192.168.0.0/24').containsIP(ip('192.168.0.1')) && cidr('192.168.0.0/24').containsIP('192.168.0.1')",
        "!cidr('192.168.0.0/24').containsIP('192.168.1.1') && !cidr('0.0.0.0/0').containsIP('::1')",
        "cidr('0.0.0.0/0').containsIP('255.1.2.3') && cidr('::/0').containsIP('::1')",
        "cidr('192.168.0.0/16').containsCIDR(cidr('192.168.10.0/24'))",
        "cidr('192.168.0.0/16').containsCIDR('192.168.10.0/24')",
        "!cidr('192.168.1.0/24').containsCIDR('192.168.2.0/24')",
        "!cidr('192.168.0.0/24').containsCIDR('192.168.0.0/16')",
        "cidr('192.168.0.1/24').ip() == ip('192.168.0.1') && cidr('::1/128').ip().family() == 6",
        "cidr('192.168.0.1/24').masked() == cidr('192.168.0.0/24')",
        "cidr('192.168.0.1/24') != cidr('192.168.0.1/24').masked()",
        "cidr('2001:db8::1/32').masked() == cidr('2001:db8::/32')",
        "cidr('192.168.0.0/16').prefixLength() == 16 && cidr('::1/128').prefixLength() == 128",
        "string(cidr('10.0.0.0/8')) == '10.0.0.0/8'",
    ]);
    all_fail(&["cidr('10.0.0.0')", "cidr('10.0.0.0/8').containsIP('x')"]);
}

#[test]
fn urls_are_read_as_go_reads_them() {
    all_hold(&[
        "isURL('https://user:pass@example.com:80/path?query=val#fragment') && isURL('/absolute-path')",
        "!isURL('https://a:b:c/') && !isURL('../relative-path') && !isURL('') && !isURL('path') && !isURL(':x')",
        "isURL('mailto:a@example.test') && isURL('*') && !isURL('https://exa mple.com/') && !isURL('/%zz')",
        "!isURL('https://example.com\\n/') && !isURL('https://a^b@example.com/') && !isURL('https://[::1/')",
        "url('/path').getScheme() == '' && url('HTTPS://example.com/').getScheme() == 'https'",
        "url('https://example.com:80/').getHost() == 'example.com:80' && url('/path').getHost() == ''",
        "url('https://user@[::1]:80/').getHost() == '[::1]:80' && url('https://[::1]/').getHost() == '[::1]'",
        "url('https://[fe80::1%25en0]:80/').getHostname() == 'fe80::1%en0'",
        "url('https://example.com:80/').getHostname() == 'example.com' && url('https://[::1]:80/').getHostname() == '::1'",
        "url('https://example.com:80/').getPort() == '80' && url('https://example.com/').getPort() == ''",
        "url('https://example.com:443/').getPort() == '443' && url('https://example.com:/').getPort() == ''",
        "url('https://example.com').getEscapedPath() == '' && url('https://example.com/a%2Fb').getEscapedPath() == '/a%2Fb'",
        "url('https://example.com/with spaces/').getEscapedPath() == '/with%20spaces/'",
        "url('/a!b#c').getEscapedPath() == '/a!b' && url('/é').getEscapedPath() == '/%C3%A9'",
        "url('https://example.com/path?k1=a&k2=b&k2=c').getQuery() == {'k1': ['a'], 'k2': ['b', 'c']}",
        "url('https://example.com/path?key with spaces=value+with%20spaces#f').getQuery()['key with spaces'] == ['value with spaces']",
        "url('https://example.com/path?').getQuery() == {} && url('/path').getQuery() == {}",
        "url('/p?a;b=1&c=%zz&d').getQuery() == {'d': ['']} && url('//host/p').getHost() == 'host'",
        "url('/a') == url('/a') && url('/a') != url('/b')",
        "!isURL('https://ex%41mple.com/') && url('https://ex%C3%A9.com/').getHost() == 'exé.com'",
    ]);
    all_fail(&["url('path')", "url('https://a:b:c/').getHost()"]);
}

#[test]
fn named_formats() {
    all_hold(&[
        "!format.dns1123Label().validate('my-label-name').hasValue()",
        "format.dns1123Label().validate('contains a space').value().size() == 1",
        "format.named('dns1123Label').hasValue() && !format.named('none').hasValue()",
        "!format.named('uri').value().validate('https://example.com').hasValue()",
        "format.named('uri').value() == format.uri() && format.uri() != format.date()",
    ]);
    for (format, right, wrong) in [
        ("dns1123Label", vec!["a", "0a-b"], vec!["", "A", "a.b", "a-"]),
        ("dns1123Subdomain", vec!["a.b", "a"], vec!["", "a..b", "A.b"]),
        ("dns1035Label", vec!["a0"], vec!["0a", "a-"]),
        ("qualifiedName", vec!["a.io/b", "B_c"], vec!["a/b/c", "/b", ""]),
        ("dns1123LabelPrefix", vec!["a-", "a", "a0--"], vec!["-", "A0-", "-a"]),
        ("dns1123SubdomainPrefix", vec!["a.b-", "a"], vec!["", "é-", "a..b-"]),
        ("dns1035LabelPrefix", vec!["ab-"], vec!["0ab-"]),
        ("labelValue", vec!["", "A.b_c"], vec!["a b", "-a"]),
        ("uri", vec!["https://a.test", "/a"], vec!["a", "", "a b"]),
        ("uuid", vec!["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"], vec!["", "123e"]),
        ("byte", vec!["aGVsbG8="], vec!["", "aGVsbG8", "?"]),
        ("date", vec!["2021-01-01", "2024-02-29"], vec!["2021-1-1", "2021-02-29", "2021-01-01T00:00:00Z"]),
        (
            "datetime",
            vec!["2021-01-01T00:00:00Z", "2021-01-01t23:59:59.5+01:00"],
            vec!["2021-01-01", "2021-01-01T24:00:00Z"],
        ),
    ] {
        let of = |text: &&str| format!("format.{format}().validate('{text}').hasValue()");
        all_hold(&right.iter().map(|text| format!("!{}", of(text))).collect::<Vec<_>>());
        all_hold(&wrong.iter().map(of).collect::<Vec<_>>());
    }
    assert!(ObjectExpression::compile("format.none().validate('')").is_err());
}

#[test]
fn times_and_durations() {
    all_hold(&[
        "timestamp('2026-01-31T12:00:00Z') < timestamp('2026-02-01T00:00:00+01:00')",
        "timestamp('2026-01-31T12:00:00Z') + duration('36h') == timestamp('2026-02-02T00:00:00Z')",
        "timestamp('2026-01-02T00:00:00Z') - timestamp('2026-01-01T00:00:00Z') == duration('1440m')",
        "timestamp('2026-01-31T12:30:15.5Z').getFullYear() == 2026 && timestamp('2026-01-31T00:00:00Z').getMonth() == 0",
        "timestamp('2026-01-31T23:30:00Z').getHours('Europe/Berlin') == 0 && timestamp(0).getDayOfWeek() == 4",
        "timestamp('2026-01-31T23:30:00Z').getDate('+01:00') == 1 && duration('1h30m').getMinutes() == 90",
        "duration('1.5h') > duration('1h') && string(duration('1h')) == '3600s' && int(timestamp(7)) == 7",
    ]);
    all_fail(&["timestamp('yesterday')", "duration('1 day')", "timestamp('9999-12-31T23:59:59Z') + duration('1h')"]);
}

#[test]
fn texts() {
    all_hold(&[
        "'%s has %d of %.1f, %x'.format(['a', 3, 4.25, 255]) == 'a has 3 of 4.2, ff'",
        "'%s'.format([[1, 'b', {'c': true}]]) == '[1, b, {c: true}]' && '100%%'.format([]) == '100%'",
        r#"strings.quote('a"b') == '"a\\"b"'"#,
    ]);
    all_fail(&["'%d'.format(['a'])", "'%s'.format([])"]);
}

/// What reads a text to its end costs as much as the text is long.
#[test]
fn long_texts_are_paid_for_at_each_turn() {
    let items: Vec<usize> = (0..2000).collect();
    let object = json!({"long": "a".repeat(100_000), "short": "a", "items": items});
    for call in ["lowerAscii()", "contains('b')", "substring(1)", "trim()"] {
        let with = |text: &str| format!("object.items.all(i, object.{text}.{call} != 1)");
        assert!(ObjectExpression::compile(&with("short")).expect("it compiles").holds(&object), "{call}");
        assert!(!ObjectExpression::compile(&with("long")).expect("it compiles").holds(&object), "{call}");
    }
    for call in ["isURL(object.long)", "format.uri().validate(object.long).hasValue()"] {
        let expression = format!("object.items.all(i, {call} != true)");
        assert!(!ObjectExpression::compile(&expression).expect("it compiles").holds(&object), "{call}");
    }
}
