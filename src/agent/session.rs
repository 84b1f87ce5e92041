//! One session with a server: frames in, orders and objects fetched by digest, reports out. What follows is decided in `remote::agent`.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, OptionFuture, join_all};
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::sync::watch;
use tokio::time::timeout;

use super::connect::{Connector, Endpoint, Error, Requests, ServerConnection};
use super::standing::{Agent, AgentStanding, measure_events, take_events};
use engine::MemberEvent;
use model::id::Digest;
use system::clock;
use wire::remote::agent_session::{AfterFrame, AgentSession, Fetch, Fetched};
use wire::{
    Acked, FetchObjects, Frames, FromServer, Hello, OBJECTS_PATH, ORDERS_PATH, REPORTS_PATH, Reports, SESSION_PATH,
};

/// How long the first frame of a session may take.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(10);
/// How long saying goodbye may take.
const BYE_TIMEOUT: Duration = Duration::from_millis(500);

/// How a session ended.
pub(super) enum Ended {
    /// The agent is to end, and has said so.
    Stopped,
    /// The connection was cut, or none was made.
    Failed(Error),
    /// The server ended it, or the agent had to.
    Left(String),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The connection of a session, and what comes over it.
struct SessionLine {
    requests: Requests,
    /// Cut with the session.
    _connection: ServerConnection,
    body: Incoming,
    frames: Frames,
}

/// Requests that have no answer yet.
#[derive(Default)]
struct UnderWay {
    posting: Option<BoxFuture<'static, Result<Acked, Error>>>,
    fetching: Option<BoxFuture<'static, Result<Fetched, Error>>>,
}

impl Agent {
    /// Opens a session with a server and keeps it.
    pub(super) async fn session(&mut self, endpoint: &Endpoint, stop: &mut watch::Receiver<bool>) -> Ended {
        let hello = self.state.hello(env!("CARGO_PKG_VERSION"), &self.instance, &self.pools, clock::uptime());
        let opened = {
            let opening = Box::pin(SessionLine::open(&self.connector, endpoint, hello));
            tokio::select! {
                biased;
                _ = stop.changed() => None,
                opened = opening => Some(opened),
            }
        };
        let (mut line, first) = match opened {
            None => {
                self.state.tasks.stop().await;
                return Ended::Stopped;
            }
            Some(Err(ended)) => return ended,
            Some(Ok(opened)) => opened,
        };
        let (mut session, epoch) = match AgentSession::welcome(&mut self.state, first, clock::uptime()) {
            Err(reason) => return Ended::Left(reason),
            Ok(welcomed) => welcomed,
        };
        tracing::info!(server = %endpoint, epoch, "connected");
        self.standing.send_replace(AgentStanding::Connected(endpoint.to_string()));
        let ended = self.keep(&mut session, &mut line, stop).await;
        session.end(&mut self.state);
        ended
    }

    async fn keep(
        &mut self,
        session: &mut AgentSession,
        line: &mut SessionLine,
        stop: &mut watch::Receiver<bool>,
    ) -> Ended {
        let mut under_way = UnderWay::default();
        loop {
            measure_events(self);
            if let Some(reports) = session.post(&mut self.state, clock::uptime()) {
                under_way.posting = Some(post(line.requests.clone(), reports).boxed());
            }
            let beat_in = session.beat_at().map(|at| clock::uptime().until(at));
            let done = tokio::select! {
                biased;
                _ = stop.changed() => Done::Stop,
                Some(acked) = OptionFuture::from(under_way.posting.as_mut()) => Done::Posted(acked),
                frame = line.next() => Done::Frame(frame),
                Some(fetched) = OptionFuture::from(under_way.fetching.as_mut()) => Done::Fetched(fetched),
                Some(event) = self.inbox.recv() => Done::Event(event),
                () = std::future::ready(()), if session.has_waiting() => Done::Ready,
                () = tokio::time::sleep(beat_in.unwrap_or_default()), if beat_in.is_some() => Done::Nothing,
            };
            let done = match done {
                Done::Stop => {
                    self.say_goodbye(session, line, under_way).await;
                    return Ended::Stopped;
                }
                Done::Posted(acked) => {
                    under_way.posting = None;
                    match acked {
                        Ok(Acked { acked }) if session.take_ack(&mut self.state, acked) => Ok(()),
                        Ok(_) => return Ended::Left("it acknowledged another request than was sent".to_owned()),
                        Err(error) => Err(error),
                    }
                }
                Done::Frame(Err(error)) => Err(error),
                Done::Frame(Ok(frame)) => match session.take_frame(&mut self.state, frame) {
                    AfterFrame::Nothing => Ok(()),
                    AfterFrame::SetMembers { restart_pools } => {
                        let changed = self.set_members(restart_pools).await;
                        session.take_list(&mut self.state, changed, clock::uptime());
                        Ok(())
                    }
                    AfterFrame::Leave(reason) => return Ended::Left(reason),
                },
                Done::Fetched(fetched) => {
                    under_way.fetching = None;
                    let unreadable = |source| line.requests.unreadable(source);
                    fetched.and_then(|fetched| session.take_fetched(&mut self.state, fetched).map_err(unreadable))
                }
                Done::Event(event) => {
                    take_events(self, event);
                    Ok(())
                }
                Done::Ready => {
                    if let Some(fetch) = session.fetch(&mut self.state) {
                        under_way.fetching = Some(fetched(line.requests.clone(), fetch).boxed());
                    }
                    Ok(())
                }
                Done::Nothing => Ok(()),
            };
            if let Err(error) = done {
                return error.into();
            }
        }
    }

