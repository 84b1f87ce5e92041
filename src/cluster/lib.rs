//! The cluster adapter: members behind an API server, or as a folder of manifests.
//!
//! A [`Target`] does what it is told, one request at a time, and reports what it sees; what to do is decided elsewhere.
//! Both kinds keep the same promises: `tests/` runs one contract suite over them.

pub mod bootstrap;
mod connect;
pub mod directory;
mod error;
mod facts;
pub mod hub;
mod inventories;
mod inventory;
pub mod live;
mod namespaces;
mod object;
mod retry;
mod wire;

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt as _;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use model::error::panic_message;
use model::facts::Facts;
use model::id::{ObjectId, ObjectKey};
use model::work::Release;

pub use model::kinds::WatchedKind;
pub use model::watched::WatchedObject;

pub use connect::kubeconfig_digest;
pub use error::Error;

/// Requests in flight to one member; below every API server's stream limit, with room for our watches.
pub const IN_FLIGHT_MAX: usize = 64;
/// Observations that may wait before a watch is slowed down.
pub const OBSERVATIONS_MAX: usize = 1024;

/// What a watch saw.
#[derive(Debug)]
pub enum Observation {
    /// A list of a kind begins; what it does not name is gone.
    ListStarted(WatchedKind),
    /// One object of a list.
    Listed(WatchedObject),
    /// The list is complete.
    ListDone(WatchedKind),
    /// An object was created or changed.
    Changed(WatchedObject),
    /// An object was deleted, or lost the label we watch by.
    Deleted {
        /// The object.
        key: ObjectKey,
        /// Its resource version.
        resource_version: u64,
    },
    /// A list failed; it is tried again unless the member is offline. [`Error::UnknownKind`] says that the member serves no such
    /// kind for certain: nothing of it is there. After any other error what is there is not known.
    Failed(WatchedKind, Error),
    /// What nodes and pods add up to has changed.
    Facts(Box<Facts>),
    /// All inventory parents, as a list at this resource version has them; 0 where the member has no versions.
    Inventories(Vec<Value>, u64),
    /// An inventory parent was written.
    Inventory(Box<Value>),
    /// An inventory parent was removed; this was it, with the version of its removal.
    InventoryGone(Box<Value>),
    /// The member's namespaces, or why they cannot be listed, for people.
    Namespaces(Result<BTreeSet<String>, String>),
    /// The member stopped answering about its nodes and pods.
    FactsFailed(Error),
    /// Changes by hand are not noticed until the next connection; why.
    Unwatched(String),
    /// A watch ended because of an error in gitfleet; the panic's words.
    Panicked(String),
}

impl Observation {
    /// Tells whether a list that was asked for makes progress. Watches of what is listed say the other observations, at any time.
    pub const fn is_of_list(&self) -> bool {
        matches!(self, Self::Listed(_) | Self::ListDone(_) | Self::Failed(..) | Self::Namespaces(_))
    }

    /// Returns what is told where a watch panicked.
    pub fn panicked(text: &str) -> Self {
        Self::Panicked(text.to_owned())
    }
}

/// How an apply is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApplyOptions {
    /// Take fields that other managers own.
    pub force: bool,
    /// Compute the answer and write nothing.
    pub dry_run: bool,
}

/// The result of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// No object with this uid is left.
    Gone,
    /// Accepted; finalizers or dependants keep it for a while.
    Accepted,
    /// Nothing was done: it has another version, or another object has its name.
    Changed,
}

/// Ends a watch when dropped.
#[derive(Debug)]
pub struct WatchHandle(Option<JoinHandle<()>>);

impl WatchHandle {
    /// Starts a watch as a task. Where it panics, whoever listens at `sink` is told what `panicked` makes of the panic's words:
    /// nothing else would say that nobody looks any more.
    pub fn start<T: Send + 'static>(
        sink: mpsc::Sender<T>,
        panicked: fn(&str) -> T,
        watch: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self(Some(tokio::spawn(async move {
            if let Err(panic) = AssertUnwindSafe(watch).catch_unwind().await {
                // Whoever listened may have gone.
                drop(sink.send(panicked(panic_message(panic.as_ref()))).await);
            }
        })))
    }
}

impl Drop for WatchHandle {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// One member, as something that can be written to and watched.
///
/// # Cancel safety
/// Every request may be dropped at any point. A write may be executed all the same: only reading the object tells.
#[async_trait]
pub trait Target: Send + Sync + 'static {
    /// Returns the member as another user may write to it; `None` where the member has no users.
    ///
    /// # Errors
    /// It is not connected.
    fn acting_as(&self, _user: &str) -> Result<Option<Arc<dyn Target>>, Error> {
        Ok(None)
    }

