//! The kinds of objects that records are shown as, and the words that name them on the command line.

use std::ffi::OsStr;

use clap::ValueEnum as _;
use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{Error, ErrorKind};

use model::api::table;
use model::api::table::KINDS;
use model::text::suggest;
use views::table::{Columns, TableKind};

/// What lists together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Listing {
    /// ClusterResourcePlacements and ResourcePlacements.
    #[value(alias = "placement")]
    Placements,
    /// Resource snapshots.
    #[value(alias = "snapshot")]
    Snapshots,
    /// Policy snapshots.
    #[value(alias = "policy")]
    Policies,
    /// Snapshots of ClusterResourceOverrides and ResourceOverrides.
    #[value(alias = "override")]
    Overrides,
    /// Bindings.
    #[value(alias = "binding")]
    Bindings,
    /// Staged update runs.
    #[value(alias = "run")]
    Runs,
    /// Approval requests of staged update runs, and closed deletion gates.
    #[value(alias = "approval")]
    Approvals,
    /// Works: what each cluster holds.
    #[value(alias = "work")]
    Works,
    /// OCM Placements.
    #[value(name = "ocmplacements", alias = "ocmplacement")]
    OcmPlacements,
    /// PlacementDecisions of OCM Placements.
    #[value(name = "placementdecisions", alias = "placementdecision", alias = "decisions")]
    PlacementDecisions,
    /// Evictions that were evaluated.
    #[value(alias = "eviction")]
    Evictions,
    /// Member clusters.
    #[value(alias = "cluster", alias = "members")]
    Clusters,
}

/// Which kinds of the table of all kinds are shown from records, and in which listing.
const RECORDED: [(&str, Listing); 20] = [
    ("ClusterResourcePlacement", Listing::Placements),
    ("ResourcePlacement", Listing::Placements),
    ("ClusterResourceSnapshot", Listing::Snapshots),
    ("ResourceSnapshot", Listing::Snapshots),
    ("ClusterSchedulingPolicySnapshot", Listing::Policies),
    ("SchedulingPolicySnapshot", Listing::Policies),
    ("ClusterResourceOverrideSnapshot", Listing::Overrides),
    ("ResourceOverrideSnapshot", Listing::Overrides),
    ("ClusterResourceBinding", Listing::Bindings),
    ("ResourceBinding", Listing::Bindings),
    ("ClusterStagedUpdateRun", Listing::Runs),
    ("StagedUpdateRun", Listing::Runs),
    ("ClusterApprovalRequest", Listing::Approvals),
    ("ApprovalRequest", Listing::Approvals),
    ("Work", Listing::Works),
    ("Placement", Listing::OcmPlacements),
    ("PlacementDecision", Listing::PlacementDecisions),
    ("ClusterResourcePlacementEviction", Listing::Evictions),
    ("MemberCluster", Listing::Clusters),
    ("ManagedCluster", Listing::Clusters),
];

impl Listing {
    /// Returns the table that shows it.
    pub(crate) fn table(self) -> TableKind {
        match self {
            Self::Placements => TableKind::Placements,
            Self::Snapshots | Self::Policies | Self::Overrides => TableKind::Snapshots,
            Self::Bindings => TableKind::Bindings,
            Self::Works => TableKind::Works,
            Self::Clusters => TableKind::Clusters,
            Self::OcmPlacements => TableKind::OcmPlacements,
            Self::PlacementDecisions => TableKind::Decisions,
            Self::Evictions => TableKind::Evictions,
            Self::Runs => TableKind::Runs,
            Self::Approvals => TableKind::Approvals,
        }
    }

    /// Tells whether a table of it can have columns of our own: the others with the same table are no resource snapshots.
    fn has_own_columns(self) -> bool {
        !matches!(self, Self::Policies | Self::Overrides | Self::Works | Self::OcmPlacements | Self::PlacementDecisions)
    }
}

/// The listings that `all` stands for.
const ALL: [Listing; 4] = [Listing::Placements, Listing::Runs, Listing::Approvals, Listing::Clusters];

/// Returns the kinds that a word names: one, several with commas, or `all`.
///
/// # Errors
/// Nothing of a name is shown; for people.
pub(crate) fn kinds_of(words: &str) -> Result<Vec<GetKind>, String> {
    if words.eq_ignore_ascii_case("all") {
        return Ok(ALL.map(|listing| GetKind { listing, only: None, is_ours: true }).to_vec());
    }
    words.split(',').filter(|word| !word.is_empty()).map(GetKind::of).collect()
}

/// What a person asked for: a listing, or one kind of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GetKind {
    /// Where it is listed.
    pub listing: Listing,
    /// The kind, where the word names one.
    pub only: Option<&'static str>,
    /// Whether the word is our noun, and not the name of a kind of KubeFleet's or OCM's.
    pub is_ours: bool,
}