    /// Stops all members, reports what is left, and says that the agent ends.
    async fn say_goodbye(&mut self, session: &mut AgentSession, line: &SessionLine, under_way: UnderWay) {
        self.state.tasks.stop().await;
        let goodbye = async {
            if let Some(posting) = under_way.posting {
                drop(posting.await);
            }
            let reports = session.goodbye(&mut self.state, clock::uptime());
            drop(post(line.requests.clone(), reports).await);
        };
        // The lease ends it otherwise.
        drop(timeout(BYE_TIMEOUT, goodbye).await);
    }
}

impl SessionLine {
    /// Opens a session. Returns its connection and its first frame.
    async fn open(connector: &Connector, endpoint: &Endpoint, hello: Hello) -> Result<(Self, FromServer), Ended> {
        let connection = connector.connect(endpoint).await?;
        let mut requests = connection.requests();
        let body = wire::pack(&hello).map_err(|source| requests.unreadable(source))?;
        let answer = requests.send(Method::POST, SESSION_PATH, body).await?;
        let body = answer.into_body();
        let mut line = Self { requests, _connection: connection, body, frames: Frames::default() };
        let first = timeout(WELCOME_TIMEOUT, line.next()).await;
        let first = first.map_err(|_| line.requests.unreachable("no welcome in time"))??;
        Ok((line, first))
    }

    /// Returns the next frame.
    ///
    /// # Cancel safety
    /// Nothing is lost: bytes are kept until they are a frame.
    async fn next(&mut self) -> Result<FromServer, Error> {
        loop {
            let frame = self.frames.take().map_err(|source| self.requests.unreadable(source))?;
            if let Some(frame) = frame {
                return Ok(frame);
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Some(bytes) = frame.data_ref() {
                        self.frames.push(bytes);
                    }
                }
                Some(Err(error)) => return Err(self.requests.unreachable(error.to_string())),
                None => return Err(self.requests.unreachable("it closed the session")),
            }
        }
    }
}

enum Done {
    Stop,
    Posted(Result<Acked, Error>),
    Frame(Result<FromServer, Error>),
    Fetched(Result<Fetched, Error>),
    Event(MemberEvent),
    /// Orders wait, and nothing else does: one by one each would cost a wait for the disk, which those of a batch share.
    Ready,
    Nothing,
}

async fn post(mut requests: Requests, reports: Reports) -> Result<Acked, Error> {
    let body = wire::pack(&reports).map_err(|source| requests.unreadable(source))?;
    requests.ask(Method::POST, REPORTS_PATH, body).await
}

async fn fetched(requests: Requests, fetch: Fetch) -> Result<Fetched, Error> {
    match fetch {
        Fetch::Orders(digests) => {
            let orders = join_all(digests.into_iter().map(|digest| fetch_order(requests.clone(), digest))).await;
            Ok(Fetched::Orders(orders.into_iter().collect::<Result<_, _>>()?))
        }
        Fetch::Objects(digests) => fetch_objects(requests, digests).await,
    }
}

async fn fetch_order(mut requests: Requests, digest: Digest) -> Result<(Digest, Option<Vec<u8>>), Error> {
    match requests.send(Method::GET, &format!("{ORDERS_PATH}{digest}"), Vec::new()).await {
        Ok(answer) => {
            let body = requests.body(answer).await?;
            let json = wire::inflate(&body).map_err(|source| requests.unreadable(source))?;
            Ok((digest, Some(json)))
        }
        // Another order has replaced it meanwhile.
        Err(Error::Refused { status, .. }) if status == http::StatusCode::NOT_FOUND => Ok((digest, None)),
        Err(error) => Err(error),
    }
}

async fn fetch_objects(mut requests: Requests, digests: Vec<Digest>) -> Result<Fetched, Error> {
    let body = wire::pack(&FetchObjects { digests: digests.clone() }).map_err(|source| requests.unreadable(source))?;
    let mut stream = requests.send(Method::POST, OBJECTS_PATH, body).await?.into_body();
    let mut frames = Frames::default();
    let mut objects = Vec::new();
    while let Some(frame) = stream.frame().await {
        let frame = frame.map_err(|error| requests.unreachable(error.to_string()))?;
        if let Some(bytes) = frame.data_ref() {
            frames.push(bytes);
        }
        while let Some(object) = frames.take().map_err(|source| requests.unreadable(source))? {
            objects.push(object);
        }
    }
    frames.finish().map_err(|source| requests.unreadable(source))?;
    Ok(Fetched::Objects(digests, objects))
}