    /// Connects, or connects again; returns the Kubernetes version, where the member has one.
    ///
    /// # Errors
    /// [`Error::is_offline`] holds for all of them.
    async fn connect(&self) -> Result<Option<String>, Error>;

    /// Returns what names the server behind the member, under whatever name it is reached: the uid of its Namespace `kube-system`. `None`
    /// where there is none, or where it cannot be read.
    ///
    /// # Errors
    /// The member does not answer.
    async fn server(&self) -> Result<Option<String>, Error> {
        Ok(None)
    }

    /// Tells whether what is applied becomes available by itself at some later time; otherwise it is as soon as it is written.
    fn has_health(&self) -> bool;

    /// Returns the inventory parents (ConfigMaps with an ApplySet id in our namespace).
    ///
    /// # Errors
    /// The member does not answer or refuses.
    async fn parents(&self) -> Result<Vec<Value>, Error>;

    /// Applies an object; returns it as it is now.
    ///
    /// # Errors
    /// The member does not answer, or refuses the object.
    async fn apply(&self, object: &Value, options: ApplyOptions) -> Result<Value, Error>;

    /// Returns an object, or `None` where there is none.
    ///
    /// # Errors
    /// The member does not answer or refuses.
    async fn get(&self, id: &ObjectId) -> Result<Option<Value>, Error>;

    /// Returns the names of all objects of a kind in a namespace, as `id` says them; `None` where there are more than one answer holds, or
    /// where asking for one costs no more.
    ///
    /// # Errors
    /// The member does not answer or refuses.
    async fn names(&self, _id: &ObjectId) -> Result<Option<BTreeSet<String>>, Error> {
        Ok(None)
    }

    /// Deletes an object if it still has this uid and, where a version is named, this version: another placement may have taken over an
    /// object that changed. An object that is gone, or was recreated, is no error. Targets without versions ignore the version.
    ///
    /// # Errors
    /// The member does not answer or refuses.
    async fn delete(&self, id: &ObjectId, uid: &str, version: Option<u64>) -> Result<Deletion, Error>;

    /// Gives an object up that stays, if it still has this uid: its label goes, and our fields where `release` says so. An
    /// object that is gone, or was recreated, is no error.
    ///
    /// # Errors
    /// The member does not answer or refuses.
    async fn release(&self, id: &ObjectId, uid: &str, release: Release) -> Result<(), Error>;

    /// Watches the objects of a kind that carry an ApplySet label; lists them first. What was written through this very target need
    /// not be reported: the answer to the write says it.
    fn watch(&self, kind: &WatchedKind, version: Option<&str>, sink: mpsc::Sender<Observation>) -> WatchHandle;

    /// Watches what the member's nodes and pods add up to: a report when it is known and, at most once a second, whenever it
    /// changed. A member that has no nodes reports nothing.
    fn watch_facts(&self, _sink: mpsc::Sender<Observation>) -> WatchHandle {
        WatchHandle(None)
    }

    /// Watches the inventory parents: whoever wrote them before may write late. What was written through this very target may be reported
    /// too. Where the member does not let us watch them, they are listed now and then.
    fn watch_parents(&self, _sink: mpsc::Sender<Observation>) -> WatchHandle {
        WatchHandle(None)
    }

    /// Watches the member's namespaces: a report when they were listed or cannot be, and whenever they changed. `None` where what is
    /// delivered to the member is all there is.
    fn watch_namespaces(&self, _sink: mpsc::Sender<Observation>) -> Option<WatchHandle> {
        None
    }
}

/// Returns the name of an object as it stands in a URL. The client puts a name there as it is, and names of roles may hold
/// spaces, question marks and whatever else; group, version, kind and namespace may not.
fn in_url(name: &str) -> String {
    // Made for forms, where a space is a plus; a plus itself is escaped.
    form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d03_a_name_is_one_segment_of_a_url() {
        for (name, wanted) in [
            ("web-1.example.com", "web-1.example.com"),
            ("system:node", "system%3Anode"),
            ("a b?dryRun=All&x#y", "a%20b%3FdryRun%3DAll%26x%23y"),
            ("a/../b", "a%2F..%2Fb"),
            ("1+1 é", "1%2B1%20%C3%A9"),
        ] {
            assert_eq!(in_url(name), wanted);
        }
    }
}
