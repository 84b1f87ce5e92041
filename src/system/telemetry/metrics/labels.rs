//! The values that labels have: closed sets, so the number of series does not grow with the fleet; only the list of placements does,
//! up to a limit.

use std::fmt::{self, Write as _};

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

macro_rules! label_values {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$value_doc])* $value,)+
        }

        impl $name {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// Returns the label's text.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)+
                }
            }
        }

        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder) -> fmt::Result {
                encoder.write_str(self.as_str())
            }
        }
    };
}

label_values!(
    /// How something ended.
    Outcome {
        /// It succeeded.
        Ok = "ok",
        /// It failed.
        Error = "error",
    }
);

label_values!(
    /// What a decision led to.
    Decision {
        /// Nothing had to change.
        Unchanged = "unchanged",
        /// Records or works changed.
        Changed = "changed",
    }
);

label_values!(
    /// What was done to an object of a member.
    Verb {
        /// Server-side apply.
        Apply = "apply",
        /// Deletion.
        Delete = "delete",
        /// Giving up what stays.
        Release = "release",
    }
);

label_values!(
    /// What a member answered to a write.
    WriteOutcome {
        /// Done.
        Ok = "ok",
        /// Somebody else owns it or changed it meanwhile.
        Conflict = "conflict",
        /// Refused for good.
        Refused = "refused",
        /// No answer, or one that says to try again.
        Unavailable = "unavailable",
    }
);

label_values!(
    /// How a member stands.
    MemberState {
        /// Answers.
        Online = "online",
        /// Does not answer.
        Offline = "offline",
        /// Suspended in git.
        Suspended = "suspended",
        /// No `members:` entry names it.
        Unreachable = "unreachable",
    }
);

label_values!(
    /// What came of asking the source.
    Poll {
        /// Nothing new.
        Unchanged = "unchanged",
        /// A new commit was accepted.
        Accepted = "accepted",
        /// A new commit was refused for its errors.
        Refused = "refused",
        /// A rewritten history waits for a person.
        Held = "held",
        /// The source could not be read.
        Error = "error",
    }
);

label_values!(
    /// What was done about drift.
    Drift {
        /// Put back.
        PutBack = "put_back",
        /// Reported and left: as the placement says, or because it was put back too often.
        Reported = "reported",
    }
);

label_values!(
    /// What came of a delivery over a webhook.
    Delivered {
        /// Its hint waits to be taken.
        Queued = "queued",
        /// Its hint found the queue full.
        Dropped = "dropped",
        /// Nothing in it is of interest.
        Ignored = "ignored",
        /// It is not signed with a secret of ours.
        Unsigned = "unsigned",
        /// It is of another host or about another repository.
        Foreign = "foreign",
        /// It is too large, too slow, or no JSON of a webhook.
        Malformed = "malformed",
    }
);

label_values!(
    /// What came of a try to tell a receiver something.
    Notified {
        /// The receiver took it.
        Ok = "ok",
        /// The receiver did not say that it took it.
        Failed = "failed",
        /// It became too old to be tried again.
        GivenUp = "given_up",
    }
);

label_values!(
    /// How the git host was asked.
    ForgeMethod {
        /// To read.
        Get = "get",
        /// To add.
        Post = "post",
        /// To change.
        Patch = "patch",
        /// Otherwise.
        Other = "other",
    }
);

label_values!(
    /// What the git host answered.
    ForgeAnswer {
        /// Done.
        Ok = "ok",
        /// What we have is still right.
        Unchanged = "unchanged",
        /// It wants a pause.
        Limited = "limited",
        /// It says no, or knows nothing of it.
        Refused = "refused",
        /// No answer, or one of a host that is broken.
        Failed = "failed",
    }
);

label_values!(
    /// A task or thread of the daemon.
    Part {
        /// Follows the source.
        Source = "source",
        /// Reads payloads from git.
        Payloads = "payloads",
        /// Talks with the git host.
        Console = "console",
        /// Writes decisions to the hub.
        Hub = "hub",
        /// Delivers to one member.
        Member = "member",
        /// Asks the query of a check.
        Metrics = "metrics",
        /// Serves the HTTP interface.
        Http = "http",
        /// Serves agents.
        Agents = "agents",
        /// Follows the file of the configuration.
        Configuration = "configuration",
        /// Tells receivers of notifications.
        Notifications = "notifications",
    }
);

