//! The event loop: passes events to the core, batches to the store, and effects to members, source and hub. It decides nothing.

mod answers;
mod channels;
mod pushes;
mod time;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{mpsc, oneshot, watch};

use super::hub_writer::{HubSettings, HubTask};
use super::lease::StepDown;
use super::measure;
use super::metric_asker::{self, MetricAsker};
use super::notifier::{self, Notifier};
use super::pace::Pace;
use super::published::FleetPublisher;
use super::source_poller::{Followed, PollerSettings, follow};
use bot::source_request::SourceRequest;
use bot::{ConsoleTasks, RepositoryEnds};
use config::Configuration;
use decide::status::rollout::RolloutState;
use engine::persist::SavedRecords;
use engine::store;
use engine::store::{Op, Store};
use engine::waits;
use engine::{
    Batch, ConfigurationEvent, Core, Effect, Event, HubReport, MemberEvent, SourceEvent, identity, source_name,
};
use member::decryption;
use member::decryption::Decryption;
use model::commands::{Done, Refusal, RefusalReason};
use model::work::SourceName;
use plan::Baseline;
use server::{Publisher, PushRequest, Question};
use system::clock;
use system::fence::Fence;
use system::instruction::{Instruction, Preview};
use system::supervise::Supervisor;
use system::telemetry::metrics::{ByOutcome, Channel, Metrics, Outcome};

use super::members::MemberDeliveries;

/// The longest sleep of the loop if nothing is due.
const FAR: Duration = Duration::from_hours(1);

/// The name of the store in the probes.
const STORE_PART: &str = "store";

/// How often the time is stored while something waits for it.
const REMEMBER_PAUSE: Duration = Duration::from_mins(5);

/// The longest wait for the forge, and for receivers of notifications, at shutdown: the next start sends what is left.
const LAST_WORDS_MAX: Duration = Duration::from_secs(5);

