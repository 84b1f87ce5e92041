//! Reads a CODEOWNERS file: who owns which paths of a repository.
//!
//! The syntax is that of the git host, because the host reads the same file and people expect one meaning. GitHub's is a pattern for each
//! line, of which the last that fits a path decides. Gitea's is a regular expression for each line, and all that fit a path count together.
//!
//! Hosts skip a line that they cannot read. Here it is an error: without the line another one, or the configuration, would decide about
//! its paths, and somebody else could approve.
//!
//! Source: <https://docs.github.com/en/repositories/managing-your-repositorys-settings-and-features/customizing-your-repository/about-code-owners>
//! and `models/issues/pull.go` of Gitea 1.26.

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use regex::{Regex, RegexBuilder};

use model::manifest::InputError;

/// Bytes of a CODEOWNERS file.
pub const CODE_OWNERS_BYTES_MAX: usize = 128 * 1024;
/// Its lines that name owners: each may be tried on the file of each placement.
pub const CODE_OWNERS_RULES_MAX: usize = 1_000;
/// Owners in one line.
pub const OWNERS_OF_LINE_MAX: usize = 50;
/// Bytes of memory that one regular expression may take.
const REGEX_BYTES_MAX: usize = 64 * 1024;

/// Whose syntax a CODEOWNERS file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnersSyntax {
    /// GitHub's.
    GitHub,
    /// Gitea's and Forgejo's.
    Gitea,
}

impl OwnersSyntax {
    /// Returns where the host looks for the file, from the root of the repository. The first that is there counts.
    pub fn places(self) -> &'static [&'static str] {
        match self {
            Self::GitHub => &[".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"],
            Self::Gitea => &["CODEOWNERS", "docs/CODEOWNERS", ".gitea/CODEOWNERS"],
        }
    }
}

/// The owners of the paths of a repository.
#[derive(Debug)]
pub struct CodeOwners {
    syntax: OwnersSyntax,
    rules: Vec<OwnersRule>,
    /// Owners that nobody can be found by, each with its line.
    pub warnings: Vec<InputError>,
}

#[derive(Debug)]
struct OwnersRule {
    fits: Fits,
    owners: Vec<String>,
}

/// Which paths a line is about.
#[derive(Debug)]
enum Fits {
    /// The pattern itself, and whether what is below a folder that it fits counts too.
    Pattern { pattern: Gitignore, below: bool },
    /// The expression, and whether all other paths are meant.
    Regex { regex: Regex, negative: bool },
}

impl Fits {
    fn path(&self, path: &str) -> bool {
        match self {
            Self::Pattern { pattern, below: true } => pattern.matched_path_or_any_parents(path, false).is_ignore(),
            Self::Pattern { pattern, below: false } => pattern.matched(path, false).is_ignore(),
            Self::Regex { regex, negative } => regex.is_match(path) != *negative,
        }
    }
}

impl CodeOwners {
    /// Reads a file that stands at a place of [`OwnersSyntax::places`].
    ///
    /// # Errors
    /// Every line that cannot be read, or that the file is too large.
    pub fn read(syntax: OwnersSyntax, place: &str, content: &[u8]) -> Result<Self, Vec<InputError>> {
        if content.len() > CODE_OWNERS_BYTES_MAX {
            let message = format!("has {} bytes, the limit is {CODE_OWNERS_BYTES_MAX}", content.len());
            return Err(vec![complaint(place, 0, message, "name folders instead of files")]);
        }
        let Ok(text) = std::str::from_utf8(content) else {
            return Err(vec![complaint(place, 0, "is not UTF-8 text".to_owned(), "save it as UTF-8")]);
        };
        let mut rules = Vec::new();
        let mut errors = Vec::new();
        let mut warnings = Vec::new();
        for (number, line) in (1_u32..).zip(text.trim_start_matches('\u{feff}').lines()) {
            let read = match syntax {
                OwnersSyntax::GitHub => of_github(line),
                OwnersSyntax::Gitea => of_gitea(line),
            };
            match read {
                Ok(None) => {}
                Ok(Some(rule)) => {
                    let unknown = rule.owners.iter().filter_map(|owner| owner.strip_prefix(ADDRESS));
                    warnings.extend(unknown.map(|address| {
                        let message = format!(
                            "{address} is an address, and whose account it is of is not known: nobody approves as it"
                        );
                        complaint(place, number, message, "name the account as @NAME")
                    }));
                    rules.push(rule);
                }
                Err(why) => errors.push(complaint(
                    place,
                    number,
                    format!("{why}, so who may approve is not known"),
                    "correct the line as the git host's manual has it, or remove it",
                )),
            }
        }
        if rules.len() > CODE_OWNERS_RULES_MAX {
            let message = format!("has {} lines with owners, the limit is {CODE_OWNERS_RULES_MAX}", rules.len());
            errors.push(complaint(place, 0, message, "name folders instead of files"));
        }
        if errors.is_empty() { Ok(Self { syntax, rules, warnings }) } else { Err(errors) }
    }

    /// Returns the owners of a file as approvers are written, `user:NAME` and `team:ORG/NAME`; none where no line is about the file, or
    /// the one that decides takes its owners away. An address is an entry that nobody matches, so that a line that names only addresses
    /// leaves the file to nobody else.
    pub fn of(&self, path: &str) -> Vec<String> {
        let mut fitting = self.rules.iter().filter(|rule| rule.fits.path(path));
        match self.syntax {
            OwnersSyntax::GitHub => fitting.next_back().map(|rule| rule.owners.clone()).unwrap_or_default(),
            OwnersSyntax::Gitea => {
                let mut owners: Vec<String> = fitting.flat_map(|rule| rule.owners.iter().cloned()).collect();
                owners.sort_unstable();
                owners.dedup();
                owners
            }
        }
    }
}

