//! The message that holds an X.509 signature: `SignedData` of one signer, without the content, which is the commit.
//!
//! Of the format only what signatures of commits use is read. gpgsm writes lengths that are not known in advance, as BER allows; they are
//! written again as DER has them before anything is read.
//!
//! Source: RFC 5652, and X.690 for the lengths.

use der::asn1::{AnyRef, ObjectIdentifier, UtcTime};
use der::{Decode as _, Encode as _, Reader as _, SliceReader, Tag, TagNumber, Tagged as _};
use jiff::Timestamp;

/// How deep values may be nested.
const DEPTH_MAX: usize = 16;
/// Certificates that a signature may bring along.
const CERTIFICATES_MAX: usize = 10;
/// Attributes that a signer may have signed.
const ATTRIBUTES_MAX: usize = 20;

const ID_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.1");
const ID_SIGNED_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.2");
const CONTENT_TYPE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.3");
const MESSAGE_DIGEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.4");
const SIGNING_TIME: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.5");

/// What a message holds.
#[derive(Debug)]
pub(super) struct SignedMessage {
    /// The certificates that it brings along, each as DER.
    pub certificates: Vec<Vec<u8>>,
    /// What names the signer's certificate.
    pub signer: SignerId,
    /// The hash of the commit.
    pub digest: ObjectIdentifier,
    /// How it is signed.
    pub algorithm: ObjectIdentifier,
    /// What is signed: the attributes, as DER.
    pub signed: Vec<u8>,
    /// Those that matter.
    pub attributes: Attributes,
    /// The signature.
    pub signature: Vec<u8>,
}

/// What names a certificate.
#[derive(Debug)]
pub(super) enum SignerId {
    /// Its issuer's name and its serial number, each as DER.
    IssuerAndSerial(Vec<u8>, Vec<u8>),
    /// The id of its key.
    KeyId(Vec<u8>),
}

/// What a signer signed beside the commit.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    /// The digest of the commit.
    pub message_digest: Option<Vec<u8>>,
    /// Whether the content is said to be plain data.
    pub is_data: bool,
    /// When the signer says that it was signed.
    pub signing_time: Option<Timestamp>,
}

impl SignedMessage {
    /// Reads a message.
    ///
    /// # Errors
    /// What is wrong with it, as the end of a sentence.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let (bytes, rest) = definite(bytes, 0)?;
        if !rest.is_empty() {
            return Err("more follows after its end".to_owned());
        }
        let [id, content] = parts_of(any(&bytes)?, Tag::Sequence)?[..] else { return Err(not("a message")) };
        if oid(id)? != ID_SIGNED_DATA {
            return Err("it is a message of another kind".to_owned());
        }
        let [data] = parts_of(content, tagged(0))?[..] else { return Err(not("a message")) };
        let all = parts_of(data, Tag::Sequence)?;
        let [_, _, content, optional @ .., signers] = &all[..] else { return Err(not("signed data")) };
        // What is signed is the commit, which stands beside the message.
        let [content] = parts_of(*content, Tag::Sequence)?[..] else {
            return Err("it holds a content of its own".to_owned());
        };
        if oid(content)? != ID_DATA {
            return Err("it is about another kind of content".to_owned());
        }
        let certificates = optional.iter().find(|part| part.tag() == tagged(0));
        let certificates = certificates.map_or(Ok(Vec::new()), |set| parts_of(*set, tagged(0)))?;
        if certificates.len() > CERTIFICATES_MAX {
            let held = certificates.len();
            return Err(format!("it holds {held} certificates, more than the {CERTIFICATES_MAX} that are read"));
        }
        let certificates = certificates.into_iter().map(encoded).collect::<Result<_, _>>()?;
        match parts_of(*signers, Tag::Set)?[..] {
            [signer] => Self::of(signer, certificates),
            ref several => Err(format!("it has {} signers, and one is read", several.len())),
        }
    }

    fn of(signer: AnyRef<'_>, certificates: Vec<Vec<u8>>) -> Result<Self, String> {
        let parts = parts_of(signer, Tag::Sequence)?;
        let [_, id, digest, attributes, algorithm, signature, rest @ ..] = &parts[..] else {
            return Err("it has no signed attributes".to_owned());
        };
        if attributes.tag() != tagged(0) || rest.len() > 1 || signature.tag() != Tag::OctetString {
            return Err("it has no signed attributes".to_owned());
        }
        let id = match id.tag() {
            Tag::Sequence => {
                let [issuer, serial] = parts_of(*id, Tag::Sequence)?[..] else { return Err(not("a signer")) };
                SignerId::IssuerAndSerial(encoded(issuer)?, encoded(serial)?)
            }
            _ => SignerId::KeyId(id.value().to_vec()),
        };
        // They are signed as a set, whatever tag they have here.
        let to_verify =
            AnyRef::new(Tag::Set, attributes.value()).and_then(|set| set.to_der()).map_err(|_| not("a set"))?;
        Ok(Self {
            certificates,
            signer: id,
            digest: algorithm_id(*digest)?,
            algorithm: algorithm_id(*algorithm)?,
            signed: to_verify,
            attributes: Attributes::read(*attributes)?,
            signature: signature.value().to_vec(),
        })
    }
}

