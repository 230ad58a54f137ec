//! Checks of the invariants of an [`EventBatch`] at crate boundaries: before it is stored, and before it is encoded.

use quarry_stdx::Fault;

use crate::EventBatch;

impl EventBatch {
    /// Checks the batch's invariants. A violation is a bug in the code that built the batch.
    pub fn check(&self) -> Result<(), Fault> {
        let events = self.len();
        for (column, len) in [("time", self.time.len()), ("meta", self.meta.len())] {
            if len != events {
                return Err(Fault::bug(format!("{column} has {len} entries for {events} events")));
            }
        }
        self.check_text()?;
        if let Some(row) = self.meta.iter().position(|meta| *meta as usize >= self.metas.len()) {
            let (meta, metas) = (self.meta[row], self.metas.len());
            return Err(Fault::bug(format!("event {row} has metadata {meta} of {metas}")));
        }
        let rows = self.fields.all().rows();
        if !rows.clone().is_sorted() {
            return Err(Fault::bug("the indexed fields do not ascend by row"));
        }
        match rows.last() {
            Some(row) if row as usize >= events => Err(Fault::bug(format!("a field belongs to row {row} of {events}"))),
            _ => Ok(()),
        }
    }

    fn check_text(&self) -> Result<(), Fault> {
        // ASCII text, as in most logs, can be split anywhere.
        let text = match self.raw.is_ascii() {
            true => None,
            false => Some(
                std::str::from_utf8(&self.raw)
                    .map_err(|error| Fault::bug(format!("the text is not UTF-8: {error}")))?,
            ),
        };
        let bytes = self.raw.len();
        if self.ends.last().copied().unwrap_or(0) as usize != bytes {
            return Err(Fault::bug(format!("the last event does not end with the text's {bytes} bytes")));
        }
        let mut last = 0;
        for (row, end) in self.ends.iter().copied().enumerate() {
            let is_border = text.map_or(end as usize <= bytes, |text| text.is_char_boundary(end as usize));
            if end < last || !is_border {
                return Err(Fault::bug(format!(
                    "event {row} ends at byte {end}, before its start or inside a character"
                )));
            }
            last = end;
        }
        Ok(())
    }
}
