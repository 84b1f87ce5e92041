//! Reads the signatures beside an artifact, from both places where cosign stores them.
//!
//! Source: cosign, specs/SIGNATURE_SPEC.md for the tag, specs/BUNDLE_SPEC.md for bundles; OCI Distribution Specification 1.1, listing
//! referrers.

use reqwest::StatusCode;
use reqwest::blocking::Response;
use reqwest::header::{CONTENT_TYPE, LINK};
use sha2::{Digest as _, Sha256};

use super::{ImageManifest, LayerDescriptor, ListedManifest, MANIFEST, RegistryClient};
use crate::{Error, OCI_MANIFEST_MAX_BYTES, OCI_SIGNATURE_MAX_BYTES, OCI_SIGNATURES_MAX};
use model::artifact::{ArtifactSignature, digest_of, is_digest};

/// The kind of what cosign signs.
const SIGNED_PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// Where cosign's manifest has a signature.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
/// The kind of a list of what refers to an artifact.
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// How the kinds of bundles begin; a version follows.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";
/// What a list under a tag says of bundles that cosign pushed before the end of 2026: the kind of a part that is empty.
const UNSAID: [&str; 2] = ["", "application/vnd.oci.empty.v1+json"];
/// Where a list and a manifest may say what a bundle states, and what they say of a signature.
const STATES: (&str, &str) = ("dev.sigstore.bundle.predicateType", "https://sigstore.dev/cosign/sign/v1");
/// The most pages of a list that are read.
const PAGES_MAX: usize = 10;

/// The signatures of an artifact.
pub(in crate::artifact) struct SignaturesSeen {
    /// Of the manifest and the list that name them; `None` where a part of them was missing, which may still come.
    digest: Option<String>,
    pub signatures: Vec<ArtifactSignature>,
}

/// What names signatures, and the texts that it was read from.
#[derive(Default)]
struct SignatureList {
    hash: Sha256,
    layers: Vec<LayerDescriptor>,
    manifests: Vec<ListedManifest>,
}

impl SignatureList {
    fn add(&mut self, body: &[u8], manifest: ImageManifest) {
        self.hash.update(Sha256::digest(body));
        self.layers.extend(manifest.layers.into_iter().filter(is_signed));
        self.manifests.extend(manifest.manifests.into_iter().filter(may_sign));
    }
}

