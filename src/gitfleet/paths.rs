//! `-o jsonpath=TEMPLATE` and `-o custom-columns=HEADER:PATH,...`, as kubectl has them.

use jsonpath_rust::JsonPath as _;
use jsonpath_rust::parser::parse_json_path;
use serde_json::Value;

use views::table::Table;

/// How deep `{range}` may stand in `{range}`.
const RANGES_MAX: usize = 8;
/// What a column shows where an object has nothing.
const NONE: &str = "<none>";

/// A template of texts and paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// What a query finds.
    Found(String),
    /// The same for each that a query finds.
    Each(String, Vec<Piece>),
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// A bracket or an `{end}` is missing, or a path is none; for people.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut rest = text;
        pieces(&mut rest, 0).map(Self)
    }

    /// Fills it from a value. What a path does not find is nothing.
    pub(crate) fn fill(&self, value: &Value) -> String {
        let mut text = String::new();
        fill(&self.0, value, &mut text);
        text
    }
}

fn fill(pieces: &[Piece], value: &Value, text: &mut String) {
    for piece in pieces {
        match piece {
            Piece::Text(piece) => text.push_str(piece),
            Piece::Found(query) => text.push_str(&found(query, value).collect::<Vec<_>>().join(" ")),
            Piece::Each(query, inside) => {
                value.query(query).unwrap_or_default().into_iter().for_each(|each| fill(inside, each, text));
            }
        }
    }
}

/// Returns what a query finds, as text.
fn found<'a>(query: &str, value: &'a Value) -> impl Iterator<Item = String> + use<'a> {
    // The query was read before, so it is one.
    value.query(query).unwrap_or_default().into_iter().map(|found| match found {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

fn pieces(rest: &mut &str, depth: usize) -> Result<Vec<Piece>, String> {
    let mut all = Vec::new();
    loop {
        let (text, after) = rest.split_once('{').map_or((*rest, None), |(text, after)| (text, Some(after)));
        if !text.is_empty() {
            all.push(Piece::Text(text.to_owned()));
        }
        let Some(after) = after else {
            *rest = "";
            return if depth == 0 { Ok(all) } else { Err("an {end} is missing".to_owned()) };
        };
        let close = closing(after, '}').ok_or_else(|| format!("the }} of {{{after} is missing"))?;
        let inner = after[..close].trim();
        // Before an `{end}` returns: the caller continues after it.
        *rest = &after[close + 1..];
        if inner == "end" {
            return if depth > 0 { Ok(all) } else { Err("an {end} stands without a {range}".to_owned()) };
        }
        all.push(match inner.strip_prefix("range ") {
            Some(_) if depth == RANGES_MAX => return Err(format!("more than {RANGES_MAX} {{range}} in one another")),
            Some(path) => Piece::Each(query_of(path)?, pieces(rest, depth + 1)?),
            None if inner.starts_with(['"', '\'']) => Piece::Text(literal(inner)?),
            None => Piece::Found(query_of(inner)?),
        });
    }
}

/// Finds the end of something that quotes and brackets may be in.
fn closing(text: &str, end: char) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match quote {
            _ if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c == end => return Some(at),
            _ => {}
        }
    }
    None
}

/// Returns a text in quotes without them, with `\n`, `\t` and the like as what they mean.
fn literal(quoted: &str) -> Result<String, String> {
    let json = match quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        Some(inner) => format!("\"{}\"", inner.replace("\\'", "'").replace('"', "\\\"")),
        None => quoted.to_owned(),
    };
    serde_json::from_str(&json).map_err(|error| format!("{quoted} is no text: {error}"))
}

