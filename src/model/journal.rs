//! The kinds of entries that the journal has.
//!
//! `docs/reference/journal.md` is made from this file.

use serde_json::Value;

use super::texts::text_enum;

text_enum! {
    /// What an entry of the journal says, with the names of its facts.
    pub enum JournalKind {
        "Snapshots and bindings" {
            /// The selected objects changed, and a new snapshot was frozen.
            SnapshotCreated ["index", "hash", "objects"],
            /// Git has the placement under a new name: everything continues.
            Renamed ["from"],
            /// The store was lost, and members hold this snapshot: it keeps its index.
            SnapshotFound ["index"],
            /// The store was lost, and members keep a pause.
            PauseFound ["by", "reason"],
            /// The store was lost, and members keep that a snapshot is held.
            HoldFound ["index", "why"],
            /// The store was restored from a backup, and the cluster holds a newer snapshot. It stays until the rollout comes to the
            /// cluster.
            NewerSnapshotFound ["binding", "from"],
            /// A snapshot was rolled back or rejected: it is not rolled out again by itself.
            SnapshotHeld ["index", "why"],
            /// The policy picked the cluster.
            ClusterPicked ["binding"],
            /// The policy does not pick the cluster any more.
            ClusterDropped ["binding"],
            /// The cluster was assigned a snapshot.
            RolloutStarted ["binding", "from", "to"],
            /// The rollout returned to an earlier snapshot. `commit` is the one that it came from.
            RolledBack ["from", "commit", "to", "why"],
            /// What the cluster holds of the placement is being removed.
            RemovalStarted ["binding"],
            /// Everything of the placement is gone from the cluster.
            BindingRemoved ["binding"],
            /// The cluster left the fleet. What it holds stays there.
            ClusterLeft ["binding"],
            /// An eviction was evaluated.
            EvictionJudged ["eviction", "executed"],
        }
        "Progress of a placement; KubeFleet's events, each once for a rollout" {
            /// Every picked cluster was assigned the snapshot.
            PlacementRolloutStarted ["snapshot"],
            /// The overrides were applied for every picked cluster.
            PlacementOverriddenSucceeded ["snapshot"],
            /// Every picked cluster's work was handed over.
            PlacementWorkSynchronized ["snapshot"],
            /// Every object is applied on every picked cluster.
            PlacementApplied ["snapshot"],
            /// Every object is available on every picked cluster.
            PlacementRolloutCompleted ["snapshot"],
        }
        "Staged update runs" {
            /// A run was written in git, or a placement's strategy made one.
            RunCreated ["run", "strategy", "snapshot"],
            /// The run's snapshot and stages are fixed, and it begins.
            RunStarted ["run", "snapshot"],
            /// The run cannot begin.
            RunRefused ["run", "message"],
            /// The run entered another phase.
            RunMoved ["run", "message"],
            /// The run ended before it was done: it was superseded, rolled back or rejected.
            RunEnded ["run", "phase", "message"],
            /// The run was removed from git. Clusters stay as they are.
            RunRemoved ["run"],
            /// The stage began to move its clusters.
            StageStarted ["run", "stage"],
            /// The stage has no clusters.
            StageSkipped ["run", "stage", "message"],
            /// The clusters of the stage are done, and tasks are left.
            StageWaiting ["run", "stage"],
            /// The stage is done.
            StageSucceeded ["run", "stage"],
            /// A gate waits for an approval.
            ApprovalRequested ["run", "stage", "snapshot", "commit", "digest", "message"],
            /// Enough people approved, the time to wait has passed, or a check held when its stage was done.
            TaskDone ["run", "stage", "message"],
            /// Somebody said retry: these checks of the stage are asked again.
            ChecksRepeated ["run", "stage", "message"],
            /// A change of strategy or stages would have dropped an approval: it is still asked for, or the placement is paused.
            ApprovalKept ["run", "stage", "wantedBy", "paused"],
            /// The cluster was assigned the run's snapshot, or began to remove what it holds.
            ClusterStarted ["run", "stage", "message"],
            /// The cluster is available at the run's snapshot, or what it held is gone.
            ClusterSucceeded ["run", "stage", "message"],
            /// The cluster failed.
            ClusterFailed ["run", "stage", "message"],
            /// The cluster's turn came while it did not answer.
            ClusterDeferred ["run", "stage", "message"],
            /// The run skips the cluster.
            ClusterSkipped ["run", "stage", "message"],
            /// A failed cluster is tried again.
            ClusterRetried ["run", "stage", "message"],
        }
        "How rollouts stand" {
            /// Deletions wait for an approval. Written once while some wait, also if others join them.
            DeletionsHeld ["digest", "message"],
            /// No cluster is started any more: too many failed, checks failed, or the strategy cannot be followed.
            RolloutHalted ["run", "snapshot", "commit", "message"],
            /// The snapshot is available on every picked cluster, and its run, if it has one, has succeeded.
            RolloutSucceeded ["snapshot", "commit"],
        }
        "The source" {
            /// The newest commit has errors: the last good one stays accepted.
            CommitRefused ["commit", "errors", "message"],
            /// The newest commit waits until a person accepts it: history was rewritten, or another branch is checked out.
            CommitHeld ["commit", "message"],
        }
        "Commands" {
            /// A command was executed.
            Commanded ["verb", "target", "stage", "person", "surface", "reason", "message"],
            /// A person approved a gate. `opened` tells whether that sufficed.
            Approved ["run", "stage", "person", "digest", "opened"],
        }
        "OCM Placements" {
            /// A PlacementDecision came into being.
            DecisionCreate ["ocmPlacement", "message"],
            /// The clusters of a PlacementDecision changed. With `warning` the event is a warning.
            DecisionUpdate ["ocmPlacement", "gained", "lost", "warning", "message"],
            /// A PlacementDecision is gone.
            DecisionDelete ["ocmPlacement", "message"],
            /// The totals that decided, by cluster, where the clusters of a PlacementDecision changed.
            ScoreUpdate ["ocmPlacement", "message"],
            /// Scores of add-ons expired, and no PlacementDecision changed.
            ScoresExpired ["ocmPlacement", "message"],
            /// The Placement is gone from git.
            PlacementRemoved ["ocmPlacement"],
        }
        "The daemon" {
            /// A person made a token for an agent.
            AgentEnrolled ["agent", "pools", "by"],
            /// A person made the token of an agent invalid.
            AgentRevoked ["agent", "by"],
            /// A person let a new store take over what members hold.
            StoreAdopted ["by", "members"],
            /// The machine's clock was set, or another machine leads, whose clock differs. Waits that were under way were moved by as much.
            ClockCorrected ["by", "when"],
            /// A person let gitfleet continue with the accepted commit, though it has not read the source since the start.
            WentOnWithoutSource ["by"],
        }
    }
}

impl JournalKind {
    /// Tells whether it reports that something went wrong.
    pub fn is_warning(&self) -> bool {
        matches!(
            self,
            Self::ClusterFailed
                | Self::RunRefused
                | Self::RolledBack
                | Self::RolloutHalted
                | Self::SnapshotHeld
                | Self::CommitRefused
                | Self::CommitHeld
                | Self::ScoresExpired
        )
    }

    /// Tells whether facts have only names that the kind is documented with.
    pub fn documents(&self, facts: &Value) -> bool {
        let known = Self::ALL.iter().find(|known| known.value == *self);
        let mut names = facts.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
        known.is_none_or(|known| names.all(|name| known.fields.contains(&name)))
    }
}
