//! The kinds of KubeFleet and OCM that we read: one table of names, versions, scopes and readers.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::annotations::{self, Rule};
use super::check::{FieldError, LABEL_LENGTH_MAX, NAME_LENGTH_MAX};
use super::cluster::{MemberCluster, MemberClusterSpec};
use super::envelope::Envelope;
use super::eviction::{DisruptionBudgetSpec, EvictionSpec};
pub use super::groups::*;
use super::object::{self, Metadata, Object, Validate, metadata_errors};
use super::ocm::{
    AddOnPlacementScore, ManagedCluster, ManagedClusterSetBindingSpec, ManagedClusterSetSpec, ManagedClusterSpec,
    ManagedClusterStatus, OcmPlacementSpec, PlacementDecision,
};
use super::overrides::{ClusterResourceOverrideSpec, ResourceOverrideSpec};
use super::placement::PlacementSpec;
use super::placement_rules::{cluster_scope_errors, extension_errors};
use super::stage_checks;
use super::staged::{ApprovalRequestSpec, StagedUpdateRunSpec, StagedUpdateStrategySpec};
use crate::text::suggest;
use crate::tree::Scope;
use crate::yaml;

/// The label that KubeFleet sets on a MemberCluster to its own name.
pub const MEMBER_NAME_LABEL: &str = "kubernetes-fleet.io/member-name";

/// A document of one of our kinds, read and checked.
#[derive(Clone, Debug, PartialEq)]
pub enum Checked {
    /// ClusterResourcePlacement or ResourcePlacement.
    Placement(Box<PlacementSpec>),
    /// MemberCluster.
    MemberCluster(Box<MemberCluster>),
    /// ManagedCluster.
    ManagedCluster(Box<ManagedCluster>),
    /// Any other kind: checked; read again where it is used.
    Other,
}

type Read = fn(&Value) -> Result<(Metadata, Checked), Vec<FieldError>>;

/// One of gitfleet's kinds.
#[derive(Clone, Copy)]
pub struct Kind {
    /// API group.
    pub group: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// The name in URLs.
    pub plural: &'static str,
    /// The short name for command lines.
    ///
    /// Source: KubeFleet's CustomResourceDefinitions.
    pub short: Option<&'static str>,
    /// Whether its objects are namespaced.
    pub scope: Scope,
    /// The versions we read.
    pub versions: &'static [&'static str],
    name_length_max: usize,
    /// Whether a missing spec means an empty one.
    spec_optional: bool,
    annotations: &'static [Rule],
    read: Read,
}

const BOTH: &[&str] = &["v1", "v1beta1"];
const ALL: &[&str] = &["v1", "v1beta1", "v1alpha1"];
const OLD: &[&str] = &["v1beta1", "v1alpha1"];
const SETS: &[&str] = &["v1beta2", "v1beta1", "v1alpha1"];

const fn kind(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    scope: Scope,
    versions: &'static [&'static str],
    read: Read,
) -> Kind {
    Kind {
        group,
        kind,
        plural,
        short: None,
        scope,
        versions,
        name_length_max: NAME_LENGTH_MAX,
        spec_optional: false,
        annotations: &[],
        read,
    }
}

impl Kind {
    const fn short(self, short: &'static str) -> Self {
        Self { short: Some(short), ..self }
    }

    /// Returns the names that command lines know it by, in lower case: kind, plural, short name.
    pub fn names(&self) -> impl Iterator<Item = String> {
        [self.kind.to_lowercase(), self.plural.to_owned()].into_iter().chain(self.short.map(str::to_owned))
    }

    const fn name_is_label(self) -> Self {
        Self { name_length_max: LABEL_LENGTH_MAX, ..self }
    }

    const fn spec_optional(self) -> Self {
        Self { spec_optional: true, ..self }
    }

    const fn annotated(self, annotations: &'static [Rule]) -> Self {
        Self { annotations, ..self }
    }

    /// Reads and checks a document of this kind.
    ///
    /// # Errors
    /// Every field that does not fit, every rule that is broken.
    pub fn check(&self, document: &Value) -> Result<Checked, Vec<FieldError>> {
        let mut document = object::without_nulls(document);
        if let Some(map) = document.as_object_mut()
            && self.spec_optional
        {
            map.entry("spec").or_insert_with(|| json!({}));
        }
        let read = self.read;
        let (metadata, checked) = read(&document)?;
        let mut errors = metadata_errors(&metadata, self.name_length_max);
        match &checked {
            // This checks the annotations, too: some of them depend on the spec.
            Checked::Placement(spec) => errors.extend(extension_errors(&metadata, spec)),
            _ => errors.extend(annotations::validate(&metadata.annotations, self.annotations)),
        }
        if errors.is_empty() { Ok(checked) } else { Err(errors) }
    }
}

