//! Texts without what differs from run to run.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;
use testservers::program;

use super::fleet::GoldenFleet;

/// What stands for a time, and what for how long ago it was.
const TIME: &str = "TIME";
const AGE: &str = "AGE";
/// How long ago something was, such as `1m5s` or `1.1s`.
const AGES: &str = r"\b(\d+(\.\d+)?[smhdy])+\b";

/// Replaces what differs from run to run by a name.
pub struct Plain {
    always: Vec<(Regex, &'static str)>,
    ages: Vec<(Regex, &'static str)>,
    in_pages: Vec<(Regex, &'static str)>,
}

fn rules(rules: &[(&str, &'static str)]) -> Vec<(Regex, &'static str)> {
    rules.iter().map(|(pattern, name)| (Regex::new(pattern).expect("a pattern"), *name)).collect()
}

fn replaced(rules: &[(Regex, &'static str)], text: &str) -> String {
    rules.iter().fold(text.to_owned(), |text, (pattern, name)| pattern.replace_all(&text, *name).into_owned())
}

impl Plain {
    /// Returns the rules of a fleet, which is at a place and answers at an address of its own.
    pub fn of(fleet: &GoldenFleet) -> Self {
        let place = fleet.scratch.path("");
        let place = regex::escape(place.to_string_lossy().trim_end_matches('/'));
        let address = regex::escape(&fleet.daemon.address);
        let always = rules(&[
            (&place, "SCRATCH"),
            (&address, "ADDRESS"),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", TIME),
            (r"\d\d:\d\d UTC on \d{4}-\d\d-\d\d", TIME),
            (r#""boot":"[^"]*","up":\{[^}]*\}"#, r#""boot":"BOOT""#),
            (r#"^\{"version":\d+"#, r#"{"version":NUMBER"#),
        ]);
        let ages = rules(&[(AGES, AGE), (r"(\S) {2,}", "$1   "), (r"(?m) +$", "")]);
        let in_pages = rules(&[
            // Its boxes are as long as what they stand for took; tests beside the code hold what it shows of given times.
            (r#"(?s)<svg class="picture timeline".*?</svg>"#, "TIMELINE"),
            (AGES, AGE),
            (r"\b[0-9a-f]{11}-[0-9a-f]+\b", "VERSION"),
        ]);
        Self { always, ages, in_pages }
    }

    /// Replaces times and places.
    pub fn exact(&self, text: &str) -> String {
        replaced(&self.always, text)
    }

    /// Replaces what is between two times, too. How wide a column is depends on it.
    pub fn aged(&self, text: &str) -> String {
        replaced(&self.ages, &self.exact(text))
    }

    /// Breaks the lines of a page at its tags.
    pub fn page(&self, text: &str) -> String {
        replaced(&self.in_pages, &self.exact(text)).replace("><", ">\n<")
    }

    /// Breaks the lines of JSON between items.
    pub fn items(&self, text: &str) -> String {
        self.exact(text).replace("},{", "},\n{").replace("],[", "],\n[")
    }

    /// Replaces the numbers of events in a stream.
    pub fn stream(&self, text: &str) -> String {
        replaced(&self.in_pages, &self.exact(text))
    }

    /// Orders what is logged by placement: threads write at the same time what concerns none. Modules are no part of what is promised.
    pub fn log(&self, text: &str) -> String {
        let module = Regex::new(r#","target":"gitfleet[a-z_:]*""#).expect("a pattern");
        let mut of_placements: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in text.lines() {
            let event: Value = serde_json::from_str(line).expect("a line is JSON");
            let spans = event["spans"].as_array().map(Vec::as_slice).unwrap_or_default();
            let named = spans.iter().chain([&event]).find_map(|span| span["placement"].as_str());
            let lines = of_placements.entry(named.unwrap_or_default().to_owned()).or_default();
            lines.push(module.replace_all(&self.exact(line), "").into_owned());
        }
        of_placements.entry(String::new()).or_default().sort();
        of_placements.into_values().flatten().map(|line| line + "\n").collect()
    }
}

/// Leaves only names, labels and types of metrics.
pub fn metrics(text: &str) -> String {
    let value = Regex::new("=\"[^\"]*\"").expect("a pattern");
    let mut known = Vec::new();
    for line in text.lines() {
        let name = line.rsplit_once(' ').map_or(line, |(name, _)| name);
        let line = if line.starts_with('#') { line.to_owned() } else { value.replace_all(name, "").into_owned() };
        if !known.contains(&line) {
            known.push(line);
        }
    }
    known.join("\n") + "\n"
}

/// Returns a text about what happened long ago, in which only what is counted up to now differs.
pub fn without_ages(text: &str) -> String {
    // Whose clock is behind sees what is to come.
    let rules = rules(&[(AGES, AGE), ("<invalid>", AGE), (r"(\S) {2,}", "$1   "), (r"(?m) +$", "")]);
    replaced(&rules, text)
}

/// Returns JSON about what happened long ago, without the moment at which somebody asks.
pub fn without_now(text: &str) -> String {
    let rules = rules(&[(r#"("lastReceivedHeartbeat": ")[^"]*"#, "${1}TIME")]);
    replaced(&rules, text)
}

/// Returns what a demo says, without times and places; of the lines about a placement only the last one, at the end: how many of them
/// are seen depends on when one looks.
pub fn demo(text: &str) -> String {
    let always = rules(&[
        (&regex::escape(&program().display().to_string()), "gitfleet"),
        (r"/\S*gitfleet-demo-\w+", "FOLDER"),
        (r"127\.0\.0\.1:\d+", "ADDRESS"),
        (r"\b[0-9a-f]{7}\b", "COMMIT"),
        (r"\b[0-9a-f]{12}\b", "DIGEST"),
    ]);
    let progress = Regex::new(r"^   (\S+) +\d+ of \d+ clusters? ").expect("a pattern");
    let (mut lines, mut last) = (String::new(), BTreeMap::new());
    for line in replaced(&always, text).lines() {
        if let Some(found) = progress.captures(line) {
            last.insert(found[1].to_owned(), line.to_owned());
        } else {
            lines.push_str(&(line.to_owned() + "\n"));
        }
    }
    last.into_values().fold(lines, |lines, line| lines + &line + "\n")
}
