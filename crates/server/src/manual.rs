//! `quarry man`: manual pages, generated from the definition of the command line.

use std::io::Write;
use std::path::Path;

use clap::CommandFactory;
use clap_mangen::Man;
use quarry_stdx::log;

use crate::cli::Cli;
use crate::failure::Failure;

/// Writes the page of the program to `out`, or the pages of all verbs to a folder.
pub(crate) fn write(folder: Option<&Path>, out: &mut dyn Write) -> Result<u8, Failure> {
    let Some(folder) = folder else {
        let mut page = Vec::new();
        Man::new(Cli::command()).render(&mut page)?;
        out.write_all(&page)?;
        return Ok(0);
    };
    let cannot = |error: std::io::Error| Failure::Storage(format!("cannot write to {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(cannot)?;
    clap_mangen::generate_to(Cli::command(), folder).map_err(cannot)?;
    log::info(format!("manual pages written to {0}: `man -l {0}/quarry.1`", folder.display()));
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_name_verbs_options_and_exit_codes() {
        let mut page = Vec::new();
        write(None, &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        for word in ["quarry\\-search(1)", "quarry\\-dispatch(1)", "data\\-dir", "Exit codes"] {
            assert!(page.contains(word), "{word}");
        }
        let folder = tempfile::tempdir().unwrap();
        write(Some(folder.path()), &mut Vec::new()).unwrap();
        let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(text("quarry-search.1").contains("maxout"));
        assert!(text("quarry-add-monitor.1").contains("sourcetype"));
        assert!(text("quarry-add.1").contains("Watched files and folders"));
    }
}