/// Returns kubectl's path as a query of RFC 9535: `.metadata.labels.a\.b/c` is `$['metadata']['labels']['a.b/c']`.
fn query_of(path: &str) -> Result<String, String> {
    let path = path.trim();
    let mut rest = path.strip_prefix(['$', '@']).unwrap_or(path);
    let mut query = "$".to_owned();
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let close = closing(inside, ']').ok_or_else(|| format!("the ] of {path} is missing"))?;
            query.extend(["[", &inside[..close], "]"]);
            rest = &inside[close + 1..];
            continue;
        }
        if let Some(after) = rest.strip_prefix("..") {
            query.push_str("..");
            rest = after;
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
        }
        let (name, after) = name(rest);
        match name.as_str() {
            "" => {}
            "*" => query.push_str("[*]"),
            name => query.extend(["['", &name.replace('\\', "\\\\").replace('\'', "\\'"), "']"]),
        }
        rest = after;
    }
    parse_json_path(&query).map_err(|_| format!("{path} is no path; write something like .metadata.name"))?;
    Ok(query)
}

/// Splits a field's name off; a backslash takes the meaning from a dot or a bracket.
fn name(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => {
                name.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '.' | '[' => return (name, &text[at..]),
            _ => name.push(c),
        }
    }
    (name, "")
}

fn cell(object: &Value, query: &str) -> String {
    let texts: Vec<String> = found(query, object).collect();
    if texts.is_empty() { NONE.to_owned() } else { texts.join(",") }
}

/// Columns with a header and a path each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathColumns(Vec<(String, String)>);

impl PathColumns {
    /// Reads `HEADER:PATH,HEADER:PATH`.
    ///
    /// # Errors
    /// A part is none of these; for people.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut columns = Vec::new();
        for part in text.split(',') {
            let Some((header, path)) = part.split_once(':') else {
                return Err(format!("{part:?} is no column; write HEADER:PATH, such as NAME:.metadata.name"));
            };
            let path = path.trim().trim_start_matches('{').trim_end_matches('}');
            columns.push((header.to_owned(), query_of(path)?));
        }
        Ok(Self(columns))
    }

    /// Returns the table of objects.
    pub(crate) fn table(&self, objects: &[Value]) -> Table {
        Table {
            headers: self.0.iter().map(|(header, _)| header.clone()).collect(),
            rows: objects.iter().map(|object| self.0.iter().map(|(_, query)| cell(object, query)).collect()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list() -> Value {
        json!({"kind": "List", "items": [
            {"metadata": {"name": "web", "labels": {"a.b/c": "x"}}, "n": 3, "list": [{"type": "Ready", "status": "True"}]},
            {"metadata": {"name": "api"}, "n": 4, "list": []},
        ]})
    }

    #[test]
    fn templates_are_filled_as_kubectl_fills_them() {
        let rows = [
            ("{.items[*].metadata.name}", "web api"),
            ("{$.items[0].n} of {.kind}", "3 of List"),
            (r#"{range .items[*]}{.metadata.name}{"\t"}{.n}{"\n"}{end}"#, "web\t3\napi\t4\n"),
            (r"{.items[0].metadata.labels.a\.b/c}", "x"),
            (r#"{.items[0].list[?(@.type=="Ready")].status}"#, "True"),
            ("{.items[?(@.n>3)].metadata.name}", "api"),
            ("{..name}", "web api"),
            ("{.items[0].list[0]}", r#"{"status":"True","type":"Ready"}"#),
            ("{.nothing}", ""),
            ("{range .items[*]}{range .list[*]}{'<'}{.type}{'>'}{end}{end}", "<Ready>"),
        ];
        for (template, expected) in rows {
            let read = Template::read(template).expect(template);
            assert_eq!(read.fill(&list()), expected, "{template}");
        }
    }

    #[test]
    fn what_is_no_template_is_refused() {
        let deep = "{range .a}".repeat(RANGES_MAX + 1);
        for template in ["{.a", "{end}", "{range .a}x", "{.a[}", "{\"a}", "{.a[?(]}", deep.as_str()] {
            assert!(Template::read(template).is_err(), "{template}");
        }
    }

    #[test]
    fn columns_are_paths() {
        let columns = PathColumns::read("NAME:.metadata.name,N:{.n},STATUS:.list[*].status").expect("columns");
        let table = columns.table(list()["items"].as_array().expect("items"));
        assert_eq!(table.headers, ["NAME", "N", "STATUS"]);
        assert_eq!(table.rows, [["web", "3", "True"], ["api", "4", "<none>"]]);
        assert!(PathColumns::read("NAME").is_err());
    }
}
