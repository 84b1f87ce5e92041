//! Reads files of scenarios.

use std::path::PathBuf;
use std::time::Duration;

use crate::scenarios::documents::{self, Change};

/// How long `run --once` may take by default.
const WITHIN: Duration = Duration::from_secs(10);

/// A scenario of a file.
pub struct Scenario {
    /// The file's name.
    pub file: String,
    /// Where it starts there.
    pub line: usize,
    /// Its name.
    pub name: String,
    /// What happens in it.
    pub title: String,
    /// Its steps, each with its line.
    pub steps: Vec<(usize, String, Step)>,
}

impl Scenario {
    /// Returns where it says that it fails today, by which fault, and whether always.
    pub fn mark(&self) -> Option<(usize, &str, bool)> {
        self.steps.iter().find_map(|(line, _, step)| match step {
            Step::Known { fault, always } => Some((*line, fault.as_str(), *always)),
            _ => None,
        })
    }
}

/// What is done or expected.
pub enum Step {
    /// A later step fails today, by this fault: always, or not in each run.
    Known { fault: String, always: bool },
    /// The usual fleet: its files alone, or rolled out.
    Given(Given),
    /// Keys of a configuration, by the name of its file without the ending.
    Configuration(String, String),
    /// The configuration of later steps.
    Use(String),
    /// A commit of this name in this repository.
    Commit { name: String, repository: String, changes: Vec<Change> },
    /// `run --once`.
    Once { within: Duration, codes: Codes, texts: Texts },
    /// Another command.
    Command { arguments: Vec<String>, codes: Codes, texts: Texts },
    /// Every line of `status` that begins so.
    Printed { beginning: String, codes: Codes },
    /// What clusters hold.
    Holds { clusters: Vec<String>, file: String, what: What },
    /// Notes what members hold.
    Remember,
    /// Starts a daemon.
    Daemon,
    /// Waits until clusters hold it.
    Await { clusters: Vec<String>, file: String, what: What },
    /// Waits until a command prints it.
    AwaitText { arguments: Vec<String>, text: String },
    /// Ends the daemon.
    End,
    /// Removes a file of a member.
    Delete(PathBuf),
    /// Writes a ConfigMap of nobody on a member.
    Foreign(PathBuf, String),
    /// Removes a folder: the store, or a repository.
    Lose(String),
}

/// What a scenario starts with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// Files.
    Tree,
    /// Rolled out in stages.
    Staged,
    /// Rolled out without stages.
    Rolling,
}

/// Exit codes that are right; all where there is none.
pub struct Codes(pub Vec<i32>);

/// What the outputs of a command must and must not have.
#[derive(Default)]
pub struct Texts {
    /// Must.
    pub says: Vec<String>,
    /// Must not.
    pub never: Vec<String>,
}

/// What is expected of an object on a cluster.
pub enum What {
    /// It is there, with these values of `data`.
    Values(Vec<(String, String)>),
    /// It is not there.
    Gone,
    /// It is that of this placement, as `gitfleet.io/placed-by` says.
    Of(String),
    /// Its file is as it was when members were remembered.
    Untouched,
}

/// A line with its indentation.
struct Line<'a> {
    number: usize,
    indent: usize,
    text: &'a str,
}

