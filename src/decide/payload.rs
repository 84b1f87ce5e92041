//! The objects of a snapshot, prepared for delivery: pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::snapshot;
use deliver::waves::wave;
use model::encrypted::{EncryptedWork, carried};
use model::id::{Digest, ObjectId, ObjectKey, PlacementKey};
use model::manifest::Manifest;
use model::records::{ResourceSnapshot, SnapshotResource};
use model::tree::Tree;
use model::variants::{ClusterInputs, SnapshotVariants, described};
use model::work::Desired;

/// A snapshot's objects, ready for delivery: the objects in envelopes replace the envelopes, after the others.
#[derive(Debug, Default)]
pub struct Payload {
    /// The sanitised objects in snapshot order, then those of each envelope.
    pub manifests: Vec<Manifest>,
    /// The same objects in the form for deliveries; shared by all clusters without overrides.
    pub desired: Arc<[Desired]>,
    /// What clusters get instead, by inputs, where it was rendered for clusters.
    pub variants: Option<BTreeMap<ClusterInputs, Arc<Payload>>>,
}

impl Payload {
    /// Prepares a placement's frozen objects with their digests.
    ///
    /// # Errors
    /// An envelope that contains a forbidden object, as text for users.
    pub fn of(manifests: Vec<Manifest>, frozen: &snapshot::Frozen, placement: &PlacementKey) -> Result<Self, String> {
        let digests = frozen.resources.iter().map(|resource| resource.digest.clone());
        Self::with_digests(manifests, digests, placement)
    }

    /// Prepares a snapshot's objects that are read again by `manifest`, which returns a sanitised object.
    ///
    /// # Errors
    /// As [`Payload::of`], and those of `manifest`.
    pub fn read_again(
        snapshot: &ResourceSnapshot,
        manifest: impl Fn(&SnapshotResource) -> Result<Manifest, String>,
    ) -> Result<Self, String> {
        let placement = &snapshot.placement;
        let plain = snapshot.resources.iter().map(&manifest).collect::<Result<Vec<_>, _>>()?;
        let mut variants = Vec::new();
        for variant in snapshot.variants.iter().flat_map(|variants| &variants.made) {
            let same = plain.iter().filter(|one| !variant.without.contains(&one.id)).cloned();
            let mut manifests: Vec<Manifest> = same.collect();
            for resource in &variant.resources {
                manifests.push(manifest(resource)?);
            }
            snapshot::sort_for_snapshot(&mut manifests);
            variants.push((variant.inputs.clone(), manifests));
        }
        let digests = snapshot.resources.iter().map(|resource| resource.digest.clone());
        let payload = Self::with_digests(plain, digests, placement)?;
        if snapshot.variants.is_some() { payload.for_clusters(variants, placement) } else { Ok(payload) }
    }

    fn with_digests(
        manifests: Vec<Manifest>,
        digests: impl Iterator<Item = Digest>,
        placement: &PlacementKey,
    ) -> Result<Self, String> {
        let contents = snapshot::enveloped(&manifests, placement)?;
        // Paired before envelopes are removed: they have digests too.
        let plain = manifests.into_iter().zip(digests).filter(|(manifest, _)| !snapshot::is_envelope(manifest));
        let (mut manifests, digests): (Vec<Manifest>, Vec<Digest>) = plain.unzip();
        for (manifest, digest) in manifests.iter_mut().zip(&digests) {
            // Overrides change the object; what it was made of stays known by its digest.
            if let Some(encrypted) = &mut manifest.encrypted {
                encrypted.values = Some(digest.clone());
            }
        }
        let plain = manifests.iter().zip(digests).map(|(manifest, digest)| desired_as(manifest, digest));
        let desired = plain.chain(contents.iter().map(desired)).collect();
        manifests.extend(contents);
        Ok(Self { manifests, desired, variants: None })
    }

    /// Adds what clusters get instead, by inputs: sanitised objects in snapshot order.
    ///
    /// # Errors
    /// As [`Payload::of`].
    pub fn for_clusters(
        self,
        variants: impl IntoIterator<Item = (ClusterInputs, Vec<Manifest>)>,
        placement: &PlacementKey,
    ) -> Result<Self, String> {
        let mut made = BTreeMap::new();
        for (inputs, manifests) in variants {
            let digests: Vec<Digest> = manifests.iter().map(snapshot::object_digest).collect();
            let payload = Self::with_digests(manifests, digests.into_iter(), placement);
            let payload = payload.map_err(|why| format!("for clusters with {}: {why}", described(&inputs)))?;
            made.insert(inputs, Arc::new(payload));
        }
        Ok(Self { variants: Some(made), ..self })
    }