impl GetKind {
    /// Reads a word: one of ours, or a name of a kind as kubectl takes it.
    ///
    /// # Errors
    /// Nothing of that name is shown; for people.
    pub(crate) fn of(word: &str) -> Result<Self, String> {
        if let Ok(listing) = Listing::from_str(word, true) {
            return Ok(Self { listing, only: None, is_ours: true });
        }
        let Some(kind) = table::named(word) else {
            let ours = Listing::value_variants().iter().filter_map(clap::ValueEnum::to_possible_value);
            let names: Vec<String> = ours.map(|value| value.get_name().to_owned()).collect();
            let kinds: Vec<String> = KINDS.iter().flat_map(table::Kind::names).collect();
            let known = names.iter().chain(&kinds).map(String::as_str);
            let hint = match suggest(&word.to_lowercase(), known) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("known: {}, and the kinds of KubeFleet and OCM by their names", names.join(", ")),
            };
            return Err(format!("there is no kind {word}; {hint}"));
        };
        let Some((only, listing)) = RECORDED.iter().find(|(name, _)| *name == kind.kind) else {
            let hint =
                if kind.kind.ends_with("ResourceOverride") { "; `get overrides` shows its snapshots" } else { "" };
            return Err(format!("gitfleet keeps no records of {}: it is in git as it is written{hint}", kind.kind));
        };
        // A cluster is shown as a MemberCluster, whichever kind git has of it.
        let only = (*listing != Listing::Clusters).then_some(*only);
        Ok(Self { listing: *listing, only, is_ours: false })
    }

    /// Returns whose columns a table of it has: our nouns have ours.
    pub(crate) fn columns(self) -> Columns {
        if self.is_ours && self.listing.has_own_columns() { Columns::Own } else { Columns::KubeFleet }
    }

    /// Tells whether all objects of it are of the cluster, and in no namespace.
    pub(crate) fn is_cluster_wide(self) -> bool {
        self.listing == Listing::Clusters || self.only.is_some_and(|kind| kind.starts_with("Cluster"))
    }

    /// Returns what reads it from a command line.
    pub(crate) fn parser() -> impl TypedValueParser<Value = Self> {
        Word
    }

    /// Returns its name, for people.
    pub(crate) fn name(self) -> String {
        self.only.map_or_else(|| format!("{:?}", self.listing).to_lowercase(), |kind| format!("{kind}s"))
    }
}

/// Says why a value of a command line is refused.
pub(super) fn refused_value(command: &clap::Command, why: &str) -> Error {
    Error::raw(ErrorKind::InvalidValue, format!("{why}\n")).with_cmd(command)
}

#[derive(Clone)]
struct Word;

impl TypedValueParser for Word {
    type Value = GetKind;

    fn parse_ref(&self, cmd: &clap::Command, _: Option<&clap::Arg>, value: &OsStr) -> Result<GetKind, Error> {
        GetKind::of(&value.to_string_lossy()).map_err(|why| refused_value(cmd, &why))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Listing::value_variants().iter().filter_map(clap::ValueEnum::to_possible_value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_listings_and_kinds() {
        let rows = [
            ("placements", Listing::Placements, None),
            ("Placement", Listing::Placements, None),
            ("crp", Listing::Placements, Some("ClusterResourcePlacement")),
            ("clusterresourceplacements", Listing::Placements, Some("ClusterResourcePlacement")),
            ("rp", Listing::Placements, Some("ResourcePlacement")),
            ("clusterStagedUpdateRun", Listing::Runs, Some("ClusterStagedUpdateRun")),
            ("clusterapprovalrequests", Listing::Approvals, Some("ClusterApprovalRequest")),
            ("careq.placement.kubernetes-fleet.io", Listing::Approvals, Some("ClusterApprovalRequest")),
            ("works.placement.kubernetes-fleet.io", Listing::Works, Some("Work")),
            ("placements.cluster.open-cluster-management.io", Listing::OcmPlacements, Some("Placement")),
            ("memberclusters", Listing::Clusters, None),
            ("managedclusters", Listing::Clusters, None),
            ("overrides", Listing::Overrides, None),
        ];
        for (word, listing, only) in rows {
            let found = GetKind::of(word).map(|kind| (kind.listing, kind.only));
            assert_eq!(found, Ok((listing, only)), "{word}");
        }
    }

    #[test]
    fn our_nouns_have_our_columns() {
        let rows = [
            ("placements", Columns::Own),
            ("runs", Columns::Own),
            ("cluster", Columns::Own),
            ("policies", Columns::KubeFleet),
            ("crp", Columns::KubeFleet),
            ("csur", Columns::KubeFleet),
            ("memberclusters", Columns::KubeFleet),
        ];
        for (word, columns) in rows {
            assert_eq!(GetKind::of(word).map(GetKind::columns), Ok(columns), "{word}");
        }
        let several = kinds_of("placements,csur").expect("kinds");
        assert_eq!(several.iter().map(|kind| kind.is_ours).collect::<Vec<_>>(), [true, false]);
        assert_eq!(kinds_of("all").map(|all| all.len()), Ok(ALL.len()));
    }

    #[test]
    fn what_nothing_is_called_is_told_apart_from_what_has_no_records() {
        let rows = [
            ("clusterstagedupdaterum", "did you mean clusterstagedupdaterun?"),
            ("unicorns", "known: placements, snapshots,"),
            ("crp.apps", "there is no kind crp.apps"),
            ("csus", "no records of ClusterStagedUpdateStrategy: it is in git"),
            ("clusterresourceoverrides", "`get overrides` shows its snapshots"),
        ];
        for (word, expected) in rows {
            let found = GetKind::of(word).expect_err(word);
            assert!(found.contains(expected), "{word}: {found}");
        }
    }

    #[test]
    fn recorded_kinds_are_in_the_table() {
        for (kind, _) in RECORDED {
            assert!(table::named(kind).is_some_and(|found| found.kind == kind), "{kind}");
        }
    }
}
