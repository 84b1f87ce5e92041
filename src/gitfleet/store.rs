//! `store`: the operator's commands about the store itself: backups, and a lost store.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use sha2::{Digest as _, Sha256};

use super::commands::CommandOptions;
use super::exit::Exit;
use super::records::{RecordsSource, load_configuration, locate};
use super::{Daemon, config_file, opened, output};
use ::store::EmbeddedStore;
use engine::store;
use engine::store::DATABASE_FILE;
use engine::store::{Expected, Op, Store, backup};
use model::commands::{Command, Verb};
use model::records::JournalEntry;
use server::BACKUP_PATH;
use system::clock;

/// How long the daemon may take to answer with a backup.
const BACKUP_TIMEOUT: Duration = Duration::from_mins(2);

/// What there is to do.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum StoreCommand {
    /// Continue from what members hold, where the store is new because an earlier one was lost.
    Adopt {
        #[command(flatten)]
        options: CommandOptions,
    },
    /// Write everything the store holds into one file, also while a daemon runs. It holds the key that hidden values are marked
    /// with: keep it as you keep the store.
    Backup {
        /// The file; it must not be there yet.
        file: PathBuf,
        #[command(flatten)]
        daemon: Daemon,
    },
    /// Fill an empty store from a backup, while no daemon runs. What members hold goes before what the backup says.
    Restore {
        /// The backup.
        file: PathBuf,
        /// The daemon's configuration file: says where the store is.
        #[arg(short, long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Also where the store is not empty, or damaged: its database is moved aside.
        #[arg(long)]
        force: bool,
    },
    /// Move everything to another store, such as one in PostgreSQL, or back, while no daemon runs. The earlier store is empty then, so
    /// that nobody continues with it.
    Migrate {
        /// The configuration file with the earlier store.
        #[arg(long, value_name = "FILE")]
        from: PathBuf,
        /// The configuration file with the new one, which must be empty.
        #[arg(short, long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

/// Runs the command.
pub(crate) fn run(command: &StoreCommand) -> anyhow::Result<Exit> {
    match command {
        StoreCommand::Adopt { options } => options.send(Command::new(Verb::Adopt, "")),
        StoreCommand::Backup { file, daemon } => write_backup(file, daemon),
        StoreCommand::Restore { file, config, force } => {
            restore(file, &config_file::require(config.as_deref())?, *force)
        }
        StoreCommand::Migrate { from, config } => migrate(from, &config_file::require(config.as_deref())?),
    }
}

fn write_backup(file: &Path, daemon: &Daemon) -> anyhow::Result<Exit> {
    let text = match locate(daemon)? {
        RecordsSource::Store(settings) => backup::write(&*opened::read_only(&settings)?)?,
        RecordsSource::Daemon(server) => {
            let answer = server.ask(BACKUP_PATH, BACKUP_TIMEOUT)?;
            answer["backup"].as_str().context("the daemon's answer is no backup")?.to_owned()
        }
    };
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    // For its owner alone: the key that hidden values are marked with is in it.
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(file).and_then(|mut out| out.write_all(text.as_bytes()).and_then(|()| out.sync_all()));
    written.with_context(|| format!("writing the backup {}", file.display()))?;
    output::print(&format!("wrote {} bytes to {}\n", text.len(), file.display()))
}

fn restore(file: &Path, config: &Path, force: bool) -> anyhow::Result<Exit> {
    let text = fs::read_to_string(file).with_context(|| format!("reading the backup {}", file.display()))?;
    // Read whole before the store is touched: a damaged backup moves nothing aside.
    let ops = backup::restore(&text, "gitfleet store restore", clock::now())
        .map_err(|why| anyhow::anyhow!("{} cannot be restored: {why}", file.display()))?;
    let settings = load_configuration(config)?.store;
    let place = settings.path.display().to_string();
    let store: Box<dyn Store> = match opened::writable(&settings) {
        Ok(store) if is_empty(&*store)? => store,
        Ok(store) if force && settings.postgres.is_some() => {
            // There is no file to move aside: what is there goes in the batch that restores.
            let mut all = emptied(&*store)?;
            all.extend(ops);
            return restored(&*store, all, &format!("the database, schema {}", schema(&settings)));
        }
        Ok(store) if force => {
            // Closed first: it must not write to the file that is moved.
            drop(store);
            Box::new(move_aside(&settings)?)
        }
        Err(error) if force && is_damaged(&error) => Box::new(move_aside(&settings)?),
        Ok(_) => bail!(
            "the store {place} is not empty: nothing was restored. With --force its database is moved aside first"
        ),
        Err(error) => return Err(error),
    };
    restored(&*store, ops, &place)
}

/// Tells whether a store holds nothing.
fn is_empty(store: &dyn Store) -> store::Result<bool> {
    Ok(store.list("")?.is_empty() && store.journal(0, 1)?.is_empty())
}

fn is_damaged(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(store::Error::Corrupt { .. }))
}

