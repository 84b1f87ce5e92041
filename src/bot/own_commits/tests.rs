use super::*;
use engine::store::MemoryStore;
use model::id::Digest;
use model::progress::GateProgress;

use ProgressState::{Done, Failed, Moving, WaitingForPerson};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).expect("a test's instant is one")
}

fn commit(name: &str) -> CommitId {
    CommitId::new(name)
}

fn key(name: &str) -> PlacementKey {
    PlacementKey::cluster_scoped(name)
}

fn by(name: &str) -> ProgressState {
    ProgressState::Superseded { by: commit(name) }
}

/// The progress of a placement towards the snapshot that a commit of the tree made.
fn way(tree: &str, snapshot: u64, state: ProgressState) -> Progress {
    let gate = GateProgress {
        stage: "one".into(),
        digest: Digest::new(tree),
        since: at(0),
        given: 0,
        required: 1,
        approvers: None,
        owners: vec![],
        what: vec![],
    };
    Progress {
        placement: key("web"),
        snapshot: Some(snapshot),
        commit: Some(commit(tree)),
        run: None,
        deletions: Some(gate).filter(|_| state == WaitingForPerson),
        state,
        message: String::new(),
        done: 0,
        total: 3,
        stages: vec![],
        clusters: vec![],
    }
}

