//! One connection to a member's API server: what a failure on it says of the member, and which kinds the member serves.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use kube::core::{ApiResource, GroupVersionKind};
use kube::error::DiscoveryError;
use kube::runtime::watcher;

use super::Error;
use super::connect::{about_member, chain};

/// How long one request may take. Longer than the 60 s after which API servers give up by themselves, so that it is theirs to
/// say what was slow (an admission webhook, mostly).
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(75);
/// How long a member that failed a request may take to answer a plain question before it counts as offline.
const LIVENESS_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection. What a watch needs rarely is boxed: the watch waits all its life, and would keep the memory of it.
#[derive(Clone)]
pub(super) struct Wire {
    pub(super) cluster: String,
    pub(super) client: Client,
}

impl Wire {
    /// Runs one request about `object` within the limit of time.
    pub(super) async fn request<T>(
        &self,
        object: &(dyn std::fmt::Display + Sync),
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Error> {
        match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
            Err(_) => Err(Error::Unanswered {
                object: object.to_string(),
                reason: format!("no answer within {} s", REQUEST_TIMEOUT.as_secs()),
            }),
            Ok(Err(error)) => Err(self.failure(object, error).await),
            Ok(Ok(value)) => Ok(value),
        }
    }

    /// Returns what the failure of a request means: the member is offline where it does not answer a plain question either, or
    /// refuses the credentials; everything else concerns what was asked for.
    pub(super) async fn failure(&self, object: &(dyn std::fmt::Display + Sync), error: kube::Error) -> Error {
        match error {
            kube::Error::Api(status) if status.code == 401 => {
                Error::Denied { cluster: self.cluster.clone(), reason: status.message }
            }
            kube::Error::Api(status) => Error::Refused {
                object: object.to_string(),
                code: status.code,
                reason: status.reason,
                message: status.message,
            },
            kube::Error::Auth(_) => about_member(&self.cluster, &error),
            // Nothing was sent, so this says nothing of the member.
            kube::Error::BuildRequest(_) | kube::Error::HttpError(_) => {
                Error::Unsendable { object: object.to_string(), reason: chain(&error) }
            }
            kube::Error::Discovery(DiscoveryError::MissingKind(kind) | DiscoveryError::MissingApiGroup(kind)) => {
                Error::UnknownKind { cluster: self.cluster.clone(), kind }
            }
            error if self.answers().await => Error::Unanswered { object: object.to_string(), reason: chain(&error) },
            error => about_member(&self.cluster, &error),
        }
    }

    /// Tells whether the member answers at all.
    pub(super) fn answers(&self) -> BoxFuture<'_, bool> {
        let asking = async {
            let asked = tokio::time::timeout(LIVENESS_TIMEOUT, self.client.apiserver_version()).await;
            // A refusal is an answer, too.
            matches!(asked, Ok(Ok(_) | Err(kube::Error::Api(_))))
        };
        asking.boxed()
    }

    /// Returns what the failure of a watch means, as [`Wire::failure`].
    pub(super) fn watch_failure(&self, what: &str, error: watcher::Error) -> BoxFuture<'_, Error> {
        let object = format!("the list of {what}");
        let meaning = async move {
            match error {
                watcher::Error::InitialListFailed(error)
                | watcher::Error::WatchStartFailed(error)
                | watcher::Error::WatchFailed(error) => self.failure(&object, error).await,
                watcher::Error::WatchError(status) => self.failure(&object, kube::Error::Api(status)).await,
                error @ watcher::Error::NoResourceVersion => Error::Unanswered { object, reason: chain(&error) },
            }
        };
        meaning.boxed()
    }

    /// Returns the resource of a kind in a version.
    ///
    /// # Errors
    /// The member does not serve it, or does not say.
    pub(super) async fn pinned(&self, gvk: &GroupVersionKind) -> Result<ApiResource, Error> {
        let asked = self.request(&about(&gvk.kind), kube::discovery::pinned_kind(&self.client, gvk)).await;
        match asked {
            Ok((resource, _)) => Ok(resource),
            Err(Error::UnknownKind { .. } | Error::Refused { code: 404, .. }) => {
                Err(self.unknown(&gvk.group, &gvk.kind))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the resource of a kind in whatever version it is served in, `version` first.
    ///
    /// # Errors
    /// [`Error::UnknownKind`] only where the member said completely what it serves: the kind's group was asked for in all its
    /// versions, and the API server is ready (one that is starting does not name all groups yet). Any other error leaves it open.
    pub(super) fn served<'a>(
        &'a self,
        group: &'a str,
        version: Option<&'a str>,
        kind: &'a str,
    ) -> BoxFuture<'a, Result<ApiResource, Error>> {
        self.find_served(group, version, kind).boxed()
    }

    async fn find_served(&self, group: &str, version: Option<&str>, kind: &str) -> Result<ApiResource, Error> {
        if let Some(version) = version {
            match self.pinned(&GroupVersionKind::gvk(group, version, kind)).await {
                Err(Error::UnknownKind { .. }) => {}
                answer => return answer,
            }
        }
        match self.request(&about(kind), kube::discovery::group(&self.client, group)).await {
            Ok(found) => {
                let in_version = |version| found.versioned_resources(version).into_iter().map(|(resource, _)| resource);
                let preferred = std::iter::once(found.preferred_version_or_latest());
                let mut all = preferred.chain(found.versions()).flat_map(in_version);
                if let Some(resource) = all.find(|resource| resource.kind == kind) {
                    return Ok(resource);
                }
            }
            Err(Error::UnknownKind { .. }) => {}
            Err(error) => return Err(error),
        }
        self.ready().await?;
        Err(self.unknown(group, kind))
    }

    /// Tells whether the API server is ready, as far as it says so to us.
    async fn ready(&self) -> Result<(), Error> {
        let request = http::Request::get("/readyz").body(Vec::new()).expect("a fixed path makes a request");
        match self.request(&"/readyz", self.client.request_text(request)).await {
            // Who has no access cannot be told.
            Ok(_) | Err(Error::Refused { code: 403 | 404, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Says that the member serves no such kind.
    fn unknown(&self, group: &str, kind: &str) -> Error {
        let kind = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        Error::UnknownKind { cluster: self.cluster.clone(), kind }
    }
}

/// Names the question whether a kind is served.
fn about(kind: &str) -> String {
    format!("the question which {kind} the API server serves")
}
