//! Sigstore bundles: a signature and what it signs, in one JSON text.
//!
//! Source: Sigstore's protobuf-specs, `sigstore_bundle.proto`; DSSE's protocol for what is signed of an envelope; in-toto's statements. The
//! type of cosign's statement is in its `pkg/types/predicate.go`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::signature::SIGNATURE_BYTES_MAX;
use crate::signature::cosign::objection::{Objection, shown};

/// What cosign states by a signature. Everything else that a bundle may state of an artifact, such as how it was built or what a scanner found,
/// says nothing of whether it may run.
const SIGNATURE: &str = "https://sigstore.dev/cosign/sign/v1";
/// The kind of payload that is read. The key signs it, too.
const IN_TOTO: &str = "application/vnd.in-toto+json";

/// What a bundle has of a signature.
pub(super) struct Envelope {
    /// The bytes that the key signed.
    pub message: Vec<u8>,
    /// The statement among them.
    pub payload: Vec<u8>,
    pub signature: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    dsse_envelope: DsseEnvelope,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DsseEnvelope {
    payload: String,
    payload_type: String,
    signatures: Vec<DsseSignature>,
}

#[derive(Deserialize)]
struct DsseSignature {
    sig: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    predicate_type: String,
    #[serde(default)]
    subject: Vec<SignedSubject>,
}

#[derive(Deserialize)]
struct SignedSubject {
    digest: SubjectDigest,
}

#[derive(Deserialize)]
struct SubjectDigest {
    #[serde(default)]
    sha256: String,
}

impl Envelope {
    /// Takes a bundle apart; `None` where it is none with an envelope and one signature.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let DsseEnvelope { payload, payload_type, signatures } =
            serde_json::from_slice::<Bundle>(text).ok()?.dsse_envelope;
        let [DsseSignature { sig }] = signatures.as_slice() else { return None };
        if sig.len() > SIGNATURE_BYTES_MAX || payload_type != IN_TOTO {
            return None;
        }
        let payload = STANDARD.decode(payload).ok()?;
        let mut message = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
        message.extend_from_slice(&payload);
        Some(Self { message, payload, signature: STANDARD.decode(sig).ok()? })
    }
}

/// Returns why a signed statement does not speak for the digest.
pub(super) fn objection(payload: &[u8], digest: &str) -> Option<Objection> {
    let Statement { predicate_type, subject } = match serde_json::from_slice(payload) {
        Ok(statement) => statement,
        Err(error) => return Some(Objection::NotOfThis(format!("signs something that names no artifact: {error}"))),
    };
    if predicate_type != SIGNATURE {
        return Some(Objection::Attestation(shown(&predicate_type)));
    }
    let digest = digest.strip_prefix("sha256:");
    if subject.iter().any(|subject| digest == Some(subject.digest.sha256.as_str())) {
        return None;
    }
    let first = subject.first().map(|subject| shown(&subject.digest.sha256));
    Some(Objection::NotOfThis(
        first.map_or_else(|| "signs no artifact".to_owned(), |first| format!("signs another artifact, sha256:{first}")),
    ))
}
