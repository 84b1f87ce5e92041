//! Expressions over whole clusters, in the Common Expression Language.
//!
//! The variable is `managedCluster`; `managedCluster.scores(NAME)` lists the cluster's scores of an AddOnPlacementScore, and
//! `TEXT.parseJSON()` parses JSON. The language's string functions and Kubernetes' quantity, semver, regex and list functions
//! are available. An expression that fails on a cluster does not match it.

mod cost;
mod functions;
mod json;
mod patterns;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use cel::common::types::CelBool;
use cel::parser::Expression;
use cel::{Context, Env, Value};
use fixedbitset::FixedBitSet;

use self::cost::CostMeter;
use self::patterns::Patterns;
use super::Hub;

/// Characters of an expression.
pub const EXPRESSION_LENGTH_MAX: usize = 5000;
/// The budget of one expression on one cluster, in steps: nodes evaluated, and characters handled, ten for one.
pub const EXPRESSION_COST_MAX: u64 = 1_000_000;
/// The budget of one predicate's expressions on one cluster, in steps.
pub const PREDICATE_COST_MAX: u64 = 10_000_000;

/// Bytes of stack for compiling and evaluating expressions: enough for the deepest allowed one, and more than a thread may
/// have. They are reserved, and take memory only as far as they are used.
const STACK_SIZE: usize = 64 << 20;

/// The variable that holds the cluster.
const CLUSTER: &str = "managedCluster";
/// The variable that holds its scores; no expression can name it.
const SCORES: &str = "@scores";

/// The compiled expressions of a predicate; all must be true.
#[derive(Clone, Default)]
pub(super) struct Expressions {
    programs: Vec<Arc<Expression>>,
    /// The AddOnPlacementScores that are read; `None` where a name is computed.
    score_names: Option<BTreeSet<String>>,
    environment: Option<Arc<Env>>,
}

impl fmt::Debug for Expressions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expressions").field("programs", &self.programs).finish_non_exhaustive()
    }
}

impl Expressions {
    /// Compiles the expressions of a predicate.
    ///
    /// # Errors
    /// The first expression that cannot be compiled, or whose cost cannot fit.
    pub(super) fn compile(expressions: &[String]) -> Result<Self, String> {
        if expressions.is_empty() {
            // Not `None`: that would mean that any score may be read.
            return Ok(Self { score_names: Some(BTreeSet::new()), ..Self::default() });
        }
        stacker::grow(STACK_SIZE, || Self::compile_deep(expressions))
    }

    fn compile_deep(expressions: &[String]) -> Result<Self, String> {
        let environment = functions::environment();
        let compiled = expressions.iter().map(|text| compile(&environment, text)).collect::<Result<Vec<_>, _>>()?;
        let score_names = compiled.iter().try_fold(BTreeSet::new(), |mut names, expression| {
            names.extend(cost::score_names(expression)?);
            Some(names)
        });
        let programs = compiled.into_iter().map(|expression| Arc::new(cost::metered(expression))).collect();
        Ok(Self { programs, score_names, environment: Some(Arc::new(environment)) })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }

    pub(super) fn score_names(&self) -> Option<&BTreeSet<String>> {
        self.score_names.as_ref()
    }

    /// Returns the clusters among those given on which every expression is true.
    ///
    /// Source: Open Cluster Management: an error, a value that is not boolean, or too high a cost is no match.
    pub(super) fn matching(&self, hub: &Hub, clusters: &FixedBitSet) -> Vec<usize> {
        let Some(environment) = &self.environment else { return clusters.ones().collect() };
        let meter = Arc::new(CostMeter::default());
        // One context for all clusters, so that patterns are compiled once. Each cluster gets a scope in it.
        let mut context = Context::with_env(environment.clone());
        functions::add_to(&mut context, &meter);
        Patterns::default().add_to(&mut context);
        let holds = |slot: &usize| self.holds(hub, *slot, &context, &meter);
        stacker::grow(STACK_SIZE, || clusters.ones().filter(holds).collect())
    }

    fn holds<'h>(&self, hub: &'h Hub, slot: usize, around: &Context<'_, 'h>, meter: &CostMeter) -> bool {
        let mut context = around.new_inner_scope();
        context.add_variable_as_val(CLUSTER, json::lazy(&hub.member(super::taint::slot_number(slot)).object));
        // Scores are copied to become values, so only if one may be read.
        if self.score_names.as_ref().is_none_or(|names| !names.is_empty()) {
            context.add_variable_as_val(SCORES, functions::scores(hub.score_objects(&hub.names()[slot])));
        }
        let mut spent = 0;
        self.programs.iter().all(|program| {
            meter.start(EXPRESSION_COST_MAX.min(PREDICATE_COST_MAX.saturating_sub(spent)));
            let value = Value::resolve_val(program, &context);
            spent += meter.spent();
            value.is_ok_and(|value| value.downcast_ref::<CelBool>().is_some_and(|holds| *holds.inner()))
        })
    }
}

/// Returns the error in an expression.
pub(super) fn complaint(expression: &str) -> Option<String> {
    stacker::grow(STACK_SIZE, || compile(&functions::environment(), expression).err())
}

fn compile(environment: &Env, text: &str) -> Result<Expression, String> {
    let failed = |line: isize, column: isize, message: &str| {
        format!("compilation failed: ERROR: <input>:{line}:{column}: {message}")
    };
    let length = text.chars().count();
    if length > EXPRESSION_LENGTH_MAX {
        return Err(failed(1, 1, &format!("has {length} characters, the limit is {EXPRESSION_LENGTH_MAX}")));
    }
    let program = environment.compile(text).map_err(|errors| format!("compilation failed: {errors}"))?;
    match cost::check(program.expression()) {
        Ok(()) => Ok(program.expression().clone()),
        Err(complaint) => {
            let offset = program.source_info().offset_for(complaint.node).map_or(0, |(start, _)| start as usize);
            let before: String = text.chars().take(offset).collect();
            let line = before.matches('\n').count() + 1;
            let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
            Err(format!("compilation failed: ERROR: <input>:{line}:{column}: {}", complaint.message))
        }
    }
}
