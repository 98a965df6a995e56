//! How is a run written on the command line? As on the original's slides: options go to the threads that the
//! last `-t` chose.
//!
//! ```text
//! -d 20s -n 2 -p NORMAL -t 0 -p RTHIGH -w PERIODIC 4ms 5ms -i RTC -t 1 -w CPU
//!              └ all threads  └──────────── thread 0 ───────────┘  └ thread 1
//! ```
//!
//! A mistake is shown where it stands:
//!
//! ```text
//! -w PERIODIC 4ms 5weeks
//!                 ^^^^^^ '5weeks' is not a duration: unknown unit; write for example 500ns, 250us, 1.5ms or 20s
//! ```

use crate::loads::Contention;
use crate::plan::{Class, Model, ModelStep, Plan, THREADS_MAX, ThreadPlan, Timer};
use schedlab_units::{CpuSet, DeadlineParams, Nice, SchedParams, SchedPolicy, Span};
use std::path::PathBuf;

/// What the user wants to see of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    /// Write the schedule log.
    pub log: Option<PathBuf>,
    /// Write everything as JSON; `-`: to standard output.
    pub json: Option<PathBuf>,
    /// Write a page.
    pub html: Option<PathBuf>,
    /// Write a file for ui.perfetto.dev.
    pub perfetto: Option<PathBuf>,
    /// Print the raw execution trace of slide 8.
    pub raw: bool,
    /// Print the histogram of the loop's steps and of the gaps.
    pub histogram: bool,
}

/// A command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What to run.
    pub plan: Plan,
    /// What to show.
    pub outputs: Outputs,
}

/// A mistake, with the place where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    words: Vec<String>,
    at: usize,
    problem: String,
}

impl std::fmt::Display for LineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let line = self.words.join(" ");
        let before: usize =
            self.words[..self.at.min(self.words.len())].iter().map(|w| w.chars().count() + 1).sum();
        let length = self.words.get(self.at).map_or(1, |word| word.chars().count().max(1));
        write!(f, "{}\n  {line}\n  {}{}", self.problem, " ".repeat(before), "^".repeat(length))
    }
}

impl std::error::Error for LineError {}

/// Words of real-time classes: their priority, as far apart as the original's three.
const RT_WORDS: [(&str, u8); 3] = [("RTHIGH", 98), ("RTMED", 50), ("RTLOW", 1)];
/// Words of normal classes: their nice value.
const NORMAL_WORDS: [(&str, i32); 3] = [("NORMAL", 0), ("HIGH", -10), ("LOW", 10)];

struct Words<'a> {
    words: &'a [String],
    next: usize,
}

impl<'a> Words<'a> {
    fn fail<T>(&self, at: usize, problem: impl Into<String>) -> Result<T, LineError> {
        Err(LineError { words: self.words.to_vec(), at, problem: problem.into() })
    }

    fn take(&mut self, what: &str) -> Result<&'a str, LineError> {
        let at = self.next;
        match self.words.get(at) {
            Some(word) => {
                self.next += 1;
                Ok(word)
            }
            None => self.fail(at, format!("the line ends where {what} should stand")),
        }
    }

    /// The next word, if it is no option.
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).map(String::as_str).filter(|word| !is_option(word))
    }

    fn parse<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, LineError>
    where
        T::Err: std::fmt::Display,
    {
        let at = self.next;
        let word = self.take(what)?;
        word.parse().or_else(|error: T::Err| self.fail(at, format!("{what}: {error}")))
    }

    fn span(&mut self, what: &str) -> Result<Span, LineError> {
        self.parse(what)
    }
}

/// Whether a word begins an option: a minus and a letter. `-5` is a number.
fn is_option(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '-'))
}

/// Which threads an option is for.
#[derive(Clone)]
enum Chosen {
    All,
    One(usize),
}

