//! What the conditions of gitfleet's objects are about, and the reasons they give.
//!
//! `docs/reference/conditions.md` is made from this file.

use super::texts::text_enum;

text_enum! {
    /// What a condition is about.
    pub enum ConditionType {
        "Clusters of a placement; bindings, Works and objects have those that apply to them" {
            /// The policy picked the cluster. On a policy snapshot: as many clusters were picked as the policy asks for.
            Scheduled,
            /// The cluster was assigned the snapshot.
            RolloutStarted,
            /// The overrides that concern the cluster were applied to its objects.
            Overridden,
            /// What the cluster is to hold was computed and handed to its task.
            WorkSynchronized,
            /// The objects were written to the cluster.
            Applied,
            /// The applied objects work.
            Available,
            /// With `ReportDiff`, instead of Applied and Available: the objects were compared.
            DiffReported,
        }
        "Placements: the same, added up over all picked clusters" {
            /// As many clusters were picked as the policy asks for.
            ClusterResourcePlacementScheduled,
            /// Every picked cluster was assigned the newest snapshot.
            ClusterResourcePlacementRolloutStarted,
            /// The overrides were applied for every picked cluster.
            ClusterResourcePlacementOverridden,
            /// Every picked cluster's work was handed over.
            ClusterResourcePlacementWorkSynchronized,
            /// Every object is applied on every picked cluster.
            ClusterResourcePlacementApplied,
            /// Every object is available on every picked cluster.
            ClusterResourcePlacementAvailable,
            /// Every object was compared on every picked cluster.
            ClusterResourcePlacementDiffReported,
            /// As many clusters were picked as the policy asks for.
            ResourcePlacementScheduled,
            /// Every picked cluster was assigned the newest snapshot.
            ResourcePlacementRolloutStarted,
            /// The overrides were applied for every picked cluster.
            ResourcePlacementOverridden,
            /// Every picked cluster's work was handed over.
            ResourcePlacementWorkSynchronized,
            /// Every object is applied on every picked cluster.
            ResourcePlacementApplied,
            /// Every object is available on every picked cluster.
            ResourcePlacementAvailable,
            /// Every object was compared on every picked cluster.
            ResourcePlacementDiffReported,
        }
        "Placements: gitfleet's own, always True and only there while they apply" {
            /// An error concerns this placement alone. It keeps its last good state until its input changes.
            Stalled,
            /// More clusters failed than `gitfleet.io/max-failures` allows. `retry` or a new commit continues.
            Halted,
            /// Deletions wait for an approval. The message names reason and digest.
            DeletionGuarded,
            /// Picked clusters do not answer and are not at the newest snapshot.
            ClustersDeferred,
            /// The placement is gone from git, and its objects are being removed.
            Removing,
        }
        "Staged update runs, their stages and the clusters of these" {
            /// The stages of the run are computed.
            Initialized,
            /// The run or stage moves clusters.
            Progressing,
            /// The run, stage or cluster is done; False: it failed.
            Succeeded,
            /// The cluster was assigned the run's snapshot.
            Started,
        }
        "Stage tasks and approval requests" {
            /// Of a task: an approval was requested.
            ApprovalRequestCreated,
            /// Of a task: enough people approved.
            ApprovalRequestApproved,
            /// Of a task: the time to wait has passed.
            WaitTimeElapsed,
            /// Of an approval request: people approved or rejected it.
            Approved,
            /// Of an approval request: the approvals suffice, and the gate is open.
            ApprovalAccepted,
        }
        "Evictions" {
            /// The eviction can be evaluated.
            Valid,
            /// The placement leaves the cluster.
            Executed,
        }
        "Member clusters" {
            /// The configuration reaches the cluster, it has answered once and has not left.
            ReadyToJoin,
            /// As ReadyToJoin; also of the member agent.
            Joined,
            /// Of the member agent: the cluster answers.
            Healthy,
            /// The cluster's nodes and pods are watched for its properties.
            ClusterPropertyCollectionSucceeded,
            /// Read from a MemberCluster's status, never written: the namespaces in the status are complete.
            NamespaceCollectionSucceeded,
        }
        "OCM Placements" {
            /// The Placement asks for something that cannot be carried out.
            PlacementMisconfigured,
            /// The Placement got as many clusters as it asks for.
            PlacementSatisfied,
        }
    }
}

use ConditionType as T;

