//! Signatures of SSH keys, and the file of those that count, as `ssh-keygen -Y verify` reads it.

mod certificate;
mod patterns;
mod verify;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use ssh_key::authorized_keys::ConfigOpts;
use ssh_key::public::KeyData;
use ssh_key::{Certificate, HashAlg, LineEnding, PublicKey, SshSig};

use super::{KeyName, SignatureKind, SignatureRefusal, Signer};
use crate::signature::ssh::patterns::is_among;
use crate::signature::ssh::verify::{RSA_BITS_MIN, is_signed};

/// What git signs for: a signature of a file, which anybody may have asked for, is none of a commit.
///
/// Source: git, gpg-interface.c.
const NAMESPACE: &str = "git";
/// Characters of a namespace that a message repeats: whoever signed chose it.
const NAMESPACE_CHARS_MAX: usize = 40;
/// How long a line of base64 is in a signature that ssh-keygen writes: the library reads no other length, and other programs write 64.
const LINE_CHARS: usize = 70;

/// Who may sign, by their SSH keys.
#[derive(Debug)]
pub struct AllowedSigners {
    lines: Vec<SignerLine>,
}

/// One line of the file.
#[derive(Debug)]
struct SignerLine {
    principals: String,
    /// The patterns of what the key may sign for; `None` for everything.
    namespaces: Option<String>,
    valid_after: Option<Timestamp>,
    valid_before: Option<Timestamp>,
    /// The key belongs to an authority. Keys that it certified count; the authority's key itself does not.
    is_authority: bool,
    key: PublicKey,
}

impl AllowedSigners {
    /// Reads a file of allowed signers. A time without `Z` is one of UTC.
    ///
    /// Source: ssh-keygen(1), ALLOWED SIGNERS.
    ///
    /// # Errors
    /// What is wrong, line by line. A line that is not understood is one: skipped, it would be a signer whom nobody misses until it is
    /// urgent.
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        let mut lines = Vec::new();
        let mut errors = Vec::new();
        for (number, line) in text.lines().enumerate() {
            match line.trim() {
                "" => {}
                line if line.starts_with('#') => {}
                line => match SignerLine::parse(line) {
                    Ok(line) => lines.push(line),
                    Err(why) => errors.push(format!("line {}: {why}", number + 1)),
                },
            }
        }
        if lines.is_empty() && errors.is_empty() {
            errors.push("it lists no signer".to_owned());
        }
        if errors.is_empty() { Ok(Self { lines }) } else { Err(errors) }
    }

    /// Returns how many lines it has.
    pub fn count(&self) -> usize {
        self.lines.len()
    }
}

impl SignerLine {
    fn parse(line: &str) -> Result<Self, String> {
        let fields = fields(line);
        let (principals, options, algorithm, key) = match fields[..] {
            [_] | [_, _] => return Err("has no key: write PRINCIPALS [OPTIONS] TYPE KEY".to_owned()),
            // What stands after the key is a comment.
            [principals, algorithm, key, ..] if is_key(algorithm, key) => (principals, "", algorithm, key),
            [principals, options, algorithm, key, ..] => (principals, options, algorithm, key),
            _ => return Err("has a key that cannot be read".to_owned()),
        };
        let key = PublicKey::from_openssh(&format!("{algorithm} {key}"))
            .map_err(|error| format!("has a key that cannot be read: {error}"))?;
        match key.key_data() {
            // The library writes signatures of security keys with ECDSA otherwise than ssh-keygen.
            KeyData::Dsa(_) | KeyData::SkEcdsaSha2NistP256(_) | KeyData::Other(_) => {
                return Err(format!("has a key of the type {}, which is not supported", key.algorithm()));
            }
            data => weakness(data).map_or(Ok(()), Err)?,
        }
        let principals = principals.trim_matches('"').to_owned();
        let line =
            Self { principals, namespaces: None, valid_after: None, valid_before: None, is_authority: false, key };
        line.with(options)
    }

    /// Reads the options of a line.
    fn with(mut self, options: &str) -> Result<Self, String> {
        let options = ConfigOpts::new(options).map_err(|error| format!("has options that cannot be read: {error}"))?;
        for option in options.iter() {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let value = value.trim_matches('"');
            match name.to_ascii_lowercase().as_str() {
                "namespaces" => self.namespaces = Some(value.to_owned()),
                "valid-after" => self.valid_after = Some(time(value)?),
                "valid-before" => self.valid_before = Some(time(value)?),
                "cert-authority" => self.is_authority = true,
                _ => return Err(format!("has an unknown option {name:?}")),
            }
        }
        Ok(self)
    }

    /// Tells whether it is about a key: its own, or one that its authority vouches for.
    fn is_about(&self, key: &PublicKey, certificate: Option<&Certificate>) -> bool {
        match certificate {
            None => !self.is_authority && self.key.key_data() == key.key_data(),
            Some(certificate) => self.is_authority && certificate::is_of(certificate, &self.key),
        }
    }

    /// Returns whose key it is.
    fn signer(&self, certificate: Option<&Certificate>) -> String {
        let people = certificate.map(|certificate| certificate::people(certificate, &self.principals));
        people.filter(|people| !people.is_empty()).unwrap_or_else(|| self.principals.clone())
    }

