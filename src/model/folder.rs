//! Folders of the source, as placements and overrides name them: a path from the root of its subtree.

use std::collections::BTreeSet;

/// Tells whether a file stands in a folder or below it. What a folder is rendered to has the path of that folder, so a path holds itself.
pub fn holds(folder: &str, path: &str) -> bool {
    rendered_folder(path).strip_prefix(folder).is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

/// Returns the path of a rendered folder: a large result is read in parts, and those after the first have a number sign and their number
/// added. Of any other path that is the path itself.
pub fn rendered_folder(path: &str) -> &str {
    match path.rsplit_once('#') {
        Some((folder, number)) if !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()) => folder,
        _ => path,
    }
}

/// Returns the folder that a path is in; the root is an empty text.
pub fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Returns the place of a path of a folder in the tree that holds the folder. The folder as a whole is `.` or nothing, and `.#2` the second part
/// of what it is rendered to; a folder without a name is the tree itself.
pub fn below(folder: &str, path: &str) -> String {
    match (folder, path) {
        ("", path) => path.to_owned(),
        (folder, "" | ".") => folder.to_owned(),
        (folder, path) => match path.strip_prefix(".#") {
            Some(part) => format!("{folder}#{part}"),
            None => format!("{folder}/{path}"),
        },
    }
}

/// Returns the path in a folder of what is below it, as [`below`] takes it: `.` for the folder as a whole, however many parts that has. A
/// folder without a name is the tree itself.
pub fn within<'p>(folder: &str, path: &'p str) -> Option<&'p str> {
    match folder {
        "" => Some(path),
        _ if rendered_folder(path) == folder => Some("."),
        _ => path.strip_prefix(folder)?.strip_prefix('/'),
    }
}

/// Returns the folders of a set that hold a file, the innermost first.
pub fn holding<'f>(folders: &'f BTreeSet<String>, path: &str) -> impl Iterator<Item = &'f str> {
    let path = rendered_folder(path);
    let ends = std::iter::once(path.len()).chain(path.rmatch_indices('/').map(|(slash, _)| slash));
    ends.filter_map(|end| folders.get(&path[..end]).map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_holds_what_is_in_it() {
        let rows = [
            ("apps/production", "apps/production/web.yaml", true),
            ("apps/production", "apps/production/eu/web.yaml", true),
            ("apps/production", "apps/production", true),
            ("apps/production", "apps/production-eu/web.yaml", false),
            ("apps/production", "apps/production.yaml", false),
            ("apps/production", "apps/web.yaml", false),
            ("production", "apps/production/web.yaml", false),
            ("apps/production", "apps/production#2", true),
            ("apps", "apps/production#2", true),
            ("apps/production", "apps/production#b.yaml", false),
            ("apps/production", "apps/production#", false),
        ];
        for (folder, path, wanted) in rows {
            assert_eq!(holds(folder, path), wanted, "{folder} {path}");
        }
        let folders: BTreeSet<String> = ["apps", "apps/production", "apps/prod", "other"].map(str::to_owned).into();
        let found = |path| holding(&folders, path).collect::<Vec<_>>();
        assert_eq!(found("apps/production/web.yaml"), ["apps/production", "apps"]);
        assert_eq!(found("apps/production"), ["apps/production", "apps"]);
        assert_eq!(found("apps/production#12"), ["apps/production", "apps"]);
        assert_eq!(found("apps.yaml"), Vec::<&str>::new());
    }

    #[test]
    fn a_path_of_a_folder_is_below_it() {
        let rows = [
            ("shop", "apps/web.yaml", "shop/apps/web.yaml"),
            ("shop", "", "shop"),
            ("shop", ".", "shop"),
            ("shop", ".#2", "shop#2"),
            ("shop", "apps#2", "shop/apps#2"),
            ("shop", ".gitfleetignore", "shop/.gitfleetignore"),
            ("", "apps/web.yaml", "apps/web.yaml"),
            ("", ".", "."),
        ];
        for (folder, path, wanted) in rows {
            assert_eq!(below(folder, path), wanted, "{folder} {path}");
            let whole = if matches!(path, "" | ".#2") { "." } else { path };
            assert_eq!(within(folder, wanted), Some(whole), "{folder} {wanted}");
        }
        assert_eq!(within("shop", "shopping/a.yaml"), None);
    }
}