/// What happens.
#[derive(Clone)]
enum Step {
    /// A commit of the tree is accepted, with these of `platform` and `shop`.
    Accept(&'static str, &'static str, &'static str),
    /// The progress of the placement `web`, newest first.
    Told(Vec<Progress>),
    /// Its progress, with the commit that may have moved it.
    Moved(&'static str, Vec<Progress>),
    /// The process ends, and another one begins with what is stored.
    Restart,
}

use Step::{Accept, Moved, Restart, Told};

/// The bot of one of two sources.
struct Bot {
    name: &'static str,
    store: MemoryStore,
    own: OwnCommits,
    rollouts: CommitRollouts,
    now: i64,
}

impl Bot {
    fn of(name: &'static str) -> Self {
        let (store, place) = (MemoryStore::new(), RecordPlace::of(name));
        let own = OwnCommits::read(name, &store, &place).expect("it is empty");
        Self { name, store, own, rollouts: CommitRollouts::default(), now: 0 }
    }

    fn take(&mut self, step: &Step) {
        self.now += 1;
        let now = at(self.now);
        let shown = match step {
            Accept(tree, platform, shop) => {
                let record = |name: &str| SourceRecord { accepted: Some(commit(name)), ..SourceRecord::default() };
                let sources = [("platform", platform), ("shop", shop)];
                let sources = sources.map(|(name, of)| (name.to_owned(), record(of))).into();
                let all = SourceRecord { accepted: Some(commit(tree)), sources, ..SourceRecord::default() };
                let own = self.own.take_source(&all, now);
                self.rollouts.take_source(&own, now);
                Vec::new()
            }
            Told(ways) => {
                let (placement, ways) = (key("web"), ways.clone());
                self.own.take(&PlacementUpdate { placement, ways, concerned_by: None }, now)
            }
            Moved(tree, ways) => {
                let (placement, ways, concerned_by) = (key("web"), ways.clone(), Some(commit(tree)));
                self.own.take(&PlacementUpdate { placement, ways, concerned_by }, now)
            }
            Restart => {
                self.own = OwnCommits::read(self.name, &self.store, &RecordPlace::of(self.name)).expect("it is read");
                Vec::new()
            }
        };
        for shown in &shown {
            self.rollouts.show(shown, now);
        }
        let ops = self.own.take_changed(&RecordPlace::of(self.name), now).into_iter().collect::<Result<Vec<_>>>();
        self.store.batch(ops.expect("they can be stored")).expect("they are stored");
    }

    /// Says what every commit of the source shows of the placement.
    fn shows(&self) -> String {
        let one = |rollout: &CommitRollout| {
            let way = rollout.placements.get(&key("web"))?;
            let state = match &way.state {
                ProgressState::Superseded { by } => format!("superseded by {by}"),
                ProgressState::RolledBack { to } => format!("rolled back to {to}"),
                state => format!("{state:?}"),
            };
            let tree = rollout.tree.as_ref().map(ToString::to_string).unwrap_or_default();
            Some(format!("{} of {tree} {state}", rollout.commit))
        };
        self.rollouts.iter().filter_map(one).collect::<Vec<_>>().join("; ")
    }

    /// Names the other sources that are part of what waits at a commit.
    fn others(&self, own: &str) -> Vec<String> {
        let rollout = self.rollouts.get(&commit(own));
        rollout.map(|rollout| self.own.others(rollout).into_iter().collect()).unwrap_or_default()
    }
}

/// Both sources were accepted together, and the placement is done there.
fn settled() -> Vec<Step> {
    vec![Accept("t0", "p0", "s0"), Told(vec![way("t0", 0, Moving)]), Told(vec![way("t0", 0, Done)])]
}

#[test]
fn a_rollout_is_shown_where_its_commit_came_from() {
    const BEGUN: [&str; 2] = ["p0 of t0 Done", "s0 of t0 Done"];
    // what happens after the first commit; what more is shown in the repositories of `platform` and `shop`
    let rows: Vec<(&str, Vec<Step>, [&str; 2])> = vec![
        ("nothing", vec![], ["", ""]),
        ("a commit that moves nothing", vec![Accept("t1", "p0", "s1")], ["", ""]),
        ("of shop", vec![Accept("t1", "p0", "s1"), Told(vec![way("t1", 1, Moving)])], ["", "s1 of t1 Moving"]),
        ("of platform", vec![Accept("t1", "p1", "s0"), Told(vec![way("t1", 1, Moving)])], ["p1 of t1 Moving", ""]),
        (
            "of both together",
            vec![Accept("t1", "p1", "s1"), Told(vec![way("t1", 1, Failed)])],
            ["p1 of t1 Failed", "s1 of t1 Failed"],
        ),
        (
            "a commit of platform moves it later without new content",
            vec![
                Accept("t1", "p0", "s1"),
                Told(vec![way("t1", 1, Moving)]),
                Told(vec![way("t1", 1, Done)]),
                Accept("t2", "p1", "s1"),
                Moved("t2", vec![way("t1", 1, Moving)]),
            ],
            ["p1 of t2 Moving", "s1 of t1 Done"],
        ),
        (
            "a commit of platform arrives while that of shop is on its way",
            vec![
                Accept("t1", "p0", "s1"),
                Told(vec![way("t1", 1, Moving)]),
                Accept("t2", "p1", "s1"),
                Moved("t2", vec![Progress { done: 1, ..way("t1", 1, Moving) }]),
            ],
            ["", "s1 of t1 Moving"],
        ),
        (
            "it takes the rollout of shop over, which continues with it",
            vec![
                Accept("t1", "p0", "s1"),
                Told(vec![way("t1", 1, WaitingForPerson)]),
                Accept("t2", "p1", "s1"),
                Told(vec![way("t2", 2, Moving), way("t1", 1, by("t2"))]),
            ],
            ["p1 of t2 Moving", "s1 of t1 Moving"],
        ),
        (
            "and ends with it, also after a restart",
            vec![
                Accept("t1", "p0", "s1"),
                Told(vec![way("t1", 1, WaitingForPerson)]),
                Restart,
                Accept("t2", "p1", "s1"),
                Told(vec![way("t2", 2, Moving), way("t1", 1, by("t2"))]),
                Restart,
                Accept("t2", "p1", "s1"),
                Told(vec![way("t2", 2, Done), way("t1", 1, by("t2"))]),
            ],
            ["p1 of t2 Done", "s1 of t1 Done"],
        ),
        (
            "one of shop takes it over",
            vec![
                Accept("t1", "p0", "s1"),
                Told(vec![way("t1", 1, Moving)]),
                Accept("t2", "p1", "s1"),
                Told(vec![way("t2", 2, Moving), way("t1", 1, by("t2"))]),
                Accept("t3", "p1", "s2"),
                Told(vec![way("t3", 3, Moving), way("t2", 2, by("t3")), way("t1", 1, by("t2"))]),
            ],
            ["p1 of t2 Moving", "s1 of t1 superseded by s2; s2 of t3 Moving"],
        ),
        (
            "it is rolled back",
            vec![
                Accept("t1", "p0", "s1"),
                Told(vec![way("t1", 1, Moving)]),
                Told(vec![way("t1", 1, ProgressState::RolledBack { to: commit("t0") })]),
            ],
            ["", "s1 of t1 rolled back to s0"],
        ),
    ];
    for (name, steps, expected) in rows {
        for (source, (begun, expected)) in ["platform", "shop"].into_iter().zip(BEGUN.into_iter().zip(expected)) {
            let mut bot = Bot::of(source);
            settled().iter().chain(&steps).for_each(|step| bot.take(step));
            let expected = [begun, expected].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ");
            assert_eq!(bot.shows(), expected, "{name}: in the repository of {source}");
        }
    }
}

#[test]
fn whose_changes_wait_together() {
    // what happens after the first commit; which other sources are part of what waits at `p1` and at `s1`
    type Row<'a> = (&'a str, Vec<Step>, [&'a [&'a str]; 2]);
    let rows: Vec<Row<'_>> = vec![
        ("of shop alone", vec![Accept("t1", "p0", "s1"), Told(vec![way("t1", 1, WaitingForPerson)])], [&[], &[]]),
        (
            "of both, accepted together",
            vec![Accept("t1", "p1", "s1"), Told(vec![way("t1", 1, WaitingForPerson)])],
            [&["shop"], &["platform"]],
        ),
        (
            "of both, one after the other",
            vec![
                Accept("t1", "p0", "s1"),
                Told(vec![way("t1", 1, WaitingForPerson)]),
                Accept("t2", "p1", "s1"),
                Told(vec![way("t2", 2, WaitingForPerson), way("t1", 1, by("t2"))]),
                Restart,
            ],
            [&["shop"], &["platform"]],
        ),
        (
            "of platform, after that of shop is done",
            vec![
                Accept("t1", "p0", "s1"),
                Told(vec![way("t1", 1, Moving)]),
                Told(vec![way("t1", 1, Done)]),
                Accept("t2", "p1", "s1"),
                Told(vec![way("t2", 2, WaitingForPerson), way("t1", 1, Done)]),
            ],
            [&[], &[]],
        ),
    ];
    for (name, steps, expected) in rows {
        for (source, (own, expected)) in ["platform", "shop"].into_iter().zip(["p1", "s1"].into_iter().zip(expected)) {
            let mut bot = Bot::of(source);
            settled().iter().chain(&steps).for_each(|step| bot.take(step));
            assert_eq!(bot.others(own), expected, "{name}: in the repository of {source}");
        }
    }
}

#[test]
fn what_is_not_needed_any_more_is_dropped() {
    let mut bot = Bot::of("shop");
    for step in &settled() {
        bot.take(step);
    }
    let stored = |bot: &Bot| {
        let records = bot.store.list("forge/source/shop/").expect("it is read");
        records.into_iter().map(|(key, _)| key.trim_start_matches("forge/source/shop/").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(stored(&bot), ["tree/accepted", "tree/commit/t0", "tree/rollout/t0"]);
    bot.take(&Accept("t1", "p0", "s1"));
    bot.take(&Accept("t2", "p0", "s2"));
    // The first has a rollout, and the last is accepted.
    assert_eq!(stored(&bot), ["tree/accepted", "tree/commit/t0", "tree/commit/t2", "tree/rollout/t0"]);
}
