//! Several sources: what happens to each, and what that means for all of them together.

use jiff::Timestamp;

use super::event::SourceEvent;
use super::source::{FollowedSource, log_refusal};
use model::id::CommitId;
use model::records::SourceRecord;
use model::tree::JoinedSource;

/// Why a tip waits where no other reason is given.
const REWRITTEN: &str = "history was rewritten";

impl FollowedSource {
    /// Handles an event that concerns one of several sources. One that cannot be read holds nothing of the others back.
    /// Returns whether it was read.
    pub(super) fn handle_one(&mut self, name: &str, news: SourceEvent, now: Timestamp) -> bool {
        let _source = tracing::error_span!("source", source = name).entered();
        let mut record = self.record.sources.remove(name).unwrap_or_default();
        let is_read = match news {
            SourceEvent::Seen(commit) => {
                self.note_seen(&commit, now);
                false
            }
            SourceEvent::Unchanged => {
                record.seen.clone_from(&record.accepted);
                record.seen_at = record.accepted_at;
                settle(&mut record);
                true
            }
            SourceEvent::Readable => {
                tracing::info!("the source can be read again");
                true
            }
            SourceEvent::Refused(commit, errors) => {
                // It is tried again whenever another source has something new.
                if record.seen.as_ref() != Some(&commit) || record.refused != errors {
                    log_refusal(&commit, &errors);
                }
                self.see_in(&mut record, commit, now);
                settle(&mut record);
                record.refused = errors;
                true
            }
            SourceEvent::Rewritten(commit) => {
                tracing::warn!(commit = commit.short(), "history was rewritten; a person may accept the new commit");
                self.hold(&mut record, commit, None, now);
                true
            }
            SourceEvent::Switched(commit, text) => {
                tracing::warn!(commit = commit.short(), about = %text, "a person may accept the newest commit");
                self.hold(&mut record, commit, Some(text), now);
                true
            }
            SourceEvent::Failed(reason) => {
                tracing::error!(reason, "the source cannot be read; what was accepted of it stays");
                record.failure = Some(reason);
                false
            }
            SourceEvent::Unwatched(reason) => {
                tracing::warn!(reason, "the source cannot be watched for changes; gitfleet polls it every second");
                record.unwatched = Some(reason);
                false
            }
            SourceEvent::Unkept(reason) => {
                record.unkept = reason;
                false
            }
            SourceEvent::Follows(branch) => {
                record.branch = Some(branch);
                false
            }
            // These are about all sources together.
            SourceEvent::Of(..)
            | SourceEvent::Restored(_)
            | SourceEvent::Accepted(_)
            | SourceEvent::Payload(..)
            | SourceEvent::HeldRead(..) => false,
        };
        if is_read {
            record.failure = None;
        }
        self.record.sources.insert(name.to_owned(), record);
        self.summarise_sources();
        is_read
    }

    fn hold(&mut self, record: &mut SourceRecord, commit: CommitId, why: Option<String>, now: Timestamp) {
        self.see_in(record, commit.clone(), now);
        record.refused.clear();
        (record.held_rewrite, record.held_why) = (Some(commit), why);
    }

    fn see_in(&mut self, record: &mut SourceRecord, commit: CommitId, now: Timestamp) {
        let first = self.note_seen(&commit, now);
        if record.seen.as_ref() != Some(&commit) {
            (record.seen, record.seen_at) = (Some(commit), Some(first));
        }
        // A person accepted the pending tip: another tip ends that.
        self.record.accepted_rewrite = None;
    }

    /// Records at which commit each of several sources is accepted.
    pub(super) fn accept_sources(&mut self, accepted: &[JoinedSource], now: Timestamp) {
        for JoinedSource { name, commit } in accepted {
            let record = self.record.sources.entry(name.clone()).or_default();
            if record.accepted.as_ref() != Some(commit) {
                (record.accepted, record.accepted_at) = (Some(commit.clone()), Some(now));
                (record.seen, record.seen_at) = (Some(commit.clone()), Some(now));
                record.failure = None;
                settle(record);
            }
        }
        if !accepted.is_empty() {
            self.summarise_sources();
        }
    }

    /// Says of all sources together what is known of each: the first that waits for a person, every error, every failure.
    fn summarise_sources(&mut self) {
        let source = &mut self.record;
        let named = |pick: fn(&SourceRecord) -> Option<&String>| {
            let texts = source.sources.iter().filter_map(|(name, record)| Some(format!("{name}: {}", pick(record)?)));
            texts.reduce(|one, other| format!("{one}; {other}"))
        };
        source.failure = named(|record| record.failure.as_ref());
        source.unwatched = named(|record| record.unwatched.as_ref());
        source.unkept = named(|record| record.unkept.as_ref());
        source.refused = source.sources.values().flat_map(|record| record.refused.iter().cloned()).collect();
        let held = source.sources.iter().find(|(_, record)| record.held_rewrite.is_some());
        let refused = || source.sources.iter().find(|(_, record)| !record.refused.is_empty());
        let seen = held.or_else(refused).map(|(_, record)| (record.seen.clone(), record.seen_at));
        let (rewrite, why) = match held {
            Some((name, record)) => {
                let why = record.held_why.as_deref().unwrap_or(REWRITTEN);
                (record.held_rewrite.clone(), Some(format!("source {name}: {why}")))
            }
            None => (None, None),
        };
        (source.held_rewrite, source.held_why) = (rewrite, why);
        (source.seen, source.seen_at) = seen.unwrap_or_else(|| (source.accepted.clone(), source.accepted_at));
    }
}

/// Notes that nothing of a source waits or is refused.
fn settle(record: &mut SourceRecord) {
    record.refused.clear();
    (record.held_rewrite, record.held_why) = (None, None);
}
