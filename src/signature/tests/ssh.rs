//! SSH.

use super::keys::Folder;
use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Makes a folder with the keys `alice` and `mallory`, and returns what lists alice alone.
fn alice() -> (Folder, String) {
    let folder = Folder::new();
    let key = folder.ssh_key("alice", &["ed25519"]);
    folder.ssh_key("mallory", &["ed25519"]);
    (folder, key)
}

fn keys(allowed: &str) -> Keys {
    Keys { ssh: Some(AllowedSigners::parse(allowed).unwrap()), ..Keys::default() }
}

#[test]
fn signatures_that_count_and_that_do_not() {
    let (folder, key) = alice();
    let now = at("2026-01-01T00:00:00Z");
    let good = folder.ssh_sign("alice", "git", COMMIT);
    let text = String::from_utf8(good.clone()).unwrap();
    let with = |change: &dyn Fn(&str) -> String| vec![change(&text).into_bytes()];
    let lines: Vec<&str> = text.lines().collect();
    let narrow = |width: usize| {
        let body: Vec<char> = lines[1..lines.len() - 1].concat().chars().collect();
        let body: Vec<String> = body.chunks(width).map(|line| line.iter().collect()).collect();
        format!("{}\n{}\n{}", lines[0], body.join("\n"), lines[lines.len() - 1])
    };
    let commit = || COMMIT.to_owned();
    let cases: Vec<Case> = vec![
        ("good", commit(), vec![good.clone()], now, "signed by alice@example.com"),
        ("good, with lines of 64", commit(), vec![narrow(64).into_bytes()], now, "signed by alice"),
        ("good, without the last line end", commit(), with(&|text| text.trim_end().to_owned()), now, "signed by alice"),
        ("unsigned", commit(), vec![], now, "is not signed"),
        ("empty", commit(), vec![vec![]], now, "it begins as none"),
        ("another tree", other_tree(), vec![good.clone()], now, "has a bad signature: what the SSH key SHA256:"),
        ("another message", other_message(), vec![good.clone()], now, "has a bad signature"),
        (
            "the signature of another commit",
            commit(),
            vec![folder.ssh_sign("alice", "git", &other_message())],
            now,
            "has a bad signature",
        ),
        (
            "a signature of a file",
            commit(),
            vec![folder.ssh_sign("alice", "file", COMMIT)],
            now,
            "of alice@example.com, but for \"file\" instead of \"git\"",
        ),
        (
            "an unknown key",
            commit(),
            vec![folder.ssh_sign("mallory", "git", COMMIT)],
            now,
            "which `source.verify` does not list",
        ),
        ("two signatures", commit(), vec![good.clone(), good.clone()], now, "has 2 signatures"),
        ("two blocks", commit(), with(&|text| format!("{text}{text}")), now, "more follows after its end"),
        ("text after the block", commit(), with(&|text| format!("{text}by alice\n")), now, "more follows"),
        ("text before the block", commit(), with(&|text| format!("by alice\n{text}")), now, "it begins as none"),
        ("a block in the block", commit(), with(&|t| t.replacen('\n', "\n-----BEGIN X-----\n", 1)), now, "another one"),
        ("truncated", commit(), with(&|text| text[..text.len() / 2].to_owned()), now, "its end is missing"),
        (
            "lines are missing",
            commit(),
            vec![[lines[0], lines[1], lines[lines.len() - 1]].join("\n").into_bytes()],
            now,
            "cannot be read",
        ),
        (
            "nothing between",
            commit(),
            with(&|_| format!("{}\n{}", lines[0], lines[lines.len() - 1])),
            now,
            "cannot be read",
        ),
        ("no base64", commit(), with(&|text| text.replace('A', "%")), now, "cannot be read"),
        ("no text", commit(), vec![vec![0xff; 100]], now, "it is no text"),
        ("huge", commit(), vec![vec![b'A'; SIGNATURE_BYTES_MAX + 1]], now, "has a signature of 16385 bytes"),
        (
            "a kind of which no keys count",
            commit(),
            vec![b"-----BEGIN PGP SIGNATURE-----\n\n-----END PGP SIGNATURE-----".to_vec()],
            now,
            "with a key of OpenPGP, and `source.verify` names none of that kind",
        ),
        (
            "X.509",
            commit(),
            vec![b"-----BEGIN SIGNED MESSAGE-----\nMAA=\n-----END SIGNED MESSAGE-----".to_vec()],
            now,
            "with a key of X.509, and `source.verify` names none of that kind",
        ),
    ];
    check_all(cases, &keys(&format!("# who may sign\n\nalice@example.com {key} her laptop\n")));
}

