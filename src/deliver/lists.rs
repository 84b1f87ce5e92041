//! Which kinds a member has listed completely: for any other kind a missing object means nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::by_object::ObjectSet;
use super::inventory::group_kind;
use model::id::ObjectKey;

/// The reason for a kind whose first list has not been answered yet.
const PENDING: &str = "its objects are being listed";

/// The state of a kind's list.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ListState {
    /// The first list is under way.
    Pending,
    /// A list was complete, and a watch reports changes.
    Complete,
    /// The member does not serve the kind, so it has no such object.
    Absent,
    /// The last list failed, as text for users.
    Failed(String),
}

/// One kind.
#[derive(Clone, Debug)]
struct List {
    state: ListState,
    /// While a list is under way, the first or a later one: its objects, and those written since it started.
    under_way: Option<ObjectSet>,
}

/// The watched kinds of a member, by `Kind.group` as in inventories.
#[derive(Clone, Debug, Default)]
pub struct Lists(BTreeMap<String, List>);

impl Lists {
    /// Adds a kind to list. Returns whether it is new.
    pub fn expect(&mut self, kind: &str) -> bool {
        if self.0.contains_key(kind) {
            return false;
        }
        self.0.insert(kind.to_owned(), List { state: ListState::Pending, under_way: Some(ObjectSet::default()) });
        true
    }

    /// Drops everything: a new connection lists again.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Tells whether an object's kind is listed at all.
    pub fn covers(&self, key: &ObjectKey) -> bool {
        self.0.contains_key(&kind_of(key))
    }

    /// Starts a list of a kind.
    pub fn begin(&mut self, kind: &str) {
        if let Some(list) = self.0.get_mut(kind) {
            list.under_way = Some(ObjectSet::default());
        }
    }

    /// Records that an object exists: a list named it, or it was written. Returns whether its known state belongs to the
    /// member's present history, so that versions can be compared: it was recorded since the list of its kind started, or no
    /// list is under way. Otherwise the state may be from a history that a restored backup replaced.
    pub fn note(&mut self, key: &Arc<ObjectKey>) -> bool {
        let under_way = self.0.get_mut(&kind_of(key)).and_then(|list| list.under_way.as_mut());
        under_way.is_none_or(|noted| noted.insert(Arc::clone(key), ()).is_some())
    }

    /// Ends a list of a kind. Returns its objects; `None` if no list was under way.
    pub fn complete(&mut self, kind: &str) -> Option<ObjectSet> {
        let list = self.0.get_mut(kind)?;
        list.state = ListState::Complete;
        list.under_way.take()
    }

    /// Records a failed list, with a reason for users. Observed objects stay, and count as incomplete. Returns whether the
    /// reason is new.
    pub fn fail(&mut self, kind: &str, why: String) -> bool {
        let failed = ListState::Failed(why);
        let is_new = self.0.get(kind).is_some_and(|list| list.state != failed);
        self.end(kind, failed);
        is_new
    }

    /// Records that the member does not serve a kind, by a complete discovery.
    pub fn absent(&mut self, kind: &str) {
        self.end(kind, ListState::Absent);
    }

    fn end(&mut self, kind: &str, state: ListState) {
        if let Some(list) = self.0.get_mut(kind) {
            // An unfinished list is incomplete: nothing may be compared with it.
            *list = List { state, under_way: None };
        }
    }

    /// Marks first lists without an answer as failed, if an order waits for them.
    pub fn give_up(&mut self, why: &str) {
        for list in self.0.values_mut().filter(|list| list.state == ListState::Pending) {
            // The list itself continues, and `under_way` stays: a late answer still counts.
            list.state = ListState::Failed(why.to_owned());
        }
    }

    /// Tells whether the first list of any kind is under way.
    pub fn any_pending(&self) -> bool {
        self.0.values().any(|list| list.state == ListState::Pending)
    }

    /// Tells whether the first list of a kind is under way.
    pub fn is_pending(&self, kind: &str) -> bool {
        self.0.get(kind).is_some_and(|list| list.state == ListState::Pending)
    }

    /// Tells whether the member is known not to serve a kind.
    pub fn is_absent(&self, kind: &str) -> bool {
        self.0.get(kind).is_some_and(|list| list.state == ListState::Absent)
    }

    /// Returns the kinds that the member does not serve.
    pub fn absent_kinds(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, list)| list.state == ListState::Absent).map(|(kind, _)| kind.as_str())
    }

    /// Returns which of these kinds are not listed completely, and why.
    pub fn unlisted(&self, kinds: impl Iterator<Item = String>) -> Unlisted {
        // Nearly always all are listed.
        if self.0.values().all(|list| matches!(list.state, ListState::Complete | ListState::Absent)) {
            return Unlisted::default();
        }
        let mut unlisted = BTreeMap::new();
        for kind in kinds {
            let why = match self.0.get(&kind).map(|list| &list.state) {
                None | Some(ListState::Complete | ListState::Absent) => continue,
                Some(ListState::Pending) => PENDING,
                Some(ListState::Failed(why)) => why,
            };
            unlisted.insert(kind, why.to_owned());
        }
        Unlisted(unlisted)
    }
}

/// Kinds of a placement that a member has not listed completely, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unlisted(BTreeMap<String, String>);

impl Unlisted {
    /// Tells whether everything is listed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns why an object's kind is not listed; `None` where it is.
    pub fn why(&self, key: &ObjectKey) -> Option<&str> {
        // Computing the kind's name is expensive, and this is called for every object.
        if self.0.is_empty() { None } else { self.0.get(&kind_of(key)).map(String::as_str) }
    }

    /// Returns the kinds with their reasons.
    pub fn into_reasons(self) -> BTreeMap<String, String> {
        self.0
    }
}

/// Tells whether an object is of a kind, as inventories name it.
pub fn is_of_kind(key: &ObjectKey, kind: &str) -> bool {
    let (name, group) = kind.split_once('.').unwrap_or((kind, ""));
    key.kind == name && key.group == group
}

/// Returns the name of an object's kind, as inventories list it.
pub fn kind_of(key: &ObjectKey) -> String {
    group_kind(&key.group, &key.kind)
}

#[cfg(test)]
mod tests;
