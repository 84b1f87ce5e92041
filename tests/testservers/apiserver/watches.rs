//! Watches: what happened since a version, then what happens, until the time is over.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream};
use hyper::body::Frame;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::answer::{Status, expired};
use super::body::{Name, Object, Pen, push};
use super::cluster::{Cluster, Event, Happening, Table};
use super::counters::Counters;
use super::request::{Objects, Query};
use super::selectors::Selector;

/// How long a watch runs where the request does not say.
const TIMEOUT: Duration = Duration::from_mins(30);
/// Pause between two bookmarks.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);
/// Most bytes of one answer to "what happened since": a large history goes out in several.
const BATCH_BYTES: usize = 64 << 10;

/// One watch.
pub(super) struct Watch {
    cluster: Arc<Cluster>,
    counters: Arc<Counters>,
    pen: Pen,
    namespace: String,
    selector: Selector,
    /// The version of the last event that was sent or skipped.
    seen: u64,
    /// What was there when the watch began and is not sent yet.
    first: VecDeque<(Arc<Name>, Object)>,
    /// Whether the end of what was there is to be told by a bookmark.
    tells_end: bool,
    bookmarks: Option<Instant>,
    news: watch::Receiver<u64>,
    deadline: Instant,
    has_ended: bool,
}

impl Watch {
    /// Begins a watch; `longest` is how long the server lets one run.
    pub(super) fn begin(
        cluster: Arc<Cluster>,
        counters: Arc<Counters>,
        pen: Pen,
        objects: &Objects,
        query: &Query,
        longest: Option<Duration>,
    ) -> Result<Self, Status> {
        let selector = Selector::read(query.get("labelSelector"), query.get("fieldSelector"))?;
        let timeout = query.number("timeoutSeconds")?.filter(|seconds| *seconds > 0).map(Duration::from_secs);
        let timeout = timeout.unwrap_or(TIMEOUT).min(longest.unwrap_or(TIMEOUT));
        let version = query.number("resourceVersion")?.filter(|version| *version > 0);
        let wants_bookmarks = query.is("allowWatchBookmarks");
        let tells_end = query.is("sendInitialEvents") && wants_bookmarks;
        let namespace = objects.namespace.clone();
        let (mut first, mut seen) = (VecDeque::new(), version.unwrap_or_default());
        let mut state = cluster.lock();
        let now = state.version;
        let table = state.table(&pen.kind);
        if version.is_none() || tells_end {
            let is_in = |name: &Name| namespace.is_empty() || *name.namespace == *namespace;
            let all = table.objects.iter().filter(|(name, object)| is_in(name) && selector.matches(name, &object.body));
            first = all.map(|(name, object)| (Arc::clone(name), object.clone())).collect();
            seen = now;
        }
        let news = table.news.subscribe();
        drop(state);
        counters.open_watches.fetch_add(1, Ordering::Relaxed);
        let begin = Instant::now();
        Ok(Self {
            cluster,
            counters,
            pen,
            namespace,
            selector,
            seen,
            first,
            tells_end,
            bookmarks: wants_bookmarks.then_some(begin + BOOKMARK_INTERVAL),
            news,
            deadline: begin + timeout,
            has_ended: false,
        })
    }

    /// Returns the body of the answer.
    pub(super) fn into_stream(self) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send {
        stream::unfold(self, |mut watch| async move {
            let bytes = watch.next().await?;
            Some((Ok(Frame::data(bytes)), watch))
        })
    }

    /// Returns the next events as they are sent; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.has_ended {
                return None;
            }
            let batch = self.batch();
            if !batch.is_empty() {
                return Some(batch.into());
            }
            let bookmark = self.bookmarks.unwrap_or(self.deadline).min(self.deadline);
            tokio::select! {
                changed = self.news.changed() => if changed.is_err() { return None },
                () = sleep_until(bookmark) => {
                    self.has_ended = bookmark == self.deadline;
                    if let Some(next) = &mut self.bookmarks {
                        *next += BOOKMARK_INTERVAL;
                        return Some(self.bookmark(false).into());
                    }
                }
            }
        }
    }

    /// Returns what is to be sent now.
    fn batch(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        while let Some((_, object)) = self.first.pop_front() {
            self.line(&mut out, "ADDED", &object);
            if out.len() > BATCH_BYTES {
                return out;
            }
        }
        if std::mem::take(&mut self.tells_end) {
            out.append(&mut self.bookmark(true));
        }
        self.news.mark_unchanged();
        let cluster = Arc::clone(&self.cluster);
        let mut state = cluster.lock();
        let table = state.table(&self.pen.kind);
        if self.seen < table.forgotten {
            let message = format!("too old resource version: {} ({})", self.seen, table.forgotten);
            push(&mut out, format_args!(r#"{{"type":"ERROR","object":{}}}"#, expired(message).to_json()));
            out.push(b'\n');
            self.has_ended = true;
            self.counters.expired_watches.fetch_add(1, Ordering::Relaxed);
            return out;
        }
        self.events(table, &mut out);
        out
    }

    fn events(&mut self, table: &Table, out: &mut Vec<u8>) {
        let at = table.history.partition_point(|event| event.object.version <= self.seen);
        for event in table.history.range(at..) {
            self.seen = event.object.version;
            if !self.namespace.is_empty() && *event.name.namespace != *self.namespace {
                continue;
            }
            if let Some(type_) = self.type_of(event) {
                let mut object = event.object.clone();
                if let (true, Some(before)) = (type_ == "DELETED", &event.before) {
                    object.body = Arc::clone(before);
                }
                self.line(out, type_, &object);
            }
            if out.len() > BATCH_BYTES {
                return;
            }
        }
    }

    /// Returns what an event is to somebody who sees only what is selected.
    fn type_of(&self, event: &Event) -> Option<&'static str> {
        let selects = |body| self.selector.matches(&event.name, body);
        let before = event.before.as_ref().is_some_and(|body| selects(body));
        let after = event.happening != Happening::Deleted && selects(&event.object.body);
        match (before, after) {
            (false, true) => Some("ADDED"),
            (true, true) => Some("MODIFIED"),
            (true, false) => Some("DELETED"),
            (false, false) => None,
        }
    }

    fn line(&self, out: &mut Vec<u8>, type_: &str, object: &Object) {
        push(out, format_args!(r#"{{"type":"{type_}","object":"#));
        self.pen.write(out, object, false);
        out.extend_from_slice(b"}\n");
    }

    fn bookmark(&self, is_end: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let annotations = if is_end { r#","annotations":{"k8s.io/initial-events-end":"true"}"# } else { "" };
        push(
            &mut out,
            format_args!(
                r#"{{"type":"BOOKMARK","object":{{"kind":"{}","apiVersion":"{}","metadata":{{"resourceVersion":"{}"{annotations}}}}}}}"#,
                self.pen.kind.name, self.pen.api_version, self.seen
            ),
        );
        out.push(b'\n');
        out
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.counters.open_watches.fetch_sub(1, Ordering::Relaxed);
    }
}
