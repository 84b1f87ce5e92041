//! Against a double of a registry, which does what a real one never does.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::super::{OCI_LAYER_MAX_BYTES, Source, SourceSpec};
use super::*;
use model::artifact::{ArtifactSignature, digest_of};

/// An answer: status, headers, body.
type Answer = (u16, Vec<(&'static str, String)>, Vec<u8>);

/// A path, and the credentials that came with it.
type Asked = (String, Option<String>);

/// A layer of a manifest: media type, digest, size.
type Layer<'a> = (&'a str, &'a str, usize);

/// What a registry answers to paths, and what it was asked: host, path and credentials.
#[derive(Clone, Default)]
struct Double {
    answers: Arc<Mutex<BTreeMap<String, Answer>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// Whose credentials are wanted, and what is answered to others.
    wanted: Arc<Mutex<Option<(String, String)>>>,
}

impl Double {
    /// Listens on a port; returns it. It ends with the test's process.
    fn listen(&self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, double) = (listener.local_addr().unwrap().port(), self.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, double) = (BufReader::new(stream.unwrap()), double.clone());
                std::thread::spawn(move || {
                    let mut lines = Vec::new();
                    loop {
                        let mut line = String::new();
                        if stream.read_line(&mut line).unwrap_or(0) == 0 || line.trim().is_empty() {
                            break;
                        }
                        lines.push(line);
                    }
                    let Some(path) = lines.first().and_then(|line| line.split(' ').nth(1)) else { return };
                    let credentials = lines.iter().find_map(|line| {
                        let (name, value) = line.split_once(':')?;
                        name.eq_ignore_ascii_case("authorization").then(|| value.trim().to_owned())
                    });
                    let (status, headers, body) = double.answer(path, credentials.as_ref());
                    let headers: Vec<_> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
                    let headers = headers.concat();
                    let length = body.len();
                    let head = format!(
                        "HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
                    );
                    drop(stream.get_mut().write_all(&[head.as_bytes(), &body].concat()));
                });
            }
        });
        port
    }

    fn answer(&self, path: &str, credentials: Option<&String>) -> Answer {
        self.asked.lock().unwrap().push((path.to_owned(), credentials.cloned()));
        if let Some((wanted, challenge)) = &*self.wanted.lock().unwrap()
            && path.starts_with("/v2/")
            && credentials != Some(wanted)
        {
            return (401, vec![("WWW-Authenticate", challenge.clone())], Vec::new());
        }
        self.answers.lock().unwrap().get(path).cloned().unwrap_or((404, Vec::new(), Vec::new()))
    }

    fn put(&self, path: &str, status: u16, body: &[u8]) {
        self.answers.lock().unwrap().insert(path.to_owned(), (status, Vec::new(), body.to_vec()));
    }

    fn redirect(&self, path: &str, to: String) {
        let answer = (307, vec![("Location", to)], Vec::new());
        self.answers.lock().unwrap().insert(path.to_owned(), answer);
    }

    /// Puts a list of what refers to an artifact. `next` names the page after it.
    fn put_list(&self, path: &str, entries: &[serde_json::Value], next: Option<&str>) {
        let mut headers = vec![("Content-Type", format!("{INDEX}; charset=utf-8"))];
        headers.extend(next.map(|next| ("Link", format!("<{next}>; rel=\"next\""))));
        let body = json!({ "manifests": entries }).to_string().into_bytes();
        self.answers.lock().unwrap().insert(path.to_owned(), (200, headers, body));
    }

    /// Puts an artifact with one file under the tag `main`; returns its digest and that of its layer.
    fn push(&self, content: &str) -> (String, String) {
        let layer = archive(content);
        let manifest = manifest(&[(TAR, &digest(&layer), layer.len())]);
        self.put(&format!("/v2/fleet/blobs/{}", digest(&layer)), 200, &layer);
        self.put("/v2/fleet/manifests/main", 200, &manifest);
        (digest(&manifest), digest(&layer))
    }

    /// Returns what was asked for since the last time.
    fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const TAR: &str = "application/vnd.oci.image.layer.v1.tar";

