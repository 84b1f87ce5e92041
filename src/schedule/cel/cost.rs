//! Limits what expressions may name and cost.
//!
//! The length of an expression without loops limits its cost. Loops are limited at run time: a meter checks every range, and
//! every string or list that is built, and stops the evaluation when its budget is spent.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use cel::ExecutionError;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use cel::common::types::{CelInt, CelList, CelString};
use cel::common::value::Val;

use super::names;

/// The budget of one expression on one object, in steps: nodes evaluated, and characters handled, ten for one.
pub const EXPRESSION_COST_MAX: u64 = 1_000_000;
/// Levels to which an expression may nest.
const DEPTH_MAX: usize = 100;
/// The function that meters its first argument; no expression can name it.
pub(super) const METER: &str = "@meter";
/// The function that refuses long texts and lists; no expression can name it.
pub(super) const SHORT: &str = "@short";
/// Arguments of functions whose result is as long as the product of their arguments may have this many characters.
pub(super) const SHORT_MAX: u64 = 4096;
/// The steps that a regular expression counts for: it may have to be compiled.
const REGEX_COST: u64 = 10_000;
/// Characters that count for one step.
const CHARACTERS_PER_STEP: u64 = 10;

/// The remaining budget.
#[derive(Debug, Default)]
pub(super) struct CostMeter {
    budget: AtomicU64,
    spent: AtomicU64,
}

impl CostMeter {
    pub(super) fn start(&self, budget: u64) {
        self.budget.store(budget, Ordering::Relaxed);
        self.spent.store(0, Ordering::Relaxed);
    }

    pub(super) fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    /// Spends the cost of handling a value, and of a loop of `body` steps over it.
    ///
    /// # Errors
    /// The budget is too small.
    pub(super) fn charge(&self, value: &dyn Val, body: u64) -> Result<(), ExecutionError> {
        let budget = self.budget.load(Ordering::Relaxed);
        let items = value.as_sizer().map_or(0, |sizer| u64::try_from(*sizer.size().inner()).unwrap_or(0));
        let cost = items.saturating_mul(body).saturating_add(weight(value, budget) / CHARACTERS_PER_STEP);
        let spent = self.spent.fetch_add(cost, Ordering::Relaxed).saturating_add(cost);
        if spent > budget { Err(ExecutionError::function_error(METER, "the cost limit is exceeded")) } else { Ok(()) }
    }
}

/// Counts the characters and items of a value, up to `limit` steps' worth.
pub(super) fn weight(value: &dyn Val, limit: u64) -> u64 {
    if let Some(text) = value.downcast_ref::<CelString>() {
        return text.inner().len() as u64;
    }
    let mut total: u64 = 1;
    let enough = limit.saturating_mul(CHARACTERS_PER_STEP);
    let Some(iterable) = value.as_iterable() else { return total };
    // A map iterates over its keys, and the values are counted beside them. A list would take items for positions.
    let indexer = if value.downcast_ref::<CelList>().is_some() { None } else { value.as_indexer() };
    let mut items = iterable.iter();
    while let Some(item) = items.next() {
        total = total.saturating_add(weight(item, limit));
        if let Some(Ok(entry)) = indexer.map(|indexer| indexer.get(item)) {
            total = total.saturating_add(weight(entry.as_ref(), limit));
        }
        if total > enough {
            break;
        }
    }
    total
}

/// What is wrong with a node of an expression.
pub(super) struct Complaint {
    pub(super) node: u64,
    pub(super) message: String,
}

/// Checks that everything in an expression over one variable exists, and that its cost fits the budget.
///
/// # Errors
/// The first node that is wrong.
pub(super) fn check(expression: &IdedExpr, variable: &str) -> Result<(), Complaint> {
    check_names(expression, &mut vec![variable], 0)?;
    let cost = estimate(expression);
    if cost > EXPRESSION_COST_MAX {
        let message = format!("costs {cost} steps or more on every object, the limit is {EXPRESSION_COST_MAX}");
        return wrong(expression, message);
    }
    Ok(())
}

