//! Values by cluster: what of a cluster a rendered folder asks for, and what a snapshot holds for clusters that differ in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::facts;
use super::id::{ClusterName, CommitId, ObjectId};
use super::records::SnapshotResource;
use crate::api::cluster::MemberCluster;
use crate::text::one_line;

/// The file of a rendered folder that holds its values by cluster.
pub const VALUES_FILE: &str = "values.gitfleet.yaml";

/// Variants that one placement may have.
pub const VARIANTS_MAX: usize = 200;

/// Variants that the placements of one commit may have together, counted once for each folder.
pub const VARIANTS_IN_COMMIT_MAX: usize = 1_000;

/// The longest value of a cluster that can be asked for, in bytes: records hold it.
pub const VALUE_BYTES_MAX: usize = 1_024;

/// Fields that are named where inputs are shown.
const NAMED_MAX: usize = 5;

/// What can be asked of a cluster: what git says of it, so that it changes with commits alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum ClusterField {
    /// Its name.
    Name,
    /// A label, by key.
    Label(String),
    /// A property, by name: one that its document states, not one that was measured.
    Property(String),
}

impl fmt::Display for ClusterField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => f.write_str("name"),
            Self::Label(key) => write!(f, "label {key}"),
            Self::Property(name) => write!(f, "property {name}"),
        }
    }
}

impl From<ClusterField> for String {
    fn from(field: ClusterField) -> Self {
        field.to_string()
    }
}

impl TryFrom<String> for ClusterField {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.split_once(' ') {
            None if text == "name" => Ok(Self::Name),
            Some(("label", key)) => Ok(Self::Label(key.to_owned())),
            Some(("property", name)) => Ok(Self::Property(name.to_owned())),
            _ => Err(format!("{text:?} is no field of a cluster")),
        }
    }
}

/// What a cluster has of the fields that were asked for. Clusters with equal inputs share one rendering.
pub type ClusterInputs = BTreeMap<ClusterField, String>;

/// Names inputs for users on one line, such as `name=east, label region=eu`.
pub fn described(inputs: &ClusterInputs) -> String {
    if inputs.is_empty() {
        return "none of the values".to_owned();
    }
    let first = inputs.iter().take(NAMED_MAX);
    let mut named: Vec<String> =
        first.map(|(field, value)| one_line(&format!("{field}={value}")).into_owned()).collect();
    named.extend(inputs.len().checked_sub(NAMED_MAX).filter(|more| *more > 0).map(|more| format!("{more} more")));
    named.join(", ")
}

/// Returns what a cluster of git has of some fields; a field that it lacks is left out.
pub fn inputs_of(reads: &BTreeSet<ClusterField>, name: &ClusterName, member: &MemberCluster) -> ClusterInputs {
    let asks_property = reads.iter().any(|field| matches!(field, ClusterField::Property(_)));
    let properties = if asks_property { facts::stated(member) } else { BTreeMap::new() };
    let inputs = reads.iter().filter_map(|field| {
        let value = match field {
            ClusterField::Name => name.to_string(),
            ClusterField::Label(key) => member.labels.get(key)?.clone(),
            ClusterField::Property(key) => properties.get(key)?.clone(),
        };
        Some((field.clone(), value))
    });
    inputs.collect()
}

/// What a snapshot has for clusters beside its own objects, which are those of the rendering for no cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotVariants {
    /// What was asked of the clusters.
    pub reads: BTreeSet<ClusterField>,
    /// The variants, in order of their inputs.
    pub made: Vec<SnapshotVariant>,
}

/// What the clusters with equal inputs get instead of the snapshot's objects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotVariant {
    /// The inputs.
    pub inputs: ClusterInputs,
    /// The commit whose results hold the objects: that of the snapshot, or a later one that brought a cluster with these inputs.
    pub commit: CommitId,
    /// The objects that the snapshot does not have like this, in snapshot order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<SnapshotResource>,
    /// The objects of the snapshot that the variant does not have like this, in snapshot order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<ObjectId>,
}

impl SnapshotVariants {
    /// Returns the variant for some inputs.
    pub fn of(&self, inputs: &ClusterInputs) -> Option<&SnapshotVariant> {
        self.made.iter().find(|variant| variant.inputs == *inputs)
    }
}

