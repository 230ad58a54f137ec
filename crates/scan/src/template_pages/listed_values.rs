//! Lists of the values of a slab's dictionary columns, for pattern planners: the bytes and lengths of values often do
//! not tell whether a pattern matches, but the values do.
//!
//! Not here: planning ([`super::extracts`], [`super::rex`]); short lists, which are among a column's traits.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_event::template::{ColumnKind, Dictionary, TemplateSet};

/// Maximum number of values of a list. A larger dictionary has no list, because examining its values costs more than it
/// saves.
const VALUES_MAX: u32 = 2_048;
/// Maximum total bytes of the values of a list.
const BYTES_MAX: usize = 32 << 10;

/// The lists of one slab, by column; `None` for a column without a list.
#[derive(Default)]
pub(super) struct ListedValues {
    known: HashMap<u32, Option<Arc<[Box<str>]>>, FixedState>,
}

impl ListedValues {
    /// The values of a column in ascending order; `None` if the column is not a dictionary, is a large dictionary, or
    /// cannot be read.
    pub(super) fn of_column(
        &mut self,
        template_set: &TemplateSet,
        column: u32,
        dictionary: &dyn Fn(u32) -> Option<Arc<Dictionary>>,
    ) -> Option<Arc<[Box<str>]>> {
        let find = || {
            match template_set.columns.get(column as usize)?.kind {
                ColumnKind::Dictionary { len } if len <= VALUES_MAX => {}
                _ => return None,
            }
            let values = dictionary(column)?;
            if values.iter().map(<[u8]>::len).sum::<usize>() > BYTES_MAX {
                return None;
            }
            values.iter().map(|value| std::str::from_utf8(value).ok().map(Box::from)).collect()
        };
        self.known.entry(column).or_insert_with(find).clone()
    }
}
