//! Listings by pages: each item is what a table shows of an object, and nothing more.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::fleet::{FleetView, Placed};
use super::objects::{binding_object, member_cluster_object, member_namespace, placement_head, work_head, work_name};
use super::rows::{cluster_counts, cluster_state};
use super::table::{TableKind, line_of};
use decide::status::placement::PlacementView;
use decide::status::rollout::StateKind;
use decide::status::rollup::placement_conditions;
use model::id::{ClusterName, PlacementKey};
use model::records::{Binding, ClusterRecord};

/// The label that every MemberCluster has.
///
/// Source: KubeFleet.
const MEMBER_NAME: &str = "kubernetes-fleet.io/member-name";

/// Items of a page, unless another number is asked for.
pub const PAGE_ITEMS: usize = 100;
/// Items of a page at most.
pub const PAGE_ITEMS_MAX: usize = 1_000;
/// Bytes of the items of a page, unless a number of items is asked for.
pub const PAGE_BYTES: usize = 56 * 1024;
/// Bytes of the items of a page at most.
pub const PAGE_BYTES_MAX: usize = 1024 * 1024;

/// A page of a listing.
#[derive(Debug, Default, Serialize)]
pub struct ListPage {
    /// The items.
    pub items: Vec<Box<RawValue>>,
    /// What to ask with for more; absent at the end.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// How much of a listing is asked for.
#[derive(Clone, Debug, Default)]
pub struct ListPart {
    /// How many items at most.
    pub limit: Option<usize>,
    /// Where the part before it ended.
    pub after: Option<String>,
}

/// How placements are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By name.
    #[default]
    Name,
    /// Those first that something is wrong with.
    State,
    /// The youngest first.
    Age,
}

/// Which items are asked for.
#[derive(Clone, Debug, Default)]
pub struct ListFilter {
    /// Of this placement.
    pub placement: Option<PlacementKey>,
    /// On this cluster.
    pub cluster: Option<ClusterName>,
    /// Of this name: `NAME` or `NAMESPACE/NAME`.
    pub name: Option<String>,
    /// In this namespace.
    pub namespace: Option<String>,
    /// Placements in this state.
    pub state: Option<StateKind>,
    /// Clusters that answer, or that do not.
    pub online: Option<bool>,
}

impl ListFilter {
    fn takes_name(&self, namespace: Option<&str>, name: &str) -> bool {
        let is_named = self.name.as_deref().is_none_or(|wanted| match wanted.split_once('/') {
            Some((space, wanted)) => namespace == Some(space) && wanted == name,
            None => wanted == name,
        });
        is_named && self.namespace.as_deref().is_none_or(|wanted| namespace == Some(wanted))
    }
}

/// A page that is being filled.
struct Filling {
    page: ListPage,
    items_max: usize,
    bytes_left: usize,
}

impl Filling {
    fn new(part: &ListPart) -> Self {
        let bytes_left = if part.limit.is_some() { PAGE_BYTES_MAX } else { PAGE_BYTES };
        let items_max = part.limit.unwrap_or(PAGE_ITEMS).clamp(1, PAGE_ITEMS_MAX);
        Self { page: ListPage::default(), items_max, bytes_left }
    }

    /// Adds an item; tells whether it had a place. The first one always has.
    fn take(&mut self, item: &Value) -> bool {
        let item = serde_json::value::to_raw_value(item).expect("a value is JSON");
        let bytes = item.get().len();
        if !self.page.items.is_empty() && (bytes > self.bytes_left || self.page.items.len() == self.items_max) {
            return false;
        }
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.page.items.push(item);
        true
    }
}

/// Fills a page with what comes after the last one; every item has a place in the order, which the token names.
fn page<T>(part: &ListPart, items: impl Iterator<Item = (String, T)>, mut item: impl FnMut(T) -> Value) -> ListPage {
    let mut filling = Filling::new(part);
    let mut last = None;
    for (place, next) in items.filter(|(place, _)| part.after.as_ref().is_none_or(|after| place > after)) {
        if !filling.take(&item(next)) {
            filling.page.next = last;
            break;
        }
        last = Some(place);
    }
    filling.page
}

/// Returns what a table shows of a placement.
pub fn placement_line(view: &PlacementView) -> Value {
    let mut object = placement_head(view.record);
    object["status"] = json!({"conditions": placement_conditions(view)});
    line_of(TableKind::Placements, &object)
}

/// Lists placements.
pub fn placements(fleet: &FleetView, filter: &ListFilter, order: Order, part: &ListPart, now: Timestamp) -> ListPage {
    let meant = fleet.placements.iter().filter(|(key, placed)| {
        filter.takes_name(key.namespace.as_deref(), &key.name)
            && filter.cluster.as_ref().is_none_or(|cluster| placed.records.concerns(|name| name == cluster))
            && filter.state.is_none_or(|state| placed.shown(fleet, now).row.state.kind() == state)
    });
    let mut places = Vec::new();
    for (key, placed) in meant {
        let place = match order {
            Order::Name => placement_place(key),
            Order::State => {
                let state = placed.shown(fleet, now).row.state.clone();
                format!("{}/{}", u8::MAX - state.rank(), placement_place(key))
            }
            Order::Age => {
                let age = i64::MAX - placed.records.record.created_at.as_second();
                format!("{age:019}/{}", placement_place(key))
            }
        };
        places.push((place, placed));
    }
    places.sort_by(|a, b| a.0.cmp(&b.0));
    page(part, places.into_iter(), |placed| placed.shown(fleet, now).line.clone())
}

