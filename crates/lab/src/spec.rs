//! How is a scheduler written? One grammar for every command and every study:
//!
//! ```text
//! fifo                         a native scheduler
//! rr:quantum=5ms               the same with parameters, NAME:KEY=VALUE:KEY=VALUE
//! linux-6.12                   real Linux, a packaged release, or a tree that has a name
//! linux-6.12+uclamp:hz=1000    in a flavour, with other ticks per second
//! linux:DIR                    a kernel tree, brought up to date before each run
//! scx:simple@7.2:slice_us=3000 a sched_ext scheduler: of the kernel, of a published crate, or FILE.bpf.c
//! guest:6.12   guest:FILE      real Linux in a virtual machine: only where a command says so
//! host                         this machine's own kernel: only where a command says so
//! ```
//!
//! What a text means does not depend on which files there are, but for a folder whose name has a plus: of
//! `linux:DIR+A` the folder `DIR+A` is taken if there is one. In the path of `linux:`, `scx:` and `guest:` a colon
//! belongs to the path unless KEY=VALUE follows, and an equals sign before the first such colon does too:
//!
//! ```text
//! linux:/src/a:b               the folder /src/a:b
//! linux:/src/a=b               the folder /src/a=b
//! linux:/src/a:b=c             the folder /src/a with the parameter b=c
//! linux:/src/a\:b=c            the folder /src/a:b=c
//! ```
//!
//! A backslash makes a following `\ : = , + @` an ordinary character, in values too (`NAME:KEY=a\:b`). In a list of
//! schedulers ([`SubjectList`]) commas separate, unless they are written `\,`.

use crate::subject::SubjectError;
use std::str::FromStr;

/// The kernel that a sched_ext scheduler runs on unless it says otherwise.
const SCX_KERNEL: &str = "6.12";

/// What a scheduler's text says, before anything is looked up.
///
/// ```
/// use schedlab_lab::SubjectSpec;
/// let spec: SubjectSpec = "linux-6.12:base_slice_ns=700000:features=NO_DELAY_DEQUEUE,HRTICK".parse().unwrap();
/// assert_eq!((spec.name(), spec.params().len()), ("linux-6.12", 2));
/// let scx: SubjectSpec = "scx:my.bpf.c:slice_us=3000".parse().unwrap();
/// assert_eq!(scx.name(), "scx:my.bpf.c");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectSpec {
    text: String,
    name: String,
    form: SpecForm,
    params: Vec<(String, String)>,
}

/// Which of the forms of the grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecForm {
    /// `NAME`: a native scheduler, or `linux-V` (there are both: `linux-6.12`, `linux-2.4`).
    Named {
        /// All of it but flavours.
        name: String,
        /// Of `linux-V+A+B`: A, B.
        flavours: Vec<String>,
    },
    /// `linux:DIR`.
    Tree {
        /// The folder.
        path: String,
        /// Of `linux:DIR+A`: A. (A folder of that name is taken first.)
        flavours: Vec<String>,
    },
    /// `scx:WHAT` or `scx:WHAT@KERNEL`.
    Scx(ScxSpec),
    /// `guest:V` or `guest:FILE`.
    Guest {
        /// A series, or the path of a kernel image.
        kernel: String,
    },
    /// `host`.
    Host,
}

/// A sched_ext scheduler that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScxSpec {
    /// A path, or a name.
    pub what: String,
    /// A series, or the name of a tree.
    pub kernel: String,
}

impl ScxSpec {
    /// What stands behind `scx:`, without parameters: `WHAT` or `WHAT@KERNEL`. A file's name can have an `@`.
    pub(crate) fn parse(text: &str) -> ScxSpec {
        let (what, kernel) = match marks(text, '@').last() {
            Some(at) if !text[at + 1..].contains('/') && !text.ends_with(".c") => {
                (&text[..at], &text[at + 1..])
            }
            _ => (text, SCX_KERNEL),
        };
        ScxSpec { what: plain(what), kernel: plain(kernel) }
    }

    /// Whether it is a file, and not a name.
    pub fn is_path(&self) -> bool {
        is_scx_path(&self.what)
    }
}

fn is_scx_path(what: &str) -> bool {
    what.contains('/') || what.ends_with(".c")
}

impl SubjectSpec {
    /// As it was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// As it was typed, without parameters.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which form.
    pub fn form(&self) -> &SpecForm {
        &self.form
    }

    /// Parameters in the order given; `hz` among them.
    pub fn params(&self) -> &[(String, String)] {
        &self.params
    }

    /// The same with more parameters, which count more than those of the text.
    #[must_use]
    pub fn and(&self, params: &[(String, String)]) -> SubjectSpec {
        let mut spec = self.clone();
        spec.params.extend_from_slice(params);
        spec
    }
}

impl FromStr for SubjectSpec {
    type Err = SubjectError;

