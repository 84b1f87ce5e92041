//! `gitfleet check`: whether everything is there that the daemon needs. Changes nothing.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use futures::{StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::exit::Exit;
use super::forge::{self, Row, State};
use super::output::{self, Terminal};
use super::records::{RecordsSource, load_configuration};
use super::{config_file, opened, proxy, rendering};
use cluster::ApplyOptions;
use config::{Configuration, MemberAccess, Verify};
use daemon::commit_reader::{Cache, read_commit};
use daemon::commit_signatures::{check, read_keys};
use daemon::rendering::Rendering;
use daemon::run::state_dir;
use daemon::source_poller::{TokenOrigin, TokenReader, source_spec};
use decide::servers::{ReachedServer, ReachedServers};
use decide::status::work::counted;
use engine::store::records::{CLUSTER_PREFIX, SOURCE_PREFIX};
use engine::store::saved::Records;
use git::signature::{
    AllowedSigners, CertifiedSigners, CosignKeys, Keyring, Keys, SignatureRefusal, Signer, check_artifact,
};
use member::task::target;
use model::artifact::SeenArtifact;
use model::id::{ClusterName, CommitId, ObjectId};
use model::names::first_of;
use model::records::{ClusterRecord, SourceRecord, same_server};
use system::clock;

/// Members that are asked at a time.
const MEMBERS_AT_A_TIME: usize = 16;
/// Members without access that are named.
const NAMED_MAX: usize = 10;
/// How far ahead of the clock something stored may be: the clock was set back then.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_secs(5);

/// Options of `check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads the configuration, and asks the source, the store, every member and the git host. On a member it reads the inventory, and sends \
one write as a dry run. Nothing is changed, except that a remote source is fetched into the store's folder, as `gitfleet run` does. \
Where a daemon runs, it is asked for what it holds open itself. With `source.verify`, the signature of the tip is checked.

Exit codes: 0 nothing is missing, 1 something is, 2 the configuration cannot be read.

Examples:
  gitfleet check
  gitfleet check -c /etc/gitfleet/gitfleet.yaml")]
pub(crate) struct Args {
    /// The daemon's configuration file.
    #[arg(short, long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// The configuration cannot be read.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let file = config_file::require(args.config.as_deref())?;
    let configuration = load_configuration(&file)?;
    proxy::heed(configuration.proxy)?;
    let mut rows = vec![Row::ok("configuration", file.display().to_string())];
    let (row, known) = store_row(&configuration);
    rows.push(row);
    rows.push(clock_row(known.as_ref().and_then(|known| known.source.as_ref()), clock::wall()));
    let is_running = matches!(known, Some(StoredParts { by_daemon: true, .. }));
    let is_ssh = configuration.all_sources().iter().any(|source| source.ssh.is_some());
    rows.extend(is_ssh.then(ssh_row));
    let (source_rows, reads) = source_rows(&configuration, known.as_ref());
    rows.extend(source_rows);
    let records = known.map(|known| known.clusters).unwrap_or_default();
    // Beside a daemon the store says which clusters there are, also where it has none yet.
    let clusters = match &records[..] {
        [] if reads && !is_running => clusters_of_sources(&configuration),
        records => records.iter().map(|record| record.name.clone()).collect(),
    };
    rows.extend(rendering::rows(&configuration));
    rows.extend(rendering::decryption_rows(&configuration));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    rows.extend(runtime.block_on(member_rows(&configuration, &clusters, &records)));
    rows.extend(match configuration.forges().next() {
        None => vec![Row::unknown("git host", "no section `forge`: no statuses, comments or webhooks")],
        Some(_) => match runtime.block_on(forge::check(&configuration, None)) {
            Ok(rows) => rows,
            Err(error) => vec![Row::missing("git host", format!("{error:#}"))],
        },
    });
    let is_bad = rows.iter().any(|row| row.state == State::Missing);
    output::print(&output::render_table(&forge::table(rows), Terminal::of_stdout()))?;
    Ok(if is_bad { Exit::NotAsWished } else { Exit::Done })
}

/// What is stored.
struct StoredParts {
    source: Option<SourceRecord>,
    clusters: Vec<ClusterRecord>,
    by_daemon: bool,
}

impl StoredParts {
    fn of(records: Records, by_daemon: bool) -> Self {
        let clusters = records.clusters.into_values().filter(|cluster: &ClusterRecord| !cluster.left).collect();
        Self { source: records.source, clusters, by_daemon }
    }
}

