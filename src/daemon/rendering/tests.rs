use super::folder::parts;
use super::*;

#[test]
fn outputs_are_divided_between_documents() {
    let document = |name: &str, bytes: usize| format!("a: {name}{}\n", "x".repeat(bytes));
    let half = PART_BYTES_MAX / 2;
    let rows = [
        (String::new(), vec![]),
        ("\n \n".to_owned(), vec![]),
        (document("a", 1), vec![1]),
        ([document("a", half), document("b", 10)].join("---\n"), vec![2]),
        ([document("a", half), document("b", half), document("c", half)].join("---\n"), vec![1, 1, 1]),
        ([document("a", 10), document("b", 10), document("c", 2 * half)].join("---\n"), vec![2, 1]),
        // One document is never divided, whatever its size: it is refused as a file would be.
        ([document("a", 3 * half), document("b", 10)].join("---\n"), vec![1, 1]),
    ];
    for (printed, expected) in rows {
        let parts = parts(printed.as_bytes());
        let documents = |part: &Vec<u8>| crate::yaml::parse_documents(std::str::from_utf8(part).expect("text")).len();
        assert_eq!(parts.iter().map(documents).collect::<Vec<_>>(), expected);
        let bytes: usize = parts.iter().map(Vec::len).sum();
        assert!(expected.is_empty() || bytes == printed.len());
    }
}

#[test]
fn texts_of_a_key_cannot_run_together() {
    let key = |parts: &[&str]| {
        let mut digest = Sha256::new();
        for part in parts {
            add(&mut digest, part);
        }
        digest.finalize()
    };
    assert_ne!(key(&["a", "bc"]), key(&["ab", "c"]));
    assert_ne!(key(&["a", ""]), key(&["", "a"]));
}
