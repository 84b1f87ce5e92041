//! A member behind an API server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use super::connect::{about_member, connect, is_expired, watch_failure};
use super::{ApplyOptions, Deletion, Error, IN_FLIGHT_MAX, Observation, Target, WatchHandle, WatchedKind, facts};
use crate::api::FIELD_MANAGER;
use crate::model::id::{ObjectId, ObjectKey};
use crate::model::kinds;

/// How long one request may take before the member counts as not answering.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause before a failed watch of one kind is tried again (its CRD may come later).
const WATCH_RETRY: Duration = Duration::from_secs(5);

/// A member behind an API server, reached as a kubeconfig says.
pub struct Live {
    cluster: String,
    kubeconfig: PathBuf,
    context: Option<String>,
    inventory: Inventory,
    client: Mutex<Option<Client>>,
    resources: Mutex<BTreeMap<(String, String), ApiResource>>,
    in_flight: Semaphore,
}

/// Where the inventory stands on a member and how its parts are labelled.
#[derive(Clone, Copy, Debug)]
pub struct Inventory {
    /// Namespace of the parents.
    pub namespace: &'static str,
    /// Label on the parents.
    pub id_label: &'static str,
    /// Label on the parts.
    pub part_of_label: &'static str,
}

impl Live {
    /// Names a member; nothing is connected yet.
    pub fn new(cluster: &str, kubeconfig: PathBuf, context: Option<String>, inventory: Inventory) -> Self {
        Self {
            cluster: cluster.to_owned(),
            kubeconfig,
            context,
            inventory,
            client: Mutex::new(None),
            resources: Mutex::new(BTreeMap::new()),
            in_flight: Semaphore::new(IN_FLIGHT_MAX),
        }
    }

    fn client(&self) -> Result<Client, Error> {
        let client = self.client.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        client.ok_or_else(|| Error::Unreachable { cluster: self.cluster.clone(), reason: "not connected".to_owned() })
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
            None => self.discover(group, version, kind).await?,
        };
        self.resources.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(key, resource.clone());
        Ok(resource)
    }

    async fn discover(&self, group: &str, version: Option<&str>, kind: &str) -> Result<ApiResource, Error> {
        let client = self.client()?;
        let unknown = || Error::UnknownKind {
            cluster: self.cluster.clone(),
            kind: if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") },
        };
        let ask = async {
            match version {
                Some(version) => {
                    let gvk = GroupVersionKind::gvk(group, version, kind);
                    kube::discovery::pinned_kind(&client, &gvk).await.map(|(resource, _)| Some(resource))
                }
                None => kube::discovery::group(&client, group)
                    .await
                    .map(|group| group.recommended_kind(kind).map(|(resource, _)| resource)),
            }
        };
        let Ok(found) = tokio::time::timeout(REQUEST_TIMEOUT, ask).await else {
            return Err(Error::Unreachable {
                cluster: self.cluster.clone(),
                reason: format!("no answer about the kind {kind} within {} s", REQUEST_TIMEOUT.as_secs()),
            });
        };
        match found {
            Ok(found) => found.ok_or_else(unknown),
            Err(kube::Error::Discovery(_)) => Err(unknown()),
            Err(kube::Error::Api(status)) if status.code == 404 => Err(unknown()),
            Err(error) => Err(about_member(&self.cluster, &error)),
        }
    }

    async fn api(&self, id: &ObjectId) -> Result<Api<DynamicObject>, Error> {
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
        match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
            Err(_) => Err(Error::Unreachable {
                cluster: self.cluster.clone(),
                reason: format!("no answer about {object} within {} s", REQUEST_TIMEOUT.as_secs()),
            }),
            Ok(Err(kube::Error::Api(status))) if status.code == 401 => {
                Err(Error::Denied { cluster: self.cluster.clone(), reason: status.message })
            }
            Ok(Err(kube::Error::Api(status))) => Err(Error::Refused {
                object: object.to_string(),
                code: status.code,
                reason: status.reason,
                message: status.message,
            }),
            Ok(Err(error)) => Err(about_member(&self.cluster, &error)),
            Ok(Ok(value)) => Ok(value),
        }
    }

    async fn patch(&self, id: &ObjectId, object: &Value, options: ApplyOptions) -> Result<Value, Error> {
        let api = self.api(id).await?;
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            force: options.force,
            dry_run: options.dry_run,
            ..PatchParams::default()
        };
        let answer = self.request(id, api.patch(&id.name, &params, &Patch::Apply(object))).await?;
        Ok(to_value(answer))
    }

    /// Creates the namespace of the inventory: a member that has never been delivered to lacks it.
    async fn create_inventory_namespace(&self) -> Result<(), Error> {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.inventory.namespace}});
        let id = ObjectId::of(&namespace).expect("the namespace has a name");
        self.patch(&id, &namespace, ApplyOptions { force: true, dry_run: false }).await.map(drop)
    }
}

fn built_in(group: &str, version: Option<&str>, kind: &str) -> Option<ApiResource> {
    let known = kinds::lookup(group, kind).filter(|known| version.is_none_or(|v| v == known.version))?;
    Some(ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, known.version, kind), known.plural))
}

fn to_value(object: DynamicObject) -> Value {
    serde_json::to_value(object).expect("a dynamic object is JSON already")
}

