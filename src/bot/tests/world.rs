//! A forge, a fleet and people: what happens between them at which time is up to the test.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::source_thread::answer;
use crate::bot::Bot;
use crate::comments::HINTS_MAX;
use crate::event_loop::{next_wake, turn};
use crate::handles::{Handles, Learned};
use crate::inbox::{Inbox, Message};
use crate::links::Links;
use crate::records::SavedRecords;
use crate::settings::{Approvals, Settings};
use config::{Configuration, Notify, Plans, Statuses};
use engine::persist;
use engine::store::records::EXECUTED_PREFIX;
use engine::store::{MemoryStore, Op, Store};
use engine::{Core, Effect, Event, ForgeUpdate, MemberCommand, MemberEvent, SourceEvent};
use forge::Forge;
use model::facts::{Facts, NodeFacts};
use model::forge::{Comment, ForgeEvent, Part, Permission, ThreadNumber};
use model::id::{ClusterName, CommitId, ObjectKey, PlacementKey};
use model::records::{ApplyOutcome, Availability, ManifestStatus, WorkStatus};
use model::runs::RunPhase;
use model::tree::Tree;
use model::work::{Desired, WorkOrder};
use plan::Baseline;
use system::instruction::Instruction;
use testkit::trees::{member, payload, placement, tree};
use testservers::doubles::forge::Fake;
use views::comments::style::CommandStyle;
use views::redact::MaskKey;

/// Turns until nothing may be left to do at an instant.
const TURNS_MAX: usize = 5000;
/// Seconds between two looks at the forge.
pub(super) const POLL: i64 = 60;

/// Three stages; the first waits for a person at its end.
pub(super) const GATED: &str = ", afterStageTasks: [{type: Approval}]";

thread_local! {
    static NOW: Cell<Timestamp> = const { Cell::new(Timestamp::UNIX_EPOCH) };
}

pub(super) fn now() -> Timestamp {
    NOW.get()
}

/// Returns the commit whose every digit is this one.
pub(super) fn commit(digit: char) -> CommitId {
    CommitId::new(digit.to_string().repeat(40))
}

/// The core, its members and its git.
pub(super) struct Daemon {
    core: Core,
    files: BTreeMap<&'static str, String>,
    /// Members that hold their answers back.
    slow: bool,
    held: VecDeque<Arc<WorkOrder>>,
    told: VecDeque<ForgeUpdate>,
    /// What was told already.
    known: Vec<ForgeUpdate>,
    pub store: Arc<MemoryStore>,
    /// The records of executed commands of comments that were stored.
    pub executed: Vec<Op>,
    /// Commits of the branch, by the tip that brought them; newest first.
    pub landed: BTreeMap<CommitId, Vec<CommitId>>,
}

impl Daemon {
    fn baseline(&self) -> Baseline {
        Baseline::of(self.core.fleet(), self.core.placements())
    }

