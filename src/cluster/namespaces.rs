//! Watch of a member's namespaces, for their names.

use std::collections::BTreeSet;
use std::pin::pin;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt as _};
use tokio::sync::mpsc;

use super::Observation;
use super::connect::{is_expired, watch_failure};
use super::facts::paced;
use super::wire::Wire;
use crate::retry::is_refused;

/// Namespaces of one page of a list.
const NAMESPACES_IN_PAGE: u32 = 500;
/// Namespaces of one member whose names are kept.
const NAMESPACES_MAX: usize = 20_000;

/// Follows the names of the namespaces until the member does not answer or nobody listens.
///
/// The first report comes when they were listed, or cannot be; then one for each change. Only metadata is asked for.
pub(super) async fn follow(wire: Wire, sink: mpsc::Sender<Observation>) {
    let config = watcher::Config::default().page_size(NAMESPACES_IN_PAGE);
    let api = Api::<PartialObjectMeta<Namespace>>::all(wire.client.clone());
    let mut events = pin!(paced(watcher::watcher(api, config)));
    let mut names = BTreeSet::new();
    let mut listing = None;
    while let Some(event) = events.next().await {
        let observation = match event {
            Ok(Event::Init) => {
                listing = Some(BTreeSet::new());
                continue;
            }
            Ok(Event::InitApply(namespace)) => {
                listing.get_or_insert_default().insert(namespace.name_any());
                continue;
            }
            Ok(Event::InitDone) => {
                names = listing.take().unwrap_or_default();
                named(&names)
            }
            // A change of something else about a namespace is no news.
            Ok(Event::Apply(namespace)) if !names.insert(namespace.name_any()) => continue,
            Ok(Event::Apply(_)) => named(&names),
            Ok(Event::Delete(namespace)) => {
                names.remove(&namespace.name_any());
                named(&names)
            }
            // A watch that fell behind begins with a list again.
            Err(error) if is_expired(&error) => continue,
            Err(error) => {
                let refused = is_refused(&error);
                match watch_failure(&wire.cluster, "namespaces", error) {
                    // One answer that broke off is no reason to give up on a member that answers: the list is tried again.
                    error if error.is_offline() && !wire.answers().await => Observation::FactsFailed(error),
                    // What was listed once stands while the list fails for a time; a refusal lasts until somebody grants it.
                    _ if !refused && !names.is_empty() => continue,
                    error => Observation::Namespaces(Err(error.to_string())),
                }
            }
        };
        let is_end = matches!(observation, Observation::FactsFailed(_));
        if sink.send(observation).await.is_err() || is_end {
            return;
        }
    }
}

fn named(names: &BTreeSet<String>) -> Observation {
    Observation::Namespaces(match names.len() {
        0..=NAMESPACES_MAX => Ok(names.clone()),
        count => Err(format!("it has {count} namespaces; gitfleet keeps the names of {NAMESPACES_MAX} at most")),
    })
}