fn schema(settings: &config::Store) -> &str {
    settings.postgres.as_ref().map_or("", |postgres| postgres.schema.as_str())
}

/// Returns the steps that remove every record.
fn emptied(store: &dyn Store) -> store::Result<Vec<Op>> {
    let mut ops = Vec::new();
    store.scan("", &mut |key, _, version| {
        ops.push(Op::Delete { key: key.to_owned(), expected: Expected::Version(version) });
        true
    })?;
    Ok(ops)
}

/// Writes a backup into a store, all at once: a crash leaves the store as it was, and never half restored.
fn restored(store: &dyn Store, ops: Vec<Op>, place: &str) -> anyhow::Result<Exit> {
    let count = ops.len();
    store.batch(ops)?;
    output::print(&format!(
        "restored {count} records and journal entries into {place}; the next `gitfleet run` takes over what members hold beyond them\n"
    ))
}

/// Moves records and journal from one store to another.
fn migrate(from: &Path, to: &Path) -> anyhow::Result<Exit> {
    let old = opened::writable(&load_configuration(from)?.store);
    let old = old.with_context(|| format!("opening the store of {}", from.display()))?;
    let new = opened::writable(&load_configuration(to)?.store);
    let new = new.with_context(|| format!("opening the store of {}", to.display()))?;
    if old.list("")?.is_empty() {
        bail!("the store of {} is empty: there is nothing to move", from.display());
    }
    if !new.list("")?.is_empty() {
        bail!("the store of {} is not empty: nothing was moved", to.display());
    }
    let mut ops = Vec::new();
    let mut records = 0;
    old.scan("", &mut |key, value, _| {
        ops.push(Op::Put { key: key.to_owned(), value: value.to_vec(), expected: Expected::Absent });
        records += 1;
        true
    })?;
    let entries = journal_beyond(&*old, &*new).with_context(|| format!("the store of {}", to.display()))?;
    let count = entries.len();
    ops.extend(entries.into_iter().map(Op::Journal));
    // All at once: a crash leaves the new store empty, and the old one as it was.
    new.batch(ops)?;
    compare(&*old, &*new)?;
    old.batch(emptied(&*old)?)?;
    output::print(&format!(
        "moved {records} records and {count} journal entries to the store of {}; the store of {} holds no record any more\n",
        to.display(),
        from.display()
    ))
}

/// Returns the entries of a journal that another does not have yet. The other has some where its records were moved away earlier: journals
/// only grow, so it keeps what it had.
fn journal_beyond(old: &dyn Store, new: &dyn Store) -> anyhow::Result<Vec<JournalEntry>> {
    let mut entries = journal(old)?;
    let known = journal(new)?;
    anyhow::ensure!(entries.starts_with(&known), "its journal is another's: nothing was moved");
    Ok(entries.split_off(known.len()))
}

fn journal(store: &dyn Store) -> store::Result<Vec<JournalEntry>> {
    Ok(store.journal(0, usize::MAX)?.into_iter().map(|(_, entry)| entry).collect())
}

/// Fails where two stores do not hold the same records.
fn compare(old: &dyn Store, new: &dyn Store) -> anyhow::Result<()> {
    let mut written = BTreeMap::new();
    new.scan("", &mut |key, value, _| written.insert(key.to_owned(), Sha256::digest(value)).is_none())?;
    let mut differing = None;
    old.scan("", &mut |key, value, _| {
        let is_same = written.remove(key).is_some_and(|digest| digest == Sha256::digest(value));
        differing = (!is_same).then(|| key.to_owned());
        is_same
    })?;
    if let Some(key) = differing.or_else(|| written.into_keys().next()) {
        bail!("the new store does not hold what the old one does, at {key:?}; the old one was left as it is");
    }
    Ok(())
}

/// Moves a database aside, and opens a new one in its place.
fn move_aside(settings: &config::Store) -> anyhow::Result<EmbeddedStore> {
    let path = &settings.path;
    let stamp = clock::now().strftime("%Y%m%dT%H%M%S%.fZ");
    let aside = path.join(format!("{DATABASE_FILE}.before-restore-{stamp}"));
    fs::rename(path.join(DATABASE_FILE), &aside)
        .with_context(|| format!("moving the database to {}", aside.display()))?;
    eprintln!("the database that was there is {} now", aside.display());
    Ok(super::run::open_store(settings)?)
}
