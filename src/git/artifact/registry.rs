//! Reads manifests and layers from a registry. Everything is checked against its digest.
//!
//! Source: OCI Distribution Specification 1.1, pulling; OCI Image Specification 1.1, manifests.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::StatusCode;
use reqwest::blocking::{Client, Response};
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderValue};
use serde::{Deserialize, Deserializer};
use sha2::{Digest as _, Sha256};

use super::super::error::Secrets;
use super::super::{Cause, Error, OCI_LAYER_MAX_BYTES, OCI_MANIFEST_MAX_BYTES, SourceSpec};
use model::artifact::{ArtifactReference, digest_of, is_digest};

mod connection;
mod sign_in;
pub(super) mod signatures;

/// Bytes that are read between two looks at the stop flag.
const CHUNK_BYTES: usize = 64 * 1024;
/// Kinds of manifests that are asked for.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Where a manifest names what the artifact was made from.
const REVISION: &str = "org.opencontainers.image.revision";
/// Characters of a revision that are kept.
const REVISION_CHARS_MAX: usize = 200;

/// Kinds of layers that are unpacked, and whether they are compressed: those of Flux, and those of images and oras.
const LAYERS: [(&str, bool); 3] = [
    ("application/vnd.cncf.flux.content.v1.tar+gzip", true),
    ("application/vnd.oci.image.layer.v1.tar+gzip", true),
    ("application/vnd.oci.image.layer.v1.tar", false),
];

/// A registry, for one poll.
pub(super) struct RegistryClient<'a> {
    client: Client,
    reference: &'a ArtifactReference,
    spec: &'a SourceSpec,
    stop: &'a AtomicBool,
    /// How requests of this poll are signed in, once the registry has asked for it.
    authorization: Option<HeaderValue>,
}

/// What a tag or digest names now.
pub(super) struct FoundArtifact {
    pub digest: String,
    /// What it was made from, as whoever pushed it says.
    pub revision: Option<String>,
    pub is_compressed: bool,
    layer: LayerDescriptor,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImageManifest {
    #[serde(default, deserialize_with = "null_is_empty")]
    layers: Vec<LayerDescriptor>,
    /// Those of an index.
    #[serde(default, deserialize_with = "null_is_empty")]
    manifests: Vec<ListedManifest>,
    #[serde(default, deserialize_with = "null_is_empty")]
    annotations: BTreeMap<String, String>,
}

/// A manifest that an index lists.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListedManifest {
    digest: String,
    size: u64,
    #[serde(deserialize_with = "null_is_empty")]
    artifact_type: String,
    #[serde(deserialize_with = "null_is_empty")]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LayerDescriptor {
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default, deserialize_with = "null_is_empty")]
    annotations: BTreeMap<String, String>,
}

/// Reads null, which programs in Go write where they have nothing.
fn null_is_empty<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(value: D) -> Result<T, D::Error> {
    Option::deserialize(value).map(Option::unwrap_or_default)
}

impl<'a> RegistryClient<'a> {
    /// Prepares the connection.
    ///
    /// # Errors
    /// `AccessFile` where the authorities cannot be read.
    pub(super) fn connect(
        reference: &'a ArtifactReference,
        spec: &'a SourceSpec,
        stop: &'a AtomicBool,
    ) -> Result<Self, Error> {
        let builder = spec.https.configured(connection::builder(), &spec.location)?;
        let client = builder.build().map_err(|error| connection::failed(spec, error))?;
        Ok(Self { client, reference, spec, stop, authorization: None })
    }

    /// Asks what the tag or digest names.
    ///
    /// # Errors
    /// `Artifact` where it is nothing that can be unpacked; else as a poll.
    pub(super) fn find(&mut self) -> Result<FoundArtifact, Error> {
        let wanted = self.reference.name.clone();
        let answer = self.get(&format!("manifests/{wanted}"), MANIFEST)?;
        if answer.status() == StatusCode::NOT_FOUND {
            let reason = "the registry knows no such artifact, or the account may not see it";
            return Err(self.unusable(&wanted, reason.to_owned()));
        }
        let body = self.read(answer, &wanted, OCI_MANIFEST_MAX_BYTES)?;
        let digest = digest_of(&Sha256::digest(&body));
        if is_digest(&wanted) && wanted != digest {
            return Err(self.unusable(&wanted, format!("the registry answers with {digest}")));
        }
        let manifest = self.parsed(&body, &digest)?;
        if !manifest.manifests.is_empty() {
            return Err(self.unusable(&digest, "it is an index of several; name the digest of one".to_owned()));
        }
        let count = manifest.layers.len();
        let mut layers = manifest.layers.into_iter();
        let (Some(layer), None) = (layers.next(), layers.next()) else {
            let reason = format!("it has {count} layers, and one is read: push it as `flux push artifact` does");
            return Err(self.unusable(&digest, reason));
        };
        let Some((_, is_compressed)) = LAYERS.iter().find(|(kind, _)| *kind == layer.media_type) else {
            let kind = shown(&layer.media_type);
            let read = LAYERS.map(|(kind, _)| kind).join(", ");
            return Err(self.unusable(&digest, format!("its layer is of the media type {kind:?}, and read are {read}")));
        };
        if !is_digest(&layer.digest) {
            return Err(self.unusable(&digest, "the digest of its layer is not one of SHA-256".to_owned()));
        }
        if layer.size > OCI_LAYER_MAX_BYTES {
            let reason =
                format!("its layer has {} bytes, more than the {OCI_LAYER_MAX_BYTES} that are read", layer.size);
            return Err(self.unusable(&digest, reason));
        }
        let revision = manifest.annotations.get(REVISION).map(|revision| shown(revision));
        Ok(FoundArtifact { digest, revision, is_compressed: *is_compressed, layer })
    }

