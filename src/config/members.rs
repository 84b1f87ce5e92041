//! The access to each member: patterns, `{name}`, and conflicts between entries.

use std::path::{Component, Path, PathBuf};

use super::source::Source;
use super::{Configuration, Member, complaint, no_label};
use model::agent::AgentChoice;
use model::api::check::is_dns_label;
use model::glob::glob_matches;
use model::id::ClusterName;
use model::manifest::InputError;

/// Stands for the member's name in paths and contexts.
const NAME: &str = "{name}";

/// How one member is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberAccess {
    /// Through its API server.
    Live {
        /// The kubeconfig file.
        kubeconfig: PathBuf,
        /// The context; `None` is the file's current one.
        context: Option<String>,
        /// Programs that may be started to sign in.
        allow_exec: Vec<String>,
    },
    /// Through a folder.
    Directory {
        /// The folder.
        path: PathBuf,
    },
    /// Through the API server of the cluster that the process runs in, by its service account.
    InCluster,
    /// By an agent; the daemon has no access of its own.
    Agent {
        /// Which agent.
        agent: AgentChoice,
        /// How the agent reaches it: paths are relative to a folder of the agent. Never another agent.
        access: Box<MemberAccess>,
    },
}

impl MemberAccess {
    /// Tells whether the member is a folder, whoever writes into it.
    pub fn is_directory(&self) -> bool {
        match self {
            Self::Directory { .. } => true,
            Self::Live { .. } | Self::InCluster => false,
            Self::Agent { access, .. } => access.is_directory(),
        }
    }

    /// Returns the agent that reaches it, if one does.
    pub fn agent(&self) -> Option<&AgentChoice> {
        match self {
            Self::Agent { agent, .. } => Some(agent),
            Self::Live { .. } | Self::Directory { .. } | Self::InCluster => None,
        }
    }
}

/// Returns how a member is reached, by the first entry that names it.
pub(super) fn access(members: &[Member], cluster: &ClusterName) -> Option<MemberAccess> {
    let name = cluster.as_str();
    // A name that Kubernetes would refuse must not become a way out of a folder.
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\']) {
        return None;
    }
    let member = members.iter().find(|member| glob_matches(&member.name, name))?;
    let access = match (&member.kubeconfig, &member.directory) {
        (Some(live), _) => Some(MemberAccess::Live {
            kubeconfig: filled(&live.path, name),
            context: live.context.as_ref().map(|context| context.replace(NAME, name)),
            allow_exec: live.allow_exec.clone(),
        }),
        (None, Some(directory)) => Some(MemberAccess::Directory { path: filled(directory, name) }),
        (None, None) => None,
    };
    match &member.agent {
        Some(agent) => {
            let access = Box::new(access.unwrap_or(MemberAccess::InCluster));
            Some(MemberAccess::Agent { agent: agent.clone(), access })
        }
        None => access,
    }
}

/// Returns the path of one member.
fn filled(path: &Path, name: &str) -> PathBuf {
    PathBuf::from(path.to_string_lossy().replace(NAME, name))
}

/// Returns the folders above the first one that `{name}` is part of; the folder itself where it has none.
pub(super) fn fixed_part(directory: &Path) -> PathBuf {
    directory.components().take_while(|part| !part.as_os_str().to_string_lossy().contains(NAME)).collect()
}

/// Adds what is wrong with the members' entries.
pub(super) fn check(configuration: &Configuration, errors: &mut Vec<InputError>) {
    let members = &configuration.members;
    for (position, member) in members.iter().enumerate() {
        let field = format!("members[{position}]");
        check_entry(member, &field, errors);
        check_against_source(configuration, member, &field, errors);
        for (before, earlier) in members[..position].iter().enumerate() {
            // An entry that is never reached writes nothing, so its folder is in nobody's way.
            if covers(&earlier.name, &member.name) {
                let message =
                    format!("{:?} is never reached: members[{before}] ({:?}) comes first", member.name, earlier.name);
                errors.push(complaint(&format!("{field}.name"), message));
            } else if let Some(path) = clash(earlier, member) {
                let message =
                    format!("{} is also in the way of members[{before}] ({:?})", path.display(), earlier.name);
                let hint = Some("give every member a folder of its own, none inside another's".into());
                errors.push(InputError { hint, ..complaint(&format!("{field}.directory"), message) });
            }
        }
    }
    let mut local = configuration.all_sources().iter().filter_map(Source::local);
    if let Some(source) = local.find(|source| source.starts_with(&configuration.store.path)) {
        let message = format!("is or holds the source {}", source.display());
        let hint = Some("the store is never read as source: put it beside or inside it".into());
        errors.push(InputError { hint, ..complaint("store.path", message) });
    }
}

