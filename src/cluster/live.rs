//! A member behind an API server.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use super::connect::{SignIn, connect, connect_in_cluster, impersonating, is_expired};
pub use super::inventory::Inventory;
use super::object::RawObject;
use super::wire::Wire;
use super::{
    ApplyOptions, Deletion, Error, IN_FLIGHT_MAX, Observation, Target, WatchHandle, WatchedKind, facts, inventories,
    namespaces,
};
use crate::inventory::with_type;
use model::api::FIELD_MANAGER;
use model::id::{ObjectId, ObjectKey};
use model::kinds;
use model::watched::{SplitObject, WatchedObject};
use model::work::Release;

/// First pause before a failed list or watch of one kind is tried again; doubles up to the longest.
const LIST_RETRY_FIRST: Duration = Duration::from_secs(1);
/// Longest such pause where the member serves the kind.
const LIST_RETRY_MAX: Duration = Duration::from_mins(1);
/// Longest such pause where it does not: its definition may come by other hands than ours.
const ABSENT_RETRY_MAX: Duration = Duration::from_mins(10);
/// Names in one answer.
const NAMES_MAX: u32 = 1_000;
/// The Namespace whose uid names an API server: every one has it, and it is never made again.
const SYSTEM_NAMESPACE: &str = "kube-system";
/// How long a list may give no sign before it has failed.
const LIST_SILENCE_MAX: Duration = Duration::from_mins(1);
/// How long a watch must have run before its pauses begin with the first again.
const STEADY_AFTER: Duration = Duration::from_mins(1);

/// A member behind an API server, reached as a kubeconfig says.
pub struct Live {
    cluster: String,
    /// The kubeconfig and its context; `None`: the service account that this process runs as.
    kubeconfig: Option<(PathBuf, Option<String>)>,
    allow_exec: Vec<String>,
    inventory: Inventory,
    client: Mutex<Option<Client>>,
    resources: Mutex<BTreeMap<(String, String), ApiResource>>,
    in_flight: Arc<Semaphore>,
    listed_parents: Mutex<Option<String>>,
    /// The same member over the same connection, as other users.
    users: Mutex<BTreeMap<String, Arc<Self>>>,
}

impl Live {
    /// Names a member; nothing is connected yet.
    pub fn new(cluster: &str, kubeconfig: PathBuf, context: Option<String>, inventory: Inventory) -> Self {
        Self::reached(cluster, Some((kubeconfig, context)), inventory)
    }

    /// Names the cluster that this process runs in; nothing is connected yet.
    pub fn in_cluster(cluster: &str, inventory: Inventory) -> Self {
        Self::reached(cluster, None, inventory)
    }

    fn reached(cluster: &str, kubeconfig: Option<(PathBuf, Option<String>)>, inventory: Inventory) -> Self {
        Self {
            cluster: cluster.to_owned(),
            kubeconfig,
            allow_exec: Vec::new(),
            inventory,
            client: Mutex::new(None),
            resources: Mutex::new(BTreeMap::new()),
            in_flight: Arc::new(Semaphore::new(IN_FLIGHT_MAX)),
            listed_parents: Mutex::new(None),
            users: Mutex::new(BTreeMap::new()),
        }
    }

    /// Allows the kubeconfig to start these programs to sign in; by default none.
    #[must_use]
    pub fn allowing(self, allow_exec: Vec<String>) -> Self {
        Self { allow_exec, ..self }
    }

    fn client(&self) -> Result<Client, Error> {
        let client = self.client.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        client.ok_or_else(|| Error::Unreachable { cluster: self.cluster.clone(), reason: "not connected".to_owned() })
    }

    fn wire(&self) -> Result<Wire, Error> {
        Ok(Wire { cluster: self.cluster.clone(), client: self.client()? })
    }

