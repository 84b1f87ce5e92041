use proptest::prelude::*;
use secrecy::ExposeSecret as _;

use super::*;

mod access;
mod http;
mod notify;
mod prometheus;
mod sources;
mod verify;

const FULL: &str = r#"
apiVersion: gitfleet.io/v1alpha1
kind: Configuration
source:
  url: https://git.example/platform/fleet.git
  branch: main
  path: .
  pollInterval: 30s
  tokenFile: /etc/gitfleet/git-token
  onHistoryRewrite: Hold
members:
  - name: "prod-*"
    kubeconfig: {path: /etc/gitfleet/prod.kubeconfig, context: "{name}", allowExec: [aws-iam-authenticator]}
  - name: "edge-*"
    directory: ./rendered/{name}
forge:
  type: gitea
  url: https://git.example
  repository: platform/fleet
  tokenFile: /etc/gitfleet/forge-token
  webhookSecretFile: /etc/gitfleet/webhook-secret
  approvals: {minPermission: write, required: 1, selfApproval: false, expireAfter: 72h}
decisions:
  kubeconfig: {path: /etc/gitfleet/hub.kubeconfig}
  namespace: argocd
  configMap: ocm-placement
store: {path: ./.gitfleet}
http:
  listen: 127.0.0.1:8080
  tokens: []
"#;

const HEAD: &str = "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\n";

fn parse(text: &str) -> Result<Configuration, Vec<InputError>> {
    Configuration::parse(text, Path::new("/etc/fleet"), &BTreeMap::new())
}

/// Parses what stands behind the head.
fn body(text: &str) -> Result<Configuration, Vec<InputError>> {
    parse(&format!("{HEAD}{text}"))
}

fn complaints(text: &str) -> String {
    body(text).map_or_else(|errors| lines(&errors), |_| "accepted".to_owned())
}

#[test]
fn the_documented_file_is_read_whole() {
    let read = parse(FULL).unwrap();
    assert_eq!(read.source.poll_interval, POLL_INTERVAL_DEFAULT);
    assert_eq!(read.source.branch.as_deref(), Some("main"));
    assert_eq!(read.source.local(), None);
    let forge = read.forge.as_ref().unwrap();
    assert_eq!((&forge.approvals, forge.owner_and_name()), (&Approvals::default(), ("platform", "fleet")));
    assert_eq!(read.decisions.as_ref().unwrap().config_map, DECISIONS_CONFIG_MAP_DEFAULT);
    assert_eq!(read.store.path, Path::new("/etc/fleet/.gitfleet"));
    assert_eq!(read.http, Http::default());
    let rows = [
        (
            "prod-eu-1",
            Some(MemberAccess::Live {
                kubeconfig: "/etc/gitfleet/prod.kubeconfig".into(),
                context: Some("prod-eu-1".into()),
                allow_exec: vec!["aws-iam-authenticator".into()],
            }),
        ),
        ("edge-7", Some(MemberAccess::Directory { path: "/etc/fleet/rendered/edge-7".into() })),
        ("test-1", None),
    ];
    for (name, expected) in rows {
        assert_eq!(read.member(&name.into()), expected, "{name}");
    }
    let excluded: Vec<PathBuf> = vec!["/etc/fleet/.gitfleet".into(), "/etc/fleet/rendered".into()];
    assert_eq!(read.excluded_paths(), excluded);
}

#[test]
fn what_is_left_out_has_its_default() {
    let read = body("source: {url: .}\nforge:\n").unwrap();
    let full = parse(FULL).unwrap();
    assert_eq!(read.source.local(), Some(Path::new("/etc/fleet")));
    assert_eq!(read.source.path, SOURCE_PATH_DEFAULT);
    assert_eq!(read.source.poll_interval, POLL_INTERVAL_DEFAULT);
    assert_eq!(read.source.on_history_rewrite, HistoryRewrite::Hold);
    assert!(!read.source.allow_insecure_http);
    assert_eq!((read.store, read.http), (full.store, full.http));
    assert_eq!((read.members, read.forge, read.decisions), (vec![], None, None));
}

