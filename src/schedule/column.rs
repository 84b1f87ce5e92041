//! One property of all clusters.

use fixedbitset::FixedBitSet;

use model::api::check;
use model::api::placement::PropertySelectorOperator;

/// The values of one property on all clusters.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// Clusters with a value, a quantity or not.
    present: FixedBitSet,
    /// Clusters whose value is no quantity.
    bad: FixedBitSet,
    /// Billionths; zero without a quantity.
    nanos: Vec<i128>,
    /// The quantities as floating point numbers, which rank clusters.
    floats: Vec<f64>,
    /// The slots of the smallest and the largest of those.
    extremes: Option<(usize, usize)>,
}

impl Column {
    /// Begins without values.
    pub(crate) fn new(len: usize) -> Self {
        let none = FixedBitSet::with_capacity(len);
        Self { present: none.clone(), bad: none, nanos: vec![0; len], floats: vec![0.0; len], extremes: None }
    }

    /// Sets a cluster's value.
    pub(crate) fn set(&mut self, slot: usize, value: Option<&str>) {
        let nanos = value.and_then(check::quantity_nanos);
        let before = self.float(slot);
        self.present.set(slot, value.is_some());
        self.bad.set(slot, value.is_some() && nanos.is_none());
        self.nanos[slot] = nanos.unwrap_or_default();
        self.floats[slot] = value.zip(nanos).map_or(0.0, |(text, nanos)| approximate(text, nanos));
        if before == self.float(slot) {
            return;
        }
        match (self.extremes, nanos) {
            (None, Some(_)) => self.extremes = Some((slot, slot)),
            // An extreme changed: only a scan of all values finds the new one.
            (Some((low, high)), _) if low == slot || high == slot => self.extremes = self.find_extremes(),
            (Some((low, high)), Some(_)) => {
                let low = if self.floats[slot] < self.floats[low] { slot } else { low };
                let high = if self.floats[slot] > self.floats[high] { slot } else { high };
                self.extremes = Some((low, high));
            }
            // Removing a value between the extremes leaves them as they are.
            (_, None) => {}
        }
    }

    fn find_extremes(&self) -> Option<(usize, usize)> {
        let low = self.quantities().min_by(|&a, &b| self.floats[a].total_cmp(&self.floats[b]))?;
        let high = self.quantities().max_by(|&a, &b| self.floats[a].total_cmp(&self.floats[b]))?;
        Some((low, high))
    }

    /// Returns the clusters whose value is a quantity.
    fn quantities(&self) -> impl Iterator<Item = usize> {
        self.present.difference(&self.bad)
    }

    /// Tells whether no cluster has the property.
    pub(crate) fn is_empty(&self) -> bool {
        self.present.is_clear()
    }

    /// Returns a cluster's quantity in billionths; `None` where it has none.
    pub(crate) fn nanos(&self, slot: usize) -> Option<i128> {
        (self.present.contains(slot) && !self.bad.contains(slot)).then(|| self.nanos[slot])
    }

    /// Returns a cluster's quantity as a floating point number; `None` where it has none.
    pub(crate) fn float(&self, slot: usize) -> Option<f64> {
        self.nanos(slot).map(|_| self.floats[slot])
    }

    /// Returns the smallest and the largest quantity as floating point numbers.
    pub(crate) fn extremes(&self) -> Option<(f64, f64)> {
        self.extremes.map(|(low, high)| (self.floats[low], self.floats[high]))
    }

    /// Returns the clusters that have a value, a quantity or not.
    pub(crate) fn present(&self) -> &FixedBitSet {
        &self.present
    }

    /// Returns the clusters whose value is no quantity.
    pub(crate) fn bad(&self) -> &FixedBitSet {
        &self.bad
    }

    /// Returns the clusters whose quantity compares this way with one in billionths. A missing value or one that is no quantity
    /// never does.
    pub(crate) fn matching(&self, operator: PropertySelectorOperator, wanted: i128) -> FixedBitSet {
        let mut found = FixedBitSet::with_capacity(self.nanos.len());
        for (slot, &nanos) in self.nanos.iter().enumerate() {
            found.set(slot, compares(operator, nanos, wanted));
        }
        // Without a quantity `nanos` is 0, which compares like any number.
        found.intersect_with(&self.present);
        found.difference_with(&self.bad);
        found
    }
}

/// Returns a quantity as a floating point number, with the same rounding error as Kubernetes: the digits times a power of ten.
///
/// Source: Kubernetes apimachinery, `Quantity.AsApproximateFloat64`.
#[allow(clippy::cast_precision_loss, reason = "an approximation is what is asked for")]
fn approximate(text: &str, nanos: i128) -> f64 {
    const SUFFIXES: [(char, i32); 9] =
        [('n', -9), ('u', -6), ('m', -3), ('k', 3), ('M', 6), ('G', 9), ('T', 12), ('P', 15), ('E', 18)];
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let exponent = match suffix.as_bytes() {
        [] => Some(0),
        // `Ki` and its like are no powers of ten: the exact value below serves.
        [_, b'i'] => None,
        [_] => SUFFIXES.iter().find(|(name, _)| suffix.starts_with(*name)).map(|(_, exponent)| *exponent),
        [_, digits @ ..] => std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()),
    };
    let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let scaled = exponent.zip(i32::try_from(decimals).ok()).and_then(|(exponent, decimals)| {
        let digits: f64 = number.replace('.', "").parse().ok()?;
        // Parsing rounds once, like the table behind Go's `Pow10`; `powi` may round at every step.
        let power: f64 = format!("1e{}", exponent - decimals).parse().ok()?;
        Some(digits * power)
    });
    scaled.unwrap_or(nanos as f64 / 1e9)
}

/// Tells whether two quantities compare as an operator says.
pub(super) fn compares(operator: PropertySelectorOperator, observed: i128, wanted: i128) -> bool {
    match operator {
        PropertySelectorOperator::Gt => observed > wanted,
        PropertySelectorOperator::Ge => observed >= wanted,
        PropertySelectorOperator::Eq => observed == wanted,
        PropertySelectorOperator::Ne => observed != wanted,
        PropertySelectorOperator::Lt => observed < wanted,
        PropertySelectorOperator::Le => observed <= wanted,
    }
}