fn digest(bytes: &[u8]) -> String {
    digest_of(&Sha256::digest(bytes))
}

fn archive(content: &str) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    builder.append_data(&mut header, "apps/a.yaml", content.as_bytes()).unwrap();
    builder.into_inner().unwrap()
}

fn manifest(layers: &[Layer<'_>]) -> Vec<u8> {
    let layer = |(kind, digest, size): &Layer<'_>| json!({"mediaType": kind, "digest": digest, "size": size});
    let layers: Vec<_> = layers.iter().map(layer).collect();
    let annotations = json!({"org.opencontainers.image.revision": "main@sha1:1234\n\u{1b}[1m"});
    json!({"schemaVersion": 2, "layers": layers, "annotations": annotations}).to_string().into_bytes()
}

/// A source of the double.
struct Followed {
    double: Double,
    port: u16,
    state: tempfile::TempDir,
    source: Source,
}

impl Followed {
    fn new(of: impl FnOnce(&mut SourceSpec)) -> Self {
        let (double, state) = (Double::default(), tempfile::tempdir().unwrap());
        let port = double.listen();
        let mut spec = SourceSpec {
            location: format!("oci://127.0.0.1:{port}/fleet:main"),
            path: ".".to_owned(),
            allow_insecure_http: true,
            ..SourceSpec::default()
        };
        of(&mut spec);
        let source = Source::open(spec, state.path()).unwrap();
        Self { double, port, state, source }
    }

    fn poll(&mut self) -> Result<Option<CommitId>, String> {
        let polled = self.source.poll(&AtomicBool::new(false));
        let left: Vec<_> = fs::read_dir(self.state.path().join("mirrors"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == SCRATCH))
            .collect();
        assert_eq!(left, Vec::<PathBuf>::new(), "nothing unpacked is left");
        polled.map(|tip| tip.map(|tip| tip.commit)).map_err(|error| error.in_full())
    }

    fn refused(&mut self) -> String {
        self.poll().expect_err("it is refused")
    }
}

fn message(repository: &Path, commit: &CommitId) -> String {
    let mut git = std::process::Command::new("git");
    git.arg("--git-dir").arg(repository).args(["log", "-1", "--format=%B%P", commit.as_str()]);
    let output = git.output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn each_digest_is_a_commit_of_its_own_and_is_downloaded_once() {
    let mut followed = Followed::new(|_| ());
    let (digest, _) = followed.double.push("a: 1\n");
    let first = followed.poll().unwrap().unwrap();
    let repository = followed.source.reader().git_dir();
    let text = message(&repository, &first);
    assert_eq!(text.trim_end(), format!("OCI artifact {digest}\n\nRevision: main@sha1:1234[1m\nFiles: manifests"));
    assert_eq!(followed.source.artifact().unwrap().digest, digest);
    followed.double.asked();
    assert_eq!(followed.poll(), Ok(None));
    assert_eq!(followed.double.asked().len(), 1, "only the manifest");
    followed.double.push("a: 2\n");
    let second = followed.poll().unwrap().unwrap();
    assert_ne!(first, second);
    followed.double.push("a: 1\n");
    assert_eq!(followed.poll(), Ok(Some(first.clone())), "the same digest is the same commit");
    // Whoever begins later, and has seen nothing else, has the same commit.
    let other = tempfile::tempdir().unwrap();
    let spec = SourceSpec {
        location: format!("oci://127.0.0.1:{}/fleet@{digest}", followed.port),
        path: ".".to_owned(),
        allow_insecure_http: true,
        ..SourceSpec::default()
    };
    let body = manifest(&[(TAR, &self::digest(&archive("a: 1\n")), archive("a: 1\n").len())]);
    followed.double.put(&format!("/v2/fleet/manifests/{digest}"), 200, &body);
    let mut pinned = Source::open(spec, other.path()).unwrap();
    assert_eq!(pinned.poll(&AtomicBool::new(false)).unwrap().unwrap().commit, first);
}

#[test]
fn what_is_not_as_its_digest_says_is_refused() {
    let mut followed = Followed::new(|_| ());
    assert!(followed.refused().contains("the registry knows no such artifact"));
    let layer = archive("a: 1\n");
    let (good, size) = (digest(&layer), layer.len());
    let (other, gone) = (digest(b"other"), digest(b"gone"));
    let flux = "application/vnd.cncf.flux.content.v1.tar+gzip";
    let rows: Vec<(Vec<Layer<'_>>, &str)> = vec![
        (vec![], "it has 0 layers"),
        (vec![(TAR, &good, size), (TAR, &good, size)], "it has 2 layers"),
        (vec![("text/plain", &good, size)], "media type \"text/plain\""),
        (vec![(TAR, "sha512:00", size)], "not one of SHA-256"),
        (vec![(TAR, "sha256:../../x", size)], "not one of SHA-256"),
        (vec![(TAR, &good, usize::try_from(OCI_LAYER_MAX_BYTES).unwrap() + 1)], "more than the"),
        (vec![(TAR, &good, size - 1)], "sends more than the"),
        (vec![(TAR, &good, size + 1)], "size or digest differ"),
        (vec![(TAR, &other, size)], "size or digest differ"),
        (vec![(TAR, &gone, size)], "lacks a part of it"),
        (vec![(flux, &good, size)], "its archive cannot be read"),
    ];
    for blob in [&good, &other] {
        followed.double.put(&format!("/v2/fleet/blobs/{blob}"), 200, &layer);
    }
    for (layers, wanted) in rows {
        followed.double.put("/v2/fleet/manifests/main", 200, &manifest(&layers));
        let found = followed.refused();
        assert!(found.contains(wanted), "{wanted}: {found}");
    }
    // What cannot be unpacked is not downloaded with each poll.
    followed.double.asked();
    followed.refused();
    assert_eq!(followed.double.asked().len(), 1);
    for (body, wanted) in
        [(&b"{}"[..], "it has 0 layers"), (b"x", "cannot be read"), (b"{\"manifests\":[{}]}", "an index")]
    {
        followed.double.put("/v2/fleet/manifests/main", 200, body);
        let found = followed.refused();
        assert!(found.contains(wanted), "{wanted}: {found}");
    }
    followed.double.put("/v2/fleet/manifests/main", 503, b"");
    assert!(followed.refused().contains("cannot reach"));
    let pinned = format!("/v2/fleet/manifests/{other}");
    followed.double.put(&pinned, 200, &manifest(&[(TAR, &good, size)]));
    let location = format!("oci://127.0.0.1:{}/fleet@{other}", followed.port);
    let mut pinned = Followed::new(|spec| spec.location = location);
    assert!(pinned.refused().contains("the registry answers with sha256:"));
}

#[test]
fn digests_that_nothing_names_do_not_fill_the_disk() {
    let mut followed = Followed::new(|_| ());
    followed.double.push("a: 1\n");
    let first = followed.poll().unwrap().unwrap();
    followed.source.reader().pin("commit-1", &first).unwrap();
    followed.double.push("a: 2\n");
    let second = followed.poll().unwrap().unwrap();
    followed.double.push("a: 3\n");
    let third = followed.poll().unwrap().unwrap();
    assert!(followed.source.reader().has(&second), "there is room");
    let spec = SourceSpec {
        location: format!("oci://127.0.0.1:{}/fleet:main", followed.port),
        path: ".".to_owned(),
        allow_insecure_http: true,
        ..SourceSpec::default()
    };
    let kept = followed.source.reader().git_dir();
    let mut mirror = ArtifactMirror::open(spec, kept).unwrap();
    mirror.room = 0;
    followed.double.push("a: 4\n");
    let fourth = mirror.poll(&AtomicBool::new(false)).unwrap();
    let has = [&first, &second, &third, &fourth].map(|commit| mirror.folder.reader.has(commit));
    assert_eq!(has, [true, false, true, true], "what is pinned, what was last, and what is new");
    assert_eq!(mirror.room, OCI_KEPT_MAX_BYTES);
}

const LOGIN: &str = "Basic cm9ib3Q6aHVudGVyMg==";

fn signed_in(spec: &mut SourceSpec) {
    (spec.user, spec.token) = (Some("robot".to_owned()), Some("hunter2".to_owned().into()));
}

#[test]
fn credentials_are_for_who_asks_and_for_nobody_else() {
    let mut followed = Followed::new(signed_in);
    let (_, layer) = followed.double.push("a: 1\n");
    // The registry keeps layers at another place.
    let elsewhere = Double::default();
    let place = format!("http://127.0.0.1:{}/layer", elsewhere.listen());
    elsewhere.put("/layer", 200, &archive("a: 1\n"));
    followed.double.redirect(&format!("/v2/fleet/blobs/{layer}"), place);
    *followed.double.wanted.lock().unwrap() = Some((LOGIN.to_owned(), "Basic realm=\"r\"".to_owned()));
    followed.poll().unwrap().unwrap();
    let asked = followed.double.asked();
    let credentials: Vec<_> = asked.iter().map(|(_, credentials)| credentials.as_deref()).collect();
    assert_eq!(credentials, [None, Some(LOGIN), Some(LOGIN)]);
    assert_eq!(elsewhere.asked(), [("/layer".to_owned(), None)]);
    // The other place asks for credentials, too.
    *elsewhere.wanted.lock().unwrap() = Some((LOGIN.to_owned(), "Basic realm=\"r\"".to_owned()));
    let hidden = format!("http://127.0.0.1:{}/v2/hidden", elsewhere.listen());
    followed.double.redirect("/v2/fleet/manifests/main", hidden);
    assert!(followed.refused().contains("access to"));
    assert!(elsewhere.asked().iter().all(|(_, credentials)| credentials.is_none()));
    // Without any it says what to do.
    let mut stranger = Followed::new(|_| ());
    stranger.double.push("a: 1\n");
    *stranger.double.wanted.lock().unwrap() = Some((LOGIN.to_owned(), "Basic realm=\"r\"".to_owned()));
    assert!(stranger.refused().contains("set `user` and `tokenFile`"));
}

#[test]
fn a_token_is_fetched_where_the_registry_says() {
    let mut followed = Followed::new(signed_in);
    followed.double.push("a: 1\n");
    let realm = |address: &str| format!("Bearer realm=\"{address}\",service=\"s\",scope=\"repository:fleet:pull\"");
    let challenge = |address: &str| Some(("Bearer given".to_owned(), realm(address)));
    let path = "/token?scope=repository%3Afleet%3Apull&service=s";
    followed.double.put(path, 200, br#"{"token":"given"}"#);
    *followed.double.wanted.lock().unwrap() = challenge(&format!("http://127.0.0.1:{}/token", followed.port));
    followed.poll().unwrap().unwrap();
    let asked = followed.double.asked();
    assert!(asked.contains(&(path.to_owned(), Some(LOGIN.to_owned()))), "{asked:?}");
    assert!(asked.iter().filter(|(path, _)| path.starts_with("/v2/")).all(|(_, by)| by.as_deref() != Some(LOGIN)));
    followed.double.put(path, 200, b"{}");
    assert!(followed.refused().contains("gave none"));
    for address in ["http://auth.example/token", "ftp://127.0.0.1/token", "http://127.0.0.1.example/token"] {
        *followed.double.wanted.lock().unwrap() = challenge(address);
        let found = followed.refused();
        assert!(found.contains("over plain http") && !found.contains("hunter2"), "{address}: {found}");
    }
    *followed.double.wanted.lock().unwrap() = Some(("x".to_owned(), "Bearer service=\"s\"".to_owned()));
    assert!(followed.refused().contains("names no server"));
}

#[test]
fn signatures_are_read_where_cosign_puts_them() {
    let mut followed = Followed::new(|spec| spec.signatures = true);
    let (artifact, _) = followed.double.push("a: 1\n");
    followed.poll().unwrap().unwrap();
    assert_eq!(followed.source.artifact().unwrap().signatures, []);
    let tag = format!("/v2/fleet/manifests/{}.sig", artifact.replace(':', "-"));
    let payload = digest(b"payload");
    followed.double.put(&format!("/v2/fleet/blobs/{payload}"), 200, b"payload");
    let layer = |digest: &str| {
        json!({"mediaType": "application/vnd.dev.cosign.simplesigning.v1+json", "digest": digest, "size": 7,
            "annotations": {"dev.cosignproject.cosign/signature": "c2ln"}})
    };
    let body = |layers: &[serde_json::Value]| json!({ "layers": layers }).to_string().into_bytes();
    followed.double.put(&tag, 200, &body(&[json!({"mediaType": "x", "digest": "y", "size": 1}), layer(&payload)]));
    assert_eq!(followed.poll(), Ok(None));
    let seen = followed.source.artifact().unwrap().signatures.clone();
    let signed = ArtifactSignature::Tagged { payload: b"payload".to_vec(), signature: "c2ln".to_owned() };
    assert_eq!(seen, [signed]);
    followed.double.asked();
    assert_eq!(followed.poll(), Ok(None));
    assert_eq!(followed.double.asked().len(), 4, "manifests and lists alone");
    let other = digest(b"other");
    followed.double.put(&format!("/v2/fleet/blobs/{other}"), 200, b"payload");
    for (layers, wanted) in [
        (vec![layer(&other)], "is not what its digest says"),
        (vec![layer("sha256:../x")], "no digest of SHA-256"),
        (vec![layer(&payload); 51], "more than the 50"),
    ] {
        followed.double.put(&tag, 200, &body(&layers));
        let found = followed.refused();
        assert!(found.contains(wanted), "{wanted}: {found}");
    }
}

const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// Puts a bundle that refers to an artifact into the double; returns its entry in a list.
fn refer(double: &Double, bundle: &[u8], states: Option<&str>) -> serde_json::Value {
    double.put(&format!("/v2/fleet/blobs/{}", digest(bundle)), 200, bundle);
    let manifest = manifest(&[(BUNDLE, &digest(bundle), bundle.len())]);
    double.put(&format!("/v2/fleet/manifests/{}", digest(&manifest)), 200, &manifest);
    let annotations: BTreeMap<_, _> =
        states.map(|states| ("dev.sigstore.bundle.predicateType", states)).into_iter().collect();
    json!({"digest": digest(&manifest), "artifactType": BUNDLE, "annotations": annotations})
}

/// What a registry answers that keeps no lists of what refers to an artifact.
type Unknown = Option<(u16, Vec<(&'static str, String)>, &'static [u8])>;

#[test]
fn bundles_are_read_where_they_are_listed() {
    let elsewhere = Double::default();
    let login = format!("http://127.0.0.1:{}/login", elsewhere.listen());
    elsewhere.put("/login", 429, b"slower");
    let rows: [(&str, Unknown); 6] = [
        ("lists are kept", None),
        ("no such path", Some((404, Vec::new(), b"{}"))),
        ("not understood", Some((405, Vec::new(), b"no"))),
        ("not allowed", Some((403, Vec::new(), b"no"))),
        ("a page for people", Some((200, vec![("Content-Type", "text/html".to_owned())], b"<html>"))),
        ("led elsewhere", Some((303, vec![("Location", login)], b""))),
    ];
    for (name, unknown) in rows {
        let mut followed = Followed::new(|spec| spec.signatures = true);
        let double = followed.double.clone();
        let (artifact, _) = double.push("a: 1\n");
        let referrers = format!("/v2/fleet/referrers/{artifact}");
        let tag = format!("/v2/fleet/manifests/{}", artifact.replace(':', "-"));
        let list = match unknown {
            None => referrers,
            Some((status, headers, body)) => {
                double.answers.lock().unwrap().insert(referrers, (status, headers, body.to_vec()));
                tag
            }
        };
        let signature = refer(&double, b"a bundle", Some("https://sigstore.dev/cosign/sign/v1"));
        let mut unsaid = refer(&double, b"another bundle", None);
        unsaid["artifactType"] = json!("application/vnd.oci.empty.v1+json");
        unsaid["annotations"] = json!(null);
        let built = refer(&double, b"how it was built", Some("https://slsa.dev/provenance/v1"));
        let large = refer(&double, &vec![b'x'; 70_000], None);
        let other = json!({"digest": digest(b"x"), "artifactType": "application/spdx+json"});
        let gone = json!({"digest": digest(b"gone"), "artifactType": BUNDLE});
        double.put_list(&list, &[built, other, large, signature, unsaid.clone()], None);
        followed.poll().unwrap().unwrap();
        let seen = |followed: &Followed| followed.source.artifact().unwrap().signatures.clone();
        let bundles = [b"a bundle".to_vec(), b"another bundle".to_vec()].map(ArtifactSignature::Bundle);
        assert_eq!(seen(&followed), bundles, "{name}");
        double.asked();
        assert_eq!(followed.poll(), Ok(None));
        assert!(double.asked().iter().all(|(path, _)| !path.contains("/blobs/")), "{name}: nothing is read again");
        // What is gone is no obstacle, and is asked for again.
        double.put_list(&list, &[gone, unsaid.clone()], None);
        for _ in 0..2 {
            double.asked();
            assert_eq!(followed.poll(), Ok(None));
            assert_eq!(seen(&followed), bundles[1..], "{name}");
            assert!(double.asked().iter().any(|(path, _)| path.contains("/blobs/")), "{name}");
        }
        let pathless = json!({"digest": "sha256:../x", "artifactType": BUNDLE});
        double.put(&format!("/v2/fleet/manifests/{}", digest(b"changed")), 200, b"{}");
        let changed = json!({"digest": digest(b"changed"), "artifactType": BUNDLE});
        for (entries, wanted) in [
            (vec![pathless], "no digest of SHA-256"),
            (vec![changed], "is not what its digest says"),
            (vec![unsaid; 51], "51 signatures and statements about it, more than the 50"),
        ] {
            double.put_list(&list, &entries, None);
            let found = followed.refused();
            assert!(found.contains(wanted), "{name}: {wanted}: {found}");
        }
    }
}

#[test]
fn lists_have_pages_and_registries_may_be_busy() {
    let mut followed = Followed::new(|spec| spec.signatures = true);
    let double = followed.double.clone();
    let (artifact, _) = double.push("a: 1\n");
    let referrers = format!("/v2/fleet/referrers/{artifact}");
    let page = |number: usize| format!("{referrers}?page={number}");
    double.put_list(&referrers, &[refer(&double, b"first", None)], Some(&page(2)));
    double.put_list(&page(2), &[refer(&double, b"second", None)], None);
    followed.poll().unwrap().unwrap();
    let bundles = [b"first".to_vec(), b"second".to_vec()].map(ArtifactSignature::Bundle);
    assert_eq!(followed.source.artifact().unwrap().signatures, bundles);
    // A list without an end.
    double.put_list(&page(2), &[], Some(&page(2)));
    assert!(followed.refused().contains("more than 10 pages"));
    for status in [429, 503] {
        double.put(&referrers, status, b"later");
        assert!(followed.refused().contains("cannot reach"), "{status}");
    }
}