    fn act(&mut self, effects: Vec<Effect>) {
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::StartMember(cluster, _) => {
                    effects.extend(self.handle(online(cluster.clone())));
                    let facts = Facts::new(Ok(NodeFacts::default()), Err("it is not told".to_owned()));
                    effects.extend(self.handle(MemberEvent::Facts { cluster, facts: Box::new(facts) }));
                }
                Effect::Command(_, MemberCommand::Order { order, .. }) if self.slow => self.held.push_back(order),
                Effect::Command(_, MemberCommand::Order { order, .. }) => {
                    effects.extend(self.handle(carried_out(&order)));
                }
                Effect::UpdateForge(news) => self.told.push_back(news),
                _ => {}
            }
        }
    }

    fn handle(&mut self, event: MemberEvent) -> Vec<Effect> {
        self.core.take_in(Event::Member(event), now())
    }

    fn decide(&mut self) {
        while let Some(mut batch) = self.core.decide(now()) {
            batch.ops.clear();
            let effects = self.core.written(batch, now());
            self.act(effects);
        }
    }

    fn news(&mut self, news: SourceEvent) {
        let effects = self.core.take_in(Event::Source(news), now());
        self.act(effects);
        self.decide();
    }

    /// Tells whether deletions of the placement wait for a person.
    pub(super) fn waits_for_deletions(&self) -> bool {
        let told = |news: &ForgeUpdate| match news {
            ForgeUpdate::Placement(told) => told.ways.iter().any(|way| way.deletions.is_some()),
            ForgeUpdate::Source(_) | ForgeUpdate::Known(_) => false,
        };
        let mut all = self.known.iter().chain(&self.told);
        all.rfind(|news| matches!(news, ForgeUpdate::Placement(_))).is_some_and(told)
    }

    fn execute(&mut self, instruction: Instruction) {
        let Instruction { command, person, reply } = instruction;
        let answer = self.core.execute(&command, &person, now()).map(|(mut batch, done)| {
            let is_executed = |op: &Op| matches!(op, Op::Put { key, .. } if key.starts_with(EXECUTED_PREFIX));
            let executed: Vec<Op> = batch.ops.drain(..).filter(is_executed).collect();
            self.store.batch(executed.clone()).expect("it is kept");
            self.executed.extend(executed);
            let effects = self.core.written(batch, now());
            self.act(effects);
            done
        });
        self.decide();
        drop(reply.send(answer));
    }
}

fn online(cluster: ClusterName) -> MemberEvent {
    MemberEvent::Online {
        cluster,
        version: None,
        server: None,
        holds: BTreeMap::new(),
        kept: BTreeMap::new(),
        inventory: BTreeMap::new(),
    }
}

fn carried_out(order: &WorkOrder) -> MemberEvent {
    let manifest = |desired: &Desired| ManifestStatus {
        id: desired.id.clone(),
        applied: ApplyOutcome::Applied,
        message: String::new(),
        availability: Some(Availability::Available),
        generation: None,
        manifest: None,
        owned: None,
        differences: Vec::new(),
        differs_since: None,
        observed_at: None,
    };
    let held = order.manifests.iter().filter(|_| !order.remove).map(|desired| ObjectKey::clone(&desired.key));
    let status = WorkStatus {
        generation: order.generation,
        complete: true,
        manifests: order.manifests.iter().map(manifest).collect(),
        available_since: Some(now()),
        inventory: held.chain(order.held.iter().cloned()).collect(),
        held_deletions: order.held.clone(),
        ..WorkStatus::default()
    };
    MemberEvent::Work { cluster: order.cluster.clone(), placement: order.placement.clone(), status: Arc::new(status) }
}

/// Everything.
pub(super) struct World {
    pub fake: Arc<Fake>,
    pub store: Arc<MemoryStore>,
    pub daemon: Arc<Mutex<Daemon>>,
    pub bot: Bot,
    messages: mpsc::UnboundedSender<Message>,
    hints: Option<mpsc::Sender<ForgeEvent>>,
}

/// How a world begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beginning {
    /// Webhooks bring news.
    pub hooked: bool,
    /// Approvals that a gate needs; none is one.
    pub required: u32,
    /// Names of approvers, as the configuration lists them, with a comma after each.
    pub approvers: &'static str,
    /// No stage waits for anybody.
    pub open: bool,
}

