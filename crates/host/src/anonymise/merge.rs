//! How do two recordings of one CPU become one? Event by event, by time.
//!
//! ```text
//! programs   10 switch   30 waking              50 switch
//! ftrace                        40 sys_enter               ->   10 switch, 30 waking, 40 sys_enter, 50 switch
//! ```

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::pages::walk;
use crate::drain::CpuPages;
use crate::error::HostError;
use schedlab_trace::write::{Missed, PageBuilder};

/// One side: its pages, and what is left of the page read last.
struct Side<'a> {
    file: &'a mut File,
    pages: u64,
    page: Vec<u8>,
    events: VecDeque<(u64, Vec<u8>)>,
    /// Events lost before the first one left.
    missed: Option<Missed>,
}

impl Side<'_> {
    fn new(of: &mut CpuPages, page_size: usize) -> Side<'_> {
        let pages = of.bytes / page_size as u64;
        Side { file: &mut of.file, pages, page: vec![0; page_size], events: VecDeque::new(), missed: None }
    }

    /// When its next event was; `None`: there is none.
    fn next_ns(&mut self, cpu: u32) -> Result<Option<u64>, HostError> {
        while self.events.is_empty() && self.pages > 0 {
            let place = || format!("the temporary file of CPU {cpu}");
            self.file.read_exact(&mut self.page).map_err(HostError::io("cannot read", place()))?;
            self.pages -= 1;
            let events = &mut self.events;
            let missed = walk(&self.page, |time_ns, data| events.push_back((time_ns, data.to_vec())));
            let broken = |problem| HostError::Trace { path: place().into(), problem };
            if let Some(missed) = missed.map_err(broken)? {
                self.missed = Some(missed);
            }
        }
        Ok(self.events.front().map(|(time_ns, _)| *time_ns))
    }
}

/// Both recordings of a CPU as one; equal times: `first` first. Of `second` those events that are to be kept.
pub(crate) fn merge(
    first: &mut CpuPages,
    mut second: CpuPages,
    page_size: usize,
    folder: &Path,
    mut keeps: impl FnMut(&[u8]) -> bool,
) -> Result<CpuPages, HostError> {
    let cpu = first.cpu;
    let mut file =
        tempfile::tempfile_in(folder).map_err(HostError::io("cannot make a temporary file in", folder))?;
    let mut bytes = 0;
    let mut builder = PageBuilder::new(page_size);
    let mut put = |pages: &[u8]| {
        bytes += pages.len() as u64;
        file.write_all(pages).map_err(HostError::io("cannot write to a temporary file in", folder))
    };
    let (mut a, mut b) = (Side::new(first, page_size), Side::new(&mut second, page_size));
    loop {
        let (side, is_second) = match (a.next_ns(cpu)?, b.next_ns(cpu)?) {
            (Some(one), Some(other)) if other < one => (&mut b, true),
            (Some(_), _) => (&mut a, false),
            (None, Some(_)) => (&mut b, true),
            (None, None) => break,
        };
        if let Some(missed) = side.missed.take() {
            builder.lost(missed);
        }
        if let Some((time_ns, data)) = side.events.pop_front()
            && (!is_second || keeps(&data))
        {
            builder.push(time_ns, &data);
        }
        if builder.is_a_lot() {
            put(&builder.take_whole_pages())?;
        }
    }
    put(&builder.finish())?;
    file.seek(SeekFrom::Start(0)).map_err(HostError::io("cannot rewind a temporary file in", folder))?;
    Ok(CpuPages { cpu, file, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(events: &[(u64, u8)], lost_before: Option<usize>) -> CpuPages {
        let mut builder = PageBuilder::new(4096);
        for (i, (time_ns, mark)) in events.iter().enumerate() {
            if lost_before == Some(i) {
                builder.lost(Missed { count: Some(5) });
            }
            builder.push(*time_ns, &[*mark; 24]);
        }
        let pages = builder.finish();
        let mut file = tempfile::tempfile().expect("file");
        file.write_all(&pages).expect("written");
        file.seek(SeekFrom::Start(0)).expect("rewound");
        CpuPages { cpu: 2, file, bytes: pages.len() as u64 }
    }

    #[test]
    fn events_of_both_stand_in_order_of_time_and_losses_stay() {
        let many: Vec<(u64, u8)> = (0..1000).map(|i| (10 * i, 1)).collect();
        let few = [(55, 2), (60, 2), (70, 3), (5555, 2), (99_999, 2)];
        let (mut first, second) = (recorded(&many, Some(700)), recorded(&few, None));
        let merged = merge(&mut first, second, 4096, &std::env::temp_dir(), |data| data[0] != 3);
        let mut merged = merged.expect("merged");
        let mut pages = Vec::new();
        merged.file.read_to_end(&mut pages).expect("read");
        assert_eq!(pages.len() as u64, merged.bytes);
        let (mut events, mut missed) = (Vec::new(), Vec::new());
        for page in pages.chunks(4096) {
            let found = walk(page, |time_ns, data| events.push((time_ns, data[0]))).expect("own page");
            missed.extend(found.map(|missed| (missed, events.len())));
        }
        let mut expected: Vec<(u64, u8)> =
            many.into_iter().chain(few.into_iter().filter(|(_, mark)| *mark != 3)).collect();
        expected.sort_by_key(|(time_ns, _)| *time_ns);
        assert_eq!(events, expected);
        assert_eq!(missed.len(), 1);
        assert_eq!(missed[0].0, Missed { count: Some(5) });
    }
}
