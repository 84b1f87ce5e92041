//! Functions of expressions, beyond the language itself.
//!
//! Kubernetes' quantity, semver and list functions, and Open Cluster Management's `scores` and `parseJSON`. `names.rs` says
//! which functions there are; `patterns.rs`, `network.rs`, `urls.rs` and `formats.rs` have the other libraries.

use std::cmp::Ordering;

use cel::common::types::{BOOL_TYPE, CelBool, CelDouble, CelInt, CelString, DYN_TYPE, INT_TYPE, LIST_TYPE};
use cel::common::types::{STRING_TYPE, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError, FunctionContext};
use serde_json::{Value, json};

use super::json;
use model::api::check::quantity_nanos;
use model::api::ocm::AddOnScoreStatus;

/// A function with state between calls.
pub(super) type Native =
    Box<dyn for<'c, 'v> Fn(&mut FunctionContext<'c, 'v>) -> Result<CowVal<'c, 'v>, ExecutionError> + Send + Sync>;

/// Returns a cluster's scores by the name of their AddOnPlacementScore, each a list of `{name, value}`.
pub(super) fn scores<'h>(objects: impl Iterator<Item = (&'h str, &'h AddOnScoreStatus)>) -> Box<dyn Val> {
    json::whole(&Value::Object(objects.map(|(name, status)| (name.to_owned(), list(status))).collect()))
}

fn list(status: &AddOnScoreStatus) -> Value {
    status.scores.iter().map(|score| json!({"name": score.name, "value": score.value})).collect()
}

pub(super) type Args<'b, 'v> = Vec<CowVal<'b, 'v>>;
pub(super) type CelResult<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

pub(super) fn text<'a>(args: &'a Args<'_, '_>, position: usize) -> Result<&'a str, ExecutionError> {
    let text = args.get(position).and_then(|arg| arg.downcast_ref::<CelString>());
    text.map(CelString::inner).ok_or_else(|| unexpected("string"))
}

pub(super) fn native<'a, T: StaticVal>(args: &'a Args<'_, '_>, position: usize) -> Result<&'a T, ExecutionError> {
    let value = args.get(position).and_then(|arg| arg.downcast_ref::<T>());
    value.ok_or_else(|| unexpected(T::cel_type().name()))
}

fn unexpected(want: &str) -> ExecutionError {
    ExecutionError::UnexpectedType { got: "another type".to_owned(), want: want.to_owned() }
}

#[allow(clippy::unnecessary_wraps, reason = "every function ends with it")]
pub(super) fn yes<'b, 'v>(value: bool) -> CelResult<'b, 'v> {
    Ok(CowVal::owned(CelBool::from(value)))
}

#[allow(clippy::unnecessary_wraps, reason = "every function ends with it")]
pub(super) fn int<'b, 'v>(value: i64) -> CelResult<'b, 'v> {
    Ok(CowVal::owned(CelInt::from(value)))
}

macro_rules! native_value {
    ($type:ident, $constant:ident, $name:literal, $equals:expr) => {
        const $constant: Type = Type::new_unspecified_type($name);

        impl Val for $type {
            fn get_type(&self) -> &Type {
                Self::cel_type()
            }
            fn cel_type() -> &'static Type {
                static TYPE: Type = $constant;
                &TYPE
            }
            fn equals(&self, other: &dyn Val) -> bool {
                let equals: fn(&$type, &$type) -> bool = $equals;
                other.downcast_ref::<$type>().is_some_and(|other| equals(self, other))
            }
            fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
                Box::new(self.clone())
            }
            fn as_any(&self) -> Option<&dyn std::any::Any> {
                Some(self)
            }
        }
        impl StaticVal for $type {}
    };
}
pub(super) use native_value;

/// A Kubernetes quantity, in billionths.
#[derive(Clone, Debug)]
struct CelQuantity(i128);
native_value!(CelQuantity, QUANTITY_TYPE, "kubernetes.Quantity", |a, b| a.0 == b.0);

