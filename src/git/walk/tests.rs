use super::*;

#[test]
fn names_that_cannot_be_paths_are_named() {
    let rows: &[(&[u8], Option<&str>)] = &[
        (b"a.yaml", None),
        (b"..a.yaml", None),
        ("ä b.yaml".as_bytes(), None),
        (b"..", Some("the name leads out of its folder")),
        (b".", Some("the name leads out of its folder")),
        (b"", Some("the name leads out of its folder")),
        (b"a/b.yaml", Some("the name contains a slash or backslash")),
        (b"/etc/a.yaml", Some("the name contains a slash or backslash")),
        (b"..\\a.yaml", Some("the name contains a slash or backslash")),
        (b"a\0.yaml", Some("the name contains a control character")),
        (b"a\n.yaml", Some("the name contains a control character")),
        (b"\xff.yaml", Some("the name is not UTF-8")),
    ];
    for (name, expected) in rows {
        assert_eq!(name_problem(name), *expected, "{:?}", String::from_utf8_lossy(name));
    }
}

/// A tree in memory: every folder holds the same children, as a hostile repository's can.
struct Endless(usize);

impl Level for Endless {
    type Folder = ();
    type Content = ();

    fn children(&self, (): &()) -> Result<Vec<Child<(), ()>>, Error> {
        let folder = |i| Child { name: format!("d{i}").into_bytes(), kind: WalkedKind::Folder(()) };
        Ok((0..self.0).map(folder).collect())
    }

    fn leads_to_file(&self, _: &str, (): &()) -> Result<bool, Error> {
        Ok(false)
    }
}

#[test]
fn a_tree_without_end_is_refused() {
    let rows: [(usize, bool, &str); 3] =
        [(1, true, "nested too deeply"), (50, true, "too many problems"), (50, false, "more than 1000000")];
    for (width, is_read, message) in rows {
        let found = walk(&Endless(width), (), &|_| is_read).unwrap();
        assert!(found.errors.iter().any(|e| e.message.contains(message)), "{width}: {:?}", found.errors.first());
        assert!(found.errors.len() <= ERRORS_MAX + 1);
    }
    assert!(walk(&Endless(1), (), &|_| false).unwrap().errors.is_empty(), "ignored depth is no error");
}

#[test]
fn too_many_files_are_refused() {
    struct Wide(usize);
    impl Level for Wide {
        type Folder = ();
        type Content = ();
        fn children(&self, (): &()) -> Result<Vec<Child<(), ()>>, Error> {
            let file = |i| Child {
                name: format!("{i}.yaml").into_bytes(),
                kind: WalkedKind::File { content: (), executable: false },
            };
            Ok((0..self.0).map(file).collect())
        }
        fn leads_to_file(&self, _: &str, (): &()) -> Result<bool, Error> {
            Ok(false)
        }
    }
    for (count, refused) in [(FILES_MAX, 0), (FILES_MAX + 1, 1)] {
        assert_eq!(walk(&Wide(count), (), &|_| true).unwrap().errors.len(), refused, "{count}");
    }
    assert!(walk(&Wide(FILES_MAX + 1), (), &|_| false).unwrap().errors.is_empty(), "unread files do not count");
}