impl Attributes {
    fn read(set: AnyRef<'_>) -> Result<Self, String> {
        let all = parts_of(set, tagged(0))?;
        if all.len() > ATTRIBUTES_MAX {
            return Err(format!(
                "it has {} signed attributes, more than the {ATTRIBUTES_MAX} that are read",
                all.len()
            ));
        }
        let mut attributes = Self::default();
        let mut seen = Vec::new();
        for attribute in all {
            let [id, values] = parts_of(attribute, Tag::Sequence)?[..] else { return Err(not("an attribute")) };
            let id = oid(id)?;
            let values = parts_of(values, Tag::Set)?;
            // Of two it would not be clear which counts.
            if seen.contains(&id) {
                return Err("it has one signed attribute twice".to_owned());
            }
            seen.push(id);
            if ![CONTENT_TYPE, MESSAGE_DIGEST, SIGNING_TIME].contains(&id) {
                continue;
            }
            let [value] = values[..] else { return Err("it has a signed attribute of several values".to_owned()) };
            match id {
                CONTENT_TYPE => attributes.is_data = oid(value)? == ID_DATA,
                MESSAGE_DIGEST if value.tag() == Tag::OctetString => {
                    attributes.message_digest = Some(value.value().to_vec());
                }
                MESSAGE_DIGEST => return Err(not("a digest")),
                _ => attributes.signing_time = Some(time(value).ok_or_else(|| not("a time"))?),
            }
        }
        Ok(attributes)
    }
}

/// Returns what an algorithm is called: the first of its parts.
fn algorithm_id(part: AnyRef<'_>) -> Result<ObjectIdentifier, String> {
    match parts_of(part, Tag::Sequence)?.first() {
        Some(id) => oid(*id),
        None => Err(not("an algorithm")),
    }
}

fn time(value: AnyRef<'_>) -> Option<Timestamp> {
    let since = match value.tag() {
        Tag::UtcTime => value.decode_as::<UtcTime>().ok()?.to_unix_duration(),
        Tag::GeneralizedTime => value.decode_as::<der::asn1::GeneralizedTime>().ok()?.to_unix_duration(),
        _ => return None,
    };
    Timestamp::from_second(i64::try_from(since.as_secs()).ok()?).ok()
}

fn not(what: &str) -> String {
    format!("what should be {what} is none")
}

fn tagged(number: u8) -> Tag {
    Tag::ContextSpecific { constructed: true, number: TagNumber::new(number) }
}