    /// Returns why it does not let a key sign commits; `None` where it does.
    fn objection(&self, certificate: Option<&Certificate>, now: Timestamp) -> Option<String> {
        if self.namespaces.as_ref().is_some_and(|patterns| !is_among(patterns, NAMESPACE)) {
            return Some(format!("whose `namespaces` lack {NAMESPACE:?}"));
        }
        match (self.valid_after, self.valid_before) {
            (Some(from), _) if now < from => Some(format!("which is valid only after {from}")),
            (_, Some(until)) if now > until => Some(format!("which was valid only before {until}")),
            _ => certificate.and_then(|certificate| certificate::objection(certificate, &self.principals, now)),
        }
    }
}

/// Splits a line at blanks outside quotes.
fn fields(line: &str) -> Vec<&str> {
    let mut is_quoted = false;
    let fields = line.split(|c: char| {
        is_quoted ^= c == '"';
        !is_quoted && c.is_ascii_whitespace()
    });
    fields.filter(|field| !field.is_empty()).collect()
}

fn is_key(algorithm: &str, key: &str) -> bool {
    PublicKey::from_openssh(&format!("{algorithm} {key}")).is_ok()
}

/// Reads `YYYYMMDD[HHMM[SS]][Z]`.
fn time(text: &str) -> Result<Timestamp, String> {
    time_of(text.strip_suffix('Z').unwrap_or(text))
        .ok_or_else(|| format!("has a time {text:?}: write YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS, in UTC"))
}

/// Reads `YYYYMMDD[HHMM[SS]]`.
fn time_of(digits: &str) -> Option<Timestamp> {
    if ![8, 12, 14].contains(&digits.len()) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let year = digits[..4].parse().ok()?;
    let month = number(digits, 4)?;
    let day = number(digits, 6)?;
    let civil = DateTime::new(year, month, day, number(digits, 8)?, number(digits, 10)?, number(digits, 12)?, 0);
    TimeZone::UTC.to_timestamp(civil.ok()?).ok()
}

/// Returns the number of two digits; zero where the digits end before it.
fn number(digits: &str, at: usize) -> Option<i8> {
    digits.get(at..at + 2).map_or(Some(0), |number| number.parse().ok())
}

/// Returns why a key is too weak; `None` where it is not.
fn weakness(key: &KeyData) -> Option<String> {
    let bits = key.rsa()?.n.as_positive_bytes().map_or(0, |bytes| bytes.len() * 8);
    (bits < RSA_BITS_MIN).then(|| format!("has an RSA key of {bits} bits, fewer than {RSA_BITS_MIN}"))
}

/// Checks a signature; see [`super::check`].
pub(super) fn check(
    payload: &[u8],
    text: &str,
    allowed: &AllowedSigners,
    now: Timestamp,
) -> Result<Signer, SignatureRefusal> {
    let certified = certificate::read(text).map_err(SignatureRefusal::Unreadable)?;
    let text = certified.as_ref().map_or(text, |certified| &certified.plain);
    let certificate = certified.as_ref().map(|certified| &certified.certificate);
    let signature = SshSig::from_pem(wrapped(text)).map_err(|error| SignatureRefusal::Unreadable(error.to_string()))?;
    // The library reads versions that there never were, and lengths that do not fit.
    let written = signature.to_pem(LineEnding::LF).map_err(|error| SignatureRefusal::Unreadable(error.to_string()))?;
    if signature.version() != SshSig::VERSION || without_blanks(&written) != without_blanks(text) {
        return Err(SignatureRefusal::Unreadable("it is not as ssh-keygen writes it".to_owned()));
    }
    let key = PublicKey::from(signature.public_key().clone());
    let name = KeyName { kind: SignatureKind::Ssh, fingerprint: key.fingerprint(HashAlg::Sha256).to_string() };
    let listed: Vec<&SignerLine> = allowed.lines.iter().filter(|line| line.is_about(&key, certificate)).collect();
    // One key may stand in several lines, such as one for each time that it is valid: any of them is enough.
    let line = listed.iter().find(|line| line.objection(certificate, now).is_none()).or(listed.last());
    let Some(line) = line else {
        let why = "with a certificate of an authority that `source.verify` does not list".to_owned();
        return Err(if certificate.is_some() {
            SignatureRefusal::Untrusted(name, why)
        } else {
            SignatureRefusal::Unknown(name)
        });
    };
    let signer = Signer { key: name, name: line.signer(certificate) };
    if signature.namespace() != NAMESPACE {
        let namespace: String = signature.namespace().chars().take(NAMESPACE_CHARS_MAX).collect();
        return Err(SignatureRefusal::NotValid(signer, format!("but for {namespace:?} instead of {NAMESPACE:?}")));
    }
    let message = SshSig::signed_data(NAMESPACE, signature.hash_alg(), payload).unwrap_or_default();
    // The signature covers the reserved field, too, which ssh-keygen always leaves empty.
    if !signature.reserved().is_empty() || !is_signed(key.key_data(), &message, signature.signature()) {
        return Err(SignatureRefusal::Bad(signer));
    }
    match line.objection(certificate, now) {
        Some(why) => Err(SignatureRefusal::NotValid(signer, why)),
        None => Ok(signer),
    }
}

fn without_blanks(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Breaks the lines of a block as ssh-keygen does.
fn wrapped(text: &str) -> String {
    let mut lines = text.lines();
    let mut body = String::new();
    let begin = lines.next().unwrap_or_default();
    let end = lines.next_back().unwrap_or_default();
    lines.for_each(|line| body.push_str(line.trim()));
    let mut wrapped = format!("{begin}\n");
    for (at, character) in body.chars().enumerate() {
        if at > 0 && at % LINE_CHARS == 0 {
            wrapped.push('\n');
        }
        wrapped.push(character);
    }
    wrapped + "\n" + end + "\n"
}