impl RegistryClient<'_> {
    /// Reads the signatures that cosign stored for an artifact. What is `known` is not read again if it is still there; `None` where there
    /// are none.
    ///
    /// # Errors
    /// `Artifact` where they cannot be used; else as a poll.
    pub(crate) fn signatures(
        &mut self,
        artifact: &str,
        known: Option<SignaturesSeen>,
    ) -> Result<Option<SignaturesSeen>, Error> {
        let tag = artifact.replace(':', "-");
        let mut list = SignatureList::default();
        let is_tagged = self.take_tag(&format!("{tag}.sig"), MANIFEST, artifact, &mut list)?;
        // A registry that keeps no lists has one under a tag, which whoever pushes keeps.
        let is_listed = self.take_referrers(artifact, &mut list)? || self.take_tag(&tag, INDEX, artifact, &mut list)?;
        if !is_tagged && !is_listed {
            return Ok(None);
        }
        let SignatureList { hash, layers, manifests } = list;
        let digest = Some(digest_of(&hash.finalize()));
        if let Some(known) = known.filter(|known| known.digest == digest) {
            return Ok(Some(known));
        }
        let count = layers.len() + manifests.len();
        if count > OCI_SIGNATURES_MAX {
            let reason = format!(
                "it has {count} signatures and statements about it, more than the {OCI_SIGNATURES_MAX} that are read"
            );
            return Err(self.unusable(artifact, reason));
        }
        let mut seen = SignaturesSeen { digest, signatures: Vec::with_capacity(count) };
        for layer in layers {
            let payload = self.verified(&format!("blobs/{}", layer.digest), &layer.digest, artifact)?;
            let signature = layer.annotations.get(SIGNATURE).cloned().unwrap_or_default();
            match payload {
                Some(payload) => seen.signatures.push(ArtifactSignature::Tagged { payload, signature }),
                None => seen.digest = None,
            }
        }
        for listed in manifests {
            match self.verified(&format!("manifests/{}", listed.digest), &listed.digest, artifact)? {
                Some(manifest) => {
                    let bundle = self.bundle(&manifest, artifact)?;
                    seen.signatures.extend(bundle.map(ArtifactSignature::Bundle));
                }
                None => seen.digest = None,
            }
        }
        Ok(Some(seen))
    }

    /// Reads the bundle of a manifest; `None` where it has none that a signature fits into: what else is stated of an artifact, such as a
    /// list of its parts, may be large, and is not read.
    fn bundle(&mut self, manifest: &[u8], artifact: &str) -> Result<Option<Vec<u8>>, Error> {
        let ImageManifest { layers, annotations, .. } = self.parsed(manifest, artifact)?;
        let mut layers = layers.iter();
        match layers.find(|it| it.media_type.starts_with(BUNDLE) && it.size <= OCI_SIGNATURE_MAX_BYTES) {
            Some(layer) if states_signature(annotations.get(STATES.0)) => {
                self.verified(&format!("blobs/{}", layer.digest), &layer.digest, artifact)
            }
            _ => Ok(None),
        }
    }

    /// Reads what a tag names; tells whether there is such a tag.
    fn take_tag(&mut self, tag: &str, kind: &str, artifact: &str, list: &mut SignatureList) -> Result<bool, Error> {
        let answer = self.get(&format!("manifests/{tag}"), kind)?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(false);
        }
        self.take(answer, artifact, list)?;
        Ok(true)
    }

    /// Reads the registry's own list of what refers to an artifact, page by page; tells whether it keeps such lists. Registries that do not
    /// answer in many ways: with other errors than 404, with a page for people, from elsewhere.
    fn take_referrers(&mut self, artifact: &str, list: &mut SignatureList) -> Result<bool, Error> {
        let first = format!("referrers/{artifact}");
        let mut next = Some(first.clone());
        for page in 0..PAGES_MAX {
            let Some(path) = next else { return Ok(true) };
            let answer = self.get(&path, INDEX)?;
            let is_from_here = answer.url().path().ends_with(&first);
            let status = answer.status();
            if is_from_here && (status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS) {
                self.check_status(status, artifact)?;
            }
            if page == 0 && !(status == StatusCode::OK && is_index(&answer)) {
                return Ok(false);
            }
            let link = next_page(&answer).and_then(|link| link.split_once(&first));
            next = link.map(|(_, query)| format!("{first}{query}"));
            self.take(answer, artifact, list)?;
        }
        let reason = format!("what refers to it fills more than {PAGES_MAX} pages");
        if next.is_some() { Err(self.unusable(artifact, reason)) } else { Ok(true) }
    }

    fn take(&mut self, answer: Response, artifact: &str, list: &mut SignatureList) -> Result<(), Error> {
        let body = self.read(answer, artifact, OCI_MANIFEST_MAX_BYTES)?;
        let manifest = self.parsed(&body, artifact)?;
        list.add(&body, manifest);
        Ok(())
    }

    /// Reads a part of a signature, and checks it against its digest; `None` where it is gone: lists outlive what they name.
    fn verified(&mut self, path: &str, digest: &str, artifact: &str) -> Result<Option<Vec<u8>>, Error> {
        if !is_digest(digest) {
            let reason = "a part of its signatures has no digest of SHA-256".to_owned();
            return Err(self.unusable(artifact, reason));
        }
        let answer = self.get(path, &format!("{MANIFEST}, */*"))?;
        if answer.status() == StatusCode::NOT_FOUND {
            tracing::debug!(artifact, digest, "a part of the artifact's signatures is not there");
            return Ok(None);
        }
        let body = self.read(answer, artifact, OCI_SIGNATURE_MAX_BYTES)?;
        if digest_of(&Sha256::digest(&body)) == *digest {
            return Ok(Some(body));
        }
        let reason = "a part of its signatures is not what its digest says".to_owned();
        Err(self.unusable(artifact, reason))
    }
}

/// Tells whether an answer is a list of what refers to an artifact.
fn is_index(answer: &Response) -> bool {
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim() == INDEX)
}

/// Returns the address of the next page of a list.
///
/// Source: RFC 8288, as the OCI Distribution Specification uses it.
fn next_page(answer: &Response) -> Option<&str> {
    let link = answer.headers().get(LINK)?.to_str().ok()?;
    let (address, parameters) = link.strip_prefix('<')?.split_once('>')?;
    parameters.replace(['"', ' '], "").contains("rel=next").then_some(address)
}

/// Tells whether a layer is what cosign signed, with a signature.
fn is_signed(layer: &LayerDescriptor) -> bool {
    layer.media_type == SIGNED_PAYLOAD && layer.annotations.contains_key(SIGNATURE)
}

/// Tells whether what refers to an artifact may be a signature: a bundle may be there, and nothing says that it states something else.
fn may_sign(listed: &ListedManifest) -> bool {
    let kind = listed.artifact_type.as_str();
    (kind.starts_with(BUNDLE) || UNSAID.contains(&kind))
        && listed.size <= OCI_SIGNATURE_MAX_BYTES
        && states_signature(listed.annotations.get(STATES.0))
}

/// Tells whether what is said of a bundle leaves it open that it is a signature.
fn states_signature(states: Option<&String>) -> bool {
    states.is_none_or(|states| states == STATES.1)
}
