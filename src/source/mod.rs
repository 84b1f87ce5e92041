//! Room 1: what does a commit say? Files become a checked tree, or every error in them.
//!
//! Three steps, each pure. [`select`] says from names alone which files are read. [`parse_blob`] reads one file's
//! content; its answer depends on nothing else, so it may be kept by blob id and used again under another path.
//! [`assemble`] puts the files of a commit together and checks what only the whole can show.

mod assemble;
mod blob;
mod budget;
mod paths;
mod truth;

pub use assemble::{BYTES_MAX, assemble, skipped};
pub use blob::{BLOB_BYTES_MAX, BlobError, ParsedBlob, ParsedDocument, parse_blob, parse_blob_within};
pub use budget::{Budget, COMMIT, OBJECTS_MAX, PULL, Weight};
pub use paths::{FILES_MAX, Filter, IGNORE_FILE, PATH_DEPTH_MAX, Selection, select};