impl World {
    /// A fleet of clusters `a`, `b`, `c` in stages `one`, `two`, `three`; nothing is rolled out. `ann` writes changes, `carl`
    /// merges them, `bob` and `dora` may write too, `eve` may read.
    pub(super) fn begin(beginning: Beginning) -> Self {
        NOW.set(Timestamp::from_second(1_800_000_000).expect("it is an instant"));
        let fake = Arc::new(Fake::new("gitfleet"));
        fake.set_time(now());
        for name in ["ann", "bob", "carl", "dora"] {
            fake.add_user(name);
            fake.permit(name, Permission::Write);
        }
        fake.add_user("eve");
        let approvals = format!("{{required: {}, approvers: [{}]}}", beginning.required.max(1), beginning.approvers);
        let text = format!(
            "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {{url: /fleet, branch: main}}\n\
             members: [{{name: '*', kubeconfig: {{path: /kubeconfig, context: '{{name}}'}}}}]\nstore: {{path: /state}}\n\
             forge: {{type: gitea, url: 'https://forge.example', repository: o/r, tokenFile: /token, approvals: {approvals}}}\n"
        );
        let configuration = Configuration::parse(&text, Path::new("/"), &BTreeMap::new()).expect("it has no errors");
        let (core, _) = Core::begin(configuration, persist::SavedRecords::default(), now());
        let stage = |name: &str, more: &str| {
            format!("    - {{name: {name}, labelSelector: {{matchLabels: {{stage: {name}}}}}{more}}}\n")
        };
        let strategy = format!(
            "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\nmetadata: {{name: s}}\n\
             spec:\n  stages:\n{}{}{}---\n",
            stage("one", if beginning.open { "" } else { GATED }),
            stage("two", ""),
            stage("three", "")
        );
        let files = BTreeMap::from([
            ("a.yaml", member("a", "labels: {stage: one}")),
            ("b.yaml", member("b", "labels: {stage: two}")),
            ("c.yaml", member("c", "labels: {stage: three}")),
            ("p.yaml", placement("p", "gitfleet.io/staged-update-strategy: s", ", strategy: {type: External}")),
            ("s.yaml", strategy),
            ("x.yaml", payload("0")),
        ]);
        let (slow, held, told, landed) = (false, VecDeque::new(), VecDeque::new(), BTreeMap::new());
        let store = Arc::new(MemoryStore::new());
        let (known, executed) = (Vec::new(), Vec::new());
        let daemon = Daemon { core, files, slow, held, told, known, store: Arc::clone(&store), executed, landed };
        let daemon = Arc::new(Mutex::new(daemon));
        let (bot, messages, hints) = life(&fake, &store, &daemon, beginning.hooked);
        Self { fake, store, daemon, bot, messages, hints }
    }

    pub(super) fn daemon(&self) -> MutexGuard<'_, Daemon> {
        self.daemon.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the console and begins another, which has what the store kept; it is told everything again.
    pub(super) fn restart(&mut self) {
        let hooked = self.hints.is_some();
        (self.bot, self.messages, self.hints) = life(&self.fake, &self.store, &self.daemon, hooked);
        let mut daemon = self.daemon();
        let placements = daemon.core.placements().keys().cloned().collect();
        // What was not delivered to the former life is newer than what was.
        let known = std::mem::take(&mut daemon.known);
        let told = std::mem::take(&mut daemon.told);
        let is_of_then = |news: &ForgeUpdate| matches!(news, ForgeUpdate::Known(_));
        daemon.told.push_back(ForgeUpdate::Known(placements));
        daemon.told.extend(known.into_iter().chain(told).filter(|news| !is_of_then(news)));
    }

    /// Opens and merges a pull request of `ann`'s that `carl` approves, and gets it accepted with content of its own.
    pub(super) fn merge(&self, digit: char) -> ThreadNumber {
        let number = self.fake.open_pull("ann", "a change", "main", "change", &commit('e'));
        self.fake.merge(number, &commit(digit), "carl");
        self.accept(digit);
        number
    }

    /// Brings a commit into force.
    pub(super) fn accept(&self, digit: char) {
        let content = payload(&digit.to_string());
        self.accept_files(digit, &[("x.yaml", content)]);
    }