fn complaint(place: &str, line: u32, message: String, hint: &str) -> InputError {
    InputError { path: place.to_owned(), line, object: None, field: None, message, hint: Some(hint.to_owned()) }
}

/// The beginning of an entry for an address.
const ADDRESS: &str = "email:";

/// Reads a line as GitHub does; `None` where it has none.
fn of_github(line: &str) -> Result<Option<OwnersRule>, String> {
    let words = words_of_github(line);
    let Some((pattern, owners)) = words.split_first() else { return Ok(None) };
    // GitHub knows none of the three, and skips the line.
    let unknown = [(pattern.starts_with('!'), "`!`"), (pattern.starts_with("\\#"), "`\\#`")];
    let unknown = unknown.into_iter().chain([(pattern.contains(['[', ']']), "`[`")]).find(|(is_it, _)| *is_it);
    if let Some((_, what)) = unknown {
        return Err(format!("the pattern {pattern:?} has {what}, which CODEOWNERS files of GitHub cannot have"));
    }
    let owners = owners.iter().map(|owner| owner_of(owner, owner.strip_prefix('@'))).collect::<Result<_, _>>()?;
    let mut builder = GitignoreBuilder::new("");
    builder.add_line(None, pattern).map_err(|error| format!("{pattern:?} is not a pattern: {error}"))?;
    let built = builder.build().map_err(|error| format!("{pattern:?} is not a pattern: {error}"))?;
    if built.is_empty() {
        return Err(format!("{pattern:?} is not a pattern"));
    }
    // `docs/*` is about the files in `docs`, and not about those in its folders.
    let below = !pattern.ends_with("/*");
    limited(OwnersRule { fits: Fits::Pattern { pattern: built, below }, owners })
}

/// Splits a line at blanks without a backslash before them. A word that begins with a number sign begins a comment.
fn words_of_github(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut escaped = false;
    for character in line.trim().chars() {
        if character.is_whitespace() && !escaped {
            words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
            continue;
        }
        if character == '#' && word.is_empty() {
            break;
        }
        escaped = character == '\\' && !escaped;
        word.push(character);
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}

/// Reads a line as Gitea does; `None` where it has none.
fn of_gitea(line: &str) -> Result<Option<OwnersRule>, String> {
    let words = words_of_gitea(line);
    let Some((pattern, owners)) = words.split_first() else { return Ok(None) };
    if owners.is_empty() {
        return Err(format!("the line about {pattern:?} names no owner"));
    }
    let (negative, pattern) = pattern.strip_prefix('!').map_or((false, pattern.as_str()), |rest| (true, rest));
    let pattern = pattern.strip_prefix('/').unwrap_or(pattern);
    // Without a group, as Gitea has it: `a|b` is what begins with `a`, or ends with `b`.
    let mut builder = RegexBuilder::new(&format!("^{pattern}$"));
    let regex = builder.size_limit(REGEX_BYTES_MAX).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => format!("the regular expression {pattern:?} takes too much memory"),
        _ => format!("{pattern:?} is not a regular expression that gitfleet reads (it knows no look-around and no back-references)"),
    })?;
    let owners = owners.iter().map(|owner| owner_of(owner, Some(owner.strip_prefix('@').unwrap_or(owner))));
    let owners = owners.collect::<Result<_, _>>()?;
    limited(OwnersRule { fits: Fits::Regex { regex, negative }, owners })
}

/// Splits a line at blanks. A backslash takes the next character as it is, and a number sign begins a comment.
fn words_of_gitea(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut escaped = false;
    for character in line.trim().chars() {
        match character {
            _ if escaped => {
                word.push(character);
                escaped = false;
            }
            '\\' => escaped = true,
            '#' => break,
            ' ' | '\t' => words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty())),
            _ => word.push(character),
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}

fn limited(rule: OwnersRule) -> Result<Option<OwnersRule>, String> {
    match rule.owners.len() {
        owners if owners > OWNERS_OF_LINE_MAX => {
            Err(format!("names {owners} owners, the limit is {OWNERS_OF_LINE_MAX}"))
        }
        _ => Ok(Some(rule)),
    }
}

/// Returns an owner as approvers are written. `name` is what names an account or a team; `None` where the syntax wants an `@` before it.
fn owner_of(word: &str, name: Option<&str>) -> Result<String, String> {
    if let Some(name) = name {
        match name.split_once('/') {
            Some((org, team)) if is_name(org) && is_team(team) => return Ok(format!("team:{org}/{team}")),
            None if is_name(name) => return Ok(format!("user:{name}")),
            _ => {}
        }
    }
    if is_address(word) {
        return Ok(format!("{ADDRESS}{word}"));
    }
    Err(format!("{word:?} is neither @NAME, @ORG/TEAM nor an address"))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// Tells whether a text can name a team. Gitea's teams may have blanks in their names; a comma would begin another entry of a list.
fn is_team(text: &str) -> bool {
    !text.is_empty()
        && text.trim() == text
        && text.chars().all(|c| !c.is_control() && !matches!(c, '/' | ',' | '@' | ':'))
}

fn is_address(text: &str) -> bool {
    let Some((local, host)) = text.split_once('@') else { return false };
    let mut characters = local.chars().chain(host.chars());
    !local.is_empty()
        && host.contains('.')
        && characters.all(|c| c.is_ascii_graphic() && !matches!(c, '@' | ',' | '/' | '`' | '<' | '>'))
}

#[cfg(test)]
mod tests;