/// Reads a file; an error names file and line.
pub fn scenarios(file: &str, text: &str) -> Result<Vec<Scenario>, String> {
    let lines = text.lines().enumerate().map(|(at, line)| Line {
        number: at + 1,
        indent: line.len() - line.trim_start().len(),
        text: line.trim(),
    });
    let lines: Vec<Line<'_>> =
        lines.filter(|line| !(line.text.is_empty() || line.indent == 0 && line.text.starts_with('#'))).collect();
    let mut scenarios = Vec::new();
    let mut rest = lines.as_slice();
    while let Some((head, after)) = rest.split_first() {
        let error = |line: &Line<'_>, text: String| format!("{file}:{}: {text}", line.number);
        let Some((name, title)) = head.text.split_once(": ").filter(|_| head.indent == 0) else {
            return Err(error(head, "a scenario begins with `NAME: what happens`, without indentation".to_owned()));
        };
        let until = after.iter().position(|line| line.indent == 0).unwrap_or(after.len());
        let (mut own, others) = after.split_at(until);
        let mut steps = Vec::new();
        while let Some((first, details)) = own.split_first() {
            let until = details.iter().position(|line| line.indent <= first.indent).unwrap_or(details.len());
            let (details, following) = details.split_at(until);
            let details: Vec<(usize, &str)> = details.iter().map(|line| (line.indent, line.text)).collect();
            let step = step(first.text, &details).map_err(|text| error(first, text))?;
            steps.push((first.number, first.text.to_owned(), step));
            own = following;
        }
        scenarios.push(Scenario {
            file: file.to_owned(),
            line: head.number,
            name: name.to_owned(),
            title: title.to_owned(),
            steps,
        });
        rest = others;
    }
    Ok(scenarios)
}

/// Puts lines together again, without the indentation that all of them have.
pub fn block(lines: &[(usize, &str)]) -> String {
    let least = lines.iter().map(|(indent, _)| *indent).min().unwrap_or_default();
    let line =
        |(indent, text): &(usize, &str)| [" ".repeat(indent - least), (*text).to_owned(), "\n".to_owned()].concat();
    lines.iter().map(line).collect()
}

fn step(text: &str, details: &[(usize, &str)]) -> Result<Step, String> {
    let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
    let words: Vec<&str> = rest.split_whitespace().collect();
    let wrong = || format!("`{text}` is no step");
    let step = match (verb, words.as_slice()) {
        ("known", [fault]) => Step::Known { fault: (*fault).to_owned(), always: true },
        ("sometimes", [fault]) => Step::Known { fault: (*fault).to_owned(), always: false },
        ("given", ["tree"]) => Step::Given(Given::Tree),
        ("given", ["staged"]) => Step::Given(Given::Staged),
        ("given", ["rolling"]) => Step::Given(Given::Rolling),
        ("configuration", []) => return Ok(Step::Configuration("gitfleet".to_owned(), block(details))),
        ("configuration", [name]) => return Ok(Step::Configuration((*name).to_owned(), block(details))),
        ("use", [name]) => Step::Use((*name).to_owned()),
        ("commit", [name]) => return commit(name, "fleet", details),
        ("commit", [name, "in", repository]) => return commit(name, repository, details),
        ("once", [codes]) => return Ok(Step::Once { within: WITHIN, codes: exit(codes)?, texts: texts(details)? }),
        ("once", [codes, "within", time]) => {
            let seconds = time.strip_suffix('s').and_then(|number| number.parse().ok()).ok_or_else(wrong)?;
            let within = Duration::from_secs(seconds);
            return Ok(Step::Once { within, codes: exit(codes)?, texts: texts(details)? });
        }
        ("gitfleet", [_, ..]) => {
            let (arguments, codes) = rest.split_once(" => ").unwrap_or((rest, "0"));
            let arguments = arguments.split_whitespace().map(str::to_owned).collect();
            return Ok(Step::Command { arguments, codes: exit(codes)?, texts: texts(details)? });
        }
        ("printed", [_, ..]) => {
            let (beginning, codes) = rest.split_once(" => ").unwrap_or((rest, "0"));
            Step::Printed { beginning: beginning.to_owned(), codes: exit(codes)? }
        }
        ("remember", []) => Step::Remember,
        ("daemon", []) => Step::Daemon,
        ("end", []) => Step::End,
        ("await", ["gitfleet", _, ..]) => {
            let (command, text) = rest.split_once(" says ").ok_or_else(wrong)?;
            let arguments = command.split_whitespace().skip(1).map(str::to_owned).collect();
            Step::AwaitText { arguments, text: text.to_owned() }
        }
        ("await", [_, ..]) => match holds(rest).ok_or_else(wrong)? {
            Step::Holds { clusters, file, what } => Step::Await { clusters, file, what },
            _ => return Err(wrong()),
        },
        ("delete", [cluster, object @ ..]) => Step::Delete(file_of(cluster, object).ok_or_else(wrong)?),
        ("foreign", [cluster, object]) => {
            Step::Foreign(file_of(cluster, &[object]).ok_or_else(wrong)?, (*object).to_owned())
        }
        ("lose", [folder]) => Step::Lose((*folder).to_owned()),
        _ => holds(text).ok_or_else(wrong)?,
    };
    if details.is_empty() { Ok(step) } else { Err(format!("nothing may be indented below `{text}`")) }
}

