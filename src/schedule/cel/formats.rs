//! Named formats in expressions: `format.dns1123Label().validate(TEXT)` is what is wrong with a text, or nothing.
//!
//! Source: Kubernetes, CEL format library. The words for what is wrong are ours.

use std::sync::LazyLock;

use cel::common::types::{CelOptional, STRING_TYPE, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{Context, DeclarationError, Env};
use regex::Regex;
use serde_json::json;

use super::functions::{Native, native, native_value, text};
use super::{json as values, urls};
use model::api::check::{is_dns_label, is_dns_subdomain, is_label_value, is_qualified_name};

/// The function that finds a format by its name.
pub(super) const NAMED: &str = "format.named";

/// A format: the function that returns it, and whether a text is of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    function: &'static str,
    is_of: fn(&str) -> bool,
}
native_value!(Format, FORMAT_TYPE, "kubernetes.NamedFormat", |a, b| a.function == b.function);

impl Format {
    const fn new(function: &'static str, is_of: fn(&str) -> bool) -> Self {
        Self { function, is_of }
    }

    fn name(self) -> &'static str {
        self.function.trim_start_matches("format.")
    }
}

const FORMATS: [Format; 13] = [
    Format::new("format.dns1123Label", is_dns_label),
    Format::new("format.dns1123Subdomain", is_dns_subdomain),
    Format::new("format.dns1035Label", is_dns_1035_label),
    Format::new("format.qualifiedName", is_qualified_name),
    Format::new("format.dns1123LabelPrefix", |text| is_dns_label(&completed(text))),
    Format::new("format.dns1123SubdomainPrefix", |text| is_dns_subdomain(&completed(text))),
    Format::new("format.dns1035LabelPrefix", |text| is_dns_1035_label(&completed(text))),
    Format::new("format.labelValue", is_label_value),
    Format::new("format.uri", urls::is_url),
    Format::new("format.uuid", |text| UUID.is_match(text)),
    Format::new("format.byte", |text| BASE64.is_match(text)),
    Format::new("format.date", is_date),
    Format::new("format.datetime", is_datetime),
];

static UUID: LazyLock<Regex> = LazyLock::new(|| pattern("(?i)^[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}$"));
static BASE64: LazyLock<Regex> =
    LazyLock::new(|| pattern("^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"));
static DATE: LazyLock<Regex> = LazyLock::new(|| pattern("^[0-9]{4}-[0-9]{2}-[0-9]{2}$"));
static TIME: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})$"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("it is a pattern")
}

/// Returns the format that a function such as `format.uri` returns.
pub(super) fn of(function: &str) -> Option<Format> {
    FORMATS.into_iter().find(|format| format.function == function)
}

fn is_dns_1035_label(text: &str) -> bool {
    is_dns_label(text) && text.starts_with(|first: char| first.is_ascii_lowercase())
}

/// Returns a prefix as the start of a name: an `a` stands for its last dash and the character before that, as Kubernetes has it.
fn completed(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(rest) if rest.ends_with(|last: char| last.is_ascii()) => format!("{}a", &rest[..rest.len() - 1]),
        _ => prefix.to_owned(),
    }
}

fn is_date(text: &str) -> bool {
    // Alone, the library takes shorter forms and signs, too.
    DATE.is_match(text) && jiff::civil::Date::strptime("%Y-%m-%d", text).is_ok()
}

fn is_datetime(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    lower.split_once('t').is_some_and(|(date, time)| is_date(date) && TIME.is_match(time))
}

/// Adds the functions that return formats.
pub(super) fn add_to(context: &mut Context<'_, '_>) {
    for format in FORMATS {
        let returned: Native = Box::new(move |_| Ok(CowVal::owned(format)));
        context.add_function(format.function, returned).expect("no overload has these names");
    }
    let named: Native = Box::new(|call| {
        let args: Vec<_> = call.args.drain(..).collect();
        let name = text(&args, 0)?;
        let found = FORMATS.into_iter().find(|format| format.name() == name);
        Ok(CowVal::owned(found.map_or_else(CelOptional::none, |format| CelOptional::of(Box::new(format)))))
    });
    context.add_function(NAMED, named).expect("no overload has this name");
}

pub(super) fn add_validate(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_member_overload("validate", "format-validate", FORMAT_TYPE, vec![STRING_TYPE], |args| {
        let format = native::<Format>(&args, 0)?;
        if (format.is_of)(text(&args, 1)?) {
            return Ok(CowVal::owned(CelOptional::none()));
        }
        let wrong = values::whole(&json!([format!("is no {}", format.name())]));
        Ok(CowVal::owned(CelOptional::of(wrong)))
    })
}
