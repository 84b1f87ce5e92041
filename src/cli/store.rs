//! `store`: the operator's commands about the store itself: backups, and a lost store.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::commands::CommandOptions;
use super::exit::Exit;
use super::records::{RecordsSource, load_configuration, locate};
use super::{Daemon, config_file, output, run};
use crate::clock;
use crate::config;
use crate::http::BACKUP_PATH;
use crate::model::commands::{Command, Verb};
use crate::store::embedded::{DATABASE_FILE, EmbeddedStore};
use crate::store::{self, Store as _, backup};

/// How long the daemon may take to answer with a backup.
const BACKUP_TIMEOUT: Duration = Duration::from_mins(2);

/// What there is to do.
#[derive(Debug, clap::Subcommand)]
pub enum StoreCommand {
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
}

/// Runs the command.
pub fn run(command: &StoreCommand) -> anyhow::Result<Exit> {
    match command {
        StoreCommand::Adopt { options } => options.send(Command::new(Verb::Adopt, "")),
        StoreCommand::Backup { file, daemon } => write_backup(file, daemon),
        StoreCommand::Restore { file, config, force } => {
            restore(file, &config_file::require(config.as_deref())?, *force)
        }
    }
}

fn write_backup(file: &Path, daemon: &Daemon) -> anyhow::Result<Exit> {
    let text = match locate(daemon)? {
        RecordsSource::Store(path) => backup::write(&EmbeddedStore::open_read_only(&path)?)?,
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
    let path = settings.path.clone();
    let store = match run::open_store(&settings) {
        Ok(store) if store.list("")?.is_empty() && store.journal(0, 1)?.is_empty() => store,
        Ok(store) if force => {
            // Closed first: it must not write to the file that is moved.
            drop(store);
            move_aside(&settings)?
        }
        Err(store::Error::Corrupt { .. }) if force => move_aside(&settings)?,
        Ok(_) => bail!(
            "the store {} is not empty: nothing was restored. With --force its database is moved aside first",
            path.display()
        ),
        Err(error) => return Err(error.into()),
    };
    let count = ops.len();
    // All at once: a crash leaves the store empty, and never half restored.
    store.batch(ops)?;
    output::print(&format!(
        "restored {count} records and journal entries into {}; the next `gitfleet run` takes over what members hold beyond them\n",
        path.display()
    ))
}

/// Moves a database aside, and opens a new one in its place.
fn move_aside(settings: &config::Store) -> anyhow::Result<EmbeddedStore> {
    let path = &settings.path;
    let stamp = clock::now().strftime("%Y%m%dT%H%M%S%.fZ");
    let aside = path.join(format!("{DATABASE_FILE}.before-restore-{stamp}"));
    fs::rename(path.join(DATABASE_FILE), &aside)
        .with_context(|| format!("moving the database to {}", aside.display()))?;
    eprintln!("the database that was there is {} now", aside.display());
    Ok(run::open_store(settings)?)
}
