use super::*;

const NANO: i128 = 1_000_000_000;

#[test]
fn names() {
    let long = "a".repeat(64);
    for (text, label, subdomain, value, key) in [
        ("a", true, true, true, true),
        ("a.b", false, true, true, true),
        ("A_b", false, false, true, true),
        ("-a", false, false, false, false),
        ("", false, false, true, false),
        ("a/b", false, false, false, true),
        ("a/b/c", false, false, false, false),
        ("A/b", false, false, false, false),
        (&long, false, true, false, false),
    ] {
        assert_eq!(is_dns_label(text), label, "label {text:?}");
        assert_eq!(is_dns_subdomain(text), subdomain, "subdomain {text:?}");
        assert_eq!(is_label_value(text), value, "value {text:?}");
        assert_eq!(is_qualified_name(text), key, "key {text:?}");
    }
}

#[test]
fn percentages() {
    let table = [("0%", Some(0)), ("00%", Some(0)), ("25%", Some(25)), ("100%", Some(100))];
    let wrong = ["101%", "%", "25", "-1%", "025%", "1.5%"].map(|t| (t, None));
    for (text, expected) in table.into_iter().chain(wrong) {
        assert_eq!(percent(text), expected, "{text}");
    }
}

#[test]
fn durations() {
    for (text, seconds) in [
        ("1h", Some(3600.0)),
        ("1h30m", Some(5400.0)),
        ("1.5s", Some(1.5)),
        ("100ms", Some(0.1)),
        ("0", Some(0.0)),
        ("", None),
        ("1", None),
        ("h", None),
        ("-1s", None),
        ("1 h", None),
        ("1d", None),
    ] {
        assert_eq!(duration(text).map(|d| d.as_secs_f64()), seconds, "{text}");
    }
}

#[test]
fn quantities() {
    for (text, nanos) in [
        ("1", Some(NANO)),
        ("100m", Some(NANO / 10)),
        ("0.1", Some(NANO / 10)),
        (".5", Some(NANO / 2)),
        ("1.", Some(NANO)),
        ("1Ki", Some(1024 * NANO)),
        ("1.5Gi", Some(3 * 512 * 1024 * 1024 * NANO)),
        ("2k", Some(2000 * NANO)),
        ("1e3", Some(1000 * NANO)),
        ("-1n", Some(-1)),
        ("0.1n", Some(1)),
        ("1E", Some(1_000_000_000_000_000_000 * NANO)),
        ("", None),
        ("Ki", None),
        ("1kb", None),
        ("1.2.3", None),
        ("one", None),
        ("1ki", None),
    ] {
        assert_eq!(quantity_nanos(text), nanos, "{text}");
    }
}
