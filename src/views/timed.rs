//! Lines with times in them: who shows them writes how long ago or how far ahead those are, so a line stays right while nothing changes.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::table::age;
use super::tree::{Line, Span, Style};

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Word {
    /// As it is.
    Text(String),
    /// How long ago this was.
    Since {
        /// When.
        since: Timestamp,
    },
    /// How far ahead this is.
    Until {
        /// When.
        until: Timestamp,
    },
}

/// A text with times in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Words(Vec<Word>);

impl Words {
    /// Adds how long ago something was.
    #[must_use]
    pub fn since(mut self, since: Timestamp) -> Self {
        self.0.push(Word::Since { since });
        self
    }

    /// Adds how far ahead something is.
    #[must_use]
    pub fn until(mut self, until: Timestamp) -> Self {
        self.0.push(Word::Until { until });
        self
    }

    /// Adds a text.
    #[must_use]
    pub fn then(mut self, text: impl Into<String>) -> Self {
        let text = text.into();
        if !text.is_empty() {
            self.0.push(Word::Text(text));
        }
        self
    }

    /// Returns the text at a moment.
    pub fn at(&self, now: Timestamp) -> String {
        let mut text = String::new();
        for word in &self.0 {
            match word {
                Word::Text(part) => text.push_str(part),
                Word::Since { since } => text.push_str(&age(*since, now)),
                Word::Until { until } => text.push_str(&age(now, *until)),
            }
        }
        text
    }
}

impl<T: Into<String>> From<T> for Words {
    fn from(text: T) -> Self {
        Self::default().then(text)
    }
}

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TimedLine(Vec<(Style, Words)>);

impl TimedLine {
    /// Adds a piece at the end.
    #[must_use]
    pub fn with(mut self, style: Style, words: impl Into<Words>) -> Self {
        self.0.push((style, words.into()));
        self
    }

    /// Returns the style that it begins with.
    pub fn style(&self) -> Option<Style> {
        self.0.first().map(|(style, _)| *style)
    }

    /// Returns the line at a moment.
    pub fn at(&self, now: Timestamp) -> Line {
        Line { spans: self.0.iter().map(|(style, words)| Span { style: *style, text: words.at(now) }).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::at;

    #[test]
    fn times_are_written_when_they_are_shown() {
        let words = Words::from("available for ").since(at(0)).then(", ").until(at(600)).then(" more");
        let line = TimedLine::default().with(Style::Ok, "✓ ").with(Style::Ok, words);
        let json = serde_json::to_string(&line).expect("JSON");
        assert_eq!(serde_json::from_str::<TimedLine>(&json).expect("a line"), line, "{json}");
        let text = |now| line.at(now).spans.iter().map(|span| span.text.clone()).collect::<String>();
        assert_eq!(text(at(60)), "✓ available for 60s, 9m more");
        assert_eq!(text(at(300)), "✓ available for 5m, 5m more");
    }
}
