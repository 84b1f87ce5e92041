//! Which records a command reads: those of what it prints, and no others.

use super::kinds::Listing;
use engine::store::records::{
    BINDING_PREFIX, CLUSTER_PREFIX, OCM_PREFIX, OVERRIDE_PREFIX, PLACEMENT_PREFIX, POLICY_PREFIX, RUN_PREFIX,
    SNAPSHOT_PREFIX, SOURCE_PREFIX, WORK_PREFIX, binding_prefix, placement_key, policy_prefix, run_prefix,
    snapshot_prefix, work_prefix,
};
use model::id::PlacementKey;
use model::target::TargetWord;
use views::objects::work_name;

/// Placements that are asked for by name; where more have it, all records of their kinds are read.
const NAMED_MAX: usize = 16;

/// How much of the objects is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShownPart {
    /// A line of a table with KubeFleet's columns.
    Line,
    /// A line of a table with our own columns.
    OwnLine,
    /// The whole object.
    Whole,
}

/// Returns the prefixes of the records that a listing is made of; with `only`, as far as they belong to these placements.
pub(crate) fn prefixes(listing: Listing, detail: ShownPart, only: Option<&[PlacementKey]>) -> Vec<String> {
    let Some(only) = only.filter(|only| only.len() <= NAMED_MAX) else {
        return kinds(listing, detail).iter().map(|kind| (*kind).to_owned()).collect();
    };
    kinds(listing, detail).iter().flat_map(|kind| prefixes_of(kind, only)).collect()
}

/// Returns the prefixes of the records of one kind that belong to placements; that of all records where the kind belongs to none.
fn prefixes_of(kind: &str, placements: &[PlacementKey]) -> Vec<String> {
    let make: fn(&PlacementKey) -> String = match kind {
        PLACEMENT_PREFIX => placement_key,
        POLICY_PREFIX => policy_prefix,
        SNAPSHOT_PREFIX => snapshot_prefix,
        BINDING_PREFIX => binding_prefix,
        RUN_PREFIX => run_prefix,
        WORK_PREFIX => work_prefix,
        _ => return vec![kind.to_owned()],
    };
    placements.iter().map(make).collect()
}

/// Returns the placement that everything of a listing with this name belongs to, given all placements; `None` where the name alone
/// does not tell.
pub(crate) fn placements_of<'a>(
    listing: Listing,
    name: &str,
    all: impl Iterator<Item = &'a PlacementKey>,
) -> Option<Vec<PlacementKey>> {
    match listing {
        Listing::Placements => {
            let target = TargetWord::read(name);
            Some(all.filter(|key| target.is_placement(key)).cloned().collect())
        }
        Listing::Works => {
            // The namespace of a work is that of a member.
            let work = name.split_once('/').map_or(name, |(_, name)| name);
            Some(all.filter(|key| work_name(key) == work).cloned().collect())
        }
        _ => None,
    }
}

/// Returns the kinds of records that a listing is made of.
fn kinds(listing: Listing, detail: ShownPart) -> &'static [&'static str] {
    match (listing, detail) {
        (Listing::Placements, ShownPart::Line) => {
            &[PLACEMENT_PREFIX, POLICY_PREFIX, SNAPSHOT_PREFIX, BINDING_PREFIX, RUN_PREFIX, CLUSTER_PREFIX]
        }
        (Listing::Placements, _) => &[
            PLACEMENT_PREFIX,
            POLICY_PREFIX,
            SNAPSHOT_PREFIX,
            BINDING_PREFIX,
            RUN_PREFIX,
            CLUSTER_PREFIX,
            WORK_PREFIX,
            SOURCE_PREFIX,
        ],
        (Listing::Snapshots, ShownPart::OwnLine) => &[SNAPSHOT_PREFIX, PLACEMENT_PREFIX, BINDING_PREFIX],
        (Listing::Snapshots, _) => &[SNAPSHOT_PREFIX],
        (Listing::Policies, _) => &[POLICY_PREFIX],
        (Listing::Overrides, _) => &[OVERRIDE_PREFIX],
        (Listing::Bindings, ShownPart::Whole) | (Listing::Works, _) => &[BINDING_PREFIX, WORK_PREFIX],
        (Listing::Bindings, _) => &[BINDING_PREFIX],
        (Listing::OcmPlacements | Listing::PlacementDecisions, _) => &[OCM_PREFIX],
        (Listing::Evictions, _) => &[PLACEMENT_PREFIX],
        (Listing::Runs, ShownPart::OwnLine) => &[RUN_PREFIX, SNAPSHOT_PREFIX, PLACEMENT_PREFIX],
        (Listing::Runs, _) => &[RUN_PREFIX],
        (Listing::Approvals, ShownPart::OwnLine) => &[RUN_PREFIX, PLACEMENT_PREFIX, SOURCE_PREFIX],
        (Listing::Approvals, _) => &[RUN_PREFIX, PLACEMENT_PREFIX],
        (Listing::Clusters, _) => &[CLUSTER_PREFIX],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_the_records_of_its_placement() {
        let all = [
            PlacementKey::cluster_scoped("web"),
            PlacementKey::namespaced("shop", "web"),
            PlacementKey::cluster_scoped("web-2"),
        ];
        let rows: [(Listing, &str, Option<&[PlacementKey]>); 7] = [
            (Listing::Placements, "web", Some(&all[..2])),
            (Listing::Placements, "shop/web", Some(&all[1..2])),
            (Listing::Placements, "api", Some(&[])),
            (Listing::Works, "web-work", Some(&all[..1])),
            (Listing::Works, "fleet-member-east/shop.web-work", Some(&all[1..2])),
            (Listing::Bindings, "web-east-1234", None),
            (Listing::Clusters, "east", None),
        ];
        for (listing, name, expected) in rows {
            assert_eq!(placements_of(listing, name, all.iter()).as_deref(), expected, "{listing:?} {name}");
        }
        let found = prefixes(Listing::Works, ShownPart::Whole, Some(&all[1..2]));
        assert_eq!(found, ["binding/shop%2Fweb/", "work/shop%2Fweb/"]);
        let found = prefixes(Listing::Placements, ShownPart::Line, Some(&all[..1]));
        let expected = ["placement/web", "policy/web/", "snapshot/web/", "binding/web/", "run/web/", "cluster/"];
        assert_eq!(found, expected, "a line says nothing of works");
    }

    #[test]
    fn too_many_placements_of_a_name_are_read_as_all() {
        let all: Vec<_> = (0..=NAMED_MAX).map(|n| PlacementKey::namespaced(format!("ns-{n}"), "web")).collect();
        assert_eq!(prefixes(Listing::Works, ShownPart::Line, Some(&all)), [BINDING_PREFIX, WORK_PREFIX]);
    }
}
