//! `gitfleet member add`: a MemberCluster in the tree, and what is left to do for it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::ensure;
use serde_json::json;

use crate::config_file;
use crate::cordon::{Edit, TreeChange};
use crate::exit::Exit;
use crate::records::load_configuration;
use config::MemberAccess;
use model::id::ClusterName;
use model::yaml;

/// Where the file goes if the tree has no other cluster.
const FOLDER: &str = "clusters/";

/// The version of MemberCluster that is written.
const API_VERSION: &str = "cluster.kubernetes-fleet.io/v1";

/// Options of `member add`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Prints the change as a diff, or commits it with --commit. Standard error says how the configuration reaches the cluster, or which entry \
of `members:` is missing; `gitfleet member bootstrap` makes its account and kubeconfig, and `gitfleet check` tries it.

Examples:
  gitfleet member add prod-eu-2 --labels environment=prod,region=eu | git apply
  gitfleet member add prod-eu-2 --labels environment=prod --commit main")]
pub(crate) struct Add {
    #[command(flatten)]
    change: TreeChange,
    /// Its labels, which placements choose by.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = label)]
    labels: Vec<(String, String)>,
    /// The daemon's configuration file: says where the tree is, and how members are reached.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

fn label(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    pair.map(|(key, value)| (key.to_owned(), value.to_owned())).ok_or_else(|| format!("{text:?} is no KEY=VALUE"))
}

impl Add {
    /// Runs the command. Exits 2 where the tree has the cluster already.
    ///
    /// # Errors
    /// The tree cannot be read, or has the cluster already.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let config = config_file::find(self.config.as_deref());
        let mut edit = Edit::begin(&self.change, config.as_deref())?;
        let name = ClusterName::from(self.change.cluster.as_str());
        if let Some(origin) = edit.tree.member_origins.get(&name) {
            anyhow::bail!("the tree has the cluster {name} already, in {}", origin.path);
        }
        ensure!(is_name(name.as_str()), "{name} is no name of a cluster: small letters, digits, dots and dashes");
        let beside = edit.tree.member_origins.values().next().map(|origin| origin.path.to_string());
        let folder = beside.map_or_else(
            || FOLDER.to_owned(),
            |path| path.rsplit_once('/').map(|(folder, _)| format!("{folder}/")).unwrap_or_default(),
        );
        let mut file = edit.new_file(&format!("{folder}{name}"))?;
        file.new = manifest(&name, &self.labels);
        edit.files.push(file);
        let ended = edit.end("Add", "is there already")?;
        if let Some(config) = config {
            eprintln!("{}", reached(load_configuration(&config)?.member(&name).as_ref(), &name));
        }
        Ok(ended)
    }
}

/// Source: Kubernetes, names of objects.
fn is_name(name: &str) -> bool {
    name.bytes().all(|byte| is_letter_or_digit(byte) || byte == b'-' || byte == b'.')
        && name.bytes().next().is_some_and(is_letter_or_digit)
        && name.bytes().last().is_some_and(is_letter_or_digit)
}

fn is_letter_or_digit(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn manifest(name: &ClusterName, labels: &[(String, String)]) -> String {
    let labels: BTreeMap<&str, &str> = labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let mut metadata = json!({"name": name});
    if !labels.is_empty() {
        metadata["labels"] = json!(labels);
    }
    yaml::to_string(&json!({
        "apiVersion": API_VERSION, "kind": "MemberCluster", "metadata": metadata, "spec": {},
    }))
}

fn reached(access: Option<&MemberAccess>, name: &ClusterName) -> String {
    match access {
        Some(MemberAccess::Directory { path }) => format!("{name} is the folder {}", path.display()),
        Some(MemberAccess::Live { kubeconfig, .. }) => {
            let made =
                if kubeconfig.exists() { "" } else { ", which is not there yet: `gitfleet member bootstrap` makes it" };
            format!("{name} is reached by {}{made}", kubeconfig.display())
        }
        Some(MemberAccess::InCluster) => format!("{name} is the cluster that this runs in"),
        Some(MemberAccess::Agent { agent, .. }) => format!("{name} is reached by {agent}"),
        None => format!(
            "no entry of `members:` names {name}; add one:\n  - name: {name}\n    kubeconfig: {{path: ./{name}.kubeconfig}}"
        ),
    }
}
