//! Signatures by X.509 certificates, and the authorities and people that count.
//!
//! A certificate must lead to one of the authorities of the configuration, be for signing, and name a person whom the configuration names.
//!
//! Two kinds count, each with authorities of its own. Certificates that are valid for long count as of now, as all keys. Keyless ones, which
//! gitsign gets for a login, are valid for ten minutes: they count as of the time that the signature names, because by now each of them is
//! expired. That time is the signer's word. What is proven is who logged in and held the key at some time within those minutes; not that
//! the key signed then, for which a log or a timestamp would be needed.

mod cms;

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use der::asn1::{ObjectIdentifier, Utf8StringRef};
use der::{Decode as _, Encode as _};
use jiff::{SignedDuration, Timestamp};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm, TrustAnchor, UnixTime};
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, Error, KeyUsage, aws_lc_rs as verify};
use x509_cert::Certificate;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    ExtendedKeyUsage, KeyUsage as KeyUsageBits, KeyUsages, SubjectAltName, SubjectKeyIdentifier,
};

use self::cms::{SignedMessage, SignerId};
use super::{KeyName, SignatureKind, SignatureRefusal, Signer};

/// Authorities that one file may hold.
const AUTHORITIES_MAX: usize = 100;
/// How far ahead of our clock a signature may be: clocks differ.
const AHEAD_MAX: SignedDuration = SignedDuration::from_mins(5);
/// Characters of a name in a certificate that a message repeats: whoever asked for the certificate chose it.
const NAME_CHARS_MAX: usize = 100;