fn any(bytes: &[u8]) -> Result<AnyRef<'_>, String> {
    AnyRef::from_der(bytes).map_err(|_| not("a message"))
}

fn encoded(part: AnyRef<'_>) -> Result<Vec<u8>, String> {
    part.to_der().map_err(|_| not("a value"))
}

fn oid(part: AnyRef<'_>) -> Result<ObjectIdentifier, String> {
    part.decode_as().map_err(|_| not("an identifier"))
}

/// Returns what a value is made of.
fn parts_of(of: AnyRef<'_>, tag: Tag) -> Result<Vec<AnyRef<'_>>, String> {
    if of.tag() != tag {
        return Err(not("a list of values"));
    }
    let mut reader = SliceReader::new(of.value()).map_err(|_| not("a list of values"))?;
    let mut parts = Vec::new();
    while !reader.is_finished() {
        parts.push(AnyRef::decode(&mut reader).map_err(|_| not("a list of values"))?);
    }
    Ok(parts)
}

/// Returns the first value of some bytes with the lengths that DER has, and the bytes after it.
fn definite(bytes: &[u8], depth: usize) -> Result<(Vec<u8>, &[u8]), String> {
    const CONSTRUCTED: u8 = 0x20;
    const LONG_TAG: u8 = 0x1f;
    const OCTET_STRING: u8 = 0x04;
    const INDEFINITE: u8 = 0x80;
    const SHORT: &str = "it ends too early";
    let [tag, length, rest @ ..] = bytes else { return Err(SHORT.to_owned()) };
    if depth > DEPTH_MAX || tag & LONG_TAG == LONG_TAG {
        return Err("it is nested too deeply, or has a tag that no signature has".to_owned());
    }
    let is_constructed = tag & CONSTRUCTED != 0;
    let (content, after) = match *length {
        INDEFINITE if is_constructed => (rest, None),
        length if length & INDEFINITE == 0 => {
            split(rest, usize::from(length)).map(|(c, a)| (c, Some(a))).ok_or(SHORT)?
        }
        length => {
            let (digits, rest) = split(rest, usize::from(length & !INDEFINITE)).ok_or(SHORT)?;
            if digits.is_empty() || digits.len() > 3 {
                return Err("it has a length that no signature has".to_owned());
            }
            let length = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
            split(rest, length).map(|(content, after)| (content, Some(after))).ok_or(SHORT)?
        }
    };
    if !is_constructed {
        return Ok((with_length(*tag, content), after.ok_or(SHORT)?));
    }
    let mut made = Vec::new();
    let mut left = content;
    // Parts of a string are its content, without their own beginnings.
    let is_string = *tag == CONSTRUCTED | OCTET_STRING;
    let after = loop {
        match (left, after) {
            ([], Some(after)) => break after,
            ([0, 0, rest @ ..], None) => break rest,
            _ => {}
        }
        let (part, rest) = definite(left, depth + 1)?;
        if is_string {
            let part = AnyRef::from_der(&part).ok().filter(|part| part.tag() == Tag::OctetString);
            made.extend_from_slice(part.ok_or_else(|| not("part of a string"))?.value());
        } else {
            made.extend(part);
        }
        left = rest;
    };
    Ok((with_length(if is_string { OCTET_STRING } else { *tag }, &made), after))
}

fn split(bytes: &[u8], at: usize) -> Option<(&[u8], &[u8])> {
    bytes.split_at_checked(at)
}

fn with_length(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut made = vec![tag];
    match u8::try_from(content.len()) {
        Ok(length) if length < 0x80 => made.push(length),
        _ => {
            let digits: Vec<u8> = content.len().to_be_bytes().into_iter().skip_while(|digit| *digit == 0).collect();
            // A length has 8 bytes at most.
            made.push(0x80 | u8::try_from(digits.len()).unwrap_or_default());
            made.extend(digits);
        }
    }
    made.extend_from_slice(content);
    made
}
