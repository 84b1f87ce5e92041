//! What needs a git host: the way from a push to a status, from an approval to a write, what a rollout asks of the host, and a
//! flood of deliveries.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use aws_lc_rs::hmac;
use model::text::hexadecimal;
use serde_json::{Value, json};

use crate::daemon::{Daemon, World, binary};
use crate::fleet::{BOT_SCOPES, Fleet, Gitea, MergeWay, Options, PERSON_SCOPES, git, http, push, until};
use crate::generate;
use crate::machine::{load, profile, ratio, summary};

/// Pushes that are measured.
const PUSHES: usize = 20;
/// Pushes before them that are not.
const WARM_UP: usize = 2;
/// Merged pull requests whose approvals are measured.
const MERGES: usize = 10;
/// The last ones, whose calls are counted.
const COUNTED: usize = 2;
/// The host counts as left alone when the daemon has asked nothing for so long: comments are edited at most every ten seconds,
/// and the pull request of a commit is looked for again after twenty.
const QUIET: Duration = Duration::from_secs(22);
/// How long anything may take before a run is given up.
const LIMIT: Duration = Duration::from_mins(2);
/// Pause between two looks at the host, which must have time for its work, and at a file.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
const FILE_PAUSE: Duration = Duration::from_millis(1);

/// The placement, its namespace and the repository.
const NAME: &str = "console";
/// The members, one a stage.
const STAGES: [&str; 3] = ["canary", "early", "rest"];

/// Signed deliveries in one phase, and how many without a right signature come beside each of them.
const SIGNED: usize = 1000;
const UNSIGNED_EACH: usize = 10;
/// Time between two signed ones: a thousand take ten seconds.
const SIGNED_PAUSE: Duration = Duration::from_millis(10);
/// Bytes of a delivery, about those of a push of one commit.
const DELIVERY_BYTES: usize = 8 * 1024;

/// A Gitea with a repository, people and a webhook, and a world whose members are folders.
struct Hosted {
    fleet: Fleet,
    world: World,
    repo: String,
    approver: String,
    secret: String,
}

impl Hosted {
    fn start() -> Result<Self> {
        let fleet = Fleet::start(Options::members(0).with_gitea())?;
        let gitea = fleet.gitea()?;
        gitea.create_repo(NAME)?;
        let repo = format!("{}/{NAME}", gitea.user);
        let token = |name: &str, permission, scopes| {
            let account = gitea.user(name)?;
            gitea.collaborator(&repo, name, permission)?;
            gitea.token(&account, scopes)
        };
        let bot = token("bot", "admin", BOT_SCOPES)?;
        let approver = token("approver", "write", PERSON_SCOPES)?;
        let url = gitea.repo_url(NAME);
        // Nothing shall be found by asking: what is measured came by the webhook.
        let source =
            format!("{{url: {url}, branch: main, pollInterval: 1h, tokenFile: token, allowInsecureHttp: true}}");
        let members: String =
            STAGES.map(|stage| format!("  - name: {stage}\n    directory: ./members/{stage}\n")).concat();
        let forge = format!(
            "forge:\n  type: gitea\n  url: {}\n  tokenFile: token\n  allowInsecureHttp: true\n  webhookSecretFile: secret\n  \
             statuses: stages\n",
            gitea.url
        );
        let world = World::configured(&source, &members, &forge)?;
        fs::write(world.path().join("token"), bot)?;
        let hook = format!("http://127.0.0.1:{}/webhooks/gitea", world.port());
        let setup = ["forge", "setup", "-c", "gitfleet.yaml", "--url", &hook];
        let done = Command::new(binary()?).args(setup).current_dir(world.path()).output()?;
        ensure!(done.status.success(), "forge setup: {}", String::from_utf8_lossy(&done.stderr));
        let secret = fs::read_to_string(world.path().join("secret"))?.trim().to_owned();
        let hosted = Self { fleet, world, repo, approver, secret };
        hosted.write("first")?;
        hosted.gitea()?.push(&hosted.world.repo(), NAME, "main")?;
        Ok(hosted)
    }

    fn gitea(&self) -> Result<&Gitea> {
        self.fleet.gitea()
    }

