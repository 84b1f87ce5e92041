//! Plays a scenario: real git, the real program, members that are folders.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{env, io, thread};

use model::yaml;
use serde_json::Value;

use crate::cli::edges::Daemon;
use crate::scenarios::documents::{self, Change};
use crate::scenarios::given::{self, CONFIGURATION};
use crate::scenarios::read::{self, Codes, Given, Scenario, Step, Texts, What};
use testservers::fleet::git;
use testservers::scratch::{Outcome, Scratch};

/// Environment variable with a file whose lines are added to the configuration of every scenario.
const MORE: &str = "GITFLEET_SCENARIO_CONFIGURATION";

/// How long a daemon may take to get where it is awaited.
const AWAITED_MAX: Duration = Duration::from_secs(10);
/// The pause between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// What became of a scenario.
pub struct Played {
    /// The step that did not end as it should.
    pub failure: Option<Failure>,
    /// How long it took.
    pub took: Duration,
}

/// A step that did not end as it should.
pub struct Failure {
    /// Its line.
    pub line: usize,
    /// The step, what was wrong with it, and what was printed.
    pub text: String,
}

impl Failure {
    /// Returns the step and what was wrong, without what was printed.
    pub fn first_line(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }
}

/// Plays all steps, up to the first that fails.
pub fn play(scenario: &Scenario, usual: &Usual, is_shown: bool) -> Played {
    let mut player = Player::new(usual, is_shown);
    if is_shown {
        println!("{}: {}", scenario.name, scenario.title);
    }
    let begun = player.configure("gitfleet", "");
    let mut failure = begun.err().map(|text| Failure { line: scenario.line, text });
    for (line, text, step) in &scenario.steps {
        if failure.is_some() {
            break;
        }
        if is_shown {
            println!("  {text}");
        }
        let done = player.step(step);
        failure = done.err().map(|wrong| Failure { line: *line, text: format!("{text}: {wrong}") });
    }
    if let (true, Some(failure)) = (is_shown, &failure) {
        println!("  {}", failure.text);
    }
    Played { failure, took: Duration::ZERO }
}

/// A file of a member: its text.
type Files = BTreeMap<String, Vec<u8>>;

/// The usual fleets, staged and rolling: most scenarios start with one, so each is rolled out once, and copied.
#[derive(Default)]
pub struct Usual([OnceLock<RolledOut>; 2]);

type RolledOut = Result<(Scratch, BTreeMap<String, String>), String>;

struct Player<'a> {
    usual: &'a Usual,
    // Before its folder, which goes after it.
    daemon: Option<Daemon>,
    scratch: Scratch,
    configuration: String,
    /// No step has changed a configuration.
    is_usual: bool,
    commits: BTreeMap<String, String>,
    remembered: Files,
    is_shown: bool,
}

impl<'a> Player<'a> {
    fn new(usual: &'a Usual, is_shown: bool) -> Self {
        Self {
            usual,
            scratch: Scratch::new(),
            configuration: "gitfleet".to_owned(),
            is_usual: true,
            commits: BTreeMap::new(),
            remembered: BTreeMap::new(),
            is_shown,
            daemon: None,
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Known { .. } => Ok(()),
            Step::Given(given) => self.given(*given),
            Step::Configuration(name, lines) => {
                self.is_usual = false;
                self.configure(name, lines)
            }
            Step::Use(name) => {
                self.configuration.clone_from(name);
                Ok(())
            }
            Step::Commit { name, repository, changes } => self.commit(name, repository, changes),
            Step::Once { within, codes, texts } => {
                let timeout = format!("{}s", within.as_secs());
                self.run(&["run", "--once", "--timeout", &timeout], codes, texts).map(drop)
            }
            Step::Command { arguments, codes, texts } => {
                let arguments = arguments.iter().map(|it| self.filled(it)).collect::<Result<Vec<_>, _>>()?;
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                self.run(&arguments, codes, texts).map(drop)
            }
            Step::Printed { beginning, codes } => self.printed(beginning, codes),
            Step::Holds { clusters, file, what } => clusters.iter().try_for_each(|it| self.holds(it, file, what)),
            Step::Remember => {
                self.remembered = self.files().map_err(|error| format!("cannot read the members: {error}"))?;
                Ok(())
            }
            Step::Daemon => {
                let file = format!("{}.yaml", self.configuration);
                self.daemon = Some(Daemon::start(self.scratch.command(&["run", "-c", &file, "--log-format", "json"])));
                Ok(())
            }
            Step::Await { clusters, file, what } => {
                awaited(|| clusters.iter().try_for_each(|it| self.holds(it, file, what)))
            }
            Step::AwaitText { arguments, text } => {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                awaited(|| match self.outcome(&arguments) {
                    Outcome { out, err, .. } if !out.contains(text) => Err(format!("it does not say it\n{out}{err}")),
                    _ => Ok(()),
                })
            }
            Step::End => self.daemon.take().map(Daemon::end).ok_or_else(|| "no daemon runs".to_owned()),
            Step::Delete(path) => self.by_hand(path, |path| fs::remove_file(path)),
            Step::Foreign(path, object) => {
                let (namespace, name) = object.split_once('/').unwrap_or(("", object));
                let text = format!(
                    "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}}}\ndata: {{v: foreign}}\n"
                );
                let path = self.scratch.path(&path.to_string_lossy());
                let parent = path.parent().expect("a file is in a folder");
                fs::create_dir_all(parent).and_then(|()| fs::write(&path, text)).map_err(|error| error.to_string())
            }
            Step::Lose(folder) => self.by_hand(Path::new(folder), |path| fs::remove_dir_all(path)),
        }
    }

