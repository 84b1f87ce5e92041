//! What is said of the source and of clusters that left.

use super::*;
use crate::fixtures::at;
use crate::tree::tests::{source, text};

#[test]
fn what_is_said_of_the_source_and_the_fleet() {
    let left = |name: &str, why: &str, since: i64| ClusterRecord {
        left: true,
        message: Some(why.to_owned()),
        ..ClusterRecord::new(name.into(), at(since))
    };
    let day = LEFT_SHOWN_MAX.as_secs();
    let unrestored = SourceRecord { unrestored: Some("1a2b3c4: 2 errors in the files".to_owned()), ..source() };
    let at_risk = SourceRecord { unkept: Some("the branch dropped 1a2b3c4".to_owned()), ..source() };
    let rows: [(&str, SourceRecord, Vec<ClusterRecord>, &[&str]); 5] = [
        ("nothing", source(), vec![crate::fixtures::cluster("east", true)], &["source", "accepted 1a2b3c4"]),
        (
            "clusters left",
            source(),
            vec![
                left("a", "git names it no more", 0),
                left("b", "no entry", 30),
                left("c", "git names it no more", 50),
            ],
            &["source", "accepted 1a2b3c4", "a, c: git names it no more (since 10s)", "b: no entry (since 30s)"],
        ),
        ("long ago", source(), vec![left("a", "left", 60 - day)], &["source", "accepted 1a2b3c4"]),
        (
            "a restart cannot read the accepted commit",
            unrestored,
            Vec::new(),
            &[
                "✗ the accepted commit cannot be read: 1a2b3c4: 2 errors in the files; nothing is decided, and clusters keep \
                 what they have",
                "source",
                "accepted 1a2b3c4",
            ],
        ),
        (
            "a dropped commit is in one mirror alone",
            at_risk,
            Vec::new(),
            &["✗ the branch dropped 1a2b3c4", "source", "accepted 1a2b3c4"],
        ),
    ];
    for (name, source, clusters, wanted) in rows {
        let clusters = clusters.into_iter().map(|cluster| (cluster.name.clone(), cluster)).collect();
        let view = SourceView { source: &source, branch: None, subject: None, clusters: &clusters, now: at(60) };
        let lines = source_lines(&view).into_iter().map(|line| text(line.at(at(60))).trim().to_owned());
        let lines: Vec<String> = lines.collect();
        let lines: Vec<&str> =
            lines.iter().map(|line| if line.starts_with("source ") { "source" } else { line }).collect();
        assert_eq!(lines, wanted, "{name}");
    }
}
