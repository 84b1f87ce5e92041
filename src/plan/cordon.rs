//! Cordons in manifests: the taint that keeps placements away from a cluster, put into the text of a file and taken out of it
//! again, so that comments and the form of everything else stay.

use serde_json::{Value, json};

use model::yaml::outline::{Content, TextPart, outline};
use model::yaml::parse_documents;

/// The taint of a cordoned cluster: key, value and effect.
///
/// Source: KubeFleet, its tools to drain and uncordon a cluster.
pub const CORDON: [(&str, &str); 3] = [("key", "cordon-key"), ("value", "cordon-value"), ("effect", "NoSchedule")];

/// Why a file cannot be edited, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "its MemberCluster is written in a form that gitfleet does not edit; {what} by hand: {{key: cordon-key, value: cordon-value, effect: NoSchedule}}"
)]
pub struct ByHand {
    what: &'static str,
}

/// Returns a file's text with the cluster cordoned; `None` where it is already: a taint of the key is there.
///
/// # Errors
/// The text has no place for it that is sure to change nothing else.
pub fn cordoned(text: &str, cluster: &str) -> Result<Option<String>, ByHand> {
    let by_hand = ByHand { what: "add the taint" };
    let (edited, wanted) = with_member(text, cluster, |taints| {
        let is_cordoned = taints.iter().any(|taint| taint["key"] == CORDON[0].1);
        if !is_cordoned {
            taints.push(taint());
        }
    })
    .ok_or(by_hand)?;
    if !edited {
        return Ok(None);
    }
    let member = outline(text).into_iter().find_map(|root| member(root, cluster)).ok_or(by_hand)?;
    let made = add(text, &member).ok_or(by_hand)?;
    if values(&made) == Some(wanted) { Ok(Some(made)) } else { Err(by_hand) }
}

/// Returns a file's text with the cordon of the cluster taken away; `None` where there is none.
///
/// # Errors
/// The taint cannot be cut out of the text without changing something else.
pub fn uncordoned(text: &str, cluster: &str) -> Result<Option<String>, ByHand> {
    let by_hand = ByHand { what: "take the taint away" };
    let (edited, wanted) =
        with_member(text, cluster, |taints| taints.retain(|found| *found != taint())).ok_or(by_hand)?;
    if !edited {
        return Ok(None);
    }
    let mut made = text.to_owned();
    // One at a time: places move with each cut.
    while let Some(member) = outline(&made).into_iter().find_map(|root| member(root, cluster)) {
        let Some(next) = cut(&made, &member) else { break };
        made = next;
    }
    if values(&made) == Some(wanted) { Ok(Some(made)) } else { Err(by_hand) }
}

fn taint() -> Value {
    CORDON.iter().map(|(field, text)| ((*field).to_owned(), json!(text))).collect()
}

/// Returns what the documents of a text say; `None` where one cannot be read.
fn values(text: &str) -> Option<Vec<Value>> {
    parse_documents(text).into_iter().map(|document| document.ok().map(|document| document.value)).collect()
}

