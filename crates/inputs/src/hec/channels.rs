//! Acknowledgment channels, on which a sender queries whether its requests are stored.
//!
//! A channel numbers its requests, from 0 on in the first process that uses a data directory. A number is never issued
//! twice on a channel, neither after a crash ([`AckNumbers`]) nor after the channel was idle and forgotten, because its
//! sender may still query the earlier request with that number. A request is reported as stored only once, and only
//! after its events are durable. A failed or unknown request is never reported as stored, so that its sender repeats
//! it. Not here: permission to use a channel.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use quarry_event::SentRequest;
use quarry_stdx::Fault;

use super::ack_numbers::AckNumbers;
use crate::Receipt;

/// Maximum number of channels.
const CHANNELS_MAX: usize = 100_000;
/// Maximum number of requests of a channel that are pending or not yet reported as stored, and maximum ids per query.
pub(crate) const PENDING_MAX: usize = 100_000;
/// Maximum number of acknowledgments pending on all channels together, about 200 bytes each.
const TOTAL_PENDING_MAX: usize = 1_000_000;
/// Maximum length of a channel's name; Splunk's are GUIDs.
const NAME_BYTES_MAX: usize = 128;
const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Pending appends of one request.
pub(crate) type Receipts = Vec<Box<dyn Receipt>>;

/// A request waiting to be reported as stored.
struct PendingRequest {
    receipts: Receipts,
    sent: SentRequest,
}

struct Channel {
    next: u64,
    pending: BTreeMap<u64, PendingRequest>,
    /// Monotonic time of last use.
    used_ns: i64,
}

/// All channels of a collector.
pub(crate) struct Channels {
    inner: Mutex<Inner>,
}

struct Inner {
    numbers: AckNumbers,
    /// First number of a new channel; greater than every number of a forgotten channel.
    first: u64,
    /// Channels by token and name.
    channels: BTreeMap<(String, String), Channel>,
    /// Number of requests, on all channels together, that are pending or not yet reported as stored.
    pending: usize,
}

/// State of a request whose number is queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckState {
    /// Not stored yet, or unknown.
    Unknown,
    /// The events are stored; the request is forgotten.
    Stored(SentRequest),
    /// Not all events could be stored; the request is forgotten, and its sender will repeat it.
    Failed(SentRequest),
}

/// Reason for refusing a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ChannelError {
    /// There is no room for another channel or request.
    Full,
    /// No number can be reserved for the request.
    Number(Fault),
}

impl Channels {
    /// Creates an empty set of channels, which issue `numbers`.
    pub(crate) fn new(numbers: AckNumbers) -> Channels {
        let first = numbers.first();
        Channels { inner: Mutex::new(Inner { numbers, first, channels: BTreeMap::new(), pending: 0 }) }
    }

    /// True if a text is a valid channel name: hexadecimal digits, and dashes as in a GUID.
    pub(crate) fn is_name(name: &str) -> bool {
        let hex = name.bytes().filter(u8::is_ascii_hexdigit).count();
        name.len() <= NAME_BYTES_MAX && hex > 0 && name.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    }

