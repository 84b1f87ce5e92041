//! Lists of names for people.

/// Returns the first `max` names, comma-separated, and how many more there are.
pub fn first_of<'a>(names: impl Iterator<Item = &'a str>, max: usize) -> String {
    let names: Vec<&str> = names.collect();
    let first = names[..names.len().min(max)].join(", ");
    match names.len().saturating_sub(max) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
