//! Damage to a stopped node: a copy of its data with one flipped bit must return complete answers or report the damage.
//!
//! Bits are flipped in the catalog and in the newest segment of the log, where every second flip is in the last
//! records.

use std::path::{Path, PathBuf};

use super::Rng;
use super::node::Node;

/// Number of flips per file and data directory.
const FLIPS: u64 = 4;
/// Size of the log's tail that gets every second flip.
const TAIL_BYTES: u64 = 2_000;

/// Counts of the flips and of their effects.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flips {
    /// Number of flips.
    pub(crate) all: u64,
    /// Flips after which a search reported a problem.
    pub(crate) reported: u64,
}

/// Flips bits in a copy of the node's data; `found` has the texts of all events.
pub(crate) fn check(node: &Node, place: &Path, found: &[String], rng: &mut Rng) -> Result<Flips, String> {
    let copy = place.join("damaged");
    copy_folder(node.data(), &copy).map_err(|error| format!("cannot copy the data: {error}"))?;
    let mut expected = found.to_vec();
    expected.sort();
    let mut flips = Flips::default();
    let newest = newest_segment(&copy.join("wal"));
    let files = [newest, Some(copy.join("catalog.sqlite")), Some(copy.join("catalog.sqlite-wal"))];
    for path in files.into_iter().flatten().filter(|path| path.is_file()) {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let whole = std::fs::read(&path).map_err(failed)?;
        let is_log = path.extension().is_some_and(|extension| extension == "log");
        for flip in 0..FLIPS {
            let within = if is_log && flip % 2 == 0 { TAIL_BYTES } else { whole.len() as u64 };
            let from_end = rng.below(within.min(whole.len() as u64)) as usize;
            let Some(at) = whole.len().checked_sub(from_end + 1) else { continue };
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << rng.below(8);
            std::fs::write(&path, &damaged).map_err(failed)?;
            // Files that a reader left beside the catalog belong to the catalog without the flipped bit.
            drop(std::fs::remove_file(copy.join("catalog.sqlite-shm")));
            flips.all += 1;
            let (status, mut texts, errors) = node.search_in(&copy)?;
            texts.sort();
            let reported = status != Some(0);
            flips.reported += u64::from(reported);
            let flip_text = format!("byte {at} of {} was flipped", path.display());
            if !reported && texts != expected {
                return Err(format!("{flip_text}: {} of {} events and no error", texts.len(), expected.len()));
            }
            if reported && errors.trim().is_empty() {
                return Err(format!("{flip_text}: the search ended with {status:?} and without a message"));
            }
            if errors.contains("panicked") {
                return Err(format!("{flip_text}: {errors}"));
            }
        }
        std::fs::write(&path, &whole).map_err(failed)?;
    }
    std::fs::remove_dir_all(&copy).map_err(|error| format!("{}: {error}", copy.display()))?;
    Ok(flips)
}

fn newest_segment(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?;
    let segments = entries.filter_map(|entry| Some(entry.ok()?.path()));
    segments.filter(|path| path.extension().is_some_and(|extension| extension == "log")).max()
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let path = entry?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_folder(&path, &target)?;
        } else if path.is_file() {
            std::fs::copy(&path, &target)?;
        }
    }
    Ok(())
}
