//! Members that fail, hang or refuse.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};

use rustls::pki_types::{PrivateKeyDer, pem::PemObject as _};

use crate::e2e::daemon::{World, access, config_map, deployment, member_clusters, namespace, placement, value};
use crate::e2e::fleet::{Fleet, Member, Options, write_count};
use crate::e2e::shared;

fn app(name: &str, version: &str) -> String {
    [placement(name, ""), namespace(name), config_map(name, "settings", version)].concat()
}

fn names(members: &[Member]) -> Vec<&str> {
    members.iter().map(|m| m.name.as_str()).collect()
}

/// One fleet for one test: its servers are stopped and paused.
fn own(count: usize) -> Fleet {
    Fleet::start(Options::members(count)).expect("the test fleet starts")
}

#[test]
fn a_cluster_that_hangs_holds_nobody_back() {
    let fleet = own(3);
    let world = World::new(None, &access(&fleet.members));
    world.write("fleet.yaml", &member_clusters(names(&fleet.members)));
    let (hanging, well) = fleet.members.split_first().expect("three members");
    let on_well = format!("  policy: {{placementType: PickFixed, clusterNames: [{}]}}\n", names(well).join(", "));
    let of = |version: &str| {
        [
            placement("everywhere", ""),
            namespace("everywhere"),
            config_map("everywhere", "settings", version),
            placement("elsewhere", &on_well),
            namespace("elsewhere"),
            config_map("elsewhere", "settings", version),
        ]
        .concat()
    };
    world.write("a.yaml", &of("1"));
    world.commit("One");
    let daemon = world.start();
    daemon.await_rolled_out("everywhere", 0);
    daemon.await_rolled_out("elsewhere", 0);
    hanging.pause().expect("it hangs");
    world.write("a.yaml", &of("2"));
    world.commit("Two");
    daemon.await_rolled_out("elsewhere", 1);
    // Requests or pings find out that it hangs. It was started before: until its deadline it uses the budget of its own
    // placement, so that one waits with the other clusters.
    daemon.await_status("the cluster is offline and continues when it answers");
    assert!(well.iter().all(|m| value(m, "everywhere", "settings") == "1"), "one at a time");
    hanging.resume().expect("it continues");
    daemon.await_rolled_out("everywhere", 1);
    assert_eq!(value(hanging, "everywhere", "settings"), "2");
}

#[test]
fn a_crash_at_any_moment_repeats_nothing_and_skips_nothing() {
    let fleet = own(3);
    let world = World::new(None, &access(&fleet.members));
    world.write("fleet.yaml", &member_clusters(names(&fleet.members)));
    // Secrets and StatefulSets are nobody else's here: their writes are counted.
    let of = |version: usize| {
        let secret = |n: usize| {
            format!(
                "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: s{n}, namespace: crashes}}\nstringData: {{v: 'v{version}'}}\n"
            )
        };
        let set = deployment("crashes", "web", &format!("web:{version}"), "1s");
        let set = set.replace("kind: Deployment", "kind: StatefulSet");
        [placement("crashes", ""), namespace("crashes"), (0..10).map(secret).collect(), set].concat()
    };
    let writes = |resource: &str| -> Vec<u64> {
        fleet.members.iter().map(|m| write_count(&m.metrics().expect("metrics"), resource)).collect()
    };
    world.write("a.yaml", &of(0));
    world.commit("Zero");
    let daemon = world.start();
    daemon.await_rolled_out("crashes", 0);
    daemon.kill();
    // The moments: a commit is accepted, frozen, the first, second and third cluster is started.
    let moments =
        ["commit accepted", "snapshot created", "rolling out to cluster", "rolling out to cluster", "rolled out"];
    for (round, moment) in moments.iter().enumerate() {
        let before = (writes("secrets"), writes("statefulsets"));
        let seen = |message: &str| {
            world.log().iter().filter(|l| l["message"].as_str().is_some_and(|m| m.starts_with(message))).count()
        };
        let daemon = world.start();
        let already = seen(moment);
        world.write("a.yaml", &of(round + 1));
        world.commit("Next");
        let wanted = already + if round == 3 { 2 } else { 1 };
        daemon.until(moment, || seen(moment) >= wanted);
        daemon.kill();
        let daemon = world.start();
        daemon.await_rolled_out("crashes", round as u64 + 1);
        let after = (writes("secrets"), writes("statefulsets"));
        // What was in flight when it was killed may have been written or not, and is asked for again: that is the one
        // cluster under way, and each object at most once more.
        let more = |before: &[u64], after: &[u64], once: u64| -> Vec<u64> {
            before.iter().zip(after).map(|(before, after)| after - before - once).collect()
        };
        let (secrets, sets) = (more(&before.0, &after.0, 10), more(&before.1, &after.1, 1));
        let repeated = secrets.iter().zip(&sets).filter(|(secrets, sets)| **secrets + **sets > 0).count();
        assert!(repeated <= 1 && secrets.iter().all(|n| *n <= 10), "round {round}: repeated {secrets:?} {sets:?}");
        assert!(sets.iter().all(|n| *n <= 1), "round {round}: repeated {sets:?}");
        daemon.kill();
    }
    for member in &fleet.members {
        let set = member.get("crashes", "statefulset", "web").expect("asked").expect("it is there");
        assert_eq!(set["spec"]["template"]["spec"]["containers"][0]["image"], "web:5");
    }
}

/// A kubeconfig that is some other one with changes.
fn changed(world: &World, name: &str, from: &Member, changes: &[(&str, &str)]) -> PathBuf {
    let mut text = fs::read_to_string(&from.kubeconfig).expect("a kubeconfig");
    for (old, new) in changes {
        assert!(text.contains(old), "{old} stands in the kubeconfig");
        text = text.replace(old, new);
    }
    let path = world.path().join(format!("{name}.kubeconfig"));
    fs::write(&path, text).expect("the kubeconfig is written");
    path
}