/// Why the daemon cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The source cannot be used.
    #[error(transparent)]
    Source(#[from] git::Error),
    /// A file of the configuration cannot be read.
    #[error(transparent)]
    Configuration(#[from] config::Error),
    /// A Prometheus server cannot be used.
    #[error(transparent)]
    Prometheus(#[from] metric_asker::Error),
    /// The forge cannot be used.
    #[error(transparent)]
    Forge(#[from] bot::ConnectError),
    /// A receiver of notifications cannot be used.
    #[error(transparent)]
    Notifier(#[from] notifier::Error),
    /// There is no key for digests of plaintext.
    #[error(transparent)]
    DigestKey(#[from] decryption::KeyError),
    /// Agents cannot connect.
    #[error(transparent)]
    Agents(#[from] agent::server::Error),
}

/// Requests from people.
#[derive(Debug)]
pub struct Asked {
    /// Questions.
    pub questions: mpsc::Receiver<Question>,
    /// Commands.
    pub instructions: mpsc::UnboundedReceiver<Instruction>,
    /// Requests to preview an approval.
    pub previews: mpsc::UnboundedReceiver<Preview>,
    /// What machines push about clusters.
    pub pushes: mpsc::Receiver<PushRequest>,
    /// Where the bot sends the commands of comments.
    pub instruct: mpsc::UnboundedSender<Instruction>,
    /// The ends of the bots, in the order of [`Configuration::forges`].
    pub repositories: Vec<RepositoryEnds>,
    /// Where the fleet is published for those who look.
    pub publisher: Publisher,
    /// What the file of the configuration says later.
    pub config: mpsc::Receiver<ConfigurationEvent>,
}

/// The daemon's parts.
pub struct Daemon {
    core: Core,
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    listed: measure::ListedPlacements,
    /// The clock change of this process that was last logged.
    reported_step: SignedDuration,
    /// When the time was last stored.
    remembered_at: tokio::time::Instant,
    pace: Pace,
    members: MemberDeliveries,
    events: mpsc::UnboundedReceiver<MemberEvent>,
    hub: Option<HubTask>,
    hub_reports: mpsc::Receiver<HubReport>,
    metric_asker: MetricAsker,
    answers: mpsc::Receiver<Event>,
    questions: mpsc::Receiver<Question>,
    instructions: mpsc::UnboundedReceiver<Instruction>,
    previews: mpsc::UnboundedReceiver<Preview>,
    pushes: mpsc::Receiver<PushRequest>,
    config: mpsc::Receiver<ConfigurationEvent>,
    consoles: ConsoleTasks,
    notifier: Notifier,
    baselines: mpsc::UnboundedReceiver<oneshot::Sender<Baseline>>,
    /// Before the threads: one that waits until its news are taken is not to hold up the end.
    news: mpsc::Receiver<SourceEvent>,
    source_threads: Followed,
    views: FleetPublisher,
    supervisor: Supervisor,
    stepping_down: StepDown,
    /// Who waits for the answer to a comment's command that this process does not know any more.
    unanswered: Vec<oneshot::Sender<Result<Done, Refusal>>>,
}

impl Daemon {
    /// Reads the store, and starts following the source.
    ///
    /// # Errors
    /// The store, the source's configuration or a secret cannot be used.
    pub fn open(
        configuration: Configuration,
        store: Arc<dyn Store>,
        metrics: Arc<Metrics>,
        changes: watch::Sender<u64>,
        asked: Asked,
        supervisor: Supervisor,
        stepping_down: StepDown,
    ) -> Result<Self, Error> {
        let fence = stepping_down.fence().clone();
        let mut saved = SavedRecords::read(store.as_ref())?;
        // First: the core measures waits from the records' instants, by the clock of this process.
        time::resume_waits(&mut saved, store.as_ref())?;
        let source = identity(&configuration);
        let known = saved.source.clone().unwrap_or_default();
        let name = source_name(&configuration, &known);
        let forges = bot::connect(&configuration, &source, store.as_ref(), &supervisor)?;
        let (hub_sender, hub_reports) = mpsc::channel(channels::HUB_REPORTS_MAX);
        let (news_sender, news) = mpsc::channel(channels::NEWS_MAX);
        let hub = start_hub(&configuration, &name, hub_sender, &fence, &supervisor);
        let (metric_asker, answers) = MetricAsker::new(&configuration.prometheus, supervisor.clone())?;
        let notifier = Notifier::start(&configuration.notify, &store, &source, &fence, &supervisor)?;
        let settings = PollerSettings::of(&configuration)?;
        let state_dir = state_dir(&configuration);
        let decryption = Decryption::open(configuration.decrypt.as_ref(), store.as_ref(), &state_dir)?;
        let tokens = &saved.agent_tokens;
        let own = decryption.clone();
        let (members, events) = MemberDeliveries::start(&configuration, tokens, name, fence.clone(), own, &supervisor)?;
        let (mut core, effects) = Core::begin(configuration, saved, clock::now());
        let shared = shared_store(&fence, &store);
        let settings = PollerSettings { shared, decryption, ..settings }.known(core.source());
        let source_threads = follow(settings, &state_dir, news_sender, &supervisor)?;
        let Asked { questions, instructions, previews, pushes, instruct, repositories, publisher, config } = asked;
        let requests = &source_threads.requests;
        let (consoles, baselines) =
            ConsoleTasks::start(forges, repositories, &fence, &store, requests, &instruct, &supervisor)?;
        let mut daemon = Self {
            views: FleetPublisher::start(publisher, changes, &mut core),
            core,
            store,
            metrics,
            listed: measure::ListedPlacements::default(),
            reported_step: SignedDuration::ZERO,
            remembered_at: tokio::time::Instant::now(),
            pace: Pace::start(),
            members,
            events,
            hub,
            hub_reports,
            metric_asker,
            answers,
            questions,
            instructions,
            previews,
            pushes,
            config,
            consoles,
            notifier,
            baselines,
            news,
            source_threads,
            supervisor,
            stepping_down,
            unanswered: Vec::new(),
        };
        daemon.metrics.started.set(clock::wall().as_second());
        // Last: effects of the start run only when nothing can stop the start any more.
        daemon.act(effects);
        Ok(daemon)
    }

    /// Runs until `stop` is set, another daemon leads or, with `once`, until nothing is left to happen or its deadline has passed. Returns the state
    /// then.
    ///
    /// # Cancel safety
    /// May be dropped at any point: the next process acts on what was stored.
    pub async fn run(mut self, stop: watch::Receiver<bool>, once: Option<Duration>) -> RolloutState {
        // Boxed: what it holds is large, and one of a kind.
        let standing = Box::pin(self.work(stop, once)).await;
        if self.stepping_down.is_over() {
            return standing;
        }
        self.consoles.finish(LAST_WORDS_MAX).await;
        self.notifier.finish(LAST_WORDS_MAX).await;
        standing
    }

    async fn work(&mut self, mut stop: watch::Receiver<bool>, once: Option<Duration>) -> RolloutState {
        let deadline = once.map(|timeout| tokio::time::Instant::now() + timeout);
        let stepping_down = self.stepping_down.clone();
        loop {
            // While something waits, the loop also wakes up to store the time (`remember_time`).
            let pause = self.core.next_wake().map_or(FAR, |at| clock::until(at).min(REMEMBER_PAUSE));
            let wake_at = self.pace.next_decision(tokio::time::Instant::now() + pause);
            channels::measure(&self.metrics, self.channel_depths());
            tokio::select! {
                // In this order, so that a stop is handled before any other event, and what may arrive without a pause comes last. Reports of
                // members are also taken in after each other event.
                biased;
                _ = stop.changed() => return self.core.cut_short(clock::now()),
                () = stepping_down.wait() => return self.core.standing(clock::now()),
                Some(news) = self.news.recv() => self.handle_source(news),
                Some(report) = self.hub_reports.recv() => self.take_in(Event::Hub(report)),
                Some(answer) = self.answers.recv() => self.take_in(answer),
                Some(question) = self.questions.recv() => self.answer(question),
                Some(preview) = self.previews.recv() => self.preview(preview),
                Some(reply) = self.baselines.recv() => drop(reply.send(Baseline::of(self.core.fleet(), self.core.placements()))),
                () = self.views.until_due() => {
                    self.views.publish_if_due(&mut self.core);
                    continue;
                }
                Some(instruction) = self.instructions.recv() => self.execute(instruction).await,
                Some(delivery) = self.pushes.recv() => self.take_pushed(delivery).await,
                Some(event) = self.config.recv() => self.take_in(Event::Configuration(event)),
                Some(event) = self.events.recv() => {
                    self.take_in(Event::Member(event));
                    if self.pace.holds_report() {
                        continue;
                    }
                }
                () = tokio::time::sleep_until(wake_at) => {}
                () = tokio::time::sleep_until(deadline.unwrap_or_else(|| tokio::time::Instant::now() + FAR)), if once.is_some() => {
                    return self.core.cut_short(clock::now());
                }
            }
            // Reports that arrive together cost one decision, and not one for each cluster.
            while let Ok(event) = self.events.try_recv() {
                self.take_in(Event::Member(event));
            }
            self.pace.release();
            self.decide().await;
            self.remember_time().await;
            if let Some(deadline) = deadline {
                let now = clock::now();
                let left = deadline.saturating_duration_since(tokio::time::Instant::now());
                if let Some(standing) = self.core.finished(now, after(now, left)) {
                    let effects = match standing {
                        RolloutState::Failed(_) => self.core.try_again(),
                        _ => Vec::new(),
                    };
                    if effects.is_empty() {
                        return standing;
                    }
                    self.act(effects);
                }
            }
        }
    }

    fn take_in(&mut self, event: Event) {
        let effects = self.core.take_in(event, clock::now());
        self.act(effects);
    }

    fn handle_source(&mut self, news: SourceEvent) {
        measure::count_poll(&self.metrics, &news);
        self.take_in(Event::Source(news));
    }

    /// Returns how many messages wait in each channel to the event loop.
    ///
    /// Those of members, of people's commands and of the bot's plans are not bounded: agents report while a lock is held, and the bot sends from
    /// code that does not wait. A member's task reports at most every 50 ms, people have a connection for each command, and each bot has one
    /// question at a time.
    fn channel_depths(&self) -> [(Channel, usize); 10] {
        [
            (Channel::Source, self.news.len()),
            (Channel::Members, self.events.len()),
            (Channel::Hub, self.hub_reports.len()),
            (Channel::Metrics, self.answers.len()),
            (Channel::Configuration, self.config.len()),
            (Channel::Questions, self.questions.len()),
            (Channel::Commands, self.instructions.len()),
            (Channel::Previews, self.previews.len()),
            (Channel::Pushes, self.pushes.len()),
            (Channel::Baselines, self.baselines.len()),
        ]
    }

    /// Executes a command: the answer is sent when the change is stored, and the next decision acts on it.
    async fn execute(&mut self, instruction: Instruction) {
        let Instruction { command, person, reply } = instruction;
        let answer = match self.core.execute(&command, &person, clock::now()) {
            Err(refusal) => Err(refusal),
            Ok((batch, done)) => match self.keep(batch).await {
                true => Ok(done),
                // The store may have the command. The daemon that begins from it now reads the comment again and answers it.
                false if self.stepping_down.is_over() && person.credentials.is_some() => {
                    self.unanswered.push(reply);
                    return;
                }
                false => Err(Refusal {
                    reason: RefusalReason::NotPossible,
                    message: "could not save the command, so it was not executed; see the daemon's log".to_owned(),
                }),
            },
        };
        match &answer {
            Ok(done) => {
                let about = &done.message;
                tracing::info!(person = person.name, verb = %command.verb, of = command.target, %about, "executed");
            }
            Err(refusal) => {
                let about = refusal;
                tracing::warn!(person = person.name, verb = %command.verb, of = command.target, %about, "refused");
            }
        }
        // The client may be gone.
        drop(reply.send(answer));
    }

    /// Decides what is due, stores the batch, and executes its effects.
    async fn decide(&mut self) {
        measure::set_gauges(&self.metrics, &self.core, &mut self.listed);
        let started = std::time::Instant::now();
        // Deciding a large fleet takes long: a worker's other tasks move to other threads.
        let Some(batch) = tokio::task::block_in_place(|| self.core.decide(clock::now())) else { return };
        self.pace.note(started.elapsed());
        measure::count_batch(&self.metrics, &self.core, &batch, started.elapsed());
        self.keep(batch).await;
        measure::set_gauges(&self.metrics, &self.core, &mut self.listed);
    }

    /// Stores a batch and executes its effects; a refused batch goes back to the core. Returns whether the store kept it.
    async fn keep(&mut self, mut batch: Batch) -> bool {
        let has_news = batch.ops.iter().any(|op| matches!(op, Op::Journal(_)));
        let is_kept = self.write(&mut batch).await;
        if is_kept {
            if has_news {
                self.notifier.note_written();
            }
            let effects = self.core.written(batch, clock::now());
            self.act(effects);
            self.views.note_written();
            self.views.publish_if_due(&mut self.core);
        } else {
            self.core.refused(batch, clock::now());
        }
        is_kept
    }

    /// Stores a batch; logs a refusal.
    async fn write(&mut self, batch: &mut Batch) -> bool {
        let ops = std::mem::take(&mut batch.ops);
        ops.is_empty() || self.write_ops(ops).await
    }

    /// Stores the elapsed time now and then while something waits for it: after a reboot the wait continues from there.
    async fn remember_time(&mut self) {
        if self.core.next_wake().is_some() && self.remembered_at.elapsed() >= REMEMBER_PAUSE {
            self.write_ops(Vec::new()).await;
        }
    }

    /// Stores operations, together with the current time.
    async fn write_ops(&mut self, mut ops: Vec<Op>) -> bool {
        let step = clock::was_set();
        if (step - self.reported_step).abs() >= waits::STEP_MIN {
            self.reported_step = step;
            let by = waits::format_step(step);
            tracing::warn!(
                by,
                "the clock of the machine was set; timers continue by the time that passes, records are dated by the clock \
                 of the start until the next start"
            );
            ops.push(Op::Journal(waits::entry(clock::now(), &by, "in this life")));
        }
        self.remembered_at = tokio::time::Instant::now();
        let began = tokio::time::Instant::now();
        let written = time::write_with_time(Arc::clone(&self.store), ops).await;
        self.metrics.store_commit_seconds.observe(began.elapsed().as_secs_f64());
        let result = if written.is_ok() { Outcome::Ok } else { Outcome::Error };
        self.metrics.store_commits.get_or_create(&ByOutcome { result }).inc();
        let health = self.supervisor.health();
        match &written {
            Ok(_) => health.clear(STORE_PART),
            Err(store::Error::Replaced { epoch, found }) => self.stepping_down.replaced(*epoch, *found),
            // What this daemon remembers is not what the store has: it begins again from the store.
            Err(store::Error::Kept { .. }) if self.stepping_down.begin_again() => {}
            Err(error) => {
                tracing::error!(%error, "the decisions could not be stored and have no effect; trying again");
                health.fail(STORE_PART, true);
            }
        }
        written.is_ok()
    }

    fn act(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::StartMember(name, access) => self.members.begin(&name, &access),
                Effect::StopMember(name) => self.members.end(&name),
                Effect::Command(name, command) => self.members.send(&name, command),
                Effect::ReadPayload(snapshot) => {
                    if self.source_threads.payloads.send(Arc::clone(&snapshot)).is_err() {
                        // The core requests each payload once and waits: without an answer it would never ask again.
                        self.take_in(Event::Source(SourceEvent::Payload(
                            snapshot,
                            Err("the source is gone".to_owned()),
                        )));
                    }
                }
                Effect::ReadHeld(key, held) => {
                    drop(self.source_threads.requests.send(SourceRequest::ReadHeld(key, held)));
                }
                Effect::AgentTokens(tokens) => self.members.set_agent_tokens(&tokens),
                Effect::AcceptRewrite(commit) => {
                    drop(self.source_threads.requests.send(SourceRequest::AcceptRewrite(commit)));
                }
                // Without its thread the source is not followed any more, which is reported elsewhere.
                Effect::Retain { named, at } => {
                    drop(self.source_threads.requests.send(SourceRequest::Retain { named, at }));
                }
                Effect::UpdateForge(news) => self.consoles.send(&news),
                Effect::Ask(placement, queries) => self.metric_asker.ask(&placement, queries),
                Effect::Measured(measured) => measure::observe(&self.metrics, measured),
                Effect::Publish(exports) => {
                    if let Some(hub) = &self.hub {
                        hub.send(exports);
                    }
                }
            }
        }
    }
}

/// Returns the store where other daemons share it: who has it alone has the only mirror of the source.
fn shared_store(fence: &Fence, store: &Arc<dyn Store>) -> Option<Arc<dyn Store>> {
    fence.epoch().map(|_| Arc::clone(store))
}

/// Returns an instant plus a pause, limited to the latest valid instant.
fn after(now: Timestamp, pause: Duration) -> Timestamp {
    now.checked_add(pause).unwrap_or(Timestamp::MAX)
}

/// Starts the task of the hub, if the configuration names one.
fn start_hub(
    configuration: &Configuration,
    source: &SourceName,
    reports: mpsc::Sender<HubReport>,
    fence: &Fence,
    supervisor: &Supervisor,
) -> Option<HubTask> {
    let settings = hub_settings(configuration, source)?;
    Some(HubTask::start(settings, reports, fence.clone(), supervisor.clone()))
}

/// Returns the settings of the hub, if the configuration names one.
fn hub_settings(configuration: &Configuration, source: &SourceName) -> Option<HubSettings> {
    let decisions = configuration.decisions.as_ref()?;
    let kubeconfig = decisions.kubeconfig.as_ref()?;
    Some(HubSettings {
        kubeconfig: kubeconfig.path.clone(),
        context: kubeconfig.context.clone(),
        allow_exec: kubeconfig.allow_exec.clone(),
        namespace: decisions.namespace.clone(),
        config_map: decisions.config_map.clone(),
        source: source.clone(),
    })
}

/// Returns the folder for mirrors and gitfleet's own repositories.
pub fn state_dir(configuration: &Configuration) -> PathBuf {
    configuration.store.path.join("git")
}
