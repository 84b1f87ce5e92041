//! The records for `get`, `describe`, `status` and `export`, and the path of commands: through the daemon's API or, if no
//! daemon runs, the store itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use secrecy::SecretString;
use serde_json::Value;

use super::kinds::Listing;
use super::server::{ANSWER_TIMEOUT, Server};
use super::wanted::{ShownPart, placements_of, prefixes};
use super::{Daemon, config_file, opened, person};
use config::{Configuration, read_secret};
use daemon::published::fleet_of;
use engine::store::JOURNAL_ENTRIES_MAX;
use engine::store::records::PLACEMENT_PREFIX;
use engine::store::saved::Records;
use model::id::{CommitId, PlacementKey};
use model::records::JournalEntry;
use server::{
    BINDINGS_PATH, CHANGES_PATH, CLUSTERS_PATH, JOURNAL_PATH, JournalPage, PLACEMENTS_PATH, SUMMARY_PATH, WORKS_PATH,
};
use system::clock;
use views::fleet::FleetView;
use views::lists;
use views::lists::{ListFilter, ListPart, Order, PAGE_ITEMS_MAX};
use views::summary::Summary;
use views::tree::PlacementRow;

/// How long the daemon may keep a question for changes.
const CHANGES_TIMEOUT: Duration = Duration::from_mins(1);

/// Where records come from.
pub(crate) enum RecordsSource {
    /// A running daemon.
    Daemon(Server),
    /// The store of a configuration, which no process holds.
    Store(Box<config::Store>),
}

/// Finds where the records are: `--server`, else the daemon of the configuration, else its store.
///
/// # Errors
/// The configuration or the token's file cannot be read.
pub(crate) fn locate(daemon: &Daemon) -> anyhow::Result<RecordsSource> {
    let file = daemon.config_file();
    let configuration = file.as_deref().map(load_configuration).transpose()?;
    // One that was found, and whose store is elsewhere, is that of a daemon on another machine.
    let is_named = config_file::named(daemon.config.as_deref()).is_some();
    let configuration =
        configuration.filter(|found| is_named || found.store.postgres.is_some() || found.store.path.exists());
    let address = match (&daemon.server, &configuration) {
        (Some(server), _) => server.clone(),
        (None, None) => config::HTTP_LISTEN_DEFAULT.to_owned(),
        // A follower that is named and answers passes on what it is asked, and waits for the next leader where that has died.
        (None, Some(configuration)) if is_named && opened::follows(configuration) => {
            configuration.http.listen.to_string()
        }
        (None, Some(configuration)) => match opened::daemon_of(configuration)? {
            Some(address) => address,
            None => return Ok(RecordsSource::Store(Box::new(configuration.store.clone()))),
        },
    };
    let token = daemon.token(configuration.as_ref().map(|configuration| configuration.store.path.as_path()))?;
    Ok(RecordsSource::Daemon(Server::new(&address, token)))
}

impl RecordsSource {
    /// Returns the running daemon of a configuration.
    ///
    /// # Errors
    /// A token's file cannot be read.
    pub(crate) fn of_daemon(configuration: &Configuration) -> anyhow::Result<Self> {
        let daemon = Daemon { config: None, server: None, token_file: None };
        let token = daemon.token(Some(configuration.store.path.as_path()))?;
        let address = opened::daemon_of(configuration)?.unwrap_or_else(|| configuration.http.listen.to_string());
        Ok(Self::Daemon(Server::new(&address, token)))
    }
}

impl Daemon {
    /// Returns the token that a daemon knows this person by: the one that is named, else what the daemon of this store left.
    fn token(&self, store: Option<&Path>) -> anyhow::Result<Option<SecretString>> {
        if let Some(path) = &self.token_file {
            return Ok(Some(read_secret(path)?));
        }
        if let Some(named) = std::env::var("GITFLEET_TOKEN").ok().filter(|token| !token.is_empty()) {
            return Ok(Some(named.into()));
        }
        // It is for the daemon's own user: others have none, and may read where no token is needed.
        Ok(store.and_then(|store| read_secret(&person::token_path(store)).ok()))
    }
}

/// Reads a configuration, with the environment's overrides.
///
/// # Errors
/// Every complaint about it.
pub(crate) fn load_configuration(path: &Path) -> anyhow::Result<Configuration> {
    Ok(Configuration::load(path, &overrides())?)
}

