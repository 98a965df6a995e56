//! Which scheduler, with which parameters? `NAME`, or `NAME:K=V:K=V` for one that differs from its defaults.
//!
//! ```
//! use schedlab_experiments::subject::Subject;
//! let subject = Subject::parse("vtrr:insert=array:reset=pass").unwrap();
//! assert_eq!((subject.scheduler.name(), subject.params.len()), ("vtrr", 2));
//! assert!(Subject::parse("vtrr:insert=heap").is_err());
//! ```
//!
//! [`Subject::parse`] knows native schedulers. Real Linux is an object that has been built: [`Subject::with`] takes it from the caller.

use schedlab_machine::policy::Policy;
use schedlab_policies::{PolicyError, PolicyInfo, find};
use schedlab_runner::{LinuxObject, Scheduler};

/// A scheduler with parameters.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Its name in tables: the scheduler, and parameters that are not default.
    pub label: String,
    /// The scheduler.
    pub scheduler: Scheduler,
    /// Parameters that are given.
    pub params: Vec<(String, String)>,
}

/// A scheduler that cannot be studied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubjectError {
    /// No such native scheduler.
    #[error("there is no native scheduler '{0}'; 'schedlab schedulers' lists them")]
    Unknown(String),
    /// A parameter without a value.
    #[error("'{text}': '{part}' is not NAME=VALUE; write NAME or NAME:K=V:K=V, such as vtrr:insert=array")]
    NotAParam {
        /// What was given.
        text: String,
        /// The part that is wrong.
        part: String,
    },
    /// Parameters do not fit.
    #[error(transparent)]
    Params(#[from] PolicyError),
}

impl Subject {
    /// The scheduler's name in `NAME:K=V:K=V`.
    pub fn name_in(text: &str) -> &str {
        text.split(':').next().unwrap_or_default()
    }

    /// A native scheduler, from `NAME` or `NAME:K=V:K=V`.
    pub fn parse(text: &str) -> Result<Subject, SubjectError> {
        let name = Subject::name_in(text);
        let info = find(name).ok_or_else(|| SubjectError::Unknown(name.to_string()))?;
        Subject::with(text, Scheduler::Native(info))
    }

    /// The parameters in `NAME:K=V:K=V`, in order of name.
    pub fn params_in(text: &str) -> Result<Vec<(String, String)>, SubjectError> {
        let mut params = Vec::new();
        for part in text.split(':').skip(1) {
            let not_a_param = || SubjectError::NotAParam { text: text.to_string(), part: part.to_string() };
            let (name, value) = part.split_once('=').ok_or_else(not_a_param)?;
            params.push((name.to_string(), value.to_string()));
        }
        params.sort();
        Ok(params)
    }

    /// This scheduler with the parameters that `text` gives; a native one's are checked.
    pub fn with(text: &str, scheduler: Scheduler) -> Result<Subject, SubjectError> {
        let params = Subject::params_in(text)?;
        let subject = Subject { label: text.to_string(), scheduler, params };
        if let Some(info) = subject.native() {
            info.build(&subject.params)?;
        }
        Ok(subject)
    }

    /// The native scheduler, if it is one.
    pub fn native(&self) -> Option<&'static PolicyInfo> {
        match self.scheduler {
            Scheduler::Native(info) => Some(info),
            Scheduler::Linux(_) => None,
        }
    }

    /// The kernel object, if it is real Linux.
    pub fn linux(&self) -> Option<&LinuxObject> {
        match &self.scheduler {
            Scheduler::Native(_) => None,
            Scheduler::Linux(object) => Some(object),
        }
    }

    /// The native policy; `None` for real Linux.
    pub(crate) fn build(&self) -> Option<Box<dyn Policy>> {
        self.native().map(|info| info.build(&self.params).expect("parameters were checked"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_or_refused() {
        let subject = Subject::parse("wfq:quantum=5ms").unwrap();
        assert_eq!(subject.params, [("quantum".to_string(), "5ms".to_string())]);
        assert!(subject.build().is_some() && subject.linux().is_none());
        assert!(matches!(Subject::parse("nosuch"), Err(SubjectError::Unknown(name)) if name == "nosuch"));
        assert!(matches!(Subject::parse("wfq:quantum"), Err(SubjectError::NotAParam { .. })));
        assert!(matches!(Subject::parse("wfq:quantum=0"), Err(SubjectError::Params(_))));
    }
}
