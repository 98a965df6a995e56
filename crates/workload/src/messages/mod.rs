//! What do tasks say to each other, besides the wakeups that were recorded?
//!
//! A recorded block waits for one recorded wakeup. A message that found its reader awake woke nobody, so a recording of
//! scheduling events does not have it. With channels in the place of wakeups a task waits if there is nothing for
//! it, whatever the schedule: blocks are lost, and gained.
//!
//! | choice | channels |
//! |---|---|
//! | `none` | none: each block waits for its recorded wakeup |
//! | `inferred` | between wakers and sleepers, with the messages that the waker's progress makes likely ([`Inferred`]) |
//! | `recorded` | the pipes, sockets, futexes and locks that `record --objects` saw |

mod conditions;
mod costs;
mod edit;
mod held;
mod inferred;
mod locks;
mod readers;
mod recorded;
mod rooms;
mod rounds;
mod sections;
mod unfinished;

pub(crate) use inferred::{Timeline, infer};
pub(crate) use recorded::{Channels, put_in};

use std::fmt;
use std::str::FromStr;

/// Where channels come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Messages {
    /// There are none.
    #[default]
    None,
    /// From who woke whom, and how far both had come.
    Inferred,
    /// From what was recorded of pipes and sockets.
    Recorded,
}

impl Messages {
    /// All.
    pub const ALL: [Messages; 3] = [Messages::None, Messages::Inferred, Messages::Recorded];

    /// Its word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Messages::None => "none",
            Messages::Inferred => "inferred",
            Messages::Recorded => "recorded",
        }
    }
}

impl fmt::Display for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A choice that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("messages \"{text}\": no such choice; expected none, inferred or recorded")]
pub struct MessagesError {
    /// What was given.
    pub text: String,
}

impl FromStr for Messages {
    type Err = MessagesError;
    fn from_str(text: &str) -> Result<Messages, MessagesError> {
        let found = Messages::ALL.into_iter().find(|choice| choice.name() == text);
        found.ok_or_else(|| MessagesError { text: text.to_string() })
    }
}