#[test]
fn lines_that_let_a_key_sign_and_that_do_not() {
    let (folder, key) = alice();
    let good = vec![folder.ssh_sign("alice", "git", COMMIT)];
    let now = at("2026-06-15T12:00:00Z");
    for (line, wanted) in [
        ("* KEY", "signed by *"),
        ("*@example.com KEY", "signed by *@example.com"),
        ("alice,bob@example.com\tKEY", "signed by alice,bob@example.com"),
        ("\"alice of platform\" KEY", "signed by alice of platform"),
        ("alice namespaces=\"git\" KEY", "signed by alice"),
        ("alice namespaces=\"file,git\" KEY two words", "signed by alice"),
        ("alice namespaces=\"g?t\" KEY", "signed by alice"),
        ("alice namespaces=\"*\" KEY", "signed by alice"),
        ("alice Namespaces=\"git\",valid-after=\"20260101\" KEY", "signed by alice"),
        ("alice namespaces=\"file\" KEY", "of alice, whose `namespaces` lack \"git\""),
        ("alice namespaces=\"*,!git\" KEY", "whose `namespaces` lack \"git\""),
        ("alice namespaces=\"\" KEY", "whose `namespaces` lack \"git\""),
        ("alice valid-before=\"20260616\" KEY", "signed by alice"),
        ("alice valid-before=\"20260615\" KEY", "of alice, which was valid only before 2026-06-15T00:00:00Z"),
        ("alice valid-before=\"202606151201\" KEY", "signed by alice"),
        ("alice valid-before=\"202606151159Z\" KEY", "which was valid only before 2026-06-15T11:59:00Z"),
        ("alice valid-before=\"20260615115959Z\" KEY", "which was valid only before"),
        ("alice valid-after=\"20260616\" KEY", "which is valid only after 2026-06-16T00:00:00Z"),
        ("old valid-before=\"20250101\" KEY\nnew valid-after=\"20250101\" KEY", "signed by new"),
        ("old valid-before=\"20250101\" KEY\nother namespaces=\"file\" KEY", "of other, whose"),
    ] {
        let said = said(COMMIT, &good, &keys(&line.replace("KEY", &key)), now);
        assert!(said.contains(wanted), "{line}: {said}");
    }
}

#[test]
fn kinds_of_keys() {
    let folder = Folder::new();
    let now = at("2026-01-01T00:00:00Z");
    for (name, kind) in [
        ("rsa", &["rsa", "-b", "2048"][..]),
        ("p256", &["ecdsa", "-b", "256"]),
        ("p384", &["ecdsa", "-b", "384"]),
        ("p521", &["ecdsa", "-b", "521"]),
    ] {
        let keys = keys(&format!("{name} {}", folder.ssh_key(name, kind)));
        let good = vec![folder.ssh_sign(name, "git", COMMIT)];
        assert_eq!(said(COMMIT, &good, &keys, now), format!("signed by {name}"));
        assert!(said(&other_tree(), &good, &keys, now).contains("bad signature"), "{name}");
    }
}

#[test]
fn files_that_are_wrong() {
    let (folder, key) = alice();
    let short = folder.ssh_key("short", &["rsa", "-b", "1024"]);
    let type_of_key = key.split(' ').next().unwrap();
    for (text, wanted) in [
        (String::new(), "it lists no signer"),
        ("# nobody\n".to_owned(), "it lists no signer"),
        ("alice".to_owned(), "line 1: has no key"),
        (format!("ok {key}\n\nalice {type_of_key}"), "line 3: has no key"),
        (format!("alice {type_of_key} AAAA"), "line 1: has a key that cannot be read"),
        (format!("alice {}", key.replace("ssh-ed25519", "ssh-rsa")), "line 1: has a key that cannot be read"),
        (format!("alice no-touch {key}"), "line 1: has an unknown option \"no-touch\""),
        (format!("alice valid-before=\"tomorrow\" {key}"), "line 1: has a time \"tomorrow\""),
        (format!("alice valid-before=\"20261301\" {key}"), "line 1: has a time \"20261301\""),
        (format!("alice valid-after=\"2026\" {key}"), "line 1: has a time \"2026\""),
        (format!("alice {short}"), "line 1: has an RSA key of 1024 bits"),
    ] {
        let errors = AllowedSigners::parse(&text).unwrap_err();
        assert!(errors.join("; ").contains(wanted), "{text}: {errors:?}");
    }
    let errors = AllowedSigners::parse(&format!("a b\nok {key}\nc d\n")).unwrap_err();
    assert_eq!(errors.len(), 2, "all lines at once: {errors:?}");
}