#[test]
fn every_unknown_field_is_named_with_a_suggestion() {
    insta::assert_snapshot!(complaints(
        "sorce: {url: x}\nsource: {url: https://x, pollInterval: 5, tokenfile: a}\nmembers: [{name: a, directroy: x}]\n\
         forge: {type: gitlab, url: https://x, approvals: {minPermission: writ, required: 0}}\nhttp: {listen: here, tokens: [{name: 1}]}\n"
    ), @r#"
    gitfleet.yaml: forge.approvals.minPermission: is "writ", must be read or write or admin
    gitfleet.yaml: forge.approvals.required: is 0, must be at least 1
    gitfleet.yaml: forge.type: is "gitlab", must be gitea or github
    gitfleet.yaml: http.listen: "here" is no address and port; write one like "127.0.0.1:8080"
    gitfleet.yaml: http.tokens[0].name: is a whole number, must be a text (put it in quotes: "1")
    gitfleet.yaml: http.tokens[0].tokenFile: is missing
    gitfleet.yaml: members[0].directroy: is unknown (did you mean `directory`?)
    gitfleet.yaml: sorce: is unknown (did you mean `source`?)
    gitfleet.yaml: source.pollInterval: is a whole number, must be a text (put it in quotes: "5")
    gitfleet.yaml: source.tokenfile: is unknown (did you mean `tokenFile`?)
    "#);
}

#[test]
fn files_that_are_no_configuration_are_refused() {
    for (name, text, expected) in [
        ("empty", "", "must be a map of fields"),
        ("list", "- a", "must be a map of fields"),
        ("another kind", "apiVersion: v1\nkind: ConfigMap", "must be gitfleet.io/v1alpha1"),
        ("no source", HEAD, "source: is missing"),
        ("members is nothing", &format!("{HEAD}source: {{url: .}}\nmembers:\n"), "members: is nothing, must be a list"),
        ("bad indent", "a: [b\nc: d", "gitfleet.yaml:"),
        ("key twice", "kind: a\nkind: b", "gitfleet.yaml:2"),
        ("two documents", &format!("{FULL}---\n{FULL}"), "gitfleet.yaml:"),
    ] {
        let errors = parse(text).unwrap_err();
        assert!(lines(&errors).contains(expected), "{name}: {}", lines(&errors));
    }
}

#[test]
fn rules_beyond_the_schema_hold() {
    let cases = [
        ("source: {url: \"\"}", "source.url: is empty"),
        ("source: {url: 'https://bot:hunter2@git.example/a'}", "source.url: holds a password"),
        ("source: {url: x, verify: {}}", "source.verify: names no keys"),
        ("source: {url: x, verify: {commits: Head, openpgp: {keysFile: k}}}", "accepted"),
        ("source: {url: x, verify: {commits: Some, openpgp: {keysFile: k}}}", "source.verify.commits"),
        ("source: {url: x, verify: {ssh: {}}}", "source.verify.ssh.allowedSignersFile: is missing"),
        ("source: {url: 'http://git.example/a', tokenFile: t}", "source.url: would send the token over plain http"),
        ("source: {url: 'http://git.example/a', tokenFile: t, allowInsecureHttp: true}", "accepted"),
        ("source: {url: 'http://git.example/a'}", "accepted"),
        ("source: {url: x, pollInterval: 999ms}", "source.pollInterval: is shorter than 1s"),
        ("source: {url: x, pollInterval: 1s}", "accepted"),
        ("source: {url: x, path: ../y}", "source.path: \"../y\" must be a path inside"),
        ("source: {url: x, path: /y}", "source.path: \"/y\" must be a path inside"),
        (
            "source: {url: x}\nhttp: {tokens: [{name: a, tokenFile: t}, {name: a, tokenFile: u}]}",
            "\"a\" is given twice",
        ),
        ("source: {url: .gitfleet/x}", "store.path: is or holds the source"),
    ];
    for (text, expected) in cases {
        let found = complaints(text);
        assert!(found.contains(expected), "{text}: {found}");
        assert!(!found.contains("hunter2"), "{found}");
    }
}

#[test]
fn members_do_not_get_in_each_others_way() {
    let cases = [
        ("[{name: a}]", "members[0]: needs exactly one of"),
        ("[{name: a, directory: x, kubeconfig: {path: k}}]", "members[0]: needs exactly one of"),
        ("[{name: '', directory: x}]", "members[0].name: is empty"),
        ("[{name: '*', directory: x}]", "would lead every member of \"*\" to one place"),
        ("[{name: '*', kubeconfig: {path: k}}]", "would lead every member of \"*\" to one place"),
        ("[{name: '*', kubeconfig: {path: '{name}.conf'}}]", "accepted"),
        ("[{name: a, directory: 'x/{cluster}'}]", "has a placeholder other than {name}"),
        (
            "[{name: a, directory: x}, {name: b, directory: ./y/../x}]",
            "members[1].directory: /etc/fleet/x is also in the way",
        ),
        ("[{name: a, directory: x}, {name: b, directory: x/b}]", "is also in the way of members[0]"),
        ("[{name: a, directory: x}, {name: b, directory: xb}]", "accepted"),
        (
            "[{name: 'e-*', directory: 'x/{name}'}, {name: b, directory: x/e-1}]",
            "x/e-1 is also in the way of members[0]",
        ),
        (
            "[{name: b, directory: x/e-1}, {name: 'e-*', directory: 'x/{name}'}]",
            "x/e-1 is also in the way of members[0]",
        ),
        ("[{name: e-1, directory: x/e-1}, {name: 'e-*', directory: 'x/{name}'}]", "accepted"),
        (
            "[{name: 'e-*', directory: 'x/{name}'}, {name: e-1, directory: z}]",
            "\"e-1\" is never reached: members[0] (\"e-*\")",
        ),
        ("[{name: 'e-*', directory: 'x/{name}'}, {name: 'e-a*', directory: 'y/{name}'}]", "is never reached"),
        ("[{name: 'e-a*', directory: 'x/{name}'}, {name: 'e-*', directory: 'y/{name}'}]", "accepted"),
        ("[{name: a, directory: repo}]", "would be written over or around the source"),
        ("[{name: '*', directory: './{name}'}]", "would be written over or around the source"),
        ("[{name: '*', directory: 'repo/rendered/{name}'}]", "accepted"),
    ];
    for (members, expected) in cases {
        let found = complaints(&format!("source: {{url: repo}}\nmembers: {members}"));
        assert!(found.contains(expected), "{members}: {found}");
    }
}

#[test]
fn environment_beats_the_file() {
    let env: BTreeMap<String, String> = [
        ("GITFLEET_SOURCE_URL", "../other"),
        ("GITFLEET_SOURCE_BRANCH", "next"),
        ("GITFLEET_SOURCE_PATH", "fleet"),
        ("GITFLEET_STORE_PATH", "state"),
        ("GITFLEET_HTTP_LISTEN", "[::1]:9000"),
        ("GITFLEET_HTTP_PEER_URL", "http://10.1.2.3:9000"),
        ("GITFLEET_SERVER", "ignored"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    assert!(OVERRIDES.iter().all(|(name, _)| env.contains_key(*name)), "an override has no test");
    for text in [FULL, HEAD] {
        let read = Configuration::parse(text, Path::new("/etc/fleet"), &env).unwrap();
        assert_eq!(read.source.local(), Some(Path::new("../other")), "paths from outside stay as given");
        assert_eq!((read.source.branch.as_deref(), read.source.path.as_str()), (Some("next"), "fleet"));
        assert_eq!(read.store.path, Path::new("state"));
        assert_eq!((read.http.listen.port(), read.http.peer_url.as_deref()), (9000, Some("http://10.1.2.3:9000")));
    }
    let bad = BTreeMap::from([("GITFLEET_HTTP_LISTEN".to_owned(), "x".to_owned())]);
    assert!(lines(&Configuration::parse(FULL, Path::new("/"), &bad).unwrap_err()).contains("http.listen"));
}

#[test]
fn durations_are_what_people_write() {
    for (text, seconds) in [("30s", 30), ("10m", 600), ("72h", 259_200), ("1h30m", 5400), ("2 minutes", 120)] {
        assert_eq!(values::parse_duration(text), Ok(std::time::Duration::from_secs(seconds)), "{text}");
    }
    for text in ["", "30", "0s", "-5s", "5 parsecs", "3d", "s", "99999999999999999999h"] {
        assert!(values::parse_duration(text).is_err(), "{text}");
    }
}

#[test]
fn ux29_defaults_of_the_schema_are_written_as_in_the_file() {
    fn defaults(schema: &serde_json::Value, found: &mut Vec<serde_json::Value>) {
        if schema["format"] == values::DURATION_FORMAT {
            found.extend(schema.get("default").cloned());
        }
        let below = schema.as_object().into_iter().flat_map(serde_json::Map::values);
        below.chain(schema.as_array().into_iter().flatten()).for_each(|part| defaults(part, found));
    }
    let mut found = Vec::new();
    defaults(&schema(), &mut found);
    assert!(found.len() >= 3, "{found:?}");
    for default in found {
        let text = default.as_str().unwrap_or_else(|| panic!("{default}"));
        assert!(values::parse_duration(text).is_ok(), "{text}");
    }
}

#[test]
fn the_schema_documents_every_field() {
    fn undocumented(path: &str, schema: &serde_json::Value, found: &mut Vec<String>) {
        let sections = schema.as_object().into_iter().flatten();
        for (name, inner) in sections {
            let path = format!("{path}/{name}");
            if let (true, Some(fields)) = (name == "properties", inner.as_object()) {
                let bare = fields.iter().filter(|(_, field)| field.get("description").is_none());
                found.extend(bare.map(|(field, _)| format!("{path}/{field}")));
            }
            undocumented(&path, inner, found);
        }
    }
    let mut found = Vec::new();
    undocumented("", &schema(), &mut found);
    assert_eq!(found, Vec::<String>::new());
    assert_eq!(schema()["additionalProperties"], false);
}

#[test]
fn secrets_come_from_files_and_stay_out_of_messages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    for (content, expected) in [("abc123\n", "abc123"), ("abc123", "abc123"), ("abc123\r\n", "abc123"), (" x ", " x ")]
    {
        fs::write(&path, content).unwrap();
        let secret = read_secret(&path).unwrap();
        assert_eq!(secret.expose_secret(), expected);
        assert!(!format!("{secret:?}").contains(expected));
    }
    let large = vec![b'x'; usize::try_from(SECRET_BYTES_MAX).unwrap() + 1];
    for content in [b"".as_slice(), b"\n", b"hunter2\nhunter3", b"hunter2\xff", &large] {
        fs::write(&path, content).unwrap();
        let error = read_secret(&path).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.contains("token") && !text.contains("hunter") && !text.contains("xxx"), "{text}");
    }
    let missing = read_secret(&folder.path().join("none")).unwrap_err();
    assert!(missing.to_string().contains("none"), "{missing}");
}

#[test]
fn load_names_the_file_and_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fleet.yaml");
    let env = BTreeMap::new();
    assert!(matches!(Configuration::load(&path, &env), Err(Error::Read { .. })));
    fs::write(&path, FULL).unwrap();
    assert_eq!(Configuration::load(&path, &env).unwrap().store.path, folder.path().join(".gitfleet"));
    fs::write(&path, HEAD).unwrap();
    let error = Configuration::load(&path, &env).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: source: is missing", path.display())), "{error}");
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,60}", cut in 0..FULL.len()) {
        let _ = parse(&text);
        let _ = body(&text);
        let _ = parse(&FULL[..cut]);
    }
}