    fn by_hand(&self, path: &Path, act: fn(&Path) -> io::Result<()>) -> Result<(), String> {
        act(&self.scratch.path(&path.to_string_lossy())).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn given(&mut self, given: Given) -> Result<(), String> {
        match given {
            Given::Tree => self.change("fleet", &documents::changes(&given::tree(given))?),
            Given::Staged | Given::Rolling if self.is_usual => {
                let rolled_out = || {
                    let mut player = Player::new(self.usual, false);
                    player.configure("gitfleet", "").and_then(|()| player.roll_out(given))?;
                    Ok((player.scratch, player.commits))
                };
                let usual = &self.usual.0[usize::from(given == Given::Rolling)];
                let (from, commits) = usual.get_or_init(rolled_out).as_ref().map_err(Clone::clone)?;
                self.commits.clone_from(commits);
                let copied = copy(&from.path(""), &self.scratch.path(""));
                copied.map_err(|error| format!("cannot copy what is given: {error}"))
            }
            Given::Staged | Given::Rolling => self.roll_out(given),
        }
    }

    fn roll_out(&mut self, given: Given) -> Result<(), String> {
        self.commit("v1", "fleet", &documents::changes(&given::tree(given))?)?;
        for line in given::rollout(given) {
            let text = format!("rollout: of what is given\n  {line}\n");
            for (_, text, step) in read::scenarios("given.rs", &text)?.remove(0).steps {
                self.step(&step).map_err(|error| format!("{text}: {error}"))?;
            }
        }
        Ok(())
    }

    /// Writes a configuration: the usual one, with these lines and those of the environment in the place of what they repeat.
    fn configure(&self, name: &str, lines: &str) -> Result<(), String> {
        let more = match env::var_os(MORE) {
            Some(file) => fs::read_to_string(&file).map_err(|error| format!("{MORE}={}: {error}", file.display()))?,
            None => String::new(),
        };
        let text = replaced(&replaced(CONFIGURATION, &more), lines);
        fs::write(self.scratch.path(&format!("{name}.yaml")), text).map_err(|error| error.to_string())
    }

    fn commit(&mut self, name: &str, repository: &str, changes: &[Change]) -> Result<(), String> {
        self.change(repository, changes)?;
        let id = git::commit_all(&self.scratch.path(repository), name).map_err(|error| format!("{error:#}"))?;
        self.commits.insert(name.to_owned(), id);
        Ok(())
    }

    fn change(&self, repository: &str, changes: &[Change]) -> Result<(), String> {
        let folder = self.scratch.path(repository);
        for change in changes {
            match change {
                Change::Write(path, text) => {
                    let path = folder.join(path);
                    let parent = path.parent().expect("a file is in a folder");
                    let written = fs::create_dir_all(parent).and_then(|()| fs::write(&path, text));
                    written.map_err(|error| format!("{}: {error}", path.display()))?;
                }
                Change::Remove(path) => {
                    fs::remove_file(folder.join(path)).map_err(|error| format!("{path}: {error}"))?;
                }
                Change::Restore(name) => {
                    let id = self.commits.get(name).ok_or_else(|| format!("no commit is called {name}"))?;
                    git::git(&folder, &["rm", "-rfq", "."]).map_err(|error| format!("{error:#}"))?;
                    git::git(&folder, &["checkout", id, "--", "."]).map_err(|error| format!("{error:#}"))?;
                }
            }
        }
        Ok(())
    }

    /// Puts ids of commits in the place of their names in braces.
    fn filled(&self, argument: &str) -> Result<String, String> {
        let Some((before, rest)) = argument.split_once('{') else { return Ok(argument.to_owned()) };
        let (name, after) = rest.split_once('}').ok_or_else(|| format!("{argument}: no closing brace"))?;
        let id = self.commits.get(name).ok_or_else(|| format!("no commit is called {name}"))?;
        Ok(format!("{before}{id}{after}"))
    }

    fn run(&self, arguments: &[&str], codes: &Codes, texts: &Texts) -> Result<Outcome, String> {
        let outcome = self.outcome(arguments);
        let printed = || format!("\n$ gitfleet {}\n{}{}", arguments.join(" "), outcome.out, outcome.err);
        if self.is_shown {
            println!("{}  exit code {}", printed(), outcome.code);
        }
        if !codes.0.is_empty() && !codes.0.contains(&outcome.code) {
            return Err(format!("exit code {}{}", outcome.code, printed()));
        }
        let has = |text: &String| outcome.out.contains(text) || outcome.err.contains(text);
        if let Some(text) = texts.says.iter().find(|text| !has(text)) {
            return Err(format!("it does not say `{text}`{}", printed()));
        }
        if let Some(text) = texts.never.iter().find(|text| has(text)) {
            return Err(format!("it says `{text}`{}", printed()));
        }
        Ok(outcome)
    }

    /// Runs a command of the program with the configuration, if it takes one.
    fn outcome(&self, arguments: &[&str]) -> Outcome {
        let file = format!("{}.yaml", self.configuration);
        let is_of_tree = ["plan", "validate", "simulate"].contains(&arguments[0]);
        let configuration: &[&str] = if is_of_tree { &[] } else { &["-c", &file] };
        let server = self.daemon.as_ref().map(|daemon| ["--server", &daemon.address]);
        self.scratch.run(&[arguments, configuration, server.as_ref().map_or(&[], |it| it)].concat())
    }

    /// Copies lines that `status` prints, as a person does.
    fn printed(&self, beginning: &str, codes: &Codes) -> Result<(), String> {
        let status = self.outcome(&["status", "--all"]);
        let mut lines: Vec<&str> =
            status.out.lines().filter_map(|line| line.find("gitfleet ").map(|at| &line[at..])).collect();
        lines.retain(|line| line.starts_with(beginning));
        lines.sort_unstable();
        lines.dedup();
        if lines.is_empty() {
            return Err(format!("status prints no such line\n{}", status.out));
        }
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().skip(1).collect();
            self.run(&words, codes, &Texts::default()).map_err(|error| format!("{line}: {error}"))?;
        }
        Ok(())
    }

