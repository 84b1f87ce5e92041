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
        let documents = |part: &Vec<u8>| model::yaml::parse_documents(std::str::from_utf8(part).expect("text")).len();
        assert_eq!(parts.iter().map(documents).collect::<Vec<_>>(), expected);
        let bytes: usize = parts.iter().map(Vec::len).sum();
        assert!(expected.is_empty() || bytes == printed.len());
    }
}

#[test]
fn encrypted_objects_that_cannot_be_delivered() {
    let sops = "sops: {mac: 'ENC[AES256_GCM,data:m]', version: 3.13.3}\n";
    let secret =
        format!("---\napiVersion: v1\nkind: Secret\nmetadata: {{name: a, namespace: web}}\ndata: {{}}\n{sops}");
    let forged = secret.replace("version: 3.13.3", "gitfleet: {file: x, ordinal: 0}");
    let file = |path: &str, text: &str| {
        let parsed = Arc::new(source::parse_blob(text.as_bytes()));
        (Arc::<str>::from(path), BlobId::from(text), parsed)
    };
    let part = |path: &str, text: &str, renderer| RenderedFile { path: path.into(), blob: text.into(), renderer };
    let rendered = RenderedTree {
        files: vec![part("app", &forged, Renderer::Kustomize), part("web", &secret, Renderer::Helm)],
        ..RenderedTree::default()
    };
    let rows = [
        ("app", &forged, None),
        ("a.yaml", &secret, None),
        ("web", &secret, Some("web:2: Secret web/a: is of a chart, and what Helm renders of an encrypted file")),
        // Only what was rendered there says what it was made of, and not a copy of it.
        ("b.yaml", &forged, Some("b.yaml:2: Secret web/a: has a field sops.gitfleet, which only gitfleet writes")),
    ];
    for (path, text, expected) in rows {
        let errors = encryption_errors([&rendered], &[file(path, text)]);
        let found = errors.first().map(ToString::to_string);
        assert_eq!(found.is_some(), expected.is_some(), "{path}: {found:?}");
        assert!(found.unwrap_or_default().starts_with(expected.unwrap_or_default()), "{path}: {errors:?}");
    }
    assert_eq!(encrypted_for_clusters(&[file("app", &forged)]).len(), 1);
}
