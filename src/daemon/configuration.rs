//! Follows the file of the configuration while the daemon runs. A changed `members:` is used at once; everything else at the next
//! start, which is said. A file that cannot be used changes nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tokio::sync::mpsc;

use config::Configuration;
use engine::ConfigurationEvent;
use system::supervise::Supervisor;
use system::telemetry::metrics::Part;
use system::watched_file::WatchedFile;

/// Changes that may wait for the event loop; the file is read again only after it took one.
const EVENTS_MAX: usize = 1;

/// The file of a configuration, and what counts instead of its fields.
#[derive(Clone, Debug)]
pub struct ConfigurationFile {
    /// The file.
    pub path: PathBuf,
    /// What the environment says: see `config::OVERRIDES`.
    pub overrides: BTreeMap<String, String>,
}

impl ConfigurationFile {
    /// Reads the file.
    ///
    /// # Errors
    /// Every complaint about it.
    pub fn load(&self) -> Result<Configuration, config::Error> {
        Configuration::load(&self.path, &self.overrides)
    }
}

/// Follows the file of a running configuration until the receiver is dropped. Without a file nothing ever changes.
pub fn follow(
    file: Option<ConfigurationFile>,
    running: &Configuration,
    supervisor: &Supervisor,
) -> mpsc::Receiver<ConfigurationEvent> {
    let (events, receiver) = mpsc::channel(EVENTS_MAX);
    let Some(file) = file else { return receiver };
    let supervisor = supervisor.clone();
    let running = running.clone();
    let life = move || {
        let file = file.clone();
        let running = running.clone();
        let events = events.clone();
        async move { follow_file(&file, &running, &events).await }
    };
    tokio::spawn(async move { supervisor.repeat(Part::Configuration, life).await });
    receiver
}

async fn follow_file(file: &ConfigurationFile, running: &Configuration, events: &mpsc::Sender<ConfigurationEvent>) {
    let mut changes = WatchedFile::of(&file.path);
    let mut told = difference(running, Ok(running.clone()));
    loop {
        changes.next().await;
        // A small file, which was just written: it is read as fast as a thread could be found for it.
        let event = difference(running, file.load());
        if event != told && events.send(event.clone()).await.is_err() {
            return;
        }
        told = event;
    }
}

/// Returns what a file that was read again means for a daemon that runs with a configuration.
fn difference(running: &Configuration, read: Result<Configuration, config::Error>) -> ConfigurationEvent {
    let read = match read {
        Ok(read) => read,
        Err(error) => return ConfigurationEvent::Unusable(complaint(&error)),
    };
    let mut at_restart = running.differing_sections(&read);
    // What a plain folder is read without was settled at the start: a member's new folder in it would be read as source.
    let source = running.source.local();
    let is_inside = |path: &PathBuf| source.as_ref().is_some_and(|source| path.starts_with(source));
    let mut folders = read.excluded_paths();
    folders.retain(|path| is_inside(path) && !running.excluded_paths().contains(path));
    if folders.is_empty() {
        return ConfigurationEvent::Read { members: read.members, at_restart };
    }
    at_restart.push("members");
    ConfigurationEvent::Read { members: running.members.clone(), at_restart }
}

/// Says what is wrong with a file, on one line.
fn complaint(error: &config::Error) -> String {
    match error {
        config::Error::Read { source, .. } => format!("{error}: {source}"),
        _ => error.to_string().lines().collect::<Vec<_>>().join("; "),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parsed(text: &str) -> Result<Configuration, config::Error> {
        let head = "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\n";
        Configuration::parse(&format!("{head}{text}"), Path::new("/etc/gitfleet"), &BTreeMap::new())
            .map_err(|errors| config::Error::Invalid { errors })
    }

    #[test]
    fn what_a_changed_file_means() {
        let source = "source: {url: 'https://git.example/fleet.git'}\n";
        let members = "members: [{name: a, directory: /out/a}]\n";
        let running = parsed(&format!("{source}{members}")).expect("it has no errors");
        let read = |text: &str| difference(&running, parsed(text));
        for (text, names, restart) in [
            (format!("{members}{source}"), &["a"][..], &[][..]),
            (format!("{source}members: [{{name: b, directory: /out/b}}]\n"), &["b"], &[]),
            (format!("{source}{members}http: {{listen: '127.0.0.1:9'}}\n"), &["a"], &["http"]),
            (format!("source: {{url: /fleet}}\n{members}store: {{path: /x}}\n"), &["a"], &["source", "store"]),
        ] {
            let ConfigurationEvent::Read { members, at_restart } = read(&text) else { panic!("{text}") };
            let found: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
            assert_eq!((found.as_slice(), at_restart.as_slice()), (names, restart), "{text}");
        }
        let ConfigurationEvent::Unusable(why) = read("sourc: {}\n") else { panic!("it has errors") };
        assert!(why.contains("did you mean `source`?") && !why.contains('\n'), "{why}");
    }

    #[test]
    fn a_members_new_folder_in_a_source_that_is_a_folder_waits_for_a_start() {
        let text = |folder: &str| {
            format!("source: {{url: /fleet}}\nmembers: [{{name: '*', directory: '{folder}/{{name}}'}}]\n")
        };
        let running = parsed(&text("/fleet/rendered")).expect("it has no errors");
        for (folder, restart) in [("/elsewhere", &[][..]), ("/fleet/other", &["members"])] {
            let event = difference(&running, parsed(&text(folder)));
            let ConfigurationEvent::Read { members, at_restart } = event else { panic!("{event:?}") };
            assert_eq!((members == running.members, at_restart.as_slice()), (!restart.is_empty(), restart));
        }
    }
}
