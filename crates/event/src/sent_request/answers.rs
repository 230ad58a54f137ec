//! The file that records which parts of requests were answered: a header, and *slots* of fixed size, one for each part.
//!
//! A slot is written directly before the answer is sent, and is not synced. A part counts as unanswered only if that is
//! certain: not after a failure of the machine itself, when answers may be missing, and not if its slot is unreadable.
//!
//! Not here: reading and writing the file.

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// Number of slots. Slots are reused, so there are far more slots than parts that may be unanswered
/// ([`UNANSWERED_PARTS_MAX`](super::UNANSWERED_PARTS_MAX)).
pub const ANSWER_SLOTS: u64 = 65_536;
/// Size of the header: magic, run, boot id and checksum. The slots follow.
pub const ANSWERS_HEADER_BYTES: usize = 64;
/// Size of a slot: part number and checksum.
const ANSWER_SLOT_BYTES: usize = 16;
const MAGIC: &[u8; 8] = b"QRYANSW\n";

/// The header of a file of answers for a run of the program in a boot of the machine.
pub fn answers_header(run: u64, boot: Option<u128>) -> [u8; ANSWERS_HEADER_BYTES] {
    let mut out = [0; ANSWERS_HEADER_BYTES];
    out[..8].copy_from_slice(MAGIC);
    out[8..16].copy_from_slice(&run.to_le_bytes());
    out[16..32].copy_from_slice(&boot.unwrap_or(0).to_le_bytes());
    let checksum = xxh3_128(&out[..48]);
    out[48..].copy_from_slice(&checksum.to_le_bytes());
    out
}

/// The slot of a part that was answered.
fn answer_slot(run: u64, number: u64) -> [u8; ANSWER_SLOT_BYTES] {
    let mut out = [0; ANSWER_SLOT_BYTES];
    out[..8].copy_from_slice(&(number + 1).to_le_bytes());
    let mut sealed = [0; ANSWER_SLOT_BYTES];
    sealed[..8].copy_from_slice(&run.to_le_bytes());
    sealed[8..].copy_from_slice(&out[..8]);
    out[8..].copy_from_slice(&xxh3_64(&sealed).to_le_bytes());
    out
}

/// The bytes to write when the parts with these numbers are answered, with their offsets in the file. Adjacent slots are one
/// write, because fewer writes shorten the time in which a crash leaves an answer recorded but not sent.
pub fn answer_writes(run: u64, numbers: impl IntoIterator<Item = u64>) -> Vec<(u64, Vec<u8>)> {
    let mut places: Vec<(u64, u64)> = numbers.into_iter().map(|number| (number % ANSWER_SLOTS, number)).collect();
    places.sort_unstable();
    let adjacent = places.chunk_by(|(place, _), (next, _)| place + 1 == *next);
    let write = |adjacent: &[(u64, u64)]| {
        let first = adjacent.first().map_or(0, |(place, _)| *place);
        let slots = adjacent.iter().flat_map(|(_, number)| answer_slot(run, *number)).collect();
        (ANSWERS_HEADER_BYTES as u64 + first * ANSWER_SLOT_BYTES as u64, slots)
    };
    adjacent.map(write).collect()
}

/// The recorded answers of a run.
#[derive(Clone, Debug, Default)]
pub struct RecordedAnswers {
    /// The run whose answers are recorded; 0 (before the first run) if unknown.
    pub run: u64,
    slots: Vec<u8>,
}

impl RecordedAnswers {
    /// Decodes a file. If it is from another boot or incomplete, no answers are known.
    pub fn decode(bytes: &[u8], boot: Option<u128>) -> RecordedAnswers {
        let Some((head, slots)) = bytes.split_first_chunk::<ANSWERS_HEADER_BYTES>() else {
            return RecordedAnswers::default();
        };
        let run = u64::from_le_bytes(*head[8..].first_chunk().unwrap_or(&[0; 8]));
        if boot.is_none() || answers_header(run, boot) != *head {
            return RecordedAnswers::default();
        }
        RecordedAnswers { run, slots: slots.to_vec() }
    }

    /// Whether a part of the run was certainly not answered.
    pub fn is_open(&self, number: u64) -> bool {
        let at = (number % ANSWER_SLOTS) as usize * ANSWER_SLOT_BYTES;
        match self.slots.get(at..at + ANSWER_SLOT_BYTES) {
            // The file ends with the last answer, so parts beyond its end are unanswered.
            None => self.slots.len() <= at,
            Some(found) if found.iter().all(|byte| *byte == 0) => true,
            // If an older part occupies the slot, this part was not answered. A newer part or an unreadable slot proves
            // nothing.
            Some(found) => {
                let written = u64::from_le_bytes(*found.first_chunk().unwrap_or(&[0; 8])).wrapping_sub(1);
                written < number && answer_slot(self.run, written) == *found
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_certainly_unanswered_parts_are_open() {
        let mut file = answers_header(9, Some(3)).to_vec();
        let write = |file: &mut Vec<u8>, numbers: &[u64]| {
            for (offset, bytes) in answer_writes(9, numbers.iter().copied()) {
                let end = offset as usize + bytes.len();
                file.resize(file.len().max(end), 0);
                file[offset as usize..end].copy_from_slice(&bytes);
            }
        };
        write(&mut file, &[1, 3, 4]);
        file[ANSWERS_HEADER_BYTES + 2 * ANSWER_SLOT_BYTES] = 7;
        let answers = RecordedAnswers::decode(&file, Some(3));
        let open = [0, 1, 2, 3, 4, 8, 3 + ANSWER_SLOTS].map(|number| answers.is_open(number));
        assert_eq!(open, [true, false, false, false, false, true, true]);
        write(&mut file, &[3 + ANSWER_SLOTS]);
        assert!(!RecordedAnswers::decode(&file, Some(3)).is_open(3));
        for (bytes, boot) in [(&file[..], None), (&file[..], Some(4)), (&file[..40], Some(3))] {
            assert_eq!(RecordedAnswers::decode(bytes, boot).run, 0);
        }
        file[9] ^= 1;
        assert_eq!(RecordedAnswers::decode(&file, Some(3)).run, 0);
    }
}
