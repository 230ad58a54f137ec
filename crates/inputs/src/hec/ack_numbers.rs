//! Numbers of acknowledgments that are never given twice, whatever happens to the process.
//!
//! A sender may ask after a crash for a number it received before, whose events are lost. If that number then belonged
//! to another request, the sender would be told that the lost events are stored. So numbers are reserved in blocks: a file
//! holds the end of the last block, and is on disk before a number of the block is given. A process begins at the end
//! it finds. Clocks play no part.
//!
//! Not here: which request has which number, and data directories restored from a copy, whose file knows only the
//! numbers given before the copy was made.

use std::io::ErrorKind;
use std::path::PathBuf;

use quarry_stdx::{Fault, private_file};

/// Numbers of a block: few enough that a node which restarts often keeps small numbers, and enough that the file is
/// rarely written.
const BLOCK: u64 = 1 << 16;
/// Maximum number; beyond it, JavaScript and other readers of JSON round.
const NUMBER_MAX: u64 = 1 << 53;

/// The numbers that a process may give.
#[derive(Debug, Default)]
pub struct AckNumbers {
    /// `None` if numbers need not outlive the process.
    file: Option<PathBuf>,
    /// First number of this process.
    first: u64,
    /// End of the numbers that may be given.
    end: u64,
}

impl AckNumbers {
    /// The numbers after those of earlier processes with the same file; from 0 if there is no file yet.
    pub fn open(file: PathBuf) -> Result<AckNumbers, Fault> {
        let found = match std::fs::read_to_string(&file) {
            Ok(text) => text.trim().parse::<u64>().ok().filter(|end| *end <= NUMBER_MAX),
            Err(error) if error.kind() == ErrorKind::NotFound => Some(0),
            Err(error) => return Err(Fault::io(format_args!("cannot read {}", file.display()), error)),
        };
        let first = found.ok_or_else(|| {
            let what = "is not the next ackId of the HTTP Event Collector";
            let remedy =
                "write a number above every ackId that senders received, or remove the file if none waits for one";
            Fault::corrupt(format!("{} {what}; {remedy}", file.display()))
        })?;
        Ok(AckNumbers { file: Some(file), first, end: first })
    }

    /// First number of this process.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Makes the numbers up to this one available.
    pub(crate) fn reserve(&mut self, number: u64) -> Result<(), Fault> {
        if number < self.end {
            return Ok(());
        }
        let end = number.saturating_add(BLOCK);
        if end > NUMBER_MAX {
            return Err(Fault::invalid(format!("no ackId is left: {number} is beyond the range of JSON numbers")));
        }
        if let Some(file) = &self.file {
            private_file::write(file, &format!("{end}\n"))?;
        }
        self.end = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_another_process_begin_above_all_that_were_given() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/ack");
        let open = || AckNumbers::open(path.clone()).unwrap();
        let mut one = open();
        assert_eq!((one.first(), open().first()), (0, 0), "what gives no number leaves no trace");
        let mut first = 0;
        for given in [0, 1, BLOCK - 1, BLOCK, 3 * BLOCK] {
            one.reserve(first + given).unwrap();
            let next = open();
            assert!(next.first() > first + given, "{given}: {}", next.first());
            (one, first) = (next, open().first());
        }
    }

    #[test]
    fn a_file_that_is_damaged_or_cannot_be_written_gives_no_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ack");
        for damaged in ["", "x", "-1", "9007199254740993"] {
            std::fs::write(&path, damaged).unwrap();
            let fault = AckNumbers::open(path.clone()).unwrap_err().to_string();
            assert!(
                fault.contains("/ack is not the next ackId") && fault.contains("; write a number above"),
                "{fault}"
            );
        }
        std::fs::write(&path, NUMBER_MAX.to_string()).unwrap();
        assert!(
            AckNumbers::open(path.clone()).unwrap().reserve(NUMBER_MAX).unwrap_err().to_string().contains("no ackId")
        );
        std::fs::remove_file(&path).unwrap();
        let mut numbers = AckNumbers::open(path.join("below")).unwrap();
        std::fs::write(&path, "").unwrap();
        assert!(numbers.reserve(0).is_err() && numbers.reserve(0).is_err(), "no number without its file");
        std::fs::remove_file(&path).unwrap();
        assert!(numbers.reserve(0).is_ok());
    }
}