    /// Brings a commit into force that changes these files; an empty text removes one.
    pub(super) fn accept_files(&self, digit: char, files: &[(&'static str, String)]) {
        let mut daemon = self.daemon();
        daemon.files.extend(files.iter().cloned());
        daemon.files.retain(|_, text| !text.is_empty());
        let texts: Vec<(&str, &str)> = daemon.files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        let mut tree = Tree::clone(&tree(&texts));
        tree.commit = Some(commit(digit));
        self.fake.add_commit(&commit(digit));
        daemon.news(SourceEvent::Accepted(Arc::new(tree)));
    }

    /// Lets the source say something.
    pub(super) fn source(&self, news: SourceEvent) {
        self.daemon().news(news);
    }

    /// From now on members answer one after the other, when [`Self::work`] says so.
    pub(super) fn slow(&self) {
        self.daemon().slow = true;
    }

    /// Lets one member answer. Returns whether one had anything to do.
    pub(super) fn work(&self) -> bool {
        let mut daemon = self.daemon();
        let Some(order) = daemon.held.pop_front() else { return false };
        let effects = daemon.handle(carried_out(&order));
        daemon.act(effects);
        daemon.decide();
        true
    }

    /// Changes who may approve.
    pub(super) fn policy(&self, approvers: &[&str]) {
        self.daemon().core.fleet.approvers = approvers.iter().map(|entry| (*entry).to_owned()).collect();
    }

    /// A webhook says something.
    pub(super) fn hint(&self, event: ForgeEvent) {
        if let Some(hints) = &self.hints {
            hints.try_send(event).expect("there is room for a test's hints");
        }
    }

    /// Somebody says something, and we get to know it: by a webhook, or by looking.
    pub(super) async fn say(&mut self, who: &str, thread: ThreadNumber, body: &str) -> u64 {
        let id = self.fake.say(who, thread, body);
        self.heard(thread, id).await;
        id
    }

    /// Gets to know a comment.
    pub(super) async fn heard(&mut self, thread: ThreadNumber, id: u64) {
        if self.hints.is_some() {
            self.hint(ForgeEvent::Comment { thread, id, said: self.fake.said(id) });
            self.settle().await;
        } else {
            self.later(POLL).await;
        }
    }

    /// Does everything that is due now.
    pub(super) async fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            self.deliver_updates();
            if turn(&mut self.bot).await {
                continue;
            }
            if let Some(sent) = self.bot.inbox.writes.join_next().await {
                self.bot.sent(sent);
                continue;
            }
            if self.bot.pulls.is_busy() && self.bot.pulls.next_wake().is_none() {
                self.bot.pulls.wait().await;
                continue;
            }
            if self.daemon().told.is_empty() {
                assert!(next_wake(&self.bot) > now(), "it would wake up without end and do nothing");
                return;
            }
        }
        panic!("it does not come to rest: {:?}", self.fake.calls().iter().rev().take(30).collect::<Vec<_>>());
    }

    /// When something happens by itself.
    fn next_wake(&self) -> Timestamp {
        next_wake(&self.bot).min(self.daemon().core.next_wake().unwrap_or(Timestamp::MAX))
    }

    pub(super) fn deliver_updates(&self) {
        self.daemon().decide();
        let told = std::mem::take(&mut self.daemon().told);
        self.daemon().known.extend(told.iter().cloned());
        for news in told {
            self.messages.send(Message::Update(news)).map_err(|_| "ended").expect("the console listens");
        }
    }

    /// Lets seconds pass, with everything that becomes due meanwhile.
    pub(super) async fn later(&mut self, seconds: i64) {
        let end = now() + SignedDuration::from_secs(seconds);
        loop {
            self.settle().await;
            let wake = self.next_wake().max(now()).min(end);
            NOW.set(wake);
            self.fake.set_time(wake);
            if wake >= end {
                return self.settle().await;
            }
        }
    }

    /// Lets seconds pass in which nothing is done.
    pub(super) fn pass(&self, seconds: i64) {
        NOW.set(now() + SignedDuration::from_secs(seconds));
        self.fake.set_time(now());
    }

    /// Says how far the runs are, oldest first, and where the clusters are.
    pub(super) fn fleet(&self) -> String {
        let daemon = self.daemon();
        let Some(state) = daemon.core.placements().get(&PlacementKey::cluster_scoped("p")) else {
            return "gone".into();
        };
        let mut runs: Vec<_> = state.runs.values().collect();
        runs.sort_by_key(|run| run.sequence);
        let runs: Vec<String> = runs.iter().map(|run| format!("{} {:?}", run.name, run.phase)).collect();
        runs.join(", ")
    }