    fn from_str(text: &str) -> Result<SubjectSpec, SubjectError> {
        let pieces = split(text, ':');
        // how many pieces are the name: with a prefix all up to the first KEY=VALUE
        let has_prefix = pieces.len() > 1 && matches!(pieces[0], "linux" | "scx" | "guest");
        let nr_name = if has_prefix {
            let more =
                pieces[2..].iter().take_while(|piece| marks(piece, '=').next().is_none_or(|at| at == 0));
            2 + more.count()
        } else {
            1
        };
        let bare = &text[..pieces[..nr_name].iter().map(|piece| piece.len() + 1).sum::<usize>() - 1];
        let (name, rest) = if has_prefix { bare.split_at(pieces[0].len() + 1) } else { ("", bare) };
        let not_a_param =
            |part: &str| SubjectError::NotAParam { text: text.to_string(), part: part.to_string() };
        if rest.is_empty() || (!has_prefix && marks(rest, '=').next().is_some()) {
            return Err(SubjectError::NoName { text: text.to_string() });
        }
        // only a path can have a colon
        let is_path = match name {
            "linux:" => true,
            "guest:" => rest.contains('/'),
            _ => is_scx_path(rest),
        };
        if nr_name > 2 && !is_path {
            return Err(not_a_param(pieces[2]));
        }
        let mut params = Vec::new();
        for piece in &pieces[nr_name..] {
            match marks(piece, '=').next() {
                Some(at) if at > 0 => params.push((plain(&piece[..at]), plain(&piece[at + 1..]))),
                _ => return Err(not_a_param(piece)),
            }
        }
        let form = match name {
            "linux:" => {
                let (path, flavours) = flavoured(rest);
                SpecForm::Tree { path, flavours }
            }
            "scx:" => SpecForm::Scx(ScxSpec::parse(rest)),
            "guest:" => SpecForm::Guest { kernel: plain(rest) },
            _ if rest == "host" => SpecForm::Host,
            _ if rest.starts_with("linux-") => {
                let (name, flavours) = flavoured(rest);
                SpecForm::Named { name, flavours }
            }
            _ => SpecForm::Named { name: plain(rest), flavours: Vec::new() },
        };
        Ok(SubjectSpec { text: text.to_string(), name: bare.to_string(), form, params })
    }
}

/// Several schedulers, separated by commas: `vtrr,wfq:quantum=5ms`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectList(pub Vec<SubjectSpec>);

impl FromStr for SubjectList {
    type Err = SubjectError;

    fn from_str(text: &str) -> Result<SubjectList, SubjectError> {
        split(text, ',').into_iter().map(str::parse).collect::<Result<_, _>>().map(SubjectList)
    }
}

/// Characters that a backslash makes ordinary.
const ESCAPABLE: &str = r"\:=,+@";

/// Where a character stands without a backslash before it.
fn marks(text: &str, mark: char) -> impl Iterator<Item = usize> + '_ {
    let mut chars = text.char_indices().peekable();
    std::iter::from_fn(move || {
        while let Some((at, c)) = chars.next() {
            if c == '\\' {
                chars.next_if(|(_, next)| ESCAPABLE.contains(*next));
            } else if c == mark {
                return Some(at);
            }
        }
        None
    })
}

/// The pieces between characters without a backslash.
fn split(text: &str, mark: char) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut from = 0;
    for at in marks(text, mark) {
        pieces.push(&text[from..at]);
        from = at + mark.len_utf8();
    }
    pieces.push(&text[from..]);
    pieces
}

/// The text without its backslashes.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let escaped = if c == '\\' { chars.next_if(|next| ESCAPABLE.contains(*next)) } else { None };
        plain.push(escaped.unwrap_or(c));
    }
    plain
}