fn commit(name: &str, repository: &str, details: &[(usize, &str)]) -> Result<Step, String> {
    let changes = documents::changes(details)?;
    Ok(Step::Commit { name: name.to_owned(), repository: repository.to_owned(), changes })
}

fn exit(text: &str) -> Result<Codes, String> {
    if text == "any" {
        return Ok(Codes(Vec::new()));
    }
    let codes: Result<Vec<i32>, _> = text.split(',').map(str::parse).collect();
    codes.map(Codes).map_err(|_| format!("`{text}` is no exit code: write 0, or 0,3, or any"))
}

fn texts(details: &[(usize, &str)]) -> Result<Texts, String> {
    let mut texts = Texts::default();
    for (_, line) in details {
        match line.split_once(' ') {
            Some(("says", text)) => texts.says.push(text.to_owned()),
            Some(("never", text)) => texts.never.push(text.to_owned()),
            _ => return Err(format!("`{line}`: below a command stands `says TEXT` or `never TEXT`")),
        }
    }
    Ok(texts)
}

/// Reads the words of an object: `NAMESPACE/NAME` of a ConfigMap, or kind and name. Returns the name of its file, and what is left.
fn object<'a, 'b>(words: &'b [&'a str]) -> Option<(String, &'b [&'a str])> {
    let (first, rest) = words.split_first()?;
    let is_kind = first.starts_with(char::is_uppercase);
    let (kind, name, rest) = if is_kind {
        let (name, rest) = rest.split_first()?;
        (first.to_ascii_lowercase(), *name, rest)
    } else {
        ("configmap".to_owned(), *first, rest)
    };
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    Some((format!("{kind}..{namespace}.{name}.yaml"), rest))
}

fn file_of(cluster: &str, words: &[&str]) -> Option<PathBuf> {
    let (file, rest) = object(words)?;
    rest.is_empty().then(|| PathBuf::from("members").join(cluster).join(file))
}

fn holds(text: &str) -> Option<Step> {
    let (clusters, rest) = text.split_once(": ")?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let (file, words) = object(&words)?;
    let what = match words {
        ["gone"] => What::Gone,
        ["untouched"] => What::Untouched,
        ["of", placement] => What::Of((*placement).to_owned()),
        values => {
            let pair = |word: &&str| word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
            What::Values(values.iter().map(pair).collect::<Option<Vec<_>>>()?)
        }
    };
    Some(Step::Holds { clusters: clusters.split_whitespace().map(str::to_owned).collect(), file, what })
}

#[test]
fn a_line_that_is_no_step_is_named() {
    let rows = [
        ("a: b\n  once three\n", "x.txt:2: `three` is no exit code"),
        ("a: b\n\n  p1 app/cm\n", "x.txt:3: `p1 app/cm` is no step"),
        ("a: b\n  remember\n    it\n", "x.txt:2: nothing may be indented below `remember`"),
        ("a: b\n  commit v2\n    cluster\n", "x.txt:2: `cluster`: "),
        ("  once 0\n", "x.txt:1: a scenario begins with"),
        ("a: b\n  once 0\n    say it\n", "x.txt:2: `say it`: below a command stands"),
    ];
    for (text, wanted) in rows {
        let error = scenarios("x.txt", text).err().unwrap_or_default();
        assert!(error.starts_with(wanted), "{text}: {error}");
    }
}
