//! How the inventory of a member is found in it.

use serde_json::Value;

use crate::object::RawObject;

/// The inventory's namespace and labels on a member.
#[derive(Clone, Copy, Debug)]
pub struct Inventory {
    /// Namespace of the parents.
    pub namespace: &'static str,
    /// Label on the parents.
    pub id_label: &'static str,
    /// Label on the parts.
    pub part_of_label: &'static str,
    /// Annotations on the parts that are ours: what they were applied from, and who placed them.
    pub part_annotations: &'static [&'static str],
}

/// Gives a list's item the type that lists leave out.
pub(super) fn with_type(item: RawObject, api_version: &str, kind: &str) -> Value {
    let mut json = item.json;
    json["apiVersion"] = api_version.into();
    json["kind"] = kind.into();
    json
}