#[test]
fn no_bit_of_a_signature_may_differ() {
    let (folder, key) = alice();
    let keys = keys(&format!("alice {key}"));
    for (bit, signature) in flipped(&folder.ssh_sign("alice", "git", COMMIT)).into_iter().enumerate() {
        let said = said(COMMIT, &[signature], &keys, at("2026-01-01T00:00:00Z"));
        assert!(!said.starts_with("signed"), "bit {bit}: {said}");
    }
}

#[test]
fn certificates_of_a_listed_authority_count() {
    let folder = Folder::new();
    let authority = folder.ssh_key("authority", &["ed25519"]);
    let other = folder.ssh_key("other", &["ecdsa", "-b", "384"]);
    let key = folder.ssh_key("alice", &["ed25519"]);
    let now = at("2026-06-15T12:00:00Z");
    let forever = "20260101Z:20270101Z";
    let mut made = 0;
    let mut signed = |by: &str, people: &str, time: &str, more: &[&str]| {
        made += 1;
        let name = format!("certified-{made}");
        folder.ssh_certify("alice", &name, by, &[&["-n", people, "-V", time], more].concat());
        vec![folder.ssh_sign(&name, "git", COMMIT)]
    };
    let listed = format!("*@example.com cert-authority,namespaces=\"git\" {authority}");
    let good = signed("authority", "alice@example.com", forever, &[]);
    let two = signed("authority", "alice@elsewhere.example,alice@example.com", forever, &[]);
    let rows = [
        ("good", good.clone(), listed.clone(), "signed by alice@example.com"),
        ("one of two people", two, listed.clone(), "signed by alice@example.com"),
        ("another authority", signed("other", "alice@example.com", forever, &[]), listed.clone(), "does not list"),
        ("both authorities", good.clone(), format!("x cert-authority {other}\n{listed}"), "signed by alice"),
        (
            "somebody else",
            signed("authority", "bob", forever, &[]),
            listed.clone(),
            "which names bob, and its authority counts for *@",
        ),
        (
            "excluded",
            good.clone(),
            format!("*,!alice@* cert-authority {authority}"),
            "which names alice@example.com, and",
        ),
        (
            "past",
            signed("authority", "alice@example.com", "20260101Z:20260601Z", &[]),
            listed.clone(),
            "valid only before 2026-06-01T00:00:00Z",
        ),
        (
            "ahead",
            signed("authority", "alice@example.com", "20260701Z:20270101Z", &[]),
            listed.clone(),
            "valid only after 2026-07-01T00:00:00Z",
        ),
        (
            "of a host",
            signed("authority", "alice@example.com", forever, &["-h"]),
            listed.clone(),
            "which is one of a host",
        ),
        (
            "restricted",
            signed("authority", "alice@example.com", forever, &["-O", "force-command=ls"]),
            listed.clone(),
            "restricted by \"force-command\"",
        ),
        (
            "without an end",
            signed("authority", "alice@example.com", "always:forever", &[]),
            listed.clone(),
            "it has no end",
        ),
        (
            "the authority is no longer valid",
            good.clone(),
            format!("* cert-authority,valid-before=\"20260601\" {authority}"),
            "valid only before 2026-06-01",
        ),
        ("for files", good.clone(), format!("* cert-authority,namespaces=\"file\" {authority}"), "lack \"git\""),
        ("the authority as a key", good.clone(), format!("* {authority}"), "does not list"),
        ("the key without its certificate", good.clone(), format!("alice {key}"), "does not list"),
        ("no certificate", vec![folder.ssh_sign("alice", "git", COMMIT)], listed.clone(), "does not list"),
        ("the authority itself", vec![folder.ssh_sign("authority", "git", COMMIT)], listed.clone(), "does not list"),
    ];
    for (name, signature, lines, wanted) in rows {
        let said = said(COMMIT, &signature, &keys(&lines), now);
        assert!(said.contains(wanted), "{name}: {said}");
    }
    let keys = keys(&listed);
    assert!(said(&other_tree(), &good, &keys, now).contains("bad signature"));
    // A prime step meets every field of the certificate, and every place in a byte.
    for (bit, signature) in flipped(&good[0]).into_iter().enumerate().step_by(11) {
        let said = said(COMMIT, &[signature], &keys, now);
        assert!(!said.starts_with("signed"), "bit {bit}: {said}");
    }
}
