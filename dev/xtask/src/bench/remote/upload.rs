//! Ingest by a server that uploads its buckets at the same time, compared with a server that keeps its buckets on the
//! local disk.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::time::Instant;

use super::super::ingest::add_by_server;
use super::super::server::Server;
use super::{is_uploaded, volume_conf, wait_until_uploaded, write};

/// Lines added: the beginning of the comparison data.
const LINES: usize = 600_000;
/// Runs of either server; the fastest counts.
const RUNS: usize = 2;

/// Prints the rates and returns the ratio.
pub(super) fn run(input: &Path, folder: &Path, url: &str) -> Result<f64, String> {
    let cut = folder.join("upload.log");
    let bytes = cut_lines(input, &cut).map_err(|error| format!("{}: {error}", cut.display()))?;
    let mut rates = [0.0_f64; 2];
    for _ in 0..RUNS {
        for (rate, volume) in rates.iter_mut().zip([None, Some(url)]) {
            *rate = rate.max(bytes as f64 / 1e6 / one(&cut, &folder.join("quarry-upload"), volume)?);
        }
    }
    drop(fs::remove_file(&cut));
    let ratio = rates[1] / rates[0];
    println!("\ningest by a server: {:.1} MB/s, with upload {:.1} MB/s ({:.0} %)", rates[0], rates[1], ratio * 100.0);
    Ok(ratio)
}

/// Measures the seconds that adding takes, and checks that all sealed buckets arrive on the volume.
fn one(input: &Path, data: &Path, url: Option<&str>) -> Result<f64, String> {
    if data.exists() {
        fs::remove_dir_all(data).map_err(|error| format!("{}: {error}", data.display()))?;
    }
    fs::create_dir_all(data.join("etc/system/local")).map_err(|error| format!("{}: {error}", data.display()))?;
    if let Some(url) = url {
        write(data, "indexes.conf", &volume_conf(url, "upload"))?;
        write(data, "server.conf", "[cachemanager]\neviction_padding = 1000000000\n")?;
    }
    let server = Server::start(data)?;
    let start = Instant::now();
    add_by_server(input, "comparison", "main", data)?;
    let seconds = start.elapsed().as_secs_f64();
    if url.is_some() {
        // Stopping finishes a seal in progress; uploads continue after the next start.
        server.stop()?;
        let server = Server::start(data)?;
        wait_until_uploaded(data)?;
        assert!(is_uploaded(data)?, "an uploaded bucket stays on the volume");
        drop(server);
    }
    drop(fs::remove_dir_all(data));
    Ok(seconds)
}

fn cut_lines(input: &Path, cut: &Path) -> std::io::Result<usize> {
    let mut out = std::io::BufWriter::new(fs::File::create(cut)?);
    let mut bytes = 0;
    for line in BufReader::new(fs::File::open(input)?).lines().take(LINES) {
        let line = line?;
        bytes += line.len() + 1;
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    Ok(bytes)
}
