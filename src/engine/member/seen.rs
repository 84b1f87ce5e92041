//! What lists and watches report of a member's objects: pure.

use super::reconciler::{Reconciler, kinds_of};
use deliver::inventory::group_kind;
use deliver::lists::is_of_kind;
use deliver::live::LiveObject;
use model::id::{ObjectId, ObjectKey};
use model::kinds::WatchedKind;
use model::records::Availability;

impl Reconciler {
    /// Returns the kinds whose watches must be started or restarted, with the version to watch them in.
    pub fn take_unwatched(&mut self) -> Vec<(WatchedKind, Option<String>)> {
        std::mem::take(&mut self.unwatched).into_iter().map(|(kind, version)| (watched(&kind), version)).collect()
    }

    /// Tells whether the first list of any kind is under way.
    pub fn is_listing(&self) -> bool {
        self.lists.any_pending()
    }

    /// Marks first lists without an answer as failed, if an order waits for them.
    pub fn give_up_listing(&mut self, why: &str) {
        self.lists.give_up(why);
        self.mark_stale();
    }

    /// Forgets the objects of kinds that nobody lists any more.
    pub fn forget_unlisted(&mut self) {
        let lists = &self.lists;
        self.live.retain(|key| lists.covers(key));
    }

    /// Starts a list of a kind: once it is complete, objects that it does not name are gone.
    pub fn list_begun(&mut self, kind: &WatchedKind) {
        self.lists.begin(&name(kind));
    }

    /// Records an object from a list, a watch or an answer.
    ///
    /// A list replaces earlier observations whatever their versions, because a member restored from a backup restarts its
    /// versions. Within one list and the watch after it, the higher version is newer.
    pub fn see(&mut self, live: LiveObject) {
        let key = live.key();
        let by_version = self.lists.note(&key);
        // Before the object is stored: the check needs to know whether the definition was established before.
        self.note_definition(&live);
        self.remember(key, live, by_version);
    }

    /// Ends a list: objects that it did not name are gone.
    pub fn list_done(&mut self, kind: &WatchedKind) {
        let kind = name(kind);
        let Some(seen) = self.lists.complete(&kind) else { return };
        self.live.retain(|key| !is_of_kind(key, &kind) || seen.contains(key));
        self.mark_stale();
    }

    /// Records a failed list. Earlier observations stay, and count as incomplete. Returns whether the reason is new.
    pub fn list_failed(&mut self, kind: &WatchedKind, why: String) -> bool {
        let is_new = self.lists.fail(&name(kind), why);
        if is_new {
            self.mark_stale();
        }
        is_new
    }

    /// Records that the member does not serve a kind, by a complete discovery: it has no object of that kind.
    pub fn kind_absent(&mut self, kind: &WatchedKind) {
        let kind = name(kind);
        self.lists.absent(&kind);
        self.live.retain(|key| !is_of_kind(key, &kind));
        self.mark_stale();
    }

    /// Records that a kind is served, because an object of it was written.
    pub fn note_served(&mut self, id: &ObjectId) {
        let kind = group_kind(&id.group, &id.kind);
        if self.lists.is_absent(&kind) {
            self.watch_again(kind);
        }
    }

    /// Records an established definition: its kind is served from now on.
    fn note_definition(&mut self, live: &LiveObject) {
        let is_definition = live.id.kind == "CustomResourceDefinition" && live.availability == Availability::Available;
        let is_known =
            |key: &ObjectKey| self.live.get(key).is_some_and(|known| known.availability == live.availability);
        let Some((_, group)) = live.id.name.split_once('.').filter(|_| is_definition && !is_known(&live.id.key()))
        else {
            return;
        };
        let of_group = |kind: &&str| kind.split_once('.').is_some_and(|(_, of)| of == group);
        let kinds: Vec<String> = self.lists.absent_kinds().filter(of_group).map(str::to_owned).collect();
        for kind in kinds {
            self.watch_again(kind);
        }
    }

    fn watch_again(&mut self, kind: String) {
        let versions = self.orders().flat_map(|order| kinds_of(order));
        let version = versions.filter(|(of, _)| *of == kind).find_map(|(_, version)| version).map(str::to_owned);
        self.unwatched.insert(kind, version);
    }
}

fn name(kind: &WatchedKind) -> String {
    group_kind(&kind.group, &kind.kind)
}

/// Parses a kind as inventories name it.
fn watched(name: &str) -> WatchedKind {
    let (kind, group) = name.split_once('.').unwrap_or((name, ""));
    WatchedKind { group: group.to_owned(), kind: kind.to_owned() }
}
