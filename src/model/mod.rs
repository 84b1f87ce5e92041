//! The words the rooms speak among themselves: names, manifests, the tree of a commit, records.

pub mod id;
pub mod kinds;
pub mod manifest;
pub mod records;
pub mod tree;
