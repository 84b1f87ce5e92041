//! The source step: files become a checked tree, or every error in them.
//!
//! Three pure functions. [`select`] decides from names alone which files are read. [`parse_blob`] parses one file; its result
//! depends only on the content, so it can be cached by blob id and reused for another path. [`assemble`] joins the files of a
//! commit and runs the checks that need the whole commit.

mod assemble;
mod blob;
mod blob_error;
mod budget;
mod code_owners;
mod encryption;
mod joined;
mod paths;
mod rendering;
mod truth;
mod variants;

pub use assemble::{BYTES_MAX, assemble, skipped};
pub use blob::{BLOB_BYTES_MAX, ParsedBlob, ParsedDocument, parse_blob, parse_blob_within};
pub use blob_error::BlobError;
pub use budget::{Budget, COMMIT, OBJECTS_MAX, PULL, Weight};
pub use code_owners::{CODE_OWNERS_BYTES_MAX, CODE_OWNERS_RULES_MAX, CodeOwners, OWNERS_OF_LINE_MAX, OwnersSyntax};
pub use encryption::{ENCRYPTED_BYTES_MAX, ENCRYPTED_OBJECTS_MAX};
pub use joined::rooted;
pub use paths::{FILES_MAX, Filter, IGNORE_FILE, PATH_DEPTH_MAX, Selection, select, select_rendering};
pub use rendering::{
    FILLED_BYTES_MAX, Files, Folders, KnownMarkers, RenderedFolder, VALUES_BYTES_MAX, ValuesTemplate,
    encrypted_value_in_chart, folders, hide_secrets, refused_input, with_encrypted_files, without_hooks,
};
pub use variants::{VariantFiles, WantedVariants, add_variants, asked_for, wanted_variants};