    /// Returns the resource of a kind: from the table of built-in kinds, else by asking the member once.
    async fn resource(&self, group: &str, version: Option<&str>, kind: &str) -> Result<ApiResource, Error> {
        let key = (group.to_owned(), kind.to_owned());
        let known = self.resources.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get(&key).cloned();
        if let Some(known) = known
            && version.is_none_or(|v| v == known.version)
        {
            return Ok(known);
        }
        let resource = match built_in(group, version, kind) {
            Some(resource) => resource,
            None => match version {
                Some(version) => self.wire()?.pinned(&GroupVersionKind::gvk(group, version, kind)).await?,
                None => self.wire()?.served(group, None, kind).await?,
            },
        };
        self.resources.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(key, resource.clone());
        Ok(resource)
    }

    async fn api(&self, id: &ObjectId) -> Result<Api<RawObject>, Error> {
        let resource = self.resource(&id.group, Some(&id.version), &id.kind).await?;
        let client = self.client()?;
        Ok(if id.namespace.is_empty() {
            Api::all_with(client, &resource)
        } else {
            Api::namespaced_with(client, &id.namespace, &resource)
        })
    }

    /// Runs one request within the limits of time and of requests in flight.
    async fn request<T>(
        &self,
        object: &(dyn std::fmt::Display + Sync),
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Error> {
        let _permit = self.in_flight.acquire().await.expect("the semaphore is never closed");
        self.wire()?.request(object, request).await
    }

    async fn patch(&self, id: &ObjectId, object: &Value, options: ApplyOptions) -> Result<Value, Error> {
        let api = self.api(id).await?;
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            force: options.force,
            dry_run: options.dry_run,
            ..PatchParams::default()
        };
        let answer = self.request(id, api.patch(&super::in_url(&id.name), &params, &Patch::Apply(object))).await?;
        Ok(answer.json)
    }

    /// Removes our fields from an object: an apply without fields keeps those of others.
    async fn release_fields(&self, id: &ObjectId, uid: &str) -> Result<(), Error> {
        let there = self.get(id).await?.filter(|there| uid_of(there) == uid);
        if there.is_none() {
            return Ok(());
        }
        // The uid makes the API server refuse it where the object was recreated after the look above.
        let nothing = json!({"apiVersion": id.api_version(), "kind": id.kind, "metadata": {
            "name": id.name, "namespace": (!id.namespace.is_empty()).then_some(&id.namespace), "uid": uid,
        }});
        self.patch(id, &nothing, ApplyOptions { force: true, dry_run: false }).await.map(drop)
    }

    /// Takes our label, our annotations and our name as a manager away from an object, and leaves it as it is.
    async fn release_whole(&self, id: &ObjectId, uid: &str) -> Result<(), Error> {
        let Some(there) = self.get(id).await?.filter(|there| uid_of(there) == uid) else { return Ok(()) };
        let managers = there.pointer("/metadata/managedFields").and_then(Value::as_array).cloned().unwrap_or_default();
        let others: Vec<Value> = managers.into_iter().filter(|entry| entry["manager"] != FIELD_MANAGER).collect();
        // An empty list would change nothing; one with an empty entry says that there is no manager.
        let others = if others.is_empty() { vec![json!({})] } else { others };
        let no_annotations: Map<String, Value> =
            self.inventory.part_annotations.iter().map(|name| ((*name).to_owned(), Value::Null)).collect();
        let given_up = json!({"metadata": {
            "uid": uid,
            // The list of managers is replaced whole: one that came since it was read would be lost.
            "resourceVersion": there.pointer("/metadata/resourceVersion"),
            "labels": {self.inventory.part_of_label: null},
            "annotations": no_annotations,
            "managedFields": others,
        }});
        let api = self.api(id).await?;
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let name = super::in_url(&id.name);
        self.request(id, api.patch(&name, &params, &Patch::Merge(&given_up))).await.map(drop)
    }

    /// Creates the namespace of the inventory: a member that has never been delivered to lacks it.
    async fn create_inventory_namespace(&self) -> Result<(), Error> {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.inventory.namespace}});
        let id = ObjectId::of(&namespace).expect("the namespace has a name");
        self.patch(&id, &namespace, ApplyOptions { force: true, dry_run: false }).await.map(drop)
    }
}

