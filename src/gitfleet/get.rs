//! `gitfleet get`: records as tables and objects.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::ValueEnum as _;
use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::Error;
use kube::core::{Selector, SelectorExt as _};
use serde_json::Value;

use super::Daemon;
use super::asked::{AskedKind, FirstWord, selector};
use super::completion::{CompletedName, names};
use super::exit::Exit;
use super::kinds::{GetKind, Listing, refused_value};
use super::listed;
use super::output::{self, Format, Terminal};
use super::paths::{PathColumns, Template};
use super::records::{RecordsSource, locate};
use super::subjects::{self, Subjects};
use super::wanted::ShownPart;
use daemon::manifests::Manifests;
use engine::store::saved::Records;
use model::records::Binding;
use model::target::is_kind_word;
use model::text;
use system::clock;
use views::objects::{member_namespace, work_name};
use views::rows::{line_key, without_heartbeat};
use views::table::{Columns, Table, table};

const EXAMPLES: &str = "\
Our nouns (placements, runs, snapshots, approvals, clusters, evictions, bindings) show what one looks for. Names of kinds (crp, \
csur, careq) show the columns that kubectl prints on a hub.

Examples:
  gitfleet get placements,runs
  gitfleet get clusters -l region=eu -w
  gitfleet get run/web-3 -o yaml
  gitfleet get crp -o jsonpath='{range .items[*]}{.metadata.name}{\"\\n\"}{end}'
  gitfleet get works -o custom-columns=CLUSTER:.metadata.namespace,NAME:.metadata.name";

/// Options of `get`.
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to show: one of these words, or a kind by its name, plural or short name, such as clusterresourceplacements, rp or
    /// csur.placement.kubernetes-fleet.io; several with commas; `all`; or KIND/NAME.
    #[arg(value_name = "KIND[/NAME]", value_parser = FirstWord::parser())]
    kind: FirstWord,
    /// Only the objects of these names: NAME or NAMESPACE/NAME. After a KIND/NAME: more of those.
    #[arg(value_name = "NAME", add = names(CompletedName::Runs))]
    names: Vec<String>,
    /// How to show it: table, wide, json, yaml, name, jsonpath=TEMPLATE or custom-columns=HEADER:PATH,... Objects are a List unless
    /// one name was given.
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = FormatParser)]
    output: GetFormat,
    /// Only objects in this namespace.
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    namespace: Option<String>,
    /// Objects of all namespaces, which is what is shown without it too.
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Only objects with these labels: a=b,c!=d,e,!f,g in (h,i). Placements keep no labels.
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = selector)]
    selector: Option<Selector>,
    /// Show what there is, and then each object that changes, until interrupted.
    #[arg(short, long, conflicts_with = "manifests")]
    watch: bool,
    /// Show KubeFleet's columns for our nouns too.
    #[arg(long)]
    kubefleet: bool,
    /// With works and -o json or yaml: show the objects themselves, as the cluster is to hold them, instead of their names.
    #[arg(long)]
    manifests: bool,
    /// With --manifests: a clone of the source that has the commits of the snapshots; by default what this machine keeps of the source, or the
    /// working folder.
    #[arg(long, value_name = "DIR", requires = "manifests")]
    repo: Option<PathBuf>,
    /// With --manifests: print secret values, which are masked otherwise.
    #[arg(long, requires = "manifests")]
    show_secrets: bool,
    #[command(flatten)]
    daemon: Daemon,
}

/// `-o` of `get`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum GetFormat {
    Plain(Format),
    JsonPath(Template),
    CustomColumns(PathColumns),
}

impl GetFormat {
    fn read(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("jsonpath", template)) => Template::read(template).map(Self::JsonPath),
            Some(("custom-columns", columns)) => PathColumns::read(columns).map(Self::CustomColumns),
            _ => Format::from_str(text, false).map(Self::Plain).map_err(|_| {
                let known: Vec<String> = names_of_formats().map(|value| value.get_name().to_owned()).collect();
                format!("{text} is no format; known: {}", known.join(", "))
            }),
        }
    }

    /// Tells whether whole objects are shown, and not what a table shows of them.
    fn is_whole(&self) -> bool {
        !matches!(self, Self::Plain(Format::Table | Format::Wide | Format::Name))
    }
}

