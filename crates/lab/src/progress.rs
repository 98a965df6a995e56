//! Who hears how far a long step is? Whoever has a terminal draws it; this crate draws nothing.

/// Where a caller of this crate hears about steps that take a while: a kernel is built, a recording is imported.
pub trait Progress {
    /// A step begins. It is over when what is returned is dropped.
    fn step(&self, what: String) -> Box<dyn ProgressStep + '_>;
    /// A sentence that the person at the terminal should read; no result.
    fn say(&self, sentence: &str);
}

/// A step under way.
pub trait ProgressStep {
    /// Something else is being done now.
    fn now(&self, what: String);
    /// How far it is; of use only where it can replace what was said before.
    fn progress(&self, what: String);
}

/// Nobody listens: worker processes, tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn step(&self, _what: String) -> Box<dyn ProgressStep + '_> {
        Box::new(Silent)
    }
    fn say(&self, _sentence: &str) {}
}

impl ProgressStep for Silent {
    fn now(&self, _what: String) {}
    fn progress(&self, _what: String) {}
}