/// A version.
#[derive(Clone, Debug)]
struct Version(semver::Version);
// By precedence: build metadata does not distinguish versions.
native_value!(Version, VERSION_TYPE, "kubernetes.Semver", |a, b| a.0.cmp_precedence(&b.0).is_eq());

const UNIT: i128 = 1_000_000_000;

/// Source: Kubernetes, CEL quantity library.
pub(super) fn quantities(env: &mut Env) -> Result<(), DeclarationError> {
    fn compared(args: &Args<'_, '_>) -> Result<Ordering, ExecutionError> {
        Ok(native::<CelQuantity>(args, 0)?.0.cmp(&native::<CelQuantity>(args, 1)?.0))
    }
    env.add_overload("quantity", "string_to_quantity", vec![STRING_TYPE], |args| {
        let nanos = quantity_nanos(text(&args, 0)?);
        Ok(CowVal::owned(CelQuantity(nanos.ok_or_else(|| ExecutionError::function_error("quantity", "no quantity"))?)))
    })?;
    env.add_overload("isQuantity", "is_quantity_string", vec![STRING_TYPE], |args| {
        yes(quantity_nanos(text(&args, 0)?).is_some())
    })?;
    env.add_member_overload("isInteger", "quantity_is_integer", QUANTITY_TYPE, vec![], |args| {
        yes(whole(native(&args, 0)?).is_some())
    })?;
    env.add_member_overload("asInteger", "quantity_as_integer", QUANTITY_TYPE, vec![], |args| {
        let whole = whole(native(&args, 0)?);
        int(whole.ok_or_else(|| ExecutionError::function_error("asInteger", "is no whole number of 64 bits"))?)
    })?;
    env.add_member_overload("asApproximateFloat", "quantity_as_float", QUANTITY_TYPE, vec![], |args| {
        let CelQuantity(nanos) = native::<CelQuantity>(&args, 0)?;
        #[allow(clippy::cast_precision_loss, reason = "approximate by name")]
        Ok(CowVal::owned(CelDouble::from(*nanos as f64 / UNIT as f64)))
    })?;
    env.add_member_overload("sign", "quantity_sign", QUANTITY_TYPE, vec![], |args| {
        int(i64::try_from(native::<CelQuantity>(&args, 0)?.0.signum()).unwrap_or(0))
    })?;
    env.add_member_overload("add", "quantity_add", QUANTITY_TYPE, vec![QUANTITY_TYPE], |args| {
        sum(&args, 1, operand(&args)?)
    })?;
    env.add_member_overload("add", "quantity_add_int", QUANTITY_TYPE, vec![INT_TYPE], |args| {
        sum(&args, 1, operand(&args)?)
    })?;
    env.add_member_overload("sub", "quantity_sub", QUANTITY_TYPE, vec![QUANTITY_TYPE], |args| {
        sum(&args, -1, operand(&args)?)
    })?;
    env.add_member_overload("sub", "quantity_sub_int", QUANTITY_TYPE, vec![INT_TYPE], |args| {
        sum(&args, -1, operand(&args)?)
    })?;
    env.add_member_overload("compareTo", "quantity_compare_to", QUANTITY_TYPE, vec![QUANTITY_TYPE], |args| {
        int(compared(&args)? as i64)
    })?;
    env.add_member_overload("isGreaterThan", "quantity_is_greater_than", QUANTITY_TYPE, vec![QUANTITY_TYPE], |args| {
        yes(compared(&args)?.is_gt())
    })?;
    env.add_member_overload("isLessThan", "quantity_is_less_than", QUANTITY_TYPE, vec![QUANTITY_TYPE], |args| {
        yes(compared(&args)?.is_lt())
    })
}

fn whole(quantity: &CelQuantity) -> Option<i64> {
    (quantity.0 % UNIT == 0).then(|| i64::try_from(quantity.0 / UNIT).ok()).flatten()
}