#[test]
fn decisions_need_a_reader_and_names_that_can_be() {
    let source = "source: {url: ./fleet}\n";
    let read = body(&format!("{source}decisions: {{tokenFile: ./token}}\n")).unwrap().decisions.unwrap();
    assert_eq!((read.kubeconfig, read.token_file), (None, Some("/etc/fleet/token".into())));
    assert_eq!(read.namespace, DECISIONS_NAMESPACE_DEFAULT);
    let read =
        body(&format!("{source}decisions: {{kubeconfig: {{path: hub, context: c}}}}\n")).unwrap().decisions.unwrap();
    assert_eq!(read.kubeconfig.unwrap().path, Path::new("/etc/fleet/hub"));
    for (decisions, words) in [
        ("{}", "decisions: names neither kubeconfig nor tokenFile"),
        ("{tokenFile: t, namespace: Argo}", "decisions.namespace: \"Argo\" is no name"),
        ("{tokenFile: t, configMap: a/b}", "decisions.configMap: \"a/b\" is no name"),
        ("{tokenFile: t, configmap: x}", "configMap"),
        ("{kubeconfig: {context: c}}", "decisions.kubeconfig.path"),
    ] {
        let found = complaints(&format!("{source}decisions: {decisions}\n"));
        assert!(found.contains(words), "{decisions}: {found}");
    }
}