/// `NAME+A+B`; a plus before the last slash belongs to a folder above.
fn flavoured(text: &str) -> (String, Vec<String>) {
    let last = text.rfind('/').map_or(0, |at| at + 1);
    let mut parts = split(&text[last..], '+').into_iter();
    let name = format!("{}{}", &text[..last], parts.next().unwrap_or_default());
    (plain(&name), parts.map(plain).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> SubjectSpec {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn named(name: &str, flavours: &[&str]) -> SpecForm {
        SpecForm::Named { name: name.into(), flavours: flavours.iter().map(|f| f.to_string()).collect() }
    }

    fn tree(path: &str, flavours: &[&str]) -> SpecForm {
        SpecForm::Tree { path: path.into(), flavours: flavours.iter().map(|f| f.to_string()).collect() }
    }

    fn scx(what: &str, kernel: &str) -> SpecForm {
        SpecForm::Scx(ScxSpec { what: what.into(), kernel: kernel.into() })
    }

    fn guest(kernel: &str) -> SpecForm {
        SpecForm::Guest { kernel: kernel.into() }
    }

    #[test]
    fn every_form_is_read() {
        for (text, name, form, params) in [
            ("fifo", "fifo", named("fifo", &[]), &[][..]),
            ("rr:quantum=5ms", "rr", named("rr", &[]), &[("quantum", "5ms")]),
            ("rr:quantum=", "rr", named("rr", &[]), &[("quantum", "")]),
            ("linux-2.4:hz=100", "linux-2.4", named("linux-2.4", &[]), &[("hz", "100")]),
            ("linux-6.12+a+b:x=1", "linux-6.12+a+b", named("linux-6.12", &["a", "b"]), &[("x", "1")]),
            ("linux-6.12:f=A,B:g=c=d", "linux-6.12", named("linux-6.12", &[]), &[("f", "A,B"), ("g", "c=d")]),
            ("linux:/src", "linux:/src", tree("/src", &[]), &[]),
            ("linux:.", "linux:.", tree(".", &[]), &[]),
            (
                "linux:/c++/t+uclamp:hz=1000",
                "linux:/c++/t+uclamp",
                tree("/c++/t", &["uclamp"]),
                &[("hz", "1000")],
            ),
            ("scx:simple", "scx:simple", scx("simple", "6.12"), &[]),
            ("scx:simple@7.2", "scx:simple@7.2", scx("simple", "7.2"), &[]),
            ("scx:simple@7.2:slice=1", "scx:simple@7.2", scx("simple", "7.2"), &[("slice", "1")]),
            ("scx:./a.bpf.c", "scx:./a.bpf.c", scx("./a.bpf.c", "6.12"), &[]),
            ("scx:./a.bpf.c@7.2", "scx:./a.bpf.c@7.2", scx("./a.bpf.c", "7.2"), &[]),
            ("scx:x@y/a.bpf.c", "scx:x@y/a.bpf.c", scx("x@y/a.bpf.c", "6.12"), &[]),
            ("scx:a@b.bpf.c", "scx:a@b.bpf.c", scx("a@b.bpf.c", "6.12"), &[]),
            ("scx:qmap:sub@/g=simple", "scx:qmap", scx("qmap", "6.12"), &[("sub@/g", "simple")]),
            ("guest:6.12", "guest:6.12", guest("6.12"), &[]),
            ("guest:./bzImage", "guest:./bzImage", guest("./bzImage"), &[]),
            ("host", "host", SpecForm::Host, &[]),
        ] {
            let found = spec(text);
            assert_eq!((found.text(), found.name(), found.form()), (text, name, &form));
            let expected: Vec<(String, String)> =
                params.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
            assert_eq!(found.params(), expected, "{text}");
        }
    }

    #[test]
    fn paths_may_have_every_character() {
        for (text, form, nr_params) in [
            ("linux:/src/a:b", tree("/src/a:b", &[]), 0),
            ("linux:/src/a=b", tree("/src/a=b", &[]), 0),
            ("linux:/src/a:b=c", tree("/src/a", &[]), 1),
            (r"linux:/src/a\:b=c", tree("/src/a:b=c", &[]), 0),
            (r"linux:/src/a:b\=c:hz=100", tree("/src/a:b=c", &[]), 1),
            (r"linux:/src/a\+b+uclamp", tree("/src/a+b", &["uclamp"]), 0),
            (r"linux:/src/a\\b\c", tree(r"/src/a\b\c", &[]), 0),
            ("linux:/src/::", tree("/src/::", &[]), 0),
            ("scx:a:b/c.bpf.c", scx("a:b/c.bpf.c", "6.12"), 0),
            (r"scx:./a\@7.2", scx("./a@7.2", "6.12"), 0),
            ("guest:/a:b/bzImage", guest("/a:b/bzImage"), 0),
        ] {
            let found = spec(text);
            assert_eq!((found.form(), found.params().len()), (&form, nr_params), "{text}");
        }
        assert_eq!(spec(r"x:key=a\:b\,c").params()[0].1, "a:b,c");
        assert_eq!(spec(r"x:a\=b=c").params()[0], ("a=b".into(), "c".into()));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, word) in [
            ("", "no scheduler"),
            (":a=1", "no scheduler"),
            ("a=1", "no scheduler"),
            ("linux:", "no scheduler"),
            ("scx:", "no scheduler"),
            ("guest:", "no scheduler"),
            ("fifo:", "'' in 'fifo:' is not KEY=VALUE"),
            ("rr:quantum", "'quantum' in 'rr:quantum' is not KEY=VALUE"),
            ("rr:quantum=1ms:x", "'x' in"),
            ("rr:=1", "'=1' in"),
            ("scx:simple:slice", "'slice' in"),
            ("guest:6.12:x", "'x' in"),
            ("linux:/src:hz=1:x", "'x' in"),
            ("host:x", "'x' in"),
        ] {
            let error = text.parse::<SubjectSpec>().unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn lists_are_split_at_commas() {
        let list: SubjectList = r"vtrr,wfq:quantum=5ms,linux-6.12:features=A\,B".parse().unwrap();
        let names: Vec<&str> = list.0.iter().map(SubjectSpec::name).collect();
        assert_eq!(names, ["vtrr", "wfq", "linux-6.12"]);
        assert_eq!(list.0[2].params()[0].1, "A,B");
        assert!("vtrr,".parse::<SubjectList>().is_err());
    }

    #[test]
    fn more_parameters_come_behind() {
        let spec = spec("rr:quantum=1ms").and(&[("quantum".into(), "2ms".into())]);
        assert_eq!(spec.params().iter().map(|(_, value)| &**value).collect::<Vec<_>>(), ["1ms", "2ms"]);
        assert_eq!(spec.text(), "rr:quantum=1ms");
    }
}
