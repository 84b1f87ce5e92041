//! Expressions over whole objects, in the Common Expression Language.
//!
//! An expression has one variable, the object. `TEXT.parseJSON()` parses JSON, and of a cluster `managedCluster.scores(NAME)` lists
//! the scores of an AddOnPlacementScore. The language's times and string functions and Kubernetes' quantity, semver, regex, list,
//! URL, IP, CIDR and format functions are available. An expression that fails on an object does not match it.

mod cost;
mod environment;
mod formats;
mod functions;
mod json;
mod names;
mod network;
mod patterns;
#[cfg(test)]
mod tests;
mod urls;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use cel::common::types::CelBool;
use cel::common::value::Val;
use cel::parser::Expression;
use cel::{Context, Env, Value};
use serde_json::Value as Json;

use self::cost::CostMeter;
pub use self::cost::EXPRESSION_COST_MAX;
use self::patterns::Patterns;
use crate::cel::names::SCORES;
use model::api::ocm::AddOnScoreStatus;

/// Characters of an expression.
pub const EXPRESSION_LENGTH_MAX: usize = 5000;
/// The budget of all expressions of one list on one object, in steps.
pub const EXPRESSIONS_COST_MAX: u64 = 10_000_000;

/// Bytes of stack for compiling and evaluating expressions: enough for the deepest allowed one, and more than a thread may
/// have. They are reserved, and take memory only as far as they are used.
const STACK_SIZE: usize = 64 << 20;

/// Compiled expressions over one variable; all must be true.
#[derive(Clone, Default)]
pub struct Expressions {
    variable: &'static str,
    programs: Vec<Arc<Expression>>,
    /// The AddOnPlacementScores that are read; `None` where a name is computed.
    score_names: Option<BTreeSet<String>>,
    environment: Option<Arc<Env>>,
}

/// The object that expressions are evaluated on.
pub struct Subject<'o> {
    object: &'o Json,
    scores: Option<Box<dyn Val>>,
}

impl<'o> Subject<'o> {
    /// An object without scores.
    pub fn new(object: &'o Json) -> Self {
        Self { object, scores: None }
    }

    /// Adds the scores of a cluster, by the name of their AddOnPlacementScore.
    #[must_use]
    pub fn with_scores<'s>(self, scores: impl Iterator<Item = (&'s str, &'s AddOnScoreStatus)>) -> Self {
        Self { scores: Some(functions::scores(scores)), ..self }
    }
}

impl fmt::Debug for Expressions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expressions").field("programs", &self.programs).finish_non_exhaustive()
    }
}

impl Expressions {
    /// Compiles expressions over a variable.
    ///
    /// # Errors
    /// The first expression that cannot be compiled, or whose cost cannot fit.
    pub fn compile(variable: &'static str, expressions: &[String]) -> Result<Self, String> {
        if expressions.is_empty() {
            // Not `None`: that would mean that any score may be read.
            return Ok(Self { variable, score_names: Some(BTreeSet::new()), ..Self::default() });
        }
        stacker::grow(STACK_SIZE, || Self::compile_deep(variable, expressions))
    }

    fn compile_deep(variable: &'static str, expressions: &[String]) -> Result<Self, String> {
        let environment = environment::environment();
        let compiled =
            expressions.iter().map(|text| compile(&environment, variable, text)).collect::<Result<Vec<_>, _>>()?;
        let score_names = compiled.iter().try_fold(BTreeSet::new(), |mut names, expression| {
            names.extend(cost::score_names(expression)?);
            Some(names)
        });
        let programs = compiled.into_iter().map(|expression| Arc::new(cost::metered(expression))).collect();
        Ok(Self { variable, programs, score_names, environment: Some(Arc::new(environment)) })
    }

