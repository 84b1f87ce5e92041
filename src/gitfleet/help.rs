//! What help says beside the options: groups of commands, examples, and a usage that shows only what is mandatory.

use clap::Command;
use clap::builder::{Resettable, StyledStr};
use clap::error::{ContextKind, ContextValue};

/// The heading of the options that every command has.
pub const GLOBAL: &str = "Global options";

/// Commands by what people want to do.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Look", &["status", "get", "describe", "explain", "history", "events", "diff"]),
    ("Decide", &["approve", "reject", "pause", "resume", "rollback", "retry", "cordon", "uncordon", "drain"]),
    ("Preview", &["validate", "plan", "simulate", "schedule"]),
    (
        "Set up",
        &["demo", "init", "run", "check", "context", "member", "agent", "forge", "source", "store", "config", "crd"],
    ),
    ("Other", &["export", "completion", "man", "version"]),
];

/// Two examples for each command that does not give its own.
const EXAMPLES: &[(&str, [&str; 2])] = &[
    ("run", ["gitfleet run -c gitfleet.yaml", "gitfleet run -c gitfleet.yaml --once --timeout 10m"]),
    ("validate", ["gitfleet validate fleet -o json", "gitfleet validate -c gitfleet.yaml --source shop=../shop"]),
    ("explain", ["gitfleet explain web", "gitfleet explain web --cluster prod-eu-1"]),
    ("get", ["gitfleet get placements", "gitfleet get runs web-3 -o yaml"]),
    ("describe", ["gitfleet describe placement web", "gitfleet describe cluster prod-eu-1"]),
    ("history", ["gitfleet history web", "gitfleet history web -o json"]),
    ("events", ["gitfleet events web", "gitfleet events -w"]),
    ("diff", ["gitfleet diff web", "gitfleet diff web --cluster prod-eu-1"]),
    (
        "approve",
        ["gitfleet approve web-3 staging --digest 053b62a9e634", "gitfleet approve web deletion -m 'as planned'"],
    ),
    ("reject", ["gitfleet reject web-3 staging", "gitfleet reject web-3 staging -m 'error rates rise'"]),
    ("pause", ["gitfleet pause web", "gitfleet pause web -m 'a freeze until Monday'"]),
    ("resume", ["gitfleet resume web", "gitfleet resume"]),
    ("rollback", ["gitfleet rollback web", "gitfleet rollback web --to 3 --dry-run"]),
    ("retry", ["gitfleet retry web", "gitfleet retry web-3"]),
    ("cordon", ["gitfleet cordon prod-eu-1", "gitfleet cordon prod-eu-1 -c gitfleet.yaml"]),
    ("uncordon", ["gitfleet uncordon prod-eu-1", "gitfleet uncordon prod-eu-1 -c gitfleet.yaml"]),
    ("drain", ["gitfleet drain prod-eu-1", "gitfleet drain prod-eu-1 -c gitfleet.yaml"]),
    ("export decisions", ["gitfleet export decisions", "gitfleet export decisions web -o name"]),
    ("export journal", ["gitfleet export journal", "gitfleet export journal web | jq .event"]),
    (
        "source rename",
        [
            "gitfleet source rename -c gitfleet.yaml",
            "gitfleet source rename https://old.example/fleet.git#main:. -c gitfleet.yaml",
        ],
    ),
    ("store adopt", ["gitfleet store adopt", "gitfleet store adopt -c gitfleet.yaml"]),
    ("store backup", ["gitfleet store backup fleet.backup", "gitfleet store backup fleet.backup -c gitfleet.yaml"]),
    (
        "store restore",
        [
            "gitfleet store restore fleet.backup -c gitfleet.yaml",
            "gitfleet store restore fleet.backup -c gitfleet.yaml --force",
        ],
    ),
    (
        "store migrate",
        [
            "gitfleet store migrate --from gitfleet.yaml -c shared.yaml",
            "gitfleet store migrate --from shared.yaml -c gitfleet.yaml",
        ],
    ),
    (
        "member bootstrap",
        [
            "gitfleet member bootstrap prod-eu-1 --repo fleet | kubectl apply -f -",
            "gitfleet member bootstrap prod-eu-1 -o kubeconfig --kubeconfig admin.kubeconfig > prod-eu-1.kubeconfig",
        ],
    ),
    ("member add", ["gitfleet member add prod-eu-1", "gitfleet member add prod-eu-1 -c gitfleet.yaml"]),
    (
        "agent",
        [
            "gitfleet agent --server https://fleet.example:8443 --name edge-3 --token-file edge-3.token --state /var/lib/gitfleet-agent",
            "gitfleet agent --server https://fleet.example:8443 --name eu-1 --pool europe --token-file eu-1.token --state state --root .",
        ],
    ),
    (
        "agent token create",
        ["gitfleet agent token create edge-3 > edge-3.token", "gitfleet agent token create eu-1 --pool europe -o json"],
    ),
    (
        "agent token revoke",
        ["gitfleet agent token revoke edge-3", "gitfleet agent token revoke edge-3 -m 'machine lost'"],
    ),
    ("agent token list", ["gitfleet agent token list", "gitfleet agent token list -o json"]),
    (
        "forge check",
        ["gitfleet forge check -c gitfleet.yaml", "gitfleet forge check --config /etc/gitfleet/gitfleet.yaml"],
    ),
    (
        "forge setup",
        [
            "gitfleet forge setup -c gitfleet.yaml --url https://gitfleet.example/webhooks/gitea --dry-run",
            "gitfleet forge setup -c gitfleet.yaml --url https://gitfleet.example/webhooks/gitea",
        ],
    ),
    ("check", ["gitfleet check", "gitfleet check -c gitfleet.yaml"]),
    ("crd", ["gitfleet crd | kubectl apply -f -", "gitfleet crd > crds.yaml"]),
    (
        "config schema",
        ["gitfleet config schema > gitfleet.schema.json", "gitfleet config schema | jq .properties.source"],
    ),
    ("man", ["gitfleet man man1", "gitfleet man ~/.local/share/man/man1"]),
    ("version", ["gitfleet version", "gitfleet version -o json"]),
    (
        "completion",
        ["source <(gitfleet completion bash)", "gitfleet completion fish > ~/.config/fish/completions/gitfleet.fish"],
    ),
];

