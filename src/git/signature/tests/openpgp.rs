//! OpenPGP.

use jiff::SignedDuration;

use super::keys::Folder;
use super::*;

fn keys(exported: &[u8]) -> Keys {
    Keys { ssh: None, openpgp: Some(Keyring::parse(exported).unwrap()), ..Keys::default() }
}

fn days(count: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * count)
}

#[test]
#[ignore = "needs gpg"]
fn signatures_that_count_and_that_do_not() {
    let folder = Folder::new();
    let now = system::clock::wall() + SignedDuration::from_mins(1);
    let (alice, bob) =
        (folder.gpg_key("Alice <alice@example.com>", "30d"), folder.gpg_key("Bob <bob@example.com>", "never"));
    let mallory = folder.gpg_key("Mallory <mallory@example.com>", "never");
    let good = folder.gpg_sign(&alice, &[], COMMIT);
    let text = String::from_utf8(good.clone()).unwrap();
    let signed = |more: &[&str]| vec![folder.gpg_sign(&alice, more, COMMIT)];
    let tomorrow = (now + days(1)).strftime("%Y%m%dT%H%M%S!").to_string();
    let commit = || COMMIT.to_owned();
    let cases: Vec<Case> = vec![
        ("good", commit(), vec![good.clone()], now, "signed by Alice <alice@example.com>"),
        ("another key that counts", commit(), vec![folder.gpg_sign(&bob, &[], COMMIT)], now, "signed by Bob"),
        ("by another strong hash", commit(), signed(&["--digest-algo", "SHA256"]), now, "signed by Alice"),
        ("another tree", other_tree(), vec![good.clone()], now, "has a bad signature: what the OpenPGP key"),
        ("another message", other_message(), vec![good.clone()], now, "has a bad signature"),
        (
            "the signature of another commit",
            commit(),
            vec![folder.gpg_sign(&alice, &[], &other_message())],
            now,
            "has a bad signature",
        ),
        (
            "an unknown key",
            commit(),
            vec![folder.gpg_sign(&mallory, &[], COMMIT)],
            now,
            "`source.verify` does not list",
        ),
        ("SHA-1", commit(), signed(&["--digest-algo", "SHA1"]), now, "by the hash SHA1, which is too weak"),
        ("RIPEMD-160", commit(), signed(&["--digest-algo", "RIPEMD160"]), now, "which is too weak"),
        ("a text", commit(), signed(&["--textmode"]), now, "in a way that is not the one of commits"),
        ("two signers in a block", commit(), signed(&["-u", &bob]), now, "has 2 signatures"),
        ("two signatures", commit(), vec![good.clone(), good.clone()], now, "has 2 signatures"),
        ("two blocks", commit(), vec![[good.clone(), good.clone()].concat()], now, "more follows after its end"),
        ("truncated", commit(), vec![text.as_bytes()[..text.len() / 2].to_vec()], now, "its end is missing"),
        ("without its middle", commit(), vec![without_middle(&text).into_bytes()], now, "cannot be read"),
        ("an expired key", commit(), vec![good.clone()], now + days(31), "which is expired"),
        (
            "an expired signature",
            commit(),
            signed(&["--default-sig-expire", "1d"]),
            now + days(2),
            "and the signature is expired",
        ),
        ("ahead", commit(), signed(&["--faked-system-time", &tomorrow]), now, "at a time that is ahead of this clock"),
        ("before the key was made", commit(), vec![good.clone()], now - days(2), "which is expired"),
        (
            "SSH",
            commit(),
            vec![b"-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----".to_vec()],
            now,
            "with a key of SSH, and `source.verify` names none of that kind",
        ),
    ];
    // One block after the other, as `cat` makes it, with a comment between.
    let file = [folder.gpg_export(&[&alice]), b"and Bob\n".to_vec(), folder.gpg_export(&[&bob])].concat();
    check_all(cases, &keys(&file));
    let binary = folder.gpg(&["--export", &alice, &bob], b"");
    assert_eq!(Keyring::parse(&binary).unwrap().count(), 2);
    assert!(said(COMMIT, &[good], &keys(&binary), now).starts_with("signed by Alice"));
}

/// Removes the lines of a block that have the signature, and keeps its checksum.
fn without_middle(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    [&lines[..2], &lines[lines.len() - 2..]].concat().join("\n")
}