use Scope::{Cluster, Namespaced};

/// All of gitfleet's kinds, inputs first. Those parsed by `record` are records of the original systems: known, so that
/// `schedule` can start from them and they never count as payload.
pub const KINDS: &[Kind] = &[
    kind(PLACEMENT_GROUP, "ClusterResourcePlacement", "clusterresourceplacements", Cluster, BOTH, placement)
        .short("crp")
        .name_is_label()
        .annotated(annotations::ON_PLACEMENT),
    kind(PLACEMENT_GROUP, "ResourcePlacement", "resourceplacements", Namespaced, BOTH, placement)
        .short("rp")
        .name_is_label()
        .annotated(annotations::ON_PLACEMENT),
    kind(PLACEMENT_GROUP, "ClusterStagedUpdateStrategy", "clusterstagedupdatestrategies", Cluster, ALL, strategy)
        .short("csus")
        .annotated(annotations::ON_STRATEGY),
    kind(PLACEMENT_GROUP, "StagedUpdateStrategy", "stagedupdatestrategies", Namespaced, ALL, strategy)
        .short("sus")
        .annotated(annotations::ON_STRATEGY),
    kind(PLACEMENT_GROUP, "ClusterStagedUpdateRun", "clusterstagedupdateruns", Cluster, ALL, run)
        .short("csur")
        .name_is_label(),
    kind(PLACEMENT_GROUP, "StagedUpdateRun", "stagedupdateruns", Namespaced, ALL, run).short("sur").name_is_label(),
    kind(
        PLACEMENT_GROUP,
        "ClusterResourceOverride",
        "clusterresourceoverrides",
        Cluster,
        ALL,
        of_spec::<ClusterResourceOverrideSpec>,
    )
    .annotated(annotations::ON_OVERRIDE),
    kind(PLACEMENT_GROUP, "ResourceOverride", "resourceoverrides", Namespaced, ALL, of_spec::<ResourceOverrideSpec>)
        .annotated(annotations::ON_OVERRIDE),
    kind(PLACEMENT_GROUP, "ClusterResourceEnvelope", "clusterresourceenvelopes", Cluster, OLD, envelope),
    kind(PLACEMENT_GROUP, "ResourceEnvelope", "resourceenvelopes", Namespaced, OLD, envelope),
    kind(
        PLACEMENT_GROUP,
        "ClusterResourcePlacementEviction",
        "clusterresourceplacementevictions",
        Cluster,
        OLD,
        of_spec::<EvictionSpec>,
    )
    .short("crpe"),
    kind(
        PLACEMENT_GROUP,
        "ClusterResourcePlacementDisruptionBudget",
        "clusterresourceplacementdisruptionbudgets",
        Cluster,
        OLD,
        of_spec::<DisruptionBudgetSpec>,
    )
    .short("crpdb")
    .spec_optional(),
    kind(CLUSTER_GROUP, "MemberCluster", "memberclusters", Cluster, BOTH, member)
        .short("cluster")
        .name_is_label()
        .spec_optional()
        .annotated(annotations::ON_MEMBER),
    kind(OCM_GROUP, "ManagedCluster", "managedclusters", Cluster, &["v1"], managed)
        .name_is_label()
        .spec_optional()
        .annotated(annotations::ON_MANAGED),
    kind(OCM_GROUP, "ManagedClusterSet", "managedclustersets", Cluster, SETS, of_spec::<ManagedClusterSetSpec>)
        .spec_optional(),
    kind(OCM_GROUP, "ManagedClusterSetBinding", "managedclustersetbindings", Namespaced, SETS, set_binding),
    kind(OCM_GROUP, "Placement", "placements", Namespaced, OLD, of_spec::<OcmPlacementSpec>).spec_optional(),
    kind(OCM_GROUP, "PlacementDecision", "placementdecisions", Namespaced, OLD, decision),
    kind(OCM_GROUP, "AddOnPlacementScore", "addonplacementscores", Namespaced, &["v1alpha1"], score),
    kind(
        PLACEMENT_GROUP,
        "ClusterApprovalRequest",
        "clusterapprovalrequests",
        Cluster,
        ALL,
        of_spec::<ApprovalRequestSpec>,
    )
    .short("careq"),
    kind(PLACEMENT_GROUP, "ApprovalRequest", "approvalrequests", Namespaced, ALL, of_spec::<ApprovalRequestSpec>)
        .short("areq"),
    kind(PLACEMENT_GROUP, "ClusterSchedulingPolicySnapshot", "clusterschedulingpolicysnapshots", Cluster, BOTH, record)
        .short("csps"),
    kind(PLACEMENT_GROUP, "SchedulingPolicySnapshot", "schedulingpolicysnapshots", Namespaced, BOTH, record)
        .short("sps"),
    kind(PLACEMENT_GROUP, "ClusterResourceSnapshot", "clusterresourcesnapshots", Cluster, BOTH, record).short("crs"),
    kind(PLACEMENT_GROUP, "ResourceSnapshot", "resourcesnapshots", Namespaced, BOTH, record).short("rs"),
    kind(PLACEMENT_GROUP, "ClusterResourceBinding", "clusterresourcebindings", Cluster, BOTH, record).short("crb"),
    kind(PLACEMENT_GROUP, "ResourceBinding", "resourcebindings", Namespaced, BOTH, record).short("rb"),
    kind(PLACEMENT_GROUP, "ClusterResourceOverrideSnapshot", "clusterresourceoverridesnapshots", Cluster, ALL, record),
    kind(PLACEMENT_GROUP, "ResourceOverrideSnapshot", "resourceoverridesnapshots", Namespaced, ALL, record),
    kind(
        PLACEMENT_GROUP,
        "ClusterResourcePlacementStatus",
        "clusterresourceplacementstatuses",
        Namespaced,
        BOTH,
        placement_status,
    ),
    kind(PLACEMENT_GROUP, "Work", "works", Namespaced, BOTH, record),
    kind(PLACEMENT_GROUP, "AppliedWork", "appliedworks", Cluster, BOTH, record),
    kind(CLUSTER_GROUP, "InternalMemberCluster", "internalmemberclusters", Namespaced, BOTH, record).short("imc"),
];

