//! Cpu and memory: of one node, of one pod by Kubernetes' rules, and of many together.

use std::ops::{AddAssign, SubAssign};

use serde::{Deserialize, Deserializer};

use crate::api::check::quantity_nanos;

/// Billionths in one, the unit in which quantities are computed.
const NANOS: i128 = 1_000_000_000;
/// Billionths in one thousandth.
const NANOS_IN_MILLI: i128 = 1_000_000;

/// Cpu and memory of one node or pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Cpu in thousandths of a core.
    pub cpu_milli: u64,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

/// Cpu and memory of many nodes or pods: exact, however many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Cpu in thousandths of a core.
    pub cpu_milli: u128,
    /// Memory in bytes.
    pub memory_bytes: u128,
}

impl AddAssign<Amounts> for Totals {
    fn add_assign(&mut self, amounts: Amounts) {
        self.cpu_milli += u128::from(amounts.cpu_milli);
        self.memory_bytes += u128::from(amounts.memory_bytes);
    }
}

impl SubAssign<Amounts> for Totals {
    fn sub_assign(&mut self, amounts: Amounts) {
        self.cpu_milli -= u128::from(amounts.cpu_milli);
        self.memory_bytes -= u128::from(amounts.memory_bytes);
    }
}

impl Totals {
    /// Returns the cpu as Kubernetes writes it: `3`, `2500m`, `2k`.
    pub fn cpu(&self) -> String {
        let suffixes = ["m", "", "k", "M", "G", "T", "P", "E"];
        // Kubernetes writes zero without a suffix.
        if self.cpu_milli == 0 { "0".to_owned() } else { scaled(self.cpu_milli, 1000, &suffixes) }
    }

    /// Returns the memory as Kubernetes writes it: in the largest power of 1024 that divides it, `16Gi`, `1500`.
    pub fn memory(&self) -> String {
        scaled(self.memory_bytes, 1024, &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])
    }
}

/// Writes a number with the largest suffix that leaves it whole.
///
/// Source: Kubernetes apimachinery, the canonical form of `resource.Quantity` (DecimalSI for cpu, BinarySI for memory).
fn scaled(mut number: u128, base: u128, suffixes: &[&str]) -> String {
    let mut power = 0;
    while number != 0 && number.is_multiple_of(base) && power + 1 < suffixes.len() {
        number /= base;
        power += 1;
    }
    format!("{number}{}", suffixes[power])
}

/// A quantity in billionths. Invalid and negative values count as zero; an API server never sends them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Quantity(i128);

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(Self(quantity_nanos(&text).unwrap_or_default().max(0)))
    }
}

/// Cpu and memory of a list of resources.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Resources {
    cpu: Option<Quantity>,
    memory: Option<Quantity>,
}

/// The same, with missing resources as zero.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    cpu: i128,
    memory: i128,
}

impl Sum {
    fn plus(self, other: Self) -> Self {
        Self { cpu: self.cpu.saturating_add(other.cpu), memory: self.memory.saturating_add(other.memory) }
    }

    fn max(self, other: Self) -> Self {
        Self { cpu: self.cpu.max(other.cpu), memory: self.memory.max(other.memory) }
    }

    /// Rounds up to thousandths of a core and to bytes, as Kubernetes' scheduler does.
    fn amounts(self) -> Amounts {
        let up = |value: i128, unit: i128| {
            let units = value / unit + i128::from(value % unit != 0);
            u64::try_from(units).unwrap_or(u64::MAX)
        };
        Amounts { cpu_milli: up(self.cpu, NANOS_IN_MILLI), memory_bytes: up(self.memory, NANOS) }
    }
}

impl From<Resources> for Sum {
    fn from(resources: Resources) -> Self {
        let nanos = |quantity: Option<Quantity>| quantity.unwrap_or_default().0;
        Self { cpu: nanos(resources.cpu), memory: nanos(resources.memory) }
    }
}

/// The relevant fields of a node's `status`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct NodeStatus {
    #[serde(default)]
    capacity: Resources,
    #[serde(default)]
    allocatable: Resources,
}

impl NodeStatus {
    /// Returns the node's capacity.
    pub(super) fn capacity(&self) -> Amounts {
        Sum::from(self.capacity).amounts()
    }

    /// Returns the amounts that pods on it may request.
    pub(super) fn allocatable(&self) -> Amounts {
        Sum::from(self.allocatable).amounts()
    }
}

/// The relevant fields of a pod's `status`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PodStatus {
    #[serde(default)]
    phase: String,
}

impl PodStatus {
    /// Tells whether the pod has ended and holds no resources any more.
    pub(super) fn is_finished(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }
}

/// The relevant fields of a pod's `spec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    node_name: String,
    containers: Vec<Container>,
    init_containers: Vec<Container>,
    resources: Requirements,
    overhead: Resources,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    restart_policy: String,
    resources: Requirements,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Requirements {
    requests: Resources,
}

impl PodSpec {
    /// Tells whether the pod is bound to a node.
    pub(super) fn is_bound(&self) -> bool {
        !self.node_name.is_empty()
    }

    /// Returns the pod's request.
    ///
    /// Init containers run one after the other, before the containers; those with restart policy `Always` (sidecars) keep
    /// running from then on. So the request is the larger of the final sum, and of each init container together with the
    /// sidecars before it. Requests of the pod as a whole replace those of its containers; overhead is added.
    ///
    /// Source: Kubernetes component-helpers, `resource.PodRequests`, for `spec` alone: while a pod is being resized in place
    /// its new requests count, not the larger of old and new.
    pub(super) fn request(&self) -> Amounts {
        let requests = |container: &Container| Sum::from(container.resources.requests);
        let mut running = self.containers.iter().map(requests).fold(Sum::default(), Sum::plus);
        let (mut sidecars, mut starting) = (Sum::default(), Sum::default());
        for container in &self.init_containers {
            if container.restart_policy == "Always" {
                running = running.plus(requests(container));
                sidecars = sidecars.plus(requests(container));
                starting = starting.max(sidecars);
            } else {
                starting = starting.max(sidecars.plus(requests(container)));
            }
        }
        let needed = running.max(starting);
        let whole = self.resources.requests;
        let needed = Sum {
            cpu: whole.cpu.map_or(needed.cpu, |quantity| quantity.0),
            memory: whole.memory.map_or(needed.memory, |quantity| quantity.0),
        };
        needed.plus(self.overhead.into()).amounts()
    }
}