    /// Writes and commits the fleet and what is rolled out.
    fn write(&self, version: &str) -> Result<()> {
        let clusters = STAGES.map(|stage| generate::member_cluster(stage, &format!("{{stage: {stage}}}"))).concat();
        self.world.write("fleet.yaml", &clusters)?;
        let mut text = String::from(
            "---\napiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\n\
             metadata: {name: console}\nspec:\n  stages:\n",
        );
        for stage in STAGES {
            let gate = if stage == STAGES[0] { ", afterStageTasks: [{type: Approval}]" } else { "" };
            writeln!(text, "    - {{name: {stage}, labelSelector: {{matchLabels: {{stage: {stage}}}}}{gate}}}")?;
        }
        write!(
            text,
            "---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata:\n  name: {NAME}\n  \
             annotations: {{gitfleet.io/staged-update-strategy: {NAME}}}\nspec:\n  resourceSelectors:\n    \
             - {{group: '', version: v1, kind: Namespace, name: {NAME}}}\n  strategy: {{type: External}}\n"
        )?;
        text.push_str(&generate::namespace(NAME));
        text.push_str(&generate::config_map(NAME, "settings", version));
        self.world.write("app.yaml", &text)?;
        self.world.commit(version).map(drop)
    }

    fn head(&self) -> Result<String> {
        git(&self.world.repo(), &["rev-parse", "HEAD"])
    }

    /// Waits until a status of a commit is as told; the context is that of the whole rollout, or of one stage.
    fn await_status(&self, commit: &str, stage: &str, wanted: &str) -> Result<Instant> {
        let context = format!("gitfleet/{NAME}{stage}");
        let gitea = self.gitea()?;
        quick(&format!("{context} of {commit} to be {wanted}"), LOOK_PAUSE, || {
            // Until Gitea has taken note of a push it knows no such commit.
            let statuses = gitea.statuses(&self.repo, commit).unwrap_or_default();
            statuses.iter().any(|status| status["context"] == context.as_str() && status["status"] == wanted)
        })
        .with_context(|| self.world.log())
    }

    /// Waits until some status of a commit is pending.
    fn await_first(&self, commit: &str) -> Result<Instant> {
        let gitea = self.gitea()?;
        quick(&format!("a pending status of {commit}"), LOOK_PAUSE, || {
            gitea.statuses(&self.repo, commit).unwrap_or_default().iter().any(|status| status["status"] == "pending")
        })
        .with_context(|| self.world.log())
    }

    /// Waits until a member's folder holds a version.
    fn await_written(&self, stage: &str, version: &str) -> Result<Instant> {
        let folder = self.world.path().join("members").join(stage);
        quick(&format!("{stage} to hold {version}"), FILE_PAUSE, || holds(&folder, version))
            .with_context(|| self.world.log())
    }

    /// Waits until a pull request, or else the newest issue, asks for approval; returns its number.
    fn await_request(&self, pull: Option<u64>, version: &str) -> Result<u64> {
        let gitea = self.gitea()?;
        let found = until(&format!("a request to approve {version}"), LIMIT, || {
            let number = match pull {
                Some(number) => Some(number),
                None => gitea.issues(&self.repo)?.first().and_then(|issue| issue["number"].as_u64()),
            };
            let Some(number) = number else { return Ok(None) };
            let comments = gitea.comments(&self.repo, number)?;
            // The one that tells the whole rollout: only what it shows can be approved.
            let asks = |comment: &Value| {
                let body = comment["body"].as_str().unwrap_or_default();
                body.contains("/approve canary") && STAGES.iter().all(|stage| body.contains(stage))
            };
            Ok(comments.iter().any(asks).then_some(number))
        });
        found.with_context(|| self.world.log())
    }

    /// Approves in a conversation; returns when the comment was sent.
    fn approve(&self, thread: u64) -> Result<Instant> {
        let sent = Instant::now();
        self.gitea()?.comment(&self.approver, &self.repo, thread, "/approve canary")?;
        Ok(sent)
    }

    /// Returns how often the daemon asked the host so far, by method and answer.
    fn calls(&self) -> Result<BTreeMap<String, u64>> {
        let (_, text) = http("GET", self.world.port(), "/metrics", &[], "")?;
        let lines = text.lines().filter_map(|line| line.strip_prefix("gitfleet_forge_calls_total{")?.split_once("} "));
        lines.map(|(labels, count)| Ok((labels.to_owned(), count.parse()?))).collect()
    }

