//! What was read of objects before: members have the same objects, and the text of one says all that is read of it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError, Weak};

use super::PooledContent;
use model::shared::Shared;

/// Parts with a lock of their own.
const SHARDS: usize = 16;
/// Texts of which a part remembers the content; about 90 bytes each.
const TEXTS_MAX: usize = 4_096;

/// Contents by the digest of the text they were read from, for as long as somebody holds them.
///
/// What follows from a text also follows from the rules it was read by: it is used with the same rules always.
#[derive(Debug, Default)]
pub struct KnownContents([Mutex<BTreeMap<[u8; 32], Weak<PooledContent>>>; SHARDS]);

impl KnownContents {
    fn shard(&self, digest: &[u8; 32]) -> &Mutex<BTreeMap<[u8; 32], Weak<PooledContent>>> {
        &self.0[usize::from(digest[0]) % SHARDS]
    }

    /// Returns what was read of a text with this digest, if somebody still holds it.
    pub(super) fn get(&self, digest: &[u8; 32]) -> Option<Shared<PooledContent>> {
        let texts = self.shard(digest).lock().unwrap_or_else(PoisonError::into_inner);
        texts.get(digest).and_then(Shared::upgrade)
    }

    /// Remembers what was read of a text.
    pub(super) fn insert(&self, digest: [u8; 32], content: &Shared<PooledContent>) {
        let mut texts = self.shard(&digest).lock().unwrap_or_else(PoisonError::into_inner);
        if texts.len() >= TEXTS_MAX {
            texts.retain(|_, content| content.strong_count() > 0);
        }
        // Where all are in use, the texts differ too much for this to help: those of now are more likely to come again.
        if texts.len() >= TEXTS_MAX {
            texts.clear();
        }
        texts.insert(digest, content.downgrade());
    }
}
