//! 6: an object that somebody changed and that could not be put back is not called applied, in no life.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deliver::health::HealthRules;
use deliver::inventory::applyset_id;
use deliver::live::LiveObject;
use jiff::{SignedDuration, Timestamp};
use model::api::condition::ConditionStatus;
use model::id::{ClusterName, Digest, ObjectKey, PlacementKey};
use model::records::{ApplyOutcome, WorkStatus};
use model::work::Desired;
use plan::simulate::Fate;

use super::Run;
use super::check::{Verdict, owned};
use super::timeline::{CLUSTERS_MAX, fate};
use super::twists::{END_LIFE, RELENT};

/// How long a change that was seen may take to be told.
const TOLD: SignedDuration = SignedDuration::from_secs(90);

/// What API servers refuse whatever it is: nobody can put these objects back.
pub type Refused = Arc<Mutex<BTreeSet<(ClusterName, ObjectKey)>>>;

/// Returns how an object turns out where some are refused.
pub fn fate_with(refused: &Refused) -> impl Fn(&ClusterName, &Desired) -> Fate + Send + use<> {
    let refused = Arc::clone(refused);
    move |cluster, desired| {
        let all = refused.lock().expect("nobody fails while holding it");
        if all.contains(&(cluster.clone(), ObjectKey::clone(&desired.key))) {
            return Fate::Refused;
        }
        fate(cluster, desired)
    }
}

/// Objects that somebody changed, and since when.
pub type Changed = BTreeMap<(ClusterName, ObjectKey), Timestamp>;

/// 6: what was changed and is not put back is not reported as applied.
fn is_reported(placement: &PlacementKey, cluster: &ClusterName, live: &LiveObject, status: &WorkStatus) -> Verdict {
    let key = live.id.key();
    let manifest = status.manifests.iter().find(|manifest| manifest.id.key() == key);
    let is_called_applied = manifest.is_some_and(|manifest| {
        manifest.applied == ApplyOutcome::Applied && manifest.manifest.as_ref() == live.manifest.as_ref()
    });
    if is_called_applied {
        return Err(format!("6: {key} of {placement} on {cluster} is called applied, and somebody has changed it"));
    }
    Ok(())
}

fn is_changed(live: &LiveObject) -> bool {
    Some(&live.owned) != live.manifest.as_ref().map(owned).as_ref()
}

impl Run {
    /// Somebody changed an object of ours.
    pub(super) fn note_change(&mut self, cluster: &ClusterName, key: &ObjectKey) {
        self.changed.insert((cluster.clone(), key.clone()), self.simulation.now);
        self.checker.changed.insert((cluster.clone(), key.clone()));
    }

    /// Somebody changes an object, and from then on the API server refuses it. The daemon ends meanwhile, most of the time.
    pub(super) fn refuse_put_back(&mut self) {
        let Some(mut dice) = self.twists.put_backs.take() else { return };
        let cluster = ClusterName::new(format!("c{}", dice.below(CLUSTERS_MAX)));
        let mut held = self.held(&cluster).unwrap_or_default();
        held.retain(|key| self.may_be_changed(&cluster, key));
        let key = dice.pick(&held).cloned();
        if let Some(key) = key.filter(|key| self.meddled.insert((cluster.clone(), key.clone()))) {
            self.say_that(format!("somebody meddles with {key} on {cluster}, which is refused from now on"));
            self.refused.lock().expect("nobody fails while holding it").insert((cluster.clone(), key.clone()));
            self.checker.disturbed.insert(cluster.clone());
            let mut live = self.simulation.members[&cluster].objects[&key].clone();
            live.change(|content| content.owned = Digest::from("somebody's"));
            self.simulation.meddle(&cluster, live);
            self.note_change(&cluster, &key);
            for _ in 0..dice.below(3) {
                self.simulation.at(Duration::from_secs(dice.below(100)), END_LIFE);
            }
            self.simulation.at(Duration::from_secs(dice.between(100, 400)), RELENT);
        }
        self.twists.put_backs = Some(dice);
    }

    /// The API servers refuse nothing any more.
    pub(super) fn relent(&mut self) {
        self.refused.lock().expect("nobody fails while holding it").clear();
    }

    /// 6: what somebody changed is told as long as it is so.
    pub(super) fn changes_are_told(&mut self) -> Verdict {
        let members = &self.simulation.members;
        let live = |(cluster, key): &(ClusterName, ObjectKey)| members.get(cluster)?.objects.get(key);
        let stands = |spot: &(ClusterName, ObjectKey)| {
            live(spot).is_some_and(|live| is_changed(live) && !live.applyset.is_empty())
        };
        self.changed.retain(|spot, _| stands(spot));
        // What was changed on a cluster that has left is not seen when it returns: docs/design/003 says so.
        let clusters = &self.clusters;
        let left = self.changed.keys().filter(|(cluster, _)| !clusters.contains(cluster));
        self.checker.left_changed.extend(left.cloned());
        self.changed.retain(|(cluster, _), _| clusters.contains(cluster));
        let Some(core) = self.simulation.core() else { return Ok(()) };
        for (spot, since) in &self.changed {
            let is_seen = !self.checker.silent.contains(&spot.0) && !self.checker.is_blind;
            let since = (*since).max(self.checker.calm_since);
            let Some(live) = live(spot).filter(|_| is_seen && self.simulation.now.duration_since(since) > TOLD) else {
                continue;
            };
            let ours = core.placements().iter().filter(|(placement, _)| applyset_id(placement) == *live.applyset);
            for (placement, state) in ours {
                let Some(status) = state.works.get(&spot.0) else { continue };
                is_reported(placement, &spot.0, live, status)?;
                let binding = self.checker.binding(&(placement.clone(), spot.0.clone()));
                let is_wanted = status.manifests.iter().any(|manifest| manifest.id.key() == spot.1);
                if is_wanted
                    && binding.is_some_and(|b| {
                        b.generation == status.generation && b.says(ConditionStatus::True, "Applied", None)
                    })
                {
                    let (cluster, key) = spot;
                    return Err(format!(
                        "6: {placement} counts as applied on {cluster}, and somebody has changed {key}"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Forged violations are caught.
#[test]
fn w03_what_is_called_applied_though_it_was_changed_is_caught() {
    let object =
        serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "o", "namespace": "n"}});
    let read = LiveObject::read(&object, &HealthRules::default()).unwrap();
    let manifest = Digest::new("d");
    let live =
        read.with(|content| (content.manifest, content.owned) = (Some(manifest.clone()), Digest::from("somebody's")));
    assert!(is_changed(&live) && !is_changed(&live.clone().with(|content| content.owned = owned(&manifest))));
    let status = |applied: &str, digest: &str| -> WorkStatus {
        let told = serde_json::json!({
            "group": "", "version": "v1", "kind": "ConfigMap", "namespace": "n", "name": "o", "applied": applied,
            "message": "", "manifest": digest,
        });
        let nothing = serde_json::json!({"generation": 1, "complete": true, "manifests": [told]});
        serde_json::from_value(nothing).unwrap()
    };
    let p = PlacementKey::cluster_scoped("p");
    let told = |applied: &str, digest: &str| is_reported(&p, &"a".into(), &live, &status(applied, digest));
    assert_eq!(told("ManifestApplyFailed", "d"), Ok(()));
    assert_eq!(told("Applied", "another"), Ok(()), "it is another manifest that was reported");
    assert!(told("Applied", "d").unwrap_err().starts_with("6:"));
}