    /// Tells whether there are none: then everything matches.
    pub fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }

    /// Returns the AddOnPlacementScores that are read; `None` where a name is computed.
    pub fn score_names(&self) -> Option<&BTreeSet<String>> {
        self.score_names.as_ref()
    }

    /// Tells whether any score may be read.
    pub fn reads_scores(&self) -> bool {
        self.score_names.as_ref().is_none_or(|names| !names.is_empty())
    }

    /// Returns the candidates on whose subject every expression is true.
    ///
    /// Source: Open Cluster Management: an error, a value that is not boolean, or too high a cost is no match.
    pub fn matching<'o, T>(&self, candidates: impl Iterator<Item = T>, subject: impl Fn(&T) -> Subject<'o>) -> Vec<T> {
        let Some(environment) = &self.environment else { return candidates.collect() };
        let meter = Arc::new(CostMeter::default());
        // One context for all candidates, so that patterns are compiled once. Each candidate gets a scope in it.
        let mut context = Context::with_env(environment.clone());
        environment::add_to(&mut context, &meter);
        Patterns::default().add_to(&mut context);
        stacker::grow(STACK_SIZE, || {
            candidates.filter(|candidate| self.holds(subject(candidate), &context, &meter)).collect()
        })
    }

    fn holds<'o>(&self, subject: Subject<'o>, around: &Context<'_, 'o>, meter: &CostMeter) -> bool {
        let mut context = around.new_inner_scope();
        context.add_variable_as_val(self.variable, json::lazy(subject.object));
        if let Some(scores) = subject.scores {
            context.add_variable_as_val(SCORES, scores);
        }
        let mut spent = 0;
        self.programs.iter().all(|program| {
            meter.start(EXPRESSION_COST_MAX.min(EXPRESSIONS_COST_MAX.saturating_sub(spent)));
            let value = Value::resolve_val(program, &context);
            spent += meter.spent();
            value.is_ok_and(|value| value.downcast_ref::<CelBool>().is_some_and(|holds| *holds.inner()))
        })
    }
}

/// An expression over any Kubernetes object, which is named `object`.
#[derive(Clone, Debug)]
pub struct ObjectExpression {
    text: String,
    compiled: Expressions,
}

impl PartialEq for ObjectExpression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl ObjectExpression {
    /// Compiles an expression.
    ///
    /// # Errors
    /// It cannot be compiled, its cost cannot fit, or it asks for a cluster's scores.
    pub fn compile(text: &str) -> Result<Self, String> {
        let compiled = Expressions::compile("object", &[text.to_owned()])?;
        if compiled.reads_scores() {
            return Err("asks for scores, which only clusters have".to_owned());
        }
        Ok(Self { text: text.to_owned(), compiled })
    }

    /// Returns the expression as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Tells whether the expression is true on an object. An error, such as a field that is not there, is not true.
    pub fn holds(&self, object: &Json) -> bool {
        !self.compiled.matching(std::iter::once(()), |()| Subject::new(object)).is_empty()
    }
}

/// Returns the error in an expression over a variable.
pub fn complaint(variable: &str, expression: &str) -> Option<String> {
    stacker::grow(STACK_SIZE, || compile(&environment::environment(), variable, expression).err())
}

fn compile(environment: &Env, variable: &str, text: &str) -> Result<Expression, String> {
    let length = text.chars().count();
    if length > EXPRESSION_LENGTH_MAX {
        return Err(failed(1, 1, &format!("has {length} characters, the limit is {EXPRESSION_LENGTH_MAX}")));
    }
    let program = environment.compile(text).map_err(|errors| format!("compilation failed: {errors}"))?;
    match cost::check(program.expression(), variable) {
        Ok(()) => Ok(program.expression().clone()),
        Err(complaint) => {
            let offset = program.source_info().offset_for(complaint.node).map_or(0, |(start, _)| start as usize);
            let before: String = text.chars().take(offset).collect();
            let line = before.matches('\n').count() + 1;
            let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
            Err(failed(line, column, &complaint.message))
        }
    }
}

/// Returns the message for an error at a place in the text.
fn failed(line: usize, column: usize, message: &str) -> String {
    format!("compilation failed: ERROR: <input>:{line}:{column}: {message}")
}
