//! Signatures of artifacts in OCI registries, as cosign makes them with a key.
//!
//! Source: cosign's specification of signatures, and its format `simplesigning`; bundles are in the module below.

mod bundle;
mod objection;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::VerifyingKey;
use ed25519_dalek::pkcs8::DecodePublicKey as _;
use rustls_pki_types::SignatureVerificationAlgorithm;
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject as _;
use serde::Deserialize;
use sha2::{Digest as _, Sha256, Sha512};
use webpki::{RawPublicKeyEntity, aws_lc_rs as verify};

use self::bundle::Envelope;
use super::SIGNATURE_BYTES_MAX;
use crate::signature::cosign::objection::{Objection, shown};
use crate::signature::signer::about;
use model::artifact::{ArtifactSignature, SeenArtifact, digest_of};
use model::manifest::InputError;

/// What the payload says that it is.
const TYPE: &str = "cosign container image signature";
/// How keys sign. With P-384, earlier versions of cosign hash with SHA-256, and later ones with SHA-384.
const ALGORITHMS: [&dyn SignatureVerificationAlgorithm; 5] = [
    verify::ECDSA_P256_SHA256,
    verify::ECDSA_P384_SHA256,
    verify::ECDSA_P384_SHA384,
    verify::RSA_PKCS1_2048_8192_SHA256,
    verify::ED25519,
];

/// The keys whose signatures of artifacts count.
#[derive(Debug, Default)]
pub struct CosignKeys(Vec<CosignKey>);

#[derive(Debug)]
struct CosignKey {
    der: SubjectPublicKeyInfoDer<'static>,
    /// SHA-256 of its DER form.
    fingerprint: String,
}

/// Why an artifact is refused. The text continues a sentence that begins with the artifact.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactRefusal {
    /// There is no signature beside it.
    #[error("is not signed")]
    Unsigned,
    /// No listed key made any of its signatures.
    #[error("has {0} that no key of `source.verify.cosign` made")]
    Unknown(String),
    /// A listed key made a signature, and of something else.
    #[error("has a signature of the key {0}, and that {1}")]
    NotOfThis(String, String),
    /// A listed key stated something else about it.
    #[error("is not signed: of the key {0} it has an attestation of the type {1:?} alone")]
    Attested(String, String),
}

#[derive(Deserialize)]
struct SignedPayload {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    image: SignedImage,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct SignedImage {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

impl CosignKeys {
    /// Reads public keys in PEM form, one after the other.
    ///
    /// # Errors
    /// What is wrong with the file, for users.
    pub fn parse(content: &[u8]) -> Result<Self, Vec<String>> {
        let mut keys = Vec::new();
        for found in SubjectPublicKeyInfoDer::pem_slice_iter(content) {
            let der = found.map_err(|error| vec![format!("it is no file of public keys in PEM form: {error}")])?;
            RawPublicKeyEntity::try_from(&der)
                .map_err(|error| vec![format!("its key {} cannot be read: {error}", keys.len() + 1)])?;
            let fingerprint = digest_of(&Sha256::digest(&der));
            keys.push(CosignKey { der, fingerprint });
        }
        let none = "it holds no public key in PEM form, as `cosign public-key` prints it";
        if keys.is_empty() { Err(vec![none.to_owned()]) } else { Ok(Self(keys)) }
    }

    /// Returns how many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the fingerprint of the key that made a signature.
    fn signer(&self, signed: &Signed) -> Option<&str> {
        self.0.iter().find(|key| key.signed(signed)).map(|key| key.fingerprint.as_str())
    }
}

impl CosignKey {
    /// Tells whether it made a signature.
    fn signed(&self, signed: &Signed) -> bool {
        let is_by_key = RawPublicKeyEntity::try_from(&self.der).is_ok_and(|key| {
            ALGORITHMS.iter().any(|how| key.verify_signature(*how, &signed.message, &signed.signature).is_ok())
        });
        is_by_key || self.signed_hash(signed)
    }

