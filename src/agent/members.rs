//! The members of an agent: the same tasks as in the daemon, started and stopped as the server's list says.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use config::MemberAccess;
use deliver::health::{HealthRules, KindRule};
use engine::{MemberCommand, MemberEvent};
use member::Common;
use member::decryption::Decryption;
use member::task::{MemberTask, common};
use model::encrypted::DigestKey;
use model::id::ClusterName;
use model::work::SourceName;
use schedule::cel::ObjectExpression;
use system::clock::Uptime;
use system::fence::{Fence, lease_clock};
use system::supervise::Supervisor;
use wire::remote::agent::{AgentTasks, ChangedMembers};
use wire::{AgentHealth, AgentMember, AgentReach, MEMBERS_MAX};

/// The running tasks.
pub(super) struct Members {
    root: PathBuf,
    supervisor: Supervisor,
    decryption: Decryption,
    events: mpsc::UnboundedSender<MemberEvent>,
    /// What the running tasks were started with.
    of: Option<(SourceName, AgentHealth, Arc<Common>)>,
    running: BTreeMap<ClusterName, (AgentMember, Option<MemberTask>)>,
    /// Members of a pool are written to while the agent's lease lasts.
    leased: Fence,
    /// Members of a named agent are always written to: nobody else has them.
    own: Fence,
}

impl Members {
    pub(super) fn new(
        root: PathBuf,
        supervisor: Supervisor,
        decryption: Decryption,
        events: mpsc::UnboundedSender<MemberEvent>,
    ) -> Self {
        let leased = fence();
        let own = fence();
        Self { root, supervisor, decryption, events, of: None, running: BTreeMap::new(), leased, own }
    }

    /// Runs exactly these members, with new tasks for those of pools where `restart_pools` says so. Nothing is removed from one that is stopped.
    pub(super) async fn set(
        &mut self,
        source: &SourceName,
        health: &AgentHealth,
        members: &[AgentMember],
        restart_pools: bool,
    ) -> ChangedMembers {
        let mut changed = ChangedMembers::default();
        let is_same = self.of.as_ref().is_some_and(|(s, h, _)| (s, h) == (source, health));
        let listed: BTreeMap<_, _> = members.iter().take(MEMBERS_MAX).map(|member| (&member.cluster, member)).collect();
        let is_replaced = |member: &AgentMember| restart_pools && member.pool.is_some();
        let stays =
            |member: &AgentMember| is_same && !is_replaced(member) && listed.get(&member.cluster) == Some(&member);
        let gone: Vec<ClusterName> =
            self.running.iter().filter(|(_, (member, _))| !stays(member)).map(|(name, _)| name.clone()).collect();
        let tasks = gone.iter().filter_map(|name| self.running.remove(name)?.1).collect();
        stop_all(tasks).await;
        for name in gone {
            if !listed.contains_key(&name) {
                tracing::info!(cluster = %name, "is no member of this agent any more; what it holds stays there");
                changed.stopped.insert(name);
            }
        }
        if !is_same {
            let common = Arc::new(common(rules(health), self.decryption.clone(), &self.supervisor));
            self.of = Some((source.clone(), health.clone(), common));
        }
        for (name, member) in listed {
            if !self.running.contains_key(name) {
                let task = self.start(member);
                self.running.insert(name.clone(), (member.clone(), task));
                changed.started.insert(name.clone());
            }
        }
        changed
    }

    fn start(&self, member: &AgentMember) -> Option<MemberTask> {
        let (source, _, common) = self.of.as_ref()?;
        let access = match access(&self.root, &member.reach) {
            Ok(access) => access,
            Err(reason) => {
                self.refuse(&member.cluster, reason);
                return None;
            }
        };
        let fence = if member.pool.is_some() { &self.leased } else { &self.own };
        let name = &member.cluster;
        let events = self.events.clone();
        let common = Arc::clone(common);
        let fence = fence.clone();
        let source = source.clone();
        let at_once = std::future::ready(());
        Some(MemberTask::start(name, &access, fence, source, common, events, &self.supervisor, at_once))
    }

