//! Values of the configuration file that more than one section has: durations, addresses, paths.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// The format of duration texts in the schema; `check` knows it.
pub(super) const DURATION_FORMAT: &str = "gitfleet-duration";
/// The format of listen addresses in the schema; `check` knows it.
pub(super) const SOCKET_ADDRESS_FORMAT: &str = "gitfleet-socket-address";

/// How a duration is written in the file.
pub(super) mod duration {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        super::parse_duration(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }

    /// The schema says defaults so.
    pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        let duration = jiff::SignedDuration::try_from(*duration).map_err(serde::ser::Error::custom)?;
        serializer.collect_str(&format_args!("{duration:#}"))
    }
}

/// Reads `30s`, `1h30m`, `72h` and the like; longer than nothing.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let parsed = jiff::fmt::friendly::SpanParser::new().parse_duration(text).ok();
    let duration = parsed.and_then(|parsed| Duration::try_from(parsed).ok()).filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| format!("{text:?} is no duration; write one like \"30s\", \"10m\" or \"72h\""))
}

/// Resolves `.` and `..` by the text alone, so that equal folders are equal texts.
pub(super) fn clean(path: &Path) -> PathBuf {
    // The disk is not asked: folders of members may not be there yet, and are compared all the same.
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if out.file_name().is_some_and(|name| name != "..") => drop(out.pop()),
            Component::ParentDir if out.has_root() => {}
            other => out.push(other),
        }
    }
    out
}