fn uid_of(object: &Value) -> &str {
    object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default()
}

/// Returns the resource of a kind that every member serves in this version, or in the one of the table.
fn built_in(group: &str, version: Option<&str>, kind: &str) -> Option<ApiResource> {
    let is_served = |known: &&kinds::BuiltIn| known.is_settled && version.is_none_or(|v| v == known.version);
    let known = kinds::lookup(group, kind).filter(is_served)?;
    Some(ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, known.version, kind), known.plural))
}

#[async_trait]
impl Target for Live {
    fn acting_as(&self, user: &str) -> Result<Option<Arc<dyn Target>>, Error> {
        let mut users = self.users.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(known) = users.get(user) {
            return Ok(Some(Arc::clone(known) as Arc<dyn Target>));
        }
        let client = impersonating(&self.client()?, user).map_err(|error| Error::Access {
            cluster: self.cluster.clone(),
            path: format!("the user {user}"),
            reason: error.to_string(),
        })?;
        let other = Self {
            client: Mutex::new(Some(client)),
            in_flight: Arc::clone(&self.in_flight),
            ..Self::reached(&self.cluster, None, self.inventory)
        };
        let other = Arc::new(other);
        users.insert(user.to_owned(), Arc::clone(&other));
        Ok(Some(other))
    }

    async fn connect(&self) -> Result<Option<String>, Error> {
        let connected = match &self.kubeconfig {
            Some((path, context)) => {
                connect(&self.cluster, path, context.as_deref(), SignIn::Named(&self.allow_exec)).await?
            }
            None => connect_in_cluster(&self.cluster).await?,
        };
        *self.client.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(connected.client);
        self.users.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
        // The member may have been upgraded or restored since, and serve its kinds in other versions.
        self.resources.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
        Ok(Some(connected.version))
    }

    async fn server(&self) -> Result<Option<String>, Error> {
        let resource = self.resource("", Some("v1"), "Namespace").await?;
        let api: Api<RawObject> = Api::all_with(self.client()?, &resource);
        // As a list, because namespaces are listed anyway: it takes no right of its own.
        let params = ListParams::default().fields(&format!("metadata.name={SYSTEM_NAMESPACE}"));
        match self.request(&SYSTEM_NAMESPACE, api.list_metadata(&params)).await {
            Ok(found) => Ok(found.items.into_iter().find_map(|namespace| namespace.metadata.uid)),
            Err(error) if error.is_offline() => Err(error),
            Err(_) => Ok(None),
        }
    }

    fn has_health(&self) -> bool {
        true
    }

    async fn parents(&self) -> Result<Vec<Value>, Error> {
        let resource = self.resource("", Some("v1"), "ConfigMap").await?;
        let api: Api<RawObject> = Api::namespaced_with(self.client()?, self.inventory.namespace, &resource);
        let params = ListParams::default().labels(self.inventory.id_label);
        let list = self.request(&"the inventory", api.list(&params)).await?;
        *self.listed_parents.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = list.metadata.resource_version;
        Ok(list.items.into_iter().map(|item| with_type(item, "v1", "ConfigMap")).collect())
    }

    async fn apply(&self, object: &Value, options: ApplyOptions) -> Result<Value, Error> {
        let id = ObjectId::of(object).expect("manifests are checked to be named objects");
        match self.patch(&id, object, options).await {
            Err(error) if error.is_not_found() && id.namespace == self.inventory.namespace => {
                self.create_inventory_namespace().await?;
                self.patch(&id, object, options).await
            }
            answer => answer,
        }
    }

    async fn get(&self, id: &ObjectId) -> Result<Option<Value>, Error> {
        let api = self.api(id).await?;
        Ok(self.request(id, api.get_opt(&super::in_url(&id.name))).await?.map(|found| found.json))
    }

    async fn names(&self, id: &ObjectId) -> Result<Option<BTreeSet<String>>, Error> {
        let params = ListParams::default().limit(NAMES_MAX);
        let list = self.request(id, self.api(id).await?.list_metadata(&params)).await?;
        let is_whole = list.metadata.continue_.is_none_or(|token| token.is_empty());
        Ok(is_whole.then(|| list.items.into_iter().filter_map(|item| item.metadata.name).collect()))
    }