/// Reads what is stored, from the daemon if one runs.
fn store_row(configuration: &Configuration) -> (Row, Option<StoredParts>) {
    let settings = &configuration.store;
    let place = match &settings.postgres {
        None => settings.path.display().to_string(),
        Some(postgres) => format!("PostgreSQL, schema {}", postgres.schema),
    };
    let wanted = [SOURCE_PREFIX, CLUSTER_PREFIX];
    match opened::daemon_of(configuration) {
        Err(error) => return (Row::missing("store", format!("{error:#}")), None),
        Ok(None) => {}
        // The daemon that holds the store is asked: an embedded store cannot be read meanwhile.
        Ok(Some(address)) => {
            let asked = RecordsSource::of_daemon(configuration)
                .and_then(|daemon| daemon.read_under(&wanted.map(str::to_owned)));
            return match asked {
                Ok(records) => {
                    let words = format!("{place}, held by the daemon at {address}");
                    (Row::ok("store", words), Some(StoredParts::of(records, true)))
                }
                Err(error) => (Row::missing("store", format!("a process holds {place}: {error:#}")), None),
            };
        }
    }
    if settings.postgres.is_none() && !settings.path.exists() {
        return (Row::unknown("store", format!("{place} is not there yet; `gitfleet run` makes it")), None);
    }
    let read = opened::read_only(settings).and_then(|store| Ok(Records::under(&*store, &wanted)?));
    match read {
        Ok(records) => (Row::ok("store", place), Some(StoredParts::of(records, false))),
        Err(error) => (Row::missing("store", format!("{error:#}")), None),
    }
}

/// Compares the clock with what is stored: nothing there happened later than now.
fn clock_row(source: Option<&SourceRecord>, now: Timestamp) -> Row {
    let last = source.and_then(|source| source.seen_at.max(source.accepted_at));
    match last.filter(|last| last.duration_since(now) > CLOCK_TOLERANCE) {
        Some(last) => Row::missing("clock", format!("it says {now:.0}, and the source was read at {last:.0}; set it")),
        None => Row::ok("clock", format!("{now:.0}")),
    }
}

fn ssh_row() -> Row {
    const NEED: &str = "ssh";
    git::ssh_version().map_or_else(|reason| Row::missing(NEED, reason), |version| Row::ok(NEED, version))
}

/// Returns what is to be said of each source: whether it can be read, and where signatures count whether its tip is signed. Tells whether all
/// can be read.
fn source_rows(configuration: &Configuration, known: Option<&StoredParts>) -> (Vec<Row>, bool) {
    let mut rows = Vec::new();
    let mut reads_all = true;
    let stored = known.filter(|known| known.by_daemon).and_then(|known| known.source.as_ref());
    for source in configuration.all_sources() {
        let asked = AskedSource { configuration, source };
        let daemon = match stored {
            Some(stored) if source.name.is_empty() => Some(stored),
            Some(stored) => stored.sources.get(&source.name),
            None => None,
        };
        let row = asked.row(daemon);
        let reads = row.state == State::Ok;
        reads_all &= reads;
        rows.push(row);
        rows.extend(source.verify.as_deref().map(|verify| asked.signatures_row(verify, daemon, reads)));
    }
    (rows, reads_all)
}

/// A source that is asked.
struct AskedSource<'a> {
    configuration: &'a Configuration,
    source: &'a config::Source,
}

