//! Listings by pages: each item is what a table shows of an object, and nothing more.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::fleet::{FleetView, Placed};
use super::objects::{binding_object, member_cluster_object, member_namespace, placement_head, work_head, work_name};
use super::table::{TableKind, line_of};
use crate::model::id::{ClusterName, PlacementKey};
use crate::model::records::{Binding, ClusterRecord};
use crate::status::placement::PlacementView;
use crate::status::rollout::StateKind;
use crate::status::rollup::placement_conditions;

/// Items of a page, unless another number is asked for.
pub const PAGE_ITEMS: usize = 100;
/// Items of a page at most.
pub const PAGE_ITEMS_MAX: usize = 1_000;
/// Bytes of the items of a page, unless a number of items is asked for.
pub const PAGE_BYTES: usize = 56 * 1024;
/// Bytes of the items of a page at most.
pub const PAGE_BYTES_MAX: usize = 1024 * 1024;

/// ListPart of a listing.
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
    let place = |key: &PlacementKey, placed: &Placed| match order {
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
    let mut places: Vec<_> = meant.map(|(key, placed)| (place(key, placed), placed)).collect();
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
    page(part, meant.map(|(name, cluster)| (name.to_string(), cluster)), |cluster| cluster_line(cluster, now))
}

/// Returns what a table shows of a cluster, without the time at which one that answers was last seen.
pub fn cluster_line(cluster: &ClusterRecord, now: Timestamp) -> Value {
    let mut line = line_of(TableKind::Clusters, &member_cluster_object(cluster, now));
    if cluster.online {
        line["status"]["agentStatus"][0]["lastReceivedHeartbeat"] = Value::Null;
    }
    line["cluster"] =
        json!({"online": cluster.online, "left": cluster.left, "since": cluster.since, "message": cluster.message});
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
    let is_meant = |key: &PlacementKey| filter.placement.as_ref().is_none_or(|wanted| wanted == key);
    let of_placement = move |(key, placed): (&'a PlacementKey, &'a std::sync::Arc<Placed>)| {
        let place = pair_place(key);
        let bindings = placed.records.bindings.iter().map(AsRef::as_ref);
        let bindings = bindings
            .filter(|binding: &&Binding| filter.cluster.as_ref().is_none_or(|wanted| *wanted == binding.cluster));
        bindings.map(move |binding| (format!("{place},{}", binding.name), placed.as_ref(), binding))
    };
    // Placements before the one that the last page ended in are left out.
    let from = part.after.as_deref().and_then(|after| after.rsplit_once(',')).map(|(placement, _)| placement);
    let is_ahead = move |key: &PlacementKey| from.is_none_or(|from| pair_place(key).as_str() >= from);
    let placements = fleet.placements.iter().filter(move |(key, _)| is_meant(key) && is_ahead(key));
    placements.flat_map(of_placement)
}