    async fn delete(&self, id: &ObjectId, uid: &str, version: Option<u64>) -> Result<Deletion, Error> {
        let api = self.api(id).await?;
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: version.map(|version| version.to_string()),
            }),
            ..DeleteParams::default()
        };
        match self.request(id, api.delete(&super::in_url(&id.name), &params)).await {
            // It answers with the object while finalizers or dependants keep it, and with a status once it is gone.
            Ok(answer) => Ok(if answer.is_right() { Deletion::Gone } else { Deletion::Accepted }),
            Err(Error::Refused { code: 404, .. }) => Ok(Deletion::Gone),
            Err(Error::Refused { code: 409, .. }) => Ok(Deletion::Changed),
            Err(error) => Err(error),
        }
    }

    async fn release(&self, id: &ObjectId, uid: &str, release: Release) -> Result<(), Error> {
        let answer = match release {
            Release::Fields => match self.release_fields(id, uid).await {
                // What others applied is not an object of its kind without our fields.
                Err(Error::Refused { code: 422, .. }) => self.release_whole(id, uid).await,
                answer => answer,
            },
            Release::Whole => self.release_whole(id, uid).await,
        };
        match answer {
            Err(Error::Refused { code: 404, .. }) => Ok(()),
            answer => answer,
        }
    }

    fn watch(&self, kind: &WatchedKind, version: Option<&str>, sink: mpsc::Sender<Observation>) -> WatchHandle {
        // Not connected: its task begins the watches once it is.
        let Ok(wire) = self.wire() else { return WatchHandle(None) };
        let watch = KindWatch {
            wire,
            kind: kind.clone(),
            known: built_in(&kind.group, version, &kind.kind),
            version: version.map(str::to_owned),
            selector: self.inventory.part_of_label,
            sink: sink.clone(),
        };
        WatchHandle::start(sink, Observation::panicked, watch.run())
    }

    fn watch_parents(&self, sink: mpsc::Sender<Observation>) -> WatchHandle {
        let Ok(wire) = self.wire() else { return WatchHandle(None) };
        inventories::watch(wire, self.inventory, &self.listed_parents, sink)
    }

    fn watch_facts(&self, sink: mpsc::Sender<Observation>) -> WatchHandle {
        let Ok(wire) = self.wire() else { return WatchHandle(None) };
        WatchHandle::start(sink.clone(), Observation::panicked, facts::follow(wire, sink))
    }

    fn watch_namespaces(&self, sink: mpsc::Sender<Observation>) -> Option<WatchHandle> {
        let wire = self.wire().ok()?;
        Some(WatchHandle::start(sink.clone(), Observation::panicked, namespaces::follow(wire, sink)))
    }
}

/// One watch of one kind, until its handle is dropped.
struct KindWatch {
    wire: Wire,
    kind: WatchedKind,
    known: Option<ApiResource>,
    version: Option<String>,
    selector: &'static str,
    sink: mpsc::Sender<Observation>,
}

/// Why a kind is not followed any more.
enum End {
    /// Nobody listens.
    Unheard,
    /// Its list failed.
    List(Error),
    /// It was listed, and the watch after that failed: the next list says what it means.
    Watch(Error),
}

impl KindWatch {
    async fn run(self) {
        let mut failures = 0;
        loop {
            let since = Instant::now();
            let end = match self.resource().await {
                Ok(resource) => self.follow(&resource).await,
                Err(error) => End::List(error),
            };
            if since.elapsed() >= STEADY_AFTER {
                failures = 0;
            }
            let longest = match end {
                End::Unheard => return,
                // What was listed is still known; only a list that fails says otherwise.
                End::Watch(error) if !error.is_offline() => {
                    tracing::debug!(cluster = %self.wire.cluster, kind = self.kind.kind, %error, "a watch failed; the kind is listed again");
                    LIST_RETRY_MAX
                }
                End::List(error) | End::Watch(error) => {
                    let offline = error.is_offline();
                    let is_absent = matches!(error, Error::UnknownKind { .. });
                    if self.sink.send(Observation::Failed(self.kind.clone(), error)).await.is_err() || offline {
                        return;
                    }
                    if is_absent { ABSENT_RETRY_MAX } else { LIST_RETRY_MAX }
                }
            };
            // 16 doublings are far above the longest pause; a shift by 32 or more would panic.
            tokio::time::sleep(LIST_RETRY_FIRST.saturating_mul(1 << failures.min(16)).min(longest)).await;
            failures += 1;
        }
    }