    /// Writes the layer into a file, and checks it against its size and digest.
    ///
    /// # Errors
    /// `Artifact` where it is not what the manifest says, `Disk`; else as a poll.
    pub(super) fn download(&mut self, artifact: &FoundArtifact, target: &Path) -> Result<(), Error> {
        let LayerDescriptor { digest, size, .. } = &artifact.layer;
        let answer = self.get(&format!("blobs/{digest}"), "*/*")?;
        let mut file = fs::File::create_new(target).map_err(Error::disk(target))?;
        let mut hash = Sha256::new();
        let mut written = 0;
        self.each_chunk(answer, &artifact.digest, *size, |chunk| {
            hash.update(chunk);
            written += chunk.len() as u64;
            file.write_all(chunk).map_err(Error::disk(target))
        })?;
        if written != *size || digest_of(&hash.finalize()) != *digest {
            let reason = "its layer is not what its manifest says: size or digest differ".to_owned();
            return Err(self.unusable(&artifact.digest, reason));
        }
        Ok(())
    }

    fn parsed(&self, body: &[u8], digest: &str) -> Result<ImageManifest, Error> {
        serde_json::from_slice(body)
            .map_err(|error| self.unusable(digest, format!("its manifest cannot be read: {error}")))
    }

    /// Asks for a path below the repository, signed in if the registry wants that.
    fn get(&mut self, path: &str, accept: &str) -> Result<Response, Error> {
        let scheme = if self.spec.allow_insecure_http { "http" } else { "https" };
        let ArtifactReference { host, repository, .. } = self.reference;
        let url = format!("{scheme}://{host}/v2/{repository}/{path}");
        let answer = self.send(&url, accept)?;
        if answer.status() != StatusCode::UNAUTHORIZED || self.authorization.is_some() {
            return Ok(answer);
        }
        self.authorization = self.sign_in(&answer, &url)?;
        if self.authorization.is_none() { Ok(answer) } else { self.send(&url, accept) }
    }

    fn send(&self, url: &str, accept: &str) -> Result<Response, Error> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted { location: self.spec.location.clone() });
        }
        let mut request = self.client.get(url).header(ACCEPT, accept);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        request.send().map_err(|error| connection::failed(self.spec, error))
    }

    /// Reads a whole answer. `digest` says what it is of.
    fn read(&self, answer: Response, digest: &str, limit: u64) -> Result<Vec<u8>, Error> {
        let mut body = Vec::new();
        self.each_chunk(answer, digest, limit, |chunk| {
            body.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok(body)
    }

    /// Reads an answer piece by piece.
    fn each_chunk(
        &self,
        mut answer: Response,
        digest: &str,
        limit: u64,
        mut take: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.check_status(answer.status(), digest)?;
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut total = 0;
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted { location: self.spec.location.clone() });
            }
            let read = answer.read(&mut chunk).map_err(|error| Error::Unreachable {
                location: self.spec.location.clone(),
                cause: Cause::text(&error.to_string(), &Secrets::default()),
            })?;
            total += read as u64;
            if total > limit {
                let reason = format!("the registry sends more than the {limit} bytes that are expected");
                return Err(self.unusable(digest, reason));
            }
            if read == 0 {
                return Ok(());
            }
            take(&chunk[..read])?;
        }
    }

    fn check_status(&self, status: StatusCode, digest: &str) -> Result<(), Error> {
        let location = self.spec.location.clone();
        let cause = Cause::text(&format!("HTTP status {status}"), &Secrets::default());
        match status {
            StatusCode::OK => Ok(()),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let reason = if self.spec.token.is_some() {
                    "the account or its token is wrong, expired, or may not read it"
                } else {
                    "it wants an account: set `user` and `tokenFile`"
                };
                Err(Error::AccessDenied { location, reason, cause })
            }
            StatusCode::NOT_FOUND => {
                Err(self.unusable(digest, "the registry lacks a part of it that its manifest names".to_owned()))
            }
            // These pass by themselves, so that the next poll may succeed.
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                Err(Error::Unreachable { location, cause })
            }
            _ => Err(Error::Remote { location, cause }),
        }
    }

    fn unusable(&self, digest: &str, reason: String) -> Error {
        Error::Artifact { location: self.spec.location.clone(), digest: digest.to_owned(), reason }
    }
}

/// Returns a text of a stranger, shortened and without control characters.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(REVISION_CHARS_MAX).collect()
}