#[test]
fn the_repository_is_named_or_follows_from_the_source() {
    let gitea = "type: gitea, url: 'https://Git.Example/sub', tokenFile: t";
    let github = "type: github, tokenFile: t";
    for (source, forge, expected) in [
        ("https://git.example/sub/platform/fleet.git", gitea, Some(("platform", "fleet"))),
        ("https://git.example:443/sub/platform/fleet", gitea, Some(("platform", "fleet"))),
        ("ssh://git@git.example:2222/platform/fleet.git", gitea, Some(("platform", "fleet"))),
        ("git@git.example:platform/fleet.git", gitea, Some(("platform", "fleet"))),
        ("https://github.com/platform/fleet/", github, Some(("platform", "fleet"))),
        ("https://github.com/platform", github, None),
        ("https://github.com/a/b/c", github, None),
        ("https://github.com.evil/platform/fleet", github, None),
        ("file://github.com/platform/fleet", github, None),
        ("./platform/fleet", github, None),
        ("https://git.example/platform/fleet", "type: github, tokenFile: t, repository: a/b.c", Some(("a", "b.c"))),
    ] {
        let ssh = if source.contains('@') { ", ssh: {keyFile: k, knownHostsFile: h}" } else { "" };
        let text = format!("source: {{url: '{source}'{ssh}}}\nforge: {{{forge}}}");
        if let Some(expected) = expected {
            assert_eq!(body(&text).unwrap().forge.unwrap().owner_and_name(), expected, "{text}");
        } else {
            let found = complaints(&text);
            assert!(found.contains("forge.repository: is missing") && found.contains("OWNER/NAME"), "{text}: {found}");
        }
    }
}