/// The chain of a placement in its order: on a cluster, on a ClusterResourcePlacement, on a ResourcePlacement.
const CHAIN: [[ConditionType; 3]; 7] = [
    [T::Scheduled, T::ClusterResourcePlacementScheduled, T::ResourcePlacementScheduled],
    [T::RolloutStarted, T::ClusterResourcePlacementRolloutStarted, T::ResourcePlacementRolloutStarted],
    [T::Overridden, T::ClusterResourcePlacementOverridden, T::ResourcePlacementOverridden],
    [T::WorkSynchronized, T::ClusterResourcePlacementWorkSynchronized, T::ResourcePlacementWorkSynchronized],
    [T::Applied, T::ClusterResourcePlacementApplied, T::ResourcePlacementApplied],
    [T::Available, T::ClusterResourcePlacementAvailable, T::ResourcePlacementAvailable],
    [T::DiffReported, T::ClusterResourcePlacementDiffReported, T::ResourcePlacementDiffReported],
];

impl ConditionType {
    /// Returns the type that says the same of a whole placement: it has the placement's kind as prefix.
    #[must_use]
    pub fn on_placement(&self, namespaced: bool) -> Self {
        let column = if namespaced { 2 } else { 1 };
        CHAIN.iter().find(|link| link[0] == *self).map_or_else(|| self.clone(), |link| link[column].clone())
    }

    /// Returns its position in a placement's chain, of a cluster or of the whole placement; `None` outside of it.
    pub fn chain_position(&self) -> Option<usize> {
        CHAIN.iter().position(|link| link.contains(self))
    }
}

