//! Parses webhook deliveries: verifies the signature over the raw bytes, then reads the few fields that name the event.
//!
//! The state itself is read again. Two facts cannot be read later, and come from the signed delivery: the text of a comment at
//! its creation, and who pushed. Works on values only.

use aws_lc_rs::hmac;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::Kind;
use model::forge::{ForgeEvent, ForgeUser, Pushed, Said};
use model::id::{CommitId, Digest};

/// Largest delivery in bytes. GitHub sends at most 25 MiB, and what is dropped here is found by polling.
pub const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Longest name of a branch that is passed on, in bytes; git's own limit is that of file names.
const BRANCH_BYTES_MAX: usize = 4096;
/// Longest name of an account that is kept, in bytes; both hosts allow 39 to 40 characters.
const LOGIN_BYTES_MAX: usize = 255;
/// Hexadecimal digits of an HMAC-SHA256.
const SIGNATURE_DIGITS: usize = 64;

/// Why a delivery is dropped. The sender is not told the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// It is not signed with a secret of gitfleet.
    Signature,
    /// It is another host's.
    OtherHost,
    /// It is about another repository.
    OtherRepository,
    /// It is no JSON, or none of a webhook.
    Malformed,
}

/// A delivery as it came.
#[derive(Clone, Copy)]
pub struct Delivery<'a> {
    /// Returns a header's value by its name in lower case.
    pub header: &'a dyn Fn(&str) -> Option<&'a str>,
    /// The bytes of the body, before anything read them.
    pub body: &'a [u8],
}

/// Returns the signature that a delivery claims to have; `None` where it cannot be one. Costs nothing: it needs no body.
///
/// Source: GitHub, "Validating webhook deliveries" (`sha256=` and digits); Gitea, "Webhooks" (digits alone).
pub fn signature<'a>(kind: Kind, header: impl Fn(&str) -> Option<&'a str>) -> Option<[u8; 32]> {
    let digits = match kind {
        Kind::GitHub => header("x-hub-signature-256")?.strip_prefix("sha256=")?,
        Kind::Gitea => header("x-gitea-signature").or_else(|| header("x-forgejo-signature"))?,
    };
    if digits.len() != SIGNATURE_DIGITS || !digits.is_ascii() {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = hex_digit(pair[0])? * 16 + hex_digit(pair[1])?;
    }
    Some(bytes)
}

fn hex_digit(digit: u8) -> Option<u8> {
    u8::try_from(char::from(digit).to_digit(16)?).ok()
}

/// Parses a delivery for the repository with this id, if known yet; `None` for a signed but irrelevant one.
pub fn read(
    kind: Kind,
    secrets: &[SecretString],
    repository: Option<u64>,
    delivery: Delivery<'_>,
) -> Result<Option<ForgeEvent>, Rejected> {
    let signature = signature(kind, delivery.header).ok_or(Rejected::Signature)?;
    if !verify(secrets, &signature, delivery.body) {
        return Err(Rejected::Signature);
    }
    // Gitea also sends the headers of GitHub, so its own decide.
    let gitea = (delivery.header)("x-gitea-event").or_else(|| (delivery.header)("x-forgejo-event"));
    let event = match kind {
        Kind::Gitea => gitea,
        Kind::GitHub if gitea.is_some() => return Err(Rejected::OtherHost),
        Kind::GitHub => (delivery.header)("x-github-event"),
    };
    // Gitea signs the JSON in a form and not the bytes that are sent, so nothing but JSON is taken.
    let is_json = (delivery.header)("content-type").is_some_and(|type_| {
        type_.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
    });
    if !is_json {
        return Err(Rejected::Malformed);
    }
    parse(event.ok_or(Rejected::OtherHost)?, repository, delivery.body)
}

/// Tells whether a body is signed with one of the secrets. The duration reveals nothing about them. An empty secret is never
/// valid: everybody knows it.
pub fn verify(secrets: &[SecretString], signature: &[u8; 32], body: &[u8]) -> bool {
    let mut is_signed = false;
    // All are tried, also after the one that signed it.
    for secret in secrets {
        let secret = secret.expose_secret().as_bytes();
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        is_signed |= !secret.is_empty() && hmac::verify(&key, body, signature).is_ok();
    }
    is_signed
}

