//! Which kinds of objects a member has listed completely: of any other nothing is concluded from what is not seen.

use std::collections::{BTreeMap, BTreeSet};

use super::inventory::group_kind;
use crate::model::id::ObjectKey;

/// Why a kind is not known whose first list has not been answered yet.
const PENDING: &str = "its objects are being listed";

/// How far a kind is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ListState {
    /// The first list is under way.
    Pending,
    /// A list was complete, and a watch tells what changes.
    Complete,
    /// The member serves no such kind, so nothing of it is there.
    Absent,
    /// The last list failed, for people.
    Failed(String),
}

/// One kind.
#[derive(Clone, Debug)]
struct List {
    state: ListState,
    /// While a list is under way, the first or a later one: the objects that it named, or that were written since it began.
    under_way: Option<BTreeSet<ObjectKey>>,
}

/// The kinds that are watched on a member, by `Kind.group` as inventories name them.
#[derive(Clone, Debug, Default)]
pub struct Lists(BTreeMap<String, List>);

impl Lists {
    /// Begins to list a kind. Returns whether that is new.
    pub fn expect(&mut self, kind: &str) -> bool {
        if self.0.contains_key(kind) {
            return false;
        }
        self.0.insert(kind.to_owned(), List { state: ListState::Pending, under_way: Some(BTreeSet::new()) });
        true
    }

    /// Forgets everything: a new connection lists anew.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Tells whether an object's kind is listed at all.
    pub fn covers(&self, key: &ObjectKey) -> bool {
        self.0.contains_key(&kind_of(key))
    }

    /// A list of a kind begins.
    pub fn begin(&mut self, kind: &str) {
        if let Some(list) = self.0.get_mut(kind) {
            list.under_way = Some(BTreeSet::new());
        }
    }

    /// Notes that an object is there: a list names it, or it was written. Returns whether it was noted since the list of its kind
    /// began, or there is none under way: what is known of it is then of the same history of the member, and versions say which
    /// is newer. Otherwise what was known may be of a history that a restored backup undid.
    pub fn note(&mut self, key: &ObjectKey) -> bool {
        let under_way = self.0.get_mut(&kind_of(key)).and_then(|list| list.under_way.as_mut());
        under_way.is_none_or(|noted| !noted.insert(key.clone()))
    }

    /// A list of a kind is complete. Returns the objects that are there; `None` where no list was under way.
    pub fn complete(&mut self, kind: &str) -> Option<BTreeSet<ObjectKey>> {
        let list = self.0.get_mut(kind)?;
        list.state = ListState::Complete;
        list.under_way.take()
    }

    /// A list of a kind failed, for a reason that people read. What was seen of it stays, and is not known to be all. Returns
    /// whether the reason is a new one.
    pub fn fail(&mut self, kind: &str, why: String) -> bool {
        let failed = ListState::Failed(why);
        let is_new = self.0.get(kind).is_some_and(|list| list.state != failed);
        self.end(kind, failed);
        is_new
    }

    /// The member said, completely, which kinds it serves, and this one is not among them.
    pub fn absent(&mut self, kind: &str) {
        self.end(kind, ListState::Absent);
    }

    fn end(&mut self, kind: &str, state: ListState) {
        if let Some(list) = self.0.get_mut(kind) {
            // What an unfinished list named is not all there is: nothing may be compared with it.
            *list = List { state, under_way: None };
        }
    }

    /// The first lists that were not answered in time have failed, as far as anybody waits for them.
    pub fn give_up(&mut self, why: &str) {
        for list in self.0.values_mut().filter(|list| list.state == ListState::Pending) {
            // The list itself goes on, and `under_way` stays: an answer that comes late still counts.
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

    /// Tells whether the member serves no such kind, as far as is known.
    pub fn is_absent(&self, kind: &str) -> bool {
        self.0.get(kind).is_some_and(|list| list.state == ListState::Absent)
    }

    /// Returns the kinds that the member does not serve.
    pub fn absent_kinds(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, list)| list.state == ListState::Absent).map(|(kind, _)| kind.as_str())
    }

    /// Returns which of these kinds are not listed completely, and why.
    pub fn unlisted(&self, kinds: impl Iterator<Item = String>) -> Unlisted {
        // Nearly always everything is.
        if self.0.values().all(|list| matches!(list.state, ListState::Complete | ListState::Absent)) {
            return Unlisted::default();
        }
        let why = |kind: String| {
            let why = match &self.0.get(&kind)?.state {
                ListState::Complete | ListState::Absent => return None,
                ListState::Pending => PENDING,
                ListState::Failed(why) => why,
            };
            let why = why.to_owned();
            Some((kind, why))
        };
        Unlisted(kinds.filter_map(why).collect())
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
        // Naming a kind costs, and is asked for every object.
        if self.0.is_empty() { None } else { self.0.get(&kind_of(key)).map(String::as_str) }
    }

    /// Returns the kinds with their reasons.
    pub fn into_reasons(self) -> BTreeMap<String, String> {
        self.0
    }
}

/// Returns the name of an object's kind, as inventories list it.
pub fn kind_of(key: &ObjectKey) -> String {
    group_kind(&key.group, &key.kind)
}

#[cfg(test)]
mod tests;
