//! The objects that works are made of, for whoever looks at them: records name them, and git holds them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use anyhow::{Context as _, anyhow};
use serde_json::Value;
use sha2::Digest as _;

use super::commit_reader::read_payload;
use decide::snapshot::works_for_cluster;
use decide::state::Payload;
use engine::store::saved::Records;
use model::id::PlacementKey;
use model::overrides::{OverrideRef, OverrideSnapshot};
use model::records::Binding;
use model::variants::ClusterInputs;
use model::yaml;
use views::differences::ObjectTexts;
use views::redact::{MaskKey, masked};

/// Reads the manifests of works from a repository.
pub struct Manifests<'a> {
    saved: &'a Records,
    reader: git::Reader,
    overrides: BTreeMap<&'a OverrideRef, &'a OverrideSnapshot>,
    payloads: BTreeMap<(PlacementKey, u64), Payload>,
    shows_secrets: bool,
    /// The key of markers for secret values; without one it follows from the objects.
    mask: Option<MaskKey>,
}

impl<'a> Manifests<'a> {
    /// Takes what reads the source's commits.
    pub fn read_by(saved: &'a Records, reader: git::Reader, shows_secrets: bool) -> Self {
        let overrides = saved.overrides.iter().map(|snapshot| (&snapshot.id, snapshot)).collect();
        Self { saved, reader, overrides, payloads: BTreeMap::new(), shows_secrets, mask: None }
    }

    /// Masks secret values with this key.
    #[must_use]
    pub fn masked_by(self, mask: MaskKey) -> Self {
        Self { mask: Some(mask), ..self }
    }

    /// Returns what a cluster is to hold, overrides applied, secret values masked unless they are to be shown.
    ///
    /// # Errors
    /// The repository does not have the commit, or an override fails on the cluster.
    pub fn of(&mut self, binding: &Binding) -> anyhow::Result<Vec<Value>> {
        let Some(index) = binding.snapshot else { return Ok(Vec::new()) };
        let objects = self.at(binding, index)?;
        Ok(if self.shows_secrets { objects } else { hidden(&objects, &self.mask_key(&objects)) })
    }

    /// Returns what a cluster holds with its snapshot and what it would with another, secret values masked: equal ones alike, so that a
    /// change is seen.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn both(&mut self, binding: &Binding, wanted: u64) -> anyhow::Result<(Vec<Value>, Vec<Value>)> {
        let old = binding.snapshot.map_or(Ok(Vec::new()), |index| self.at(binding, index))?;
        let new = self.at(binding, wanted)?;
        Ok(self.hidden_alike(&old, &new))
    }

    /// Returns the objects of two snapshots of a placement as git holds them, without overrides; secret values as in [`Self::both`].
    ///
    /// # Errors
    /// The repository does not have the commit of a snapshot.
    pub fn between(
        &mut self,
        placement: &PlacementKey,
        from: Option<u64>,
        to: u64,
    ) -> anyhow::Result<(Vec<Value>, Vec<Value>)> {
        let mut objects = |index| {
            let payload = self.payload(placement, index)?;
            Ok::<_, anyhow::Error>(payload.manifests.iter().map(|manifest| Value::clone(&manifest.object)).collect())
        };
        let old: Vec<Value> = from.map_or(Ok(Vec::new()), &mut objects)?;
        let new: Vec<Value> = objects(to)?;
        Ok(self.hidden_alike(&old, &new))
    }

    fn hidden_alike(&self, old: &[Value], new: &[Value]) -> (Vec<Value>, Vec<Value>) {
        let mask = self.mask_key(&[old, new].concat());
        (hidden(old, &mask), hidden(new, &mask))
    }

    fn mask_key(&self, objects: &[Value]) -> MaskKey {
        self.mask.clone().unwrap_or_else(|| mask_key(objects))
    }

    /// Returns a cluster's objects of a snapshot, secret values included.
    fn at(&mut self, binding: &Binding, index: u64) -> anyhow::Result<Vec<Value>> {
        self.payload(&binding.placement, index)?;
        let payload = &self.payloads[&(binding.placement.clone(), index)];
        let payload = payload.variant(self.inputs(binding, index).as_ref());
        let made = payload.and_then(|payload| {
            let lookup = |id: &OverrideRef| self.overrides.get(id).copied();
            works_for_cluster(&payload.manifests, &binding.cluster, &binding.overrides, lookup)
        });
        let made = made.map_err(|why| anyhow!("{}: {why}", binding.cluster))?;
        Ok(made.iter().map(|manifest| Value::clone(&manifest.object)).collect())
    }

    /// Returns what a snapshot was rendered with for a cluster: what it has, or for another snapshot that asks for other values nothing known.
    fn inputs(&self, binding: &Binding, index: u64) -> Option<ClusterInputs> {
        let snapshot = self.saved.snapshots.get(&binding.placement)?.get(&index)?;
        let held = binding.overrides.variant.as_ref()?;
        let reads = &snapshot.variants.as_ref()?.reads;
        Some(held.iter().filter(|(field, _)| reads.contains(field)).map(|(f, v)| (f.clone(), v.clone())).collect())
    }

    /// Returns the objects of a snapshot, read once.
    fn payload(&mut self, placement: &PlacementKey, index: u64) -> anyhow::Result<&Payload> {
        match self.payloads.entry((placement.clone(), index)) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                let snapshot = self.saved.snapshots.get(placement).and_then(|of| of.get(&index));
                let snapshot = snapshot.with_context(|| format!("snapshot {index} of {placement} is gone"))?;
                let payload = read_payload(&self.reader, snapshot);
                let payload = payload.map_err(|why| anyhow!("{why}; it is of commit {}", snapshot.commit))?;
                Ok(place.insert(payload))
            }
        }
    }
}

fn hidden(objects: &[Value], mask: &MaskKey) -> Vec<Value> {
    objects.iter().map(|object| masked(object, mask)).collect()
}

/// Returns a key that follows from the objects: a guess at one value can only be tried together with a guess at all others.
fn mask_key(objects: &[Value]) -> MaskKey {
    let hash = objects.iter().fold(sha2::Sha256::new(), |hash, object| {
        let text = object.to_string();
        hash.chain_update((text.len() as u64).to_be_bytes()).chain_update(text)
    });
    MaskKey::new(hash.finalize().into())
}

/// Returns the objects as YAML, by what they are called.
pub fn texts(objects: &[Value]) -> ObjectTexts {
    objects.iter().map(|object| (name(object), yaml::to_string(object))).collect()
}

fn name(object: &Value) -> String {
    let namespace = match text(object, "/metadata/namespace") {
        "" => String::new(),
        namespace => format!("{namespace}/"),
    };
    let kind = text(object, "/kind");
    let name = text(object, "/metadata/name");
    let api_version = text(object, "/apiVersion");
    format!("{kind} {namespace}{name} ({api_version})")
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