    /// Tells whether the newest run continued past its gate.
    pub(super) fn is_open(&self) -> bool {
        let daemon = self.daemon();
        let state = &daemon.core.placements()[&PlacementKey::cluster_scoped("p")];
        let run = state.runs.values().max_by_key(|run| run.sequence).expect("there is one");
        run.phase == RunPhase::Succeeded || run.stages[0].after.iter().any(|task| task.done_at.is_some())
    }

    /// Returns the bot and how it is told something.
    pub(super) fn into_bot(self) -> (Bot, mpsc::UnboundedSender<Message>) {
        (self.bot, self.messages)
    }

    /// Returns our comments in a conversation.
    pub(super) fn ours(&self, thread: ThreadNumber) -> Vec<Comment> {
        let me = self.fake.add_user("gitfleet");
        self.fake.comments_of(thread).into_iter().filter(|comment| comment.author == me).collect()
    }

    /// Returns our comments in a conversation that tell a rollout.
    pub(super) fn rollouts(&self, thread: ThreadNumber) -> Vec<Comment> {
        self.ours(thread).into_iter().filter(|comment| comment.body.contains("Rollout")).collect()
    }

    /// Returns our answers in a conversation.
    pub(super) fn answers(&self, thread: ThreadNumber) -> Vec<Comment> {
        let is_answer = |comment: &Comment| comment.body.contains("not done") || comment.body.contains("❌ ");
        self.ours(thread).into_iter().filter(is_answer).collect()
    }
}

type Life = (Bot, mpsc::UnboundedSender<Message>, Option<mpsc::Sender<ForgeEvent>>);

fn life(fake: &Arc<Fake>, store: &Arc<MemoryStore>, daemon: &Arc<Mutex<Daemon>>, hooked: bool) -> Life {
    let (requests, asked) = std::sync::mpsc::channel();
    let (instructions, mut instructed) = mpsc::unbounded_channel();
    let (baselines, mut wanted) = mpsc::unbounded_channel::<oneshot::Sender<Baseline>>();
    let (hint, hints) = mpsc::channel(HINTS_MAX);
    let git = Arc::clone(daemon);
    std::thread::spawn(move || {
        let landed = |to: &CommitId| git.lock().unwrap_or_else(PoisonError::into_inner).landed.get(to).cloned();
        for request in &asked {
            answer(request, landed);
        }
    });
    let hands = Arc::clone(daemon);
    tokio::spawn(async move {
        while let Some(instruction) = instructed.recv().await {
            hands.lock().unwrap_or_else(PoisonError::into_inner).execute(instruction);
        }
    });
    let reconciler = Arc::clone(daemon);
    tokio::spawn(async move {
        while let Some(reply) = wanted.recv().await {
            drop(reply.send(reconciler.lock().unwrap_or_else(PoisonError::into_inner).baseline()));
        }
    });
    let settings = Settings {
        source: "fleet#main".into(),
        name: String::new(),
        poll_interval: Duration::from_secs(POLL.unsigned_abs()),
        notify: [Notify::Approval, Notify::Failure].into(),
        plans: Plans::default(),
        statuses: Statuses::default(),
        links: Links { repository: "https://forge.example/o/r".to_owned(), page: None },
        voice: CommandStyle {
            short: true,
            approvers: "permission:write".into(),
            comments_count: true,
            reviews_count: true,
            ..CommandStyle::default()
        },
        approvals: Approvals {
            parts: [Part::Opened, Part::Authored, Part::Pushed, Part::Merged].into(),
            ..Approvals::default()
        },
        mask: MaskKey::new([7; 32]),
        fetches: true,
    };
    let handles = Handles {
        clock: now,
        forge: Arc::clone(fake) as Arc<dyn Forge>,
        store: Arc::clone(store) as Arc<dyn Store>,
        requests,
        instructions,
        baselines,
        planning: Arc::new(Semaphore::new(1)),
        learned: Learned::channel().0,
    };
    let (messages, told) = mpsc::unbounded_channel();
    let inbox = Inbox::new(told, hooked.then_some(hints), None);
    let saved = SavedRecords::read(store.as_ref(), "").expect("the store can be read");
    (Bot::begin(settings, handles, saved, inbox), messages, hooked.then_some(hint))
}