/// Tells whether a group is one of gitfleet, so that its objects are never payload.
pub fn is_our_group(group: &str) -> bool {
    matches!(group, PLACEMENT_GROUP | CLUSTER_GROUP | OCM_GROUP | GITFLEET_GROUP)
}

/// Returns the kind with this group and name, in any version.
pub fn lookup(group: &str, kind: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|k| k.kind == kind && k.group == group)
}

/// Returns the kind of ours that a word of a command line names: by its kind, plural or short name in any case, alone or as
/// `name.group`.
pub fn named(word: &str) -> Option<&'static Kind> {
    let word = word.to_lowercase();
    let (name, group) = word.split_once('.').map_or((word.as_str(), None), |(name, group)| (name, Some(group)));
    let mut of_group = KINDS.iter().filter(|kind| group.is_none_or(|group| group == kind.group));
    of_group.find(|kind| kind.names().any(|known| known == name))
}

/// Returns the kind of a document; `None` for other groups.
///
/// # Errors
/// A kind or a version of our groups that we do not know.
pub fn find(group: &str, version: &str, kind: &str) -> Result<Option<&'static Kind>, FieldError> {
    if !is_our_group(group) {
        return Ok(None);
    }
    let Some(found) = lookup(group, kind) else {
        let of_group = KINDS.iter().filter(|k| k.group == group).map(|k| k.kind);
        let error = FieldError::new("kind", format!("group {group} has no kind {kind:?} that gitfleet reads"));
        // The very kind in another group is more likely meant than one that is spelled alike.
        let elsewhere = KINDS.iter().find(|k| k.kind == kind);
        return Err(match (suggest(kind, of_group), elsewhere) {
            (_, Some(other)) => error.hint(format!("did you mean `{}/{}`?", other.group, other.versions[0])),
            (Some(close), None) => error.hint(format!("did you mean `{close}`?")),
            (None, None) => error,
        });
    };
    if !found.versions.contains(&version) {
        let message = format!("{kind} has no version {version:?}");
        return Err(FieldError::new("apiVersion", message).hint(format!("known: {}", found.versions.join(", "))));
    }
    Ok(Some(found))
}

fn of_spec<S: DeserializeOwned + Validate>(value: &Value) -> Result<(Metadata, Checked), Vec<FieldError>> {
    object::read::<S>(value).map(|object| (object.metadata, Checked::Other))
}

