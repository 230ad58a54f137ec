//! A request that its sender repeats if it gets no response, such as a request to the HTTP Event Collector.

/// Identity of a request from its first event to its response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentRequest {
    /// Hash of sender and content.
    pub key: u128,
    /// Distinguishes requests within one run; 0 if the store keeps no record of requests.
    pub id: u64,
}