impl AskedSource<'_> {
    /// Returns what a row is about: of several sources their names are said.
    fn need(&self, need: &str) -> String {
        let name = &self.source.name;
        if name.is_empty() { need.to_owned() } else { format!("{need} {name}") }
    }

    fn open(&self) -> anyhow::Result<git::Source> {
        let spec = source_spec(self.configuration, self.source)?;
        let mut source = git::Source::open(spec, &state_dir(self.configuration))?;
        if let Some(origin) = TokenOrigin::of(self.source) {
            source.use_token(TokenReader::new(origin).read().map_err(anyhow::Error::msg)?)?;
        }
        Ok(source)
    }

    fn tip(&self) -> anyhow::Result<Option<git::Tip>> {
        Ok(self.open()?.poll(&AtomicBool::new(false))?)
    }

    fn row(&self, daemon: Option<&SourceRecord>) -> Row {
        let need = self.need("source");
        let place = &self.source.url;
        if let Some(record) = daemon {
            return match (&record.failure, &record.seen) {
                (Some(failure), _) => Row::missing(need, failure.clone()),
                (None, Some(commit)) => Row::ok(need, format!("{place} at {}, read by the daemon", commit.short())),
                (None, None) => Row::unknown(need, format!("{place}: the daemon has not read it yet")),
            };
        }
        match self.tip() {
            Ok(Some(tip)) => {
                let branch = tip.branch.map(|branch| format!(" of branch {branch}")).unwrap_or_default();
                Row::ok(need, format!("{place} at {}{branch}", tip.commit.short()))
            }
            Ok(None) => Row::ok(need, place.clone()),
            Err(error) => Row::missing(need, format!("{error:#}")),
        }
    }

    /// Says whether the files of keys can be read, and whether the tip is signed with one of the keys.
    fn signatures_row(&self, verify: &Verify, daemon: Option<&SourceRecord>, reads: bool) -> Row {
        let need = self.need("signatures");
        let keys = match read_keys(verify) {
            Ok(keys) => keys,
            Err(error) => return Row::missing(need, error.in_full()),
        };
        let count = keys.ssh.as_ref().map_or(0, AllowedSigners::count)
            + keys.openpgp.as_ref().map_or(0, Keyring::count)
            + keys.cosign.as_ref().map_or(0, CosignKeys::count);
        let counted = match keys.x509.as_ref().map(CertifiedSigners::authorities) {
            None => counted(count, "key"),
            Some(1) => format!("{}, 1 authority", counted(count, "key")),
            Some(authorities) => format!("{}, {authorities} authorities", counted(count, "key")),
        };
        // Beside a daemon nothing is fetched: what it saw last is checked.
        let seen = daemon.and_then(|record| record.seen.clone());
        if !reads || (daemon.is_some() && seen.is_none()) {
            return Row::unknown(need, format!("{counted}; no commit is read yet"));
        }
        if let Some(cosign) = &keys.cosign {
            return self.artifact_row(need, &counted, cosign, daemon);
        }
        match self.check_commit(seen, &keys) {
            Ok((Ok(signer), tip)) => Row::ok(need, format!("{counted}; {} is signed with {signer}", tip.short())),
            Ok((Err(why), tip)) => Row::missing(need, format!("{counted}; {} {why}", tip.short())),
            Err(error) => Row::missing(need, format!("{error:#}")),
        }
    }

    /// Checks the commit that a daemon has seen, else the tip.
    fn check_commit(
        &self,
        seen: Option<CommitId>,
        keys: &Keys,
    ) -> anyhow::Result<(Result<Signer, SignatureRefusal>, CommitId)> {
        let (reader, commit) = if let Some(seen) = seen {
            let dir = state_dir(self.configuration);
            (git::read_kept(&self.source.url, &self.source.path, &dir)?, seen)
        } else {
            let mut source = self.open()?;
            let tip = source.poll(&AtomicBool::new(false))?.context("nothing was committed")?;
            (source.reader().clone(), tip.commit)
        };
        Ok((check(&reader, &commit, keys, clock::wall())?, commit))
    }

    /// Says whether an artifact is signed with one of the keys. Where a daemon reads it, its last answer counts.
    fn artifact_row(&self, need: String, counted: &str, keys: &CosignKeys, daemon: Option<&SourceRecord>) -> Row {
        if let Some(record) = daemon {
            let refused = record.refused.iter().find(|error| error.path.starts_with("artifact "));
            return match refused {
                Some(error) => Row::missing(need, format!("{counted}; {} {}", error.path, error.message)),
                None => Row::ok(need, format!("{counted}; checked by the daemon")),
            };
        }
        let artifact = match self.artifact() {
            Ok(artifact) => artifact,
            Err(error) => return Row::missing(need, format!("{error:#}")),
        };
        let digest = &artifact.digest;
        match check_artifact(&artifact, keys) {
            Ok(key) => Row::ok(need, format!("{counted}; {digest} is signed with the key {key}")),
            Err(why) => Row::missing(need, format!("{counted}; {digest} {why}")),
        }
    }

    fn artifact(&self) -> anyhow::Result<SeenArtifact> {
        let mut source = self.open()?;
        source.poll(&AtomicBool::new(false))?;
        source.artifact().cloned().context("nothing was read")
    }

    /// Returns the clusters that the tip has, where no store says which they are.
    fn clusters(&self) -> anyhow::Result<Vec<ClusterName>> {
        let mut source = self.open()?;
        let Some(tip) = source.poll(&AtomicBool::new(false))? else { return Ok(Vec::new()) };
        let dir = state_dir(self.configuration);
        let rendering = Rendering::of(self.configuration.render.as_ref(), Some(&dir))?;
        let tree = read_commit(source.reader(), &tip.commit, &mut Cache::rendering(rendering))?;
        Ok(tree.member_origins.keys().cloned().collect())
    }
}

/// Returns the clusters that the sources have.
fn clusters_of_sources(configuration: &Configuration) -> Vec<ClusterName> {
    let sources = configuration.all_sources().iter().map(|source| AskedSource { configuration, source });
    sources.flat_map(|source| source.clusters().unwrap_or_default()).collect()
}