/// Returns the place of a placement among all: by name, and where it has a namespace by that first.
pub(super) fn placement_place(key: &PlacementKey) -> String {
    // Before everything else that a name may hold.
    key.to_string().replace('/', "%")
}

/// Returns a text that sorts as the key does: those without a namespace first.
fn pair_place(key: &PlacementKey) -> String {
    // No name holds a comma, and it sorts before everything that one may hold.
    format!("{},{}", key.namespace.as_deref().unwrap_or_default(), key.name)
}

/// Lists clusters. Those that answer have no time at which they last did: that is always now.
pub fn clusters(fleet: &FleetView, filter: &ListFilter, part: &ListPart, now: Timestamp) -> ListPage {
    let meant = fleet.clusters.iter().filter(|(name, cluster)| {
        filter.takes_name(None, name.as_str()) && filter.online.is_none_or(|online| cluster.online == online)
    });
    page(part, meant.map(|(name, cluster)| (name.to_string(), cluster)), |cluster| {
        let mut line = cluster_line(cluster, now);
        // Of the clusters of this page only.
        let (placements, behind) = cluster_counts(fleet, &cluster.name);
        line["cluster"]["placements"] = placements.into();
        line["cluster"]["behind"] = behind.into();
        line
    })
}

/// Returns what a table shows of a cluster, without the time at which one that answers was last seen.
pub fn cluster_line(cluster: &ClusterRecord, now: Timestamp) -> Value {
    let mut line = line_of(TableKind::Clusters, &member_cluster_object(cluster, now));
    if cluster.online {
        line["status"]["agentStatus"][0]["lastReceivedHeartbeat"] = Value::Null;
    }
    // It says the name once more.
    let labels = cluster.labels.iter().filter(|(key, _)| *key != MEMBER_NAME);
    line["cluster"] = json!({
        "online": cluster.online, "left": cluster.left, "since": cluster.since, "message": cluster.message,
        "state": cluster_state(cluster), "labels": labels.collect::<BTreeMap<_, _>>(),
    });
    line
}

/// Writes the time at which a cluster was last seen into a line of [`clusters`].
pub fn see_now(line: &mut Value, now: Timestamp) {
    if line["cluster"]["online"] == true {
        line["status"]["agentStatus"][0]["lastReceivedHeartbeat"] = now.to_string().into();
    }
}

/// Lists bindings.
pub fn bindings(fleet: &FleetView, filter: &ListFilter, part: &ListPart) -> ListPage {
    let meant = pairs(fleet, filter, part).filter(|(_, placed, binding)| {
        filter.takes_name(placed.records.record.key.namespace.as_deref(), &binding.name)
    });
    page(part, meant.map(|(place, _, binding)| (place, binding)), |binding| {
        line_of(TableKind::Bindings, &binding_object(binding, None))
    })
}

/// Lists works.
pub fn works(fleet: &FleetView, filter: &ListFilter, part: &ListPart, now: Timestamp) -> ListPage {
    let meant = pairs(fleet, filter, part).filter_map(|(place, placed, binding)| {
        let work = placed.records.work(binding)?;
        let name = work_name(&binding.placement);
        filter.takes_name(Some(&member_namespace(&binding.cluster)), &name).then_some((place, (binding, work)))
    });
    page(part, meant, |(binding, work)| line_of(TableKind::Works, &work_head(binding, work, now)))
}

