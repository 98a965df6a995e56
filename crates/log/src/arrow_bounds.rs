//! Does an Arrow file ask for more memory than it can need? The Arrow library trusts the lengths that it
//! finds: the footer's, each batch's, and before each compressed column the length that it unpacks to. Here
//! all of them are compared with the file first.
//!
//! ```text
//! "ARROW1" ... | batch: 4 -1, 4 length, metadata | body: 8 unpacked length, zstd ... | ... | footer, length, "ARROW1"
//!                                                        ^ at most 16 bytes a row, and 4 GiB for all columns together
//! ```
//!
//! One pass over the batches' metadata, some 15 reads of 8 bytes for each 64 Ki records.

use arrow_ipc::{Block, MessageHeader, RecordBatch, root_as_footer, root_as_message};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

const MAGIC: &[u8] = b"ARROW1";
/// Magic and padding at the begin, length and magic at the end.
const FRAME: u64 = 8 + 10;
/// A batch unpacks to at most this. Ours do to 2 MB.
const BATCH_MAX: u64 = 4 << 30;
/// A column holds numbers of 8 bytes at most, or the offset and the name of a state; and padding.
const ROW_MAX: u64 = 16;
const PADDING: u64 = 1024;
/// zstd packs at most 128 KiB into 4 bytes.
const ZSTD_MOST: u64 = 1 << 15;

type Problem = String;

/// Refuses a file whose lengths cannot be.
pub(crate) fn check(file: &mut File) -> Result<(), Problem> {
    let io = |error: std::io::Error| error.to_string();
    let length = file.metadata().map_err(io)?.len();
    if length < FRAME {
        return Err(format!("it has {length} bytes, an Arrow file has {FRAME} at least"));
    }
    let mut end = [0; 10];
    read_at(file, length - 10, &mut end)?;
    if end[4..] != *MAGIC {
        return Err("it does not end with ARROW1".to_string());
    }
    let footer_length = i32::from_le_bytes([end[0], end[1], end[2], end[3]]);
    let room = length - FRAME;
    let footer_length =
        u64::try_from(footer_length).ok().filter(|footer| *footer <= room).ok_or_else(|| {
            format!("its footer has {footer_length} bytes by its own account, there is room for {room}")
        })?;
    let begin = length - 10 - footer_length;
    let mut footer = vec![0; footer_length as usize];
    read_at(file, begin, &mut footer)?;
    let footer = root_as_footer(&footer).map_err(|error| format!("its footer is damaged: {error}"))?;
    let mut metadata = Vec::new();
    for blocks in [footer.dictionaries(), footer.recordBatches()].into_iter().flatten() {
        for (index, block) in blocks.iter().enumerate() {
            check_block(file, block, begin, &mut metadata)
                .map_err(|problem| format!("batch {index}: {problem}"))?;
        }
    }
    Ok(())
}

fn read_at(file: &mut File, at: u64, bytes: &mut [u8]) -> Result<(), Problem> {
    file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(bytes)).map_err(|error| error.to_string())
}

/// A batch lies between the file's begin and `end`, and unpacks to what its rows can need.
fn check_block(file: &mut File, block: &Block, end: u64, metadata: &mut Vec<u8>) -> Result<(), Problem> {
    let place = |value: i64| u64::try_from(value).ok().filter(|value| *value <= end);
    let (Some(at), Some(head), Some(body)) =
        (place(block.offset()), place(i64::from(block.metaDataLength())), place(block.bodyLength()))
    else {
        return Err(format!(
            "it lies at {} with {} and {} bytes, which a file of {end} bytes has no room for",
            block.offset(),
            block.metaDataLength(),
            block.bodyLength()
        ));
    };
    if at + head + body > end {
        return Err(format!("it ends at {}, the batches end at {end}", at + head + body));
    }
    metadata.resize(head as usize, 0);
    read_at(file, at, metadata)?;
    // Before format version 5 there was no -1 before the length.
    let skip = if metadata.starts_with(&[0xff; 4]) { 8 } else { 4 };
    let message = metadata.get(skip..).ok_or("its metadata is shorter than a length")?;
    let message = root_as_message(message).map_err(|error| format!("its metadata is damaged: {error}"))?;
    let batch = match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => {
            message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data())
        }
        other => return Err(format!("it is {other:?}, expected rows or a dictionary")),
    };
    check_columns(file, batch.ok_or("it has no rows")?, at + head, body)
}

fn check_columns(file: &mut File, batch: RecordBatch<'_>, begin: u64, body: u64) -> Result<(), Problem> {
    let rows = u64::try_from(batch.length()).map_err(|_| format!("it has {} rows", batch.length()))?;
    let compressed = batch.compression().is_some();
    if rows > body.saturating_mul(if compressed { ZSTD_MOST } else { 1 }) {
        return Err(format!("it has {rows} rows by its own account, in {body} bytes"));
    }
    let mut total = 0u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let (offset, length) = (buffer.offset() as u64, buffer.length() as u64);
        if offset.checked_add(length).is_none_or(|end| end > body) {
            let (offset, length) = (buffer.offset(), buffer.length());
            return Err(format!("a column lies at {offset} with {length} bytes, in a body of {body}"));
        }
        if !compressed || length < 8 {
            continue;
        }
        let mut unpacked = [0; 8];
        read_at(file, begin + offset, &mut unpacked)?;
        // -1: as it is
        let unpacked = match i64::from_le_bytes(unpacked) {
            -1 => continue,
            unpacked => u64::try_from(unpacked).unwrap_or(u64::MAX),
        };
        let most = rows.saturating_mul(ROW_MAX).saturating_add(PADDING);
        total = total.saturating_add(unpacked);
        if unpacked > most || total > BATCH_MAX {
            return Err(format!(
                "a column of {rows} rows unpacks to {unpacked} bytes by its own account, at most {most} can be"
            ));
        }
    }
    Ok(())
}
