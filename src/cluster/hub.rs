//! The hub: the cluster of Argo CD, with PlacementDecisions, a ConfigMap, and the objects that read them.
//!
//! It executes single requests; `daemon/hub_writer` decides what to write.

use std::path::Path;
use std::time::Duration;

use futures::TryStreamExt as _;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ApiResource, GroupVersionKind, PartialObjectMeta};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::connect::{SignIn, about_member, chain, connect};
use super::{Error, WatchHandle};
use model::api::FIELD_MANAGER;
use model::api::table::OCM_GROUP;

/// What the hub is called where a member's name would stand.
const NAME: &str = "of `decisions:`";
/// How long one request may take before the hub counts as not answering.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Changes that may wait before the watch is slowed down.
const CHANGES_MAX: usize = 1024;

/// The kinds that are read or written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HubKind {
    /// OCM's PlacementDecision.
    PlacementDecision,
    /// OCM's Placement: its controller may live there too.
    Placement,
    /// Argo CD's ApplicationSet.
    ApplicationSet,
    /// The ConfigMap that an ApplicationSet names.
    ConfigMap,
}

impl HubKind {
    fn resource(self) -> ApiResource {
        let (group, version, kind, plural) = match self {
            Self::PlacementDecision => (OCM_GROUP, "v1beta1", "PlacementDecision", "placementdecisions"),
            Self::Placement => (OCM_GROUP, "v1beta1", "Placement", "placements"),
            Self::ApplicationSet => ("argoproj.io", "v1alpha1", "ApplicationSet", "applicationsets"),
            Self::ConfigMap => ("", "v1", "ConfigMap", "configmaps"),
        };
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
    }
}

/// A watch event: an object exists in a version, or is gone.
#[derive(Debug)]
pub enum Change {
    /// It is as this version says.
    Is {
        /// Its kind.
        kind: HubKind,
        /// Its name.
        name: String,
        /// Its version.
        version: String,
    },
    /// It was deleted.
    Gone {
        /// Its kind.
        kind: HubKind,
        /// Its name.
        name: String,
    },
    /// The watch ended.
    Failed(Error),
}

/// A connected hub, and the one namespace of it that is worked in.
pub struct Hub {
    client: Client,
    namespace: String,
}

impl Hub {
    /// Connects.
    ///
    /// # Errors
    /// [`Error::is_offline`] holds for all of them.
    ///
    /// # Cancel safety
    /// May be dropped at any point: there is no connection then.
    pub async fn connect(
        kubeconfig: &Path,
        context: Option<&str>,
        allow_exec: &[String],
        namespace: &str,
    ) -> Result<Self, Error> {
        let connected = connect(NAME, kubeconfig, context, SignIn::Named(allow_exec)).await?;
        Ok(Self { client: connected.client, namespace: namespace.to_owned() })
    }

