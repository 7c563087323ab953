//! The code cites the protocol by headings: each one that it cites is there.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The quoted headings that follow each mention of the protocol, with the comment's line breaks taken out.
fn cited(text: &str) -> Vec<String> {
    let marks = ["///", "//!", "//"];
    let line = |line: &str| {
        let line = line.trim();
        marks.iter().find_map(|mark| line.strip_prefix(mark)).unwrap_or(line).trim().to_owned()
    };
    let joined = text.lines().map(line).collect::<Vec<_>>().join(" ");
    let mut headings = Vec::new();
    for after in joined.split("`protocol.md`").skip(1) {
        let mut rest = after;
        while let Some(opened) = [", \"", " and \"", ": \""].iter().find_map(|start| rest.strip_prefix(start)) {
            let Some((heading, after)) = opened.split_once('"') else { break };
            headings.push(heading.to_owned());
            rest = after;
        }
    }
    headings
}

#[test]
fn every_cited_heading_exists() {
    let source = integration::source_root().join("src");
    let protocol = fs::read_to_string(source.join("protocol.md")).unwrap();
    let headings: BTreeSet<_> =
        protocol.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim()).collect();
    let mut files = Vec::new();
    rust_files(&source, &mut files);
    let mut number = 0;
    let mut missing = Vec::new();
    for file in files {
        for heading in cited(&fs::read_to_string(&file).unwrap()) {
            number += 1;
            if !headings.contains(heading.as_str()) {
                missing.push(format!("{}: {heading:?}", file.display()));
            }
        }
    }
    assert!(number > 0, "no file cites the protocol: is this test still looking for the right words?");
    assert!(missing.is_empty(), "src/protocol.md has no such heading:\n{}", missing.join("\n"));
}

#[test]
fn citations_are_found_across_lines() {
    let text = "/// Source: `protocol.md`, \"One request, three\n    /// replies\", \"Words\" and \"Retention\".";
    assert_eq!(cited(text), ["One request, three replies", "Words", "Retention"]);
    assert!(cited("see `protocol.md`.").is_empty());
}
