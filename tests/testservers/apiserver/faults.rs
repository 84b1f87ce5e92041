//! What goes wrong, and how slow it is, by configuration; the same from run to run with one seed and one order of requests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// Faults of a server.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// How long every request waits.
    pub latency: Duration,
    /// One of so many requests is answered with 429.
    pub busy: Option<u64>,
    /// One of so many with 500.
    pub error: Option<u64>,
    /// One of so many ends its connection.
    pub dropped: Option<u64>,
    /// How long a watch may run.
    pub watch: Option<Duration>,
    /// Which requests of many fail.
    pub seed: u64,
}

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is answered with 429.
    Busy,
    /// It is answered with 500.
    Error,
    /// Its connection ends.
    Dropped,
}

impl Faults {
    /// Reads `429=100,500=200,drop=1000,watch=30s`; what is left out does not happen.
    pub fn parse(text: &str) -> Result<Self> {
        let mut faults = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').with_context(|| format!("{part:?} is not NAME=VALUE"))?;
            let one_of = || match value.parse() {
                Ok(number) if number > 0 => Ok(Some(number)),
                _ => bail!("{part:?}: expected how many requests have one such fault"),
            };
            match name {
                "429" => faults.busy = one_of()?,
                "500" => faults.error = one_of()?,
                "drop" => faults.dropped = one_of()?,
                "watch" => faults.watch = Some(duration(value)?),
                _ => bail!("{name:?} is no fault: 429, 500, drop, watch"),
            }
        }
        Ok(faults)
    }

    /// Returns what goes wrong with the request of this number.
    pub fn fault(&self, number: u64) -> Option<Fault> {
        let all = [(self.busy, Fault::Busy), (self.error, Fault::Error), (self.dropped, Fault::Dropped)];
        let mut found = all.into_iter().zip(1_u64..).filter(|((one_of, _), salt)| {
            one_of.is_some_and(|one_of| mixed(self.seed ^ salt << 56 ^ number).is_multiple_of(one_of))
        });
        found.next().map(|((_, fault), _)| fault)
    }
}

/// Reads `30s`, `1ms`.
pub fn duration(text: &str) -> Result<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let number: u64 = number.parse().with_context(|| format!("{text:?} is no duration, such as 30s or 1ms"))?;
    match unit {
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        _ => bail!("{text:?} is no duration, such as 30s or 1ms"),
    }
}

/// Source: SplitMix64.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Numbers requests.
#[derive(Debug, Default)]
pub struct Turnstile(AtomicU64);

impl Turnstile {
    /// Returns the number of the next request, from 0.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_come_as_often_as_asked_for_and_the_same_with_one_seed() {
        let mut faults = Faults::parse("429=10,500=100,watch=2s").expect("faults");
        assert_eq!((faults.dropped, faults.watch), (None, Some(Duration::from_secs(2))));
        let series = |faults: &Faults| (0..10_000).map(|number| faults.fault(number)).collect::<Vec<_>>();
        let first = series(&faults);
        let busy = first.iter().filter(|fault| **fault == Some(Fault::Busy)).count();
        assert!((800..1200).contains(&busy), "{busy} of 10,000");
        assert_eq!(first, series(&faults));
        faults.seed = 1;
        assert_ne!(first, series(&faults));
        for wrong in ["429", "429=0", "what=1", "watch=2"] {
            assert!(Faults::parse(wrong).is_err(), "{wrong}");
        }
    }
}
