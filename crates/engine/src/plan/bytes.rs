//! A plan as bytes, for another node of the same version.
//!
//! The layout is that of `postcard` over the types of the plan and of the syntax tree, behind the version of the program,
//! which a node of another version refuses. It follows from the types alone: builds between two releases share a version
//! and must not be mixed. Nothing on disk has it.
//!
//! Not here: who may send a plan. How deep the bytes nest is not bounded, so they are read from trusted nodes alone.

use super::Plan;
use crate::EngineError;

/// The program and its version, in front of the plan.
const VERSION: &str = concat!("quarry plan ", env!("CARGO_PKG_VERSION"));
/// Bytes of a plan at most; what a large subsearch found is part of its condition.
const BYTES_MAX: usize = 64 << 20;

impl Plan {
    /// The plan as bytes, for [`Plan::from_bytes`] of the same version.
    pub fn to_bytes(&self) -> Result<Vec<u8>, EngineError> {
        let bytes = postcard::to_stdvec(&(VERSION, self))
            .map_err(|fault| EngineError::invalid(format!("the plan cannot be written: {fault}")))?;
        if bytes.len() > BYTES_MAX {
            let what = "a plan is too large to be sent; narrow the subsearches of its condition".to_owned();
            return Err(EngineError::Limit { what, limit: "plan bytes", value: BYTES_MAX as u64 });
        }
        Ok(bytes)
    }

    /// The plan that these bytes are; an error where they are damaged or of another version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Plan, EngineError> {
        let refused = |why: String| EngineError::invalid(format!("these bytes are no plan: {why}"));
        if bytes.len() > BYTES_MAX {
            return Err(refused(format!("they are more than {BYTES_MAX}")));
        }
        let (version, rest): (String, _) =
            postcard::take_from_bytes(bytes).map_err(|fault| refused(fault.to_string()))?;
        if version != VERSION {
            return Err(refused(format!(
                "they are of `{version}`, this is `{VERSION}`: run the same version on all nodes"
            )));
        }
        match postcard::take_from_bytes(rest).map_err(|fault| refused(fault.to_string()))? {
            (plan, []) => Ok(plan),
            (_, rest) => Err(refused(format!("{} bytes are left over", rest.len()))),
        }
    }
}
