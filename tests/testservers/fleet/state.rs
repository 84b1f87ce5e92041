//! A fleet that outlives the command that started it: what it records, and how it is found and ended again.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{
    Fleet,
    console::{self, Console},
    gitea::Gitea,
    member::Member,
    process::{self, Entry},
    replicas::{self, Replicas},
    wait::until,
    workloads::{Access, Workloads},
};

/// File of the fleet's folder that says what runs; a folder without it is no fleet and is never removed.
const FILE: &str = "fleet.json";

/// How long ended processes may take to be gone.
const END: Duration = Duration::from_secs(15);

/// A detached fleet.
#[derive(Debug)]
pub struct State {
    folder: PathBuf,
    content: Value,
}

impl State {
    pub(super) fn write(fleet: &Fleet) -> Result<Self> {
        let folder = fleet.folder().to_owned();
        let kubeconfig = fleet.kubeconfig()?;
        let gitea = fleet.gitea.as_ref().map(
            |gitea| json!({ "url": gitea.url, "user": gitea.user, "password": gitea.password, "token": gitea.token }),
        );
        let member =
            |member: &Member| json!({ "name": member.name, "url": member.url, "kubeconfig": member.kubeconfig });
        let members: Vec<Value> = fleet.members.iter().map(member).collect();
        let content = json!({ "members": members, "kubeconfig": kubeconfig, "gitea": gitea });
        fs::write(folder.join(FILE), format!("{content:#}\n")).context("write the state of the fleet")?;
        Ok(Self { folder, content })
    }

    /// Keeps what was prepared beside the servers.
    ///
    /// # Errors
    /// When the state cannot be written.
    pub fn with_console(mut self, console: &Console) -> Result<Self> {
        self.content["console"] = console.state();
        fs::write(self.folder.join(FILE), format!("{:#}\n", self.content)).context("write the state of the fleet")?;
        Ok(self)
    }

    /// Keeps which daemons run, and lets them run on.
    ///
    /// # Errors
    /// When the state cannot be written; then they end.
    pub fn with_replicas(mut self, replicas: &Replicas) -> Result<Self> {
        self.content["replicas"] = replicas.state(&self.folder);
        fs::write(self.folder.join(FILE), format!("{:#}\n", self.content)).context("write the state of the fleet")?;
        replicas.release();
        Ok(self)
    }

    /// Reads the state of the fleet in `folder`; nothing when there is no fleet.
    ///
    /// # Errors
    /// When the file is not readable or not ours.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let file = folder.join(FILE);
        if !file.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let content = serde_json::from_str(&text).with_context(|| format!("parse {}", file.display()))?;
        let folder = folder.canonicalize().with_context(|| format!("the full path of {}", folder.display()))?;
        Ok(Some(Self { folder, content }))
    }

    /// Returns the names of the members, with their kubeconfigs.
    pub(super) fn members(&self) -> Vec<(String, PathBuf)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let members = self.content["members"].as_array().into_iter().flatten();
        members.map(|member| (text(&member["name"]), text(&member["kubeconfig"]).into())).collect()
    }

    /// Makes the workloads of all members available, and never returns.
    ///
    /// # Errors
    /// When a kubeconfig cannot be read.
    pub(super) fn make_workloads_available(&self) -> Result<()> {
        let members = self.members().into_iter().map(|(_, kubeconfig)| Access::read(&kubeconfig));
        let _workloads = Workloads::start(members.collect::<Result<Vec<_>>>()?)?;
        loop {
            std::thread::park();
        }
    }

    /// Returns its Gitea; nothing where it has none.
    pub(super) fn gitea(&self) -> Option<Gitea> {
        let [url, user, password, token] =
            ["url", "user", "password", "token"].map(|key| self.content["gitea"][key].as_str().map(str::to_owned));
        Gitea::running(url?, user?, password?, token?)
    }

    /// Describes how to use the fleet, for people.
    pub fn describe(&self) -> String {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut lines = Vec::new();
        for member in self.content["members"].as_array().into_iter().flatten() {
            let (name, url) = (text(&member["name"]), text(&member["url"]));
            lines.push(format!("{name:<12} {url}  kubeconfig {}", text(&member["kubeconfig"])));
        }
        lines.push(format!("{:<12} export KUBECONFIG={}", "all", text(&self.content["kubeconfig"])));
        let gitea = &self.content["gitea"];
        if gitea.is_object() {
            let [url, user, password] = ["url", "user", "password"].map(|key| text(&gitea[key]));
            lines.push(format!(
                "{:<12} {url}  user {user}  password {password}  token {}",
                "gitea",
                text(&gitea["token"])
            ));
        }
        if self.content["console"].is_object() {
            let replicas = &self.content["replicas"];
            lines.push(console::describe(&self.content["console"], &text(&gitea["url"]), !replicas.is_object()));
            if replicas.is_object() {
                lines.push(replicas::describe(replicas));
            }
        }
        lines.join("\n")
    }

    /// Lists the processes and whether each is alive; says whether all are.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub fn processes(&self) -> Result<(String, bool)> {
        let mut lines = Vec::new();
        let mut all = true;
        for entry in Entry::all(&self.folder)? {
            let alive = entry.is_alive(&self.folder);
            all &= alive;
            let Entry { pid, name, .. } = &entry;
            lines.push(format!("{name:<28} {pid:>8}  {}", if alive { "running" } else { "gone" }));
        }
        Ok((lines.join("\n"), all))
    }

    /// Ends exactly the processes of this fleet, removes its folder and returns how many processes it ended.
    ///
    /// # Errors
    /// When a process cannot be ended or the folder not be removed.
    pub fn down(self) -> Result<usize> {
        let mut entries = Entry::all(&self.folder)?;
        entries.retain(|entry| entry.is_alive(&self.folder));
        for entry in &entries {
            // It may have ended by itself in between; what counts is seen below.
            let _ = process::signal(entry.pid, "KILL");
        }
        until("the processes of the fleet to end", END, || {
            Ok((!entries.iter().any(|entry| entry.is_alive(&self.folder))).then_some(()))
        })?;
        remove(&self.folder)?;
        Ok(entries.len())
    }
}

/// Removes a fleet's folder. Tries more than once: a git that Gitea started may still be writing.
pub(super) fn remove(folder: &Path) -> Result<()> {
    let mut last = None;
    for _ in 0..10 {
        match fs::remove_dir_all(folder) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => last = Some(error),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    match last {
        Some(error) => Err(error).with_context(|| format!("remove {}", folder.display())),
        None => bail!("remove {}", folder.display()),
    }
}

/// Merges the members' kubeconfigs, which are JSON, into one file.
pub(super) fn merge(folder: &Path, members: &[Member]) -> Result<PathBuf> {
    let mut merged = json!({ "apiVersion": "v1", "kind": "Config" });
    for key in ["clusters", "users", "contexts"] {
        merged[key] = json!([]);
    }
    for member in members {
        let text = fs::read_to_string(&member.kubeconfig).context("read a kubeconfig")?;
        let config: Value = serde_json::from_str(&text).context("parse a kubeconfig")?;
        for key in ["clusters", "users", "contexts"] {
            let (Some(all), Some(own)) = (merged[key].as_array_mut(), config[key].as_array()) else {
                bail!("the kubeconfig of {} has no `{key}`", member.name);
            };
            all.extend(own.iter().cloned());
        }
    }
    if let Some(first) = members.first() {
        merged["current-context"] = json!(first.name);
    }
    let path = folder.join("kubeconfig");
    fs::write(&path, format!("{merged:#}\n")).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}
