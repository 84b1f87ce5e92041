//! Explains why a placement has its clusters, from the values of the decision: pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::Baseline;
use config::Configuration;
use decide::Pass;
use decide::ocm::{Ocm, key_named};
use decide::snapshot::scheduled_policy;
use decide::state::{FleetState, PlacementState};
use decide::status::work::listing;
use engine::persist::SavedRecords;
use model::api::annotations::OCM_PLACEMENT;
use model::api::table::named;
use model::explanation::{ClusterExplanation, Explained, Explanation, Query};
use model::id::{ClusterName, PlacementKey};
use model::records::Binding;
use model::text;
use model::tree::Tree;
use schedule::{BadValues, Request, differences, explain as explain_policy, ocm};

/// What a decision says of scores where nothing was scored.
const NOTHING_SCORED: &str = " (affinity score 0, topology spread score 0)";

/// Kinds with an explanation.
const KINDS: [&str; 3] = ["ClusterResourcePlacement", "ResourcePlacement", "Placement"];

/// Why there is no explanation, as text for users.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No placement has this name.
    #[error("there is no placement {placement}{of}; {hint}")]
    Unknown {
        /// The requested name.
        placement: String,
        /// The requested kind, as part of the sentence.
        of: String,
        /// Similar names, or the existing ones.
        hint: String,
    },
    /// Two kinds have a placement with this name.
    #[error(
        "{0} is the name of a ResourcePlacement and of an OCM Placement; say --kind ResourcePlacement or --kind Placement"
    )]
    Ambiguous(String),
    /// A kind that selects nothing.
    #[error("{0:?} is no kind of placement; known: {known}", known = KINDS.join(", "))]
    Kind(String),
    /// The daemon has just started.
    #[error("the daemon has not read the accepted commit yet; ask again in a moment")]
    Unread,
    /// It could not be evaluated.
    #[error("{placement} cannot be explained: {reason}")]
    Judging {
        /// Its name.
        placement: String,
        /// The reason.
        reason: String,
    },
}

/// Explains the present decision of a placement.
///
/// A kept cluster is shown with its score as if all clusters were evaluated from scratch; also with its rank, unless this
/// evaluation ranks other clusters for open places. Picked clusters come first, each part by rank and then by name.
///
/// # Errors
/// No placement, or two, have the name; the tree is not read yet; or the placement cannot be evaluated.
pub fn explain(
    fleet: &FleetState,
    placements: &BTreeMap<PlacementKey, PlacementState>,
    query: &Query,
    now: Timestamp,
) -> Result<Explanation, Error> {
    let is_known = !placements.is_empty() || fleet.ocm.records().next().is_some();
    // A process has records before it has the tree: without the tree nothing is known of the clusters.
    if is_known && fleet.tree.inputs.is_empty() {
        return Err(Error::Unread);
    }
    let mut explanation = match find(fleet, placements, query)? {
        ExplainedPlacement::Ocm(key) => explain_ocm(&fleet.ocm, &key, now)?,
        ExplainedPlacement::Placement(state) => {
            let mut explanation = match state.record.annotations.get(OCM_PLACEMENT).and_then(|text| key_named(text)) {
                Some(key) => delegated(state, explain_ocm(&fleet.ocm, &key, now)?),
                None => explain_placement(fleet, state)?,
            };
            for cluster in explanation.clusters.iter_mut().filter(|cluster| cluster.picked) {
                if state.record.ignored.contains(&cluster.cluster_name) {
                    cluster.reason.push_str("; in no stage, so its strategy leaves it as it is");
                }
            }
            explanation
        }
    };
    explanation.clusters.sort_by(|a, b| place(a).cmp(&place(b)));
    Ok(explanation)
}

/// Returns what orders clusters: picked ones first, each part by rank and then by name.
fn place(cluster: &ClusterExplanation) -> (bool, usize, &ClusterName) {
    (!cluster.picked, cluster.rank.unwrap_or(usize::MAX), &cluster.cluster_name)
}

