//! The language with all its functions, and those that need the cluster or the meter.

use std::sync::Arc;

use cel::common::types::CelInt;
use cel::common::value::CowVal;
use cel::{Context, Env, ExecutionError};

use super::{formats, functions, network, urls};
use crate::cel::cost::{CostMeter, METER, SHORT, SHORT_MAX, weight};
use crate::cel::functions::Native;
use crate::cel::names::{SCORES, SCORES_FUNCTION};

/// Returns the language with its functions.
pub(super) fn environment() -> Env {
    let mut env = Env::stdlib();
    env.add_extension(cel::extensions::strings).expect("the names are free");
    functions::quantities(&mut env).expect("the names are free");
    functions::versions(&mut env).expect("the names are free");
    functions::texts_and_lists(&mut env).expect("the names are free");
    network::add_to(&mut env).expect("the names are free");
    urls::add_to(&mut env).expect("the names are free");
    formats::add_validate(&mut env).expect("the names are free");
    env
}

/// Adds the functions that need the cluster or the meter.
pub(super) fn add_to(context: &mut Context<'_, '_>, meter: &Arc<CostMeter>) {
    let charged = meter.clone();
    let charge: Native = Box::new(move |call| {
        let body = call.args.pop().and_then(|body| Some(*body.downcast_ref::<CelInt>()?.inner()));
        let value = call.args.pop().ok_or_else(ExecutionError::missing_argument_or_target)?;
        charged.charge(value.as_ref(), u64::try_from(body.unwrap_or(0)).unwrap_or(0))?;
        Ok(value)
    });
    let short: Native = Box::new(|call| {
        let value = call.args.drain(..).next().ok_or_else(ExecutionError::missing_argument_or_target)?;
        if weight(value.as_ref(), SHORT_MAX) > SHORT_MAX {
            return Err(ExecutionError::function_error(SHORT, format!("is longer than {SHORT_MAX} characters")));
        }
        Ok(value)
    });
    let scores: Native = Box::new(|call| {
        let of_cluster = call.ptx.get_variable(SCORES).ok_or_else(|| ExecutionError::undeclared_reference(SCORES))?;
        let name = call.args.pop().ok_or_else(ExecutionError::missing_argument_or_target)?;
        let indexer = of_cluster.as_indexer().ok_or_else(|| ExecutionError::undeclared_reference(SCORES))?;
        Ok(CowVal::Owned(indexer.get(name.as_ref())?.into_owned()))
    });
    for (name, function) in [(METER, charge), (SHORT, short), (SCORES_FUNCTION, scores)] {
        context.add_function(name, function).expect("no overload has these names");
    }
    formats::add_to(context);
}
