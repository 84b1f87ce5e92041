//! `gitfleet source`: commands about the location of the source.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};

use super::exit::Exit;
use super::records::load_configuration;
use super::{config_file, opened, output};
use engine::identity;
use engine::persist::SOURCE_NAME;
use engine::store::{Expected, records};
use model::records::SourceRecord;

/// `gitfleet source`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum SourceArgs {
    /// Say that a source that moved is the same one: what members hold of it under its old name is its own. The daemon must not
    /// run, and does the rest when it starts.
    Rename(Rename),
}

/// Options of `source rename`.
#[derive(Debug, clap::Args)]
pub(crate) struct Rename {
    /// The old name, as the error says it; absent: the one that the store knows.
    old: Option<String>,
    /// The new name; it must be that of the configuration. Absent: that one.
    new: Option<String>,
    /// The configuration file.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl SourceArgs {
    /// Runs the command.
    ///
    /// # Errors
    /// The configuration or the store cannot be used, or nothing says which name was the old one.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let Self::Rename(args) = self;
        args.run()
    }
}

impl Rename {
    fn run(&self) -> anyhow::Result<Exit> {
        let config = config_file::require(self.config.as_deref())?;
        let configuration = load_configuration(&config)?;
        let name = identity(&configuration);
        if let Some(new) = &self.new {
            let file = config.display();
            ensure!(*new == name, "{file} names the source {name}, not {new}; set source.identity first");
        }
        let store = opened::writable(&configuration.store).context("stop the daemon first, if it runs")?;
        let key = records::source_key(SOURCE_NAME);
        let known = records::load::<SourceRecord>(&*store, &key)?.map(|record| record.value).unwrap_or_default();
        let recorded = Some(&known.identity).filter(|recorded| !recorded.is_empty()).cloned();
        let old = self.old.clone().or(recorded.clone()).context("the store knows no name; give the old one")?;
        ensure!(old != name, "the source is called {name} already");
        let mut record = known;
        // What the store knows of a source of a third name is not of this one.
        if recorded.is_none_or(|recorded| recorded == old) {
            (record.identity, record.url) = (name.clone(), configuration.source.url.clone());
        }
        record.formerly.insert(old.clone());
        // A source that goes back to an earlier name has that one, and not formerly.
        record.formerly.remove(&name);
        // Any version: the lock that this process holds lets nobody else write.
        store.batch(vec![records::put(key, &record, Expected::Any)?])?;
        output::print(&format!("the source {old} is {name} from the next start on\n"))
    }
}
