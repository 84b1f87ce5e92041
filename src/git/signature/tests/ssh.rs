//! SSH.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

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
#[ignore = "needs ssh-keygen"]
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
#[ignore = "needs ssh-keygen"]
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
#[ignore = "needs ssh-keygen"]
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
#[ignore = "needs ssh-keygen"]
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
#[ignore = "needs ssh-keygen"]
fn no_bit_of_a_signature_may_differ() {
    let (folder, key) = alice();
    let keys = keys(&format!("alice {key}"));
    for (bit, signature) in flipped(&folder.ssh_sign("alice", "git", COMMIT)).into_iter().enumerate() {
        let said = said(COMMIT, &[signature], &keys, at("2026-01-01T00:00:00Z"));
        assert!(!said.starts_with("signed"), "bit {bit}: {said}");
    }
}

/// When the certificates of tests are valid.
const YEAR: &str = "20260101Z:20270101Z";

/// Has an authority certify a key for people; returns its signature with the certificate.
fn certified(folder: &Folder, key: &str, by: &str, people: &[&str], time: &str, more: &[&str]) -> Vec<Vec<u8>> {
    // A person's name may be longer than that of a file.
    let names: String = people.concat().chars().take(30).collect();
    let name = format!("{key}-{by}-{names}{time}{}", more.concat()).replace(['@', '=', ':', ','], "-");
    let people = if people.is_empty() { Vec::new() } else { vec!["-n", people[0]] };
    folder.ssh_certify(key, &name, by, &[&people[..], &["-V", time], more].concat());
    vec![folder.ssh_sign(&name, "git", COMMIT)]
}

#[test]
#[ignore = "needs ssh-keygen"]
fn certificates_of_a_listed_authority_count() {
    let folder = Folder::new();
    let authority = folder.ssh_key("authority", &["ed25519"]);
    let other = folder.ssh_key("other", &["ecdsa", "-b", "384"]);
    let key = folder.ssh_key("alice", &["ed25519"]);
    folder.ssh_key("short", &["rsa", "-b", "1024"]);
    let alice = "alice@example.com";
    let of = |people: &[&str], time: &str, more: &[&str]| certified(&folder, "alice", "authority", people, time, more);
    let (good, strange) = (of(&[alice], YEAR, &[]), certified(&folder, "alice", "other", &[alice], YEAR, &[]));
    let listed = format!("*@example.com cert-authority,namespaces=\"git\" {authority}");
    let rows = [
        ("good", good.clone(), "signed by alice@example.com"),
        ("one of two people", of(&["a@elsewhere.example,alice@example.com"], YEAR, &[]), "signed by alice@example.com"),
        ("another authority", strange, "with a certificate of an authority that `source.verify` does not list"),
        ("somebody else", of(&["bob"], YEAR, &[]), "whose certificate names bob; its authority is listed for *@"),
        ("nobody", of(&[], YEAR, &[]), "whose certificate names nobody; its"),
        ("somebody with a long name", of(&[&format!("{}@example.com", "a".repeat(300))], YEAR, &[]), "names aaaa"),
        ("past", of(&[alice], "20260101Z:20260601Z", &[]), "was valid only before 2026-06-01T00:00:00Z"),
        ("ahead", of(&[alice], "20260701Z:20270101Z", &[]), "is valid only after 2026-07-01T00:00:00Z"),
        ("of a host", of(&[alice], YEAR, &["-h"]), "whose certificate is for a host"),
        ("restricted", of(&[alice], YEAR, &["-O", "force-command=ls"]), "restricted by \"force-command\""),
        ("without an end", of(&[alice], "always:forever", &[]), "it has no end"),
        ("a short key", certified(&folder, "short", "authority", &[alice], YEAR, &[]), "has a bad signature"),
        ("no certificate", vec![folder.ssh_sign("alice", "git", COMMIT)], "which `source.verify` does not list"),
        ("the authority", vec![folder.ssh_sign("authority", "git", COMMIT)], "which `source.verify` does not list"),
    ];
    let now = at("2026-06-15T12:00:00Z");
    for (name, signature, wanted) in rows {
        let said = said(COMMIT, &signature, &keys(&listed), now);
        assert!(said.contains(wanted), "{name}: {said}");
    }
    for (line, wanted) in [
        (format!("x cert-authority {other}\n{listed}"), "signed by alice@example.com"),
        (format!("*,!alice@* cert-authority {authority}"), "whose certificate names alice@example.com; its"),
        (format!("* cert-authority,valid-before=\"20260601\" {authority}"), "valid only before 2026-06-01"),
        (format!("* cert-authority,valid-after=\"20260701\" {authority}"), "valid only after 2026-07-01"),
        (format!("* cert-authority,namespaces=\"file\" {authority}"), "lack \"git\""),
        (format!("* {authority}"), "an authority that `source.verify` does not list"),
        (format!("alice {key}"), "an authority that `source.verify` does not list"),
    ] {
        let said = said(COMMIT, &good, &keys(&line), now);
        assert!(said.contains(wanted), "{line}: {said}");
    }
}

