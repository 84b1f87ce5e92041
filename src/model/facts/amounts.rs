//! Cpu, memory and extended resources: of one node, of one pod as Kubernetes counts it, and of many together.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{AddAssign, SubAssign};

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::decimal;
use crate::api::check::quantity_nanos;

/// Billionths in one, the unit in which quantities are computed.
const NANOS: i128 = 1_000_000_000;
/// Billionths in one thousandth.
const NANOS_IN_MILLI: i128 = 1_000_000;

/// Extended resources of one cluster that become properties; further ones, in the order of their names, do not.
pub(super) const EXTENDED_MAX: usize = 64;

/// Cpu and memory of one node or pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Cpu in thousandths of a core.
    pub cpu_milli: u64,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

/// Whole amounts by name; none is zero. What is not there and what is zero shall be the same.
pub(super) type Named = BTreeMap<String, u64>;

/// What many nodes or pods have together: exact, however many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Cpu in thousandths of a core.
    #[serde(with = "decimal")]
    pub cpu_milli: u128,
    /// Memory in bytes.
    #[serde(with = "decimal")]
    pub memory_bytes: u128,
    /// Extended resources by name, such as `nvidia.com/gpu`; none is zero.
    #[serde(with = "decimal::map")]
    pub extended: BTreeMap<String, u128>,
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

impl AddAssign<&Named> for Totals {
    fn add_assign(&mut self, amounts: &Named) {
        for (name, amount) in amounts {
            *self.extended.entry(name.clone()).or_default() += u128::from(*amount);
        }
    }
}

impl SubAssign<&Named> for Totals {
    fn sub_assign(&mut self, amounts: &Named) {
        for (name, amount) in amounts {
            let Some(total) = self.extended.get_mut(name) else { continue };
            *total -= u128::from(*amount);
            if *total == 0 {
                self.extended.remove(name);
            }
        }
    }
}

impl Totals {
    /// Returns what is left of these after others, never below zero.
    pub(super) fn less(&self, others: &Self) -> Self {
        let extended = self.extended.iter().map(|(name, amount)| {
            let other = others.extended.get(name).copied().unwrap_or_default();
            (name.clone(), amount.saturating_sub(other))
        });
        Self {
            cpu_milli: self.cpu_milli.saturating_sub(others.cpu_milli),
            memory_bytes: self.memory_bytes.saturating_sub(others.memory_bytes),
            extended: extended.collect(),
        }
    }

    /// Returns extended resources as Kubernetes writes them: `8`, `1k`; at most `EXTENDED_MAX`.
    pub fn extended(&self) -> impl Iterator<Item = (&str, String)> {
        let suffixes = ["", "k", "M", "G", "T", "P", "E"];
        let listed = self.extended.iter().take(EXTENDED_MAX);
        listed.map(move |(name, amount)| (name.as_str(), scaled(*amount, 1000, &suffixes)))
    }

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

/// A list of resources; what is neither cpu nor memory nor an extended resource is skipped.
#[derive(Clone, Debug, Default)]
struct Resources {
    cpu: Option<Quantity>,
    memory: Option<Quantity>,
    extended: BTreeMap<String, Quantity>,
}

impl<'de> Deserialize<'de> for Resources {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;

        impl<'de> Visitor<'de> for List {
            type Value = Resources;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of resources to quantities")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Resources, A::Error> {
                let mut resources = Resources::default();
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "cpu" => resources.cpu = map.next_value()?,
                        "memory" => resources.memory = map.next_value()?,
                        _ if is_extended(&name) => drop(resources.extended.insert(name, map.next_value()?)),
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(resources)
            }
        }

        deserializer.deserialize_map(List)
    }
}

/// Source: Kubernetes, `IsExtendedResourceName`: a name with a domain that is not Kubernetes' own.
fn is_extended(name: &str) -> bool {
    name.split_once('/')
        .is_some_and(|(domain, _)| !domain.ends_with("kubernetes.io") && !domain.starts_with("requests."))
}

/// The same, with missing resources as zero.
#[derive(Clone, Debug, Default)]
struct Sum {
    cpu: i128,
    memory: i128,
    extended: BTreeMap<String, i128>,
}

impl Sum {
    fn plus(&self, other: &Self) -> Self {
        self.each(other, i128::saturating_add)
    }

    fn max(&self, other: &Self) -> Self {
        self.each(other, i128::max)
    }

    /// Puts two together, resource by resource.
    fn each(&self, other: &Self, put: fn(i128, i128) -> i128) -> Self {
        let names = self.extended.keys().chain(other.extended.keys());
        Self {
            cpu: put(self.cpu, other.cpu),
            memory: put(self.memory, other.memory),
            extended: names.map(|name| (name.clone(), put(self.extended_of(name), other.extended_of(name)))).collect(),
        }
    }

    fn extended_of(&self, name: &str) -> i128 {
        self.extended.get(name).copied().unwrap_or_default()
    }

    /// Rounds up to thousandths of a core and to bytes, as Kubernetes' scheduler does.
    fn amounts(&self) -> Amounts {
        Amounts { cpu_milli: up(self.cpu, NANOS_IN_MILLI), memory_bytes: up(self.memory, NANOS) }
    }

    /// Rounds extended resources up to whole ones.
    fn named(&self) -> Named {
        let whole = self.extended.iter().map(|(name, amount)| (name.clone(), up(*amount, NANOS)));
        whole.filter(|(_, amount)| *amount > 0).collect()
    }
}

fn up(value: i128, unit: i128) -> u64 {
    let units = value / unit + i128::from(value % unit != 0);
    u64::try_from(units).unwrap_or(u64::MAX)
}

impl From<&Resources> for Sum {
    fn from(resources: &Resources) -> Self {
        let cpu = resources.cpu.unwrap_or_default().0;
        let memory = resources.memory.unwrap_or_default().0;
        let extended = resources.extended.iter().map(|(name, quantity)| (name.clone(), quantity.0));
        Self { cpu, memory, extended: extended.collect() }
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
    pub(super) fn capacity(&self) -> (Amounts, Named) {
        let sum = Sum::from(&self.capacity);
        (sum.amounts(), sum.named())
    }

    /// Returns the amounts that pods on it may request.
    pub(super) fn allocatable(&self) -> (Amounts, Named) {
        let sum = Sum::from(&self.allocatable);
        (sum.amounts(), sum.named())
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

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Requirements {
    requests: Resources,
}

impl Container {
    fn requests(&self) -> Sum {
        Sum::from(&self.resources.requests)
    }
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
    pub(super) fn request(&self) -> (Amounts, Named) {
        let requests = self.containers.iter().map(Container::requests);
        let mut running = requests.fold(Sum::default(), |sum, asked| sum.plus(&asked));
        let mut sidecars = Sum::default();
        let mut starting = Sum::default();
        for container in &self.init_containers {
            if container.restart_policy == "Always" {
                running = running.plus(&container.requests());
                sidecars = sidecars.plus(&container.requests());
                starting = starting.max(&sidecars);
            } else {
                starting = starting.max(&sidecars.plus(&container.requests()));
            }
        }
        let needed = running.max(&starting);
        // Kubernetes lets a pod as a whole ask for cpu and memory only.
        let whole = &self.resources.requests;
        let needed = Sum {
            cpu: whole.cpu.map_or(needed.cpu, |quantity| quantity.0),
            memory: whole.memory.map_or(needed.memory, |quantity| quantity.0),
            extended: needed.extended,
        };
        let sum = needed.plus(&Sum::from(&self.overhead));
        (sum.amounts(), sum.named())
    }
}
