//! Fuzz target: whatever is posted to the webhook, only what is signed, to the last bit, is read; and reading it never fails badly.

use aws_lc_rs::hmac;
use forge::Kind;
use forge::webhook::{Delivery, Rejected, read, signature};
use model::forge::ForgeEvent;
use model::text::hexadecimal;
use secrecy::SecretString;

const SECRET: &str = "a secret of some length";
const EVENTS: [&str; 4] = ["push", "pull_request", "issue_comment", "ping"];

pub(super) fn run(input: &[u8]) {
    // Event and host, what to damage, then the body.
    let [first, second, body @ ..] = input else { return };
    let kind = if first & 4 == 0 { Kind::Gitea } else { Kind::GitHub };
    let event = EVENTS[usize::from(first & 3)];
    let secrets = [SecretString::from("another"), SecretString::from(SECRET)];
    let ask = |signature: &str, body: &[u8]| {
        let header = |name: &str| match (name, kind) {
            ("content-type", _) => Some("application/json"),
            ("x-gitea-event", Kind::Gitea) | ("x-github-event", _) => Some(event),
            ("x-gitea-signature", Kind::Gitea) | ("x-hub-signature-256", Kind::GitHub) => Some(signature),
            _ => None,
        };
        read(kind, &secrets, Some(7), Delivery { header: &header, body })
    };
    let prefix = if kind == Kind::GitHub { "sha256=" } else { "" };
    let digest = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes()), body);
    let signed = format!("{prefix}{}", hexadecimal(digest.as_ref()));

    match ask(&signed, body) {
        Ok(Some(ForgeEvent::PullRequest { .. })) => assert_eq!(event, "pull_request"),
        Ok(Some(ForgeEvent::Comment { .. })) => assert_eq!(event, "issue_comment"),
        Ok(Some(ForgeEvent::Push { branch, .. })) => assert!(event == "push" && branch.len() < body.len()),
        Ok(None) => {}
        Err(why) => assert_ne!(why, Rejected::Signature, "what is signed is read"),
    }
    if !body.is_empty() {
        let mut other = body.to_vec();
        let at = usize::from(*second) % other.len();
        other[at] ^= 1 << (first >> 5);
        assert_eq!(ask(&signed, &other), Err(Rejected::Signature), "a flipped bit");
    }
    // The sender's own idea of a signature.
    let claimed = String::from_utf8_lossy(body);
    assert_eq!(ask(&claimed, body), Err(Rejected::Signature));
    let one = |_: &str| Some(&*claimed);
    assert!(signature(kind, one).is_none() || claimed.len() >= 64);
}
