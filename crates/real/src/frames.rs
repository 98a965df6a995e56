//! What did the guest say? A sequence of frames, each with a name or a number and its length:
//! "SGF1", kind, index, length of the name (32 bits each), length of the data (64 bits), name, data.

use crate::RealError;
use schedlab_units::CpuId;
use std::collections::BTreeMap;
use std::ops::Range;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// A file of the guest.
    File = 1,
    /// Ring-buffer pages of CPU `index`.
    Pages = 2,
    /// A stage was reached.
    State = 3,
    /// The guest's program gave up; the data says why.
    Error = 4,
    /// Nothing comes after it; `index` operations were refused.
    End = 5,
}

/// A frame's parts, as places in the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub kind: FrameKind,
    pub index: u32,
    pub name: Range<usize>,
    pub data: Range<usize>,
}

const HEADER: usize = 24;

/// The frame at `at` and where the next one begins; `None` if it is not complete.
pub(crate) fn next(bytes: &[u8], at: usize) -> Result<Option<(Frame, usize)>, RealError> {
    let Some(header) = bytes.get(at..at + HEADER) else { return Ok(None) };
    let word = |i: usize| u32::from_le_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]);
    let wrong = |what: &str| Err(RealError::Output { offset: at, what: what.to_string() });
    if &header[..4] != b"SGF1" {
        return wrong("no frame begins here");
    }
    let kinds = [FrameKind::File, FrameKind::Pages, FrameKind::State, FrameKind::Error, FrameKind::End];
    let Some(kind) = kinds.into_iter().find(|kind| *kind as u32 == word(4)) else {
        return wrong("a frame of unknown kind");
    };
    let name_end = (at + HEADER).saturating_add(word(12) as usize);
    let length = u64::from(word(16)) | u64::from(word(20)) << 32;
    let data_end = name_end.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
    if length > 1 << 32 {
        return wrong("a frame of more than 4 GiB");
    }
    if data_end > bytes.len() {
        return Ok(None);
    }
    let frame = Frame { kind, index: word(8), name: at + HEADER..name_end, data: name_end..data_end };
    Ok(Some((frame, data_end)))
}

/// Everything a guest said, sorted out.
#[derive(Debug, Default)]
pub(crate) struct Frames<'a> {
    /// By name; parts of one file joined.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Ring-buffer pages per CPU, in order.
    pub pages: BTreeMap<CpuId, Vec<&'a [u8]>>,
    /// Operations that the kernel refused.
    pub nr_refused: u32,
}

impl Frames<'_> {
    /// A file that must be there.
    pub fn file(&self, name: &str) -> Result<&[u8], RealError> {
        self.files
            .get(name)
            .map(Vec::as_slice)
            .ok_or_else(|| RealError::Output { offset: 0, what: format!("it has no file {name}") })
    }
    /// As text.
    pub fn text(&self, name: &str) -> Result<String, RealError> {
        Ok(String::from_utf8_lossy(self.file(name)?).into_owned())
    }
}

/// Sorts out a complete output.
pub(crate) fn parse(bytes: &[u8]) -> Result<Frames<'_>, RealError> {
    let mut frames = Frames::default();
    let mut at = 0;
    loop {
        let Some((frame, following)) = next(bytes, at)? else {
            return Err(RealError::Output { offset: at, what: "it ends before its last frame".to_string() });
        };
        let data = &bytes[frame.data];
        match frame.kind {
            FrameKind::File => {
                let name = String::from_utf8_lossy(&bytes[frame.name]).into_owned();
                frames.files.entry(name).or_default().extend_from_slice(data);
            }
            FrameKind::Pages => frames.pages.entry(CpuId(frame.index)).or_default().push(data),
            FrameKind::State => {}
            FrameKind::Error => return Err(RealError::Inside(String::from_utf8_lossy(data).into_owned())),
            FrameKind::End => {
                frames.nr_refused = frame.index;
                return Ok(frames);
            }
        }
        at = following;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u32, index: u32, name: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = b"SGF1".to_vec();
        for word in [kind, index, name.len() as u32, data.len() as u32, 0] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        [bytes, name.as_bytes().to_vec(), data.to_vec()].concat()
    }

    #[test]
    fn frames_are_sorted_out_and_cuts_are_found() {
        let parts = [
            frame(3, 0, "booted", b""),
            frame(1, 0, "schedstat", b"1 2 3\n"),
            frame(1, 0, "schedstat", b"-\n"),
            frame(2, 1, "", &[7; 4096]),
            frame(5, 2, "", b""),
        ];
        let bytes = parts.concat();
        let frames = parse(&bytes).unwrap();
        assert_eq!(frames.text("schedstat").unwrap(), "1 2 3\n-\n");
        assert_eq!(frames.pages[&CpuId(1)], [[7; 4096].as_slice()]);
        assert_eq!(frames.nr_refused, 2);
        for cut in 0..bytes.len() {
            assert!(matches!(parse(&bytes[..cut]), Err(RealError::Output { .. })), "cut at {cut}");
        }
        let mut damaged = bytes.clone();
        damaged[0] = b'x';
        assert!(matches!(parse(&damaged), Err(RealError::Output { offset: 0, .. })));
        let error = frame(4, 0, "init", b"no memory");
        assert!(matches!(parse(&error), Err(RealError::Inside(text)) if text == "no memory"));
    }
}
