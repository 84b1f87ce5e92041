//! What addresses of lists ask for. What cannot be read counts as absent: people shorten addresses by hand.

use super::standing::PlacementStanding;

/// Rows of a page.
pub const ROWS_MAX: usize = 100;
/// Characters of a text that is searched for.
const SEARCHED_CHARS_MAX: usize = 200;
/// Characters of the name of a group, and of what makes groups: the longest key of a label.
const GROUP_CHARS_MAX: usize = 317;

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Those first that something is wrong with.
    #[default]
    Trouble,
    /// By name.
    Name,
    /// The youngest first.
    Age,
}

impl Sort {
    const ALL: [Self; 3] = [Self::Trouble, Self::Name, Self::Age];

    fn key(self) -> &'static str {
        match self {
            Self::Trouble => "trouble",
            Self::Name => "name",
            Self::Age => "age",
        }
    }
}

/// What a list shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// Names that hold this text.
    pub q: String,
    /// A word for a state: of placements the key of a `PlacementStanding`, of clusters likewise.
    pub state: String,
    /// Only what somebody must see.
    pub trouble: bool,
    /// The order.
    pub sort: Sort,
    /// What makes groups: of placements the word of a `Grouping`, of clusters the key of a label. Empty makes none.
    pub group: String,
    /// The name of the only group that is shown; empty is all of them.
    pub within: String,
    /// The page, from 1.
    pub page: usize,
}

impl Default for ListQuery {
    fn default() -> Self {
        let (q, state, group, within) = Default::default();
        Self { q, state, trouble: false, sort: Sort::default(), group, within, page: 1 }
    }
}

impl ListQuery {
    /// Reads the query of an address.
    pub fn read(query: &str) -> Self {
        let mut read = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "q" => read.q = value.trim().chars().take(SEARCHED_CHARS_MAX).collect(),
                "state" => read.state = value.chars().filter(|c| c.is_ascii_lowercase() || *c == '-').collect(),
                "trouble" => read.trouble = value == "1",
                "sort" => read.sort = Sort::ALL.into_iter().find(|sort| sort.key() == value).unwrap_or_default(),
                "group" => read.group = value.chars().take(GROUP_CHARS_MAX).collect(),
                "in" => read.within = value.chars().take(GROUP_CHARS_MAX).collect(),
                "page" => read.page = value.parse().unwrap_or(1).max(1),
                _ => {}
            }
        }
        read
    }

    /// Writes the query of an address: with a question mark, or nothing.
    pub fn write(&self) -> String {
        let whole = Self::default();
        let page = self.page.to_string();
        let fields = [
            ("q", self.q.as_str(), self.q != whole.q),
            ("state", &self.state, self.state != whole.state),
            ("trouble", "1", self.trouble),
            ("sort", self.sort.key(), self.sort != whole.sort),
            ("group", &self.group, !self.group.is_empty()),
            ("in", &self.within, !self.within.is_empty()),
            ("page", &page, self.page != whole.page),
        ];
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(fields.iter().filter(|(_, _, is_given)| *is_given).map(|(name, value, _)| (name, value)));
        let query = query.finish();
        if query.is_empty() { query } else { format!("?{query}") }
    }

    /// Returns a path with this query.
    pub(super) fn address(&self, path: &str) -> String {
        format!("{path}{}", self.write())
    }

    /// Returns the query with something else in it, from its first page on.
    #[must_use]
    pub fn with(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut changed = Self { page: 1, ..self.clone() };
        change(&mut changed);
        changed
    }

    /// Tells whether it asks for a placement in this state.
    pub(super) fn takes(&self, standing: PlacementStanding) -> bool {
        (self.state.is_empty() || self.state == standing.key()) && (!self.trouble || standing.is_trouble())
    }

    /// Returns the items of its page, its number as there is one, and how many there are.
    pub fn part<T>(&self, items: Vec<T>) -> (Vec<T>, usize, usize) {
        let pages = items.len().div_ceil(ROWS_MAX).max(1);
        let page = self.page.min(pages);
        (items.into_iter().skip((page - 1) * ROWS_MAX).take(ROWS_MAX).collect(), page, pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_what_is_asked_for_and_nothing_else() {
        for (given, written) in [
            ("", ""),
            ("q=web&state=failed&sort=name&page=3", "?q=web&state=failed&sort=name&page=3"),
            ("q=a%26b+c&trouble=1", "?q=a%26b+c&trouble=1"),
            ("group=topology%2Fzone&in=no+namespace&page=2", "?group=topology%2Fzone&in=no+namespace&page=2"),
            ("sort=unknown&page=0&trouble=yes&unknown=1", ""),
            ("state=%3Cscript%3E&page=-1", "?state=script"),
        ] {
            assert_eq!(ListQuery::read(given).write(), written, "{given}");
        }
        let third = ListQuery::read("q=web&page=3");
        assert_eq!(third.with(|query| query.trouble = true).write(), "?q=web&trouble=1");
        assert!(ListQuery::read(&format!("q={}", "x".repeat(9_999))).q.len() <= SEARCHED_CHARS_MAX);
    }

    #[test]
    fn a_page_beyond_the_end_is_the_last() {
        for (page, count, expected) in
            [(1, 0, (0, 1, 1)), (9, 0, (0, 1, 1)), (2, 150, (50, 2, 2)), (9, 150, (50, 2, 2))]
        {
            let query = ListQuery { page, ..ListQuery::default() };
            let (items, page, pages) = query.part((0..count).collect::<Vec<_>>());
            assert_eq!((items.len(), page, pages), expected);
        }
    }
}
