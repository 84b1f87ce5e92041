//! The arguments of a command.

use super::{Chat, ChatCommand, ChatVerb, MARKUP, REASON_CHARS_MAX, SHA_CHARS_MIN};
use crate::target::is_kind_word;

/// Characters of a commit.
const SHA_CHARS: usize = 40;
/// Characters of a stage's name.
const STAGE_CHARS_MAX: usize = 63;
/// Characters of a name in Kubernetes.
const NAME_CHARS_MAX: usize = 253;
/// Characters of foreign text that an answer repeats.
const REPEATED_CHARS_MAX: usize = 40;

/// A kind of argument.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Argument {
    Stage,
    Sha,
    Placement,
    To,
    Cluster,
    All,
}

/// The arguments of a command.
fn known(verb: ChatVerb) -> &'static [Argument] {
    use Argument::{All, Cluster, Placement, Sha, Stage, To};
    match verb {
        ChatVerb::Approve => &[Stage, Sha, Placement, All],
        ChatVerb::Reject => &[Stage, Sha, Placement],
        ChatVerb::Pause | ChatVerb::Resume => &[Placement, Sha],
        ChatVerb::Rollback => &[Stage, To, Sha, Placement],
        ChatVerb::Retry => &[Stage, Cluster, Sha, Placement],
        ChatVerb::Status | ChatVerb::Help => &[],
    }
}

fn usage(argument: Argument) -> &'static str {
    match argument {
        Argument::Stage => "a stage",
        Argument::Sha => "`sha=COMMIT`",
        Argument::Placement => "`placement=NAME`",
        Argument::To => "`to=COMMIT`",
        Argument::Cluster => "`cluster=NAME`",
        Argument::All => "`--all`",
    }
}

/// Returns a command with its arguments, or its error.
pub(super) fn read(name: &str, verb: ChatVerb, text: &str) -> Chat {
    // Of ` -- ` at the very end the blank is gone.
    let padded = format!(" {} ", text.replace('\t', " "));
    let (arguments, reason) = padded.split_once(" -- ").unwrap_or((&padded, ""));
    let mut command = ChatCommand::bare(verb);
    // A reason is recorded and does nothing, so markup in it is no mistake.
    let reason: String = reason.replace(MARKUP, "").trim().chars().take(REASON_CHARS_MAX).collect();
    command.reason = Some(reason).filter(|reason| !reason.is_empty());
    for word in arguments.split(' ').filter(|word| !word.is_empty()) {
        if let Err(why) = add(&mut command, word) {
            return Chat::Mistake(complaint(name, verb, word, why));
        }
    }
    if command.all && command.stage.is_some() {
        return Chat::Mistake(format!("`{name}` takes a stage or `--all`, not both"));
    }
    Chat::Commands(vec![command])
}

fn add(command: &mut ChatCommand, word: &str) -> Result<(), &'static str> {
    let (argument, value) = match word.split_once('=') {
        _ if word == "--all" => (Argument::All, ""),
        None => (Argument::Stage, word),
        Some((key, value)) => match key.to_ascii_lowercase().as_str() {
            "sha" => (Argument::Sha, value),
            "placement" | "fleet" => (Argument::Placement, value),
            "to" => (Argument::To, value),
            "cluster" => (Argument::Cluster, value),
            _ => return Err("is not known here"),
        },
    };
    if !known(command.verb).contains(&argument) {
        return Err("is not known here");
    }
    if !fits(argument, value) {
        return Err(match argument {
            Argument::Sha | Argument::To => "must be 7 to 40 hexadecimal digits of a commit",
            Argument::Stage => "is no stage's name, which is lowercase letters, digits and `-`",
            _ => "is no name",
        });
    }
    let place = match argument {
        Argument::All => {
            command.all = true;
            return Ok(());
        }
        Argument::Stage => &mut command.stage,
        Argument::Sha => &mut command.sha,
        Argument::Placement => &mut command.placement,
        Argument::To => &mut command.to,
        Argument::Cluster => &mut command.cluster,
    };
    // Ids of commits are compared as text, which git writes in small letters.
    let value =
        if matches!(argument, Argument::Sha | Argument::To) { value.to_ascii_lowercase() } else { value.to_owned() };
    if place.replace(value).is_some() {
        return Err(if argument == Argument::Stage { "is one word too many" } else { "is given twice" });
    }
    Ok(())
}

fn fits(argument: Argument, value: &str) -> bool {
    match argument {
        Argument::All => true,
        Argument::Stage => is_name(value, STAGE_CHARS_MAX, b""),
        Argument::Cluster => is_name(value, NAME_CHARS_MAX, b"."),
        Argument::Placement => {
            let rest = value.split_once('/').filter(|(kind, _)| is_kind_word(kind)).map_or(value, |(_, rest)| rest);
            let (namespace, name) = rest.split_once('/').unwrap_or(("default", rest));
            is_name(namespace, STAGE_CHARS_MAX, b"") && is_name(name, NAME_CHARS_MAX, b".")
        }
        Argument::Sha | Argument::To => {
            (SHA_CHARS_MIN..=SHA_CHARS).contains(&value.len()) && value.bytes().all(|b| b.is_ascii_hexdigit())
        }
    }
}

/// Tells whether a text is a name of at most `max` characters: small letters, digits, dashes and what `more` has.
fn is_name(text: &str, max: usize, more: &[u8]) -> bool {
    (1..=max).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || more.contains(&b))
}

/// Describes an invalid word; repeats the word only if it is harmless.
fn complaint(name: &str, verb: ChatVerb, word: &str, why: &str) -> String {
    let is_harmless =
        word.len() <= REPEATED_CHARS_MAX && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"=.-_".contains(&b));
    let word = if is_harmless { format!("`{word}`") } else { "a word".to_owned() };
    let known: Vec<&str> = known(verb).iter().map(|argument| usage(*argument)).collect();
    let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
    format!("`{name}`: {word} {why}; it takes {known}, and a reason after ` -- `")
}