fn placement(value: &Value) -> Result<(Metadata, Checked), Vec<FieldError>> {
    let object: Object<PlacementSpec> = object::read(value)?;
    if object.kind == "ClusterResourcePlacement" {
        let errors = cluster_scope_errors(&object.spec);
        if !errors.is_empty() {
            return Err(errors);
        }
    }
    Ok((object.metadata, Checked::Placement(Box::new(object.spec))))
}

fn strategy(value: &Value) -> Result<(Metadata, Checked), Vec<FieldError>> {
    let object: Object<StagedUpdateStrategySpec> = object::read(value)?;
    let errors = stage_checks::errors(&object.metadata.annotations, &object.spec);
    if errors.is_empty() { Ok((object.metadata, Checked::Other)) } else { Err(errors) }
}

fn run(value: &Value) -> Result<(Metadata, Checked), Vec<FieldError>> {
    of_spec::<StagedUpdateRunSpec>(value)
}

fn member(value: &Value) -> Result<(Metadata, Checked), Vec<FieldError>> {
    let object: Object<MemberClusterSpec> = object::read(value)?;
    let mut labels = object.metadata.labels.clone();
    // As KubeFleet does: selectors name a single cluster by this label.
    labels.insert(MEMBER_NAME_LABEL.to_owned(), object.metadata.name.clone());
    let cluster = MemberCluster {
        labels,
        annotations: object.metadata.annotations.clone(),
        spec: object.spec,
        status: object.status,
        deleting: object.metadata.deletion_timestamp.is_some(),
        only_managed: false,
        managed: None,
    };
    Ok((object.metadata, Checked::MemberCluster(Box::new(cluster))))
}

fn managed(value: &Value) -> Result<(Metadata, Checked), Vec<FieldError>> {
    let object: Object<ManagedClusterSpec> = object::read(value)?;
    let status: Option<ManagedClusterStatus> = match &object.status {
        Some(status) => Some(yaml::typed(status).map_err(|errors| below("status", errors))?),
        None => None,
    };
    let metadata = object.metadata;
    let cluster = ManagedCluster {
        labels: metadata.labels.clone(),
        annotations: metadata.annotations.clone(),
        spec: object.spec,
        status,
    };
    Ok((metadata, Checked::ManagedCluster(Box::new(cluster))))
}

fn below(prefix: &str, errors: Vec<FieldError>) -> Vec<FieldError> {
    let nested = errors.into_iter().map(|error| FieldError { field: format!("{prefix}.{}", error.field), ..error });
    nested.collect()
}

fn set_binding(value: &Value) -> Result<(Metadata, Checked), Vec<FieldError>> {
    let object: Object<ManagedClusterSetBindingSpec> = object::read(value)?;
    if object.spec.cluster_set != object.metadata.name {
        let message = format!("{:?} differs from metadata.name", object.spec.cluster_set);
        return Err(vec![FieldError::new("spec.clusterSet", message).hint("a binding has the name of its set")]);
    }
    Ok((object.metadata, Checked::Other))
}

fn envelope(value: &Value) -> Result<(Metadata, Checked), Vec<FieldError>> {
    let envelope: Envelope = yaml::typed(value)?;
    let errors = envelope.validate();
    if errors.is_empty() { Ok((envelope.metadata, Checked::Other)) } else { Err(errors) }
}

fn decision(value: &Value) -> Result<(Metadata, Checked), Vec<FieldError>> {
    yaml::typed::<PlacementDecision>(value).map(|object| (object.metadata, Checked::Other))
}

fn score(value: &Value) -> Result<(Metadata, Checked), Vec<FieldError>> {
    let object: AddOnPlacementScore = yaml::typed(value)?;
    let errors = object.validate();
    if errors.is_empty() { Ok((object.metadata, Checked::Other)) } else { Err(errors) }
}

fn record(value: &Value) -> Result<(Metadata, Checked), Vec<FieldError>> {
    yaml::typed::<Object<Value>>(value).map(|object| (object.metadata, Checked::Other))
}

fn placement_status(value: &Value) -> Result<(Metadata, Checked), Vec<FieldError>> {
    // This kind has `sourceStatus` where others have a spec.
    #[derive(Deserialize)]
    struct Loose {
        metadata: Metadata,
    }
    yaml::typed::<Loose>(value).map(|object| (object.metadata, Checked::Other))
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, clippy::too_many_lines, reason = "tables read better so")]
mod tests;
