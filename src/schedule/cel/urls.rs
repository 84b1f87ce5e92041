//! URLs in expressions.
//!
//! Source: Kubernetes, CEL URL library: an absolute URI or an absolute path, read as Go's `net/url` does. No crate that is built in
//! does: they add a path or take a port away, and know no spaces in paths.

use std::collections::BTreeMap;

use cel::common::types::{CelString, STRING_TYPE, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError};
use serde_json::json;

use super::functions::{Args, CelResult, native, native_value, text, yes};
use super::json as values;

/// The parts of a URL, each empty where it is absent.
#[derive(Clone, Debug, Default, PartialEq)]
struct Url {
    scheme: String,
    user: String,
    /// With brackets and port.
    host: String,
    /// What a scheme without a slash is followed by, such as an address after `mailto:`.
    opaque: String,
    /// As it is written in a request.
    path: String,
    query: String,
    fragment: String,
}
native_value!(Url, URL_TYPE, "kubernetes.URL", |a, b| a == b);

/// Tells whether a text is an absolute URI or an absolute path.
pub(super) fn is_url(text: &str) -> bool {
    parsed(text, true).is_some()
}

/// Returns the parts of a text that is a URL.
fn url_of(text: &str) -> Option<Url> {
    // As a request, which has no fragment, it is checked; what it consists of is read with the fragment.
    parsed(text, true)?;
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    unescaped(fragment)?;
    Some(Url { fragment: fragment.to_owned(), ..parsed(rest, false)? })
}

fn parsed(text: &str, in_request: bool) -> Option<Url> {
    if text.bytes().any(|b| b.is_ascii_control()) || (in_request && text.is_empty()) {
        return None;
    }
    if text == "*" {
        return Some(Url { path: text.to_owned(), ..Url::default() });
    }
    let (scheme, rest) = scheme(text)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let scheme = scheme.to_ascii_lowercase();
    let query = query.to_owned();
    // After a scheme without a slash nothing is split further; a request cannot be relative.
    if !rest.starts_with('/') && (in_request || !scheme.is_empty()) {
        let opaque = rest.to_owned();
        return (!scheme.is_empty()).then_some(Url { scheme, opaque, query, ..Url::default() });
    }
    let has_authority = !scheme.is_empty() || (!in_request && !rest.starts_with("///"));
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) if has_authority => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        _ => ("", rest),
    };
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if !user.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b)) {
        return None;
    }
    unescaped(user)?;
    Some(Url { scheme, user: user.to_owned(), host: host_of(host)?, path: escaped(path)?, query, ..Url::default() })
}

/// Returns the scheme, which may be missing, and what follows it.
fn scheme(text: &str) -> Option<(&str, &str)> {
    match text.bytes().position(|b| !b.is_ascii_alphanumeric() && !b"+-.".contains(&b)) {
        Some(0) if text.starts_with(':') => None,
        Some(end) if text.as_bytes()[end] == b':' && text.as_bytes()[0].is_ascii_alphabetic() => {
            Some((&text[..end], &text[end + 1..]))
        }
        _ => Some(("", text)),
    }
}

fn host_of(written: &str) -> Option<String> {
    let (name, port) = match written.strip_prefix('[') {
        Some(inner) => written.split_at(inner.rfind(']')? + 2),
        None => written.split_at(written.rfind(':').unwrap_or(written.len())),
    };
    if !is_port(port) {
        return None;
    }
    // A zone of an address may escape more than a name.
    let (name, zone) = if name.starts_with('[') { name.split_once("%25").unwrap_or((name, "")) } else { (name, "") };
    if !name.bytes().chain(zone.bytes()).all(is_plain_in_host) {
        return None;
    }
    // In a name, escapes stand for what is not ASCII, or for a percent sign.
    for (at, _) in name.match_indices('%') {
        let is_ascii = matches!(name.as_bytes().get(at + 1), Some(b'0'..=b'7'));
        if is_ascii && !name[at..].starts_with("%25") {
            return None;
        }
    }
    let zone = if zone.is_empty() { String::new() } else { format!("%{}", unescaped(zone)?) };
    Some(format!("{}{zone}{port}", unescaped(name)?))
}

fn is_plain_in_host(b: u8) -> bool {
    !b.is_ascii() || b.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"%".contains(&b)
}

fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns a text with its escapes resolved; `None` where one is wrong.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            // The standard library reads a sign, too.
            if digits.starts_with('+') {
                return None;
            }
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns a path as it is written in a request: as it is where it can stand there, else escaped again.
fn escaped(path: &str) -> Option<String> {
    let meaning = unescaped(path)?;
    if path == "*" || path.bytes().all(|b| is_plain_in_path(b) || b"!'()*[]%".contains(&b)) {
        return Some(path.to_owned());
    }
    let escaped =
        meaning.bytes().map(|b| if is_plain_in_path(b) { char::from(b).to_string() } else { format!("%{b:02X}") });
    Some(escaped.collect())
}

fn is_plain_in_path(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&b)
}

/// Returns the values of each key; a pair that cannot be read is left out.
fn query(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        // A plus sign stands for a space here.
        if let Some(key) = unescaped(&key.replace('+', " "))
            && let Some(value) = unescaped(&value.replace('+', " "))
        {
            values.entry(key).or_default().push(value);
        }
    }
    values
}

pub(super) fn add_to(env: &mut Env) -> Result<(), DeclarationError> {
    fn url<'a>(args: &'a Args<'_, '_>) -> Result<&'a Url, ExecutionError> {
        native(args, 0)
    }
    env.add_overload("url", "string_to_url", vec![STRING_TYPE], |args| {
        let url = url_of(text(&args, 0)?).ok_or_else(|| ExecutionError::function_error("url", "no URL"))?;
        Ok(CowVal::owned(url))
    })?;
    env.add_overload("isURL", "is_url_string", vec![STRING_TYPE], |args| yes(is_url(text(&args, 0)?)))?;
    env.add_member_overload("getScheme", "url_get_scheme", URL_TYPE, vec![], |args| told(&url(&args)?.scheme))?;
    env.add_member_overload("getHost", "url_get_host", URL_TYPE, vec![], |args| told(&url(&args)?.host))?;
    env.add_member_overload("getHostname", "url_get_hostname", URL_TYPE, vec![], |args| {
        told(name_and_port(url(&args)?).0)
    })?;
    env.add_member_overload("getPort", "url_get_port", URL_TYPE, vec![], |args| told(name_and_port(url(&args)?).1))?;
    env.add_member_overload("getEscapedPath", "url_get_escaped_path", URL_TYPE, vec![], |args| {
        told(&url(&args)?.path)
    })?;
    env.add_member_overload("getQuery", "url_get_query", URL_TYPE, vec![], |args| {
        Ok(CowVal::Owned(values::whole(&json!(query(&url(&args)?.query)))))
    })
}

/// Returns the host without brackets, and the port.
fn name_and_port(url: &Url) -> (&str, &str) {
    let colon = url.host.rfind(':').filter(|at| is_port(&url.host[*at..]));
    let (name, port) = colon.map_or((&*url.host, ""), |at| (&url.host[..at], &url.host[at + 1..]));
    (name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name), port)
}

#[allow(clippy::unnecessary_wraps, reason = "functions end with it")]
fn told<'b, 'v>(text: &str) -> CelResult<'b, 'v> {
    Ok(CowVal::owned(CelString::from(text.to_owned())))
}