    /// Waits until the daemon leaves the host alone; returns its calls so far.
    fn await_quiet(&self) -> Result<BTreeMap<String, u64>> {
        let (mut last, mut since) = (self.calls()?, Instant::now());
        let started = Instant::now();
        while since.elapsed() < QUIET {
            ensure!(started.elapsed() < LIMIT, "the daemon asks the host all the time: {last:?}\n{}", self.world.log());
            thread::sleep(Duration::from_millis(200));
            let now = self.calls()?;
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        Ok(last)
    }

    /// Returns how long one status, and one question what branches are at, take without gitfleet.
    fn push_floor(&self, commit: &str) -> Result<Duration> {
        let gitea = self.gitea()?;
        let started = Instant::now();
        let status = json!({"context": "floor", "state": "success", "description": "floor"});
        gitea.api("POST", &format!("/repos/{}/statuses/{commit}", self.repo), Some(&status))?;
        let port = gitea.url.rsplit(':').next().and_then(|port| port.parse().ok()).context("a port")?;
        let refs = format!("/{}.git/info/refs?service=git-upload-pack", self.repo);
        let authorization = format!("token {}", gitea.token);
        let (code, _) = http("GET", port, &refs, &[("Authorization", &authorization)], "")?;
        ensure!(code == 200, "ls-refs: {code}");
        Ok(started.elapsed())
    }

    /// Returns how long a comment, its reading, and the question what its author may do take without gitfleet.
    fn approval_floor(&self, thread: u64) -> Result<Duration> {
        let gitea = self.gitea()?;
        let started = Instant::now();
        let id = gitea.comment(&self.approver, &self.repo, thread, "floor")?;
        gitea.api("GET", &format!("/repos/{}/issues/comments/{id}", self.repo), None)?;
        gitea.api("GET", &format!("/repos/{}/collaborators/approver/permission", self.repo), None)?;
        Ok(started.elapsed())
    }
}

/// Returns when a condition was first seen to hold.
fn quick(what: &str, pause: Duration, mut holds: impl FnMut() -> bool) -> Result<Instant> {
    let started = Instant::now();
    while !holds() {
        if started.elapsed() > LIMIT {
            bail!("waited {LIMIT:?} in vain for {what}");
        }
        thread::sleep(pause);
    }
    Ok(Instant::now())
}

/// Tells whether a file of a folder holds a version.
fn holds(folder: &PathBuf, version: &str) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let files = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().ends_with(".settings.yaml"));
    files.into_iter().any(|file| fs::read_to_string(file.path()).is_ok_and(|text| text.contains(version)))
}

/// Lets Gitea call us beside the daemon; returns when its calls came.
fn witness(hosted: &Hosted) -> Result<Receiver<Instant>> {
    use std::io::{Read as _, Write as _};
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let config = json!({"url": format!("http://{}/", listener.local_addr()?), "content_type": "json"});
    let hook = json!({"type": "gitea", "active": true, "events": ["push"], "config": config});
    hosted.gitea()?.api("POST", &format!("/repos/{}/hooks", hosted.repo), Some(&hook))?;
    let (sender, calls) = channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let now = Instant::now();
            let answered = stream
                .read(&mut [0; 4096])
                .and_then(|_| stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"));
            if answered.is_ok() && sender.send(now).is_err() {
                return;
            }
        }
    });
    Ok(calls)
}

/// Makes a world whose first rollout is over.
fn rolled_out() -> Result<(Hosted, Daemon)> {
    let hosted = Hosted::start()?;
    let daemon = hosted.world.start()?;
    let thread = hosted.await_request(None, "first")?;
    hosted.approve(thread)?;
    hosted.await_status(&hosted.head()?, "", "success")?;
    Ok((hosted, daemon))
}

fn rated(ours: &[Duration], floor: &[Duration]) -> Value {
    let (ours, floor) = (summary(ours), summary(floor));
    let of = |value: &Value| value["p50Ms"].as_f64().unwrap_or_default();
    json!({"ratioP50": ratio(of(&ours), of(&floor)), "gitfleet": ours, "floor": floor})
}

/// B11: from a push to its first pending status.
pub fn push_to_status() -> Result<Value> {
    let (hosted, _daemon) = rolled_out()?;
    let (statuses, hooks, floors) = pushes(&hosted)?;
    let rest: Vec<Duration> = statuses.iter().zip(&hooks).map(|(all, hook)| all.saturating_sub(*hook)).collect();
    Ok(json!({
        "pushToStatus": rated(&statuses, &floors), "giteaCallToStatus": rated(&rest, &floors),
        "pushToGiteaCall": summary(&hooks), "profile": profile(), "load": load(),
    }))
}

