//! Text inside HTML elements of a comment: hosts fold some of them, drop some with their content, and display some differently.

/// Void elements of HTML, which have no content. Every other open element hides the following text from the parser until it is
/// closed.
///
/// Source: HTML Living Standard, 13.1.2, "Elements", void elements; the rare ones are left out.
const WITHOUT_CONTENT: [&str; 4] = ["br", "hr", "img", "wbr"];

/// The elements there are and were, and the roots of what may be within: whatever else stands in angle brackets is text.
///
/// Source: HTML Living Standard, "Index of elements" and 16.2, "Non-conforming features"; those of proposals and old browsers.
const ELEMENTS: &str = "a abbr acronym address applet area article aside audio b base basefont bdi bdo bgsound big blink \
    blockquote body br button canvas caption center cite code col colgroup command content data datalist dd del details dfn dialog \
    dir div dl dt element em embed fencedframe fieldset figcaption figure font footer form frame frameset geolocation h1 h2 h3 h4 \
    h5 h6 head header hgroup hr html i iframe image img input ins isindex kbd keygen label layer legend li link listing main map \
    mark marquee math menu menuitem meta meter multicol nav nextid nobr noembed noframes nolayer noscript object ol optgroup \
    option output p param permission picture plaintext portal pre progress q rb rbc rp rt rtc ruby s samp script search section \
    select selectedcontent shadow slot small source spacer span strike strong style sub summary sup svg table tbody td template \
    textarea tfoot th thead time title tr track tt u ul var video wbr xmp";

/// Open elements of HTML. Browsers repair malformed HTML differently for each element, so the parser does not guess: a closing
/// tag ends the innermost element of its name and nothing else, and after a tag with more than a name and plain attributes all
/// following text is hidden.
#[derive(Debug, Default)]
pub(super) struct Apart {
    open: Vec<String>,
    /// The parser met something that a browser may read differently.
    is_lost: bool,
}

impl Apart {
    pub(super) fn is_open(&self) -> bool {
        self.is_lost || !self.open.is_empty()
    }

    pub(super) fn read(&mut self, html: &str) {
        let mut rest = html;
        while let Some(at) = rest.find('<') {
            rest = &rest[at + 1..];
            if let Some(comment) = rest.strip_prefix("!--") {
                rest = after_comment(comment);
                continue;
            }
            let (name, closes) = rest.strip_prefix('/').map_or((rest, false), |name| (name, true));
            if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
                // A declaration or an instruction, or no tag at all. Browsers end the former at the next `>`.
                continue;
            }
            let end = name.find([' ', '\t', '\n', '\r', '\u{c}', '/', '>']).unwrap_or(name.len());
            let (name, attributes) = name.split_at(end);
            let Some((attributes, after)) = attributes.split_once('>') else {
                self.is_lost = true;
                return;
            };
            // Where a value holds `>`, its quotes are not even here.
            let is_cut = ['"', '\''].into_iter().any(|quote| attributes.matches(quote).count() % 2 != 0);
            self.is_lost |= attributes.contains('<') || is_cut;
            // `Vec<String>` is no element: hosts drop the tag and show what follows.
            let name = name.to_ascii_lowercase();
            if is_element(&name) || !attributes.is_empty() || closes {
                self.tag(&name, closes);
            }
            rest = after;
        }
    }

    fn tag(&mut self, name: &str, closes: bool) {
        if WITHOUT_CONTENT.contains(&name) {
            return;
        }
        if !closes {
            self.open.push(name.to_owned());
        } else if self.open.last().is_some_and(|open| open == name) {
            self.open.pop();
        }
    }
}

/// Tells whether a name is one of an element, or of one that a page may define: those have a hyphen.
fn is_element(name: &str) -> bool {
    name.contains('-') || ELEMENTS.split_ascii_whitespace().any(|known| known == name)
}

/// Returns what follows a comment of HTML, as browsers end it: they take `<!-->`, `<!--->` and `--!>` for ends, too.
///
/// Source: HTML Living Standard, 13.2.5.43 to 13.2.5.52, comments.
fn after_comment(comment: &str) -> &str {
    if let Some(after) = comment.strip_prefix('>').or_else(|| comment.strip_prefix("->")) {
        return after;
    }
    let ends = ["-->", "--!>"].into_iter().filter_map(|end| Some((comment.find(end)?, end.len())));
    ends.min().map_or("", |(at, length)| &comment[at + length..])
}