fn wrong(expression: &IdedExpr, message: String) -> Result<(), Complaint> {
    Err(Complaint { node: expression.id, message })
}

fn check_names<'e>(expression: &'e IdedExpr, known: &mut Vec<&'e str>, depth: usize) -> Result<(), Complaint> {
    // This walk is the first: the later recursions need no limit of their own.
    if depth > DEPTH_MAX {
        return wrong(expression, format!("nests deeper than {DEPTH_MAX} levels"));
    }
    match &expression.expr {
        Expr::Ident(name) if !known.contains(&name.as_str()) && !names::TYPES.contains(&name.as_str()) => {
            return wrong(expression, format!("undeclared reference to '{name}' (in container '')"));
        }
        Expr::Call(call) => {
            let qualified = names::qualified(call);
            if !names::exists(call, qualified.as_deref()) {
                let name = &call.func_name;
                let message = format!("undeclared reference to '{name}' (in container ''); it is not offered here");
                return wrong(expression, message);
            }
            // In `optional.of` the target is part of the name and no variable.
            if qualified.is_none()
                && let Some(target) = &call.target
            {
                check_names(target, known, depth + 1)?;
            }
            call.args.iter().try_for_each(|arg| check_names(arg, known, depth + 1))?;
        }
        Expr::Comprehension(loop_) => {
            check_names(&loop_.iter_range, known, depth + 1)?;
            check_names(&loop_.accu_init, known, depth + 1)?;
            // The range and the first result are evaluated outside the loop and do not have its variables.
            let outside = known.len();
            known.extend([loop_.iter_var.as_str(), loop_.accu_var.as_str()]);
            known.extend(loop_.iter_var2.as_deref());
            let inside = [&loop_.loop_cond, &loop_.loop_step, &loop_.result];
            inside.into_iter().try_for_each(|part| check_names(part, known, depth + 1))?;
            known.truncate(outside);
        }
        Expr::Struct(made) => {
            return wrong(expression, format!("undeclared reference to '{}' (in container '')", made.type_name));
        }
        _ => children(expression).into_iter().try_for_each(|child| check_names(child, known, depth + 1))?,
    }
    Ok(())
}

/// Returns the parts of a node that are no loop and no call.
fn children(expression: &IdedExpr) -> Vec<&IdedExpr> {
    match &expression.expr {
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Comprehension(c) => vec![&c.iter_range, &c.accu_init, &c.loop_cond, &c.loop_step, &c.result],
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(|entry| parts(&entry.expr)).collect(),
        Expr::Struct(made) => made.entries.iter().flat_map(|entry| parts(&entry.expr)).collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
    }
}

fn parts(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

/// Returns the cost of an expression: literal lists count with their length, all others as one item.
fn estimate(expression: &IdedExpr) -> u64 {
    match &expression.expr {
        Expr::Comprehension(loop_) => {
            let body = total(&[&loop_.loop_cond, &loop_.loop_step]);
            let around = total(&[&loop_.iter_range, &loop_.accu_init, &loop_.result]);
            items(&loop_.iter_range).saturating_mul(body).saturating_add(around)
        }
        Expr::Call(call) if names::REGEX.contains(&call.func_name.as_str()) => {
            total(&children(expression)).saturating_add(REGEX_COST)
        }
        _ => total(&children(expression)).saturating_add(1),
    }
}

fn total(parts: &[&IdedExpr]) -> u64 {
    parts.iter().map(|part| estimate(part)).fold(0, u64::saturating_add)
}

/// Returns the length of a list as far as the text shows it.
fn items(range: &IdedExpr) -> u64 {
    match &range.expr {
        Expr::List(list) => list.elements.len() as u64,
        Expr::Map(map) => map.entries.len() as u64,
        // The result of `map` is as long as its list.
        Expr::Comprehension(inner) if matches!(&inner.loop_step.expr, Expr::Call(c) if c.func_name == operators::ADD) => {
            items(&inner.iter_range)
        }
        _ => 1,
    }
}

/// Returns the names in calls of `scores`; `None` if one is not a literal.
pub(super) fn score_names(expression: &IdedExpr) -> Option<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for child in children(expression) {
        names.extend(score_names(child)?);
    }
    if let Expr::Call(call) = &expression.expr
        && call.func_name == names::SCORES_FUNCTION
    {
        match call.args.first().map(|arg| &arg.expr) {
            Some(Expr::Literal(LiteralValue::String(name))) => drop(names.insert(name.inner().to_owned())),
            _ => return None,
        }
    }
    Some(names)
}