/// Returns the bindings that are asked for, each with its place in the order.
fn pairs<'a>(
    fleet: &'a FleetView,
    filter: &'a ListFilter,
    part: &'a ListPart,
) -> impl Iterator<Item = (String, &'a Placed, &'a Binding)> {
    // Placements before the one that the last page ended in are left out.
    let from = part.after.as_deref().and_then(|after| after.rsplit_once(',')).map(|(placement, _)| placement);
    let placements = fleet.placements.iter().filter(move |(key, _)| {
        filter.placement.as_ref().is_none_or(|wanted| wanted == *key)
            && from.is_none_or(|from| pair_place(key).as_str() >= from)
    });
    placements.flat_map(move |(key, placed)| {
        let place = pair_place(key);
        let bindings = placed.records.bindings.iter().map(AsRef::as_ref);
        let bindings = bindings
            .filter(|binding: &&Binding| filter.cluster.as_ref().is_none_or(|wanted| *wanted == binding.cluster));
        bindings.map(move |binding| (format!("{place},{}", binding.name), placed.as_ref(), binding))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fixtures::fleet;
    use crate::fixtures::{Case, CaseStatus as _, at};
    use crate::objects::{placement_object, work_object};
    use crate::table::{Columns, table};

    #[test]
    fn a_line_makes_the_table_that_its_object_makes() {
        let mut case = Case::healthy(&["east", "west"]);
        case.offline("west");
        case.clusters.get_mut("east").expect("it is there").properties.extend([
            ("kubernetes-fleet.io/node-count".to_owned(), "3".to_owned()),
            ("resources.kubernetes-fleet.io/available-cpu".to_owned(), "7".to_owned()),
        ]);
        let work = |binding: &Binding| case.works[&binding.cluster].as_ref().clone();
        let bindings: Vec<&Binding> = case.bindings.iter().map(AsRef::as_ref).collect();
        let view = case.view();
        let mut clusters: Vec<Value> = case.clusters.values().map(|cluster| cluster_line(cluster, at(60))).collect();
        for line in &mut clusters {
            see_now(line, at(60));
        }
        let head = |binding: &&Binding| line_of(TableKind::Works, &work_head(binding, &work(binding), at(60)));
        let rows: [(TableKind, Vec<Value>, Vec<Value>); 4] = [
            (TableKind::Placements, vec![placement_object(&view)], vec![placement_line(&view)]),
            (
                TableKind::Bindings,
                bindings.iter().map(|b| binding_object(b, Some(&work(b)))).collect(),
                bindings.iter().map(|b| line_of(TableKind::Bindings, &binding_object(b, None))).collect(),
            ),
            (
                TableKind::Works,
                bindings.iter().map(|b| work_object(b, &work(b), at(60))).collect(),
                bindings.iter().map(head).collect(),
            ),
            (
                TableKind::Clusters,
                case.clusters.values().map(|cluster| member_cluster_object(cluster, at(60))).collect(),
                clusters,
            ),
        ];
        for (kind, objects, lines) in rows {
            for wide in [false, true] {
                let of = |objects: &[Value]| table(kind, Columns::KubeFleet, objects, wide, at(60));
                assert_eq!(of(&lines), of(&objects), "{kind:?}");
            }
        }
    }

    #[test]
    fn pages_hold_everything_once_and_in_order() {
        let clusters: Vec<String> = (0..30).map(|number| format!("c-{number:02}")).collect();
        let case = Case::healthy(&clusters.iter().map(String::as_str).collect::<Vec<_>>());
        let fleet = fleet(&["a", "a-b", "b"], &case);
        let filter = ListFilter::default();
        for limit in [None, Some(1), Some(7), Some(90), Some(1000)] {
            let mut after = None;
            let mut seen = Vec::new();
            let mut pages = 0;
            loop {
                let page = works(&fleet, &filter, &ListPart { limit, after: after.take() }, at(60));
                assert!(page.items.len() <= limit.unwrap_or(PAGE_ITEMS));
                seen.extend(page.items.iter().map(|item| item.get().to_owned()));
                pages += 1;
                match page.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
            assert_eq!(pages, 90_usize.div_ceil(limit.unwrap_or(PAGE_ITEMS)), "{limit:?}");
            let names: Vec<(String, String)> = seen
                .iter()
                .map(|item| serde_json::from_str::<Value>(item).expect("JSON"))
                .map(|item| (item["metadata"]["name"].to_string(), item["metadata"]["namespace"].to_string()))
                .collect();
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 90, "{limit:?}");
            let placements: Vec<_> = names.iter().map(|(name, _)| name.as_str()).collect();
            assert!(placements[..30].iter().all(|name| *name == "\"a-work\""), "{limit:?}");
        }
    }

    #[test]
    fn lists_are_filtered_and_sorted() {
        let mut case = Case::healthy(&["east", "west"]);
        case.offline("west");
        let whole = fleet(&["api", "web"], &case);
        let name = |page: &ListPage| -> Vec<String> {
            let items = page.items.iter().map(|item| serde_json::from_str::<Value>(item.get()).expect("JSON"));
            items.map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
        };
        let part = ListPart::default();
        let of = |filter: ListFilter| name(&works(&whole, &filter, &part, at(60)));
        assert_eq!(of(ListFilter { cluster: Some("east".into()), ..ListFilter::default() }), ["api-work", "web-work"]);
        assert_eq!(of(ListFilter { placement: "web".parse().ok(), ..ListFilter::default() }), ["web-work", "web-work"]);
        let named = ListFilter { name: Some("fleet-member-west/web-work".into()), ..ListFilter::default() };
        assert_eq!(of(named), ["web-work"]);
        let offline = ListFilter { online: Some(false), ..ListFilter::default() };
        assert_eq!(name(&clusters(&whole, &offline, &part, at(60))), ["west"]);
        let failed = ListFilter { state: Some(StateKind::Failed), ..ListFilter::default() };
        assert_eq!(name(&placements(&whole, &failed, Order::State, &part, at(60))), [""; 0]);
        assert_eq!(name(&placements(&whole, &ListFilter::default(), Order::Age, &part, at(60))), ["api", "web"]);
    }
}