/// Explains what a tree would decide, and with a base the changes from it.
///
/// # Errors
/// As [`explain`]; a placement that only the head has counts as new.
pub fn from_trees(
    base: Option<&Arc<Tree>>,
    head: &Arc<Tree>,
    query: &Query,
    now: Timestamp,
) -> Result<Explained, Error> {
    let before = base.map(|tree| Baseline::rolled_out(tree, now));
    let mut after = before.as_ref().unwrap_or(&Baseline::default()).accepting(head, now);
    if let Some(state) = after.placements.get_mut(&query.key()) {
        // Nothing has decided the head's placement, so which clusters are picked is not known yet.
        state.record.ignored = Pass::new(state.clone(), &after.fleet, now).ignored_by_strategy();
    }
    let picker = head.placements.get(&query.key()).and_then(|placement| placement.annotations.get(OCM_PLACEMENT));
    if let Some(key) = key_named(picker.unwrap_or(&query.placement)) {
        // `accepting` has decided it already: its own picks would count as those from before.
        after.fleet.ocm.undecide(&key, before.as_ref().map(|before| &before.fleet.ocm));
    }
    let mut explanation = explain(&after.fleet, &after.placements, query, now)?;
    // What a tree alone decides was picked at no time.
    explanation.clusters.iter_mut().for_each(|cluster| cluster.picked_at = None);
    let changes = match before {
        None => None,
        Some(before) => match explain(&before.fleet, &before.placements, query, now) {
            Ok(before) => Some(differences(&before, &explanation)),
            Err(Error::Unknown { .. }) => Some(differences(&Explanation::default(), &explanation)),
            Err(error) => return Err(error),
        },
    };
    Ok(Explained { explanation, changes })
}

/// Explains a placement's last decision from the records of a stopped daemon and the tree of the accepted commit.
///
/// # Errors
/// As [`explain`].
pub fn from_records(
    configuration: &Configuration,
    saved: SavedRecords,
    tree: Arc<Tree>,
    query: &Query,
    now: Timestamp,
) -> Result<Explained, Error> {
    let baseline = Baseline::from_records(configuration, saved, tree, now);
    Ok(Explained { explanation: explain(&baseline.fleet, &baseline.placements, query, now)?, changes: None })
}

enum ExplainedPlacement<'a> {
    Placement(&'a PlacementState),
    Ocm(ocm::Key),
}

fn find<'a>(
    fleet: &FleetState,
    placements: &'a BTreeMap<PlacementKey, PlacementState>,
    query: &Query,
) -> Result<ExplainedPlacement<'a>, Error> {
    let wanted = match &query.kind {
        Some(asked) => match named(asked) {
            Some(kind) if KINDS.contains(&kind.kind) => Some(kind.kind),
            _ => return Err(Error::Kind(asked.clone())),
        },
        None => None,
    };
    // A ResourcePlacement and an OCM Placement may have one name: only a kind tells them apart.
    let is_of = |kind: &str| wanted.is_none_or(|wanted| wanted == kind);
    let key = query.key();
    let own = if is_of(key.kind()) { placements.get(&key) } else { None };
    let ocm = key_named(&query.placement).filter(|key| is_of("Placement") && fleet.ocm.is_wished(key));
    match (own, ocm) {
        (Some(_), Some(_)) => Err(Error::Ambiguous(query.placement.clone())),
        (Some(state), None) => Ok(ExplainedPlacement::Placement(state)),
        (None, Some(key)) => Ok(ExplainedPlacement::Ocm(key)),
        (None, None) => {
            let of = wanted.map(|kind| format!(" of kind {kind}")).unwrap_or_default();
            Err(Error::Unknown { placement: query.placement.clone(), of, hint: hint(fleet, placements, query) })
        }
    }
}

/// Suggests placements: one of another kind, one of that name in a namespace, or one with a similar name.
fn hint(fleet: &FleetState, placements: &BTreeMap<PlacementKey, PlacementState>, query: &Query) -> String {
    let own = placements.keys().map(ToString::to_string);
    let known: BTreeSet<String> = own.chain(fleet.ocm.records().map(|(key, _)| key.to_string())).collect();
    let asked = query.placement.as_str();
    if known.contains(asked) {
        return "there is one of another kind; leave --kind out".to_owned();
    }
    let in_namespace = known.iter().find(|name| name.rsplit_once('/').is_some_and(|(_, name)| name == asked));
    let near = in_namespace.map(String::as_str).or_else(|| text::suggest(asked, known.iter().map(String::as_str)));
    match near {
        Some(name) => format!("did you mean {name}?"),
        None if known.is_empty() => "there are none at all".to_owned(),
        None => format!("there are {}", listing(known.into_iter())),
    }
}

fn explain_ocm(ocm: &Ocm, key: &ocm::Key, now: Timestamp) -> Result<Explanation, Error> {
    ocm.explain(key, now).map_err(|reason| Error::Judging { placement: key.to_string(), reason })
}

