//! What the operating system says of this process, under the names that Prometheus gives it; read when somebody asks. Only Linux
//! is asked: elsewhere these metrics are absent.

use std::fmt::{Error, Result};
use std::fs;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeValLike as _;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::{MetricInfo, MetricKind};

/// Bytes in the unit of `/proc/self/status`, which it calls kB.
const KIB: u64 = 1024;

const fn info(name: &'static str, kind: MetricKind, help: &'static str) -> MetricInfo {
    MetricInfo { name, field: "", help, kind, labels: &[] }
}

const CPU: MetricInfo =
    info("process_cpu_seconds", MetricKind::Counter, "Processor time that this process used, in seconds");
const MEMORY: MetricInfo =
    info("process_resident_memory_bytes", MetricKind::Gauge, "Memory of this process that is in RAM, in bytes");
const OPEN: MetricInfo =
    info("process_open_fds", MetricKind::Gauge, "Files and connections that this process has open");
const OPEN_MAX: MetricInfo =
    info("process_max_fds", MetricKind::Gauge, "Files and connections that this process may have open");

/// All of them.
pub const PROCESS_METRICS: &[MetricInfo] = &[CPU, MEMORY, OPEN, OPEN_MAX];

/// Reads them when they are encoded.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut to: DescriptorEncoder) -> Result {
        if let Some(seconds) = cpu_seconds() {
            write(&mut to, &CPU, &ConstCounter::new(seconds))?;
        }
        for (info, value) in [(&MEMORY, resident_bytes()), (&OPEN, open_files()), (&OPEN_MAX, open_files_max())] {
            if let Some(value) = value {
                write(&mut to, info, &ConstGauge::new(i64::try_from(value).map_err(|_| Error)?))?;
            }
        }
        Ok(())
    }
}

fn write(to: &mut DescriptorEncoder, info: &MetricInfo, metric: &impl EncodeMetric) -> Result {
    // The registry ends a help with a full stop; a collector writes it as it is.
    let help = format!("{}.", info.help);
    metric.encode(to.encode_descriptor(info.name, &help, None, metric.metric_type())?)
}

fn cpu_seconds() -> Option<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let used = usage.user_time() + usage.system_time();
    let milliseconds = u32::try_from(used.num_milliseconds() % 1000).ok()?;
    Some(f64::from(u32::try_from(used.num_seconds()).ok()?) + f64::from(milliseconds) / 1000.0)
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * KIB)
}

fn open_files() -> Option<u64> {
    // The folder is open while it is listed.
    let listed = fs::read_dir("/proc/self/fd").ok()?.count();
    u64::try_from(listed).ok()?.checked_sub(1)
}

fn open_files_max() -> Option<u64> {
    getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft)
}
