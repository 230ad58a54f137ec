//! What an error means to its caller, whichever crate it comes from.
//!
//! Each crate has error enums of its own, whose texts say what, where and what to do; their `kind()` is what an exit code or
//! a status of HTTP follows from.

/// What an error means to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request cannot be met as it is: wrong, or beyond a limit. The caller has to change it.
    Invalid,
    /// What is asked for does not exist.
    NotFound,
    /// The caller may not do this.
    Denied,
    /// Others are at work; the same request may succeed soon.
    Busy,
    /// The machine or another node fails: disk, memory, network, or a file of a newer version. Somebody has to look.
    Unavailable,
    /// Something that was stored is damaged or gone.
    Corrupt,
    /// A bug of the program.
    Bug,
}