impl SnapshotVariant {
    /// Returns what it has, given the objects of its snapshot: in no particular order.
    pub fn resources<'a>(&'a self, of: &'a [SnapshotResource]) -> impl Iterator<Item = &'a SnapshotResource> {
        of.iter().filter(|resource| !self.without.contains(&resource.id)).chain(&self.resources)
    }

    /// Returns how one list of objects differs from that of its snapshot.
    pub fn between(
        of: &[SnapshotResource],
        inputs: ClusterInputs,
        commit: CommitId,
        resources: &[SnapshotResource],
    ) -> Self {
        let known: BTreeMap<&ObjectId, &SnapshotResource> = of.iter().map(|found| (&found.id, found)).collect();
        let new: BTreeMap<&ObjectId, &SnapshotResource> = resources.iter().map(|found| (&found.id, found)).collect();
        Self {
            inputs,
            commit,
            resources: resources.iter().filter(|one| !has(&known, one)).cloned().collect(),
            without: of.iter().filter(|one| !has(&new, one)).map(|one| one.id.clone()).collect(),
        }
    }

    /// Tells whether two variants of equal snapshots have equal objects, wherever these stand.
    pub fn is_like(&self, other: &Self) -> bool {
        let own = self.resources.iter().map(|one| (&one.id, &one.digest));
        let others = other.resources.iter().map(|one| (&one.id, &one.digest));
        self.without == other.without && own.eq(others)
    }
}

/// Tells whether an object is among some with the same content.
fn has(objects: &BTreeMap<&ObjectId, &SnapshotResource>, one: &SnapshotResource) -> bool {
    objects.get(&one.id).is_some_and(|other| other.digest == one.digest)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::manifest::Origin;

    fn resource(name: &str, digest: &str) -> SnapshotResource {
        let text = |text: &str| text.to_owned();
        let id = ObjectId {
            group: String::new(),
            version: text("v1"),
            kind: text("ConfigMap"),
            namespace: text("a"),
            name: text(name),
        };
        let origin = Origin { path: Arc::from("chart"), line: 1, blob: "b".into(), ordinal: 0 };
        SnapshotResource { id, origin, digest: digest.into() }
    }

    #[test]
    fn fields_are_texts_and_read_back() {
        let rows = [
            (ClusterField::Name, "name"),
            (ClusterField::Label("region".to_owned()), "label region"),
            (ClusterField::Property("example.com/cpu count".to_owned()), "property example.com/cpu count"),
        ];
        for (field, text) in rows {
            assert_eq!(String::from(field.clone()), text);
            assert_eq!(ClusterField::try_from(text.to_owned()), Ok(field));
        }
        assert!(ClusterField::try_from("taint x".to_owned()).is_err());
        let inputs = ClusterInputs::from([(ClusterField::Label("region".to_owned()), "eu".to_owned())]);
        let text = serde_json::to_string(&inputs).expect("keys are text");
        assert_eq!(text, r#"{"label region":"eu"}"#);
        assert_eq!(serde_json::from_str::<ClusterInputs>(&text).expect("it is read"), inputs);
    }

    #[test]
    fn a_variant_is_what_differs() {
        let base = [resource("same", "1"), resource("other", "1"), resource("gone", "1")];
        let of_cluster = [resource("same", "1"), resource("other", "2"), resource("new", "1")];
        let variant = SnapshotVariant::between(&base, ClusterInputs::new(), "c".into(), &of_cluster);
        let names = |found: Vec<&SnapshotResource>| found.iter().map(|one| one.id.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(variant.resources.iter().collect()), ["other", "new"]);
        assert_eq!(variant.without.iter().map(|id| id.name.as_str()).collect::<Vec<_>>(), ["other", "gone"]);
        assert_eq!(names(variant.resources(&base).collect()), ["same", "other", "new"]);
        let again = SnapshotVariant::between(&base, ClusterInputs::new(), "d".into(), &of_cluster);
        assert!(variant.is_like(&again));
        assert!(!variant.is_like(&SnapshotVariant::between(&base, ClusterInputs::new(), "d".into(), &base)));
    }
}
