//! Names of the fields in JSON texts.

use std::collections::BTreeSet;

use quarry_event::template::{ColumnKind, Template};
use quarry_pipeline::extract::{extracted_name, json_fields};

use super::prose::is_prose;
use super::{JsonColumns, KEY_PLACEHOLDER, as_object, join_paths, members_at};

impl JsonColumns<'_> {
    /// The names of all fields in the texts of a template; `None` if values may add names.
    pub(in crate::template_pages) fn names(&self, template: &Template) -> Option<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        if !is_prose(template) && !self.begins_as_prose(template) {
            self.add_names_below("", template, &mut names)?;
        }
        Some(names)
    }

    /// Adds the names of all fields in texts that are the value at the path `outside`. The recursion ends, because a
    /// column is never nested in itself.
    fn add_names_below(&self, outside: &str, template: &Template, names: &mut BTreeSet<String>) -> Option<()> {
        let sample = self.sample(template)?;
        let (mut members, mut is_open) = (Vec::new(), false);
        let whole = json_fields(&sample.text, &mut |path, _| {
            let path = join_paths(outside, path);
            match members_at(&path).filter(|_| sample.has_members) {
                Some((object, column)) => members.push((object.to_owned(), column)),
                None => {
                    is_open |= sample.has_key_variables && path.contains(KEY_PLACEHOLDER);
                    names.insert(extracted_name(&path).to_owned());
                }
            }
        });
        if is_open || (!whole && !sample.breaks_alike()) {
            return None;
        }
        for (object, column) in members {
            let ColumnKind::Templates(forms) = &self.template_set.columns.get(column as usize)?.kind else {
                return None;
            };
            for form in forms.iter().filter(|form| !form.parts.is_empty()) {
                self.add_names_below(&object, &as_object(form)?.0, names)?;
            }
        }
        Some(())
    }
}