/// Returns what the environment says instead of the configuration file.
pub(crate) fn overrides() -> BTreeMap<String, String> {
    std::env::vars().filter(|(name, _)| name.starts_with("GITFLEET_")).collect()
}

impl RecordsSource {
    /// Reads all records.
    ///
    /// # Errors
    /// The daemon does not answer, or the store cannot be read.
    pub(crate) fn read(&self) -> anyhow::Result<Records> {
        match self {
            // Every key begins with nothing.
            Self::Daemon(_) => self.read_under(&[String::new()]),
            Self::Store(settings) => Ok(Records::read(&*opened::read_only(settings)?)?),
        }
    }

    /// Reads the records under some prefixes, all from one moment.
    ///
    /// # Errors
    /// As [`RecordsSource::read`].
    pub(crate) fn read_under(&self, prefixes: &[String]) -> anyhow::Result<Records> {
        if prefixes.is_empty() {
            return Ok(Records::default());
        }
        let server = match self {
            Self::Daemon(server) => server,
            Self::Store(settings) => {
                let prefixes: Vec<&str> = prefixes.iter().map(String::as_str).collect();
                return Ok(Records::under(&*opened::read_only(settings)?, &prefixes)?);
            }
        };
        let mut records = Records::default();
        server.records(prefixes, |key, record| {
            records.take(key, record).with_context(|| format!("the record {key} cannot be read"))
        })?;
        Ok(records)
    }

    /// Returns what `status` shows; `subject` says what a commit is about, where no daemon does.
    ///
    /// # Errors
    /// As [`RecordsSource::read`].
    pub(crate) fn summary(&self, subject: impl Fn(&CommitId) -> Option<String>) -> anyhow::Result<Summary> {
        match self {
            Self::Daemon(server) => {
                let answer = server.ask(SUMMARY_PATH, ANSWER_TIMEOUT)?;
                let summary: Summary = serde_json::from_value(answer).context("the daemon's answer is no summary")?;
                Ok(Summary { clock_ahead: server.clock_ahead(), ..summary })
            }
            Self::Store(_) => {
                let fleet = fleet_of(self.read()?);
                let subject = fleet.source.accepted.as_ref().and_then(subject);
                Ok(Summary::with_subject(&fleet, subject.as_deref(), clock::now()))
            }
        }
    }

    /// Returns what `status` shows of one placement; `None` where there is no such placement.
    ///
    /// # Errors
    /// As [`RecordsSource::read`].
    pub(crate) fn row(&self, placement: &PlacementKey) -> anyhow::Result<Option<PlacementRow>> {
        match self {
            Self::Daemon(server) => {
                let path = format!("{PLACEMENTS_PATH}/{placement}");
                let Some(mut answer) = server.ask_for(&path, ANSWER_TIMEOUT)? else { return Ok(None) };
                Ok(Some(
                    serde_json::from_value(answer["rollout"].take()).context("the daemon's answer is no placement")?,
                ))
            }
            Self::Store(_) => {
                let fleet = fleet_of(self.read()?);
                let now = clock::now();
                Ok(fleet.placements.get(placement).map(|placed| placed.shown(&fleet, now).row.clone()))
            }
        }
    }

    /// Returns what a table shows of a listing, of all objects or of those with a name; `None` where records are to be read.
    ///
    /// # Errors
    /// As [`RecordsSource::read`].
    pub(crate) fn lines(&self, listing: Listing, name: Option<&str>) -> anyhow::Result<Option<Vec<Value>>> {
        let path = match listing {
            Listing::Placements => PLACEMENTS_PATH,
            Listing::Clusters => CLUSTERS_PATH,
            Listing::Bindings => BINDINGS_PATH,
            Listing::Works => WORKS_PATH,
            _ => return Ok(None),
        };
        match self {
            Self::Daemon(server) => server.pages(path, name).map(Some),
            Self::Store(_) => lines_of(&fleet_of(self.read()?), listing, name).map(Some),
        }
    }