/// Returns the second argument, a quantity or a whole number, in billionths.
fn operand(args: &Args<'_, '_>) -> Result<i128, ExecutionError> {
    match args.get(1).and_then(|arg| arg.downcast_ref::<CelInt>()) {
        // 64 bits times a billion fit into 128.
        Some(number) => Ok(i128::from(*number.inner()) * UNIT),
        None => Ok(native::<CelQuantity>(args, 1)?.0),
    }
}

fn sum<'b, 'v>(args: &Args<'_, '_>, sign: i128, operand: i128) -> CelResult<'b, 'v> {
    let sum = native::<CelQuantity>(args, 0)?.0.checked_add(sign * operand);
    Ok(CowVal::owned(CelQuantity(sum.ok_or_else(|| ExecutionError::function_error("add", "is too large"))?)))
}

/// Source: Kubernetes, CEL semver library.
pub(super) fn versions(env: &mut Env) -> Result<(), DeclarationError> {
    fn parsed(args: &Args<'_, '_>) -> Result<Option<semver::Version>, ExecutionError> {
        let normalize = args.get(1).and_then(|arg| arg.downcast_ref::<CelBool>()).is_some_and(|n| *n.inner());
        let written = text(args, 0)?;
        let normal = if normalize { normal_version(written) } else { written.to_owned() };
        Ok(semver::Version::parse(&normal).ok())
    }
    #[allow(clippy::needless_pass_by_value, reason = "the library calls it so")]
    fn version<'b, 'v>(args: Args<'b, 'v>) -> CelResult<'b, 'v> {
        let version = parsed(&args)?.ok_or_else(|| ExecutionError::function_error("semver", "no version"))?;
        Ok(CowVal::owned(Version(version)))
    }
    #[allow(clippy::needless_pass_by_value, reason = "the library calls it so")]
    fn is_version<'b, 'v>(args: Args<'b, 'v>) -> CelResult<'b, 'v> {
        yes(parsed(&args)?.is_some())
    }
    fn compared(args: &Args<'_, '_>) -> Result<Ordering, ExecutionError> {
        Ok(native::<Version>(args, 0)?.0.cmp_precedence(&native::<Version>(args, 1)?.0))
    }
    fn number<'b, 'v>(number: u64) -> CelResult<'b, 'v> {
        int(i64::try_from(number).unwrap_or(i64::MAX))
    }
    env.add_overload("semver", "string_to_semver", vec![STRING_TYPE], version)?;
    env.add_overload("semver", "string_bool_to_semver", vec![STRING_TYPE, BOOL_TYPE], version)?;
    env.add_overload("isSemver", "is_semver_string", vec![STRING_TYPE], is_version)?;
    env.add_overload("isSemver", "is_semver_string_bool", vec![STRING_TYPE, BOOL_TYPE], is_version)?;
    env.add_member_overload("major", "semver_major", VERSION_TYPE, vec![], |args| {
        number(native::<Version>(&args, 0)?.0.major)
    })?;
    env.add_member_overload("minor", "semver_minor", VERSION_TYPE, vec![], |args| {
        number(native::<Version>(&args, 0)?.0.minor)
    })?;
    env.add_member_overload("patch", "semver_patch", VERSION_TYPE, vec![], |args| {
        number(native::<Version>(&args, 0)?.0.patch)
    })?;
    env.add_member_overload("compareTo", "semver_compare_to", VERSION_TYPE, vec![VERSION_TYPE], |args| {
        int(compared(&args)? as i64)
    })?;
    env.add_member_overload("isGreaterThan", "semver_is_greater_than", VERSION_TYPE, vec![VERSION_TYPE], |args| {
        yes(compared(&args)?.is_gt())
    })?;
    env.add_member_overload("isLessThan", "semver_is_less_than", VERSION_TYPE, vec![VERSION_TYPE], |args| {
        yes(compared(&args)?.is_lt())
    })
}

