//! `schedlab hourglass`: what does this machine's scheduler do, as seen from user level?

use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use clap::Args;
use schedlab_hourglass::{Line, Map, parse, run};
use schedlab_log::LogError;
use schedlab_report::units::count;

/// Threads that poll the clock show when they run and when not, without privilege: an execution map with a cause for every gap.
///
/// -d TIME           how long (2s)
/// -n N              threads (1)
/// -t K              the options that follow are for thread K, or for all
/// -w MODEL          CPU | PERIODIC C T | NONBLOCKING C T | LATENCY T | SCAN SIZE | SPORADIC C T | ONOFF ON OFF | STEPS run=2ms,sleep=3ms,yield
/// -p CLASS          RTHIGH RTMED RTLOW NORMAL HIGH LOW, NICE n, BATCH, IDLE, FIFO n, RR n, DEADLINE C T
/// -i TIMER          SLEEP ABSOLUTE TIMERFD ITIMER POSIX RTC BUSY
/// -a CPUS           where the threads may run, e.g. 0-3
/// -c DIR            a control group's folder to enter
/// -g TIME           shortest gap (found by calibration); -gh prints the histogram
/// --raw             the raw execution trace
/// --beside CMD      a command that runs beside it; may be given several times
/// --log FILE        a schedule log as any other; --html FILE a page; --json FILE or -
/// --buffer N        gaps that each thread has room for
/// --all-cpus        real-time threads may have every CPU
/// --seed N          of what is drawn at random
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct HourglassArgs {
    /// Options as on the slides: -d 20s -n 1 -t 0 -p RTHIGH -w PERIODIC 4ms 5ms -i RTC.
    #[arg(value_name = "OPTIONS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

pub(crate) fn hourglass(args: &HourglassArgs, ui: &Ui) -> Result<()> {
    map(&args.words, ui)
}

/// Runs what the line says and shows it.
fn map(words: &[String], ui: &Ui) -> Result<()> {
    let Line { plan, outputs } = parse(words).map_err(Failure::input)?;
    for path in [&outputs.log, &outputs.json, &outputs.html].into_iter().flatten() {
        output::check(path)?;
    }
    let step = ui.step("hourglass");
    let map = run(&plan, &|what| step.now(what.to_string())).map_err(Failure::input)?;
    drop(step);
    if let Some(path) = &outputs.log {
        schedlab_log::write(path, &map.log()).map_err(log_failure)?;
        ui.say(format!("wrote {}", path.display()));
    }
    if let Some(path) = &outputs.html {
        let title = format!("schedlab hourglass {}", words.join(" "));
        output::text(path, &map.pages(&title).html())?;
        ui.say(format!("wrote {}", path.display()));
    }
    if !output::json_value(outputs.json.as_deref(), &map.to_json())? {
        print!("{}", map.summary());
        if outputs.histogram {
            print!("\n{}", histogram(&map));
        }
        if outputs.raw {
            print!("\n{}", map.raw().to_text());
        }
    }
    Ok(())
}

fn log_failure(error: LogError) -> Failure {
    Failure::Input(error.to_string())
}

/// Steps of the loop by length.
fn histogram(map: &Map) -> String {
    let mut text = String::from("steps of the loop up to, and how many\n");
    for (ns, steps) in &map.calibration.histogram {
        text += &format!("{:>12.0} ns  {:>12}\n", ns, count(*steps));
    }
    text
}