text_enum! {
    /// Why a condition is as it is.
    pub enum Reason {
        "Clusters of a placement, and bindings" {
            /// Scheduled: the policy picked the cluster.
            Scheduled,
            /// Scheduled: the policy wanted the cluster, or one like it, and could not pick it.
            ScheduleFailed,
            /// RolloutStarted: the cluster, or on a placement every cluster, was assigned the newest snapshot.
            RolloutStarted,
            /// RolloutStarted: the cluster's turn has not come.
            RolloutNotStartedYet,
            /// RolloutStarted: the cluster is not bound yet.
            RolloutStartedUnknown,
            /// Overridden: no override concerns the cluster.
            NoOverrideSpecified,
            /// Overridden: overrides changed the objects. The message names them.
            OverriddenSucceeded,
            /// Overridden: an override cannot be applied. Nothing is delivered.
            OverriddenFailed,
            /// Overridden: not known yet.
            OverriddenPending,
            /// WorkSynchronized: the work was handed over.
            AllWorkSynced,
            /// WorkSynchronized: the work failed as a whole, for example because another source owns the inventory.
            SyncWorkFailed,
            /// WorkSynchronized: not known yet.
            WorkSynchronizedUnknown,
            /// Applied: delivery is under way.
            ApplyInProgress,
            /// Applied: every object is applied.
            AllWorkHaveBeenApplied,
            /// Applied: every object was tried, and some were refused.
            NotAllWorkHaveBeenApplied,
            /// Applied: not known yet.
            ApplyPending,
            /// Available: every object is available.
            AllWorkAreAvailable,
            /// Available: every object counts as available; some kinds do not report it.
            NotAllWorkAreAvailabilityTrackable,
            /// Available: some objects are not available yet.
            NotAllWorkAreAvailable,
            /// Available: not known yet.
            ResourceAvailableUnknown,
            /// DiffReported: the comparison is under way.
            DiffReportInProgress,
            /// DiffReported: every object was compared.
            AllWorkHaveDiffReported,
            /// DiffReported: some objects could not be compared.
            NotAllWorkHaveDiffReported,
            /// DiffReported: not known yet.
            DiffReportingPending,
        }
        "Placements" {
            /// Scheduled: clusters are being picked for the placement as it is now.
            SchedulePending,
            /// Scheduled, also of a policy snapshot: as many clusters are picked as the policy asks for.
            SchedulingPolicyFulfilled,
            /// Scheduled, also of a policy snapshot: fewer clusters fit than the policy asks for.
            SchedulingPolicyUnfulfilled,
            /// Scheduled: an error of the placement stops scheduling. The message says which.
            InvalidResourceSelectors,
            /// RolloutStarted: the placement is External, and staged update runs have not brought its clusters together.
            RolloutControlledByExternalController,
            /// WorkSynchronized: the work of some cluster could not be handed over.
            WorkNotSynchronizedYet,
            /// WorkSynchronized: the work of every cluster was handed over.
            WorkSynchronized,
            /// Applied: on some cluster not every object is applied.
            ApplyFailed,
            /// Applied: on every cluster every object is applied.
            ApplySucceeded,
            /// Available: on some cluster not every object is available.
            ResourceNotAvailableYet,
            /// Available: on every cluster every object is available.
            ResourceAvailable,
            /// DiffReported: on some cluster not every object was compared.
            DiffReportingIncompleteOrFailed,
            /// DiffReported: on every cluster every object was compared.
            DiffReportingCompleted,
        }
        "Placements: gitfleet's own" {
            /// Stalled: the placement has an error.
            PlacementInvalid,
            /// Halted: more clusters failed than may.
            FailuresExceedMax,
            /// DeletionGuarded: an authorised person must approve.
            ApprovalRequired,
            /// ClustersDeferred: clusters do not answer. gitfleet updates them when they return.
            ClustersOffline,
            /// Removing: no commit has the placement any more.
            RemovedFromGit,
        }
        "Works" {
            /// Applied: every object is applied.
            AllManifestsApplied,
            /// Applied: some objects are not applied.
            SomeManifestsAreNotApplied,
            /// Available: every object is available.
            AllManifestsAvailable,
            /// Available: every object counts as available; some kinds do not report it.
            WorkNotTrackable,
            /// Available: some objects are not available.
            SomeManifestsAreNotAvailable,
            /// DiffReported: every object was compared.
            AllManifestsDiffReported,
            /// DiffReported: some objects were not compared.
            SomeManifestsHaveNotReportedDiff,
        }
        "Objects" {
            /// Applied: the object was not tried yet.
            PreparingToProcess,
            /// Applied: the object is applied.
            Applied,
            /// Applied: the API server refused the object.
            ManifestApplyFailed,
            /// Applied: the API server does not know the object's kind.
            DecodingErred,
            /// Applied: another placement or source owns the object, or it differs and `IfNoDiff` forbids to take it over.
            FailedToTakeOver,
            /// Applied: the object was there before, and `Never` forbids to take it over.
            NotTakenOver,
            /// Applied: the object drifted, and `IfNotDrifted` leaves it as it is.
            FoundDrifts,
            /// Applied: somebody changed the object, and it could not be compared.
            FailedToRunDriftDetection,
            /// Applied: the member did not return the object.
            FailedToFindObjInMemberCluster,
            /// DiffReported: nothing differs.
            NoDiffFound,
            /// DiffReported: something differs.
            FoundDiff,
            /// DiffReported: the object could not be compared.
            FailedToReportDiff,
            /// Available: the object is available.
            Available,
            /// Available: the object does not report whether it is available.
            NotTrackable,
            /// Available: the object is not available yet.
            ManifestNotAvailableYet,
        }
        "Staged update runs" {
            /// Initialized: the run has not begun.
            UpdateRunNotInitializedYet,
            /// Initialized: its snapshot and stages are fixed.
            UpdateRunInitializedSuccessfully,
            /// Initialized: the run cannot begin. The message says why.
            UpdateRunInitializedFailed,
            /// Progressing: clusters are being moved.
            UpdateRunProgressing,
            /// Progressing: a gate waits for an approval or for time.
            UpdateRunWaiting,
            /// Progressing: clusters have been on their way for more than 5 minutes.
            UpdateRunStuck,
            /// Progressing: more clusters failed than may. `retry` continues.
            UpdateRunHalted,
            /// Progressing: no further cluster is started; some are on their way.
            UpdateRunStopping,
            /// Progressing: the run is stopped.
            UpdateRunStopped,
            /// Progressing and Succeeded: every stage is done.
            UpdateRunSucceeded,
            /// Progressing and Succeeded: the run failed, was superseded, rolled back or rejected.
            UpdateRunFailed,
        }
        "Stages of a run" {
            /// Progressing: its clusters are being moved.
            StageUpdatingStarted,
            /// Progressing: a gate of the stage waits, or the run is halted.
            StageUpdatingWaiting,
            /// Progressing: the run is being stopped.
            StageUpdatingStopping,
            /// Progressing: the run is stopped.
            StageUpdatingStopped,
            /// Progressing and Succeeded: the stage is done.
            StageUpdatingSucceeded,
            /// Progressing and Succeeded: the stage has no clusters.
            StageUpdatingSkippedNoClusters,
            /// Progressing and Succeeded: the run ended in this stage.
            StageUpdatingFailed,
        }
        "Clusters of a stage" {
            /// Started: the update of the cluster began.
            ClusterUpdatingStarted,
            /// Started: the cluster's turn came while it did not answer. gitfleet updates it when it returns.
            ClusterUpdatingDeferred,
            /// Started: the cluster left, and the run skips it.
            ClusterUpdatingSkipped,
            /// Succeeded: the cluster is available at the run's snapshot.
            ClusterUpdatingSucceeded,
            /// Succeeded: the cluster failed.
            ClusterUpdatingFailed,
        }
        "Stage tasks and approval requests" {
            /// ApprovalRequestCreated: an approval was requested.
            StageTaskApprovalRequestCreated,
            /// ApprovalRequestApproved: enough people approved.
            StageTaskApprovalRequestApproved,
            /// WaitTimeElapsed: the time to wait has passed.
            AfterStageTaskWaitTimeElapsed,
            /// Approved: somebody approved. A reason code that the person gave takes the place of this one.
            Approved,
            /// Approved: more people must approve.
            MoreApprovalsNeeded,
            /// Approved: somebody rejected it.
            Rejected,
            /// Approved: the run ended before enough people had approved, and nobody can any more. The message says how it ended.
            UpdateRunEnded,
            /// ApprovalAccepted: the gate is open.
            ApprovalRequestApprovalAccepted,
        }
        "Evictions" {
            /// Valid: the eviction can be evaluated.
            ClusterResourcePlacementEvictionValid,
            /// Valid: the eviction cannot be evaluated. The message says why.
            ClusterResourcePlacementEvictionInvalid,
            /// Executed: the placement leaves the cluster.
            ClusterResourcePlacementEvictionExecuted,
            /// Executed: the placement stays, for example because a disruption budget forbids to remove it.
            ClusterResourcePlacementEvictionNotExecuted,
        }
        "Member clusters" {
            /// ReadyToJoin: the cluster is a member.
            MemberClusterReadyToJoin,
            /// ReadyToJoin: the configuration does not reach the cluster, it has never answered, or it left.
            MemberClusterNotReadyToJoin,
            /// Joined: the cluster is a member.
            MemberClusterJoined,
            /// Joined: the cluster is not a member yet, or not any more.
            MemberClusterLeft,
            /// Joined of the member agent: the cluster is a member.
            InternalMemberClusterJoined,
            /// Joined of the member agent: the cluster is not a member yet, or not any more.
            InternalMemberClusterLeft,
            /// Healthy: the cluster answers.
            InternalMemberClusterHealthy,
            /// Healthy: the cluster does not answer.
            InternalMemberClusterUnhealthy,
            /// ClusterPropertyCollectionSucceeded: nodes and pods are watched.
            PropertiesCollected,
            /// ClusterPropertyCollectionSucceeded: nodes or pods cannot be watched. The message says why.
            PropertiesNotCollected,
        }
        "OCM Placements" {
            /// PlacementSatisfied: every cluster that was asked for is decided.
            AllDecisionsScheduled,
            /// PlacementSatisfied: fewer clusters fit than were asked for, or the last good decisions are kept.
            NotAllDecisionsScheduled,
            /// PlacementSatisfied: no cluster fits.
            NoManagedClusterMatched,
            /// PlacementSatisfied: no ManagedClusterSet is bound to the namespace.
            NoManagedClusterSetBindings,
            /// PlacementSatisfied: none of the named ManagedClusterSets is bound to the namespace.
            NoIntersection,
            /// PlacementSatisfied: the bound ManagedClusterSets have no cluster.
            AllManagedClusterSetsEmpty,
            /// PlacementMisconfigured: nothing is wrong.
            Succeedconfigured,
            /// PlacementMisconfigured: the Placement cannot be carried out. The message says why.
            Misconfigured,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn texts_come_back_as_they_were() {
        for known in ConditionType::ALL {
            assert_eq!(ConditionType::from(known.value.as_str()), known.value);
        }
        for known in Reason::ALL {
            assert_eq!(Reason::from(known.value.as_str()), known.value);
        }
        let of_another_version = r#""ReasonOfTomorrow""#;
        let read: Reason = serde_json::from_str(of_another_version).unwrap();
        assert_eq!(read, Reason::Other("ReasonOfTomorrow".into()));
        assert_eq!(serde_json::to_string(&read).unwrap(), of_another_version);
        let escaped: ConditionType = serde_json::from_str(r#""Appl\u0069ed""#).unwrap();
        assert_eq!(escaped, ConditionType::Applied);
    }

    #[test]
    fn prefixes_are_kinds() {
        for link in &CHAIN {
            let [on_cluster, of_cluster_wide, of_namespaced] = link;
            assert_eq!(of_cluster_wide.as_str(), format!("ClusterResourcePlacement{on_cluster}"));
            assert_eq!(of_namespaced.as_str(), format!("ResourcePlacement{on_cluster}"));
            assert_eq!(
                (&on_cluster.on_placement(false), &on_cluster.on_placement(true)),
                (of_cluster_wide, of_namespaced)
            );
        }
        assert_eq!(ConditionType::Halted.on_placement(true), ConditionType::Halted);
    }

    #[test]
    fn a_reason_names_the_type_it_is_of() {
        let types: BTreeSet<&str> = ConditionType::ALL.iter().map(|known| known.value.as_str()).collect();
        for known in Reason::ALL {
            let named = known.meaning.trim().split([':', ',', ' ']).next().unwrap_or_default();
            assert!(types.contains(named), "{}: {}", known.value, known.meaning);
        }
    }
}