fn check_entry(member: &Member, field: &str, errors: &mut Vec<InputError>) {
    if member.name.is_empty() {
        errors.push(complaint(&format!("{field}.name"), "is empty"));
    }
    let live = member.kubeconfig.as_ref();
    let mut texts: Vec<(&str, String)> = Vec::new();
    texts.extend(member.directory.iter().map(|path| ("directory", path.to_string_lossy().into_owned())));
    texts.extend(live.map(|k| ("kubeconfig.path", k.path.to_string_lossy().into_owned())));
    texts.extend(live.and_then(|k| k.context.clone()).map(|context| ("kubeconfig.context", context)));
    let is_inside = member.agent.is_some() && live.is_none() && member.directory.is_none();
    if is_inside && member.name.contains('*') {
        let hint = Some("name one member, or add `kubeconfig` or `directory`".into());
        let message = "would lead every member of the pattern to the cluster that the agent runs in";
        errors.push(InputError { hint, ..complaint(field, message) });
    } else if !is_inside && live.is_some() == member.directory.is_some() {
        let hint = Some("a member is live or a directory".into());
        errors.push(InputError { hint, ..complaint(field, "needs exactly one of `kubeconfig` and `directory`") });
    } else if member.name.contains('*') && !texts.iter().any(|(_, text)| text.contains(NAME)) {
        let message = format!("would lead every member of {:?} to one place", member.name);
        errors.push(InputError { hint: Some(format!("put {NAME} into it")), ..complaint(field, message) });
    }
    if let Some(agent) = &member.agent {
        check_agent(agent, &texts, field, errors);
    }
    for (name, text) in texts {
        let rest = text.replace(NAME, "");
        if rest.contains(['{', '}']) {
            let message = format!("{text:?} has a placeholder other than {NAME}");
            errors.push(complaint(&format!("{field}.{name}"), message));
        }
    }
}

/// Checks what only entries with an agent have: its name, and paths that stay in a folder on its machine.
fn check_agent(agent: &AgentChoice, texts: &[(&str, String)], field: &str, errors: &mut Vec<InputError>) {
    let (name, end) = match agent {
        AgentChoice::Named(name) => (name, "agent"),
        AgentChoice::Pool { pool } => (pool, "agent.pool"),
    };
    if !is_dns_label(name) {
        errors.push(complaint(&format!("{field}.{end}"), no_label(name)));
    }
    for (name, text) in texts.iter().filter(|(name, _)| *name != "kubeconfig.context") {
        let is_below =
            Path::new(text).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !is_below {
            let hint = Some("the agent reads it below the folder of its --root".into());
            let message = format!("{text:?} must be a relative path without `..`: it is on the agent's machine");
            errors.push(InputError { hint, ..complaint(&format!("{field}.{name}"), message) });
        }
    }
}

/// A folder that is never read as source must not hold the source.
fn check_against_source(configuration: &Configuration, member: &Member, field: &str, errors: &mut Vec<InputError>) {
    // The folder of an agent's member is on the agent's machine.
    if member.agent.is_some() {
        return;
    }
    let Some(directory) = &member.directory else { return };
    let mut local = configuration.all_sources().iter().filter_map(Source::local);
    if let Some(source) = local.find(|source| source.starts_with(fixed_part(directory))) {
        let message = format!("would be written over or around the source {}", source.display());
        let hint = Some(format!("use a folder of its own, such as ./rendered/{NAME}"));
        errors.push(InputError { hint, ..complaint(&format!("{field}.directory"), message) });
    }
}

/// Tells whether every name that fits `later` fits `earlier`, as far as that is plain to see.
fn covers(earlier: &str, later: &str) -> bool {
    // A literal `*` of the later pattern can only be met by a `*`, so treating the pattern as a name is right.
    glob_matches(earlier, later)
}

/// Returns the folder that members of both entries would write into, as far as that can be told without their names.
fn clash(earlier: &Member, later: &Member) -> Option<PathBuf> {
    // Folders of agents are on other machines.
    if earlier.agent.is_some() || later.agent.is_some() {
        return None;
    }
    match (concrete(earlier), concrete(later)) {
        (Some(a), Some(b)) => (a.starts_with(&b) || b.starts_with(&a)).then_some(b),
        (Some(a), None) => taken_by(&a, earlier, later),
        (None, Some(b)) => taken_by(&b, later, earlier),
        (None, None) => None,
    }
}

/// Returns the folder of an entry that is for one member only.
fn concrete(member: &Member) -> Option<PathBuf> {
    if member.name.contains('*') {
        return None;
    }
    match access(std::slice::from_ref(member), &ClusterName::from(member.name.as_str()))? {
        MemberAccess::Directory { path } => Some(path),
        MemberAccess::Live { .. } | MemberAccess::InCluster | MemberAccess::Agent { .. } => None,
    }
}

/// Returns the folder of `one` where the pattern of `many` gives it to a member of another name.
fn taken_by(folder: &Path, one: &Member, many: &Member) -> Option<PathBuf> {
    let template = many.directory.as_ref()?.to_string_lossy().into_owned();
    let (head, tail) = template.split_once(NAME)?;
    let text = folder.to_string_lossy();
    let name = text.strip_prefix(head)?.strip_suffix(tail)?;
    // Where the name is the same it is one member, and the first entry has it.
    (name != one.name && !name.contains('/') && glob_matches(&many.name, name)).then(|| folder.to_owned())
}

#[cfg(test)]
mod tests;