#[test]
#[ignore = "needs ssh-keygen"]
fn kinds_of_certified_keys_and_of_authorities() {
    let folder = Folder::new();
    let kinds = [("ed", &["ed25519"][..]), ("p256", &["ecdsa", "-b", "256"]), ("rsa", &["rsa", "-b", "2048"])];
    let public = kinds.map(|(name, kind)| (name, folder.ssh_key(name, kind)));
    for ((authority, line), (key, _)) in public.iter().zip(public.iter().cycle().skip(1)) {
        let keys = keys(&format!("* cert-authority {line}"));
        let good = certified(&folder, key, authority, &["alice"], YEAR, &[]);
        let now = at("2026-06-15T12:00:00Z");
        assert_eq!(said(COMMIT, &good, &keys, now), "signed by alice", "{key} by {authority}");
        assert!(said(&other_tree(), &good, &keys, now).contains("bad signature"), "{key} by {authority}");
        // A prime step meets every field of the certificate, and every place in a byte.
        for (bit, signature) in flipped(&good[0]).into_iter().enumerate().step_by(31) {
            let said = said(COMMIT, &[signature], &keys, now);
            assert!(!said.starts_with("signed"), "{key} by {authority}, bit {bit}: {said}");
        }
    }
}

#[test]
#[ignore = "needs ssh-keygen"]
fn certificates_of_unknown_types_are_refused() {
    let (folder, key) = alice();
    drop(folder);
    let string = |bytes: &[u8]| [&u32::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat();
    let authority = [string(b"ssh-ed25519"), string(&[1; 32])].concat();
    let signature = [string(b"ssh-ed25519"), string(&[1; 64])].concat();
    for kind in ["-cert-v01@openssh.com", "x-cert-v01@openssh.com", "ssh-dss-cert-v01@openssh.com"] {
        let numbers = [&[0; 8][..], &1_u32.to_be_bytes()].concat();
        let times = [&[0; 8][..], &1_u64.to_be_bytes()].concat();
        let (empty, key_of) = (string(b""), string(b"key"));
        let certificate = [
            string(kind.as_bytes()),
            string(b"nonce"),
            key_of,
            numbers,
            empty.clone(),
            empty.clone(),
            times,
            empty.clone(),
            empty.clone(),
            empty,
            string(&authority),
            string(&signature),
        ]
        .concat();
        let blob = [
            b"SSHSIG".to_vec(),
            1_u32.to_be_bytes().to_vec(),
            string(&certificate),
            string(b"git"),
            string(b""),
            string(b"sha512"),
            string(&signature),
        ]
        .concat();
        let text = format!("-----BEGIN SSH SIGNATURE-----\n{}\n-----END SSH SIGNATURE-----\n", STANDARD.encode(blob));
        let said = said(COMMIT, &[text.into_bytes()], &keys(&format!("* {key}")), at("2026-01-01T00:00:00Z"));
        assert!(said.contains("it is of a type that is not supported"), "{kind}: {said}");
    }
}
