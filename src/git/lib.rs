//! The git adapter: mirrors, trees and watches of repositories, through gix.
//!
//! A [`Source`] follows one branch of one location: a remote (mirrored into a bare repository below the state folder), an artifact in an
//! OCI registry (each digest of it a commit in a bare repository of gitfleet), a local
//! repository (read in place, never through its work tree), or a plain folder (written as commits into a bare repository of
//! gitfleet). A [`JoinedRepository`] has a commit for several of them together. A [`Reader`] reads listings, blobs, ancestry and pins. [`read_folder`] reads a folder directly, with the same
//! rules and the same blob ids as for a commit of it.
//!
//! Every function blocks; the daemon calls them outside its async threads. Only a source's own configuration affects gix: no
//! system or user configuration, no environment, only the configured protocol. ssh is the one program that is started, for a source that names it.
//!
//! The only refs ever written are below [`REF_PREFIX`], also in a local repository that is read in place; and the one branch that a
//! person names in a command, see [`NewCommit`]. A repository that is made here, a [`WorkTree`], is written as a whole.

mod artifact;
mod bare;
mod branch;
mod compact;
mod durable;
mod error;
mod fetch;
mod folder;
mod heal;
mod https;
mod joined;
mod level;
mod limits;
mod mirror;
mod opened;
mod packed;
mod places;
mod pull;
mod rendered;
mod repository;
pub mod signature;
mod signed;
mod source;
mod spec;
mod ssh;
mod trees;
mod walk;
mod watch;
mod watchdog;
mod work_tree;

#[cfg(test)]
mod tests;

pub use branch::NewCommit;
pub use error::{Cause, Error};
pub use fetch::Excess;
pub use folder::{Folder, read_folder, read_folder_below};
pub use https::HttpsAccess;
pub use joined::{JoinedRepository, joined_sources};
pub use limits::*;
pub use opened::OpenedReader;
pub use packed::PackedCommits;
pub use places::*;
pub use pull::{Merged, merged};
pub use rendered::{RenderedStore, UNPINNED_MAX};
pub use repository::{Blob, Reader, RootFile, TreeId, discover};
pub use signed::Signed;
pub use source::{Source, read_kept, read_kept_sources, record_folder};
pub use spec::{SourceSpec, Tip};
pub use ssh::{SshAccess, ssh_version};
pub use walk::{File, Listing};
pub use watch::{Watch, watch};
pub use work_tree::WorkTree;