fn names_of_formats() -> impl Iterator<Item = PossibleValue> {
    let plain = Format::value_variants().iter().filter_map(clap::ValueEnum::to_possible_value);
    plain.chain(["jsonpath=TEMPLATE", "custom-columns=HEADER:PATH"].map(PossibleValue::new))
}

#[derive(Clone)]
struct FormatParser;

impl TypedValueParser for FormatParser {
    type Value = GetFormat;

    fn parse_ref(&self, cmd: &clap::Command, _: Option<&clap::Arg>, value: &OsStr) -> Result<GetFormat, Error> {
        GetFormat::read(&value.to_string_lossy()).map_err(|why| refused_value(cmd, &why))
    }
}

/// Runs the command.
///
/// # Errors
/// The records cannot be read, or nothing has a name.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut asked = args.kind.asked(&args.names)?;
    if args.kubefleet {
        for asked in &mut asked {
            asked.kind.is_ours = false;
        }
    }
    let query = GetQuery { args, source: locate(&args.daemon)? };
    if args.watch {
        return query.watch(&asked);
    }
    let found: Vec<Vec<Value>> = asked.iter().map(|asked| query.found(asked)).collect::<anyhow::Result<_>>()?;
    let is_one = matches!(&asked[..], [AskedKind { names, .. }] if names.len() == 1);
    let is_list = matches!(args.output, GetFormat::Plain(Format::Json | Format::Yaml) | GetFormat::JsonPath(_));
    asked
        .iter()
        .zip(&found)
        .filter(|(_, found)| found.is_empty() && !is_list)
        .for_each(|(asked, _)| query.say_nothing(asked));
    output::print(&query.text(&asked, &found, is_one))
}

struct GetQuery<'a> {
    args: &'a Args,
    source: RecordsSource,
}

