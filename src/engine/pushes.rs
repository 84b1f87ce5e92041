//! What machines push about clusters.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::batch::BatchChange;
use super::{Batch, Core};
use crate::store::records::cluster_key;
use model::commands::{Refusal, RefusalReason};
use model::id::ClusterName;
use model::pushed::Push;
use model::records::ClusterRecord;

impl Core {
    /// Takes what machines push about clusters, each with the name of its token. Returns what is to be stored, and for each
    /// why it is not taken, if it is not: as with [`Core::decide`], the batch must come back before anything else is decided.
    pub fn push(&mut self, pushes: Vec<(Push, String)>, now: Timestamp) -> (Batch, Vec<Result<(), Refusal>>) {
        let mut records = BTreeMap::new();
        let mut answers = Vec::new();
        for (push, by) in pushes {
            let record = self.pushed(&records, push, &by, now);
            answers.push(record.map(|record| drop(records.insert(record.name.clone(), record))));
        }
        let mut batch = Batch::default();
        for record in records.into_values() {
            batch.write(cluster_key(&record.name), &record);
            batch.changes.push(BatchChange::Pushed(Box::new(record)));
        }
        self.persistence.outstanding = true;
        (batch, answers)
    }

    /// Returns the record of a cluster with what is pushed about it, over what was pushed before it.
    fn pushed(
        &self,
        before: &BTreeMap<ClusterName, ClusterRecord>,
        push: Push,
        by: &str,
        now: Timestamp,
    ) -> Result<ClusterRecord, Refusal> {
        let refusal = |reason, message: String| Refusal { reason, message };
        if self.persistence.outstanding {
            return Err(refusal(RefusalReason::NotPossible, "something else is being saved; send it again".to_owned()));
        }
        if let Some(complaint) = self.adoption_complaint() {
            return Err(refusal(RefusalReason::NotPossible, complaint));
        }
        let known = before.get(&push.cluster).or_else(|| self.fleet.records.get(&push.cluster));
        let Some(known) = known.filter(|record| !record.left) else {
            return Err(refusal(RefusalReason::NotFound, format!("the fleet has no cluster {}", push.cluster)));
        };
        push.what.check(now).map_err(|message| refusal(RefusalReason::NotPossible, message))?;
        let mut record = known.clone();
        record.pushed.take(by, push.what, now);
        Ok(record)
    }
}
