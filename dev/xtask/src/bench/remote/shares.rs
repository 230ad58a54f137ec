//! Searches whose data is partly in the cache, as in the SmartStore paper's table: with 100, 75, 50, 25 and 0 % of the
//! data in the cache.
//!
//! A search fills the cache; then a part of the cache's files, chosen by a fixed rule, is deleted while no server runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::super::server::Server;

/// Parts of the data in the cache, in percent.
const SHARES: [u64; 5] = [100, 75, 50, 25, 0];
/// A sparse search, which finds one event in a thousand, and a dense one, which reads every text.
const SEARCHES: [(&str, &str); 2] =
    [("sparse", "every1k | stats count"), ("dense", "index=main | eval n=len(_raw) | stats sum(n)")];
/// Times in the SmartStore paper of a sparse and a dense search, with and without the data in the cache.
const PAPER: &str = "SmartStore paper: sparse 2.2 s in the cache, 419 s out of it; dense 204 s and 460 s";

/// Measures the searches and prints the table.
pub(super) fn run(far: &Path) -> Result<(), String> {
    println!("\nmilliseconds with a part of the data in the cache ({PAPER})");
    println!("{:<10} {:>9} {:>9} {:>9} {:>9} {:>9}", "search", "100 %", "75 %", "50 %", "25 %", "0 %");
    for (name, search) in SEARCHES {
        let mut line = format!("{name:<10}");
        let mut expected = None;
        for share in SHARES {
            {
                let server = Server::start(far)?;
                let answer = server.connect()?.search(search)?;
                if expected.get_or_insert_with(|| answer.clone()) != &answer {
                    return Err(format!("{search}: {answer}"));
                }
            }
            remove_all_but(share, &far.join("cache"))?;
            let server = Server::start(far)?;
            let mut connection = server.connect()?;
            let start = Instant::now();
            let answer = connection.search(search)?;
            line.push_str(&format!(" {:>9.1}", start.elapsed().as_secs_f64() * 1_000.0));
            if expected.as_ref() != Some(&answer) {
                return Err(format!("{search} with {share} % in the cache: {answer}"));
            }
        }
        println!("{line}");
    }
    Ok(())
}

/// Deletes files of the cache, so that about `share` percent of them remain, evenly spread.
fn remove_all_but(share: u64, cache: &Path) -> Result<(), String> {
    let mut files = Vec::new();
    collect(cache, &mut files).map_err(|error| format!("{}: {error}", cache.display()))?;
    files.sort();
    for (number, file) in (0_u64..).zip(files) {
        // 61 is coprime to 100, so exactly `share` of each hundred files are kept.
        if number * 61 % 100 >= share {
            fs::remove_file(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        }
    }
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => collect(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}