    /// Tells whether it is an Ed25519 key that signed the hash of the message, as cosign does from version 3 on.
    ///
    /// Source: RFC 8032, section 5.1: Ed25519ph, with SHA-512 and without a context.
    fn signed_hash(&self, signed: &Signed) -> bool {
        let Ok(key) = VerifyingKey::from_public_key_der(&self.der) else { return false };
        let Ok(signature) = signed.signature.as_slice().try_into() else { return false };
        key.verify_prehashed_strict(Sha512::new_with_prefix(&signed.message), None, &signature).is_ok()
    }
}

/// A signature, taken apart. Nothing of it is checked yet.
struct Signed {
    /// The bytes that the key signed.
    message: Vec<u8>,
    signature: Vec<u8>,
    statement: Statement,
}

/// What a signature says, in one of the two forms of cosign.
enum Statement {
    /// The format `simplesigning`.
    Image(Vec<u8>),
    /// A statement of in-toto.
    InToto(Vec<u8>),
}

impl Signed {
    /// Takes a signature apart; `None` where it cannot be read.
    fn read(signature: &ArtifactSignature) -> Option<Self> {
        match signature {
            ArtifactSignature::Tagged { payload, signature } if signature.len() <= SIGNATURE_BYTES_MAX => Some(Self {
                message: payload.clone(),
                signature: STANDARD.decode(signature).ok()?,
                statement: Statement::Image(payload.clone()),
            }),
            ArtifactSignature::Tagged { .. } => None,
            ArtifactSignature::Bundle(text) => {
                let Envelope { message, payload, signature } = Envelope::read(text)?;
                Some(Self { message, signature, statement: Statement::InToto(payload) })
            }
        }
    }

    /// Returns why it does not speak for the digest; `None` where it does.
    fn objection(&self, digest: &str) -> Option<Objection> {
        match &self.statement {
            Statement::Image(payload) => objection(payload, digest).map(Objection::NotOfThis),
            Statement::InToto(payload) => bundle::objection(payload, digest),
        }
    }
}

/// Checks an artifact: one signature of a listed key is enough. Returns the fingerprint of the key: SHA-256 of its DER form.
///
/// # Errors
/// Why the artifact is refused.
pub fn check_artifact(artifact: &SeenArtifact, keys: &CosignKeys) -> Result<String, ArtifactRefusal> {
    let mut refusal = match artifact.signatures.len() {
        0 => return Err(ArtifactRefusal::Unsigned),
        1 => ArtifactRefusal::Unknown("a signature".to_owned()),
        count => ArtifactRefusal::Unknown(format!("{count} signatures")),
    };
    for signed in artifact.signatures.iter().filter_map(Signed::read) {
        // Nothing of a payload is read before a listed key has signed it.
        let Some(key) = keys.signer(&signed) else { continue };
        match signed.objection(&artifact.digest) {
            None => return Ok(key.to_owned()),
            Some(Objection::NotOfThis(why)) => refusal = ArtifactRefusal::NotOfThis(key.to_owned(), why),
            Some(Objection::Attestation(kind)) => refusal = ArtifactRefusal::Attested(key.to_owned(), kind),
        }
    }
    Err(refusal)
}

/// Returns why a signed payload does not speak for the digest.
fn objection(payload: &[u8], digest: &str) -> Option<String> {
    let payload: SignedPayload = match serde_json::from_slice(payload) {
        Ok(payload) => payload,
        Err(error) => return Some(format!("signs something that names no artifact: {error}")),
    };
    let Critical { image, kind } = payload.critical;
    if kind != TYPE {
        return Some(format!("signs a {:?}, which is no {TYPE:?}", shown(&kind)));
    }
    (image.digest != digest).then(|| format!("signs another artifact, {}", shown(&image.digest)))
}

/// Returns the complaint about an artifact that is refused.
pub fn artifact_complaint(artifact: &SeenArtifact, refusal: &ArtifactRefusal) -> InputError {
    let hint = match refusal {
        ArtifactRefusal::Unsigned | ArtifactRefusal::Attested(..) => {
            "sign it with a key that is listed: `cosign sign --key FILE HOST/REPOSITORY@DIGEST`"
        }
        ArtifactRefusal::Unknown(_) => "list the key if its signatures shall count, or sign it again",
        ArtifactRefusal::NotOfThis(..) => "find out who moved the signature; then sign it again",
    };
    about(format!("artifact {}", artifact.digest), refusal.to_string(), hint)
}
