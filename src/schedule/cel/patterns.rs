//! Regular expressions: `matches`, `find` and `findAll`, each pattern compiled once for all clusters.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use cel::common::types::{CelBool, CelInt, CelList, CelString};
use cel::common::value::{CowVal, Val};
use cel::{Context, ExecutionError, FunctionContext};
use regex::{Regex, RegexBuilder};

use super::functions::{Native, text};
use crate::cel::names::MATCHES;
/// Bytes of a compiled pattern; one that is larger is an error.
const PATTERN_SIZE_MAX: usize = 1 << 20;
/// Compiled patterns that one evaluation of a predicate keeps. Literal patterns are few; others are built from cluster data.
const PATTERNS_MAX: usize = 64;

fn no_pattern() -> ExecutionError {
    ExecutionError::function_error("matches", "not a pattern, or one that is too large")
}

/// The patterns that an evaluation of a predicate has compiled.
#[derive(Clone, Default)]
pub(super) struct Patterns(Arc<Mutex<BTreeMap<String, Option<Regex>>>>);

impl Patterns {
    fn compiled(&self, pattern: &str) -> Result<Regex, ExecutionError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(regex) = known.get(pattern) {
            return regex.clone().ok_or_else(no_pattern);
        }
        let regex = RegexBuilder::new(pattern).size_limit(PATTERN_SIZE_MAX).build().ok();
        if known.len() < PATTERNS_MAX {
            // Errors are kept as well, or each cluster would compile the pattern again.
            known.insert(pattern.to_owned(), regex.clone());
        }
        regex.ok_or_else(no_pattern)
    }

    /// Registers the functions.
    ///
    /// Source: Kubernetes, CEL regex library, and the language's own `matches`.
    pub(super) fn add_to(&self, context: &mut Context<'_, '_>) {
        let patterns = self.clone();
        let matches: Native = Box::new(move |call| {
            let (args, regex) = patterns.called(call)?;
            Ok(CowVal::owned(CelBool::from(regex.is_match(text(&args, 0)?))))
        });
        let patterns = self.clone();
        let find: Native = Box::new(move |call| {
            let (args, regex) = patterns.called(call)?;
            let found = regex.find(text(&args, 0)?).map_or(String::new(), |found| found.as_str().to_owned());
            Ok(CowVal::owned(CelString::from(found)))
        });
        let patterns = self.clone();
        let find_all: Native = Box::new(move |call| {
            let (args, regex) = patterns.called(call)?;
            let limit = args.get(2).and_then(|arg| arg.downcast_ref::<CelInt>()).map_or(-1, |limit| *limit.inner());
            // A negative limit means all.
            let found = regex.find_iter(text(&args, 0)?).take(usize::try_from(limit).unwrap_or(usize::MAX));
            let found = found.map(|found| -> Box<dyn Val> { Box::new(CelString::from(found.as_str().to_owned())) });
            Ok(CowVal::owned(CelList::from(found.collect::<Vec<_>>())))
        });
        for (name, function) in [(MATCHES, matches), ("find", find), ("findAll", find_all)] {
            context.add_function(name, function).expect("no overload has these names");
        }
    }

    /// Returns the arguments of a call, the target first and the pattern second.
    fn called<'c, 'v>(
        &self,
        call: &mut FunctionContext<'c, 'v>,
    ) -> Result<(Vec<CowVal<'c, 'v>>, Regex), ExecutionError> {
        let args: Vec<_> = call.this.take().into_iter().chain(call.args.drain(..)).collect();
        let regex = self.compiled(text(&args, 1)?)?;
        Ok((args, regex))
    }
}