impl GetQuery<'_> {
    /// Returns what is shown of a kind: objects, or what a table shows of them.
    fn found(&self, asked: &AskedKind) -> anyhow::Result<Vec<Value>> {
        if self.args.manifests {
            return self.with_manifests(asked);
        }
        if self.args.output.is_whole() {
            return self.whole(asked);
        }
        let mut lines = self.meant(self.lines(asked.kind, one_of(asked))?, asked)?;
        if self.args.selector.is_some() {
            // A line has no labels.
            let chosen: BTreeSet<_> = self.whole(asked)?.iter().map(line_key).collect();
            lines.retain(|line| chosen.contains(&line_key(line)));
        }
        Ok(lines)
    }

    /// Returns the objects of a kind that are asked for.
    fn whole(&self, asked: &AskedKind) -> anyhow::Result<Vec<Value>> {
        let listing = asked.kind.listing;
        let saved = self.source.read_for(listing, ShownPart::Whole, one_of(asked))?;
        let mut objects = self.meant(listed::objects(&saved, listing, clock::now()), asked)?;
        objects.retain(|object| self.args.selector.as_ref().is_none_or(|selector| selector.matches(&labels(object))));
        Ok(objects)
    }

    /// Returns what a table shows of all objects of a kind, or of those with a name.
    fn lines(&self, kind: GetKind, name: Option<&str>) -> anyhow::Result<Vec<Value>> {
        if let Some(lines) = self.source.lines(kind.listing, name)? {
            return Ok(lines);
        }
        let is_own = kind.columns() == Columns::Own;
        let part = if is_own { ShownPart::OwnLine } else { ShownPart::Line };
        let saved = self.source.read_for(kind.listing, part, name)?;
        let has_subjects = is_own && kind.listing == Listing::Snapshots;
        let subjects = if has_subjects { Subjects::open(&self.args.daemon) } else { None };
        Ok(listed::lines(&saved, kind, subjects.as_ref(), clock::now()))
    }

    /// Returns those objects of a listing that are asked for.
    fn meant(&self, mut objects: Vec<Value>, asked: &AskedKind) -> anyhow::Result<Vec<Value>> {
        let kind = asked.kind;
        objects.retain(|object| kind.only.is_none_or(|only| object["kind"] == only));
        if let Some(namespace) = self.args.namespace.as_deref()
            && !kind.is_cluster_wide()
        {
            objects.retain(|object| object["metadata"]["namespace"] == namespace);
        }
        for name in &asked.names {
            if !objects.iter().any(|object| is_named(object, name)) {
                return Err(self.unknown(kind, name));
            }
        }
        if !asked.names.is_empty() {
            objects.retain(|object| asked.names.iter().any(|name| is_named(object, name)));
        }
        Ok(objects)
    }

    /// Says that nothing has a name, and what has nearly it.
    fn unknown(&self, kind: GetKind, name: &str) -> anyhow::Error {
        let known: Vec<String> = self.lines(kind, None).unwrap_or_default().iter().map(full_name).collect();
        unknown(kind, name, &known)
    }

    fn with_manifests(&self, asked: &AskedKind) -> anyhow::Result<Vec<Value>> {
        let is_object = matches!(self.args.output, GetFormat::Plain(Format::Json | Format::Yaml));
        if asked.kind.listing != Listing::Works || !is_object {
            bail!("--manifests shows the objects of works: `gitfleet get works NAME -o yaml --manifests`");
        }
        let saved = self.source.read()?;
        let mut objects = self.meant(listed::objects(&saved, asked.kind.listing, clock::now()), asked)?;
        let clone = "name with --repo a clone of the source that has the commits";
        let reader = subjects::objects(&self.args.daemon, self.args.repo.as_deref()).context(clone)?;
        let mut manifests = Manifests::read_by(&saved, reader, self.args.show_secrets);
        for object in &mut objects {
            let binding = saved.bindings.values().flatten().find(|binding| is_work_of(object, binding));
            let objects = binding.map_or(Ok(Vec::new()), |b| manifests.of(b));
            let objects = objects.context(clone)?;
            object["spec"]["workload"]["manifests"] = objects.into();
        }
        Ok(objects)
    }

    /// Returns what is printed of what was found.
    fn text(&self, asked: &[AskedKind], found: &[Vec<Value>], is_one: bool) -> String {
        let terminal = Terminal::of_stdout();
        match &self.args.output {
            GetFormat::Plain(Format::Table | Format::Wide) => {
                let shown = asked.iter().zip(found).filter(|(_, found)| !found.is_empty());
                let tables = shown.map(|(asked, found)| output::render_table(&self.table(asked, found), terminal));
                tables.collect::<Vec<_>>().join("\n")
            }
            GetFormat::Plain(Format::Name) => output::render_names(&found.concat()),
            GetFormat::CustomColumns(columns) => output::render_table(&columns.table(&found.concat()), terminal),
            GetFormat::Plain(Format::Json) => output::render_json(&[document(found, is_one)]),
            GetFormat::Plain(Format::Yaml) => output::render_yaml(&[document(found, is_one)]),
            GetFormat::JsonPath(template) => template.fill(&document(found, is_one)),
        }
    }

    fn table(&self, asked: &AskedKind, found: &[Value]) -> Table {
        let wide = self.args.output == GetFormat::Plain(Format::Wide);
        table(asked.kind.listing.table(), asked.kind.columns(), found, wide, clock::now())
    }

    /// Says on standard error what there is nothing of: a script reads an empty output.
    fn say_nothing(&self, asked: &AskedKind) {
        let place = self.args.namespace.as_ref().map(|name| format!(" in namespace {name}")).unwrap_or_default();
        let chosen = if self.args.selector.is_some() { " with these labels" } else { "" };
        eprintln!("No {} found{place}{chosen}.", asked.kind.name());
    }

    /// Prints what there is, and then what changes.
    fn watch(&self, asked: &[AskedKind]) -> anyhow::Result<Exit> {
        let mut known: Vec<Option<BTreeMap<_, Value>>> = vec![None; asked.len()];
        let mut version = 0;
        loop {
            let mut text = String::new();
            for (asked, known) in asked.iter().zip(&mut known) {
                let found = match self.found(asked) {
                    // What has a name may go, and come back.
                    Err(_) if known.is_some() => Vec::new(),
                    found => found?,
                };
                if known.is_none() && found.is_empty() {
                    self.say_nothing(asked);
                }
                let before = known.take().unwrap_or_default();
                let now: BTreeMap<_, Value> = found.iter().map(|one| (line_key(one), without_heartbeat(one))).collect();
                let is_new = found.iter().map(|one| before.get(&line_key(one)) != now.get(&line_key(one)));
                text.push_str(&self.step(asked, &found, &is_new.collect::<Vec<_>>(), before.is_empty()));
                *known = Some(now);
            }
            if !output::print_on(&text)? {
                return Ok(Exit::Done);
            }
            version = self.source.wait(version)?;
        }
    }

    /// Returns what is printed of a change: rows, below a header where there was none yet, or the objects one by one.
    fn step(&self, asked: &AskedKind, found: &[Value], is_new: &[bool], has_header: bool) -> String {
        if !matches!(self.args.output, GetFormat::Plain(Format::Table | Format::Wide)) {
            let changed = found.iter().zip(is_new).filter(|(_, is_new)| **is_new);
            let texts = changed.map(|(one, _)| self.text(std::slice::from_ref(asked), &[vec![one.clone()]], true));
            return texts.collect();
        }
        // Not folded: each row is one line.
        let terminal = Terminal { width: None, ..Terminal::of_stdout() };
        let text = output::render_table(&self.table(asked, found), terminal);
        let is_shown = std::iter::once(has_header && !found.is_empty()).chain(is_new.iter().copied());
        let lines = text.lines().zip(is_shown).filter(|(_, is_shown)| *is_shown);
        lines.flat_map(|(line, _)| [line, "\n"]).collect()
    }
}