#[test]
#[ignore = "needs gpg"]
fn revoked_keys_and_subkeys() {
    let folder = Folder::new();
    let now = system::clock::wall() + SignedDuration::from_mins(1);
    let alice = folder.gpg_key("Alice <alice@example.com>", "never");
    let before = folder.gpg_export(&[&alice]);
    let by_key = folder.gpg_sign(&format!("{alice}!"), &[], COMMIT);
    folder.gpg(&["--quick-add-key", &alice, "ed25519", "sign", "10d"], b"");
    let with_subkey = folder.gpg_export(&[&alice]);
    // gpg takes the newest key that signs.
    let by_subkey = folder.gpg_sign(&alice, &[], COMMIT);
    let said_with = |exported: &[u8], signature: &[u8], now| said(COMMIT, &[signature.to_vec()], &keys(exported), now);
    assert!(said_with(&with_subkey, &by_key, now).starts_with("signed by Alice"));
    assert!(said_with(&with_subkey, &by_subkey, now).starts_with("signed by Alice"));
    assert!(said_with(&with_subkey, &by_subkey, now + days(11)).contains("which is expired"), "the subkey is");
    assert!(said_with(&with_subkey, &by_key, now + days(11)).starts_with("signed by Alice"), "its key is not");
    let unknown = said_with(&before, &by_subkey, now);
    assert!(unknown.contains("`source.verify` does not list"), "an old export lacks the subkey: {unknown}");

    folder.gpg(
        &["--command-fd", "0", "--no-batch", "--no-tty", "--edit-key", &alice],
        b"key 1\nrevkey\ny\n1\n\ny\nsave\n",
    );
    let without_subkey = folder.gpg_export(&[&alice]);
    assert!(said_with(&without_subkey, &by_subkey, now).contains("which is expired, revoked"));
    assert!(said_with(&without_subkey, &by_key, now).starts_with("signed by Alice"));

    folder.gpg_revoke(&alice);
    let revoked = folder.gpg_export(&[&alice]);
    let said = said_with(&revoked, &by_key, now);
    assert!(said.contains("of Alice <alice@example.com>, which is revoked"), "{said}");
    assert!(said_with(&revoked, &by_subkey, now).contains("which is revoked"));
    // An older copy beside it does not bring it back.
    for copies in [[before.clone(), revoked.clone()], [revoked, before]] {
        assert!(said_with(&copies.concat(), &by_key, now).contains("which is revoked"));
    }
}

#[test]
#[ignore = "needs gpg"]
fn files_that_are_wrong() {
    let folder = Folder::new();
    let alice = folder.gpg_key("Alice <alice@example.com>", "never");
    let public = String::from_utf8(folder.gpg_export(&[&alice])).unwrap();
    let private = String::from_utf8(folder.gpg(&["--armor", "--export-secret-keys", &alice], b"")).unwrap();
    for (text, wanted) in [
        (String::new(), "cannot be read"),
        ("alice".to_owned(), "cannot be read"),
        ("-----BEGIN SSH SIGNATURE-----".to_owned(), "it holds no public key"),
        (private, "it holds a private key"),
        (public[..public.len() / 2].to_owned(), "key 1: its end is missing"),
        (format!("{public}{}", public.replacen("\n\n", "\n\nAAAA", 1)), "key 2: cannot be read"),
    ] {
        let errors = Keyring::parse(text.as_bytes()).unwrap_err();
        assert!(errors.join("; ").contains(wanted), "{wanted}: {errors:?}");
    }
}

#[test]
#[ignore = "needs gpg"]
fn no_bit_of_what_is_signed_may_differ() {
    let folder = Folder::new();
    let now = system::clock::wall() + SignedDuration::from_mins(1);
    let alice = folder.gpg_key("Alice <alice@example.com>", "never");
    let keys = keys(&folder.gpg_export(&[&alice]));
    let flipped = flipped(&folder.gpg_sign(&alice, &[], COMMIT));
    let all = flipped.len();
    let said = flipped.into_iter().map(|signature| said(COMMIT, &[signature], &keys, now));
    let good = said.filter(|said| said.starts_with("signed")).count();
    // What nothing signs: the key id beside the fingerprint (8 bytes with its type, 10), and the time of the first two bytes of a hash.
    assert!(good <= 80 && all > 800, "{good} of {all}");
}
