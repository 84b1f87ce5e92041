//! `gitfleet version`: what this binary is.

use serde_json::{Value, json};

use super::exit::Exit;
use super::output;
use system::telemetry::metrics::{COMMIT, VERSION};

/// Options of `version`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How to show it.
    #[arg(short, long, value_enum, default_value_t)]
    output: VersionFormat,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum VersionFormat {
    /// One line.
    #[default]
    Text,
    /// JSON: version, commit where the build knew it, system, features, and the API versions of the kinds that are read.
    Json,
    /// YAML of the same.
    Yaml,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match args.output {
        VersionFormat::Text => output::print(&line()),
        VersionFormat::Json => output::print_json(&facts()),
        VersionFormat::Yaml => output::print(&output::render_yaml(&[facts()])),
    }
}

/// The system that this binary is for.
const SYSTEM: [&str; 2] = [std::env::consts::ARCH, std::env::consts::OS];

/// Returns the features that are built in.
fn features() -> Vec<&'static str> {
    let all = [
        ("github", cfg!(feature = "github")),
        ("jemalloc", cfg!(all(feature = "jemalloc", not(target_os = "macos")))),
        ("openpgp", cfg!(feature = "openpgp")),
        ("postgres", cfg!(feature = "postgres")),
    ];
    all.into_iter().filter_map(|(name, is_in)| is_in.then_some(name)).collect()
}

fn line() -> String {
    let commit = format!("commit {}", COMMIT.unwrap_or("unknown"));
    let mut parts = vec![format!("gitfleet {VERSION}"), commit, SYSTEM.join("-")];
    parts.extend(features().into_iter().map(str::to_owned));
    format!("{}\n", parts.join(", "))
}

fn facts() -> Value {
    let kinds: serde_json::Map<String, Value> = model::api::crds()
        .iter()
        .filter_map(|crd| {
            let versions = crd.pointer("/spec/versions")?.as_array()?;
            let versions: Vec<&Value> = versions.iter().filter_map(|version| version.get("name")).collect();
            Some((crd.pointer("/metadata/name")?.as_str()?.to_owned(), json!(versions)))
        })
        .collect();
    let mut facts = json!({"version": VERSION, "system": SYSTEM.join("-"), "features": features(), "kinds": kinds});
    if let Some(commit) = COMMIT {
        facts["commit"] = commit.into();
    }
    facts
}