label_values!(
    /// A channel between tasks, by what it carries.
    Channel {
        /// News of the source.
        Source = "source",
        /// What members' tasks and agents report.
        Members = "members",
        /// Orders and other commands for members' tasks.
        MemberCommands = "member_commands",
        /// Reports of the hub.
        Hub = "hub",
        /// Answers to the queries of checks.
        Metrics = "metrics",
        /// Changes of the file of the configuration.
        Configuration = "configuration",
        /// Questions of people, about decisions.
        Questions = "questions",
        /// Commands of people.
        Commands = "commands",
        /// Requests to preview an approval.
        Previews = "previews",
        /// What machines push about clusters.
        Pushes = "pushes",
        /// Requests of the bot for what plans of pull requests begin from.
        Baselines = "baselines",
    }
);

label_values!(
    /// How a placement stood when it was decided last.
    PlacementState {
        /// Every picked cluster holds the newest snapshot.
        AtTarget = "at_target",
        /// Clusters move, or are about to.
        Progressing = "progressing",
        /// The rollout waits only for time.
        WaitingForTime = "waiting_for_time",
        /// The rollout waits for a person.
        WaitingForPerson = "waiting_for_person",
        /// The rollout waits for clusters that do not answer.
        Unreachable = "unreachable",
        /// It cannot continue by itself.
        Failed = "failed",
    }
);

label_values!(
    /// What a gate stands before.
    GateKind {
        /// The first cluster of a stage: it waits for an approval.
        BeforeStage = "before_stage",
        /// The end of a stage: it waits for an approval.
        AfterStage = "after_stage",
        /// The end of a stage: it waits for time.
        Timer = "timer",
        /// The end of a stage: it waits until its checks hold.
        Checks = "checks",
        /// Deletions: they wait for an approval.
        Deletion = "deletion",
    }
);

label_values!(
    /// How far a staged update run is.
    Phase {
        /// Not prepared.
        Pending = "pending",
        /// Prepared, and not to begin yet.
        Initialized = "initialized",
        /// Clusters move.
        Updating = "updating",
        /// A gate is closed.
        Waiting = "waiting",
        /// More clusters failed than may.
        Halted = "halted",
        /// Stopped, while clusters are on their way.
        Stopping = "stopping",
        /// Stopped.
        Stopped = "stopped",
        /// All stages are done.
        Succeeded = "succeeded",
        /// It cannot continue.
        Failed = "failed",
        /// A newer run took over.
        Superseded = "superseded",
        /// A rollback took over.
        RolledBack = "rolled_back",
        /// A person rejected it.
        Rejected = "rejected",
    }
);

macro_rules! label_sets {
    ($($(#[$doc:meta])* $name:ident { $($label:ident: $values:ty),+ })+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
            pub struct $name {
                $(#[doc = concat!("The label `", stringify!($label), "`.")] pub $label: $values,)+
            }

            impl $name {
                /// The labels' names.
                pub const NAMES: &'static [&'static str] = &[$(stringify!($label)),+];
            }
        )+
    };
}

label_sets! {
    /// Labels of what ends well or not.
    ByOutcome { result: Outcome }
    /// Labels of decisions.
    ByDecision { result: Decision }
    /// Labels of writes to members.
    ByWrite { verb: Verb, result: WriteOutcome }
    /// Labels of the members' gauge.
    ByMemberState { state: MemberState }
    /// Labels of source polls.
    ByPoll { result: Poll }
    /// Labels of drift.
    ByDrift { result: Drift }
    /// Labels of webhooks.
    ByDelivery { result: Delivered }
    /// Labels of notifications.
    ByNotification { result: Notified }
    /// Labels of tasks.
    ByPart { part: Part }
    /// Labels of channels.
    ByChannel { channel: Channel }
    /// Labels of placements.
    ByPlacementState { state: PlacementState }
    /// Labels of one placement, which is written as on the command line: `NAME` or `NAMESPACE/NAME`.
    OfPlacement { placement: String, state: PlacementState }
    /// Labels of gates.
    ByGate { kind: GateKind }
    /// Labels of runs.
    ByPhase { phase: Phase }
    /// What was built; the commit is empty where the build was not told.
    Build { version: &'static str, commit: &'static str }
    /// Labels of requests to the git host.
    ByForgeCall { method: ForgeMethod, result: ForgeAnswer }
}