/// Returns the only name that is asked for.
fn one_of(asked: &AskedKind) -> Option<&str> {
    match &asked.names[..] {
        [name] => Some(name),
        _ => None,
    }
}

/// Returns one object as it is where one was asked for by name, else a `List`.
fn document(found: &[Vec<Value>], is_one: bool) -> Value {
    let mut objects = found.concat();
    if is_one && objects.len() == 1 { objects.swap_remove(0) } else { output::list_of(&objects) }
}

fn labels(object: &Value) -> BTreeMap<String, String> {
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

fn full_name(object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

fn unknown(kind: GetKind, name: &str, known: &[String]) -> anyhow::Error {
    let near = text::suggest(name, known.iter().map(String::as_str));
    let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    anyhow::anyhow!("there is no {name} among the {}{near}", kind.name())
}

/// Returns the objects of a name: of `name` alone those of every namespace.
///
/// # Errors
/// There is none.
pub(crate) fn named(saved: &Records, kind: GetKind, name: &str) -> anyhow::Result<Vec<Value>> {
    let mut objects = listed::objects(saved, kind.listing, clock::now());
    objects.retain(|object| kind.only.is_none_or(|only| object["kind"] == only));
    let known: Vec<String> = objects.iter().map(full_name).collect();
    objects.retain(|object| is_named(object, name));
    if objects.is_empty() { Err(unknown(kind, name, &known)) } else { Ok(objects) }
}

/// Accepts `name` and, for what is namespaced, `namespace/name`; before it the kind of the object, as in `crp/web`.
fn is_named(object: &Value, name: &str) -> bool {
    let metadata = &object["metadata"];
    match name.split_once('/') {
        Some((kind, name)) if is_kind_word(kind) => {
            let only = GetKind::of(kind).ok().and_then(|kind| kind.only);
            only.is_some_and(|only| object["kind"] == only) && is_named(object, name)
        }
        Some(("", name)) => metadata.get("namespace").is_none_or(Value::is_null) && metadata["name"] == name,
        Some((namespace, name)) => metadata["namespace"] == namespace && metadata["name"] == name,
        None => metadata["name"] == name,
    }
}

/// Tells whether a Work is that of a binding: both have the names that follow from placement and cluster.
fn is_work_of(work: &Value, binding: &Binding) -> bool {
    work["metadata"]["namespace"] == member_namespace(&binding.cluster)
        && work["metadata"]["name"] == work_name(&binding.placement)
}
