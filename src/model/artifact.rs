//! Artifacts in OCI registries: what a location names, and what was seen there.

use super::id::CommitId;
use crate::text::hexadecimal;

/// How a location in a registry begins.
const SCHEME: &str = "oci://";
/// How a digest begins; others are not verified.
const SHA256: &str = "sha256:";
/// The longest tag, in characters.
///
/// Source: OCI Distribution Specification 1.1, pulling manifests.
const TAG_MAX: usize = 128;
/// The longest name of a repository, in characters: some registries take no longer one with their own.
const REPOSITORY_MAX: usize = 255;
/// What a location looks like.
const FORM: &str = "write oci://HOST/REPOSITORY:TAG or oci://HOST/REPOSITORY@sha256:DIGEST";

/// An artifact by tag or digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactReference {
    /// Host, and port where one is given.
    pub host: String,
    /// The repository in the registry.
    pub repository: String,
    /// A tag, or a digest: what stands in the request.
    pub name: String,
}

/// What a registry gave as an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenArtifact {
    /// The digest of its manifest.
    pub digest: String,
    /// Our commit of its files.
    pub commit: CommitId,
    /// The signatures beside it; empty where they are not asked for.
    pub signatures: Vec<ArtifactSignature>,
}

/// A signature that cosign stored beside an artifact. Nothing of it is checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArtifactSignature {
    /// As versions before 3 store it, under a tag that is made of the artifact's digest.
    Tagged {
        /// What was signed: a JSON text that names the artifact.
        payload: Vec<u8>,
        /// The signature, as base64.
        signature: String,
    },
    /// As versions from 3 on store it: a Sigstore bundle, a JSON text with the signature and what it signs.
    Bundle(Vec<u8>),
}

/// Tells whether a location is one in a registry.
pub fn is_artifact(location: &str) -> bool {
    location.starts_with(SCHEME)
}

/// Returns what stays the same of a location when another digest is pinned: without the digest, and without a tag beside it. Any other
/// location stays as it is.
pub fn without_digest(location: &str) -> &str {
    match location.split_once('@') {
        Some((tagged, _)) if is_artifact(location) => {
            let repository = tagged.rfind('/').map_or(0, |at| at + 1);
            tagged[repository..].find(':').map_or(tagged, |at| &tagged[..repository + at])
        }
        _ => location,
    }
}

/// Writes a hash of SHA-256 as a digest.
pub fn digest_of(hash: &[u8]) -> String {
    SHA256.to_owned() + &hexadecimal(hash)
}

/// Tells whether a text is a digest that is verified here.
pub fn is_digest(text: &str) -> bool {
    text.strip_prefix(SHA256).is_some_and(|hex| {
        hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    })
}

impl ArtifactReference {
    /// Reads `oci://HOST/REPOSITORY:TAG` or `oci://HOST/REPOSITORY@sha256:DIGEST`; with both the digest counts.
    ///
    /// # Errors
    /// What is wrong, for users. It repeats nothing of the location, which may hold a password.
    pub fn parse(location: &str) -> Result<Self, &'static str> {
        let (host, rest) = location.strip_prefix(SCHEME).and_then(|rest| rest.split_once('/')).ok_or(FORM)?;
        let is_plain = host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']'));
        if host.is_empty() || host.starts_with(['-', ':']) || !is_plain {
            return Err(
                "the host may have letters, digits and . - : only; an account stands in `user` and `tokenFile`",
            );
        }
        let (tagged, digest) = rest.split_once('@').map_or((rest, None), |(tagged, digest)| (tagged, Some(digest)));
        let (repository, tag) =
            tagged.split_once(':').map_or((tagged, None), |(repository, tag)| (repository, Some(tag)));
        if repository.len() > REPOSITORY_MAX || !repository.split('/').all(is_repository_part) {
            return Err("the repository may have small letters, digits and . _ - / only, 255 at most");
        }
        if digest.is_some_and(|digest| !is_digest(digest)) {
            return Err("a digest is sha256: and 64 hexadecimal digits in small letters");
        }
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err("a tag may have letters, digits and . _ - only, 128 at most");
        }
        let name = digest.or(tag).ok_or(FORM)?;
        Ok(Self { host: host.to_owned(), repository: repository.to_owned(), name: name.to_owned() })
    }
}

fn is_repository_part(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-'))
}

fn is_tag(text: &str) -> bool {
    text.len() <= TAG_MAX
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_read_or_refused() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        for (location, expected, kept) in [
            ("oci://ghcr.io/org/fleet:v1".to_owned(), ("ghcr.io", "org/fleet", "v1"), "oci://ghcr.io/org/fleet:v1"),
            ("oci://127.0.0.1:5000/f:a_b".to_owned(), ("127.0.0.1:5000", "f", "a_b"), "oci://127.0.0.1:5000/f:a_b"),
            (format!("oci://[::1]:5000/f@{digest}"), ("[::1]:5000", "f", digest.as_str()), "oci://[::1]:5000/f"),
            (format!("oci://ghcr.io/org/f:v1@{digest}"), ("ghcr.io", "org/f", digest.as_str()), "oci://ghcr.io/org/f"),
        ] {
            let read = ArtifactReference::parse(&location).unwrap();
            assert_eq!((read.host.as_str(), read.repository.as_str(), read.name.as_str()), expected, "{location}");
            assert_eq!(without_digest(&location), kept, "{location}");
        }
        for location in [
            "oci://ghcr.io/org/fleet".to_owned(),
            "oci://ghcr.io".to_owned(),
            "oci://ghcr.io/".to_owned(),
            "oci:///fleet:v1".to_owned(),
            "oci://user:hunter2@ghcr.io/fleet:v1".to_owned(),
            "oci://ghcr.io/../fleet:v1".to_owned(),
            "oci://ghcr.io//fleet:v1".to_owned(),
            "oci://ghcr.io/Fleet:v1".to_owned(),
            "oci://ghcr.io/fleet:".to_owned(),
            "oci://ghcr.io/fleet:a/b".to_owned(),
            "oci://ghcr.io/fleet:a?b".to_owned(),
            "oci://ghcr.io/fleet:-a".to_owned(),
            "oci://ghcr.io/fleet@sha256:0a".to_owned(),
            "oci://ghcr.io/fleet@sha512:0a".to_owned(),
            format!("oci://ghcr.io/fleet@{}", digest.to_uppercase()),
            format!("oci://ghcr.io/fleet:{}", "a".repeat(TAG_MAX + 1)),
            format!("oci://ghcr.io/{}:v1", "a".repeat(REPOSITORY_MAX + 1)),
            "oci://-ghcr.io/fleet:v1".to_owned(),
            "oci://ghcr.io#x/fleet:v1".to_owned(),
            "https://ghcr.io/fleet:v1".to_owned(),
        ] {
            let refused = ArtifactReference::parse(&location).expect_err(&location);
            assert!(!refused.contains("hunter2"), "{refused}");
        }
        assert_eq!(without_digest("ssh://git@git.example/a"), "ssh://git@git.example/a");
    }
}
