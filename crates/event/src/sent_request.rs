//! A request of a sender that would send it again if it got no answer, such as one of the HTTP Event Collector.

/// What such a request is known by, from its first event to its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentRequest {
    /// Hash of sender and content.
    pub key: u128,
    /// Tells requests of one run apart; 0 where the store remembers none.
    pub id: u64,
}
