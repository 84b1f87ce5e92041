//! Edge: the store trait and who keeps its promise.