/// Asks every member; says of those that are right only how many they are.
async fn member_rows(configuration: &Configuration, clusters: &[ClusterName], records: &[ClusterRecord]) -> Vec<Row> {
    const NEED: &str = "members";
    if clusters.is_empty() {
        return vec![Row::unknown(NEED, "no MemberCluster is known yet")];
    }
    let mut unnamed = Vec::new();
    let mut named = BTreeMap::new();
    for cluster in clusters {
        match configuration.member(cluster) {
            Some(access) => drop(named.insert(cluster, access)),
            None => unnamed.push(cluster.as_str()),
        }
    }
    let asked =
        stream::iter(named.iter().map(|(cluster, access)| async move { (*cluster, ask(cluster, access).await) }));
    let answers: BTreeMap<&ClusterName, Result<Option<String>, String>> =
        asked.buffer_unordered(MEMBERS_AT_A_TIME).collect().await;
    let mut wrong: BTreeMap<&ClusterName, String> =
        answers.iter().filter_map(|(cluster, answer)| Some((*cluster, answer.clone().err()?))).collect();
    wrong.extend(same_servers(&answers, records));
    let right = answers.len() - wrong.len();
    let total = counted(clusters.len(), "cluster");
    let mut rows = vec![Row::ok(NEED, format!("{right} of {total} can be delivered to"))];
    if right < clusters.len() {
        rows[0].state = State::Missing;
    }
    if !unnamed.is_empty() {
        let first = first_of(unnamed.into_iter(), NAMED_MAX);
        rows.push(Row::missing("member access", format!("no entry of `members:` names {first}")));
    }
    rows.extend(wrong.into_iter().map(|(name, why)| Row::missing("member", format!("{name}: {why}"))));
    rows
}

/// Returns the clusters that lead to the API server of another, and what is to be said of each. Where a cluster was not asked, what the
/// daemon saw counts.
fn same_servers<'a>(
    answers: &BTreeMap<&'a ClusterName, Result<Option<String>, String>>,
    records: &[ClusterRecord],
) -> BTreeMap<&'a ClusterName, String> {
    let records: BTreeMap<&ClusterName, &ClusterRecord> = records.iter().map(|record| (&record.name, record)).collect();
    let mut servers = ReachedServers::default();
    for (cluster, answer) in answers {
        let stored = records.get(cluster).and_then(|record| record.server.clone());
        let uid = answer.as_ref().ok().cloned().flatten().or_else(|| stored.clone());
        servers.set(cluster, uid.map(|uid| ReachedServer { is_known: stored.as_ref() == Some(&uid), uid }));
    }
    let same = answers.keys().copied().filter_map(|cluster| {
        let first = servers.first(cluster).or_else(|| records.get(cluster)?.same_as.as_ref());
        Some((cluster, same_server(cluster, first?)))
    });
    same.collect()
}

/// Connects to a member, reads its inventory, and tries a write without carrying it out. Returns what names its server, where that can be
/// read.
async fn ask(cluster: &ClusterName, access: &MemberAccess) -> Result<Option<String>, String> {
    if let MemberAccess::Directory { path } = access {
        // Connecting would make the folder.
        let there = path.ancestors().find(|path| path.exists());
        let writable =
            there.and_then(|path| std::fs::metadata(path).ok()).is_some_and(|found| !found.permissions().readonly());
        return if writable { Ok(None) } else { Err(format!("{} cannot be written", path.display())) };
    }
    if access.agent().is_some() {
        // Its credentials are on the agent's machine; the daemon says whether the agent is connected.
        return Ok(None);
    }
    let member = target(cluster, access);
    member.connect().await.map_err(|error| error.to_string())?;
    let server = member.server().await.map_err(|error| error.to_string())?;
    let advice = format!("`gitfleet member bootstrap {cluster}` prints what it must allow");
    member.parents().await.map_err(|error| format!("{error}; {advice}"))?;
    let (id, object) = probe();
    match member.apply(&object, ApplyOptions { force: true, dry_run: true }).await {
        Ok(_) => Ok(server),
        // The namespace comes with the first delivery.
        Err(error) if error.is_not_found() => Ok(server),
        Err(error) => Err(format!("{id}: {error}; {advice}")),
    }
}

/// Returns an object as inventories are, which is never written.
fn probe() -> (ObjectId, serde_json::Value) {
    let namespace = deliver::inventory::NAMESPACE;
    let name = "gitfleet-check";
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name}});
    let id = ObjectId {
        group: String::new(),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    (id, object)
}
