//! Lines on a terminal: wrapped or cut between words, so that no name and no digest is broken, and no more of them than fit.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::tree::{Line, Span, Style};

/// Blanks before what continues a line.
const CONTINUED: &str = "  ";
/// What a shell joins the lines of a wrapped command by.
const JOINED: &str = " \\";
/// The end of a line that is cut.
const CUT: &str = " …";
/// How every command begins that is printed to be copied.
const PROGRAM: &str = "gitfleet ";

/// A character with its style.
type Styled = (char, Style);

fn styled(line: &Line) -> Vec<Styled> {
    line.spans.iter().flat_map(|span| span.text.chars().map(|c| (c, span.style))).collect()
}

fn width_of(text: &[Styled]) -> usize {
    text.iter().map(|(c, _)| c.width().unwrap_or(0)).sum()
}

fn line_of(text: &[Styled]) -> Line {
    let mut line = Line::default();
    for (c, style) in text {
        match line.spans.last_mut() {
            Some(span) if span.style == *style => span.text.push(*c),
            _ => line.spans.push(Span { style: *style, text: c.to_string() }),
        }
    }
    line
}

/// Returns the columns that a line takes.
pub fn columns(line: &Line) -> usize {
    line.spans.iter().map(|span| span.text.as_str().width()).sum()
}

/// Returns the text of a line without its styles.
pub fn plain(line: &Line) -> String {
    line.spans.iter().map(|span| span.text.as_str()).collect()
}

/// Returns how many characters at the beginning are indent or guide lines of a tree.
fn indent(text: &[Styled]) -> usize {
    text.iter().take_while(|(c, _)| matches!(c, ' ' | '│' | '├' | '└' | '─')).count()
}

/// Returns the last blank at which at most `width` columns stand before it, or else the first one there is; words stay whole.
fn break_at(text: &[Styled], from: usize, width: usize) -> Option<usize> {
    let blanks = (from..text.len()).filter(|at| text[*at].0 == ' ' && text[at - 1].0 != ' ' && *at > from);
    let mut found = None;
    for at in blanks {
        if found.is_some() && width_of(&text[..at]) > width {
            break;
        }
        found = Some(at);
    }
    found
}

/// Returns a line as lines of at most so many columns, wrapped between words. Guide lines of a tree continue, and a command stays
/// one for a shell that it is pasted into. A word that is wider is left as it is.
pub fn wrapped(line: &Line, width: usize) -> Vec<Line> {
    if columns(line) <= width {
        return vec![line.clone()];
    }
    let mut rest = styled(line);
    let prefix = indent(&rest);
    let is_command = rest[prefix..].iter().map(|(c, _)| c).collect::<String>().starts_with(PROGRAM);
    let guides = rest[..prefix].iter().map(|(c, style)| match c {
        '├' | '│' => ('│', *style),
        _ => (' ', *style),
    });
    let begin: Vec<Styled> = guides.chain(CONTINUED.chars().map(|c| (c, Style::Plain))).collect();
    let room = if is_command { width.saturating_sub(JOINED.len()) } else { width };
    let mut lines = Vec::new();
    let mut from = prefix + 1;
    while width_of(&rest) > width {
        let Some(at) = break_at(&rest, from, room) else { break };
        let mut first: Vec<Styled> = rest[..at].to_vec();
        if is_command {
            first.extend(JOINED.chars().map(|c| (c, Style::Muted)));
        }
        lines.push(line_of(&first));
        let next = rest[at..].iter().skip_while(|(c, _)| *c == ' ').copied();
        let next: Vec<Styled> = begin.iter().copied().chain(next).collect();
        rest = next;
        from = begin.len() + 1;
    }
    lines.push(line_of(&rest));
    lines
}

/// Returns a line of at most so many columns: what does not fit is left out by whole words, and a sign says so.
pub fn cut(line: &Line, width: usize) -> Line {
    if columns(line) <= width {
        return line.clone();
    }
    let text = styled(line);
    let room = width.saturating_sub(CUT.width());
    let mut ends = (indent(&text) + 1..text.len()).rev().filter(|at| text[*at].0 == ' ' && text[at - 1].0 != ' ');
    let at = ends.find(|at| width_of(&text[..*at]) <= room);
    // One word that is wider than everything is cut where the line ends.
    let at = at.unwrap_or_else(|| (0..text.len()).rev().find(|at| width_of(&text[..*at]) <= room).unwrap_or(0));
    line_of(&text[..at]).with(Style::Muted, CUT)
}

/// Returns the first lines that fit a screen, and how many more there are.
pub fn screen(mut lines: Vec<Line>, height: usize) -> Vec<Line> {
    if lines.len() <= height {
        return lines;
    }
    let more = lines.len() - height.saturating_sub(1);
    lines.truncate(height.saturating_sub(1));
    lines.push(Line::default().with(Style::Muted, format!("↓ {more} more lines")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lines: &[Line]) -> Vec<String> {
        lines.iter().map(plain).collect()
    }

    fn line(text: &str) -> Line {
        let (guide, rest) = text.split_at(text.find(|c: char| c.is_ascii_graphic()).unwrap_or(0));
        Line::default().with(Style::Muted, guide).with(Style::Plain, rest)
    }

    #[test]
    fn lines_are_wrapped_between_words() {
        let rows: [(&str, usize, &[&str]); 6] = [
            ("short", 10, &["short"]),
            ("waits for approval, digest e02da7e57359", 30, &["waits for approval, digest", "  e02da7e57359"]),
            ("├─ a stage with  many words", 16, &["├─ a stage with", "│    many words"]),
            ("└─ a stage with many words", 16, &["└─ a stage with", "     many words"]),
            (
                "    gitfleet approve web-0 staging -c gitfleet.yaml",
                36,
                &["    gitfleet approve web-0 staging \\", "      -c gitfleet.yaml"],
            ),
            ("a-name-that-is-wider-than-all rest", 10, &["a-name-that-is-wider-than-all", "  rest"]),
        ];
        for (text, width, expected) in rows {
            assert_eq!(texts(&wrapped(&line(text), width)), expected, "{text} at {width}");
        }
    }

    #[test]
    fn styles_stay_with_their_words() {
        let styled = Line::default().with(Style::Ok, "✓ one two").with(Style::Bad, " three four");
        let lines = wrapped(&styled, 10);
        assert_eq!(lines[0], Line::default().with(Style::Ok, "✓ one two"));
        assert_eq!(lines[1].spans.last().map(|span| span.style), Some(Style::Bad));
    }

    #[test]
    fn lines_are_cut_between_words() {
        let rows = [
            ("fits", 4, "fits"),
            ("digest e02da7e57359 of it", 20, "digest …"),
            ("digest e02da7e57359 of it", 21, "digest e02da7e57359 …"),
            ("oneverylongword", 6, "onev …"),
            ("漢字 漢字 漢字", 9, "漢字 …"),
        ];
        for (text, width, expected) in rows {
            let found = cut(&line(text), width);
            assert_eq!(plain(&found), expected, "{text} at {width}");
            assert!(columns(&found) <= width);
        }
    }

    #[test]
    fn a_screen_says_how_much_it_leaves_out() {
        let lines = || (0..5).map(|number| line(&format!("x{number}"))).collect::<Vec<_>>();
        assert_eq!(texts(&screen(lines(), 5)).len(), 5);
        assert_eq!(texts(&screen(lines(), 3)), ["x0", "x1", "↓ 3 more lines"]);
        assert_eq!(texts(&screen(lines(), 1)), ["↓ 5 more lines"]);
    }
}