/// Adds the explanation of the OCM Placement that picks for a placement.
fn delegated(state: &PlacementState, explanation: Explanation) -> Explanation {
    let key = &state.record.key;
    Explanation {
        wanted: format!(
            "the clusters of Placement {}/{} ({})",
            explanation.namespace, explanation.name, explanation.wanted
        ),
        kind: key.kind().to_owned(),
        namespace: key.namespace.clone().unwrap_or_default(),
        name: key.name.clone(),
        ..explanation
    }
}

fn explain_placement(fleet: &FleetState, state: &PlacementState) -> Result<Explanation, Error> {
    let key = &state.record.key;
    let policy = scheduled_policy(key, state.wanted_policy());
    let bindings = state.shared_bindings();
    let request = Request {
        placement: key,
        policy: policy.as_ref(),
        policy_index: state.policy_index(policy.as_ref()),
        clusters: &fleet.clusters,
        bindings: &bindings,
        // As the daemon decides here, which differs from a hub.
        keep_held: true,
        bad_values: BadValues::Mismatch,
        tenant: fleet.tenant_of(&state.record),
    };
    let judging = |error: schedule::Error| Error::Judging { placement: key.to_string(), reason: error.to_string() };
    let mut explanation = explain_policy(&request).map_err(judging)?;
    if explanation.clusters.iter().any(|cluster| cluster.kept) {
        // Kept clusters are not scored: only without bindings every cluster is evaluated.
        let afresh = explain_policy(&Request { bindings: &[], ..request }).map_err(judging)?;
        let picked = bindings.iter().filter(|binding| !binding.deleting);
        let picked = picked.map(|binding| (&binding.cluster, PastPick::of(binding))).collect();
        evaluate_kept(&mut explanation.clusters, afresh.clusters, &picked);
    }
    Ok(explanation)
}

/// The decision that picked a cluster, when that was.
struct PastPick {
    reason: String,
    at: Option<Timestamp>,
}

impl PastPick {
    fn of(binding: &Binding) -> Self {
        let reason = binding.decision.reason.to_string();
        // The cluster's own name, and scores where nothing was scored, say nothing here.
        let reason = reason.replace(&format!("picked: {} ", binding.cluster), "picked: ");
        Self { reason: reason.replace(NOTHING_SCORED, ""), at: binding.created() }
    }
}

/// Adds the present scores of kept clusters. If no place was open, no cluster was ranked: then all get their present ranks.
fn evaluate_kept(
    clusters: &mut [ClusterExplanation],
    afresh: Vec<ClusterExplanation>,
    picked: &BTreeMap<&ClusterName, PastPick>,
) {
    let ranked = afresh.iter().filter(|cluster| cluster.rank.is_some()).count();
    let mut today: BTreeMap<ClusterName, ClusterExplanation> =
        afresh.into_iter().map(|cluster| (cluster.cluster_name.clone(), cluster)).collect();
    let settled = !clusters.iter().any(|cluster| cluster.picked && !cluster.kept);
    for cluster in clusters.iter_mut().filter(|cluster| cluster.kept || (settled && cluster.rank.is_some())) {
        let Some(today) = today.remove(&cluster.cluster_name) else { continue };
        let standing = today.rank.map(|rank| format!("rank {rank} of {ranked}"));
        let past = picked.get(&cluster.cluster_name);
        let then = past.map_or("picked earlier", |past| past.reason.as_str());
        // A kept cluster says why it was picked then, and how it would do now. One that is not picked although it ranks well says that earlier
        // picks are kept.
        cluster.reason = match (cluster.kept, standing) {
            (true, Some(standing)) => format!("{then}; today: {standing}"),
            (true, None) if today.picked => then.to_owned(),
            (true, None) => format!("{then}; today: {}", today.reason),
            (false, Some(standing)) if today.picked => {
                format!("not picked: {standing}, but clusters that were picked earlier are kept")
            }
            (false, Some(standing)) => format!("not picked: {standing}"),
            (false, None) => continue,
        };
        if cluster.kept {
            cluster.rejected = today.rejected;
            cluster.picked_at = past.and_then(|past| past.at);
        }
        cluster.scores = today.scores;
        // Where places are open, only clusters ranked for them have a rank; kept ones have none.
        cluster.rank = if settled { today.rank } else { None };
        cluster.tie_break = if settled { today.tie_break } else { None };
    }
}
