//! The objects that works are made of, for `get works --manifests`: records name them, and git holds them.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use serde_json::Value;
use sha2::Digest as _;

use crate::daemon::commit_reader::read_payload;
use crate::decide::state::Payload;
use crate::git;
use crate::model::id::PlacementKey;
use crate::model::overrides::{OverrideRef, OverrideSnapshot};
use crate::model::records::Binding;
use crate::snapshot::works_for_cluster;
use crate::store::saved::Records;
use crate::views::redact::{MaskKey, masked};

/// Reads the manifests of works from a repository.
pub struct Manifests<'a> {
    saved: &'a Records,
    reader: git::Reader,
    overrides: BTreeMap<&'a OverrideRef, &'a OverrideSnapshot>,
    payloads: BTreeMap<(PlacementKey, u64), Payload>,
    shows_secrets: bool,
}

impl<'a> Manifests<'a> {
    /// Opens the repository that a folder is in. Any clone serves that has the commits.
    ///
    /// # Errors
    /// The folder is in no repository.
    pub fn open(saved: &'a Records, repo: &Path, shows_secrets: bool) -> anyhow::Result<Self> {
        let (reader, _) = git::discover(repo).context("name with --repo a clone of the source")?;
        Ok(Self::read_by(saved, reader, shows_secrets))
    }

    /// Takes what reads the source's commits.
    pub fn read_by(saved: &'a Records, reader: git::Reader, shows_secrets: bool) -> Self {
        let overrides = saved.overrides.iter().map(|snapshot| (&snapshot.id, snapshot)).collect();
        Self { saved, reader, overrides, payloads: BTreeMap::new(), shows_secrets }
    }

    /// Returns what a cluster is to hold, overrides applied, secret values masked unless they are to be shown.
    ///
    /// # Errors
    /// The repository does not have the commit, or an override fails on the cluster.
    pub fn of(&mut self, binding: &Binding) -> anyhow::Result<Vec<Value>> {
        let Some(index) = binding.snapshot else { return Ok(Vec::new()) };
        let objects = self.at(binding, index)?;
        Ok(if self.shows_secrets { objects } else { hidden(&objects, &mask_key(&objects)) })
    }

    /// Returns what a cluster holds with its snapshot and what it would with another, secret values masked: equal ones alike, so that a
    /// change is seen.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn both(&mut self, binding: &Binding, wanted: u64) -> anyhow::Result<(Vec<Value>, Vec<Value>)> {
        let old = binding.snapshot.map_or(Ok(Vec::new()), |index| self.at(binding, index))?;
        let new = self.at(binding, wanted)?;
        let mask = mask_key(&[old.as_slice(), &new].concat());
        Ok((hidden(&old, &mask), hidden(&new, &mask)))
    }

    /// Returns a cluster's objects of a snapshot, secret values included.
    fn at(&mut self, binding: &Binding, index: u64) -> anyhow::Result<Vec<Value>> {
        let key = (binding.placement.clone(), index);
        if !self.payloads.contains_key(&key) {
            let snapshot = self.saved.snapshots.get(&binding.placement).and_then(|of| of.get(&index));
            let snapshot = snapshot.with_context(|| format!("snapshot {index} of {} is gone", binding.placement))?;
            let payload = read_payload(&self.reader, snapshot).map_err(|why| {
                anyhow!("{why}; it is of commit {}: name with --repo a clone that has it", snapshot.commit)
            })?;
            self.payloads.insert(key.clone(), payload);
        }
        let made = works_for_cluster(&self.payloads[&key].manifests, &binding.cluster, &binding.overrides, |id| {
            self.overrides.get(id).copied()
        });
        let made = made.map_err(|why| anyhow!("{}: {why}", binding.cluster))?;
        Ok(made.iter().map(|manifest| Value::clone(&manifest.object)).collect())
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