    fn api(&self, kind: HubKind) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &kind.resource())
    }

    /// Returns all objects of a kind in the namespace.
    ///
    /// # Errors
    /// [`Error::is_not_found`] holds where the kind is not installed.
    ///
    /// # Cancel safety
    /// May be dropped at any point: only the answer is lost.
    pub async fn list(&self, kind: HubKind) -> Result<Vec<Value>, Error> {
        let list = self.request(kind, "*", self.api(kind).list(&ListParams::default())).await?;
        Ok(list.items.into_iter().map(to_value).collect())
    }

    /// Returns an object, or `None` where there is none.
    ///
    /// # Errors
    /// The hub does not answer or refuses.
    ///
    /// # Cancel safety
    /// May be dropped at any point: only the answer is lost.
    pub async fn get(&self, kind: HubKind, name: &str) -> Result<Option<Value>, Error> {
        Ok(self.request(kind, name, self.api(kind).get_opt(name)).await?.map(to_value))
    }

    /// Creates an object; returns it as it is now.
    ///
    /// # Errors
    /// The hub does not answer or refuses, such as with 409 where there is one of this name.
    ///
    /// # Cancel safety
    /// The request may have been sent: only reading the object tells whether it was executed.
    pub async fn create(&self, kind: HubKind, name: &str, object: Value) -> Result<Value, Error> {
        let mut wanted = DynamicObject::new(name, &kind.resource());
        wanted.data = object;
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        // `DynamicObject` writes `metadata` by itself: left in the data it would be sent twice.
        if let Some(Value::Object(metadata)) = wanted.data.as_object_mut().and_then(|data| data.remove("metadata")) {
            let mut all = serde_json::Map::from_iter([("name".to_owned(), name.into())]);
            all.extend(metadata);
            wanted.metadata = serde_json::from_value(Value::Object(all)).expect("labels and annotations are metadata");
        }
        self.request(kind, name, self.api(kind).create(&params, &wanted)).await.map(to_value)
    }

    /// Merges a patch into an object; returns it as it is now.
    ///
    /// # Errors
    /// The hub does not answer or refuses, such as with 404 where there is none.
    ///
    /// # Cancel safety
    /// The request may have been sent: only reading the object tells whether it was executed.
    pub async fn patch(&self, kind: HubKind, name: &str, patch: &Value) -> Result<Value, Error> {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        self.request(kind, name, self.api(kind).patch(name, &params, &Patch::Merge(patch))).await.map(to_value)
    }

    /// Merges a patch into an object's status, through the sub-resource; returns the object as it is now.
    ///
    /// # Errors
    /// As [`Hub::patch`].
    ///
    /// # Cancel safety
    /// The request may have been sent: only reading the object tells whether it was executed.
    pub async fn patch_status(&self, kind: HubKind, name: &str, status: &Value) -> Result<Value, Error> {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = json!({"status": status});
        self.request(kind, name, self.api(kind).patch_status(name, &params, &Patch::Merge(&patch))).await.map(to_value)
    }

    /// Deletes an object if it still has this uid. One that is gone is no error.
    ///
    /// # Errors
    /// The hub does not answer or refuses.
    ///
    /// # Cancel safety
    /// The request may have been sent: only reading the object tells whether it was executed.
    pub async fn delete(&self, kind: HubKind, name: &str, uid: &str) -> Result<(), Error> {
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
            ..DeleteParams::default()
        };
        match self.request(kind, name, self.api(kind).delete(name, &params)).await {
            // Gone, or another object with this name, which does not belong to gitfleet.
            Ok(_) | Err(Error::Refused { code: 404 | 409, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Watches a kind; the first changes are the objects there are.
    pub fn watch(&self, kind: HubKind, only: Option<&str>, sink: mpsc::Sender<Change>) -> WatchHandle {
        let config = only.map_or_else(watcher::Config::default, |name| {
            watcher::Config::default().fields(&format!("metadata.name={name}"))
        });
        // Names and versions are all that is told, so the hub sends no more than metadata.
        let api: Api<PartialObjectMeta<DynamicObject>> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &kind.resource());
        let mut events = Box::pin(watcher::watcher(api, config));
        WatchHandle::start(sink.clone(), panicked, async move {
            loop {
                let change = match events.try_next().await {
                    Ok(Some(Event::Init | Event::InitDone)) => continue,
                    Ok(Some(Event::InitApply(object) | Event::Apply(object))) => Change::Is {
                        kind,
                        name: object.metadata.name.unwrap_or_default(),
                        version: object.metadata.resource_version.unwrap_or_default(),
                    },
                    Ok(Some(Event::Delete(object))) => {
                        Change::Gone { kind, name: object.metadata.name.unwrap_or_default() }
                    }
                    Ok(None) => Change::Failed(unreachable("a watch ended".to_owned())),
                    // It only fell behind: the watcher lists again by itself.
                    Err(watcher::Error::WatchError(status)) if status.code == 410 => continue,
                    Err(error) => Change::Failed(unreachable(chain(&error))),
                };
                let ended = matches!(change, Change::Failed(_));
                if sink.send(change).await.is_err() || ended {
                    return;
                }
            }
        })
    }

    /// Returns the channel that watches write to.
    pub fn changes() -> (mpsc::Sender<Change>, mpsc::Receiver<Change>) {
        mpsc::channel(CHANGES_MAX)
    }

    /// Runs one request within the limit of time.
    async fn request<T>(
        &self,
        kind: HubKind,
        name: &str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Error> {
        match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
            Err(_) => Err(unreachable(format!("no answer within {} s", REQUEST_TIMEOUT.as_secs()))),
            Ok(Err(kube::Error::Api(status))) if status.code != 401 => Err(Error::Refused {
                object: format!("{} {}/{name}", kind.resource().kind, self.namespace),
                code: status.code,
                reason: status.reason,
                message: status.message,
            }),
            Ok(Err(error)) => Err(about_member(NAME, &error)),
            Ok(Ok(value)) => Ok(value),
        }
    }
}

fn panicked(text: &str) -> Change {
    Change::Failed(unreachable(format!(
        "a watch ended because of an error in gitfleet ({text}) and gitfleet starts it again; please report it"
    )))
}

fn unreachable(reason: String) -> Error {
    Error::Unreachable { cluster: NAME.to_owned(), reason }
}

fn to_value(object: DynamicObject) -> Value {
    serde_json::to_value(object).expect("a dynamic object is JSON already")
}
