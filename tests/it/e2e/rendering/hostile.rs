//! Hostile kustomizations and charts: each is refused with the right words, or does no harm.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use daemon::commit_reader::Error;
use model::rendering::{Capabilities, Release};
use render::{InputFile, Job};

use super::*;
use crate::e2e::daemon::LIMIT;
use crate::e2e::fleet::until;

/// What becomes of a hostile folder.
enum End {
    /// The commit is refused with these words.
    Refused(&'static str),
    /// It is refused with one of these, whichever limit is reached first.
    RefusedByOne([&'static str; 2]),
    /// It is rendered, and the objects do not have this text.
    Without(&'static str),
}

impl End {
    /// Returns the words of which one is said.
    fn words(&self) -> &[&'static str] {
        match self {
            Refused(words) | Without(words) => std::slice::from_ref(words),
            RefusedByOne(words) => words,
        }
    }
}

use End::{Refused, RefusedByOne, Without};
use testservers::program;

/// A case: its name, the files of the folder `h` (`..` leads to its neighbours), and its end. `PORT` in a file is one that is listened at.
type Row = (&'static str, &'static [(&'static str, &'static str)], End);

/// Listens at a port: what connects is seen.
fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("it is asked without waiting");
    let port = listener.local_addr().expect("an address").port().to_string();
    (listener, port)
}

fn nobody_connected(listener: &TcpListener, name: &str) {
    let asked = listener.accept().map(|_| ()).expect_err(name);
    assert_eq!(asked.kind(), ErrorKind::WouldBlock, "{name}: somebody connected");
}

fn try_all(rows: &[Row]) {
    let place = TempDir::new().expect("a folder");
    let folder = programs(place.path());
    let (listener, port) = listener();
    let mut wrong = Vec::new();
    fs::write(place.path().join("outside.yaml"), map("outside", "outside-value")).expect("a file");
    for (number, (name, content, end)) in rows.iter().enumerate() {
        let repo = place.path().join(number.to_string());
        for (path, text) in *content {
            files(&repo.join("h"), &[(path, &text.replace("PORT", &port))]);
        }
        let rendering = rendering(&folder);
        let read = read_folder(&repo, &rendering);
        if let Err(why) = compared(end, read, &place.path().display().to_string()) {
            wrong.push(format!("{name}: {why}"));
        }
        nobody_connected(&listener, name);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Compares an end with what became of a folder; the error says what is wrong.
fn compared(end: &End, read: Result<Tree, Error>, place: &str) -> Result<(), String> {
    match (end, read) {
        (Refused(_) | RefusedByOne(_), Err(error)) => {
            let errors = error.refused().map_err(|error| error.in_full())?;
            let text = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
            let words = end.words();
            let is_right =
                words.iter().any(|words| text.contains(words)) && !text.contains(place) && !text.contains("hunter22");
            if is_right { Ok(()) } else { Err(format!("is to be refused with {words:?}: {text}")) }
        }
        (Without(secret), Ok(tree)) => {
            let text: String = tree.manifests.iter().map(|manifest| manifest.object.to_string()).collect();
            let is_right = !text.is_empty() && !text.contains(secret);
            if is_right { Ok(()) } else { Err(format!("is not to have {secret:?}: {text}")) }
        }
        (Refused(_) | RefusedByOne(_), Ok(tree)) => {
            Err(format!("is to be refused with {:?}: {:?}", end.words(), tree.manifests))
        }
        (Without(_), Err(error)) => Err(format!("is to do no harm: {:?}", error.refused())),
    }
}

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: web}\n";
const CHART: &str = "apiVersion: v2\nname: h\nversion: 1.0.0\n";
const K: &str = "kustomization.yaml";
const T: &str = "templates/map.yaml";
const R: &str = "../r/release.gitfleet.yaml";

const REMOTE: &str = "is remote (commit what it has, and name that: nothing is fetched while a folder is rendered)";

#[test]
fn hostile_kustomizations() {
    try_all(KUSTOMIZATIONS);
}

const KUSTOMIZATIONS: &[Row] = &[
    ("http base", &[(K, "resources: ['http://127.0.0.1:PORT/x.yaml']")], Refused(REMOTE)),
    ("https base", &[(K, "resources: ['https://127.0.0.1:PORT/x.yaml']")], Refused(REMOTE)),
    ("base by a field in other letters", &[(K, "reSources: ['http://127.0.0.1:PORT/x.yaml']")], Refused(REMOTE)),
    ("git base", &[(K, "resources: ['git::http://127.0.0.1:PORT/org/repo']")], Refused(REMOTE)),
    ("ssh base", &[(K, "resources: ['ssh://git@127.0.0.1:PORT/org/repo']")], Refused("an address is remote")),
    ("scp base", &[(K, "resources: ['git@127.0.0.1:org/repo.git']")], Refused("an address is remote")),
    ("base of a host", &[(K, "resources: ['github.com/org/repo//x?ref=main']")], Refused(REMOTE)),
    ("local repository as a base", &[(K, "resources: ['file:///tmp/repo']")], Refused(REMOTE)),
    ("absolute path", &[(K, "resources: [/etc/hostname]")], Refused("leads out of the source's path")),
    ("path that escapes", &[(K, "resources: [../../outside.yaml]")], Refused("leads out of the source's path")),
    ("file beside", &[(K, "resources: [../b.yaml]"), ("../b.yaml", MAP)], Refused("is no file in or below the folder")),
    (
        "patch that escapes",
        &[(K, "patches: [{path: ../../outside.yaml}]")],
        Refused("Kustomize reads files nowhere else"),
    ),
    (
        "file of the machine in a generator",
        &[(K, "configMapGenerator: [{name: a, files: [/etc/passwd]}]")],
        Refused("is not in or below"),
    ),
    (
        "environment of a process in a generator",
        &[(K, "configMapGenerator: [{name: a, files: [/proc/self/environ]}]")],
        Refused("is not in or below"),
    ),
    (
        "remote file in a generator",
        &[(K, "secretGenerator: [{name: a, files: ['http://127.0.0.1:PORT/x']}]")],
        Refused(REMOTE),
    ),
    (
        "environment of the daemon by name",
        &[
            (K, "configMapGenerator: [{name: a, namespace: web, envs: [e.env]}]"),
            ("e.env", "CARGO_MANIFEST_DIR\nPATH\nHOME\n"),
        ],
        Without("/"),
    ),
    ("remote OpenAPI schema", &[(K, "openapi: {path: 'http://127.0.0.1:PORT/x.json'}")], Refused(REMOTE)),
    ("remote configuration", &[(K, "configurations: ['http://127.0.0.1:PORT/x.yaml']")], Refused(REMOTE)),
    ("chart", &[(K, "helmCharts: [{name: a, repo: 'http://127.0.0.1:PORT'}]")], Refused("Kustomize would start helm")),
    (
        "exec function",
        &[
            (K, "resources: [m.yaml]\ntransformers: [f.yaml]"),
            ("m.yaml", MAP),
            (
                "f.yaml",
                "apiVersion: x.io/v1\nkind: F\nmetadata:\n  name: f\n  annotations:\n    config.kubernetes.io/function: |\n      exec: {path: ./run.sh}\n",
            ),
            ("run.sh", "#!/bin/sh\ntouch ran\n"),
        ],
        Refused("asks for a function, which is a program"),
    ),
    (
        "container function",
        &[
            (K, "generators: [f.yaml]"),
            (
                "f.yaml",
                "apiVersion: x.io/v1\nkind: F\nmetadata:\n  name: f\n  annotations:\n    config.kubernetes.io/function: |\n      container: {image: x, network: true}\n",
            ),
        ],
        Refused("asks for a function"),
    ),
    (
        "exec plugin",
        &[(K, "generators: [p.yaml]"), ("p.yaml", "apiVersion: some.example/v1\nkind: Plugin\nmetadata: {name: p}\n")],
        Refused("external plugins disabled"),
    ),
    (
        "built-in plugin that fetches",
        &[
            (K, "resources: [m.yaml]\ntransformers: [p.yaml]"),
            ("m.yaml", MAP),
            (
                "p.yaml",
                "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: p}\npath: http://127.0.0.1:PORT/x\n",
            ),
        ],
        Refused("names a remote file"),
    ),
    (
        "built-in plugin with the path of the machine",
        &[
            (K, "resources: [m.yaml]\ntransformers: [p.yaml]"),
            ("m.yaml", MAP),
            ("p.yaml", "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: p}\npath: /etc/passwd\n"),
        ],
        Refused("by its absolute path"),
    ),
    (
        "built-in plugin that escapes",
        &[
            (K, "resources: [m.yaml]\ntransformers: [p.yaml]"),
            ("m.yaml", MAP),
            (
                "p.yaml",
                "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: p}\npath: ../../../../../../etc/passwd\n",
            ),
        ],
        Refused("is not in or below 'h'"),
    ),
    (
        "circle",
        &[(K, "resources: [../i]"), ("../i/kustomization.yaml", "resources: [../h]")],
        Refused("leads back to itself: h -> i -> h"),
    ),
    ("itself", &[(K, "resources: [.]")], Refused("leads back to itself: h -> h")),
    (
        "aliases without end",
        &[
            (K, "resources: [m.yaml]"),
            (
                "m.yaml",
                "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: &h [*g,*g,*g,*g,*g,*g,*g,*g,*g]\ni: [*h,*h,*h,*h,*h,*h,*h,*h,*h]\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: web}\n",
            ),
        ],
        Refused("needs more memory than the 1073741824 bytes that it may have"),
    ),
    (
        "error that quotes a secret",
        &[
            (
                K,
                "resources: [s.yaml]\npatches:\n- patch: |\n    kind: Secret\n    stringData: {password: hunter22-hunter22}\n    - x\n",
            ),
            ("s.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: web}\n"),
        ],
        Refused("(hidden)"),
    ),
    (
        "control characters",
        &[(K, "resources: [m.yaml]\npatches: [{patch: \"\\e[31m\\n- x: \\e[2J\"}]"), ("m.yaml", MAP)],
        Refused("unable to parse SM or JSON patch"),
    ),
    ("no resource at all", &[(K, "# nothing\n")], Refused("kustomization.yaml is empty")),
];

#[test]
fn hostile_charts() {
    try_all(CHARTS);
}

const CHARTS: &[Row] = &[
    (
        "file above the chart",
        &[
            ("Chart.yaml", CHART),
            ("../secret.txt", "above-value"),
            (
                T,
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: web}\ndata: {k: {{ .Files.Get \"../secret.txt\" | quote }}}\n",
            ),
        ],
        Without("above-value"),
    ),
    (
        "file of the machine",
        &[
            ("Chart.yaml", CHART),
            (
                T,
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: web}\ndata: {k: {{ .Files.Get \"/etc/passwd\" | quote }}}\n",
            ),
        ],
        Without("root:"),
    ),
    (
        "all files",
        &[
            ("Chart.yaml", CHART),
            (
                T,
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: web}\ndata: {k: {{ range $p, $_ := .Files.Glob \"**\" }}{{ $p }}{{ end }}x}\n",
            ),
        ],
        Without("etc"),
    ),
    (
        "environment by env",
        &[("Chart.yaml", CHART), (T, "k: {{ env \"PATH\" }}")],
        Refused("function \"env\" not defined"),
    ),
    (
        "environment by expandenv",
        &[("Chart.yaml", CHART), (T, "k: {{ expandenv \"$PATH\" }}")],
        Refused("function \"expandenv\" not defined"),
    ),
    (
        "objects of a cluster",
        &[
            ("Chart.yaml", CHART),
            (
                T,
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: web}\ndata: {k: {{ lookup \"v1\" \"Secret\" \"\" \"\" | toJson | quote }}}\n",
            ),
        ],
        Without("items"),
    ),
    (
        "names of hosts",
        &[
            ("Chart.yaml", CHART),
            (
                T,
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: web}\ndata: {k: {{ getHostByName \"localhost\" | quote }}}\n",
            ),
        ],
        Without("127.0.0.1"),
    ),
    (
        "dependency that would be fetched",
        &[
            (
                "Chart.yaml",
                "apiVersion: v2\nname: h\nversion: 1.0.0\ndependencies: [{name: d, version: 1.0.0, repository: 'http://127.0.0.1:PORT'}]\n",
            ),
            (T, MAP),
        ],
        Refused("the chart \"d\" is not in charts/"),
    ),
    (
        "dependency of a dependency",
        &[
            ("Chart.yaml", CHART),
            (T, MAP),
            (
                "charts/c/Chart.yaml",
                "apiVersion: v2\nname: c\nversion: 1.0.0\ndependencies: [{name: d, version: 1.0.0, repository: 'http://127.0.0.1:PORT'}]\n",
            ),
            ("charts/c/templates/m.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: web}\n"),
        ],
        Without("fetched"),
    ),
    (
        "schema that is fetched",
        &[("Chart.yaml", CHART), (T, MAP), ("values.schema.json", "{\"$ref\": \"http://127.0.0.1:PORT/x.json\"}")],
        Without("fetched"),
    ),
    (
        "schema that reads files",
        &[("Chart.yaml", CHART), (T, MAP), ("values.schema.json", "{\"$ref\": \"file:///etc/passwd\"}")],
        Without("root:"),
    ),
    (
        "template that includes itself",
        &[("Chart.yaml", CHART), (T, "{{ define \"a\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}")],
        Refused("error calling include"),
    ),
    (
        "output without end",
        &[
            ("Chart.yaml", CHART),
            (
                T,
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: web}\ndata:\n{{- range $i, $_ := until 2000 }}\n  k{{ $i }}: {{ repeat 100000 \"x\" }}\n{{- end }}\n",
            ),
        ],
        RefusedByOne(["needs more memory than the 1073741824 bytes", "printed more than 67108864 bytes and was ended"]),
    ),
    (
        "memory without end",
        &[
            ("Chart.yaml", CHART),
            (T, "{{ $x := repeat 1000000 \"x\" }}{{ range until 100000 }}{{ $x = printf \"%s%s\" $x $x }}{{ end }}"),
        ],
        Refused("needs more memory than the 1073741824 bytes that it may have"),
    ),
    (
        "values with aliases without end",
        &[
            ("Chart.yaml", CHART),
            (T, MAP),
            (
                "values.yaml",
                "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: &h [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n",
            ),
        ],
        Refused("document contains excessive aliasing"),
    ),
    (
        "fail with a secret",
        &[("Chart.yaml", CHART), ("values.yaml", "password: hunter22-hunter22\n"), (T, "{{ fail .Values.password }}")],
        Refused("(hidden)"),
    ),
    (
        "more objects than a commit may have",
        &[
            ("Chart.yaml", CHART),
            (
                T,
                "{{- range until 50001 }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a{{ . }}, namespace: web}\n{{- end }}\n",
            ),
        ],
        Refused("the limit"),
    ),
    (
        "one document larger than a file may be",
        &[
            ("Chart.yaml", CHART),
            (
                T,
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: web}\ndata: {k: {{ repeat 6000000 \"x\" }}}\n",
            ),
        ],
        Refused("the limit is 5242880"),
    ),
    (
        "text that is no manifest",
        &[("Chart.yaml", CHART), (T, "a: [")],
        Refused("YAML parse error on h/templates/map.yaml"),
    ),
    (
        "name that is an option",
        &[("../--debug/Chart.yaml", CHART), ("../--debug/templates/m.yaml", MAP)],
        Refused("release name check failed"),
    ),
    (
        "folder that is an option of kustomize",
        &[("../-h/kustomization.yaml", "resources: [m.yaml]"), ("../-h/m.yaml", MAP)],
        Without("Usage"),
    ),
    (
        "two programs at once",
        &[("Chart.yaml", CHART), (K, "resources: [x.yaml]")],
        Refused("what renders it is not clear"),
    ),
    (
        "two objects of one name",
        &[("Chart.yaml", CHART), (T, MAP), ("templates/b.yaml", MAP)],
        Refused("the same object stands at h:3 too"),
    ),
    (
        "file of the machine as values",
        &[("Chart.yaml", CHART), (T, MAP), (R, "chart: ../h\nvalues: [/etc/passwd]")],
        Refused("\"/etc/passwd\" is no file of the source"),
    ),
    (
        "values that escape",
        &[("Chart.yaml", CHART), (T, MAP), (R, "chart: ../h\nvalues: [../../outside.yaml]")],
        Refused("\"../../outside.yaml\" is no file of the source"),
    ),
    (
        "remote values",
        &[("Chart.yaml", CHART), (T, MAP), (R, "chart: ../h\nvalues: ['http://127.0.0.1:PORT/v.yaml']")],
        Refused("is no file of the source"),
    ),
    (
        "remote chart of a release",
        &[(R, "chart: oci://127.0.0.1:PORT/chart")],
        Refused("there is no Chart.yaml in r/oci:/127.0.0.1:"),
    ),
    ("chart of a release that escapes", &[(R, "chart: ../../x")], Refused("leads out of the source's path")),
    (
        "name of a release that is an option",
        &[("Chart.yaml", CHART), (T, MAP), (R, "chart: ../h\nname: --post-renderer")],
        Refused("name: must be a DNS subdomain"),
    ),
    (
        "namespace of a release that is an option",
        &[("Chart.yaml", CHART), (T, MAP), (R, "chart: ../h\nnamespace: --debug")],
        Refused("namespace: must be a DNS label"),
    ),
    (
        "values with what looks like another option",
        &[("Chart.yaml", CHART), (T, MAP), (R, "chart: ../h\nvalues: ['--set=a=b']"), ("../r/--set=a=b", "{}")],
        Without("--set"),
    ),
    (
        "gitfleet's own configuration",
        &[
            ("Chart.yaml", CHART),
            (T, MAP),
            ("templates/c.yaml", "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nrender: {folder: /tmp}\n"),
        ],
        Without("Configuration"),
    ),
];

#[test]
fn what_the_first_look_would_miss_is_stopped_by_the_program_and_its_surroundings() {
    type Missed = (Renderer, &'static str, &'static [(&'static str, &'static str)]);
    let place = TempDir::new().expect("a folder");
    let programs =
        Programs::new(Some(programs(place.path())), place.path().join("scratch")).launched_by(program().into());
    let (listener, port) = listener();
    let rows: [Missed; 7] = [
        (Renderer::Kustomize, "a remote file", &[(K, "resources: ['http://127.0.0.1:PORT/x.yaml']")]),
        (Renderer::Kustomize, "a remote repository", &[(K, "resources: ['git::http://127.0.0.1:PORT/org/repo']")]),
        (
            Renderer::Kustomize,
            "a remote patch",
            &[(K, "resources: [m.yaml]\npatches: [{path: 'http://127.0.0.1:PORT/x'}]"), ("m.yaml", MAP)],
        ),
        (Renderer::Kustomize, "a file of the machine", &[(K, "configMapGenerator: [{name: a, files: [/etc/passwd]}]")]),
        (
            Renderer::Kustomize,
            "a function",
            &[
                (K, "resources: [m.yaml]\ntransformers: [f.yaml]"),
                ("m.yaml", MAP),
                (
                    "f.yaml",
                    "apiVersion: x.io/v1\nkind: F\nmetadata:\n  name: f\n  annotations:\n    config.kubernetes.io/function: |\n      exec: {path: /bin/true}\n",
                ),
            ],
        ),
        (Renderer::Kustomize, "a chart", &[(K, "helmCharts: [{name: a, repo: 'http://127.0.0.1:PORT'}]")]),
        (
            Renderer::Helm,
            "a dependency",
            &[(
                "Chart.yaml",
                "apiVersion: v2\nname: h\nversion: 1.0.0\ndependencies: [{name: d, version: 1.0.0, repository: 'http://127.0.0.1:PORT'}]\n",
            )],
        ),
    ];
    for (renderer, name, content) in rows {
        let inputs: Vec<InputFile> = content
            .iter()
            .map(|(path, text)| InputFile {
                path: format!("h/{path}").into(),
                content: text.replace("PORT", &port).into_bytes(),
            })
            .collect();
        let version = if renderer == Renderer::Helm { HELM } else { KUSTOMIZE };
        let program = programs.find(renderer, version).expect("it is there");
        let release = Release {
            chart: "h".into(),
            name: "h".into(),
            namespace: "default".into(),
            values: Vec::new(),
            capabilities: Capabilities::default(),
        };
        let job = match renderer {
            Renderer::Kustomize => Job::Kustomization("h"),
            Renderer::Helm => Job::Chart { release: &release, values: None },
        };
        let end = program.render(job, &inputs);
        let error = end.expect_err(name);
        assert!(error.is_of_the_folder(), "{name}: {error}");
        nobody_connected(&listener, name);
    }
}

/// A program that shows what it was given.
const NOSY: &str = "#!/bin/bash
if [[ $1 == version ]]; then echo v5.8.2; exit; fi
echo 'apiVersion: v1'
echo 'kind: ConfigMap'
echo 'metadata: {name: a, namespace: web}'
echo 'data:'
echo \"  environment: '$(/usr/bin/env | /usr/bin/cut -d= -f1 | /usr/bin/sort | /usr/bin/tr '\\n' ' ')'\"
echo \"  memory: '$(ulimit -v)'\"
echo \"  files: '$(ulimit -n)'\"
echo \"  network: '$(/usr/bin/cut -d: -f1 -s /proc/self/net/dev | /usr/bin/tr -d ' \\n')'\"
echo \"  tree: '$(cd ..; /usr/bin/find . -type f | /usr/bin/sort | /usr/bin/tr '\\n' ' ')'\"
";

#[test]
fn a_program_gets_its_files_and_nothing_else() {
    let place = TempDir::new().expect("a folder");
    let folder = place.path().join("programs");
    fs::create_dir(&folder).expect("a folder");
    script(&folder.join("kustomize"), NOSY);
    let repo = place.path().join("repo");
    files(
        &repo,
        &[
            ("a/kustomization.yaml", "resources: [../b, x.yaml]"),
            ("a/x.yaml", MAP),
            ("a/.hidden", ""),
            ("b/kustomization.yaml", ""),
            ("c/d.yaml", ""),
        ],
    );
    let tree = read_folder(&repo, &rendering(&folder)).expect("it is read");
    let shown = |key: &str| tree.manifests[0].object["data"][key].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        shown("tree"),
        "./tree/a/.hidden ./tree/a/kustomization.yaml ./tree/a/x.yaml ./tree/b/kustomization.yaml "
    );
    let names: Vec<String> = shown("environment").split_whitespace().map(str::to_owned).collect();
    let known = [
        "GOMEMLIMIT",
        "GOTRACEBACK",
        "HOME",
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "PATH",
        "PWD",
        "SHLVL",
        "TMPDIR",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "_",
        "_RJEM_MALLOC_CONF",
        "OLDPWD",
    ];
    assert!(names.iter().all(|name| known.contains(&name.as_str())), "{names:?}");
    assert_eq!((shown("memory"), shown("files")), ((4 * 1024 * 1024).to_string(), "1024".to_owned()));
    // Some systems do not let a process leave the network: docs/security.md says what is left then.
    let may_leave =
        std::process::Command::new("unshare").args(["-Un", "true"]).status().is_ok_and(|status| status.success());
    assert_eq!(shown("network") == "lo", may_leave, "{}", shown("network"));
}

#[test]
fn a_program_that_does_not_end_is_ended() {
    let place = TempDir::new().expect("a folder");
    let folder = place.path().join("programs");
    fs::create_dir(&folder).expect("a folder");
    let version = "#!/bin/bash\nif [[ $1 == version ]]; then echo v5.8.2; exit; fi\n";
    // Its argument tells it from others.
    let words = place.path().join("words").display().to_string();
    let complaint = format!("/usr/bin/yes {words} >&2");
    let rows = [
        ("waits", "exec /usr/bin/tail -f /dev/null", "kustomize took longer than 1 s and was ended"),
        (
            "closes its output and waits",
            "exec >/dev/null 2>&1; exec /usr/bin/tail -f /dev/null",
            "kustomize took longer than 1 s",
        ),
        ("prints without end", "exec /usr/bin/yes", "kustomize printed more than 67108864 bytes and was ended"),
        ("has another program complain without end", &complaint, "kustomize took longer than 1 s"),
        ("dies", "kill -9 $$", "kustomize was ended at a limit of memory, time or size of files"),
    ];
    for (name, text, words) in rows {
        script(&folder.join("kustomize"), &format!("{version}{text}\n"));
        let programs = Programs::new(Some(folder.clone()), place.path().join("scratch")).launched_by(program().into());
        let found = programs.find(Renderer::Kustomize, KUSTOMIZE).expect("it is there");
        let program = if text.contains("exec /usr/bin/yes") { found } else { found.within(Duration::from_secs(1)) };
        let error = program.render(Job::Kustomization(""), &[]).expect_err(name).to_string();
        assert!(error.contains(words), "{name}: {error}");
    }
    let left = fs::read_dir(place.path().join("scratch")).expect("the folder").count();
    assert_eq!(left, 0, "no scratch folder is left");
    until("what the programs started is ended, too", LIMIT, || Ok((!is_running(&words)).then_some(()))).expect("it is");
}

/// Tells whether a program with an argument runs. Its launcher has the same argument and does not count.
fn is_running(argument: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("the processes are listed").flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    let has = |line: &[u8], wanted: &str| line.split(|byte| *byte == 0).any(|part| part == wanted.as_bytes());
    lines.into_iter().any(|line| has(&line, argument) && !has(&line, "--launch-renderer"))
}

#[test]
fn a_program_ends_with_whoever_started_it() {
    let place = TempDir::new().expect("a folder");
    let file = place.path().join("empty");
    fs::write(&file, "").expect("a file");
    let argument = file.display().to_string();
    let mut command = Command::new(program());
    command.args(["--launch-renderer", "/usr/bin/tail", "-f", &argument]).stdout(Stdio::null());
    // To Linux the thread is the starter.
    let (end, wait) = std::sync::mpsc::channel::<()>();
    let starter = thread::spawn(move || {
        let child = command.spawn().expect("it starts");
        wait.recv().expect_err("nothing is sent");
        child
    });
    until("it runs", LIMIT, || Ok(is_running(&argument).then_some(()))).expect("it does");
    drop(end);
    let mut child = starter.join().expect("it gives the child back");
    assert!(!child.wait().expect("it ends").success());
    assert!(!is_running(&argument));
}