    fn holds(&self, cluster: &str, file: &str, what: &What) -> Result<(), String> {
        let path = format!("members/{cluster}/{file}");
        let found = fs::read(self.scratch.path(&path)).ok();
        let held = found.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
        let object = yaml::parse_documents(&held).pop().and_then(Result::ok).map(|document| document.value);
        let wrong = |text: String| Err(format!("{path} {text}\n{held}"));
        match what {
            What::Gone if found.is_none() => Ok(()),
            What::Gone => wrong("is there".to_owned()),
            What::Untouched if self.remembered.contains_key(&path) && found == self.remembered.get(&path).cloned() => {
                Ok(())
            }
            What::Untouched => wrong("is not as it was".to_owned()),
            What::Of(_) | What::Values(_) if found.is_none() => wrong("is not there".to_owned()),
            What::Of(placement) => {
                let by = object.as_ref().map(|object| &object["metadata"]["annotations"]["gitfleet.io/placed-by"]);
                if by.and_then(Value::as_str) == Some(placement) { Ok(()) } else { wrong(format!("is of {by:?}")) }
            }
            What::Values(values) => {
                let value = |key: &String| object.as_ref().and_then(|object| object["data"][key].as_str());
                match values.iter().find(|(key, wanted)| value(key) != Some(wanted)) {
                    Some((key, _)) => wrong(format!("has {key}={}", value(key).unwrap_or("nothing"))),
                    None => Ok(()),
                }
            }
        }
    }

    /// Reads what all members hold, by path.
    fn files(&self) -> io::Result<Files> {
        let mut files = Files::new();
        for member in fs::read_dir(self.scratch.path("members"))? {
            let member = member?;
            for file in fs::read_dir(member.path())? {
                let file = file?;
                if file.file_type()?.is_file() {
                    let name = format!("members/{}/{}", member.file_name().display(), file.file_name().display());
                    files.insert(name, fs::read(file.path())?);
                }
            }
        }
        Ok(files)
    }
}

/// Looks until it is right, or for so long.
fn awaited(look: impl Fn() -> Result<(), String>) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        match look() {
            Err(wrong) if begun.elapsed() > AWAITED_MAX => return Err(wrong),
            Err(_) => thread::sleep(LOOK_PAUSE),
            Ok(()) => return Ok(()),
        }
    }
}

/// Copies what is in a folder into another.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() { copy(&entry.path(), &to)? } else { fs::copy(entry.path(), to).map(drop)? }
    }
    Ok(())
}

/// Adds lines to a configuration. A top-level key that they have replaces it; `sources` replaces `source`.
fn replaced(text: &str, lines: &str) -> String {
    let key = |line: &str| line.split_once(':').map_or("", |(key, _)| key).to_owned();
    let mut keys: Vec<String> = lines.lines().filter(|line| !line.starts_with([' ', '-', '#'])).map(key).collect();
    if keys.iter().any(|key| key == "sources") {
        keys.push("source".to_owned());
    }
    let mut is_kept = true;
    let mut out = String::new();
    for line in text.lines() {
        if !line.starts_with([' ', '-', '#']) {
            is_kept = !keys.contains(&key(line));
        }
        if is_kept {
            out.push_str(line);
            out.push('\n');
        }
    }
    out + lines
}
