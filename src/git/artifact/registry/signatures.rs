//! Reads the signatures beside an artifact, from both places where cosign stores them.
//!
//! Source: cosign, specs/SIGNATURE_SPEC.md for the tag, specs/BUNDLE_SPEC.md for bundles; OCI Distribution Specification 1.1, listing
//! referrers.

use reqwest::StatusCode;
use sha2::{Digest as _, Sha256};

use super::{ImageManifest, LayerDescriptor, ListedManifest, MANIFEST, RegistryClient};
use crate::git::{Error, OCI_MANIFEST_MAX_BYTES, OCI_SIGNATURE_MAX_BYTES, OCI_SIGNATURES_MAX};
use crate::model::artifact::{ArtifactSignature, digest_of, is_digest};

/// The kind of what cosign signs.
const SIGNED_PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// Where cosign's manifest has a signature.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
/// The list of what refers to an artifact.
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// How the kinds of bundles begin; a version follows.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";
/// Where a list may say what a bundle states, and what it says of a signature.
const STATES: (&str, &str) = ("dev.sigstore.bundle.predicateType", "https://sigstore.dev/cosign/sign/v1");

/// The signatures of an artifact.
pub(in crate::git::artifact) struct SignaturesSeen {
    /// Of the manifest and the list that name them.
    digest: String,
    pub signatures: Vec<ArtifactSignature>,
}

/// What registries answer that do not know a kind of path: 404 by the specification, and the others in practice.
const UNKNOWN: [StatusCode; 4] =
    [StatusCode::NOT_FOUND, StatusCode::BAD_REQUEST, StatusCode::METHOD_NOT_ALLOWED, StatusCode::NOT_ACCEPTABLE];

/// What names signatures.
struct SignatureList {
    body: Vec<u8>,
    manifest: ImageManifest,
}

impl RegistryClient<'_> {
    /// Reads the signatures that cosign stored for an artifact. What is `known` is not read again if it is still there; `None` where there
    /// are none.
    ///
    /// # Errors
    /// `Artifact` where they cannot be used; else as a poll.
    pub fn signatures(
        &mut self,
        artifact: &str,
        known: Option<SignaturesSeen>,
    ) -> Result<Option<SignaturesSeen>, Error> {
        let tag = artifact.replace(':', "-");
        let tagged = self.found(&format!("manifests/{tag}.sig"), MANIFEST, artifact)?;
        let listed = match self.found(&format!("referrers/{artifact}"), INDEX, artifact)? {
            Some(listed) => Some(listed),
            // The registry keeps no such lists; whoever pushes keeps one under a tag.
            None => self.found(&format!("manifests/{tag}"), INDEX, artifact)?,
        };
        if tagged.is_none() && listed.is_none() {
            return Ok(None);
        }
        let mut hash = Sha256::new();
        for found in [&tagged, &listed] {
            hash.update(found.as_ref().map(|found| Sha256::digest(&found.body)).unwrap_or_default());
        }
        let digest = digest_of(&hash.finalize());
        if let Some(known) = known.filter(|known| known.digest == digest) {
            return Ok(Some(known));
        }
        let tagged: Vec<_> = tagged.into_iter().flat_map(|found| found.manifest.layers).filter(is_signed).collect();
        let listed: Vec<_> = listed.into_iter().flat_map(|found| found.manifest.manifests).filter(may_sign).collect();
        let count = tagged.len() + listed.len();
        if count > OCI_SIGNATURES_MAX {
            let reason = format!("it has {count} signatures, more than the {OCI_SIGNATURES_MAX} that are read");
            return Err(self.unusable(artifact, reason));
        }
        let mut signatures = Vec::with_capacity(count);
        for layer in tagged {
            let payload = self.verified(&format!("blobs/{}", layer.digest), &layer.digest, artifact)?;
            let signature = layer.annotations.get(SIGNATURE).cloned().unwrap_or_default();
            signatures.push(ArtifactSignature::Tagged { payload, signature });
        }
        for listed in listed {
            signatures.extend(self.bundle(&listed.digest, artifact)?.map(ArtifactSignature::Bundle));
        }
        Ok(Some(SignaturesSeen { digest, signatures }))
    }

    /// Reads the bundle of a manifest; `None` where it has none that a signature fits into: what else is stated of an artifact, such as a
    /// list of its parts, may be large, and is not read.
    fn bundle(&mut self, manifest: &str, artifact: &str) -> Result<Option<Vec<u8>>, Error> {
        let body = self.verified(&format!("manifests/{manifest}"), manifest, artifact)?;
        let layers = self.parsed(&body, artifact)?.layers;
        let is_bundle =
            |layer: &&LayerDescriptor| layer.media_type.starts_with(BUNDLE) && layer.size <= OCI_SIGNATURE_MAX_BYTES;
        let Some(layer) = layers.iter().find(is_bundle) else { return Ok(None) };
        self.verified(&format!("blobs/{}", layer.digest), &layer.digest, artifact).map(Some)
    }

    /// Reads a manifest or a list; `None` where there is none.
    fn found(&mut self, path: &str, accept: &str, artifact: &str) -> Result<Option<SignatureList>, Error> {
        let answer = self.get(path, accept)?;
        if UNKNOWN.contains(&answer.status()) {
            return Ok(None);
        }
        let body = self.read(answer, artifact, OCI_MANIFEST_MAX_BYTES)?;
        let manifest = self.parsed(&body, artifact)?;
        Ok(Some(SignatureList { body, manifest }))
    }

    /// Reads a part of a signature, and checks it against its digest.
    fn verified(&mut self, path: &str, digest: &str, artifact: &str) -> Result<Vec<u8>, Error> {
        if !is_digest(digest) {
            let reason = "a part of its signatures has no digest of SHA-256".to_owned();
            return Err(self.unusable(artifact, reason));
        }
        let answer = self.get(path, &format!("{MANIFEST}, */*"))?;
        let body = self.read(answer, artifact, OCI_SIGNATURE_MAX_BYTES)?;
        if digest_of(&Sha256::digest(&body)) == *digest {
            return Ok(body);
        }
        let reason = "a part of its signatures is not what its digest says".to_owned();
        Err(self.unusable(artifact, reason))
    }
}

/// Tells whether a layer is what cosign signed, with a signature.
fn is_signed(layer: &LayerDescriptor) -> bool {
    layer.media_type == SIGNED_PAYLOAD && layer.annotations.contains_key(SIGNATURE)
}

/// Tells whether what refers to an artifact may be a signature: it is a bundle, and nothing says that it states something else.
fn may_sign(listed: &ListedManifest) -> bool {
    let (place, signature) = STATES;
    listed.artifact_type.starts_with(BUNDLE) && listed.annotations.get(place).is_none_or(|states| states == signature)
}
