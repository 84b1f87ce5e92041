//! The grammar of values by cluster: text with `{{ … }}`, in which a field of the cluster stands.
//!
//! ```text
//! text     = { other characters | "{{" action "}}" }
//! action   = operand { "|" function }
//! operand  = ".Cluster.Name" | ".Cluster.Labels." NAME | ".Cluster.Properties." NAME
//!          | "index" ( ".Cluster.Labels" | ".Cluster.Properties" ) STRING | STRING
//! function = "default" STRING | "int" | "bool"
//! NAME     = letters, digits and underscores
//! STRING   = "…" with \" and \\ | `…`
//! ```
//!
//! Each expression means the same as in a Go template with Helm's functions. The grammar is small, so that gitfleet can list the fields that a
//! file uses.

use model::variants::ClusterField;

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TextPart {
    /// As it stands there.
    Literal(String),
    /// What an action makes.
    Action(ValueAction),
}

/// What stands between the braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ValueAction {
    /// What it is about.
    pub operand: Operand,
    /// What stands for a field that the cluster lacks.
    pub default: Option<String>,
    /// What the text is turned into.
    pub kind: ValueKind,
}

/// What an action is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    /// A field of the cluster.
    Field(ClusterField),
    /// A text.
    Text(String),
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    /// Text, whatever it looks like.
    Text,
    /// A whole number.
    Int,
    /// `true` or `false`.
    Bool,
}

/// Reads a text.
///
/// # Errors
/// What is wrong with the first action that is no action.
pub(super) fn parts(text: &str) -> Result<Vec<TextPart>, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once("{{") {
        if !before.is_empty() {
            parts.push(TextPart::Literal(before.to_owned()));
        }
        let (action, after) = ActionReader { rest: inside }.action().map_err(|why| {
            let shown = inside.find("}}").map_or(inside, |end| &inside[..end]);
            let shown: String = shown.trim().chars().take(SHOWN_CHARACTERS).collect();
            format!("{{{{ {shown} }}}}: {why}")
        })?;
        parts.push(TextPart::Action(action));
        rest = after;
    }
    if !rest.is_empty() || parts.is_empty() {
        parts.push(TextPart::Literal(rest.to_owned()));
    }
    let has_typed = parts.iter().any(|part| matches!(part, TextPart::Action(action) if action.kind != ValueKind::Text));
    if parts.len() > 1 && has_typed {
        return Err("`int` and `bool` make a value, so nothing else may stand in the text".to_owned());
    }
    Ok(parts)
}

/// Characters of an action that an error repeats.
const SHOWN_CHARACTERS: usize = 60;

const WANTED: &str = "a field of the cluster: .Cluster.Name, .Cluster.Labels.KEY, .Cluster.Properties.NAME, \
                      or with another key index .Cluster.Labels \"KEY\"";

struct ActionReader<'a> {
    rest: &'a str,
}

impl<'a> ActionReader<'a> {
    /// Reads up to the closing braces, and returns what follows them.
    fn action(mut self) -> Result<(ValueAction, &'a str), String> {
        if self.rest.starts_with('-') {
            return Err("the dash for trimming is not known here".to_owned());
        }
        let mut action = ValueAction { operand: self.operand()?, default: None, kind: ValueKind::Text };
        loop {
            self.skip();
            if let Some(after) = self.rest.strip_prefix("}}") {
                return Ok((action, after));
            }
            let Some(after) = self.rest.strip_prefix('|') else {
                return Err(if self.rest.is_empty() {
                    "it does not end with }}".to_owned()
                } else {
                    "after the field only `|` and a function may follow".to_owned()
                });
            };
            self.rest = after;
            self.skip();
            match self.word() {
                "default" if action.kind == ValueKind::Text && action.default.is_none() => {
                    self.skip();
                    action.default = Some(self.string().ok_or("`default` needs a text in quotes")??);
                }
                "int" if action.kind == ValueKind::Text => action.kind = ValueKind::Int,
                "bool" if action.kind == ValueKind::Text => action.kind = ValueKind::Bool,
                "default" => return Err("`default` stands once, and before `int` and `bool`".to_owned()),
                "int" | "bool" => return Err("one of `int` and `bool` is enough".to_owned()),
                _ => return Err("the functions are `default \"TEXT\"`, `int` and `bool`".to_owned()),
            }
        }
    }