    /// Returns what a cluster gets before overrides: this, or what was rendered for it.
    ///
    /// # Errors
    /// Nothing was rendered for such clusters, as text for users.
    pub fn variant(&self, inputs: Option<&ClusterInputs>) -> Result<&Self, String> {
        let Some(variants) = &self.variants else { return Ok(self) };
        let nothing = ClusterInputs::new();
        let inputs = inputs.unwrap_or(&nothing);
        variants.get(inputs).map(AsRef::as_ref).ok_or_else(|| {
            format!(
                "the snapshot was not rendered for a cluster with {}: it is older than that, or the placement's policy no longer names the cluster",
                described(inputs)
            )
        })
    }

    /// Returns all objects that some cluster gets before overrides.
    pub fn all_manifests(&self) -> impl Iterator<Item = &Manifest> + Clone {
        let of_clusters = self.variants.iter().flat_map(BTreeMap::values).flat_map(|variant| &variant.manifests);
        self.manifests.iter().chain(of_clusters)
    }

    /// Tells whether it has something for all of these inputs.
    pub fn has_inputs(&self, named: Option<&SnapshotVariants>) -> bool {
        let Some(named) = named else { return self.variants.is_none() };
        self.variants.as_ref().is_some_and(|has| named.made.iter().all(|made| has.contains_key(&made.inputs)))
    }

    /// Adds the variants of another payload of the same snapshot that this one lacks, and drops those that are not `named`.
    #[must_use]
    pub fn joined(&self, other: &Self, named: &SnapshotVariants) -> Self {
        let mut variants = other.variants.clone();
        if let Some((all, own)) = variants.as_mut().zip(self.variants.as_ref()) {
            all.extend(own.iter().map(|(inputs, of)| (inputs.clone(), Arc::clone(of))));
            // Others may come back with other objects.
            all.retain(|inputs, _| named.of(inputs).is_some());
        }
        Self { manifests: self.manifests.clone(), desired: Arc::clone(&self.desired), variants }
    }

    /// Returns the identities of the objects.
    pub fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.desired.iter().map(|d| d.key.as_ref())
    }
}

/// Prepares one sanitised object for delivery.
pub fn desired(manifest: &Manifest) -> Desired {
    desired_as(manifest, snapshot::object_digest(manifest))
}

fn desired_as(manifest: &Manifest, digest: Digest) -> Desired {
    let id = manifest.id.clone();
    let object = Arc::clone(&manifest.object);
    let encrypted = manifest.encrypted.as_ref().map(|of| {
        let file = Arc::clone(&of.file);
        let path = Arc::clone(&manifest.origin.path);
        let ordinal = of.ordinal;
        let content = snapshot::value_digest(&carried(&object, &file, &path, ordinal));
        EncryptedWork { file, path, ordinal, content }
    });
    Desired { key: id.key().shared(), wave: wave(&id.group, &id.kind), id, object, digest, encrypted }
}

/// Returns the payload of a snapshot from its commits.
pub fn payload_among(trees: &[&Tree], frozen: &ResourceSnapshot) -> Result<Payload, String> {
    Payload::read_again(frozen, |resource| {
        let found = trees.iter().find_map(|tree| find(tree, resource));
        found.ok_or_else(|| format!("{} is not what it was", resource.id))
    })
}

/// Finds an object of a snapshot in the tree of a commit, sanitised.
fn find(tree: &Tree, resource: &SnapshotResource) -> Option<Manifest> {
    let namespace = &resource.id.namespace;
    // Several may have one identity, and some get their namespace from the placement only.
    let bare = ObjectId { namespace: String::new(), ..resource.id.clone() };
    let of_clusters = tree.of_clusters().filter(|one| one.id == resource.id || one.id == bare);
    let inputs = tree.inputs.iter().filter(|manifest| manifest.id == resource.id);
    let all = tree.at(&resource.id).iter().chain(tree.at(&bare)).chain(of_clusters).chain(inputs).cloned();
    let named = all.map(|of| if of.id.namespace == *namespace { of } else { of.in_namespace(namespace) });
    let sanitised = named.map(|manifest| snapshot::sanitised(&manifest));
    // Of what is encrypted the digest does not tell one file from another.
    let mut same = sanitised.filter(|of| of.encrypted.is_none() || of.origin.path == resource.origin.path);
    let found = same.find(|of| snapshot::is_of_digest(of, &resource.digest))?;
    Some(Manifest { origin: resource.origin.clone(), ..found })
}
