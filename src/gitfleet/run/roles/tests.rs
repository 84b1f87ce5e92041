//! Two daemons on one store and one lease, in one process.

use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Instant as RealInstant;

use tokio::sync::oneshot;

use super::*;
use crate::server::Server;
use engine::store::MemoryStore;
use engine::store::lease::{LEASE_MIN, MemoryLeases, Taken};
use model::commands::{Command as PersonsCommand, Verb};

/// How long anything may take before a test gives up.
const LIMIT: Duration = Duration::from_mins(1);

const FLEET: &str = "\
apiVersion: cluster.kubernetes-fleet.io/v1beta1
kind: MemberCluster
metadata: {name: c1}
---
apiVersion: v1
kind: Namespace
metadata: {name: web}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: app, namespace: web}
data: {color: VALUE}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: web}
spec:
  resourceSelectors: [{group: '', version: v1, kind: Namespace, name: web}]
";

fn git(repository: &Path, words: &[&str]) {
    let names = ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"];
    let git = Command::new("git").arg("-C").arg(repository).args(words).envs(names.map(|name| (name, "ann"))).status();
    assert!(git.expect("git runs").success(), "git {words:?}");
}

/// What the daemons share.
struct Shared {
    folder: tempfile::TempDir,
    store: Arc<MemoryStore>,
    leases: Arc<MemoryLeases>,
    /// How far the clock of the database was set ahead.
    ahead: Arc<Mutex<Duration>>,
}

impl Shared {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["fleet", "members/c1"] {
            fs::create_dir_all(folder.path().join(name)).expect("a folder");
        }
        let ahead = Arc::new(Mutex::new(Duration::ZERO));
        let clock = Arc::clone(&ahead);
        let leases = MemoryLeases::by(move || RealInstant::now() + *clock.lock().expect("nobody failed"));
        git(&folder.path().join("fleet"), &["init", "-q"]);
        let shared = Self { folder, store: Arc::new(MemoryStore::new()), leases: Arc::new(leases), ahead };
        shared.commit("blue");
        shared
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn commit(&self, color: &str) {
        fs::write(self.path().join("fleet/all.yaml"), FLEET.replace("VALUE", color)).expect("a file");
        git(&self.path().join("fleet"), &["add", "-A"]);
        git(&self.path().join("fleet"), &["commit", "-q", "-m", color]);
    }

    /// Waits until a member holds a color.
    fn wait_for(&self, color: &str) {
        let holds = || {
            let mut folders = vec![self.path().join("members/c1")];
            while let Some(folder) = folders.pop() {
                for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                    if entry.path().is_dir() {
                        folders.push(entry.path());
                    } else if fs::read_to_string(entry.path())
                        .is_ok_and(|text| text.contains(&format!("color: {color}")))
                    {
                        return true;
                    }
                }
            }
            false
        };
        wait(color, || holds().then_some(()));
    }

    fn start(&self, name: &str) -> Replica {
        let root = self.path();
        let address = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
        fs::write(root.join("token"), "t0ken-of-ann").expect("a file");
        let file = root.join(format!("{name}.yaml"));
        let text = format!(
            "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\n\
             source: {{url: fleet}}\nmembers: [{{name: c1, directory: members/c1}}]\n\
             store: {{path: {name}}}\nhttp: {{listen: '{address}', tokens: [{{name: ann, tokenFile: token}}]}}\n"
        );
        fs::write(&file, text).expect("a file");
        let configuration = Configuration::load(&file, &std::collections::BTreeMap::new()).expect("it is right");
        let (leases, store) = (Arc::clone(&self.leases), Arc::clone(&self.store));
        let epoch = Arc::new(OnceLock::new());
        let led = Arc::clone(&epoch);
        let shared = SharedStore {
            leases: Box::new(move || Ok(leases.clone())),
            lead: Box::new(move |epoch| {
                led.set(epoch).expect("it leads once");
                Ok(store)
            }),
            lease: LEASE_MIN,
        };
        let (end, ended) = oneshot::channel::<()>();
        let (again, begun_again) = channel();
        let thread = std::thread::spawn(move || {
            let end = async { drop(ended.await) };
            daemon(configuration, None, None, end, shared, move || again.send(()).unwrap_or_default()).map(drop)
        });
        let token = secrecy::SecretString::from("t0ken-of-ann");
        Replica {
            address: address.to_string(),
            server: Server::new(&address.to_string(), Some(token)),
            end,
            thread,
            begun_again,
            epoch,
        }
    }
}

struct Replica {
    address: String,
    server: Server,
    end: oneshot::Sender<()>,
    thread: JoinHandle<anyhow::Result<()>>,
    begun_again: Receiver<()>,
    epoch: Arc<OnceLock<u64>>,
}

impl Replica {
    fn get(&self, path: &str) -> Option<(u16, String)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let answer = reqwest::get(format!("http://{}{path}", self.address)).await.ok()?;
            Some((answer.status().as_u16(), answer.text().await.ok()?))
        })
    }

    fn wait_ready(&self, wanted: &str) {
        wait(wanted, || self.get("/readyz").filter(|(status, text)| *status == 200 && text.starts_with(wanted)));
    }

    fn stop(self) {
        self.end.send(()).expect("it runs");
        self.thread.join().expect("it does not panic").expect("it ends well");
    }
}

fn command(verb: Verb) -> PersonsCommand {
    PersonsCommand {
        verb,
        target: "web".to_owned(),
        stage: None,
        to: None,
        to_commit: None,
        digest: None,
        reason: None,
        message: None,
        token: None,
    }
}

fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = RealInstant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(RealInstant::now() < until, "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_follower_passes_on_and_takes_over_when_the_leader_ends() {
    let shared = Shared::new();
    let a = shared.start("a");
    a.wait_ready("leads (epoch 1)");
    shared.wait_for("blue");
    let b = shared.start("b");
    b.wait_ready(&format!("follows http://{} (epoch 1)", a.address));
    let metrics = b.get("/metrics").expect("it answers").1;
    assert!(metrics.contains("gitfleet_leading 0\n") && metrics.contains("gitfleet_leading_epoch 1\n"), "{metrics}");
    assert_eq!(b.get("/api/v1/placements").expect("it answers"), a.get("/api/v1/placements").expect("it answers"));
    let pause = command(Verb::Pause);
    let done = b.server.execute(&pause).expect("the leader answers").expect("it is executed");
    assert!(done.message.contains("paused"), "{}", done.message);
    let resume = command(Verb::Resume);
    b.server.execute(&resume).expect("the leader answers").expect("it is executed");
    a.stop();
    b.wait_ready("leads (epoch 2)");
    assert_eq!(b.epoch.get(), Some(&2));
    shared.commit("green");
    shared.wait_for("green");
    b.stop();
}

#[test]
fn a_leader_that_was_replaced_begins_again() {
    let shared = Shared::new();
    let a = shared.start("a");
    a.wait_ready("leads (epoch 1)");
    // The lease ends and somebody takes it, as when the leader was stopped for long.
    let other = Holder { id: "other".to_owned(), url: "http://127.0.0.1:1".to_owned() };
    wait("the lease of another", || {
        *shared.ahead.lock().expect("nobody failed") += LEASE_MIN;
        matches!(shared.leases.take(&other, LIMIT * 60), Ok(Taken::Yes { .. })).then_some(())
    });
    a.begun_again.recv_timeout(LIMIT).expect("it begins again");
    let error = a.thread.join().expect("it does not panic").expect_err("another daemon leads");
    assert!(error.to_string().contains("another daemon leads since"), "{error}");
}
