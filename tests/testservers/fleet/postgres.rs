//! A PostgreSQL of the system's packages: one server, one database, one user.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use nix::unistd::{Uid, User};

use super::{
    process::{Process, Spec},
    servers::READY,
    wait::{free_port, secret},
};

/// Name of the database, and of the user that owns it.
const NAME: &str = "gitfleet";
/// The user that the server runs as where this process is root, which PostgreSQL refuses.
const OS_USER: &str = "postgres";
/// Where Debian puts the programs of each version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// A PostgreSQL server; dropping it ends it.
#[derive(Debug)]
pub struct Postgres {
    /// Address without a password.
    pub url: String,
    /// The user's password.
    pub password: String,
    /// The process, which tests crash and start again.
    pub server: Process,
}

impl Postgres {
    /// Starts a server in `folder` and returns when it answers. It does not wait for the disk: a fleet need not outlive a power cut.
    ///
    /// # Errors
    /// When it is not installed, cannot start or does not answer in time; the error shows its log.
    pub fn start(folder: &Path) -> Result<Self> {
        Self::start_with(folder, "off")
    }

    /// Starts a server that waits for the disk with each commit, as PostgreSQL does by default.
    ///
    /// # Errors
    /// As [`Postgres::start`].
    pub fn start_durable(folder: &Path) -> Result<Self> {
        Self::start_with(folder, "on")
    }

    fn start_with(folder: &Path, fsync: &str) -> Result<Self> {
        let programs = programs()?;
        let (port, password, own) = (free_port()?, secret(), folder.join("postgres"));
        fs::create_dir_all(&own).context("create the folder of PostgreSQL")?;
        let user = os_user()?;
        if let Some((uid, gid)) = user {
            chown(&own, Some(uid), Some(gid)).context("give PostgreSQL its folder")?;
            // Its user must be able to walk to its own folder, and needs to see nothing else.
            fs::set_permissions(folder, fs::Permissions::from_mode(0o711))
                .context("open the way to PostgreSQL's folder")?;
        }
        let (data, words) = (own.join("data"), own.join("password"));
        fs::write(&words, &password).context("write the password of PostgreSQL")?;
        let spec = |name: &str, program: &str| Spec { user, ..Spec::new(name, &programs.join(program), folder) };
        let made = spec("postgres-initdb", "initdb").flag("pgdata", data.display()).flag("username", NAME);
        let made = made.flag("auth", "scram-sha-256").flag("pwfile", words.display()).flag("encoding", "UTF8");
        let made = made.arg("--locale=C").arg("--no-sync").run();
        fs::remove_file(&words).context("remove the password of PostgreSQL")?;
        made?;
        let set = |name: &str, value: String| format!("--{name}={value}");
        let mut server = spec("postgres", "postgres").arg("-D").arg(data.display().to_string());
        for setting in [
            set("listen_addresses", "127.0.0.1".to_owned()),
            set("port", port.to_string()),
            set("unix_socket_directories", String::new()),
            set("fsync", fsync.to_owned()),
        ] {
            server = server.arg(setting);
        }
        let server = server.spawn()?;
        let postgres = Self { url: format!("postgresql://{NAME}@127.0.0.1:{port}/{NAME}"), password, server };
        postgres.create_database(&programs, port)?;
        Ok(postgres)
    }

    /// Creates the database as soon as the server takes connections.
    fn create_database(&self, programs: &Path, port: u16) -> Result<()> {
        self.server.until("PostgreSQL to take connections", READY, || {
            let mut create = std::process::Command::new(programs.join("createdb"));
            create.args(["--host=127.0.0.1", &format!("--port={port}"), &format!("--username={NAME}")]);
            create.args(["--maintenance-db=postgres", NAME]).env("PGPASSWORD", &self.password);
            let output = create.output().context("run createdb")?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            Ok((output.status.success() || said.contains("already exists")).then_some(()))
        })
    }
}

/// Returns the user to run as; `None` where this process is none that PostgreSQL refuses.
fn os_user() -> Result<Option<(u32, u32)>> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    let user = User::from_name(OS_USER).context("look up the user of PostgreSQL")?;
    let user = user.with_context(|| format!("there is no user {OS_USER}: PostgreSQL does not run as root"))?;
    Ok(Some((user.uid.as_raw(), user.gid.as_raw())))
}

/// Returns the folder of the newest installed version's programs.
fn programs() -> Result<PathBuf> {
    let versions = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    let mut found: Vec<PathBuf> =
        versions.map(|entry| entry.path()).filter(|path| path.join("bin/postgres").exists()).collect();
    found.sort_by_key(|path| number(path));
    if let Some(newest) = found.pop() {
        return Ok(newest.join("bin"));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    match std::env::split_paths(&path).find(|folder| folder.join("postgres").exists()) {
        Some(folder) => Ok(folder),
        None => bail!("PostgreSQL is not installed: sudo apt-get install -y postgresql (Debian, Ubuntu)"),
    }
}