/// Returns a version without `v`, without leading zeros, and with three numbers.
fn normal_version(written: &str) -> String {
    let written = written.strip_prefix('v').unwrap_or(written);
    let (numbers, rest) = written.split_at(written.find(['-', '+']).unwrap_or(written.len()));
    let mut numbers: Vec<&str> = numbers.split('.').collect();
    // Not truncated to three: the parser must refuse a fourth number.
    numbers.resize(numbers.len().max(3), "0");
    for number in &mut numbers {
        *number = match number.trim_start_matches('0') {
            // A zero is nothing but leading zeros. An empty part stays empty and is refused.
            "" if !number.is_empty() => "0",
            short => short,
        };
    }
    format!("{}{rest}", numbers.join("."))
}

/// Source: Kubernetes, CEL list library; `parseJSON` is Open Cluster Management's.
pub(super) fn texts_and_lists(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_member_overload("parseJSON", "string_parse_json", STRING_TYPE, vec![], |args| {
        let parsed: Result<Value, _> = serde_json::from_str(text(&args, 0)?);
        Ok(CowVal::Owned(json::whole(&parsed.map_err(|error| ExecutionError::function_error("parseJSON", error))?)))
    })?;
    env.add_member_overload("isSorted", "list_is_sorted", LIST_TYPE, vec![], |args| {
        let items = items(&args)?;
        let mut pairs = items.windows(2).map(|pair| compare(pair[0], pair[1]));
        yes(pairs.try_fold(true, |sorted, order| Ok::<_, ExecutionError>(sorted && order?.is_le()))?)
    })?;
    env.add_member_overload("min", "list_min", LIST_TYPE, vec![], |args| extreme(&args, Ordering::Less))?;
    env.add_member_overload("max", "list_max", LIST_TYPE, vec![], |args| extreme(&args, Ordering::Greater))?;
    env.add_member_overload("sum", "list_sum", LIST_TYPE, vec![], |args| {
        let mut items = items(&args)?.into_iter();
        let Some(first) = items.next() else { return int(0) };
        let total = items.try_fold(first.clone_as_boxed(), |total, item| {
            let adder = total.as_adder().ok_or_else(|| unexpected("number"))?;
            adder.add(item).map(|sum| sum.as_ref().clone_as_boxed())
        });
        Ok(CowVal::Owned(total?))
    })?;
    env.add_member_overload("indexOf", "list_index_of", LIST_TYPE, vec![DYN_TYPE], |args| {
        let items = items(&args)?;
        let wanted = args.get(1).ok_or_else(|| unexpected("value"))?;
        int(items.iter().position(|item| item.equals(wanted.as_ref())).map_or(-1, |at| i64::try_from(at).unwrap_or(-1)))
    })?;
    env.add_member_overload("lastIndexOf", "list_last_index_of", LIST_TYPE, vec![DYN_TYPE], |args| {
        let items = items(&args)?;
        let wanted = args.get(1).ok_or_else(|| unexpected("value"))?;
        int(items
            .iter()
            .rposition(|item| item.equals(wanted.as_ref()))
            .map_or(-1, |at| i64::try_from(at).unwrap_or(-1)))
    })
}

fn items<'a, 'v>(args: &'a Args<'_, 'v>) -> Result<Vec<&'a (dyn Val + 'v)>, ExecutionError> {
    let list = args.first().and_then(|arg| arg.as_iterable()).ok_or_else(|| unexpected("list"))?;
    let mut iterator = list.iter();
    let mut items = Vec::new();
    while let Some(item) = iterator.next() {
        items.push(item);
    }
    Ok(items)
}

fn compare(left: &dyn Val, right: &dyn Val) -> Result<Ordering, ExecutionError> {
    left.as_comparer().ok_or_else(|| unexpected("comparable"))?.compare(right)
}

fn extreme<'b, 'v>(args: &Args<'_, 'v>, wanted: Ordering) -> CelResult<'b, 'v> {
    let mut items = items(args)?.into_iter();
    let first = items.next().ok_or_else(|| ExecutionError::function_error("min", "the list is empty"))?;
    let best = items.try_fold(first, |best, item| {
        Ok::<_, ExecutionError>(if compare(item, best)? == wanted { item } else { best })
    })?;
    Ok(CowVal::Owned(best.clone_as_boxed()))
}
