//! Where are threads measured? Here, or in a guest with one CPU: the same program, a real kernel of its own.
//!
//! ```text
//!   guest:6.12                    Debian's kernel of this series in QEMU, one CPU, an instruction takes 2 ns
//!   guest:6.1,preempt=full        the same with words for the kernel's command line
//!   guest:6.12,clock=host         its clock is this machine's: it goes on while the guest is held up
//! ```

use crate::failure::{Failure, Result};
use crate::guest::{failure, stages};
use crate::output;
use crate::ui::Ui;
use schedlab_real::{GuestKernel, Options, Returned, errand};
use std::path::{Path, PathBuf};

/// Where the guest's commands leave their files; below it stands what comes back.
const OUT: &str = "/out";
/// The word that chooses the emulator's clock; it is none of the kernel's.
const HOST_CLOCK: &str = "clock=host";
/// Options that name a file to write.
const OUTPUTS: [&str; 4] = ["--log", "--html", "--json", "--perfetto"];

/// A guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    kernel: String,
    words: Vec<String>,
}

impl std::str::FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Place, String> {
        let wrong = || {
            format!(
                "'{text}' is no place; expected guest:6.12, guest:6.1 or guest:FILE, then ,WORD for words of \
                 the kernel's command line, e.g. guest:6.12,preempt=full"
            )
        };
        let mut parts = text.strip_prefix("guest:").ok_or_else(wrong)?.split(',').map(str::to_string);
        let kernel = parts.next().filter(|kernel| !kernel.is_empty()).ok_or_else(wrong)?;
        let words: Vec<String> = parts.collect();
        if words.iter().any(|word| word.is_empty() || word.contains(char::is_whitespace)) {
            return Err(wrong());
        }
        Ok(Place { kernel, words })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "guest:{}", self.kernel)?;
        self.words.iter().try_for_each(|word| write!(f, ",{word}"))
    }
}

impl Place {
    /// Runs `schedlab` there with these words; its files and what it said.
    fn perform(&self, words: &[String], ui: &Ui) -> Result<Returned> {
        let kernel = GuestKernel::find(&self.kernel).map_err(failure)?;
        let mut kernel_args = self.words.clone();
        kernel_args.retain(|word| word != HOST_CLOCK);
        let options = Options { kernel_args, host_clock: self.has_host_clock(), ..Options::default() };
        let what = self.to_string();
        let command = [&["--quiet".to_string(), "hourglass".to_string()], words].concat();
        let returned = errand(&kernel, &[command], &options, &mut stages(ui, &what)).map_err(failure)?;
        match &returned.said[0] {
            (_, 0) => Ok(returned),
            (said, status) => Err(Failure::Input(format!("in {what}, status {status}: {}", said.trim_end()))),
        }
    }

    /// A map or a check there; what is written comes back to where the words say.
    pub(super) fn shown(&self, words: &[String], ui: &Ui) -> Result<()> {
        let (words, wanted) = moved(words)?;
        for path in wanted.iter().filter(|path| !output::is_stdout(Some(path))) {
            output::check(path)?;
        }
        let returned = self.perform(&words, ui)?;
        for (number, path) in wanted.iter().enumerate() {
            let text = returned.files.get(&number.to_string()).map_or(&[][..], Vec::as_slice);
            let text = String::from_utf8_lossy(text);
            if output::is_stdout(Some(path)) {
                crate::print::stdout(&text);
            } else {
                output::text(path, &text)?;
                ui.say(format!("wrote {}", path.display()));
            }
        }
        if wanted.iter().any(|path| output::is_stdout(Some(path))) {
            // what stands there is for a program, and no report comes behind it
            ui.say(self.about(&returned));
        } else if !returned.said[0].0.is_empty() {
            crate::print::stdout(&format!("{}\n{}", self.about(&returned), returned.said[0].0));
        }
        Ok(())
    }

    fn has_host_clock(&self) -> bool {
        self.words.iter().any(|word| word == HOST_CLOCK)
    }

    /// What a reader must know of the numbers.
    fn about(&self, returned: &Returned) -> String {
        let release = returned.kernel.split_whitespace().nth(2).unwrap_or("unknown");
        if self.has_host_clock() {
            return format!(
                "in {self}: Linux {release}, one CPU in QEMU, which emulates it. Kernel code takes many times longer \
                 than on a \
                 real CPU."
            );
        }
        format!(
            "in {self}: Linux {release}, one CPU in QEMU. An instruction takes 2 ns there, so that lengths below a \
             tick are made up; what the scheduler decides is real."
        )
    }

    /// The runs of `infer` there; their logs come into this folder. What a reader must know.
    pub(super) fn logs(&self, duration: &str, folder: &Path, ui: &Ui) -> Result<String> {
        let words =
            ["infer", "-d", duration, "--log", &format!("{OUT}/logs"), "--json", &format!("{OUT}/said")];
        let returned = self.perform(&words.map(str::to_string), ui)?;
        for (name, bytes) in &returned.files {
            let Some(name) = name.strip_prefix("logs/") else { continue };
            output::text(&folder.join(name), &String::from_utf8_lossy(bytes))?;
        }
        Ok(self.about(&returned))
    }
}

/// The words with each file to write moved to the guest's folder; and where it is to come.
fn moved(words: &[String]) -> Result<(Vec<String>, Vec<PathBuf>)> {
    let (mut moved, mut wanted) = (Vec::new(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if let "--plan" | "--rt-app" | "-c" = word.as_str() {
            return Err(Failure::Input(format!(
                "{word}: a guest has no files of this machine; write the threads on the line (-w, -p, -i)"
            )));
        }
        moved.push(word.clone());
        if OUTPUTS.contains(&word.as_str())
            && let Some(path) = words.next()
        {
            moved.push(format!("{OUT}/{}", wanted.len()));
            wanted.push(PathBuf::from(path));
        }
    }
    Ok((moved, wanted))
}

/// Takes `--in PLACE` out of the words of a line.
pub(super) fn place(words: &[String]) -> Result<(Option<Place>, Vec<String>)> {
    let Some(at) = words.iter().position(|word| word == "--in") else { return Ok((None, words.to_vec())) };
    let text = words.get(at + 1).map_or("", String::as_str);
    let place = text.parse::<Place>().map_err(|error| Failure::Input(format!("--in: {error}")))?;
    Ok((Some(place), [&words[..at], &words[at + 2..]].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_shown() {
        for text in ["guest:6.12", "guest:6.1,preempt=full,quiet", "guest:./bzImage"] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
        for text in ["", "guest:", "host", "guest:6.1,", "guest:6.1,a b"] {
            assert!(text.parse::<Place>().unwrap_err().contains("guest:6.12"), "{text}");
        }
    }

    #[test]
    fn files_come_back_to_where_the_line_says() {
        let words = ["-d", "1s", "--log", "a.log", "--json", "-"].map(str::to_string);
        let (moved, wanted) = moved(&words).unwrap();
        assert_eq!(moved, ["-d", "1s", "--log", "/out/0", "--json", "/out/1"]);
        assert_eq!(wanted, [PathBuf::from("a.log"), PathBuf::from("-")]);
        assert!(super::moved(&["--plan".to_string(), "x".to_string()]).is_err());
    }
}