/// Reads a command line's words.
///
/// # Errors
/// [`LineError`]: the first mistake.
pub fn parse(words: &[String]) -> Result<Line, LineError> {
    let mut words = Words { words, next: 0 };
    let mut plan = Plan { threads: Vec::new(), ..Plan::default() };
    let mut outputs = Outputs::default();
    let mut count = (1usize, 0usize);
    let mut chosen = Chosen::All;
    // options of threads, applied when it is known how many there are
    let mut settings: Vec<(Chosen, usize, Setting)> = Vec::new();
    while words.next < words.words.len() {
        let at = words.next;
        let option = words.take("an option")?;
        let mut set = |setting| settings.push((chosen.clone(), at, setting));
        match option {
            "-d" | "--duration" => plan.duration = words.span("-d, the duration")?,
            "-n" | "--threads" => count = (words.parse("-n, the number of threads")?, at + 1),
            "-t" | "--thread" => chosen = thread(&mut words)?,
            "-p" | "--class" => set(Setting::Class(class(&mut words)?)),
            "-w" | "--model" => set(Setting::Model(model(&mut words)?)),
            "-i" | "--timer" => set(Setting::Timer(timer(&mut words)?)),
            "-a" | "--cpus" => set(Setting::Cpus(words.parse::<CpuSet>("-a, the CPUs")?)),
            "-c" | "--cgroup" => {
                let folder = PathBuf::from(words.take("the folder of a control group")?);
                if !folder.is_dir() {
                    let why =
                        "there is no such folder; a control group is made by mkdir below /sys/fs/cgroup";
                    return words.fail(words.next - 1, format!("{}: {why}", folder.display()));
                }
                set(Setting::Cgroup(folder));
            }
            "-g" | "--gap" => plan.threshold = Some(words.span("-g, the shortest gap")?),
            "-gh" | "--histogram" => outputs.histogram = true,
            "-x" => outputs.raw = false,
            "--raw" => outputs.raw = true,
            "--buffer" => plan.entries = Some(words.parse("--buffer, gaps for each thread")?),
            "--beside" => plan.beside.push(words.take("a command")?.to_string()),
            "--load" => plan.loads.push(load(&mut words)?),
            "--seed" => plan.seed = words.parse("--seed, a number")?,
            "--all-cpus" => plan.all_cpus = true,
            "--log" => outputs.log = Some(words.take("a file")?.into()),
            "--json" => outputs.json = Some(words.take("a file or -")?.into()),
            "--perfetto" => outputs.perfetto = Some(words.take("a file")?.into()),
            "--html" => outputs.html = Some(words.take("a file")?.into()),
            other => {
                return words.fail(
                    at,
                    format!("'{other}' is no option here; `schedlab hourglass --help` lists them"),
                );
            }
        }
    }
    let (number, at) = count;
    if number == 0 || number > THREADS_MAX {
        return words.fail(at, format!("{number} threads; expected 1 to {THREADS_MAX}"));
    }
    plan.threads = vec![ThreadPlan::default(); number];
    for (chosen, at, setting) in settings {
        match chosen {
            Chosen::All => plan.threads.iter_mut().for_each(|thread| setting.apply(thread)),
            Chosen::One(index) => match plan.threads.get_mut(index) {
                Some(thread) => setting.apply(thread),
                None => {
                    let last = number - 1;
                    return words.fail(
                        at,
                        format!("this is for thread {index}; the threads are 0 to {last} (-n {number})"),
                    );
                }
            },
        }
    }
    Ok(Line { plan, outputs })
}

#[derive(Clone)]
enum Setting {
    Class(Class),
    Model(Model),
    Timer(Timer),
    Cpus(CpuSet),
    Cgroup(PathBuf),
}

impl Setting {
    fn apply(&self, thread: &mut ThreadPlan) {
        match self.clone() {
            Setting::Class(class) => thread.class = class,
            Setting::Model(model) => thread.model = model,
            Setting::Timer(timer) => thread.timer = timer,
            Setting::Cpus(cpus) => thread.cpus = Some(cpus),
            Setting::Cgroup(group) => thread.cgroup = Some(group),
        }
    }
}

fn thread(words: &mut Words<'_>) -> Result<Chosen, LineError> {
    let at = words.next;
    match words.take("a thread's number")? {
        "all" => Ok(Chosen::All),
        word => match word.parse() {
            Ok(index) => Ok(Chosen::One(index)),
            Err(_) => words.fail(at, format!("'{word}' is no thread; expected a number from 0 on, or all")),
        },
    }
}