/// Changes the taints of the cluster's MemberCluster in what a text says. Returns whether that changed anything, and what it then
/// says; `None` where the text has no such MemberCluster.
fn with_member(text: &str, cluster: &str, change: impl FnOnce(&mut Vec<Value>)) -> Option<(bool, Vec<Value>)> {
    let mut documents = values(text)?;
    let member = documents.iter_mut().find_map(|document| {
        if is_member(document, cluster) {
            return Some(document);
        }
        document.get_mut("items")?.as_array_mut()?.iter_mut().find(|item| is_member(item, cluster))
    })?;
    if member["spec"].is_null() {
        member["spec"] = json!({});
    }
    let had_list = !member["spec"]["taints"].is_null();
    let mut taints = member["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let before = taints.clone();
    change(&mut taints);
    let edited = taints != before;
    if edited || had_list {
        member["spec"]["taints"] = taints.into();
    }
    Some((edited, documents))
}

fn is_member(object: &Value, cluster: &str) -> bool {
    object["kind"] == "MemberCluster" && object["metadata"]["name"] == cluster
}

/// Finds the MemberCluster in a document, which may be a List.
fn member(root: TextPart, cluster: &str) -> Option<TextPart> {
    if is_member_part(&root, cluster) {
        return Some(root);
    }
    let Content::List { items, .. } = &root.get("items")?.content else { return None };
    items.iter().find(|item| is_member_part(item, cluster)).cloned()
}

fn is_member_part(part: &TextPart, cluster: &str) -> bool {
    let name = part.get("metadata").and_then(|metadata| metadata.get("name"));
    let is_named = name.is_some_and(|name| name.is_text(cluster));
    is_named && part.get("kind").is_some_and(|kind| kind.is_text("MemberCluster"))
}

/// Puts the taint where it belongs; `None` where the text leaves no such place.
fn add(text: &str, member: &TextPart) -> Option<String> {
    let Some(spec) = member.get("spec") else {
        return add_entry(text, member, "spec", |indent| format!("spec:\n{indent}  taints:\n{}", item(indent, 4)));
    };
    let Some(taints) = spec.get("taints") else {
        // Braces around nothing, or nothing at all, are replaced by a block.
        let is_empty = match &spec.content {
            Content::Mapping { entries, .. } => entries.is_empty(),
            Content::Scalar(_) => true,
            _ => false,
        };
        if !is_empty || !matches!(member.content, Content::Mapping { is_flow: false, .. }) {
            return add_entry(text, spec, "taints", |indent| format!("taints:\n{}", item(indent, 2)));
        }
        let indent = " ".repeat(member.column);
        let block = format!("\n{indent}  taints:\n{}", item(&indent, 4));
        let key_end = member.entry("spec")?.key_end;
        let colon = key_end + text[key_end..].find(':')? + 1;
        return Some(spliced(text, colon..spec.range.end.max(colon), &lines(text, &block)));
    };
    match &taints.content {
        Content::List { items, is_flow: true } => add_flow(text, taints, items.is_empty(), &flow_item()),
        Content::List { is_flow: false, .. } => Some(add_lines(text, taints, &item(&" ".repeat(taints.column), 0))),
        _ => None,
    }
}

/// Returns the taint as an item of a block list.
fn item(indent: &str, deeper: usize) -> String {
    let pad = format!("{indent}{}", " ".repeat(deeper));
    let fields = CORDON.iter().map(|(field, text)| format!("{field}: {text}"));
    format!("{pad}- {}", fields.collect::<Vec<_>>().join(&format!("\n{pad}  ")))
}

fn flow_item() -> String {
    let fields = CORDON.iter().map(|(field, text)| format!("\"{field}\": \"{text}\""));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}

/// Adds an entry to a mapping: `block` makes its lines for an indent.
fn add_entry(text: &str, mapping: &TextPart, key: &str, block: impl FnOnce(&str) -> String) -> Option<String> {
    match &mapping.content {
        Content::Mapping { entries, is_flow: true } => {
            let inner = format!("[{}]", flow_item());
            let value = if key == "spec" { format!("{{\"taints\": {inner}}}") } else { inner };
            add_flow(text, mapping, entries.is_empty(), &format!("\"{key}\": {value}"))
        }
        Content::Mapping { is_flow: false, .. } => {
            let indent = " ".repeat(mapping.column);
            Some(add_lines(text, mapping, &format!("{indent}{}", block(&indent))))
        }
        _ => None,
    }
}

/// Adds lines below a part in block style.
fn add_lines(text: &str, part: &TextPart, added: &str) -> String {
    let end = text[..part.range.end].trim_end().len();
    // What stands behind it on its line is a comment, which stays there.
    let line_end = text[end..].find('\n').map_or(text.len(), |length| end + length);
    let line_end = line_end - usize::from(text[..line_end].ends_with('\r'));
    spliced(text, line_end..line_end, &lines(text, &format!("\n{added}")))
}

/// Adds an item or entry before the bracket or brace that ends a part in flow style.
fn add_flow(text: &str, part: &TextPart, is_empty: bool, added: &str) -> Option<String> {
    let close =
        part.range.end.checked_sub(1).filter(|close| matches!(text.as_bytes().get(*close), Some(b']' | b'}')))?;
    let last = text[..close].trim_end();
    // A comma may stand behind the last item already.
    let separator = if is_empty || last.ends_with(',') { "" } else { ", " };
    Some(spliced(text, last.len()..last.len(), &format!("{separator}{added}")))
}

/// Cuts one cordon out of a MemberCluster; `None` where none is left.
fn cut(text: &str, member: &TextPart) -> Option<String> {
    let spec = member.get("spec")?;
    let entry = spec.entry("taints")?;
    let Content::List { items, is_flow } = &entry.value.content else { return None };
    let position = items.iter().position(is_cordon)?;
    let found = &items[position];
    // A list that loses its only item would be null without brackets.
    if items.len() == 1 {
        let colon = entry.key_end + text[entry.key_end..].find(':')? + 1;
        let end = text[..entry.value.range.end].trim_end().len();
        return Some(spliced(text, colon..end, " []"));
    }
    // One of the commas beside it goes too.
    if *is_flow {
        let range = match items.get(position + 1) {
            Some(next) => found.range.start..next.range.start,
            None => items[position - 1].range.end..found.range.end,
        };
        return Some(spliced(text, range, ""));
    }
    let start = text[..found.range.start].rfind('\n').map_or(0, |newline| newline + 1);
    let end = text[..found.range.end].trim_end().len();
    let end = text[end..].find('\n').map_or(text.len(), |length| end + length + 1);
    Some(spliced(text, start..end, ""))
}

/// Tells whether an item is the taint with its fields and no others.
fn is_cordon(item: &TextPart) -> bool {
    let Content::Mapping { entries, .. } = &item.content else { return false };
    entries.len() == CORDON.len()
        && CORDON.iter().all(|(field, text)| item.get(field).is_some_and(|found| found.is_text(text)))
}

/// Returns lines with the line ends of a text.
fn lines(text: &str, added: &str) -> String {
    if text.contains("\r\n") { added.replace('\n', "\r\n") } else { added.to_owned() }
}

fn spliced(text: &str, range: std::ops::Range<usize>, with: &str) -> String {
    format!("{}{with}{}", &text[..range.start], &text[range.end..])
}

#[cfg(test)]
mod tests;
