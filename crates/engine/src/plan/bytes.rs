//! Serialization of plans, for another node of the same version.
//!
//! The format is `postcard` over the types of the plan and the syntax tree, preceded by the program's version, which
//! a node of another version rejects. The format depends on the types alone, which may differ between builds of the
//! same version; such builds must not be mixed. Plans are never stored on disk.
//!
//! Not here: who may send a plan. Nesting depth is not bounded, so plans must only be read from trusted nodes.

use super::Plan;
use crate::EngineError;

/// Program and version, before the plan.
const VERSION: &str = concat!("quarry plan ", env!("CARGO_PKG_VERSION"));
/// Maximum bytes of a plan; it includes the results of large subsearches as part of the condition.
const BYTES_MAX: usize = 64 << 20;

impl Plan {
    /// Serializes the plan, for [`Plan::from_bytes`] of the same version.
    pub fn to_bytes(&self) -> Result<Vec<u8>, EngineError> {
        let bytes = postcard::to_stdvec(&(VERSION, self))
            .map_err(|fault| EngineError::invalid(format!("the plan cannot be written: {fault}")))?;
        if bytes.len() > BYTES_MAX {
            let what = "a plan is too large to be sent; narrow the subsearches of its condition".to_owned();
            return Err(EngineError::Limit { what, limit: "plan bytes", value: BYTES_MAX as u64 });
        }
        Ok(bytes)
    }

    /// Deserializes a plan; an error if the bytes are damaged or of another version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Plan, EngineError> {
        let refused = |why: String| EngineError::invalid(format!("the bytes are not a valid plan: {why}"));
        if bytes.len() > BYTES_MAX {
            return Err(refused(format!("they are more than {BYTES_MAX}")));
        }
        let (version, rest): (String, _) =
            postcard::take_from_bytes(bytes).map_err(|fault| refused(fault.to_string()))?;
        if version != VERSION {
            return Err(refused(format!(
                "they come from version `{version}`, this is `{VERSION}`: run the same version on all nodes"
            )));
        }
        match postcard::take_from_bytes(rest).map_err(|fault| refused(fault.to_string()))? {
            (plan, []) => Ok(plan),
            (_, rest) => Err(refused(format!("{} bytes are left over", rest.len()))),
        }
    }
}
