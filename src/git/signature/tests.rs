//! With keys and signatures that ssh-keygen, gpg and openssl make.

mod cosign;
mod keys;
mod openpgp;
mod ssh;
mod x509;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;

/// A commit as git writes it, without its signature.
const COMMIT: &str = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor a <a@example.com> 1700000000 +0000\ncommitter a \
                      <a@example.com> 1700000000 +0000\n\nchange\n";

/// Returns what is said about a commit: the signer's name, or why it is refused.
fn said(commit: &str, signatures: &[Vec<u8>], keys: &Keys, now: Timestamp) -> String {
    match check(commit.as_bytes(), signatures, keys, now) {
        Ok(signer) => format!("signed by {}", signer.name),
        Err(refusal) => refusal.to_string(),
    }
}

/// A case: what it is called, the commit, its signatures, when it is checked, and words of the answer.
type Case = (&'static str, String, Vec<Vec<u8>>, Timestamp, &'static str);

fn check_all(cases: Vec<Case>, keys: &Keys) {
    for (name, commit, signatures, now, wanted) in cases {
        let said = said(&commit, &signatures, keys, now);
        assert!(said.contains(wanted), "{name}: {said}");
    }
}

/// Returns the block of a signature with each of its bits flipped in turn, without the checksum that would tell.
fn flipped(block: &[u8]) -> Vec<Vec<u8>> {
    let text = String::from_utf8(block.to_vec()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let body: String = lines[1..lines.len() - 1].iter().filter(|line| !line.starts_with('=')).copied().collect();
    let bytes = STANDARD.decode(body).unwrap();
    let flip = |bit: usize| {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let blank = if text.contains("PGP") { "\n" } else { "" };
        format!("{}\n{blank}{}\n{}\n", lines[0], STANDARD.encode(bytes), lines[lines.len() - 1]).into_bytes()
    };
    (0..bytes.len() * 8).map(flip).collect()
}

/// Returns a commit with another tree.
fn other_tree() -> String {
    COMMIT.replace("4b825dc6", "5b825dc6")
}

/// Returns a commit with another message.
fn other_message() -> String {
    COMMIT.replace("change", "changed")
}

#[test]
fn complaints_name_commits_and_keys() {
    let id = |digit: char| CommitId::new(digit.to_string().repeat(40));
    let key = KeyName { kind: SignatureKind::Ssh, fingerprint: "SHA256:abc".to_owned() };
    let signer = Signer { key: key.clone(), name: "alice".to_owned() };
    let ids: Vec<CommitId> = ('1'..='4').map(id).collect();
    let refusals = [
        Err(SignatureRefusal::Unsigned),
        Ok(signer.clone()),
        Err(SignatureRefusal::Unknown(key)),
        Err(SignatureRefusal::NotValid(signer, "which is revoked".to_owned())),
    ];
    let said: Vec<String> = complaints(ids.iter().zip(refusals)).iter().map(ToString::to_string).collect();
    let short = |digit: &str| digit.repeat(CommitId::new("1".repeat(40)).short().len());
    assert_eq!(said.len(), 3, "{said:?}");
    for (line, digit, words) in [
        (0, "1", "is not signed (sign it"),
        (1, "3", "is signed with the SSH key SHA256:abc, which `source.verify` does not list"),
        (2, "4", "is signed with the SSH key SHA256:abc of alice, which is revoked"),
    ] {
        let begin = format!("commit {}: {words}", short(digit));
        assert!(said[line].starts_with(&begin), "{begin}: {}", said[line]);
    }
    let many: Vec<CommitId> = (0..NAMED_MAX + 5).map(|number| CommitId::new(format!("{number:040}"))).collect();
    let said = complaints(many.iter().map(|commit| (commit, Err(SignatureRefusal::Unsigned))));
    assert_eq!(said.len(), NAMED_MAX + 1);
    assert!(said[NAMED_MAX].to_string().contains("5 more commits are refused"), "{}", said[NAMED_MAX]);
    assert_eq!(complaints([]), []);
}
