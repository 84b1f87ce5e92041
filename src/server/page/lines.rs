//! The lines that differ between snapshots: they are in git, and read when somebody asks for them.

use std::sync::Arc;

use super::PageRequest;
use crate::Compared;
use engine::store::records::OVERRIDE_PREFIX;
use engine::store::saved::Records;
use model::id::{ClusterName, PlacementKey};
use views::page::changes::{Contents, compared_snapshots};
use views::tree::Line;

/// Lines as they were read, or why they were not.
pub(super) struct LoadedLines {
    cluster: Option<String>,
    lines: Result<Vec<Line>, String>,
}

impl LoadedLines {
    /// Reads the lines that differ between two snapshots, or on a cluster. `None` where there is no such placement, or no snapshot.
    pub(super) async fn load(
        asked: &PageRequest,
        key: &PlacementKey,
        from: Option<u64>,
        to: Option<u64>,
        cluster: Option<String>,
    ) -> Option<Self> {
        let cluster = cluster.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        let published = asked.last().await?;
        let records = Arc::clone(&published.fleet.placements.get(key)?.records);
        let (from, to) = compared_snapshots(&records, from, to)?;
        let from = from.map(|from| from.index);
        let to = to.index;
        // As much memory as a large answer may take: all objects of two snapshots.
        let Some(_turn) = asked.shared.turns.read().await else {
            return Some(Self { cluster, lines: Err("others are being answered; load it again".into()) });
        };
        let history = Arc::clone(&asked.shared.history);
        let store = Arc::clone(&asked.shared.store);
        let on = cluster.as_deref().map(ClusterName::from);
        let read = tokio::task::spawn_blocking(move || {
            let compared = match on {
                None => Compared::Snapshots { from, to },
                Some(cluster) => {
                    let overrides =
                        Records::under(store.as_ref(), &[OVERRIDE_PREFIX]).map_err(|why| why.to_string())?;
                    Compared::OnCluster { cluster, to, overrides: overrides.overrides }
                }
            };
            history.differences(&records, compared)
        });
        let lines = read.await.unwrap_or_else(|error| Err(error.to_string()));
        Some(Self { cluster, lines })
    }

    /// Returns what a page shows of them.
    pub(super) fn contents(&self) -> Contents<'_> {
        Contents { cluster: self.cluster.as_deref(), lines: self.lines.as_deref().map_err(String::as_str) }
    }
}
