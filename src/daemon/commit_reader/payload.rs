//! Reads what a snapshot holds again.

use std::collections::BTreeMap;
use std::sync::Arc;

use decide::payload::Payload;
use decide::snapshot;
use git::{Blob, Reader};
use model::id::BlobId;
use model::manifest::{InputError, Manifest};
use model::records::{ResourceSnapshot, SnapshotResource};
use source::ParsedBlob;

/// Reads a snapshot's payload again, for example after a restart.
///
/// # Errors
/// What could not be read, as text for users. The clusters then keep their objects.
pub fn read_payload(reader: &Reader, snapshot: &ResourceSnapshot) -> Result<Payload, String> {
    let of_clusters = snapshot.variants.iter().flat_map(|variants| &variants.made);
    let of_clusters = of_clusters.flat_map(|variant| &variant.resources);
    let resources = snapshot.resources.iter().chain(of_clusters);
    let mut blobs: Vec<BlobId> = resources.map(|r| r.origin.blob.clone()).collect();
    blobs.sort();
    blobs.dedup();
    let missing = |why: String| format!("the payload of {} cannot be read: {why}", snapshot.name());
    let meter = source::COMMIT.meter();
    let read = |position: usize, content: Blob| {
        let content = content.into_content(blobs[position].as_str())?;
        Ok::<_, Box<InputError>>(source::parse_blob_within(&content, &meter))
    };
    let contents = reader.each_blob(&blobs, read).map_err(|error| missing(error.to_string()))?;
    if meter.ran_over() {
        return Err(missing("its files hold more YAML values than a commit may".to_owned()));
    }
    let mut parsed: BTreeMap<&BlobId, ParsedBlob> = BTreeMap::new();
    for (blob, content) in blobs.iter().zip(contents) {
        parsed.insert(blob, content.map_err(|error| missing(error.to_string()))?);
    }
    let manifest = |resource: &SnapshotResource| {
        let document =
            parsed.get(&resource.origin.blob)?.documents.iter().find(|d| d.ordinal == resource.origin.ordinal)?;
        let id = document.id.clone();
        let object = Arc::clone(&document.object);
        let encrypted = document.encrypted.clone();
        let mut manifest = Manifest { id, object, origin: resource.origin.clone(), encrypted };
        if manifest.id.namespace != resource.id.namespace {
            // The placement gave it one.
            manifest = manifest.in_namespace(&resource.id.namespace);
        }
        let manifest = Manifest { id: resource.id.clone(), ..snapshot::sanitised(&manifest) };
        // The blob id is the same, but another version of gitfleet may read or sanitise it differently.
        snapshot::is_of_digest(&manifest, &resource.digest).then_some(manifest)
    };
    let found = |r: &SnapshotResource| {
        manifest(r).ok_or_else(|| format!("{} is not what it was at {}:{}", r.id, r.origin.path, r.origin.line))
    };
    Payload::read_again(snapshot, found).map_err(missing)
}