    /// Checks that the channel has room for another request and reserves a number for it.
    pub(crate) fn reserve_number(&self, token: &str, name: &str) -> Result<(), ChannelError> {
        let Inner { numbers, first, channels, pending } = &mut *self.lock();
        let next = match channels.get(&(token.to_owned(), name.to_owned())) {
            _ if *pending >= TOTAL_PENDING_MAX => return Err(ChannelError::Full),
            Some(channel) if channel.pending.len() >= PENDING_MAX => return Err(ChannelError::Full),
            None if channels.len() >= CHANNELS_MAX => return Err(ChannelError::Full),
            Some(channel) => channel.next,
            None => *first,
        };
        numbers.reserve(next).map_err(ChannelError::Number)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request to a channel and returns the request's number. If no number can be reserved, the error contains
    /// the receipts.
    pub(crate) fn add(
        &self,
        token: &str,
        name: &str,
        receipts: Receipts,
        sent: SentRequest,
        now_ns: i64,
    ) -> Result<u64, (Fault, Receipts)> {
        let Inner { numbers, first, channels, pending } = &mut *self.lock();
        let new = || Channel { next: *first, pending: BTreeMap::new(), used_ns: now_ns };
        let channel = channels.entry((token.to_owned(), name.to_owned())).or_insert_with(new);
        channel.used_ns = now_ns;
        let number = channel.next;
        // Concurrent requests may have taken the numbers reserved by [`Channels::reserve_number`].
        if let Err(fault) = numbers.reserve(number) {
            return Err((fault, receipts));
        }
        *pending += 1;
        channel.next += 1;
        channel.pending.insert(number, PendingRequest { receipts, sent });
        Ok(number)
    }

    /// Looks up the requests with these numbers; each request that has ended is returned and then forgotten.
    pub(crate) fn query(&self, token: &str, name: &str, numbers: &[u64], now_ns: i64) -> Vec<(u64, AckState)> {
        let Inner { channels, pending, .. } = &mut *self.lock();
        let mut channel = channels.get_mut(&(token.to_owned(), name.to_owned()));
        let mut reported = Vec::with_capacity(numbers.len());
        for number in numbers {
            let state = channel.as_mut().map_or(AckState::Unknown, |channel| {
                channel.used_ns = now_ns;
                let before = channel.pending.len();
                let state = channel.take_if_ended(*number);
                *pending -= before - channel.pending.len();
                state
            });
            reported.push((*number, state));
        }
        reported
    }

    /// Restores stored requests whose report was never sent, so that the sender can query them again. A channel that
    /// was forgotten is not created again.
    pub(crate) fn restore(&self, token: &str, name: &str, stored: &[(u64, SentRequest)]) {
        let Inner { channels, pending, .. } = &mut *self.lock();
        let Some(channel) = channels.get_mut(&(token.to_owned(), name.to_owned())) else { return };
        for (number, sent) in stored {
            if *number < channel.next && !channel.pending.contains_key(number) {
                channel.pending.insert(*number, PendingRequest { receipts: Vec::new(), sent: *sent });
                *pending += 1;
            }
        }
    }

    /// Drops channels that have been idle for `idle_seconds`.
    pub(crate) fn remove_idle(&self, idle_seconds: u64, now_ns: i64) {
        let idle_ns = i64::try_from(idle_seconds.saturating_mul(NANOS_PER_SEC)).unwrap_or(i64::MAX);
        let Inner { first, channels, pending, .. } = &mut *self.lock();
        channels.retain(|_, channel| {
            let is_used = now_ns.saturating_sub(channel.used_ns) < idle_ns;
            if !is_used {
                *first = channel.next.max(*first);
            }
            is_used
        });
        *pending = channels.values().map(|channel| channel.pending.len()).sum();
    }
}

impl Channel {
    fn take_if_ended(&mut self, number: u64) -> AckState {
        let is_done =
            self.pending.get(&number).is_some_and(|waiting| waiting.receipts.iter().all(|receipt| receipt.is_done()));
        let Some(PendingRequest { receipts, sent }) = is_done.then(|| self.pending.remove(&number)).flatten() else {
            return AckState::Unknown;
        };
        let is_stored = receipts.into_iter().all(|receipt| receipt.wait().is_ok());
        if is_stored { AckState::Stored(sent) } else { AckState::Failed(sent) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::{AckNumbers, AckState, ChannelError, Channels, PENDING_MAX, Receipts, TOTAL_PENDING_MAX};
    use quarry_event::SentRequest;

    use crate::{AppendError, Receipt};

    const SENT: SentRequest = SentRequest { key: 1, id: 2 };

    fn channels() -> Channels {
        Channels::new(AckNumbers::default())
    }

    fn add(channels: &Channels, token: &str, name: &str, receipts: Receipts, now_ns: i64) -> u64 {
        channels.add(token, name, receipts, SENT, now_ns).ok().unwrap()
    }

    /// Queries the requests with these numbers; true for each one reported as stored.
    fn ask(channels: &Channels, token: &str, name: &str, numbers: &[u64]) -> Vec<(u64, bool)> {
        let reported = channels.query(token, name, numbers, 10_000_000_000);
        reported.into_iter().map(|(number, sent)| (number, sent == AckState::Stored(SENT))).collect()
    }

    struct Switch(Arc<AtomicBool>, bool);

    impl Receipt for Switch {
        fn is_done(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }

        fn wait(self: Box<Self>) -> Result<(), AppendError> {
            if self.1 { Ok(()) } else { Err(AppendError::Failed("disk".into())) }
        }
    }

    #[test]
    fn requests_are_reported_once_when_completely_stored() {
        let channels = channels();
        let (one, two) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
        let number =
            add(&channels, "t", "a", vec![Box::new(Switch(one, true)), Box::new(Switch(two.clone(), true))], 0);
        assert_eq!((number, add(&channels, "t", "b", vec![], 0), add(&channels, "u", "a", vec![], 0)), (0, 0, 0));
        assert_eq!(ask(&channels, "t", "a", &[0, 7]), [(0, false), (7, false)]);
        two.store(true, Ordering::Relaxed);
        assert_eq!(ask(&channels, "t", "a", &[0]), [(0, true)]);
        assert_eq!(ask(&channels, "t", "a", &[0]), [(0, false)], "reported before");
        assert_eq!(add(&channels, "t", "a", vec![], 0), 1);
    }

    #[test]
    fn failed_requests_are_never_reported_as_stored() {
        let channels = channels();
        let done = Arc::new(AtomicBool::new(true));
        add(&channels, "t", "a", vec![Box::new(Switch(done, false))], 0);
        assert_eq!(channels.query("t", "a", &[0, 1], 0), [(0, AckState::Failed(SENT)), (1, AckState::Unknown)]);
        assert_eq!(ask(&channels, "t", "a", &[0]), [(0, false)]);
    }

    #[test]
    fn idle_channels_are_removed_and_used_ones_kept() {
        let channels = channels();
        add(&channels, "t", "old", vec![], 0);
        add(&channels, "t", "new", vec![], 9_000_000_000);
        channels.remove_idle(5, 10_000_000_000);
        assert_eq!(ask(&channels, "t", "old", &[0]), [(0, false)]);
        assert_eq!(ask(&channels, "t", "new", &[0]), [(0, true)]);
    }

    #[test]
    fn numbers_are_never_reused_on_a_channel() {
        let folder = tempfile::tempdir().unwrap();
        let start = || Channels::new(AckNumbers::open(folder.path().join("ack")).unwrap());
        let channels = start();
        let ids: Vec<u64> = (0..3).map(|_| add(&channels, "t", "a", vec![], 0)).collect();
        assert_eq!((ids, add(&channels, "t", "b", vec![], 9_000_000_000)), (vec![0, 1, 2], 0));
        channels.remove_idle(5, 10_000_000_000);
        assert_eq!(add(&channels, "t", "a", vec![], 0), 3, "the idle channel was removed");
        assert_eq!(add(&channels, "t", "b", vec![], 0), 1, "the other channel remains");
        assert_eq!(ask(&channels, "t", "a", &[0, 2, 3]), [(0, false), (2, false), (3, true)]);
        // The process is killed before the events are stored.
        let channels = start();
        assert!(channels.reserve_number("t", "a").is_ok());
        let number = add(&channels, "t", "a", vec![], 0);
        assert!(number > 3, "{number}");
        assert_eq!(ask(&channels, "t", "a", &[0, 3, number]), [(0, false), (3, false), (number, true)]);
    }

    #[test]
    fn requests_without_a_reserved_number_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let channels = Channels::new(AckNumbers::open(folder.path().join("below/ack")).unwrap());
        std::fs::write(folder.path().join("below"), "a file").unwrap();
        assert!(matches!(channels.reserve_number("t", "a"), Err(ChannelError::Number(_))));
        assert!(channels.add("t", "a", vec![], SENT, 0).is_err());
        assert_eq!(channels.lock().pending, 0);
        std::fs::remove_file(folder.path().join("below")).unwrap();
        assert!(channels.reserve_number("t", "a").is_ok());
        assert_eq!(add(&channels, "t", "a", vec![], 0), 0);
    }

    #[test]
    fn pending_requests_of_all_channels_are_limited() {
        let channels = channels();
        let names: Vec<String> = (0..TOTAL_PENDING_MAX / PENDING_MAX + 1).map(|at| format!("a{at}")).collect();
        let mut added = 0;
        for name in &names {
            while channels.reserve_number("t", name).is_ok() {
                add(&channels, "t", name, vec![], 0);
                added += 1;
            }
        }
        assert_eq!(added, TOTAL_PENDING_MAX);
        assert_eq!(channels.reserve_number("u", "another"), Err(ChannelError::Full));
        assert_eq!(ask(&channels, "t", "a0", &[7, 7, 8]), [(7, true), (7, false), (8, true)]);
        add(&channels, "u", "another", vec![], 9_000_000_000);
        add(&channels, "u", "another", vec![], 9_000_000_000);
        assert_eq!(channels.reserve_number("u", "another"), Err(ChannelError::Full));
        channels.remove_idle(5, 10_000_000_000);
        // One request has since been reported as stored.
        assert_eq!((channels.reserve_number("t", "a1"), channels.lock().pending), (Ok(()), PENDING_MAX));
    }

    #[test]
    fn names_are_guids() {
        for name in ["FE0ECFAD-13D5-401B-847D-77833BD77131", "abc-123", "0"] {
            assert!(Channels::is_name(name), "{name}");
        }
        for name in ["", "-", "guid", "a b", &"a".repeat(129)] {
            assert!(!Channels::is_name(name), "{name}");
        }
    }
}