fn class(words: &mut Words<'_>) -> Result<Class, LineError> {
    let at = words.next;
    let word = words.take("a class")?;
    let (name, value) =
        word.split_once(':').map_or((word, None), |(name, value)| (name, Some(value.to_string())));
    let name = name.to_ascii_uppercase();
    if let Some((_, priority)) = RT_WORDS.iter().find(|(word, _)| *word == name) {
        return Ok(Class::real_time(SchedPolicy::Fifo, *priority));
    }
    let normal = |policy, nice| Class { params: SchedParams { policy, ..SchedParams::normal(nice) } };
    if let Some((_, nice)) = NORMAL_WORDS.iter().find(|(word, _)| *word == name) {
        return Ok(normal(SchedPolicy::Normal, Nice::new(*nice).expect("the table's are")));
    }
    // a number behind a colon or as the next word
    let number = |words: &mut Words<'_>| -> Option<(usize, String)> {
        if let Some(value) = &value {
            return Some((at, value.clone()));
        }
        let next = words.peek()?.to_string();
        next.parse::<i64>().ok()?;
        words.next += 1;
        Some((words.next - 1, next))
    };
    let nice = |words: &mut Words<'_>| -> Result<Nice, LineError> {
        match number(words) {
            None => Ok(Nice::default()),
            Some((at, text)) => text.parse().or_else(|error| words.fail(at, format!("{error}"))),
        }
    };
    match name.as_str() {
        "NICE" => Ok(normal(SchedPolicy::Normal, nice(words)?)),
        "BATCH" => Ok(normal(SchedPolicy::Batch, nice(words)?)),
        "IDLE" => Ok(normal(SchedPolicy::Idle, Nice::default())),
        "FIFO" | "RR" => {
            let policy = if name == "FIFO" { SchedPolicy::Fifo } else { SchedPolicy::RoundRobin };
            let (at, text) = number(words).unwrap_or((at, "50".into()));
            match text.parse::<u8>() {
                Ok(priority @ 1..=99) => Ok(Class::real_time(policy, priority)),
                _ => words.fail(at, format!("'{text}' is no real-time priority; expected 1 to 99")),
            }
        }
        "DEADLINE" => {
            let runtime = words.span("the runtime of DEADLINE")?;
            let period = words.span("the period of DEADLINE")?;
            let params = DeadlineParams { runtime, deadline: period, period };
            let deadline = Some(params);
            Ok(Class { params: SchedParams { policy: SchedPolicy::Deadline, deadline, ..SchedParams::default() } })
        }
        _ => words.fail(
            at,
            format!(
                "'{word}' is no class; expected RTHIGH, RTMED, RTLOW, NORMAL, HIGH, LOW, NICE n, BATCH, IDLE, \
                 FIFO n, RR n, DEADLINE C T"
            ),
        ),
    }
}

fn timer(words: &mut Words<'_>) -> Result<Timer, LineError> {
    let at = words.next;
    let word = words.take("a timer")?;
    match Timer::ALL.into_iter().find(|timer| timer.name().eq_ignore_ascii_case(word)) {
        Some(timer) => Ok(timer),
        None => {
            let names = Timer::ALL.map(Timer::name).join(", ");
            words.fail(at, format!("'{word}' is no timer; expected one of {names}"))
        }
    }
}

fn load(words: &mut Words<'_>) -> Result<Contention, LineError> {
    let at = words.next;
    let word = words.take("a load")?;
    match Contention::ALL.into_iter().find(|load| load.name().eq_ignore_ascii_case(word)) {
        Some(load) => Ok(load),
        None => {
            let names = Contention::ALL.map(Contention::name).join(", ");
            words
                .fail(at, format!("'{word}' is no load; expected one of {names}; --beside takes any command"))
        }
    }
}

fn model(words: &mut Words<'_>) -> Result<Model, LineError> {
    let at = words.next;
    let word = words.take("a model")?;
    let two = |words: &mut Words<'_>| -> Result<(Span, Span), LineError> {
        let compute = words.span("the first time, C")?;
        let at = words.next;
        let period = words.span("the second time, T")?;
        if period == Span::ZERO {
            return words.fail(at, "a period of 0 never comes; give e.g. 5ms");
        }
        if compute > period {
            return words.fail(
                at,
                format!("{compute} of computing do not fit into a period of {period}; give C <= T"),
            );
        }
        Ok((compute, period))
    };
    match word.to_ascii_uppercase().as_str() {
        "CPU" => Ok(Model::Cpu),
        "PERIODIC" => two(words).map(|(compute, period)| Model::Periodic { compute, period }),
        "NONBLOCKING" => two(words).map(|(compute, period)| Model::NonBlocking { compute, period }),
        "SPORADIC" => two(words).map(|(compute, period)| Model::Sporadic { compute, period }),
        "LATENCY" => Ok(Model::Latency { period: words.span("the period")? }),
        "ONOFF" => Ok(Model::OnOff { on: words.span("the time on")?, off: words.span("the time off")? }),
        "SCAN" => {
            let at = words.next;
            let text = words.take("the size of the working set")?;
            match bytes(text) {
                Some(bytes) => Ok(Model::Scan { bytes }),
                None => words.fail(at, format!("'{text}' is no size; write for example 64KiB, 8MiB")),
            }
        }
        "STEPS" => {
            let at = words.next;
            let text = words.take("steps")?;
            let steps: Result<Vec<ModelStep>, String> = text.split(',').map(step).collect();
            steps.map(Model::Steps).or_else(|problem| words.fail(at, problem))
        }
        _ => words.fail(
            at,
            format!(
                "'{word}' is no model; expected CPU, PERIODIC C T, NONBLOCKING C T, LATENCY T, SCAN SIZE, \
                 SPORADIC C T, ONOFF ON OFF, STEPS LIST"
            ),
        ),
    }
}