/// Returns the command line with groups and examples in its help. A variable of the environment that is set to nothing is not set.
pub fn described(command: Command) -> Command {
    let groups = groups(&command);
    let command = command.mut_subcommands(|sub| {
        let name = sub.get_name().to_owned();
        with_examples(sub, &name)
    });
    let template =
        format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{GLOBAL}:\n{{options}}{{after-help}}");
    without_empty_variables(command).help_template(template)
}

fn groups(command: &Command) -> String {
    let width = command.get_subcommands().map(|sub| sub.get_name().len()).max().unwrap_or(0);
    let mut text = String::new();
    for (heading, names) in GROUPS {
        text.extend([heading, ":\n"]);
        for sub in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            text.extend([format!("  {:width$}  {about}\n", sub.get_name())]);
        }
        text.push('\n');
    }
    text
}

fn with_examples(command: Command, path: &str) -> Command {
    if command.has_subcommands() {
        return command.mut_subcommands(|sub| {
            let path = format!("{path} {}", sub.get_name());
            with_examples(sub, &path)
        });
    }
    let Some((_, examples)) = EXAMPLES.iter().find(|(of, _)| *of == path) else { return command };
    let own = command.get_after_help().map(ToString::to_string);
    if own.as_ref().is_some_and(|own| own.contains("Examples:")) {
        return command;
    }
    let own = own.map(|own| format!("\n\n{own}")).unwrap_or_default();
    command.after_help(format!("Examples:\n  {}{own}", examples.join("\n  ")))
}

fn without_empty_variables(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let value = arg.get_env().and_then(std::env::var_os);
        if value.is_some_and(|value| value.is_empty()) { arg.env(Resettable::Reset) } else { arg }
    });
    command.mut_subcommands(without_empty_variables)
}

/// Returns an error of usage whose usage shows no option that is there by the environment alone.
pub fn with_plain_usage(mut error: clap::Error, command: &mut Command) -> clap::Error {
    if error.get(ContextKind::Usage).is_none() {
        return error;
    }
    command.build();
    let mut path = Vec::new();
    let mut last = &*command;
    for word in std::env::args().skip(1) {
        if let Some(sub) = last.find_subcommand(&word) {
            path.push(word);
            last = sub;
        }
    }
    error.insert(ContextKind::Usage, ContextValue::StyledStr(usage(command, &path)));
    error
}

fn usage(command: &mut Command, path: &[String]) -> StyledStr {
    let Some((first, rest)) = path.split_first() else { return command.render_usage() };
    command.find_subcommand_mut(first).map(|sub| usage(sub, rest)).unwrap_or_default()
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Colour {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Also where it goes to a file or another program, such as `less -R`.
    Always,
    /// Never.
    Never,
}

impl Colour {
    /// Returns what was asked for; `None` where the terminal and the environment decide.
    pub fn wanted(self) -> Option<bool> {
        match self {
            Self::Auto => None,
            Self::Always => Some(true),
            Self::Never => Some(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use clap::error::ErrorKind;

    use super::*;
    use crate::Cli;

    #[test]
    fn every_command_is_in_one_group() {
        let command = Cli::command();
        for sub in command.get_subcommands().map(Command::get_name) {
            let found = GROUPS.iter().flat_map(|(_, names)| *names).filter(|name| **name == sub).count();
            assert_eq!(found, 1, "{sub}: add it to one of the groups");
        }
    }

    #[test]
    fn every_command_has_two_examples_that_it_understands() {
        fn check(command: &Command, path: &str) {
            if command.has_subcommands() {
                return command.get_subcommands().for_each(|sub| check(sub, &format!("{path} {}", sub.get_name())));
            }
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let (_, examples) = help.split_once("Examples:").unwrap_or_else(|| panic!("{path} has no examples"));
            let lines: Vec<&str> = examples.lines().filter(|line| line.contains("gitfleet ")).collect();
            assert!(lines.len() >= 2, "{path}: {help}");
        }
        let command = described(Cli::command());
        command.get_subcommands().for_each(|sub| check(sub, sub.get_name()));
        for line in EXAMPLES.iter().flat_map(|(_, lines)| lines) {
            let words = line.split(['|', '>']).next().unwrap_or_default().replace("source <(", "").replace(')', "");
            let words: Vec<String> = words.split('\'').enumerate().fold(Vec::new(), |mut words, (place, part)| {
                if place % 2 == 1 {
                    words.push(part.to_owned());
                } else {
                    words.extend(part.split_whitespace().map(str::to_owned));
                }
                words
            });
            if command.find_subcommand(&words[1]).is_none() && !words[1].starts_with('-') {
                continue;
            }
            let parsed = described(Cli::command()).try_get_matches_from(&words);
            // A command that this build does not have shows no example.
            let is_wrong = |error: &clap::Error| error.use_stderr() && error.kind() != ErrorKind::InvalidSubcommand;
            assert!(!parsed.as_ref().is_err_and(is_wrong), "{line}: {parsed:?}");
        }
    }
}
