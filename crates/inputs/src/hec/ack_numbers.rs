//! Acknowledgment numbers that are never issued twice, even after a crash.
//!
//! After a crash, a sender may query a number that it received before the crash, although the events of that request
//! are lost. If the number had been issued again to another request, the sender would learn that the lost events are
//! stored. Numbers are therefore reserved in blocks: a file holds the end of the last block, and it is synced before a
//! number of that block is issued. A new process begins at the end stored in the file. Clocks are not used.
//!
//! Not here: the mapping of numbers to requests, and data directories restored from a copy, whose file has only the
//! numbers issued before the copy was made.

use std::io::ErrorKind;
use std::path::PathBuf;

use quarry_stdx::{Fault, private_file};

/// Size of a block: small enough that numbers stay small on a node that restarts often, and large enough that the file
/// is rarely written.
const BLOCK: u64 = 1 << 16;
/// Maximum number; larger integers are rounded by JavaScript and other readers of JSON.
const NUMBER_MAX: u64 = 1 << 53;

/// The numbers that a process may issue.
#[derive(Debug, Default)]
pub struct AckNumbers {
    /// File with the end of the last block; `None` if numbers need not outlive the process.
    file: Option<PathBuf>,
    /// First number of this process.
    first: u64,
    /// End of the reserved numbers, exclusive.
    end: u64,
}

impl AckNumbers {
    /// Opens `file` and begins after the numbers of earlier processes, or at 0 if there is no file yet.
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

    /// Reserves the numbers up to and including `number`.
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
    fn numbers_of_a_new_process_exceed_all_earlier_ones() {
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
    fn damaged_or_unwritable_files_issue_no_numbers() {
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