fn step(text: &str) -> Result<ModelStep, String> {
    let wrong =
        || format!("'{text}' is no step; expected run=TIME, sleep=TIME or yield, with commas between");
    match text.split_once('=') {
        None if text == "yield" => Ok(ModelStep::Yield),
        Some(("run", span)) => span.parse().map(ModelStep::Run).map_err(|error| format!("{error}")),
        Some(("sleep", span)) => span.parse().map(ModelStep::Sleep).map_err(|error| format!("{error}")),
        _ => Err(wrong()),
    }
}

fn bytes(text: &str) -> Option<usize> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = match &text[end..] {
        "" | "B" => 1,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        _ => return None,
    };
    text[..end].parse::<usize>().ok()?.checked_mul(unit)
}

/// The model and timer that a log's header names, as [`Map::log`](crate::Map::log) wrote them.
pub(crate) fn parse_thread(text: &str) -> Option<(Model, Timer)> {
    let words: Vec<String> = ["-w"].into_iter().chain(text.split(' ')).map(str::to_string).collect();
    let line = parse(&words).ok()?;
    let thread = line.plan.threads.into_iter().next()?;
    Some((thread.model, thread.timer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_string).collect()
    }

    #[test]
    fn the_slides_line_is_understood() {
        let line = parse(&words("-d 20s -n 1 -t 0 -p RTHIGH -w PERIODIC 4ms 5ms -i RTC")).unwrap();
        assert_eq!(line.plan.duration, Span::from_s(20));
        let thread = &line.plan.threads[0];
        assert_eq!(thread.model, Model::Periodic { compute: Span::from_ms(4), period: Span::from_ms(5) });
        assert_eq!((thread.timer, thread.class.params.rt_priority), (Timer::Rtc, 98));
        assert_eq!(thread.class.params.policy, SchedPolicy::Fifo);
    }

    #[test]
    fn options_go_to_the_threads_chosen_last() {
        let line =
            parse(&words("-n 3 -p NICE 5 -t 1 -p FIFO 7 -i SLEEP -t all -w LATENCY 1ms -t 2 -p NICE -5"))
                .unwrap();
        let nice = |thread: usize| line.plan.threads[thread].class.params.nice.get();
        assert_eq!((nice(0), nice(2)), (5, -5));
        assert_eq!(line.plan.threads[1].class.params.rt_priority, 7);
        assert_eq!(line.plan.threads[1].timer, Timer::Sleep);
        assert!(
            line.plan
                .threads
                .iter()
                .all(|thread| thread.model == Model::Latency { period: Span::from_ms(1) })
        );
    }

    #[test]
    fn a_mistake_is_shown_where_it_stands() {
        for (line, place, problem) in [
            ("-w PERIODIC 4ms 5weeks", "5weeks", "unknown unit"),
            ("-w PERIODIC 6ms 5ms", "5ms", "do not fit"),
            ("-w PERIODIC 0ms 0ms", "0ms", "never comes"),
            ("-n 2 -t 5 -i SLEEP", "-i", "threads are 0 to 1"),
            ("-n 1000000", "1000000", "expected 1 to 1000"),
            ("-i SUNDIAL", "SUNDIAL", "no timer"),
            ("-p GOD", "GOD", "no class"),
            ("-p FIFO 100", "100", "1 to 99"),
            ("-q", "-q", "no option"),
            ("-w STEPS run=1ms,jump", "run=1ms,jump", "no step"),
            ("-w SCAN 4Mb", "4Mb", "no size"),
            ("-a 0-", "0-", "list of CPUs"),
            ("-c /nope -d 1s", "/nope", "no such folder"),
        ] {
            let error = parse(&words(line)).unwrap_err();
            let text = error.to_string();
            let marks = text.lines().last().unwrap();
            let from = marks.find('^').unwrap() - 2;
            assert_eq!(&line[from..from + place.len()], place, "{text}");
            assert!(text.contains(problem), "{text}");
        }
        assert!(parse(&words("-d")).unwrap_err().to_string().contains("the line ends"));
    }

    #[test]
    fn every_model_comes_back_from_its_name() {
        for text in [
            "CPU",
            "PERIODIC 4ms 5ms",
            "NONBLOCKING 2ms 16ms",
            "LATENCY 1ms",
            "SCAN 65536",
            "SPORADIC 1ms 10ms",
            "ONOFF 3ms 7ms",
            "STEPS run=1ms,sleep=2ms,yield",
        ] {
            let (model, timer) = parse_thread(&format!("{text} -i POSIX")).unwrap();
            assert_eq!((model.to_string().as_str(), timer), (text, Timer::Posix));
        }
    }
}
