//! File names in a member's folder: one file per object, and never one file for two objects.
//!
//! `<kind>.<group>.<namespace>.<name>.yaml` with the kind in lower case. Whatever text an identity holds, the name is one
//! segment of a path, below the limit of file systems, and tells identities apart:
//!
//! - Letters that are not lower case, and all that is no letter, digit, `-` or `_`, are `%` and two hexadecimal digits. So are
//!   capital letters, because some file systems fold case. No name that Kubernetes takes holds a `%`.
//! - The dots between the four parts are found again: a kind and a namespace have none, a group has none at its ends and no two
//!   together. That leaves the border between group and namespace in doubt where there are both; there dots of the object's
//!   name are escaped, so that namespace and name are what stands after the last two dots.
//! - A name that would be longer than file systems take ends with `~` and the SHA-256 of all of it.
//!
//! Kinds of one group that differ in capital letters only share a name: there is no telling from one of them which is the
//! usual spelling. Whoever writes such a file is refused, see [`super::Directory`].

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::WatchedKind;
use model::id::ObjectKey;

/// Bytes of a file name that Linux and macOS take.
const FILE_NAME_BYTES_MAX: usize = 255;
/// Bytes of a SHA-256 as hexadecimal.
const DIGEST_BYTES: usize = 64;
/// How names of manifests end.
const EXTENSION: &str = ".yaml";
/// Bytes that are kept of a name that is too long: with the mark, the digest and the extension it is as long as may be.
const KEPT_BYTES: usize = FILE_NAME_BYTES_MAX - EXTENSION.len() - 1 - DIGEST_BYTES;
/// How the name of an inventory's file starts. Agents that follow a folder pass over names with a dot in front.
const INVENTORY_PREFIX: &str = ".inventory.";
/// How the name of a file starts that is being written.
const TEMPORARY_PREFIX: &str = ".gitfleet-";
/// How it ends.
const TEMPORARY_EXTENSION: &str = ".tmp";

/// The name of a file in a member's folder: one segment of a path, so that nothing but a file of the folder can be meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName(String);

impl FileName {
    /// Returns the name of an object's file.
    pub fn of(key: &ObjectKey) -> Self {
        let has_border_in_doubt = !key.group.is_empty() && !key.namespace.is_empty();
        let kind = kind_part(&key.kind);
        let group = group_part(&key.group);
        let namespace = escaped(&key.namespace, false);
        let name = escaped(&key.name, !has_border_in_doubt);
        Self(bounded(&format!("{kind}.{group}.{namespace}.{name}")))
    }

    /// Returns the name of the file of an inventory, by the name of its parent.
    pub fn of_inventory(parent: &str) -> Self {
        Self(bounded(&format!("{INVENTORY_PREFIX}{}", escaped(parent, true))))
    }

    /// Returns the name under which a file is written before it takes its place.
    #[must_use]
    pub fn temporary(&self) -> Self {
        Self(format!("{TEMPORARY_PREFIX}{:x}{TEMPORARY_EXTENSION}", Sha256::digest(&self.0)))
    }

    /// Takes a name that a folder lists; `None` where it is the folder itself or the one above.
    pub fn listed(name: &str) -> Option<Self> {
        (!name.contains('/') && !matches!(name, "" | "." | "..")).then(|| Self(name.to_owned()))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Tells whether it may be the file of an object of this kind.
    pub fn is_of_kind(&self, kind: &WatchedKind) -> bool {
        self.0.ends_with(EXTENSION) && self.0.starts_with(&kind_prefix(kind))
    }

    /// Tells whether it is the file of an inventory.
    pub fn is_inventory(&self) -> bool {
        self.0.starts_with(INVENTORY_PREFIX) && self.0.ends_with(EXTENSION)
    }

    /// Tells whether it is a file that was not finished.
    pub fn is_temporary(&self) -> bool {
        self.0.starts_with(TEMPORARY_PREFIX) && self.0.ends_with(TEMPORARY_EXTENSION)
    }
}

/// Returns how names of files of a kind start.
pub fn kind_prefix(kind: &WatchedKind) -> String {
    let mut prefix = format!("{}.{}.", kind_part(&kind.kind), group_part(&kind.group));
    // No more is kept of a name that is too long.
    prefix.truncate(KEPT_BYTES);
    prefix
}

/// Returns what the first version called an object's file: files of that name get their new one. It is the uid of an object in a
/// folder, too, which stays, because what was seen before is compared with it.
pub fn first_name(key: &ObjectKey) -> String {
    let name = key.name.replace(':', "_");
    format!("{}.{}.{}.{name}{EXTENSION}", key.kind.to_lowercase(), key.group, key.namespace)
}

fn kind_part(kind: &str) -> String {
    // A name never starts with a dot, which inventories do. A `%` by itself is nothing that escaping makes.
    if kind.is_empty() { "%".to_owned() } else { escaped(&kind.to_ascii_lowercase(), false) }
}

fn group_part(group: &str) -> String {
    escaped(group, group.split('.').all(|label| !label.is_empty()))
}

fn escaped(text: &str, with_dots: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => out.push(char::from(byte)),
            b'.' if with_dots => out.push('.'),
            _ => write!(out, "%{byte:02X}").expect("writing to a string cannot fail"),
        }
    }
    out
}

/// Adds the extension; a name that is too long is cut and told apart by its digest. `stem` is ASCII.
fn bounded(stem: &str) -> String {
    if stem.len() + EXTENSION.len() <= FILE_NAME_BYTES_MAX {
        return format!("{stem}{EXTENSION}");
    }
    format!("{}~{:x}{EXTENSION}", &stem[..KEPT_BYTES], Sha256::digest(stem))
}

#[cfg(test)]
mod tests;