    fn refuse(&self, cluster: &ClusterName, reason: String) {
        tracing::warn!(%cluster, reason, "the member cannot be reached");
        // The receiver lives as long as the agent.
        drop(self.events.send(MemberEvent::Offline { cluster: cluster.clone(), reason }));
    }

    /// Stops all tasks, and returns when they have ended.
    pub(super) async fn stop(&mut self) {
        stop_all(std::mem::take(&mut self.running).into_values().filter_map(|(_, task)| task).collect()).await;
    }
}

/// Stops tasks, and returns when all have ended. They end together: one after the other, hundreds would take longer than a lease.
async fn stop_all(tasks: Vec<MemberTask>) {
    futures::future::join_all(tasks.into_iter().map(MemberTask::stop)).await;
}

impl AgentTasks for Members {
    fn set_epoch(&mut self, epoch: u64) {
        self.own.open_until(epoch, Uptime::MAX);
    }

    fn prolong(&mut self, epoch: u64, end: Uptime) {
        self.leased.open_until(epoch, end);
    }

    fn send(&mut self, cluster: &ClusterName, command: MemberCommand) {
        if let Some((_, Some(task))) = self.running.get(cluster) {
            task.send(command);
        }
    }

    fn announce(&mut self) {
        for (name, (member, task)) in &self.running {
            match task {
                Some(task) => task.send(MemberCommand::Announce),
                None => {
                    if let Err(reason) = access(&self.root, &member.reach) {
                        self.refuse(name, reason);
                    }
                }
            }
        }
    }

    fn has(&self, cluster: &ClusterName) -> bool {
        self.running.contains_key(cluster)
    }
}

/// Returns a closed fence. It cuts writes at the end that it is told: the session ends a lease early, and that is the margin.
fn fence() -> Fence {
    Fence::of_lease(Duration::ZERO, lease_clock())
}

/// Returns how a member is reached from here. The server names no file outside the agent's folder: it is not to read or write others.
fn access(root: &Path, reach: &AgentReach) -> Result<MemberAccess, String> {
    let inside = |path: &Path| {
        let is_inside = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        let refused = || {
            format!(
                "the path {} leads out of the agent's folder; write it relative to --root, without `..`",
                path.display()
            )
        };
        is_inside.then(|| root.join(path)).ok_or_else(refused)
    };
    Ok(match reach {
        AgentReach::Kubeconfig { path, context, allow_exec } => {
            MemberAccess::Live { kubeconfig: inside(path)?, context: context.clone(), allow_exec: allow_exec.clone() }
        }
        AgentReach::Directory { path } => MemberAccess::Directory { path: inside(path)? },
        AgentReach::InCluster => MemberAccess::InCluster,
        AgentReach::Unknown => {
            return Err(
                "the agent is too old for the way in which the configuration reaches it; update the agent".to_owned()
            );
        }
    })
}

/// Compiles the rules. The server has checked them; one that this version cannot compile makes nothing available.
fn rules(health: &AgentHealth) -> HealthRules {
    HealthRules {
        kinds: health.kinds.iter().map(rule).collect(),
        only_kubefleets: health.only_kubefleets,
        digest_key: DigestKey::default(),
    }
}

fn rule(kind: &wire::AgentKindHealth) -> KindRule {
    KindRule {
        group: kind.group.clone(),
        kind: kind.kind.clone(),
        available: kind.available.as_deref().and_then(compiled),
        failed: kind.failed.as_deref().and_then(compiled),
    }
}

fn compiled(text: &str) -> Option<ObjectExpression> {
    match ObjectExpression::compile(text) {
        Ok(compiled) => Some(compiled),
        Err(error) => {
            tracing::warn!(error, "an expression of `health` cannot be compiled; it is never true. Update the agent");
            ObjectExpression::compile("false").ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_names_no_file_outside_the_folder() {
        let reached = |path: &str| access(Path::new("/srv"), &AgentReach::Directory { path: path.into() });
        assert_eq!(reached("rendered/./a"), Ok(MemberAccess::Directory { path: "/srv/rendered/a".into() }));
        for path in ["/etc", "../etc", "a/../../etc", "a/.."] {
            let error = reached(path).expect_err("it is refused");
            assert!(error.contains("leads out of the agent's folder"), "{path}: {error}");
        }
    }
}
