//! Messages about background failures, for the operator.

use std::collections::VecDeque;
use std::sync::Mutex;

use quarry_event::TimeNs;

use crate::options::REPORT_MESSAGES_MAX;
use crate::sync::lock;

/// A message for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Time at which the failure last occurred.
    pub time: TimeNs,
    /// Description of the failure and of the remedy.
    pub text: String,
}

/// The newest messages.
#[derive(Debug, Default)]
pub(crate) struct Report {
    messages: Mutex<VecDeque<Message>>,
}

impl Report {
    /// Adds a message. If it equals the newest one, only the time of that message is updated.
    pub(crate) fn add(&self, time: TimeNs, text: String) {
        let mut messages = lock(&self.messages);
        if let Some(newest) = messages.back_mut()
            && newest.text == text
        {
            newest.time = time;
            return;
        }
        if messages.len() == REPORT_MESSAGES_MAX {
            messages.pop_front();
        }
        messages.push_back(Message { time, text });
    }

    /// Messages, oldest first.
    pub(crate) fn messages(&self) -> Vec<Message> {
        lock(&self.messages).iter().cloned().collect()
    }
}