    /// Reads the records that a listing shows, of all objects or of those with a name.
    ///
    /// # Errors
    /// As [`RecordsSource::read`].
    pub(crate) fn read_for(&self, listing: Listing, detail: ShownPart, name: Option<&str>) -> anyhow::Result<Records> {
        let mut only = None;
        // Which placements a name may mean, only their records tell: the rest is read then, from one moment.
        if let Some(name) = name.filter(|name| placements_of(listing, name, std::iter::empty()).is_some()) {
            let known = self.read_under(&[PLACEMENT_PREFIX.to_owned()])?;
            only = placements_of(listing, name, known.placements.iter().map(|record| &record.key));
        }
        let mut records = self.read_under(&prefixes(listing, detail, only.as_deref()))?;
        // The key of one placement is the beginning of another's.
        if let Some(only) = only {
            records.placements.retain(|record| only.contains(&record.key));
        }
        Ok(records)
    }

    /// Reads what happened, to a placement or at all, oldest first.
    ///
    /// # Errors
    /// The daemon does not answer, or the store cannot be read.
    pub(crate) fn journal(&self, placement: Option<&PlacementKey>) -> anyhow::Result<Vec<JournalEntry>> {
        Ok(self.journal_after(placement, 0)?.into_iter().map(|(_, entry)| entry).collect())
    }

    /// Reads what happened after an entry of the journal, to a placement or at all, each with its number.
    ///
    /// # Errors
    /// As [`RecordsSource::journal`].
    pub(crate) fn journal_after(
        &self,
        placement: Option<&PlacementKey>,
        after: u64,
    ) -> anyhow::Result<Vec<(u64, JournalEntry)>> {
        match self {
            Self::Daemon(server) => journal_of(after, |after| {
                let mut parameters = form_urlencoded::Serializer::new(String::new());
                parameters.append_pair("after", &after.to_string());
                if let Some(placement) = placement {
                    parameters.append_pair("placement", &placement.to_string());
                }
                let answer = server.ask(&format!("{JOURNAL_PATH}?{}", parameters.finish()), ANSWER_TIMEOUT)?;
                serde_json::from_value(answer).context("the daemon's answer is no journal")
            }),
            Self::Store(settings) => {
                let mut entries = opened::read_only(settings)?.journal(after, JOURNAL_ENTRIES_MAX)?;
                entries.retain(|(_, entry)| placement.is_none_or(|wanted| entry.concerns(&wanted.to_string())));
                Ok(entries)
            }
        }
    }

    /// Waits until records may have changed since `version`; returns the version to ask with next.
    ///
    /// # Errors
    /// The daemon does not answer.
    pub(crate) fn wait(&self, version: u64) -> anyhow::Result<u64> {
        match self {
            Self::Daemon(server) => {
                let answer = server.ask(&format!("{CHANGES_PATH}?after={version}"), CHANGES_TIMEOUT)?;
                answer["version"].as_u64().context("the daemon's answer has no version")
            }
            Self::Store(_) => bail!("no daemon runs, so nothing changes; start one with `gitfleet run`"),
        }
    }
}

/// Returns the lines of a fleet, as the daemon's pages have them.
fn lines_of(fleet: &FleetView, listing: Listing, name: Option<&str>) -> anyhow::Result<Vec<Value>> {
    let now = clock::now();
    let filter = ListFilter { name: name.map(str::to_owned), ..ListFilter::default() };
    let mut lines = Vec::new();
    let mut part = ListPart { limit: Some(PAGE_ITEMS_MAX), after: None };
    loop {
        let page = match listing {
            Listing::Placements => lists::placements(fleet, &filter, Order::Name, &part, now),
            Listing::Clusters => lists::clusters(fleet, &filter, &part, now),
            Listing::Bindings => lists::bindings(fleet, &filter, &part),
            _ => lists::works(fleet, &filter, &part, now),
        };
        for item in page.items {
            let mut line: Value = serde_json::from_str(item.get())?;
            lists::see_now(&mut line, now);
            lines.push(line);
        }
        part.after = page.next;
        if part.after.is_none() {
            return Ok(lines);
        }
    }
}

/// Reads a journal to its end, page by page.
fn journal_of(
    after: u64,
    mut page: impl FnMut(u64) -> anyhow::Result<JournalPage>,
) -> anyhow::Result<Vec<(u64, JournalEntry)>> {
    let mut entries = Vec::new();
    let mut after = Some(after);
    while let Some(number) = after {
        let found = page(number)?;
        entries.extend(found.entries);
        after = found.next;
    }
    Ok(entries)
}
