//! Which names objects may have.

use super::answer::{Status, invalid};
use super::kinds::Kind;

/// Longest name of an object, and of a namespace.
const NAME_LENGTH_MAX: usize = 253;
const LABEL_LENGTH_MAX: usize = 63;
/// The group whose names may be any segment of a path.
const ANY_NAME_GROUP: &str = "rbac.authorization.k8s.io";

/// Checks the name of a new object.
pub(super) fn check_name(kind: &Kind, name: &str) -> Result<(), Status> {
    if kind.group == ANY_NAME_GROUP {
        let is_segment = ![".", ".."].contains(&name) && !name.contains(['/', '%']);
        return if is_segment { Ok(()) } else { Err(refused(kind, name, "may not be '.' or '..' or hold '/' or '%'")) };
    }
    let is_label = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        !part.is_empty()
            && part.bytes().all(|byte| plain(byte) || byte == b'-')
            && part.bytes().next().is_some_and(plain)
            && part.bytes().last().is_some_and(plain)
    };
    let is_good = if kind.is_core("Namespace") {
        is_label(name) && name.len() <= LABEL_LENGTH_MAX
    } else {
        name.split('.').all(is_label) && name.len() <= NAME_LENGTH_MAX
    };
    if is_good {
        return Ok(());
    }
    Err(refused(
        kind,
        name,
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and \
         end with an alphanumeric character",
    ))
}

fn refused(kind: &Kind, name: &str, why: &str) -> Status {
    invalid(kind, name, "metadata.name", &format!("Invalid value: {name:?}: {why}"))
}
