//! The results file of an alert action: the rows of a search as compressed CSV in a folder of its own, removed when the
//! value is dropped.
//!
//! A killed process leaves its folders behind; the next process that writes a results file removes the folders of dead
//! processes.

use std::fs::{DirBuilder, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use quarry_engine::FillTable;
use quarry_stdx::{Fault, random};
use rustix::process::{Pid, test_kill_process};

/// Parent of the folders of results files, relative to the data directory.
const FOLDER: &str = "run/alerts";
/// Name of the results file.
const FILE: &str = "results.csv.gz";
/// Maximum size of the compressed file.
const BYTES_MAX: u64 = 1 << 30;
/// Accessible to this user only.
const MODE: u32 = 0o700;

/// A written file.
pub(super) struct ResultsFile {
    folder: PathBuf,
}

impl ResultsFile {
    /// Writes the output of `fill` into a new file.
    pub(super) fn write(data_dir: &Path, fill: FillTable<'_>) -> Result<ResultsFile, Fault> {
        let parent = data_dir.canonicalize().map_err(|error| Fault::io(data_dir.display(), error))?.join(FOLDER);
        let failed =
            |error: std::io::Error| Fault::io(format!("the results cannot be written to {}", parent.display()), error);
        std::fs::create_dir_all(&parent).map_err(failed)?;
        remove_leftovers(&parent);
        let folder = parent.join(format!("{}-{}", std::process::id(), random::id::<8>()));
        DirBuilder::new().mode(MODE).create(&folder).map_err(failed)?;
        // From here on, dropping the value removes the folder.
        let written = ResultsFile { folder };
        let file = File::create_new(written.path()).map_err(failed)?;
        let mut out = GzEncoder::new(LimitedWriter { out: BufWriter::new(file), left: BYTES_MAX }, Compression::fast());
        fill(&mut out)?;
        let mut out = out.finish().map_err(failed)?;
        out.flush().map_err(failed)?;
        Ok(written)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.join(FILE)
    }
}

impl Drop for ResultsFile {
    fn drop(&mut self) {
        // If removing fails, a later process removes the folder.
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// Removes folders of dead processes.
fn remove_leftovers(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.split_once('-').and_then(|(process, _)| process.parse().ok()).and_then(Pid::from_raw);
        let is_gone = process.is_some_and(|process| test_kill_process(process) == Err(rustix::io::Errno::SRCH));
        if is_gone {
            drop(std::fs::remove_dir_all(entry.path()));
        }
    }
}

/// A writer with a maximum size.
struct LimitedWriter<W> {
    out: W,
    left: u64,
}

impl<W: Write> Write for LimitedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if bytes.len() as u64 > self.left {
            return Err(std::io::Error::other(format!("more than the limit of {BYTES_MAX} bytes; give fewer rows")));
        }
        let written = self.out.write(bytes)?;
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn files_are_removed_when_dropped() {
        let data = tempfile::tempdir().unwrap();
        let left = data.path().join(FOLDER).join(format!("{}-0", i32::MAX));
        std::fs::create_dir_all(&left).unwrap();
        let mut fill = |out: &mut dyn Write| out.write_all(b"a,b\n1,2\n").map_err(|error| Fault::io("results", error));
        let file = ResultsFile::write(data.path(), &mut fill).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(File::open(file.path()).unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "a,b\n1,2\n");
        let path = file.path();
        drop(file);
        assert!(!path.exists() && !path.parent().unwrap().exists());
        assert!(!left.exists(), "no process has this number");
        let mut fails = |_: &mut dyn Write| Err(Fault::invalid("no rows"));
        assert_eq!(ResultsFile::write(data.path(), &mut fails).err().unwrap(), Fault::invalid("no rows"));
        assert_eq!(std::fs::read_dir(data.path().join(FOLDER)).unwrap().count(), 0);
    }

    #[test]
    fn file_size_is_limited() {
        let mut out = LimitedWriter { out: Vec::new(), left: 3 };
        assert_eq!(out.write(b"ab").unwrap(), 2);
        assert!(out.write(b"cd").unwrap_err().to_string().contains("limit"));
    }
}