#[test]
fn the_forge_has_one_account_and_a_safe_address() {
    for (forge, expected) in [
        ("type: gitea, tokenFile: t, repository: a/b", "forge.url: is missing"),
        ("type: github, tokenFile: t, repository: a/b", "accepted"),
        ("type: github, tokenFile: t, repository: a", "forge.repository: \"a\" must be OWNER/NAME"),
        ("type: github, tokenFile: t, repository: a/b/c", "must be OWNER/NAME"),
        ("type: github, tokenFile: t, repository: a/..", "must be OWNER/NAME"),
        ("type: github, repository: a/b", "forge.tokenFile: is missing"),
        ("type: github, app: {id: 1, privateKeyFile: k}, repository: a/b", "accepted"),
        ("type: github, tokenFile: t, app: {id: 1, privateKeyFile: k}, repository: a/b", "forge: names both"),
        ("type: gitea, url: 'https://x', app: {id: 1, privateKeyFile: k}, repository: a/b", "forge.app: is for github"),
        (
            "type: gitea, url: 'http://x', tokenFile: t, repository: a/b",
            "forge.url: would send the token over plain http",
        ),
        ("type: gitea, url: 'http://x', allowInsecureHttp: true, tokenFile: t, repository: a/b", "accepted"),
        (
            "type: gitea, url: 'git.example', tokenFile: t, repository: a/b",
            "forge.url: \"git.example\" must be an address",
        ),
        ("type: gitea, url: 'https:///x', tokenFile: t, repository: a/b", "must be an address"),
        ("type: gitea, url: 'https://bot:hunter2@x', tokenFile: t, repository: a/b", "forge.url: names an account"),
        ("type: github, tokenFile: t, repository: a/b, caFile: ca", "forge.caFile: is for gitea only"),
        ("type: github, tokenFile: t, repository: a/b, proxy: 'http://p'", "forge.proxy: is for gitea only"),
        (
            "type: gitea, url: 'https://x', tokenFile: t, repository: a/b, proxy: 'http://hunter2@p'",
            "forge.proxy: names an account",
        ),
        ("type: gitea, url: 'https://x/?a=b', tokenFile: t, repository: a/b", "must end with the host or a path"),
    ] {
        let found = complaints(&format!("source: {{url: x}}\nforge: {{{forge}}}"));
        assert!(found.contains(expected), "{forge}: {found}");
        assert!(!found.contains("hunter2"), "{found}");
    }
    for (approver, is_one) in [
        ("user:ann", true),
        ("team:platform/release", true),
        ("team:platform/Release Crew", true),
        ("ann", false),
        ("user:", false),
        ("user:a/b", false),
        ("team:platform", false),
        ("team:platform/", false),
        ("team:a/b/c", false),
        ("group:ann", false),
    ] {
        let found = complaints(&format!(
            "source: {{url: x}}\nforge: {{type: github, tokenFile: t, repository: a/b, approvals: {{approvers: ['{approver}']}}}}"
        ));
        let complained = found.contains("forge.approvals.approvers[0]: ");
        assert_eq!((complained, found == "accepted"), (!is_one, is_one), "{approver}: {found}");
    }
}

