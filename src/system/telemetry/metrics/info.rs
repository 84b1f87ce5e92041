//! What the reference page says of a metric.

/// What a metric counts how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows; its name ends in `_total` when it is read.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts observations by size.
    Histogram,
}

impl MetricKind {
    /// Returns the word of the text format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric as the reference page lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricInfo {
    /// The name without `_total`.
    pub name: &'static str,
    /// The field of [`Metrics`](super::Metrics); empty for what is read when somebody asks.
    pub field: &'static str,
    /// What it tells, one sentence without a full stop.
    pub help: &'static str,
    /// What it is.
    pub kind: MetricKind,
    /// Its labels.
    pub labels: &'static [&'static str],
}
