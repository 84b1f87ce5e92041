//! Where the configuration is: named, or found.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What the file is called.
const NAME: &str = "gitfleet.yaml";
/// The variable that names it.
const VARIABLE: &str = "GITFLEET_CONFIG";

/// The options in front of the command: `gitfleet -c FILE approve ...`.
static IN_FRONT: OnceLock<PathBuf> = OnceLock::new();
/// What the command line named, as lines to copy must name it again.
static CALLED_WITH: OnceLock<String> = OnceLock::new();

/// Notes the configuration that was named in front of the command.
pub(crate) fn note_in_front(file: Option<PathBuf>) {
    if let Some(file) = file {
        // The command line is read once.
        drop(IN_FRONT.set(file));
    }
}

/// Notes the configuration that the command line named: lines to copy must name it too, unless it is found anyway.
pub(crate) fn note_called_with(file: &Path) {
    let found = variable(VARIABLE).map(PathBuf::from).or_else(|| first(variable, Path::is_file));
    let is_found = found.is_some_and(|found| found.canonicalize().ok() == file.canonicalize().ok());
    if !is_found {
        drop(CALLED_WITH.set(format!("-c {}", quoted(&file.to_string_lossy()))));
    }
}

/// Returns the configuration's file: the named one, else what `GITFLEET_CONFIG` names, else `./gitfleet.yaml`, else
/// `gitfleet/gitfleet.yaml` in the user's configuration folder; `None` where none of these is there.
pub(crate) fn find(option: Option<&Path>) -> Option<PathBuf> {
    named(option).or_else(|| first(variable, Path::is_file))
}

/// There is no configuration, and the command needs one.
#[derive(Debug, thiserror::Error)]
#[error(
    "there is no configuration: neither --config nor {VARIABLE} names one, and neither ./{NAME} nor \
     $XDG_CONFIG_HOME/gitfleet/{NAME} is there; `gitfleet init` makes one to begin with"
)]
pub(crate) struct NoConfiguration;

/// As [`find`], where there must be one.
///
/// # Errors
/// There is none.
pub(crate) fn require(named: Option<&Path>) -> Result<PathBuf, NoConfiguration> {
    find(named).ok_or(NoConfiguration)
}

/// Returns the named configuration, and searches for none.
pub(crate) fn named(option: Option<&Path>) -> Option<PathBuf> {
    let option = option.or(IN_FRONT.get().map(PathBuf::as_path));
    option.map(Path::to_owned).or_else(|| variable(VARIABLE).map(PathBuf::from))
}

/// Returns a variable of the environment; one that is set to nothing is not set.
pub(super) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn first(variable: impl Fn(&str) -> Option<OsString>, is_there: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let of_user = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let of_user = of_user.or_else(|| variable("HOME").map(|home| Path::new(&home).join(".config")));
    let places = std::iter::once(PathBuf::from(NAME)).chain(of_user.map(|folder| folder.join("gitfleet").join(NAME)));
    places.into_iter().find(|place| is_there(place))
}

/// The commands that lines to copy have.
const COPIED: [&str; 14] = [
    "approve", "reject", "pause", "resume", "rollback", "retry", "get", "status", "describe", "events", "history",
    "diff", "explain", "store",
];

/// Returns a text whose lines to copy name the daemon as this command line did.
pub(crate) fn as_called(text: &str) -> String {
    with_options(text, CALLED_WITH.get().map_or("", String::as_str))
}

fn with_options(text: &str, options: &str) -> String {
    if options.is_empty() {
        return text.to_owned();
    }
    COPIED.iter().fold(text.to_owned(), |text, verb| {
        text.replace(&format!("gitfleet {verb} "), &format!("gitfleet {options} {verb} "))
    })
}

/// Returns a word as a shell reads it.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c));
    if is_plain && !word.is_empty() { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Variables, files that are there, and the one that is found.
    type FoundRow = (&'static [(&'static str, &'static str)], &'static [&'static str], Option<&'static str>);

    #[test]
    fn a_configuration_is_found_here_before_that_of_the_user() {
        const OF_HOME: &str = "/h/.config/gitfleet/gitfleet.yaml";
        let rows: [FoundRow; 5] = [
            (&[("HOME", "/h")], &["gitfleet.yaml", OF_HOME], Some("gitfleet.yaml")),
            (&[("HOME", "/h")], &[OF_HOME], Some(OF_HOME)),
            (
                &[("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")],
                &["/x/gitfleet/gitfleet.yaml", OF_HOME],
                Some("/x/gitfleet/gitfleet.yaml"),
            ),
            (&[("HOME", "/h")], &[], None),
            (&[], &[], None),
        ];
        for (variables, there, expected) in rows {
            let variable =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
            let found = first(variable, |path| there.iter().any(|known| path == Path::new(known)));
            assert_eq!(found.as_deref(), expected.map(Path::new), "{variables:?} {there:?}");
        }
    }

    #[test]
    fn lines_to_copy_name_the_daemon_as_it_was_named() {
        let text = "gitfleet approve web-0 dev; run gitfleet status -w; the gitfleet approval";
        assert_eq!(with_options(text, ""), text);
        let expected = "gitfleet -c a.yaml approve web-0 dev; run gitfleet -c a.yaml status -w; the gitfleet approval";
        assert_eq!(with_options(text, "-c a.yaml"), expected);
        for (word, expected) in [("a/b.yaml", "a/b.yaml"), ("it's", r"'it'\''s'"), ("a b", "'a b'"), ("", "''")] {
            assert_eq!(quoted(word), expected);
        }
    }
}