#[async_trait]
impl Target for Live {
    async fn connect(&self) -> Result<Option<String>, Error> {
        let connected = connect(&self.cluster, &self.kubeconfig, self.context.as_deref()).await?;
        *self.client.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(connected.client);
        self.resources.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
        Ok(Some(connected.version))
    }

    fn has_health(&self) -> bool {
        true
    }

    async fn parents(&self) -> Result<Vec<Value>, Error> {
        let resource = self.resource("", Some("v1"), "ConfigMap").await?;
        let api: Api<DynamicObject> = Api::namespaced_with(self.client()?, self.inventory.namespace, &resource);
        let params = ListParams::default().labels(self.inventory.id_label);
        let list = self.request(&"the inventory", api.list(&params)).await?;
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
        Ok(self.request(id, api.get_opt(&id.name)).await?.map(to_value))
    }

    async fn delete(&self, id: &ObjectId, uid: &str) -> Result<Deletion, Error> {
        let api = self.api(id).await?;
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
            ..DeleteParams::default()
        };
        match self.request(id, api.delete(&id.name, &params)).await {
            Ok(answer) => Ok(if answer.is_right() { Deletion::Gone } else { Deletion::Accepted }),
            // Gone already, or another object by this name: not ours to delete either way.
            Err(Error::Refused { code: 404 | 409, .. }) => Ok(Deletion::Gone),
            Err(error) => Err(error),
        }
    }

    fn watch(&self, kind: &WatchedKind, version: Option<&str>, sink: mpsc::Sender<Observation>) -> WatchHandle {
        let Ok(client) = self.client() else { return WatchHandle(None) };
        let watch = Watch {
            cluster: self.cluster.clone(),
            client,
            kind: kind.clone(),
            known: built_in(&kind.group, version, &kind.kind),
            version: version.map(str::to_owned),
            selector: self.inventory.part_of_label,
            sink,
        };
        WatchHandle(Some(tokio::spawn(watch.run())))
    }

    fn watch_facts(&self, sink: mpsc::Sender<Observation>) -> WatchHandle {
        let Ok(client) = self.client() else { return WatchHandle(None) };
        WatchHandle(Some(tokio::spawn(facts::follow(self.cluster.clone(), client, sink))))
    }
}

/// Gives a list's item the type that lists leave out.
fn with_type(item: DynamicObject, api_version: &str, kind: &str) -> Value {
    let mut value = to_value(item);
    value["apiVersion"] = json!(api_version);
    value["kind"] = json!(kind);
    value
}

/// One watch of one kind, until its handle is dropped.
struct Watch {
    cluster: String,
    client: Client,
    kind: WatchedKind,
    known: Option<ApiResource>,
    version: Option<String>,
    selector: &'static str,
    sink: mpsc::Sender<Observation>,
}

impl Watch {
    async fn run(self) {
        loop {
            let error = match self.resource().await {
                Ok(resource) => self.follow(&resource).await,
                Err(error) => error,
            };
            let offline = error.is_offline();
            if self.sink.send(Observation::Failed(self.kind.clone(), error)).await.is_err() || offline {
                return;
            }
            tokio::time::sleep(WATCH_RETRY).await;
        }
    }

    async fn resource(&self) -> Result<ApiResource, Error> {
        if let Some(known) = &self.known {
            return Ok(known.clone());
        }
        let finder = Live {
            cluster: self.cluster.clone(),
            kubeconfig: PathBuf::new(),
            context: None,
            inventory: Inventory { namespace: "", id_label: "", part_of_label: "" },
            client: Mutex::new(Some(self.client.clone())),
            resources: Mutex::new(BTreeMap::new()),
            in_flight: Semaphore::new(1),
        };
        finder.discover(&self.kind.group, self.version.as_deref(), &self.kind.kind).await
    }

    /// Follows the kind until something fails; returns what.
    async fn follow(&self, resource: &ApiResource) -> Error {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), resource);
        let config = watcher::Config::default().labels(self.selector);
        let mut events = watcher::watcher(api, config).boxed();
        loop {
            let event = match events.try_next().await {
                Ok(Some(event)) => event,
                Ok(None) => {
                    return Error::Unreachable { cluster: self.cluster.clone(), reason: "a watch ended".to_owned() };
                }
                Err(error) if is_expired(&error) => continue,
                Err(error) => return watch_failure(&self.cluster, &self.kind.kind, error),
            };
            let value = |object| with_type(object, &resource.api_version, &resource.kind);
            let observation = match event {
                Event::Init => Observation::ListStarted(self.kind.clone()),
                Event::InitApply(object) => Observation::Listed(value(object)),
                Event::InitDone => Observation::ListDone(self.kind.clone()),
                Event::Apply(object) => Observation::Changed(value(object)),
                Event::Delete(object) => self.deleted(object),
            };
            if self.sink.send(observation).await.is_err() {
                return Error::Unreachable { cluster: self.cluster.clone(), reason: "nobody listens".to_owned() };
            }
        }
    }

    fn deleted(&self, object: DynamicObject) -> Observation {
        Observation::Deleted {
            key: ObjectKey {
                group: self.kind.group.clone(),
                kind: self.kind.kind.clone(),
                namespace: object.metadata.namespace.unwrap_or_default(),
                name: object.metadata.name.unwrap_or_default(),
            },
            resource_version: object.metadata.resource_version.and_then(|v| v.parse().ok()).unwrap_or_default(),
        }
    }
}
