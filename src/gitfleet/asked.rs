//! What `get` and `describe` are asked for: kinds and names, labels.

use std::ffi::OsStr;

use anyhow::{anyhow, bail};
use clap::ValueEnum as _;
use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::Error;
use kube::core::{Expression, Selector};

use super::kinds::{GetKind, Listing, kinds_of, refused_value};

/// A kind, and the names that are wanted of it; all objects where there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AskedKind {
    /// The kind.
    pub kind: GetKind,
    /// The names, `NAME` or `NAMESPACE/NAME`.
    pub names: Vec<String>,
}

/// The first word of `get`: kinds, or one kind and a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FirstWord {
    kinds: Vec<GetKind>,
    name: Option<String>,
}

impl FirstWord {
    /// Returns what reads it from a command line.
    pub(crate) fn parser() -> impl TypedValueParser<Value = Self> {
        KindWords
    }

    fn read(word: &str) -> Result<Self, String> {
        let (kinds, name) = match word.split_once('/') {
            Some((kind, name)) => (vec![GetKind::of(kind)?], Some(name.to_owned())),
            None => (kinds_of(word)?, None),
        };
        if kinds.is_empty() || name.as_ref().is_some_and(String::is_empty) {
            return Err(format!("{word} names nothing; write KIND, KIND,KIND or KIND/NAME"));
        }
        Ok(Self { kinds, name })
    }

    /// Returns what is asked for by this word and the words after it: names, or after `KIND/NAME` more of those.
    ///
    /// # Errors
    /// A later word is no `KIND/NAME` where one must be.
    pub(crate) fn asked(&self, others: &[String]) -> anyhow::Result<Vec<AskedKind>> {
        let Some(name) = &self.name else {
            return Ok(self.kinds.iter().map(|kind| AskedKind { kind: *kind, names: others.to_vec() }).collect());
        };
        let first = self.kinds.iter().map(|kind| AskedKind { kind: *kind, names: vec![name.clone()] });
        let mut asked: Vec<AskedKind> = first.collect();
        for word in others {
            let Some((kind, name)) = word.split_once('/').filter(|(_, name)| !name.is_empty()) else {
                bail!("{word} stands after a KIND/NAME, so it must be one as well");
            };
            asked
                .push(AskedKind { kind: GetKind::of(kind).map_err(|why| anyhow!(why))?, names: vec![name.to_owned()] });
        }
        Ok(asked)
    }
}

#[derive(Clone)]
struct KindWords;

impl TypedValueParser for KindWords {
    type Value = FirstWord;

    fn parse_ref(&self, cmd: &clap::Command, _: Option<&clap::Arg>, value: &OsStr) -> Result<FirstWord, Error> {
        FirstWord::read(&value.to_string_lossy()).map_err(|why| refused_value(cmd, &why))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Listing::value_variants().iter().filter_map(clap::ValueEnum::to_possible_value)))
    }
}

/// Reads a label selector as kubectl has it: `a=b,c!=d,e,!f,g in (h,i),j notin (k)`.
///
/// # Errors
/// A part of it is none; for people.
pub(crate) fn selector(text: &str) -> Result<Selector, String> {
    requirements(text).into_iter().map(requirement).collect()
}

/// Splits at commas that stand in no brackets.
fn requirements(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let parts = text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).collect()
}

fn requirement(part: &str) -> Result<Expression, String> {
    let expression = if let Some(key) = part.strip_prefix('!') {
        Expression::DoesNotExist(key.trim().to_owned())
    } else if let Some((key, value)) = part.split_once("!=") {
        // Tried before `=`, which `!=` has too.
        Expression::NotEqual(key.trim().to_owned(), value.trim().to_owned())
    } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        Expression::Equal(key.trim().to_owned(), value.trim().to_owned())
    } else if let Some((key, values)) = part.split_once(" notin ") {
        Expression::NotIn(key.trim().to_owned(), set(values)?)
    } else if let Some((key, values)) = part.split_once(" in ") {
        Expression::In(key.trim().to_owned(), set(values)?)
    } else {
        Expression::Exists(part.to_owned())
    };
    let (Expression::DoesNotExist(key)
    | Expression::NotEqual(key, _)
    | Expression::Equal(key, _)
    | Expression::NotIn(key, _)
    | Expression::In(key, _)
    | Expression::Exists(key)) = &expression;
    if key.is_empty() || key.contains(|c: char| c.is_whitespace() || "()=!".contains(c)) {
        return Err(format!("{part:?} is no part of a selector; write KEY=VALUE, KEY!=VALUE, KEY, !KEY, KEY in (A,B)"));
    }
    Ok(expression)
}

fn set<T: FromIterator<String>>(values: &str) -> Result<T, String> {
    let inner = values.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let inner = inner.ok_or_else(|| format!("{values:?} is no list of values; write (A,B)"))?;
    Ok(inner.split(',').map(|value| value.trim().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(first: &str, others: &[&str]) -> Result<Vec<(Listing, Vec<String>)>, String> {
        let others: Vec<String> = others.iter().map(|word| (*word).to_owned()).collect();
        let asked = FirstWord::read(first)?.asked(&others).map_err(|why| why.to_string())?;
        Ok(asked.into_iter().map(|asked| (asked.kind.listing, asked.names)).collect())
    }

    #[test]
    fn kinds_and_names() {
        let of = |listing, names: &[&str]| (listing, names.iter().map(|name| (*name).to_owned()).collect());
        let rows = [
            ("placements", &[][..], vec![of(Listing::Placements, &[])]),
            ("placements,runs", &[], vec![of(Listing::Placements, &[]), of(Listing::Runs, &[])]),
            ("placement", &["shop/web", "api"], vec![of(Listing::Placements, &["shop/web", "api"])]),
            ("run/web-0", &[], vec![of(Listing::Runs, &["web-0"])]),
            (
                "crp/web",
                &["run/shop/web-0"],
                vec![of(Listing::Placements, &["web"]), of(Listing::Runs, &["shop/web-0"])],
            ),
        ];
        for (first, others, expected) in rows {
            assert_eq!(words(first, others), Ok(expected), "{first} {others:?}");
        }
        for (first, others, expected) in [
            ("unicorns", &[][..], "there is no kind unicorns"),
            ("run/", &[], "names nothing"),
            ("run/web-0", &["web-1"], "must be one as well"),
        ] {
            let found = words(first, others).expect_err(first);
            assert!(found.contains(expected), "{first}: {found}");
        }
    }

    #[test]
    fn selectors_are_read_as_kubectl_reads_them() {
        let rows = [
            ("a=b", "a=b"),
            ("a==b, c!=d", "a=b,c!=d"),
            ("a,!b", "a,!b"),
            ("region in (eu, us),tier notin (test)", "region in (eu,us),tier notin (test)"),
            ("", ""),
        ];
        for (text, expected) in rows {
            assert_eq!(selector(text).map(|selector| selector.to_string()), Ok(expected.to_owned()), "{text}");
        }
        for text in ["=a", "a b", "a in b"] {
            assert!(selector(text).is_err(), "{text}");
        }
    }
}