/// The two usages that count, as identifiers and as webpki takes them.
///
/// Source: RFC 5280, 4.2.1.12: codeSigning and emailProtection.
const USAGES: [(ObjectIdentifier, &[u8]); 2] = [
    (ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.3"), &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x03]),
    (ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.4"), &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x04]),
];
/// The key of RSA, and how long one of 2048 bits is at least, with its exponent and what is around both.
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const RSA_BYTES_MIN: usize = 256;
/// Who vouches for the login that a keyless certificate is for: as DER, and as plain bytes in older certificates.
///
/// Source: Fulcio, docs/oid-info.md.
const LOGIN: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.57264.1.8");
const LOGIN_OLD: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.57264.1.1");

/// Authorities, as a file holds them.
#[derive(Debug, Default)]
pub struct Authorities(Vec<TrustAnchor<'static>>);

impl Authorities {
    /// Reads certificates as PEM.
    ///
    /// # Errors
    /// What is wrong with which of them.
    pub fn parse(content: &[u8]) -> Result<Self, Vec<String>> {
        let mut anchors = Vec::new();
        let mut errors = Vec::new();
        for (number, certificate) in CertificateDer::pem_slice_iter(content).enumerate().take(AUTHORITIES_MAX + 1) {
            let anchor = certificate.map_err(|error| error.to_string()).and_then(|certificate| {
                let anchor = webpki::anchor_from_trusted_cert(&certificate).map_err(|error| format!("{error:?}"))?;
                Ok(anchor.to_owned())
            });
            match anchor {
                Ok(anchor) => anchors.push(anchor),
                Err(error) => errors.push(format!("certificate {}: cannot be read: {error}", number + 1)),
            }
        }
        if anchors.len() > AUTHORITIES_MAX {
            errors.push(format!("it holds more than {AUTHORITIES_MAX} certificates"));
        }
        if anchors.is_empty() && errors.is_empty() {
            errors.push("it holds no certificate".to_owned());
        }
        if errors.is_empty() { Ok(Self(anchors)) } else { Err(errors) }
    }
}

/// Who may sign with certificates.
#[derive(Debug, Default)]
pub struct CertifiedSigners {
    /// The authorities of certificates that count as of now.
    pub authorities: Authorities,
    /// The people: addresses and URIs in their certificates.
    pub identities: Vec<String>,
    /// The authorities of certificates for a login.
    pub keyless_authorities: Authorities,
    /// The people: who vouches for their login, and the address or URI in their certificates.
    pub keyless: Vec<(String, String)>,
}

impl CertifiedSigners {
    /// Returns how many authorities there are, of both kinds.
    pub fn authorities(&self) -> usize {
        self.authorities.0.len() + self.keyless_authorities.0.len()
    }

    /// Tells whether they have a name of a certificate, which is for a login or for none.
    fn lists(&self, name: &str, login: Option<&str>) -> bool {
        match login {
            None => self.identities.iter().any(|listed| is_same(listed, name)),
            Some(login) => self.keyless.iter().any(|(issuer, listed)| issuer == login && is_same(listed, name)),
        }
    }
}

/// Checks a signature; see [`super::check`].
pub(super) fn check(
    payload: &[u8],
    text: &str,
    signers: &CertifiedSigners,
    now: Timestamp,
) -> Result<Signer, SignatureRefusal> {
    let body: String = text.lines().filter(|line| !line.starts_with("-----")).map(str::trim).collect();
    let bytes = BASE64_STANDARD.decode(body).map_err(|error| SignatureRefusal::Unreadable(error.to_string()))?;
    let message = SignedMessage::read(&bytes).map_err(SignatureRefusal::Unreadable)?;
    let (leaf, others) = certificates(&message).map_err(SignatureRefusal::Unreadable)?;
    let key = KeyName { kind: SignatureKind::X509, fingerprint: fingerprint(&leaf.der) };

    let login = leaf.login();
    // A certificate for a login was valid for minutes: it counts as of the time that the signature names.
    let time = match (&login, message.attributes.signing_time) {
        (None, _) => now,
        (Some(_), Some(time)) => time,
        (Some(_), None) => {
            let why = "which counts only with the time of signing, and that is missing".to_owned();
            return Err(SignatureRefusal::Untrusted(key, why));
        }
    };
    let authorities = if login.is_some() { &signers.keyless_authorities } else { &signers.authorities };
    if let Err(why) = leaf.leads_to(authorities, &others, time) {
        return Err(SignatureRefusal::Untrusted(key, why));
    }

    // Who somebody is counts only now: anybody can make a certificate with any name.
    let names = leaf.names();
    let Some(name) = names.iter().find(|name| signers.lists(name, login.as_deref())) else {
        let names = if names.is_empty() { "nobody".to_owned() } else { shown(&names.join(", ")) };
        let login = login.map(|login| format!(" by a login at {}", shown(&login))).unwrap_or_default();
        let why = format!("which names {names}{login}, whom `source.verify` does not list");
        return Err(SignatureRefusal::Untrusted(key, why));
    };
    let signer = Signer { key, name: name.clone() };
    if let Some(objection) = leaf.objection().or_else(|| objection(&message, now)) {
        return Err(SignatureRefusal::NotValid(signer, objection));
    }
    let Some((digest, algorithms)) = hashed(&message, payload) else {
        let objection = "by a hash that is too weak, or an algorithm that is not read".to_owned();
        return Err(SignatureRefusal::NotValid(signer, objection));
    };
    let is_of_commit = message.attributes.message_digest.as_ref() == Some(&digest);
    if is_of_commit && leaf.signed(&message, &algorithms) { Ok(signer) } else { Err(SignatureRefusal::Bad(signer)) }
}

/// A certificate, as bytes and as it is read.
struct Leaf {
    der: CertificateDer<'static>,
    read: Certificate,
}

/// Returns the certificate of the signer, and the others.
fn certificates(message: &SignedMessage) -> Result<(Leaf, Vec<CertificateDer<'static>>), String> {
    let mut leaf = None;
    let mut others = Vec::new();
    for der in &message.certificates {
        let read =
            Certificate::from_der(der).map_err(|error| format!("it holds a certificate that is none: {error}"))?;
        let der = CertificateDer::from(der.clone());
        if leaf.is_none() && is_of(&read, &message.signer) {
            leaf = Some(Leaf { der, read });
        } else {
            others.push(der);
        }
    }
    Ok((leaf.ok_or("it does not hold the certificate of its signer")?, others))
}

fn is_of(certificate: &Certificate, signer: &SignerId) -> bool {
    let certificate = &certificate.tbs_certificate;
    match signer {
        SignerId::IssuerAndSerial(issuer, serial) => {
            certificate.issuer.to_der().is_ok_and(|found| found == *issuer)
                && certificate.serial_number.to_der().is_ok_and(|found| found == *serial)
        }
        SignerId::KeyId(id) => {
            let found = certificate.get::<SubjectKeyIdentifier>().ok().flatten();
            found.is_some_and(|(_, found)| found.0.as_bytes() == id.as_slice())
        }
    }
}

impl Leaf {
    /// Returns the addresses and URIs that it is for.
    fn names(&self) -> Vec<String> {
        let found = self.read.tbs_certificate.get::<SubjectAltName>().ok().flatten();
        let names = found.into_iter().flat_map(|(_, SubjectAltName(names))| names);
        let names = names.filter_map(|name| match name {
            GeneralName::Rfc822Name(name) | GeneralName::UniformResourceIdentifier(name) => Some(name.to_string()),
            _ => None,
        });
        names.collect()
    }

    /// Returns who vouches for the login that it is for; `None` where it is for no login.
    fn login(&self) -> Option<String> {
        if let Some(value) = self.extension(LOGIN) {
            return Some(Utf8StringRef::from_der(value).map(|text| text.as_str().to_owned()).unwrap_or_default());
        }
        self.extension(LOGIN_OLD).map(|value| String::from_utf8_lossy(value).into_owned())
    }

    fn extension(&self, id: ObjectIdentifier) -> Option<&[u8]> {
        let mut extensions = self.read.tbs_certificate.extensions.iter().flatten();
        Some(extensions.find(|extension| extension.extn_id == id)?.extn_value.as_bytes())
    }

    /// Checks that it leads to one of the authorities.
    fn leads_to(
        &self,
        authorities: &Authorities,
        others: &[CertificateDer<'static>],
        time: Timestamp,
    ) -> Result<(), String> {
        let leaf = EndEntityCert::try_from(&self.der).map_err(|error| chain_complaint(&error))?;
        let seconds =
            u64::try_from(time.as_second()).map_err(|_| "whose time of signing is before all clocks".to_owned())?;
        let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let found = USAGES.map(|(_, usage)| {
            // Authorities may have no usage; the leaf's own is checked apart.
            let usage = KeyUsage::required_if_present(usage);
            leaf.verify_for_usage(ALL_VERIFICATION_ALGS, &authorities.0, others, time, usage, None, None).map(drop)
        });
        if found.iter().any(Result::is_ok) {
            return Ok(());
        }
        let errors: Vec<Error> = found.into_iter().filter_map(Result::err).collect();
        let other = errors.iter().find(|error| !matches!(error, Error::RequiredEkuNotFoundContext(_)));
        let error = other.or(errors.first());
        Err(error.map_or_else(String::new, chain_complaint))
    }

    /// Returns why its key may not sign commits; `None` where it may.
    fn objection(&self) -> Option<String> {
        let certificate = &self.read.tbs_certificate;
        let usages = certificate.get::<ExtendedKeyUsage>().ok().flatten();
        let is_for_signing =
            usages.is_some_and(|(_, ExtendedKeyUsage(usages))| USAGES.iter().any(|(usage, _)| usages.contains(usage)));
        if !is_for_signing {
            return Some("which is neither for signing code nor for protecting e-mail".to_owned());
        }
        let key = &certificate.subject_public_key_info;
        if key.algorithm.oid == RSA && key.subject_public_key.raw_bytes().len() < RSA_BYTES_MIN {
            return Some("whose RSA key has fewer than 2048 bits".to_owned());
        }
        let bits = match certificate.get::<KeyUsageBits>() {
            Ok(bits) => bits?.1.0,
            Err(_) => return Some("whose key usage cannot be read".to_owned()),
        };
        let signs = [KeyUsages::DigitalSignature, KeyUsages::NonRepudiation].into_iter().any(|bit| bits.contains(bit));
        (!signs).then(|| "whose key is not for signing".to_owned())
    }

    /// Tells whether its key signed the attributes of a message.
    fn signed(&self, message: &SignedMessage, algorithms: &[&dyn SignatureVerificationAlgorithm]) -> bool {
        let Ok(leaf) = EndEntityCert::try_from(&self.der) else { return false };
        algorithms
            .iter()
            .any(|algorithm| leaf.verify_signature(*algorithm, &message.signed, &message.signature).is_ok())
    }
}

/// Returns why a message does not count although its certificate does.
fn objection(message: &SignedMessage, now: Timestamp) -> Option<String> {
    let attributes = &message.attributes;
    if !attributes.is_data || attributes.message_digest.is_none() {
        return Some("without the attributes that name what is signed".to_owned());
    }
    let is_ahead = attributes.signing_time.is_some_and(|time| time > now + AHEAD_MAX);
    is_ahead.then(|| format!("at a time that is ahead of this clock, {now:.0}"))
}

/// The algorithms that a message may be signed with.
type Algorithms = Vec<&'static dyn SignatureVerificationAlgorithm>;

/// Returns the digest of a commit by the hash of a message, and the algorithms that its signature may have; `None` where one of them does
/// not count.
///
/// Source: RFC 5754 and RFC 8419. An algorithm may be named with its hash, or as that of its key.
fn hashed(message: &SignedMessage, payload: &[u8]) -> Option<(Vec<u8>, Algorithms)> {
    let (digest, rsa, ecdsa): (_, (&str, Algorithms), (&str, Algorithms)) = match message.digest.to_string().as_str() {
        "2.16.840.1.101.3.4.2.1" => (
            Sha256::digest(payload).to_vec(),
            ("1.2.840.113549.1.1.11", vec![verify::RSA_PKCS1_2048_8192_SHA256]),
            (
                "1.2.840.10045.4.3.2",
                vec![verify::ECDSA_P256_SHA256, verify::ECDSA_P384_SHA256, verify::ECDSA_P521_SHA256],
            ),
        ),
        "2.16.840.1.101.3.4.2.2" => (
            Sha384::digest(payload).to_vec(),
            ("1.2.840.113549.1.1.12", vec![verify::RSA_PKCS1_2048_8192_SHA384]),
            (
                "1.2.840.10045.4.3.3",
                vec![verify::ECDSA_P256_SHA384, verify::ECDSA_P384_SHA384, verify::ECDSA_P521_SHA384],
            ),
        ),
        "2.16.840.1.101.3.4.2.3" => (
            Sha512::digest(payload).to_vec(),
            ("1.2.840.113549.1.1.13", vec![verify::RSA_PKCS1_2048_8192_SHA512]),
            (
                "1.2.840.10045.4.3.4",
                vec![verify::ECDSA_P256_SHA512, verify::ECDSA_P384_SHA512, verify::ECDSA_P521_SHA512],
            ),
        ),
        _ => return None,
    };
    let algorithms = match message.algorithm.to_string().as_str() {
        "1.2.840.113549.1.1.1" => rsa.1,
        "1.2.840.10045.2.1" => ecdsa.1,
        "1.3.101.112" if digest.len() == 64 => vec![verify::ED25519],
        // One that names a hash must name the same one as the digest.
        named if named == rsa.0 => rsa.1,
        named if named == ecdsa.0 => ecdsa.1,
        _ => return None,
    };
    Some((digest, algorithms))
}

fn chain_complaint(error: &Error) -> String {
    match error {
        // With the name of an authority, and another key.
        Error::UnknownIssuer | Error::InvalidSignatureForPublicKey => {
            "which no authority of `source.verify` issued".to_owned()
        }
        Error::CertExpired { .. } => "which is expired, or an authority's above it".to_owned(),
        Error::CertNotValidYet { .. } => "which is not valid yet, or an authority's above it".to_owned(),
        Error::RequiredEkuNotFoundContext(_) => {
            "which is neither for signing code nor for protecting e-mail".to_owned()
        }
        Error::CaUsedAsEndEntity => "which is one of an authority".to_owned(),
        Error::EndEntityUsedAsCa => "which was issued by no authority".to_owned(),
        other => format!("which cannot be checked: {other:?}"),
    }
}

/// Tells whether two names are the same. Of addresses capital letters do not count.
fn is_same(listed: &str, name: &str) -> bool {
    if listed.contains("://") { listed == name } else { listed.eq_ignore_ascii_case(name) }
}

/// Returns a name of a certificate as a message shows it.
fn shown(name: &str) -> String {
    name.chars().filter(|character| !character.is_control()).take(NAME_CHARS_MAX).collect()
}

/// Returns the fingerprint of a certificate as openssl and gpgsm print it.
fn fingerprint(der: &[u8]) -> String {
    Sha256::digest(der).iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
}