    async fn resource(&self) -> Result<ApiResource, Error> {
        match &self.known {
            Some(known) => Ok(known.clone()),
            None => self.wire.served(&self.kind.group, self.version.as_deref(), &self.kind.kind).await,
        }
    }

    /// Follows the kind until something fails; returns what.
    async fn follow(&self, resource: &ApiResource) -> End {
        let api: Api<RawObject<SplitObject>> = Api::all_with(self.wire.client.clone(), resource);
        let type_text = SplitObject::type_text(&resource.api_version, &resource.kind);
        let config = watcher::Config::default().labels(self.selector);
        let mut events = watcher::watcher(api, config).boxed();
        let mut listing = true;
        loop {
            let next = events.try_next();
            // Only a list has to continue: a watch is silent while nothing changes, and pings find a dead connection.
            let next = if listing {
                match tokio::time::timeout(LIST_SILENCE_MAX, next).await {
                    Ok(next) => next,
                    Err(_) => return End::List(self.silent()),
                }
            } else {
                next.await
            };
            let event = match next {
                Ok(Some(event)) => event,
                Ok(None) => return End::Watch(self.silent()),
                // The watch only fell behind, and lists again by itself.
                Err(error) if is_expired(&error) => continue,
                Err(error) => {
                    let error = self.wire.watch_failure(&self.kind.kind, error).await;
                    return if listing { End::List(self.evaluated(error).await) } else { End::Watch(error) };
                }
            };
            listing = match &event {
                Event::Init | Event::InitApply(_) => true,
                Event::InitDone | Event::Apply(_) | Event::Delete(_) => false,
            };
            if self.sink.send(self.observed(event, &type_text)).await.is_err() {
                return End::Unheard;
            }
        }
    }

    /// A list that is answered with 404 says that the kind is not served, unless the member says otherwise when it is asked which
    /// kinds it serves.
    async fn evaluated(&self, error: Error) -> Error {
        if !error.is_not_found() {
            return error;
        }
        match self.wire.served(&self.kind.group, self.version.as_deref(), &self.kind.kind).await {
            Err(absent @ Error::UnknownKind { .. }) => absent,
            Ok(_) | Err(_) => error,
        }
    }

    fn silent(&self) -> Error {
        Error::Unanswered {
            object: format!("the list of {}", self.kind.kind),
            reason: format!("no answer within {} s", LIST_SILENCE_MAX.as_secs()),
        }
    }

    fn observed(&self, event: Event<RawObject<SplitObject>>, type_text: &Arc<str>) -> Observation {
        let watched =
            |object: RawObject<SplitObject>| WatchedObject::Split(object.json.with_type(Arc::clone(type_text)));
        match event {
            Event::Init => Observation::ListStarted(self.kind.clone()),
            Event::InitApply(object) => Observation::Listed(watched(object)),
            Event::InitDone => Observation::ListDone(self.kind.clone()),
            Event::Apply(object) => Observation::Changed(watched(object)),
            Event::Delete(object) => self.deleted(object.json),
        }
    }

    fn deleted(&self, object: SplitObject) -> Observation {
        Observation::Deleted {
            key: ObjectKey {
                group: self.kind.group.as_str().into(),
                kind: self.kind.kind.as_str().into(),
                namespace: object.namespace.into(),
                name: object.name.into(),
            },
            resource_version: object.resource_version.parse().unwrap_or_default(),
        }
    }
}
