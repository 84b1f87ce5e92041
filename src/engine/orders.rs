//! Orders to members: which are the same.

use std::sync::Arc;

use model::work::WorkOrder;

/// Tells whether two orders are the same; manifests are shared, so they are compared by identity.
pub(super) fn is_same(a: &WorkOrder, b: &WorkOrder) -> bool {
    // Destructured in full, so that the compiler finds a new field.
    let WorkOrder {
        placement: _,
        cluster: _,
        source: _,
        generation,
        snapshot,
        commit,
        digest,
        strategy,
        manifests,
        held,
        prune,
        kept,
        user,
        tenant,
        remove,
        abandon,
    } = a;
    let same_manifests = Arc::ptr_eq(manifests, &b.manifests)
        || (manifests.len() == b.manifests.len()
            && manifests.iter().zip(b.manifests.iter()).all(|(a, b)| a.digest == b.digest && a.key == b.key));
    *generation == b.generation
        && *snapshot == b.snapshot
        && *commit == b.commit
        && *digest == b.digest
        && *strategy == b.strategy
        && same_manifests
        && *held == b.held
        && *prune == b.prune
        && *kept == b.kept
        && *user == b.user
        && *tenant == b.tenant
        && *remove == b.remove
        && *abandon == b.abandon
}