/// Inserts the meter wherever a loop starts and something is built.
pub(super) fn metered(expression: IdedExpr) -> IdedExpr {
    rewrite(expression, None)
}

/// `result` is the variable with the result of the surrounding loop: adding to it is part of the loop.
fn rewrite(expression: IdedExpr, result: Option<&str>) -> IdedExpr {
    let id = expression.id;
    let expr = match expression.expr {
        Expr::Call(call) => return rewrite_call(id, call, result),
        Expr::Comprehension(loop_) => Expr::Comprehension(Box::new(rewrite_loop(*loop_))),
        Expr::List(mut list) => {
            list.elements = list.elements.into_iter().map(|element| rewrite(element, None)).collect();
            Expr::List(list)
        }
        Expr::Map(mut map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    entry.key = rewrite(std::mem::take(&mut entry.key), None);
                    entry.value = rewrite(std::mem::take(&mut entry.value), None);
                }
            }
            Expr::Map(map)
        }
        Expr::Select(mut select) => {
            select.operand = Box::new(rewrite(*select.operand, None));
            Expr::Select(select)
        }
        other => other,
    };
    IdedExpr { id, expr }
}

fn rewrite_call(id: u64, mut call: CallExpr, result: Option<&str>) -> IdedExpr {
    // Metering such an addition would charge the whole result of the loop again at every item.
    let gathers = result.is_some_and(|result| match call.func_name.as_str() {
        operators::ADD => matches!(call.args.first(), Some(IdedExpr { expr: Expr::Ident(name), .. }) if name == result),
        // `filter`, and `map` with a condition, add inside one branch of a conditional.
        operators::CONDITIONAL => true,
        _ => false,
    });
    let inner = if gathers { result } else { None };
    if call.func_name == "matches" {
        names::MATCHES.clone_into(&mut call.func_name);
    }
    let short = names::PRODUCT.contains(&call.func_name.as_str());
    let linear = names::LINEAR.contains(&call.func_name.as_str());
    let guard = |part: IdedExpr| match (short, linear) {
        (true, _) => wrapped(SHORT, part, 0),
        (_, true) => wrapped(METER, part, 0),
        _ => part,
    };
    // The target of a qualified name is part of the name: `strings` of `strings.quote` is no value.
    if names::qualified(&call).is_none() {
        call.target = call.target.map(|target| Box::new(guard(rewrite(*target, None))));
    }
    call.args = call.args.into_iter().map(|arg| guard(rewrite(arg, inner))).collect();
    let puts_together = (call.func_name == operators::ADD && !gathers) || short;
    let expression = IdedExpr { id, expr: Expr::Call(call) };
    if puts_together { wrapped(METER, expression, 0) } else { expression }
}

fn rewrite_loop(loop_: ComprehensionExpr) -> ComprehensionExpr {
    let body = estimate(&loop_.loop_cond).saturating_add(estimate(&loop_.loop_step));
    let step = rewrite(loop_.loop_step, Some(&loop_.accu_var));
    ComprehensionExpr {
        iter_range: wrapped(METER, rewrite(loop_.iter_range, None), body),
        accu_init: rewrite(loop_.accu_init, None),
        loop_step: step,
        result: rewrite(loop_.result, None),
        ..loop_
    }
}

fn wrapped(function: &str, expression: IdedExpr, body: u64) -> IdedExpr {
    let id = expression.id;
    let body = Expr::Literal(LiteralValue::Int(CelInt::from(i64::try_from(body).unwrap_or(i64::MAX))));
    let args = vec![expression, IdedExpr { id, expr: body }];
    IdedExpr { id, expr: Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args }) }
}
