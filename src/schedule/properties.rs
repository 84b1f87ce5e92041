//! Names of properties, and values that cannot be compared.

use super::Error;
use super::fleet::Fleet;
use model::facts::PARTS;
pub(super) use model::facts::RESOURCE_PREFIX as RESOURCES;

/// Returns why the scheduler cannot read a property of this name, although a placement may contain it.
///
/// Source: KubeFleet's scheduler splits resource names at every dash and expects two parts.
pub(super) fn unreadable(name: &str) -> Option<String> {
    let rest = name.strip_prefix(RESOURCES)?;
    let is_readable = rest.split_once('-').is_some_and(|(part, resource)| {
        PARTS.iter().any(|(_, word)| *word == part) && !resource.is_empty() && !resource.contains('-')
    });
    (!is_readable).then(|| format!("{name:?} is not total-, allocatable- or available- and a resource without a dash"))
}

/// The error of a value that is no quantity.
pub(super) fn bad_value(fleet: &Fleet, slot: usize, property: &str, field: String) -> Error {
    let value = fleet.cluster(slot).properties.get(property).cloned().unwrap_or_default();
    Error::BadValue { cluster: fleet.name(slot).clone(), property: property.to_owned(), value, field }
}