/// From an approval to the next stage's first write, and what whole rollouts ask of the host.
pub fn approvals() -> Result<Value> {
    let (hosted, _daemon) = rolled_out()?;
    let (mut writes, mut floors, mut counted) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..MERGES {
        let merged = merge(&hosted, round, round + COUNTED >= MERGES)?;
        eprintln!("merge {round}: write {:?}, floor {:?}, calls {:?}", merged.write, merged.floor, merged.calls);
        writes.push(merged.write);
        floors.push(merged.floor);
        counted.extend(merged.calls);
    }
    Ok(json!({
        "approvalToWrite": rated(&writes, &floors), "callsOfRollouts": counted, "profile": profile(), "load": load(),
    }))
}

/// Measures pushes: until the first pending status, until Gitea calls, and the floor.
fn pushes(hosted: &Hosted) -> Result<(Vec<Duration>, Vec<Duration>, Vec<Duration>)> {
    let calls = witness(hosted)?;
    let gitea = hosted.gitea()?;
    let remote = gitea.address_for(&hosted.repo, &gitea.user, &gitea.token);
    let (mut statuses, mut hooks, mut floors) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..WARM_UP + PUSHES {
        let version = format!("push-{round}-");
        hosted.write(&version)?;
        while calls.try_recv().is_ok() {}
        push(&hosted.world.repo(), &remote, "main")?;
        let pushed = Instant::now();
        let commit = hosted.head()?;
        let told = hosted.await_first(&commit)?;
        // It may have come before git said that the push was done.
        let hooked = calls.recv_timeout(LIMIT).context("Gitea's call")?.saturating_duration_since(pushed);
        hosted.await_status(&commit, "/canary", "pending")?;
        hosted.await_written("canary", &version)?;
        let floor = hosted.push_floor(&commit)?;
        eprintln!("B11, push {round}: status {:?}, Gitea's call {hooked:?}, floor {floor:?}", told - pushed);
        if round >= WARM_UP {
            statuses.push(told - pushed);
            hooks.push(hooked);
            floors.push(floor);
        }
    }
    Ok((statuses, hooks, floors))
}

/// What was found out about one merged pull request.
struct Merged {
    /// From its approval to the next stage's first write.
    write: Duration,
    floor: Duration,
    /// What the daemon asked the host from the merge until all was told.
    calls: Option<Value>,
}

/// Opens and merges a pull request, and approves its rollout of three stages.
fn merge(hosted: &Hosted, round: usize, counts: bool) -> Result<Merged> {
    let gitea = hosted.gitea()?;
    let repo = hosted.world.repo();
    let remote = gitea.address_for(&hosted.repo, &gitea.user, &gitea.token);
    let branch = format!("merge-{round}-");
    git(&repo, &["fetch", "-q", &remote, "main"])?;
    git(&repo, &["checkout", "-q", "-B", &branch, "FETCH_HEAD"])?;
    hosted.write(&branch)?;
    gitea.push(&repo, NAME, &branch)?;
    let pull = gitea.open_pull(&gitea.token, &hosted.repo, &branch, "main", &branch)?;
    until("the plan", LIMIT, || Ok((!gitea.comments(&hosted.repo, pull)?.is_empty()).then_some(())))
        .with_context(|| hosted.world.log())?;
    let before = if counts { hosted.await_quiet()? } else { BTreeMap::new() };
    let commit = gitea.merge(&gitea.token, &hosted.repo, pull, MergeWay::Merge)?;
    hosted.await_status(&commit, "/canary", "pending")?;
    hosted.await_request(Some(pull), &branch)?;
    hosted.await_written("canary", &branch)?;
    let sent = hosted.approve(pull)?;
    let write = hosted.await_written("early", &branch)? - sent;
    hosted.await_status(&commit, "", "success")?;
    let mut calls = None;
    if counts {
        let mut new = hosted.await_quiet()?;
        for (labels, count) in &mut new {
            *count -= before.get(labels).copied().unwrap_or_default();
        }
        new.retain(|_, count| *count > 0);
        calls = Some(json!({"all": new.values().sum::<u64>(), "of": new}));
    }
    Ok(Merged { write, floor: hosted.approval_floor(pull)?, calls })
}