/// A TLS server with a certificate of its own making that is no longer valid; returns its port and its certificate.
fn expired_server() -> (u16, String) {
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).expect("parameters");
    params.not_before = rcgen::date_time_ymd(2000, 1, 1);
    params.not_after = rcgen::date_time_ymd(2001, 1, 1);
    let certificate = params.self_signed(&key).expect("a certificate");
    let private = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).expect("a private key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("protocol versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .expect("a certificate with its key");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut tls = rustls::ServerConnection::new(Arc::clone(&config)).expect("a connection");
            drop(tls.complete_io(&mut stream));
        }
    });
    (port, certificate.pem())
}

#[test]
fn members_that_cannot_be_reached_are_told_apart_and_hold_nobody_back() {
    let member = &shared().members[0];
    let world = World::new(None, &[]);
    let (port, certificate) = expired_server();
    let config = fs::read_to_string(&member.kubeconfig).expect("a kubeconfig");
    let config: serde_json::Value = serde_json::from_str(&config).expect("JSON");
    let ca = config["clusters"][0]["cluster"]["certificate-authority-data"].as_str().expect("the certificate is in it");
    let other_ca = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &certificate);
    let expired = format!("https://127.0.0.1:{port}");
    let nowhere = format!("https://127.0.0.1:{}", crate::e2e::fleet::free_port().expect("a port"));
    let wrong_token = changed(&world, "wrong-token", member, &[(&member.token, "wrong")]);
    let no_server = changed(&world, "nowhere", member, &[(&member.url, &nowhere)]);
    let wrong_ca = changed(&world, "wrong-ca", member, &[(ca, &other_ca)]);
    let old = changed(&world, "expired", member, &[(ca, &other_ca), (&member.url, &expired)]);
    let missing = world.path().join("missing.kubeconfig");
    let members = [
        ("expired", old.as_path()),
        ("missing", missing.as_path()),
        ("nowhere", no_server.as_path()),
        ("well", member.kubeconfig.as_path()),
        ("wrong-ca", wrong_ca.as_path()),
        ("wrong-token", wrong_token.as_path()),
    ];
    world.configure(None, &members);
    world.write("fleet.yaml", &member_clusters(members.iter().map(|(name, _)| *name).chain(["unnamed"])));
    world.write("a.yaml", &app("unreachable", "1"));
    world.commit("One");
    let daemon = world.start();
    daemon.until("the one that is well is served", || value(member, "unreachable", "settings") == "1");
    let says = [
        ("expired", "certificate"),
        ("missing", "missing.kubeconfig"),
        ("nowhere", "refused"),
        ("wrong-ca", "certificate"),
        ("wrong-token", "refuses the credentials"),
    ];
    for (name, text) in says {
        daemon.until(&format!("{name} says {text:?}"), || {
            let status = daemon.status();
            status.lines().any(|line| line.contains(name) && line.contains(text))
        });
    }
    let clusters = daemon.get("clusters");
    let unnamed = clusters.iter().find(|c| c["metadata"]["name"] == "unnamed").expect("git names it");
    assert!(unnamed.to_string().contains("no entry of `members:`"), "{unnamed}");

    // Repaired without a restart: the kubeconfig is read again with each try.
    fs::copy(&wrong_token, &missing).expect("a kubeconfig appears");
    daemon.until("the missing one is tried again", || {
        daemon.status().lines().any(|line| line.contains("missing ") && line.contains("refuses the credentials"))
    });
}

/// `kubectl proxy`: plain HTTP/1.1 in front of an API server.
struct Proxy {
    child: Child,
    url: String,
}

impl Proxy {
    fn start(member: &Member) -> Self {
        static KUBECTL: OnceLock<PathBuf> = OnceLock::new();
        let kubectl =
            KUBECTL.get_or_init(|| crate::e2e::fleet::Binaries::build_or_cached().expect("the servers").kubectl);
        let mut child = Command::new(kubectl)
            .arg("--kubeconfig")
            .arg(&member.kubeconfig)
            .args(["proxy", "--port=0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the proxy starts");
        let mut line = Vec::new();
        let mut out = child.stdout.take().expect("its output is piped");
        let mut byte = [0];
        while out.read(&mut byte).expect("it says where it listens") == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        let line = String::from_utf8_lossy(&line).into_owned();
        let address = line.rsplit(' ').next().expect("an address").trim().to_owned();
        Self { child, url: format!("http://{address}") }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn a_server_without_http2_is_served_over_http1() {
    let member = &shared().members[1];
    let proxy = Proxy::start(member);
    let world = World::new(None, &[]);
    let path = world.path().join("proxy.kubeconfig");
    let mut file = fs::File::create(&path).expect("a kubeconfig");
    write!(
        file,
        "apiVersion: v1\nkind: Config\ncurrent-context: p\nclusters: [{{name: p, cluster: {{server: '{}'}}}}]\nusers: [{{name: p, user: {{}}}}]\n\
         contexts: [{{name: p, context: {{cluster: p, user: p}}}}]\n",
        proxy.url
    )
    .expect("the kubeconfig is written");
    world.configure(None, &[("proxied", &path)]);
    world.write("fleet.yaml", &member_clusters(["proxied"]));
    world.write("a.yaml", &app("proxied", "1"));
    world.commit("One");
    let daemon = world.start();
    daemon.await_rolled_out("proxied", 0);
    crate::e2e::daemon::patch(member, "proxied", "settings", "theirs");
    daemon.until("its watches work", || value(member, "proxied", "settings") == "1");
}