    fn operand(&mut self) -> Result<Operand, String> {
        self.skip();
        if let Some(text) = self.string() {
            return Ok(Operand::Text(text?));
        }
        let word = self.word();
        let field: fn(String) -> ClusterField = match word {
            ".Cluster.Name" => return Ok(Operand::Field(ClusterField::Name)),
            "index" => {
                self.skip();
                let field = match self.word() {
                    ".Cluster.Labels" => ClusterField::Label,
                    ".Cluster.Properties" => ClusterField::Property,
                    _ => return Err(format!("it names no field of the cluster; write {WANTED}")),
                };
                self.skip();
                let key = self.string().ok_or("`index` needs a key in quotes")??;
                return Ok(Operand::Field(field(key)));
            }
            _ if word.starts_with(".Cluster.Labels.") => ClusterField::Label,
            _ if word.starts_with(".Cluster.Properties.") => ClusterField::Property,
            _ => return Err(format!("it names no field of the cluster; write {WANTED}")),
        };
        // Nothing stands before the first dot, so the key is the fourth part, with its dots.
        let key = word.splitn(4, '.').nth(3).unwrap_or_default();
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            let map = if word.starts_with(".Cluster.Labels.") { ".Cluster.Labels" } else { ".Cluster.Properties" };
            return Err(format!("write a key with other characters as index {map} {key:?}"));
        }
        Ok(Operand::Field(field(key.to_owned())))
    }

    fn skip(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    /// Takes what is no space, bar, quote or brace.
    fn word(&mut self) -> &'a str {
        let end = self.rest.find(|c: char| c.is_whitespace() || matches!(c, '|' | '"' | '`' | '}' | '{'));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }

    /// Takes a text in quotes; `None` where there is none.
    fn string(&mut self) -> Option<Result<String, String>> {
        const OPEN: &str = "a text in quotes does not end";
        if let Some(raw) = self.rest.strip_prefix('`') {
            return Some(raw.split_once('`').ok_or_else(|| OPEN.to_owned()).map(|(text, rest)| {
                self.rest = rest;
                text.to_owned()
            }));
        }
        let inside = self.rest.strip_prefix('"')?;
        let mut text = String::new();
        let mut characters = inside.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.rest = &inside[at + 1..];
                    return Some(Ok(text));
                }
                '\\' => match characters.next() {
                    Some((_, escaped @ ('"' | '\\'))) => text.push(escaped),
                    _ => return Some(Err("only \\\" and \\\\ may stand in a text in quotes".to_owned())),
                },
                other => text.push(other),
            }
        }
        Some(Err(OPEN.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A short form of what was read.
    fn read(text: &str) -> String {
        let one = |part: &TextPart| match part {
            TextPart::Literal(text) => format!("{text:?}"),
            TextPart::Action(ValueAction { operand, default, kind }) => {
                let operand = match operand {
                    Operand::Field(field) => field.to_string(),
                    Operand::Text(text) => format!("text {text:?}"),
                };
                let default = default.as_ref().map(|text| format!(" or {text:?}")).unwrap_or_default();
                format!("<{operand}{default} {kind:?}>")
            }
        };
        parts(text).map_or_else(|why| format!("error: {why}"), |parts| parts.iter().map(one).collect())
    }

    #[test]
    fn the_grammar() {
        let rows = [
            ("", r#""""#),
            ("plain } text }}", r#""plain } text }}""#),
            ("{{ .Cluster.Name }}", "<name Text>"),
            ("{{.Cluster.Name}}", "<name Text>"),
            ("a-{{ .Cluster.Labels.region }}-b", r#""a-"<label region Text>"-b""#),
            ("{{ .Cluster.Labels.a }}{{ .Cluster.Properties.b_1 }}", "<label a Text><property b_1 Text>"),
            (
                r#"{{ index .Cluster.Labels "topology.kubernetes.io/zone" }}"#,
                "<label topology.kubernetes.io/zone Text>",
            ),
            ("{{ index .Cluster.Properties `a b` }}", "<property a b Text>"),
            (r#"{{ .Cluster.Labels.region | default "e\"\\u" }}"#, r#"<label region or "e\"\\u" Text>"#),
            (r#"{{ .Cluster.Labels.n | default "3" | int }}"#, r#"<label n or "3" Int>"#),
            ("{{ .Cluster.Labels.n|bool }}", "<label n Bool>"),
            (r#"{{ "{{" }} .Values.x }}"#, r#"<text "{{" Text>" .Values.x }}""#),
            (r#"{{ index .Cluster.Labels "}}" }}"#, "<label }} Text>"),
        ];
        for (text, wanted) in rows {
            assert_eq!(read(text), wanted, "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        let rows = [
            ("{{", "it names no field of the cluster"),
            ("{{ }}", "it names no field of the cluster"),
            ("{{ .Cluster.Name", "it does not end with }}"),
            ("{{- .Cluster.Name }}", "the dash for trimming"),
            ("{{ .Cluster.Name -}}", "only `|` and a function"),
            ("{{ .Cluster }}", "it names no field"),
            ("{{ .Cluster.Labels }}", "it names no field"),
            ("{{ .Cluster.Labels. }}", "index .Cluster.Labels"),
            ("{{ .Cluster.Labels.a-b }}", "write a key with other characters as index .Cluster.Labels \"a-b\""),
            ("{{ .Cluster.Labels.a.b }}", "index .Cluster.Labels \"a.b\""),
            ("{{ .Cluster.Taints.a }}", "it names no field"),
            ("{{ .Values.x }}", "it names no field"),
            ("{{ index .Cluster.Labels a }}", "needs a key in quotes"),
            ("{{ index .Cluster.Labels \"a }}", "does not end"),
            ("{{ index .Cluster \"Labels\" \"a\" }}", "it names no field"),
            ("{{ .Cluster.Name | default 3 }}", "needs a text in quotes"),
            ("{{ .Cluster.Name | default \"\\n\" }}", "only \\\" and \\\\"),
            ("{{ .Cluster.Name | upper }}", "the functions are"),
            ("{{ .Cluster.Name | }}", "the functions are"),
            ("{{ .Cluster.Name | int | default \"1\" }}", "before `int`"),
            ("{{ .Cluster.Name | int | bool }}", "is enough"),
            ("a{{ .Cluster.Name | int }}", "nothing else may stand in the text"),
            ("{{ if .Cluster.Name }}x{{ end }}", "it names no field"),
            ("{{ .Cluster.Name .Cluster.Name }}", "only `|` and a function"),
            ("{{ (.Cluster.Name) }}", "it names no field"),
            ("{{/* note */}}", "it names no field"),
            ("{{ env \"HOME\" }}", "it names no field"),
        ];
        for (text, wanted) in rows {
            let found = read(text);
            assert!(found.starts_with("error: ") && found.contains(wanted), "{text}: {found}");
        }
    }
}
