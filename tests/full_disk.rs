//! A full disk: the command says so, and the table is as it was, or the change is visible as a whole.
//!
//! A limit on the size of files stands for the disk; it needs no privileges. Where the system lets the test mount a file
//! system of its own, in a namespace of its own, a real one is filled too.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod command;

use std::process::Command;

use command::{Place, Ran, TABLE};

/// A shop, and the candidate `p` with many orders of 10 August and after.
fn shop() -> (Place, Vec<i64>) {
    let place = Place::shop();
    let ids: Vec<i64> = (100..20_000).collect();
    // Each data file is larger than the limits, under which much else can be written.
    place.orders("large.parquet", 10, &ids);
    place.lake(&["begin", TABLE, "p"]).ends(0);
    (place, ids)
}

/// Runs a line where no file can grow beyond so many bytes, in blocks of 512.
fn limited(place: &Place, blocks: usize, line: &[&str]) -> Ran {
    let mut command = Command::new("sh");
    place.prepare(&mut command);
    // Ignored, the signal leaves the error to whoever writes, as on a full disk.
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_calve")]).args(line);
    Ran::of(&command.output().unwrap())
}

#[test]
fn files_that_cannot_grow() {
    let (place, ids) = shop();
    for blocks in [0, 1, 2, 4, 8, 16] {
        let before = place.seen();
        let ran = limited(&place, blocks, &["stage", TABLE, "p", "large.parquet", "--append"]);
        assert_eq!(ran.code, 1, "{blocks}: {ran:?}");
        assert!(ran.err.contains("lake") && ran.err.contains("ile too large"), "{blocks}: {ran:?}");
        assert!(ran.err.contains("free") || ran.err.contains("same command again"), "{blocks}: {ran:?}");
        assert_eq!(place.seen(), before, "{blocks}");
    }
    place.lake(&["stage", TABLE, "p", "large.parquet", "--append"]).ends(0);
    place.lake(&["validate", TABLE, "p"]).ends(0);
    for blocks in [0, 1, 2, 4, 8] {
        let before = place.seen();
        let ran = limited(&place, blocks, &["publish", TABLE, "p"]);
        let after = place.seen();
        match ran.code {
            0 => assert_ne!(after, before),
            // Refused before anything was sent, or sent and provably not applied.
            1 | 13 | 14 => assert_eq!(after, before, "{blocks}: {ran:?}"),
            20 => assert!(after == before || after.orders.len() > 5, "{blocks}: {ran:?}"),
            _ => panic!("{blocks}: {ran:?}"),
        }
    }
    place.lake(&["publish", TABLE, "p"]).ends(0);
    assert_eq!(place.orders_in_main().len(), 5 + ids.len());
}

/// What the command finds on a disk of its own.
enum OnDisk {
    Ran(Ran),
    /// Not even the warehouse fits.
    TooSmall,
    /// No disk may be mounted here.
    NoDisk,
}

/// Publishes what was sealed on a disk that is so many kilobytes larger than the warehouse, roughly.
fn publish_with(place: &Place, spare: i32) -> OnDisk {
    // The warehouse keeps its path: the disk lies over it for as long as the script runs.
    let script = format!(
        "rm -rf out; test -d sealed || cp -a lake sealed; size=$(du -sk sealed | cut -f1)
         mount -t tmpfs -o size=$((size + {spare}))k tmpfs lake || exit 99
         cp -a sealed/. lake 2>/dev/null || exit 97
         \"$@\"; code=$?
         cp -a lake out || exit 98
         exit $code"
    );
    let mut command = Command::new("unshare");
    place.prepare(&mut command);
    command.args(["--map-root-user", "--mount", "sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_calve")]);
    let Ok(output) = command.args(["publish", TABLE, "p"]).output() else { return OnDisk::NoDisk };
    let ran = Ran::of(&output);
    if !place.path().join("out").exists() {
        return if ran.code == 97 { OnDisk::TooSmall } else { OnDisk::NoDisk };
    }
    assert_ne!(ran.code, 98, "{ran:?}");
    std::fs::remove_dir_all(place.path().join("lake")).unwrap();
    std::fs::rename(place.path().join("out"), place.path().join("lake")).unwrap();
    OnDisk::Ran(ran)
}

#[test]
fn disks_that_are_full() {
    let place = Place::shop();
    place.orders("more.parquet", 10, &[6, 7]);
    place.sealed("p", "more.parquet");
    let before = place.seen();
    let mut codes = Vec::new();
    for spare in (-200..200).step_by(4) {
        let ran = match publish_with(&place, spare) {
            OnDisk::Ran(ran) => ran,
            OnDisk::TooSmall => continue,
            OnDisk::NoDisk => {
                eprintln!("no disk may be mounted here: only the other test ran");
                return;
            }
        };
        codes.push(ran.code);
        let published = place.orders_in_main() == [1, 2, 3, 4, 5, 6, 7];
        match ran.code {
            0 => assert!(published, "{spare}: {ran:?}"),
            // Before a request, and where it provably did not reach the catalog.
            1 | 13 => {
                let said = format!("{}{}", ran.out, ran.err);
                assert!(said.contains("full") || said.contains("No space"), "{spare}: {ran:?}");
                assert!(said.contains("free some space"), "{spare}: {ran:?}");
                assert_eq!(place.seen(), before, "{spare}: {ran:?}");
            }
            // The database could not finish: what another process sees decides, and the same line again ends it.
            20 => {
                assert!(ran.out.contains("UNRESOLVED") && ran.out.contains("full"), "{spare}: {ran:?}");
                assert!(published || place.seen() == before, "{spare}: {ran:?}");
                place.lake(&["reconcile", TABLE, "p"]).ends(if published { 0 } else { 20 });
                place.lake(&["publish", TABLE, "p"]).ends(0);
                assert_eq!(place.orders_in_main(), [1, 2, 3, 4, 5, 6, 7]);
            }
            _ => panic!("{spare}: {ran:?}"),
        }
        if ran.code == 0 {
            break;
        }
    }
    assert!(codes.len() > 2 && codes.last() == Some(&0), "{codes:?}");
    place.lake(&["publish", TABLE, "p"]).ends(0);
    assert_eq!(place.reconciled("p", 0), "published");
    assert_eq!(place.orders_in_main(), [1, 2, 3, 4, 5, 6, 7]);
}
