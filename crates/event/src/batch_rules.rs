//! Checks of the invariants of an [`EventBatch`] at crate boundaries: before it is stored, and before it is encoded.

use quarry_stdx::{ErrorKind, HasKind};

use crate::EventBatch;

/// A violated invariant: a bug in the code that built the batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchFault {
    /// A column's length differs from the number of events.
    #[error("{column} has {len} entries for {events} events")]
    Length {
        /// Name of the column.
        column: &'static str,
        /// Length of the column.
        len: usize,
        /// Number of events in the batch.
        events: usize,
    },
    /// The texts are not UTF-8.
    #[error("the text is not UTF-8: {0}")]
    Encoding(#[from] std::str::Utf8Error),
    /// Bytes of text belong to no event, or text is missing.
    #[error("the last event does not end with the text's {bytes} bytes")]
    TextEnd {
        /// Total length of the texts in bytes.
        bytes: usize,
    },
    /// An event's end is not at a valid position.
    #[error("event {row} ends at byte {end}, before its start or inside a character")]
    EventEnd {
        /// Row of the event.
        row: usize,
        /// End of the event.
        end: u32,
    },
    /// An event refers to metadata that the batch does not have.
    #[error("event {row} has metadata {meta} of {metas}")]
    Metadata {
        /// Row of the event.
        row: usize,
        /// Index of the event's metadata.
        meta: u32,
        /// Number of metadata entries in the batch.
        metas: usize,
    },
    /// Index-time fields are out of order.
    #[error("the indexed fields do not ascend by row")]
    FieldOrder,
    /// An index-time field refers to no event.
    #[error("a field belongs to row {row} of {events}")]
    FieldRow {
        /// The row to which the field refers.
        row: u32,
        /// Number of events in the batch.
        events: usize,
    },
}

impl HasKind for BatchFault {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Bug
    }
}

impl EventBatch {
    /// Checks the batch's invariants.
    pub fn check(&self) -> Result<(), BatchFault> {
        let events = self.len();
        for (column, len) in [("time", self.time.len()), ("meta", self.meta.len())] {
            if len != events {
                return Err(BatchFault::Length { column, len, events });
            }
        }
        self.check_text()?;
        if let Some(row) = self.meta.iter().position(|meta| *meta as usize >= self.metas.len()) {
            return Err(BatchFault::Metadata { row, meta: self.meta[row], metas: self.metas.len() });
        }
        let rows = self.fields.all().rows();
        if !rows.clone().is_sorted() {
            return Err(BatchFault::FieldOrder);
        }
        match rows.last() {
            Some(row) if row as usize >= events => Err(BatchFault::FieldRow { row, events }),
            _ => Ok(()),
        }
    }

    fn check_text(&self) -> Result<(), BatchFault> {
        // ASCII text, as in most logs, can be split anywhere.
        let text = match self.raw.is_ascii() {
            true => None,
            false => Some(std::str::from_utf8(&self.raw)?),
        };
        let bytes = self.raw.len();
        if self.ends.last().copied().unwrap_or(0) as usize != bytes {
            return Err(BatchFault::TextEnd { bytes });
        }
        let mut last = 0;
        for (row, end) in self.ends.iter().copied().enumerate() {
            let is_border = text.map_or(end as usize <= bytes, |text| text.is_char_boundary(end as usize));
            if end < last || !is_border {
                return Err(BatchFault::EventEnd { row, end });
            }
            last = end;
        }
        Ok(())
    }
}