/// What came of one phase of deliveries.
struct Phase {
    good: Vec<Duration>,
    /// Answers that are not those that they should be.
    wrong: usize,
}

/// B12: the good deliveries alone, and among ten times as many without a right signature; the same against a server that does
/// nothing, which is what the machine and the sender make of it.
pub async fn deliveries() -> Result<Value> {
    let hosted = Hosted::start()?;
    let daemon = hosted.world.start()?;
    hosted.await_request(None, "first")?;
    let id = &hosted.gitea()?.api("GET", &format!("/repos/{}", hosted.repo), None)?["id"];
    let filling = "x".repeat(DELIVERY_BYTES);
    let body = json!({"ref": "refs/heads/main", "repository": {"id": id}, "filling": filling}).to_string();
    let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, hosted.secret.as_bytes()), body.as_bytes());
    let signature = hexadecimal(mac.as_ref());
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let bare = format!("http://{}/", listener.local_addr()?);
    let app = axum::Router::new().fallback(|headers: http::HeaderMap, _: bytes::Bytes| async move {
        let is_good = headers.get("x-good").is_some();
        if is_good { http::StatusCode::ACCEPTED } else { http::StatusCode::UNAUTHORIZED }
    });
    tokio::spawn(async move { axum::serve(listener, app).await });
    let ours = format!("http://127.0.0.1:{}/webhooks/gitea", hosted.world.port());
    let of = |value: &Value, key: &str| value[key].as_f64().unwrap_or_default();
    let mut results = json!({});
    let resident = daemon.memory_kb("VmRSS")?;
    for (name, url) in [("floor", &bare), ("gitfleet", &ours)] {
        let alone = phase(url, &body, &signature, 0).await?;
        let crowded = phase(url, &body, &signature, UNSIGNED_EACH).await?;
        let wrong = alone.wrong + crowded.wrong;
        let (alone, crowded) = (summary(&alone.good), summary(&crowded.good));
        let times = ratio(of(&crowded, "p95Ms"), of(&alone, "p95Ms"));
        results[name] = json!({"alone": alone, "crowded": crowded, "ratioP95": times, "wrongAnswers": wrong});
    }
    let (after, peak) = (daemon.memory_kb("VmRSS")?, daemon.memory_kb("VmHWM")?);
    results["residentKb"] = json!({"before": resident, "after": after, "peak": peak});
    results["panics"] = json!(hosted.world.log().matches("panicked").count());
    let (_, metrics) = http("GET", hosted.world.port(), "/metrics", &[], "")?;
    let counted = metrics.lines().filter_map(|line| line.strip_prefix("gitfleet_http_webhooks_total"));
    results["counted"] = json!(counted.collect::<Vec<_>>());
    results["profile"] = profile();
    results["load"] = load();
    Ok(results)
}

/// Sends the good deliveries at their pace, with so many others beside each: half unsigned, half signed with another secret.
async fn phase(url: &str, body: &str, signature: &str, others: usize) -> Result<Phase> {
    let client = reqwest::Client::builder().timeout(LIMIT).build()?;
    let forged = "0".repeat(signature.len());
    let send = |signature: Option<String>, is_good: bool| {
        let mut request = client.post(url).header("content-type", "application/json").header("x-gitea-event", "push");
        request = request.body(body.to_owned());
        if is_good {
            request = request.header("x-good", "1");
        }
        if let Some(signature) = signature {
            request = request.header("x-gitea-signature", signature);
        }
        tokio::spawn(async move {
            let sent = Instant::now();
            let status = request.send().await.map(|answer| answer.status().as_u16());
            (sent.elapsed(), status.is_ok_and(|status| status == if is_good { 202 } else { 401 }))
        })
    };
    let mut pace = tokio::time::interval(SIGNED_PAUSE);
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for _ in 0..SIGNED {
        pace.tick().await;
        for number in 0..others {
            bad.push(send((number % 2 == 0).then(|| forged.clone()), false));
        }
        good.push(send(Some(signature.to_owned()), true));
    }
    let mut phase = Phase { good: Vec::new(), wrong: 0 };
    for answer in good {
        let (took, right) = answer.await?;
        phase.good.push(took);
        phase.wrong += usize::from(!right);
    }
    for answer in bad {
        phase.wrong += usize::from(!answer.await?.1);
    }
    Ok(phase)
}
