//! A watch of what a member claims of itself: ClusterClaims, where it has that kind.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde::Deserialize;

use crate::Error;
use crate::retry::{REFUSED_RETRY, RETRY, is_refused};
use crate::wire::Wire;
use model::api::table::OCM_GROUP;

/// The kind, and the only version it has.
const KIND: &str = "ClusterClaim";
const VERSION: &str = "v1alpha1";
/// Pause before a member that has no such kind is asked for it again.
const ABSENT_PAUSE: Duration = Duration::from_mins(5);
/// Claims that every cluster may make.
///
/// Source: OCM, the reserved claims of its registration agent.
const RESERVED: [&str; 4] = [
    "id.k8s.io",
    "kubeversion.open-cluster-management.io",
    "platform.open-cluster-management.io",
    "product.open-cluster-management.io",
];
/// Other claims of one cluster; further ones, in the order of their names, are not taken.
///
/// Source: OCM, the default of its registration agent.
const CUSTOM_MAX: usize = 20;

/// What is read of a ClusterClaim.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Claim {
    metadata: ObjectMeta,
    spec: ClaimSpec,
}

#[derive(Clone, Debug, Deserialize)]
struct ClaimSpec {
    #[serde(default)]
    value: String,
}

impl Resource for Claim {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        OCM_GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "clusterclaims".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// What a watch reports of a member's claims.
pub(super) enum ClaimEvent {
    /// The member has no such kind, and so claims nothing.
    Absent,
    /// Whether it has the kind is not known.
    Unknown(Error),
    /// The watch says something.
    Watch(Box<Result<Event<Claim>, watcher::Error>>),
}

/// Where one stands with a member's claims.
enum Stage {
    Asking,
    Watching(BoxStream<'static, Result<Event<Claim>, watcher::Error>>),
}

/// Returns what a watch reports of a member's claims. A kind that comes later is found after a while.
pub(super) fn events(wire: Wire) -> impl Stream<Item = ClaimEvent> {
    stream::unfold((wire, Stage::Asking, Duration::ZERO), |(wire, mut stage, mut pause)| async move {
        loop {
            tokio::time::sleep(pause).await;
            let Stage::Watching(watch) = &mut stage else {
                match wire.served(OCM_GROUP, Some(VERSION), KIND).await {
                    Ok(_) => {
                        let all: Api<Claim> = Api::all(wire.client.clone());
                        stage = Stage::Watching(watcher::watcher(all, watcher::Config::default()).boxed());
                        pause = Duration::ZERO;
                        continue;
                    }
                    Err(Error::UnknownKind { .. }) => return Some((ClaimEvent::Absent, (wire, stage, ABSENT_PAUSE))),
                    Err(error) => return Some((ClaimEvent::Unknown(error), (wire, stage, RETRY))),
                }
            };
            let event = watch.next().await?;
            if event.as_ref().is_err_and(is_absent) {
                // Its definition is gone: asking again says so.
                (stage, pause) = (Stage::Asking, RETRY);
                continue;
            }
            let pause = match &event {
                Ok(_) => Duration::ZERO,
                Err(error) if is_refused(error) => REFUSED_RETRY,
                Err(_) => RETRY,
            };
            return Some((ClaimEvent::Watch(Box::new(event)), (wire, stage, pause)));
        }
    })
}

/// Tells whether the member knows no such kind.
fn is_absent(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(failed)
    | watcher::Error::WatchStartFailed(failed)
    | watcher::Error::WatchFailed(failed)) = error
    else {
        return false;
    };
    matches!(failed, kube::Error::Api(status) if status.code == 404)
}

/// The claims of one member as they are heard.
#[derive(Default)]
pub(super) struct Claims {
    known: Option<BTreeMap<String, String>>,
    listing: Option<BTreeMap<String, String>>,
}

impl Claims {
    /// The member claims nothing.
    pub(super) fn absent(&mut self) {
        (self.known, self.listing) = (Some(BTreeMap::new()), None);
    }

    /// What it claims cannot be read any more.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Takes an event of the watch.
    pub(super) fn take(&mut self, event: Event<Claim>) {
        match event {
            Event::Init => self.listing = Some(BTreeMap::new()),
            Event::InitDone => self.known = self.listing.take(),
            Event::InitApply(claim) | Event::Apply(claim) => {
                let name = claim.metadata.name.unwrap_or_default();
                for claims in self.known.as_mut().into_iter().chain(&mut self.listing) {
                    claims.insert(name.clone(), claim.spec.value.clone());
                }
            }
            Event::Delete(claim) => {
                let name = claim.metadata.name.unwrap_or_default();
                self.known.as_mut().into_iter().chain(&mut self.listing).for_each(|claims| drop(claims.remove(&name)));
            }
        }
    }

    /// Returns the claims that count; `None` before they are known.
    pub(super) fn counted(&self) -> Option<BTreeMap<String, String>> {
        let known = self.known.as_ref()?;
        let custom = known.iter().filter(|(name, _)| !RESERVED.contains(&name.as_str())).take(CUSTOM_MAX);
        let reserved = known.iter().filter(|(name, _)| RESERVED.contains(&name.as_str()));
        Some(custom.chain(reserved).map(|(name, value)| (name.clone(), value.clone())).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(name: &str, value: &str) -> Claim {
        let document = json!({"metadata": {"name": name}, "spec": {"value": value}});
        serde_json::from_value(document).expect("a claim")
    }

    #[test]
    fn claims_follow_the_watch() {
        let mut claims = Claims::default();
        assert_eq!(claims.counted(), None, "not known is not none");
        claims.take(Event::Init);
        claims.take(Event::InitApply(claim("platform.open-cluster-management.io", "AWS")));
        assert_eq!(claims.counted(), None, "the list is not complete");
        claims.take(Event::InitDone);
        claims.take(Event::Apply(claim("site", "a")));
        claims.take(Event::Apply(claim("site", "b")));
        let of = |claims: &Claims| claims.counted().unwrap_or_default().into_iter().collect::<Vec<_>>();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let platform = pair("platform.open-cluster-management.io", "AWS");
        assert_eq!(of(&claims), [platform.clone(), pair("site", "b")]);
        claims.take(Event::Init);
        assert_eq!(of(&claims).len(), 2, "what is known counts until the new list is complete");
        claims.take(Event::InitApply(claim("site", "b")));
        claims.take(Event::InitDone);
        assert_eq!(of(&claims), [pair("site", "b")]);
        for number in 0..30 {
            claims.take(Event::Apply(claim(&format!("a{number:02}"), "x")));
        }
        claims.take(Event::Apply(claim("platform.open-cluster-management.io", "AWS")));
        let counted = of(&claims);
        assert_eq!((counted.len(), counted[19].0.as_str(), &counted[20]), (21, "a19", &platform));
        claims.take(Event::Delete(claim("platform.open-cluster-management.io", "AWS")));
        assert_eq!(of(&claims).len(), 20);
        claims.absent();
        assert_eq!(claims.counted(), Some(BTreeMap::new()));
        claims.forget();
        assert_eq!(claims.counted(), None);
    }
}
