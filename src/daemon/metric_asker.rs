//! Asks the queries of stages that wait: each at once, and then again and again, until the core does not want it any more.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use config::{PrometheusServer, read_certificates, read_secret};
use engine::Event;
use forge::prometheus::{Client, Error as ClientError};
use model::id::PlacementKey;
use model::runs::MetricQuery;
use system::supervise::Supervisor;
use system::telemetry::metrics::Part;

/// Requests in flight, to all servers together.
const REQUESTS_MAX: usize = 4;

/// Answers that may wait for the event loop; with more, queries are asked later.
const ANSWERS_MAX: usize = 64;

/// Why the servers of the configuration cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of a server cannot be read.
    #[error(transparent)]
    Configuration(#[from] config::Error),
    /// The certificates of a server cannot be used.
    #[error("the certificates of the Prometheus server {name} cannot be used")]
    Certificates {
        /// The server.
        name: String,
        /// What is wrong.
        #[source]
        source: ClientError,
    },
}

/// One server.
#[derive(Debug)]
struct Server {
    client: Client,
    token_file: Option<PathBuf>,
    interval: Duration,
}

/// Asks queries, each by a task of its own.
#[derive(Debug)]
pub struct MetricAsker {
    servers: BTreeMap<String, Arc<Server>>,
    turns: Arc<Semaphore>,
    answers: mpsc::Sender<Event>,
    supervisor: Supervisor,
    tasks: BTreeMap<MetricQuery, Task>,
}

/// A running task; ends when dropped.
#[derive(Debug)]
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl MetricAsker {
    /// Prepares the servers. Returns where the answers arrive.
    ///
    /// # Errors
    /// The certificates of a server cannot be read or used.
    pub fn new(servers: &[PrometheusServer], supervisor: Supervisor) -> Result<(Self, mpsc::Receiver<Event>), Error> {
        let (answers, receiver) = mpsc::channel(ANSWERS_MAX);
        let servers = servers.iter().map(|server| Ok((server.name.clone(), Arc::new(prepared(server)?))));
        let servers = servers.collect::<Result<_, Error>>()?;
        let turns = Arc::new(Semaphore::new(REQUESTS_MAX));
        Ok((Self { servers, turns, answers, supervisor, tasks: BTreeMap::new() }, receiver))
    }

    /// Asks exactly these queries of a placement from now on.
    pub fn ask(&mut self, placement: &PlacementKey, queries: BTreeSet<MetricQuery>) {
        self.tasks.retain(|query, _| query.placement != *placement || queries.contains(query));
        for query in queries {
            // The core names only servers of the configuration, which are all here.
            if !self.tasks.contains_key(&query)
                && let Some(server) = self.servers.get(&query.server)
            {
                let server = Arc::clone(server);
                let query_of_task = query.clone();
                let turns = Arc::clone(&self.turns);
                let answers = self.answers.clone();
                let begin =
                    move || repeat(Arc::clone(&server), query_of_task.clone(), Arc::clone(&turns), answers.clone());
                let supervisor = self.supervisor.clone();
                let task = tokio::spawn(async move { supervisor.repeat(Part::Metrics, begin).await });
                self.tasks.insert(query, Task(task));
            }
        }
    }
}

fn prepared(server: &PrometheusServer) -> Result<Server, Error> {
    let certificates = server.ca_file.as_deref().map(read_certificates).transpose()?;
    let client = Client::new(&server.url, certificates.as_deref(), server.timeout)
        .map_err(|source| Error::Certificates { name: server.name.clone(), source })?;
    Ok(Server { client, token_file: server.token_file.clone(), interval: server.interval })
}

/// Asks one query without end.
///
/// # Cancel safety
/// May be dropped at any point: nothing but the answer leaves it.
async fn repeat(server: Arc<Server>, query: MetricQuery, turns: Arc<Semaphore>, answers: mpsc::Sender<Event>) {
    let mut was_answered = true;
    loop {
        let began = Instant::now();
        let answer = {
            // Nobody closes the semaphore.
            let _turn = turns.acquire().await;
            server.number(&query.query).await
        };
        // Once, until there is an answer again.
        if was_answered && let Err(reason) = &answer {
            let run = &query.run;
            let stage = &query.stage;
            let check = &query.metric;
            tracing::warn!(server = query.server, run, stage, check, reason, "no answer to a check; asking again");
        }
        was_answered = answer.is_ok();
        if answers.send(Event::Answered(query.clone(), answer)).await.is_err() {
            // The daemon has ended.
            return;
        }
        tokio::time::sleep_until(began + server.interval).await;
    }
}

impl Server {
    async fn number(&self, query: &str) -> Result<f64, String> {
        // With every request: tokens are exchanged while the daemon runs.
        let token = self.token_file.as_deref().map(read_secret).transpose().map_err(|error| error.to_string())?;
        self.client.number(query, token.as_ref()).await.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests;
