//! Certificates of SSH: an authority vouches for a key, for some time and for named people.
//!
//! Source: OpenSSH, PROTOCOL.sshsig for where a signature has one, PROTOCOL.certkeys for what it says, and sshsig.c for what counts of it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use ssh_key::certificate::CertType;
use ssh_key::{Algorithm, Certificate, PublicKey};

use crate::signature::ssh::patterns::is_among;
use crate::signature::ssh::verify::{is_signed, prefixed};

/// What a signature begins with: its name and its version.
const HEAD_BYTES: usize = 10;
/// The length that stands before a part.
const LENGTH_BYTES: usize = 4;
/// How the types of certificates end.
const TYPE_END: &str = "-cert-v01@openssh.com";
/// The longest name of a person that counts, in bytes: it is compared with patterns.
const PERSON_BYTES_MAX: usize = 256;
/// Characters of the people in a certificate that a message repeats.
const PEOPLE_CHARS_MAX: usize = 100;

/// A signature whose key came in a certificate.
pub(super) struct Certified {
    /// Nothing of it is checked yet.
    pub certificate: Certificate,
    /// The signature as it would be with the key alone, which the library reads.
    pub plain: String,
}

/// Reads the certificate of a signature; `None` where it has none.
///
/// # Errors
/// Why the certificate cannot be read.
pub(super) fn read(text: &str) -> Result<Option<Certified>, String> {
    let lines: Vec<&str> = text.lines().collect();
    let [begin, body @ .., end] = &lines[..] else { return Ok(None) };
    let body: String = body.iter().map(|line| line.trim()).collect();
    let Ok(bytes) = STANDARD.decode(body) else { return Ok(None) };
    let Some((head, rest)) = bytes.split_at_checked(HEAD_BYTES) else { return Ok(None) };
    let Some((key, rest)) = prefixed(rest) else { return Ok(None) };
    let Some((kind, _)) = prefixed(key) else { return Ok(None) };
    let Some(kind) = std::str::from_utf8(kind).ok().filter(|kind| kind.ends_with(TYPE_END)) else { return Ok(None) };
    // Of a type that it does not know, the library panics when it writes the certificate.
    match Algorithm::new_certificate(kind) {
        Ok(Algorithm::Ed25519 | Algorithm::SkEd25519 | Algorithm::Ecdsa { .. } | Algorithm::Rsa { .. }) => {}
        _ => return Err(unreadable(&"it is of a type that is not supported")),
    }
    let certificate = Certificate::from_bytes(key).map_err(|error| match error {
        // So large a number is how one says that it has no end.
        ssh_key::Error::Time => unreadable(&"it has no end, and one with an end is needed"),
        other => unreadable(&other),
    })?;
    if certificate.to_bytes().ok().as_deref() != Some(key) {
        return Err(unreadable(&"it is not as ssh-keygen writes it"));
    }
    let key = PublicKey::from(certificate.public_key().clone()).to_bytes().map_err(|error| unreadable(&error))?;
    let length = u32::try_from(key.len()).map_err(|error| unreadable(&error))?;
    let plain = [head, &length.to_be_bytes(), &key, rest].concat();
    Ok(Some(Certified { certificate, plain: format!("{begin}\n{}\n{end}", STANDARD.encode(plain)) }))
}

fn unreadable(why: &dyn std::fmt::Display) -> String {
    format!("its certificate cannot be read: {why}")
}

/// Tells whether an authority issued a certificate, at whatever time.
pub(super) fn is_of(certificate: &Certificate, authority: &PublicKey) -> bool {
    certificate.signature_key() == authority.key_data()
        && certificate.valid_after() < certificate.valid_before()
        && signed(certificate).is_some_and(|signed| is_signed(authority.key_data(), &signed, certificate.signature()))
}

/// Returns what the authority signed of a certificate: all but the signature, which is its end.
fn signed(certificate: &Certificate) -> Option<Vec<u8>> {
    let mut bytes = certificate.to_bytes().ok()?;
    let signature = Vec::try_from(certificate.signature().clone()).ok()?;
    bytes.truncate(bytes.len().checked_sub(LENGTH_BYTES + signature.len())?);
    Some(bytes)
}

/// Returns who signed: the people of a certificate whom the patterns of a line have; nobody where they have none.
pub(super) fn people(certificate: &Certificate, principals: &str) -> String {
    shown(&named(certificate, principals).collect::<Vec<_>>().join(","))
}

fn named<'a>(certificate: &'a Certificate, principals: &str) -> impl Iterator<Item = &'a str> {
    let people = certificate.valid_principals().iter().map(String::as_str);
    people.filter(move |person| person.len() <= PERSON_BYTES_MAX && is_among(principals, person))
}

/// Returns why a certificate does not let its key sign commits; `None` where it does. The library takes no signature of a short RSA key.
pub(super) fn objection(certificate: &Certificate, principals: &str, now: Timestamp) -> Option<String> {
    if certificate.cert_type() != CertType::User {
        return Some("whose certificate is for a host".to_owned());
    }
    if let Some((option, _)) = certificate.critical_options().iter().next() {
        return Some(format!("whose certificate is restricted by {:?}", shown(option)));
    }
    if named(certificate, principals).next().is_none() {
        let people = certificate.valid_principals();
        let people = if people.is_empty() { "nobody".to_owned() } else { shown(&people.join(",")) };
        return Some(format!("whose certificate names {people}; its authority is listed for {principals}"));
    }
    // A time that our clock cannot reach is far ahead.
    let from = time(certificate.valid_after());
    let until = time(certificate.valid_before());
    match (from, until) {
        (Some(from), _) if now < from => Some(format!("whose certificate is valid only after {from}")),
        (None, _) => Some("whose certificate is not valid yet".to_owned()),
        (_, Some(until)) if now >= until => Some(format!("whose certificate was valid only before {until}")),
        _ => None,
    }
}

fn time(seconds: u64) -> Option<Timestamp> {
    Timestamp::from_second(i64::try_from(seconds).ok()?).ok()
}

/// Returns a text that whoever asked for the certificate chose, as a message shows it.
fn shown(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(PEOPLE_CHARS_MAX).collect()
}
