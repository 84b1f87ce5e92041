//! Fuzz target: whatever a repository holds, the manifest loader answers with objects or with errors that name a file.

use std::sync::Arc;

use model::id::BlobId;
use source::{assemble, parse_blob, select};

/// Stands between two files of one input.
const BETWEEN: &[u8] = b"\n%%%\n";

/// Files of a made-up tree; an input is at most so many.
const PATHS: [&str; 4] = ["a.yaml", "deep/er/b.yml", "c.json", "d.yaml"];

pub(super) fn run(input: &[u8]) {
    let files = split(input);
    let selection = select(PATHS.into_iter().take(files.len()), None);
    let parsed: Vec<_> = PATHS
        .into_iter()
        .zip(&files)
        .map(|(path, content)| {
            let blob = parse_blob(content);
            assert_eq!(blob, parse_blob(content), "one content, one answer");
            for error in &blob.errors {
                assert!(!error.message.is_empty(), "an error says what is wrong");
            }
            (Arc::<str>::from(path), BlobId::from("0".repeat(40).as_str()), Arc::new(blob))
        })
        .collect();
    let wrong = parsed.iter().any(|(_, _, blob)| !blob.errors.is_empty());
    match assemble(None, &selection, parsed) {
        Ok(_) => assert!(!wrong, "a file with errors is never accepted"),
        Err(errors) => {
            assert!(!errors.is_empty(), "a refusal has a reason");
            for error in errors {
                assert!(PATHS.contains(&error.path.as_str()), "an error names its file: {error:?}");
            }
        }
    }
}

fn split(mut input: &[u8]) -> Vec<&[u8]> {
    let mut files = Vec::new();
    while files.len() + 1 < PATHS.len()
        && let Some(at) = input.windows(BETWEEN.len()).position(|window| window == BETWEEN)
    {
        files.push(&input[..at]);
        input = &input[at + BETWEEN.len()..];
    }
    files.push(input);
    files
}
