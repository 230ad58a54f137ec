//! Writes irregular logs, and repeats of each file in a folder of samples, to files: `irregular_logs FOLDER MEGABYTES
//! SAMPLES_FOLDER`. A development tool.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use quarry_eventgen::irregular_logs::Irregular;
use quarry_eventgen::repeats::{Stamp, repeat};

const SEED: u64 = 11;
const START_S: i64 = 1_795_132_800;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = PathBuf::from(&arguments[0]);
    let bytes = arguments[1].parse::<u64>().unwrap() << 20;
    std::fs::create_dir_all(&folder).unwrap();
    for entry in std::fs::read_dir(&arguments[2]).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let sample = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        to_file(&folder, name, |each| repeat(&sample, Stamp::of(name), SEED, bytes, START_S, each));
    }
    for kind in Irregular::ALL {
        to_file(&folder, kind.name(), |each| kind.write(SEED, bytes, START_S, each));
    }
}

fn to_file(folder: &Path, name: &str, make: impl FnOnce(&mut dyn FnMut(&str))) {
    let mut file = BufWriter::new(File::create(folder.join(name)).unwrap());
    make(&mut |event| writeln!(file, "{event}").unwrap());
    file.flush().unwrap();
    println!("{name}");
}
