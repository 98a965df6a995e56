//! The options of trace.dat: clock, corrections of time, counts of lost events, who recorded.

use crate::cursor::Cursor;
use crate::error::{Place, Problem};
use crate::write::{RawOption, selected_clock};
use schedlab_units::CpuId;

/// What the options say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// Selected clock.
    pub clock: Option<String>,
    pub uname: Option<String>,
    pub tool: Option<String>,
    pub cpu_count: Option<u32>,
    /// ns added to each time: DATE (given in us) and OFFSET.
    pub offset_ns: i64,
    pub tsc: Option<Tsc>,
    /// By buffer name.
    pub cpu_stats: Vec<(String, BufferStats)>,
    /// The buffer whose stats come next.
    stats_buffer: String,
    /// Places of sections (version 7): number, place.
    pub sections: Vec<(u16, u64)>,
    /// BUFFER options, to be read by version.
    pub buffers: Vec<(Place, Vec<u8>)>,
    /// Buffers with text only, by name.
    pub text_buffers: Vec<String>,
    /// All others, as they are (and all of the above that describe the recording).
    pub raw: Vec<RawOption>,
}

/// TSC2NSEC: ns = cycles * mult >> shift. (The option's offset is for lining up guests with hosts; trace-cmd
/// does not add it when it reads one file either.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tsc {
    pub mult: u32,
    pub shift: u32,
}

/// What `per_cpu/cpuN/stats` said at the end of the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferStats {
    /// Which CPU.
    pub cpu: CpuId,
    /// Events in its buffer.
    pub entries: u64,
    /// Events overwritten before they were read.
    pub overrun: u64,
    /// Events lost because an interrupt came while one was being written.
    pub commit_overrun: u64,
    /// Events not written because the buffer was full.
    pub dropped_events: u64,
}

impl BufferStats {
    /// Reads the text, if it is of a CPU.
    fn parse(text: &str) -> Option<BufferStats> {
        let mut stats = BufferStats::default();
        let mut cpu = None;
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            match key.trim() {
                "CPU" => cpu = value.parse().ok(),
                "entries" => stats.entries = value.parse().ok()?,
                "overrun" => stats.overrun = value.parse().ok()?,
                "commit overrun" => stats.commit_overrun = value.parse().ok()?,
                "dropped events" => stats.dropped_events = value.parse().ok()?,
                _ => {}
            }
        }
        stats.cpu = CpuId(cpu?);
        Some(stats)
    }
    /// As the kernel writes it, without its times.
    pub(crate) fn text(&self) -> String {
        format!(
            "CPU: {}\nentries: {}\noverrun: {}\ncommit overrun: {}\ndropped events: {}\n",
            self.cpu.0, self.entries, self.overrun, self.commit_overrun, self.dropped_events
        )
    }
    /// Events that the trace lacks.
    pub fn lost(&self) -> u64 {
        self.overrun.saturating_add(self.commit_overrun).saturating_add(self.dropped_events)
    }
}

pub(super) const DONE: u16 = 0;
const DATE: u16 = 1;
const CPUSTAT: u16 = 2;
const BUFFER: u16 = 3;
const TRACECLOCK: u16 = 4;
const UNAME: u16 = 5;
const OFFSET: u16 = 7;
const CPUCOUNT: u16 = 8;
const VERSION: u16 = 9;
const TSC2NSEC: u16 = 14;
const HEADER_INFO: u16 = 16;
const CMDLINES: u16 = 21;
const BUFFER_TEXT: u16 = 22;

impl Options {
    /// Takes in one option. `cursor` covers its data.
    pub fn add(&mut self, id: u16, data: &[u8], mut cursor: Cursor<'_>) -> Result<(), Problem> {
        let text = || String::from_utf8_lossy(data).trim_end_matches(['\0', '\n']).to_string();
        match id {
            BUFFER => self.buffers.push((cursor.place(), data.to_vec())),
            BUFFER_TEXT => {
                cursor.u64("the place of a text buffer")?;
                self.text_buffers.push(cursor.c_string(4096, "the name of a text buffer")?);
            }
            HEADER_INFO..=CMDLINES => self.sections.push((id, cursor.u64("the place of a section")?)),
            CPUCOUNT => self.cpu_count = Some(cursor.u32("the number of CPUs")?),
            _ => {
                self.raw.push(RawOption { id, data: data.to_vec() });
                match id {
                    TRACECLOCK => self.clock = Some(selected_clock(&text()).to_string()),
                    UNAME => self.uname = Some(text()),
                    VERSION => self.tool = Some(text()),
                    CPUSTAT => match text().trim().strip_prefix("Buffer:") {
                        Some(name) => self.stats_buffer = name.trim().to_string(),
                        None => {
                            let stats = BufferStats::parse(&text());
                            self.cpu_stats.extend(stats.map(|stats| (self.stats_buffer.clone(), stats)));
                        }
                    },
                    DATE => self.add_offset(&text(), 1000),
                    OFFSET => self.add_offset(&text(), 1),
                    TSC2NSEC => {
                        let mult = cursor.u32("the multiplier of the TSC")?;
                        let at = cursor.place();
                        let shift = cursor.u32("the shift of the TSC")?;
                        if mult == 0 || shift >= 64 {
                            let value = format!("{mult} >> {shift}");
                            return Err(super::invalid(
                                at,
                                "the TSC's rate",
                                value,
                                "multiplier > 0, shift < 64",
                            ));
                        }
                        self.tsc = Some(Tsc { mult, shift });
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Adds a text number, decimal or 0x..., in units of `unit` ns; as strtoll, what is no number counts as 0.
    fn add_offset(&mut self, text: &str, unit: i64) {
        let text = text.trim();
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, text),
        };
        let value = match digits.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16),
            None => digits.parse(),
        };
        self.offset_ns = self.offset_ns.saturating_add(value.unwrap_or(0).saturating_mul(sign * unit));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_add_up_in_ns() {
        let mut options = Options::default();
        for (id, text) in [(DATE, "0x10\0"), (OFFSET, "-500\0"), (OFFSET, "7"), (OFFSET, "seven")] {
            options.add(id, text.as_bytes(), Cursor::at(text.as_bytes(), 0)).unwrap();
        }
        assert_eq!(options.offset_ns, 16_000 - 500 + 7);
    }

    #[test]
    fn stats_are_read_per_cpu() {
        let text = "CPU: 3\nentries: 188\noverrun: 2\ncommit overrun: 1\nbytes: 7448\noldest event ts:   931.3\n\
            dropped events: 4\n";
        let stats = BufferStats::parse(text).unwrap();
        assert_eq!((stats.cpu, stats.entries, stats.lost()), (CpuId(3), 188, 7));
        assert_eq!(BufferStats::parse(&stats.text()), Some(stats));
        assert_eq!(BufferStats::parse("\nBuffer: x\n"), None);
    }
}
