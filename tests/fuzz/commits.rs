//! Fuzz target: what a commit holds is counted before it is made, whatever its aliases, lists and documents are.

use std::sync::Arc;

use model::id::BlobId;
use model::yaml::{Cost, Meter};
use serde_json::Value;
use source::{COMMIT, Filter, ParsedBlob, Weight, assemble, parse_blob, parse_blob_within, select};

/// Stands between two files of one input; the first is the file that names what is not read.
const BETWEEN: &[u8] = b"\n%%%\n";

/// Files of a made-up tree.
const PATHS: [&str; 3] = ["a.yaml", "b.yaml", "deep/c.yaml"];

/// What the small reader may hold.
const SMALL: Cost = Cost { nodes: 300, bytes: 100_000 };

pub(super) fn run(input: &[u8]) {
    let mut parts = split(input);
    let ignore = parts.remove(0);
    let filter = Filter::new(Some(ignore));
    let selection = select(PATHS.into_iter().take(parts.len()), Some(ignore));
    for path in &selection.read {
        assert!(filter.reads(path), "what is chosen passes the filter");
    }
    let blobs: Vec<ParsedBlob> = parts.iter().map(|content| parse_blob(content)).collect();
    for blob in &blobs {
        counted(blob);
    }
    let sum = blobs.iter().fold(Cost::default(), |sum, blob| sum.and(blob.weight.cost));
    let orders = [0, 1].map(|first| {
        let meter = Meter::new(SMALL);
        for at in 0..parts.len() {
            parse_blob_within(parts[(first + at) % parts.len()], &meter);
        }
        meter.ran_over()
    });
    if !sum.exceeds(COMMIT.cost) {
        assert_eq!(orders, [sum.exceeds(SMALL); 2], "whether it is too much does not depend on the order");
    }
    let weights = PATHS.iter().zip(&blobs).map(|(path, blob)| (Arc::<str>::from(*path), blob.weight));
    let refusal = COMMIT.refusal(weights);
    let files = PATHS.iter().zip(blobs).map(|(path, blob)| (Arc::from(*path), BlobId::from(*path), Arc::new(blob)));
    let tree = assemble(None, &selection, files);
    assert!(refusal.is_none() || tree.is_err(), "what is too much is refused");
}

/// Checks that what is held is no more than what was counted.
fn counted(blob: &ParsedBlob) {
    let Weight { cost, objects } = blob.weight;
    assert!(blob.documents.len() <= objects, "every object is counted");
    let (mut nodes, mut bytes) = (0, 0);
    let mut open: Vec<&Value> = blob.documents.iter().map(|document| &*document.object).collect();
    while let Some(value) = open.pop() {
        nodes += 1;
        match value {
            Value::String(text) => bytes += text.len(),
            Value::Array(items) => open.extend(items),
            Value::Object(map) => {
                bytes += map.keys().map(String::len).sum::<usize>();
                open.extend(map.values());
            }
            _ => {}
        }
    }
    // A typed List gives its elements two texts that it has itself once.
    let given = 2 * objects;
    assert!(nodes <= cost.nodes + given, "{nodes} values, {} counted", cost.nodes);
    assert!(bytes <= cost.bytes * 2, "{bytes} bytes, {} counted", cost.bytes);
}

fn split(mut input: &[u8]) -> Vec<&[u8]> {
    let mut files = Vec::new();
    while files.len() < PATHS.len()
        && let Some(at) = input.windows(BETWEEN.len()).position(|window| window == BETWEEN)
    {
        files.push(&input[..at]);
        input = &input[at + BETWEEN.len()..];
    }
    files.push(input);
    if files.len() == 1 {
        files.insert(0, b"");
    }
    files
}