#[test]
fn approvers_of_folders_are_checked_as_all_others() {
    // the entries, what is complained about
    for (paths, wanted) in [
        ("{path: teams/shop, approvers: ['user:ann']}", "accepted"),
        ("{path: ./teams/shop/, approvers: ['team:acme/shop']}, {path: teams, approvers: ['user:ann']}", "accepted"),
        ("{path: teams, approvers: ['ann']}", "forge.approvals.paths[0].approvers[0]: "),
        ("{path: teams, approvers: []}", "forge.approvals.paths[0].approvers: "),
        ("{path: ../teams, approvers: ['user:ann']}", "forge.approvals.paths[0].path: "),
        ("{path: '.', approvers: ['user:ann']}", "forge.approvals.paths[0].path: "),
        ("{path: a, approvers: ['user:a']}, {path: ./a, approvers: ['user:b']}", "forge.approvals.paths[1].path: "),
    ] {
        let found = complaints(&format!(
            "source: {{url: x}}\nforge: {{type: github, tokenFile: t, repository: a/b, approvals: {{paths: [{paths}]}}}}"
        ));
        assert!(found.contains(wanted), "{paths}: {found}");
    }
}

#[test]
fn webhook_secrets_are_one_or_two_and_never_empty() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hook-secret");
    for (content, expected) in
        [("one\n", vec!["one"]), ("new\nold", vec!["new", "old"]), ("a\r\nb\r\n", vec!["a", "b"])]
    {
        fs::write(&path, content).unwrap();
        let read = read_webhook_secrets(&path).unwrap();
        assert_eq!(read.iter().map(secrecy::ExposeSecret::expose_secret).collect::<Vec<_>>(), expected);
    }
    for content in ["", "\n", "\nhunter2", " ", "hunter2\n\n3", "hunter2\n \n", "1\n2\n3", "hun\tter2"] {
        fs::write(&path, content).unwrap();
        let error = read_webhook_secrets(&path).unwrap_err().to_string();
        assert!(error.contains("hook-secret") && !error.contains("hunter2"), "{content:?}: {error}");
    }
    assert!(read_webhook_secrets(&folder.path().join("none")).is_err());
}

#[test]
fn expressions_of_health_are_compiled_when_the_file_is_read() {
    let file = |health: &str| format!("source: {{url: /fleet}}\n{health}");
    let read = body(&file(
        "health:\n  others: NotTrackable\n  kinds:\n  - {group: example.org, kind: Widget, available: 'object.status.ready', \
         failed: 'object.status.phase == \"Failed\"'}\n",
    ));
    let health = read.expect("it has no errors").health;
    assert_eq!((health.others, health.kinds.len()), (OtherKinds::NotTrackable, 1));
    assert_eq!(body(&file("")).expect("it has no errors").health, HealthSettings::default());

    let complaints = complaints(&file(
        "health:\n  kinds:\n  - kind: A\n    failed: 'true'\n    available: object.status.\n  - kind: B\n    available: cluster.a == 1\n  \
         - kind: C\n  - kind: C\n    available: object.scores('a').size() == 0\n",
    ));
    let lines: Vec<&str> = complaints.lines().filter(|line| line.starts_with(FILE_NAME_DEFAULT)).collect();
    let expected = [
        "gitfleet.yaml:8: health.kinds[0].available: ",
        "gitfleet.yaml:10: health.kinds[1].available: ",
        "gitfleet.yaml:11: health.kinds[2]: says neither",
        "gitfleet.yaml:13: health.kinds[3].available: asks for scores",
        "gitfleet.yaml:12: health.kinds[3]: is a second rule for C",
    ];
    assert_eq!(lines.len(), expected.len(), "{complaints}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}");
    }
}