#[derive(Deserialize)]
struct Payload {
    #[serde(default, rename = "ref")]
    reference: Option<String>,
    #[serde(default)]
    after: Option<String>,
    #[serde(default)]
    action: Option<String>,
    #[serde(default)]
    number: Option<u64>,
    #[serde(default)]
    repository: Option<Id>,
    #[serde(default)]
    issue: Option<Issue>,
    #[serde(default)]
    comment: Option<Written>,
    #[serde(default)]
    pull_request: Option<Pull>,
    /// Who did it.
    #[serde(default)]
    sender: Option<Account>,
}

#[derive(Deserialize)]
struct Id {
    id: u64,
}

#[derive(Deserialize)]
struct Issue {
    number: u64,
}

#[derive(Deserialize)]
struct Written {
    id: u64,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    user: Option<Account>,
}

#[derive(Deserialize)]
struct Pull {
    #[serde(default)]
    head: Option<Head>,
}

#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    sha: Option<String>,
}

#[derive(Deserialize)]
struct Account {
    /// Gitea: negative for an account that is gone.
    #[serde(default)]
    id: i64,
    #[serde(default)]
    login: String,
}

impl Account {
    fn id(&self) -> Option<u64> {
        u64::try_from(self.id).ok().filter(|id| *id > 0)
    }
}

/// Returns who pushed which commit, where the delivery says both.
fn pushed(commit: Option<String>, sender: Option<Account>) -> Option<Pushed> {
    let commit = commit.filter(|commit| is_commit_id(commit))?;
    let sender = sender?;
    let login = Some(sender.login.clone()).filter(|login| login.len() <= LOGIN_BYTES_MAX)?;
    Some(Pushed { commit: CommitId::new(commit), by: ForgeUser { id: sender.id()?, login, is_bot: false } })
}

/// Tells whether a text is the id of a commit, and not the zeros that stand for none.
fn is_commit_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit()) && text.bytes().any(|b| b != b'0')
}

/// Returns a comment's text at its creation. If another account sent it than wrote it, there is no proof.
fn written_comment(comment: &Written, sender: Option<&Account>) -> Option<Said> {
    let author = comment.user.as_ref().and_then(Account::id)?;
    if sender.is_some_and(|sender| sender.id() != Some(author)) {
        return None;
    }
    let body = text_digest(comment.body.as_ref()?);
    Some(Said { author, body })
}

/// Returns the digest of a comment's text.
pub fn text_digest(text: &str) -> Digest {
    Digest::new(format!("{:x}", Sha256::digest(text)))
}

/// Reads the body of a delivery whose signature is right.
pub fn parse(event: &str, repository: Option<u64>, body: &[u8]) -> Result<Option<ForgeEvent>, Rejected> {
    // Gitea's `pull_request_comment` is a comment on code: commands stand in the conversation alone.
    if !matches!(event, "push" | "pull_request" | "issue_comment") {
        return Ok(None);
    }
    let payload: Payload = serde_json::from_slice(body).map_err(|_| Rejected::Malformed)?;
    let from = payload.repository.ok_or(Rejected::Malformed)?.id;
    if repository.is_some_and(|ours| ours != from) {
        return Err(Rejected::OtherRepository);
    }
    let action = payload.action.as_deref();
    Ok(match event {
        "push" => {
            let branch = payload.reference.as_deref().ok_or(Rejected::Malformed)?.strip_prefix("refs/heads/");
            let branch = branch.filter(|branch| branch.len() <= BRANCH_BYTES_MAX).map(str::to_owned);
            branch.map(|branch| ForgeEvent::Push { branch, pushed: pushed(payload.after, payload.sender) })
        }
        "pull_request" => {
            let number = payload.number.ok_or(Rejected::Malformed)?;
            // GitHub's word, and Gitea's.
            let is_push = matches!(action, Some("synchronize" | "synchronized"));
            let head = if is_push { payload.pull_request.and_then(|pull| pull.head?.sha) } else { None };
            Some(ForgeEvent::PullRequest { number, pushed: pushed(head, payload.sender) })
        }
        _ if matches!(action, Some("created" | "edited")) => {
            let (issue, comment) = payload.issue.zip(payload.comment).ok_or(Rejected::Malformed)?;
            // The text after an edit may not be its author's: only the id of an edited comment is used.
            let is_new = action == Some("created");
            let said = if is_new { written_comment(&comment, payload.sender.as_ref()) } else { None };
            Some(ForgeEvent::Comment { thread: issue.number, id: comment.id, said })
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests;
