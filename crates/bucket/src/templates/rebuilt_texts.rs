//! Rebuilds texts from the columns in memory, to check the columns against the texts. Debug builds and tests only.

use quarry_event::EventBatch;
use quarry_event::template::TemplatePart;

use super::{SlabValues, TemplateSlab};

/// Reads all columns of a slab in order of events.
pub(super) struct ColumnFiller<'s> {
    slab: &'s TemplateSlab,
    /// Number of values read of each column.
    read: Vec<usize>,
}

impl<'s> ColumnFiller<'s> {
    pub(super) fn new(slab: &'s TemplateSlab) -> ColumnFiller<'s> {
        ColumnFiller { slab, read: vec![0; slab.columns.len()] }
    }

    /// Appends the next value of a column.
    pub(super) fn append_next(&mut self, column: usize, out: &mut Vec<u8>) {
        let slab = self.slab;
        let at = self.read[column];
        self.read[column] += 1;
        let text = |bytes: &[u8], ends: &[u32], at: usize, out: &mut Vec<u8>| {
            let start = if at == 0 { 0 } else { ends[at - 1] as usize };
            out.extend_from_slice(&bytes[start..ends[at] as usize]);
        };
        match &slab.columns[column].values {
            SlabValues::Templates { templates, codes } => {
                for part in &templates[codes[at] as usize].parts {
                    match part {
                        TemplatePart::Literal(literal) => out.extend_from_slice(literal),
                        TemplatePart::Variable(variable) => self.append_next(*variable as usize, out),
                    }
                }
            }
            SlabValues::Dictionary { bytes, ends, codes } => text(bytes, ends, codes[at] as usize, out),
            SlabValues::Numbers { format, numbers } => format.write(numbers[at], out),
            SlabValues::Texts { bytes, ends } => text(bytes, ends, at, out),
        }
    }
}

/// Whether the columns restore every text.
pub(super) fn restores_texts(slab: &TemplateSlab, events: &EventBatch) -> bool {
    let mut filler = ColumnFiller::new(slab);
    let mut text = Vec::new();
    (0..events.len()).all(|row| {
        text.clear();
        filler.append_next(0, &mut text);
        text == events.raw(row)
    })
}
