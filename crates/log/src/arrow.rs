//! How do pandas, DuckDB or Polars read a log? As an Arrow IPC file (`*.arrow`), one row per record.
//!
//! [`LOG_COLUMNS`] names the columns.
//!
//! Schema metadata: `schedlab.log.version` and, as JSON, `schedlab.log.header`. Batches are compressed with
//! zstd. A file that was cut off is refused when it is opened, and so is one whose lengths ask for more
//! memory than it can need (`arrow_bounds.rs`): the Arrow library trusts them.
//!
//! ```python
//! table = pyarrow.ipc.open_file("run.arrow").read_all()
//! switches = table.filter(pyarrow.compute.equal(table["kind"], "switch"))
//! ```

use crate::source::check_kinds;
use crate::{Batches, Fact, Kind, Log, LogError, LogHeader, PrevState, Record, header_json};
use arrow_array::builder::UInt8Builder;
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, RecordBatch, StringArray, UInt8Array, UInt16Array, UInt32Array,
    UInt64Array,
};
use arrow_ipc::CompressionType;
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use schedlab_stdx::limits::LOG_RECORDS_MAX;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Newest version of the columns and the header. Version 2 has what is hidden from the observer
/// ([`Hidden`](crate::Hidden)).
pub const VERSION: u32 = 2;
const VERSION_KEY: &str = "schedlab.log.version";
const HEADER_KEY: &str = "schedlab.log.header";

/// Rows per batch: large enough to compress well, 2 MB of columns at a time.
const BATCH_ROWS: usize = 64 * 1024;

/// A column of a log as a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogColumn {
    /// Its name, unit last.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    holds: Holds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    U8,
    U16,
    U32,
    U64,
    Name,
    NameOrNull,
}

impl LogColumn {
    /// Its type in Arrow's words.
    pub fn type_name(&self) -> &'static str {
        match self.holds {
            Holds::U8 => "uint8",
            Holds::U16 => "uint16",
            Holds::U32 => "uint32",
            Holds::U64 => "uint64",
            Holds::Name => "dictionary of strings",
            Holds::NameOrNull => "dictionary of strings, or null",
        }
    }

    fn field(&self) -> Field {
        let names = || DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8));
        let (holds, is_nullable) = match self.holds {
            Holds::U8 => (DataType::UInt8, false),
            Holds::U16 => (DataType::UInt16, false),
            Holds::U32 => (DataType::UInt32, false),
            Holds::U64 => (DataType::UInt64, false),
            Holds::Name => (names(), false),
            Holds::NameOrNull => (names(), true),
        };
        Field::new(self.name, holds, is_nullable)
    }
}

const fn column(name: &'static str, holds: Holds, help: &'static str) -> LogColumn {
    LogColumn { name, help, holds }
}

/// The columns, in order.
pub const LOG_COLUMNS: [LogColumn; 9] = [
    column("time_ns", Holds::U64, "from the start of the run"),
    column("cpu", Holds::U16, "where it happened"),
    column("kind", Holds::Name, "switch, waking, wakeup, new, migrate, fork, exit, params, note"),
    column("task", Holds::U32, "row of `tasks` in the header; a kernel thread: 2^31 + pid; idle: 2^32 - 1"),
    column(
        "other",
        Holds::U32,
        "by kind: the next task, the waker, the child, or for migrate the CPU it goes to",
    ),
    column(
        "prev_state",
        Holds::NameOrNull,
        "of a switch: preempted, yielded, sleeping, disk, dead; unknown where stops are hidden",
    ),
    column("flags", Holds::U8, "by kind"),
    column("arg", Holds::U32, "by kind: for wakeup, new and migrate a CPU"),
    column("value", Holds::U64, "by kind"),
];

fn schema(header: &LogHeader) -> Schema {
    let fields: Vec<Field> = LOG_COLUMNS.iter().map(LogColumn::field).collect();
    let metadata = HashMap::from([
        (VERSION_KEY.to_string(), header.version().to_string()),
        (HEADER_KEY.to_string(), header_json::to_json(header)),
    ]);
    Schema::new_with_metadata(fields, metadata)
}

/// Turns records into columns: those of the file, for whoever hands them on without one.
///
/// ```
/// use schedlab_log::{Columns, Log, synthetic::Config};
/// let log = Config::default().log();
/// let batch = Columns::new(log.header()).batch(&log.records).unwrap();
/// assert_eq!((batch.num_rows(), batch.num_columns()), (log.records.len(), 9));
/// ```
#[derive(Clone, Debug)]
pub struct Columns {
    schema: Arc<Schema>,
    kinds: ArrayRef,
    states: ArrayRef,
    /// Whether a task may be switched out for reasons that nobody saw: a state like others then.
    has_unknown_stops: bool,
}

/// Records that are turned at once: 128 KiB, which stay in the first caches for all nine columns.
const TURNED_ROWS: usize = 4096;

impl Columns {
    /// Those of a log with this header.
    pub fn new(header: &LogHeader) -> Columns {
        let has_unknown_stops = header.hidden.has(Fact::Stops);
        let states = (0..).map_while(PrevState::from_number);
        let states = states.filter(|state| *state != PrevState::Unknown || has_unknown_stops);
        Columns {
            schema: Arc::new(schema(header)),
            kinds: Arc::new(StringArray::from_iter_values(Kind::ALL.map(Kind::name))),
            states: Arc::new(StringArray::from_iter_values(states.map(PrevState::name))),
            has_unknown_stops,
        }
    }

    /// Their names and types, with the header as metadata.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// These records as rows. Their kinds must be known, as those are that [`Batches`] gives.
    ///
    /// # Errors
    /// A kind is not known.
    pub fn batch(&self, records: &[Record]) -> Result<RecordBatch, ArrowError> {
        let nr = records.len();
        let (mut time_ns, mut value) = (Vec::with_capacity(nr), Vec::with_capacity(nr));
        let (mut task, mut other, mut arg) =
            (Vec::with_capacity(nr), Vec::with_capacity(nr), Vec::with_capacity(nr));
        let mut cpu = Vec::with_capacity(nr);
        let (mut kind, mut flags) = (Vec::<u8>::with_capacity(nr), Vec::with_capacity(nr));
        let mut state = UInt8Builder::with_capacity(nr);
        for rows in records.chunks(TURNED_ROWS) {
            time_ns.extend(rows.iter().map(|r| r.time_ns));
            cpu.extend(rows.iter().map(|r| r.cpu));
            kind.extend(rows.iter().map(|r| r.kind.wrapping_sub(1)));
            task.extend(rows.iter().map(|r| r.task));
            other.extend(rows.iter().map(|r| r.other));
            rows.iter().for_each(|r| state.append_option(self.state(r)));
            flags.extend(rows.iter().map(|r| r.flags));
            arg.extend(rows.iter().map(|r| r.arg));
            value.extend(rows.iter().map(|r| r.value));
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from(time_ns)),
            Arc::new(UInt16Array::from(cpu)),
            Arc::new(DictionaryArray::try_new(UInt8Array::from(kind), self.kinds.clone())?),
            Arc::new(UInt32Array::from(task)),
            Arc::new(UInt32Array::from(other)),
            Arc::new(DictionaryArray::try_new(state.finish(), self.states.clone())?),
            Arc::new(UInt8Array::from(flags)),
            Arc::new(UInt32Array::from(arg)),
            Arc::new(UInt64Array::from(value)),
        ];
        RecordBatch::try_new(self.schema.clone(), columns)
    }

    /// Why a task stops: the row of `states`.
    fn state(&self, record: &Record) -> Option<u8> {
        if record.kind != Kind::Switch as u8 || record.task().is_idle() {
            return None;
        }
        let state = record.prev_state()?;
        (state != PrevState::Unknown || self.has_unknown_stops).then_some(state as u8)
    }
}

/// Writes the whole log as an Arrow IPC file; `name` stands for the output in errors.
pub fn write_arrow(log: &dyn Log, out: &mut (dyn Write + Send), name: &Path) -> Result<(), LogError> {
    let wrap = |error: ArrowError| match error {
        ArrowError::IoError(_, source) => LogError::Io { doing: "write", path: name.to_path_buf(), source },
        error => LogError::Arrow { path: name.to_path_buf(), problem: error.to_string() },
    };
    let columns = Columns::new(log.header());
    let options =
        IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD)).map_err(wrap)?;
    let mut writer = FileWriter::try_new_with_options(out, &columns.schema, options).map_err(wrap)?;
    let mut write = |rows: &[Record]| writer.write(&columns.batch(rows)?);
    let mut rows: Vec<Record> = Vec::with_capacity(BATCH_ROWS);
    let mut batches = log.batches()?;
    while let Some(mut batch) = batches.next_batch()? {
        while !batch.is_empty() {
            let (part, rest) = batch.split_at(batch.len().min(BATCH_ROWS - rows.len()));
            rows.extend_from_slice(part);
            batch = rest;
            if rows.len() == BATCH_ROWS {
                write(&rows).map_err(wrap)?;
                rows.clear();
            }
        }
    }
    if !rows.is_empty() {
        write(&rows).map_err(wrap)?;
    }
    writer.finish().map_err(wrap)
}

/// A log in an Arrow IPC file, read batch by batch.
#[derive(Debug)]
pub struct ArrowLog {
    path: PathBuf,
    header: LogHeader,
}

impl ArrowLog {
    /// Opens the file and reads its header.
    pub fn open(path: &Path) -> Result<ArrowLog, LogError> {
        let reader = reader(path)?;
        let schema = reader.schema();
        let wrong = |problem: String| LogError::Arrow { path: path.to_path_buf(), problem };
        let metadata = |key: &str| {
            schema.metadata().get(key).ok_or_else(|| {
                wrong(format!(
                    "it is an Arrow file, but not a schedule log: '{key}' is missing in its metadata"
                ))
            })
        };
        let version = metadata(VERSION_KEY)?;
        if !version.parse().is_ok_and(|version| (1..=VERSION).contains(&version)) {
            let (path, found) = (path.to_path_buf(), version.clone());
            return Err(LogError::UnknownVersion { path, found, supported: VERSION });
        }
        let header = header_json::from_json(metadata(HEADER_KEY)?)
            .map_err(|problem| wrong(format!("the header in its metadata is damaged: {problem}")))?;
        for expected in self::schema(&header).fields() {
            let found = schema.field_with_name(expected.name()).ok().map(Field::data_type);
            if found != Some(expected.data_type()) && expected.name() != "prev_state" {
                let (name, wanted) = (expected.name(), expected.data_type());
                return Err(wrong(format!("column {name}: expected {wanted}, found {found:?}")));
            }
        }
        Ok(ArrowLog { path: path.to_path_buf(), header })
    }
}

fn reader(path: &Path) -> Result<FileReader<BufReader<File>>, LogError> {
    let mut file = File::open(path).map_err(LogError::io("open", path))?;
    let bytes = file.metadata().map_err(LogError::io("read", path))?.len();
    crate::arrow_bounds::check(&mut file).map_err(|problem| LogError::Truncated {
        path: path.to_path_buf(),
        problem: format!("its {bytes} bytes are no whole Arrow file: {problem}"),
    })?;
    guarded(|| FileReader::try_new_buffered(file, None)).map_err(|error| LogError::Truncated {
        path: path.to_path_buf(),
        problem: format!("its {bytes} bytes do not end with an Arrow footer ({error})"),
    })
}

/// arrow-ipc panics on some damaged files (an offset beyond a buffer, seen in 60.1.0); here that is an error
/// like any other.
fn guarded<T>(read: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, ArrowError> {
    // unwind safety: after an error the reader is dropped, never used again (contract of Batches)
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(ArrowError::IpcError("the file's structure is damaged".to_string())))
}

impl Log for ArrowLog {
    fn header(&self) -> &LogHeader {
        &self.header
    }
    fn batches(&self) -> Result<Box<dyn Batches + '_>, LogError> {
        Ok(Box::new(ArrowBatches {
            log: self,
            reader: reader(&self.path)?,
            records: Vec::new(),
            start: 0,
            most: LOG_RECORDS_MAX,
        }))
    }
}

struct ArrowBatches<'a> {
    log: &'a ArrowLog,
    reader: FileReader<BufReader<File>>,
    records: Vec<Record>,
    start: u64,
    /// Records that there may be.
    most: u64,
}

impl Batches for ArrowBatches<'_> {
    fn next_batch(&mut self) -> Result<Option<&[Record]>, LogError> {
        let wrong = |problem: String| LogError::Arrow { path: self.log.path.clone(), problem };
        loop {
            let batch = match guarded(|| self.reader.next().transpose()).transpose() {
                None => return Ok(None),
                Some(Err(error)) => {
                    return Err(wrong(format!("damaged after record {}: {error}", self.start)));
                }
                Some(Ok(batch)) => batch,
            };
            let (rows, most) = (batch.num_rows() as u64, self.most);
            if rows > most.saturating_sub(self.start) {
                return Err(wrong(format!(
                    "more than {most} records, which is the most that is read (docs/results.md)"
                )));
            }
            decode(&batch, &mut self.records).map_err(wrong)?;
            check_kinds(&self.records, self.start)?;
            self.start += self.records.len() as u64;
            if !self.records.is_empty() {
                return Ok(Some(&self.records));
            }
        }
    }
}

fn decode(batch: &RecordBatch, records: &mut Vec<Record>) -> Result<(), String> {
    let column = |name: &str| {
        let column = batch.column_by_name(name).ok_or_else(|| format!("column {name} is missing"))?;
        // a dictionary's null shows in its keys, which are read as plain numbers
        if column.null_count() == 0 { Ok(column) } else { Err(format!("column {name} has empty cells")) }
    };
    let kind = column("kind")?.as_dictionary_opt::<UInt8Type>().ok_or("column kind is not a dictionary")?;
    let names = kind.values().as_string_opt::<i32>().ok_or("column kind does not hold strings")?;
    // writers other than ours may order the dictionary differently
    let kinds: Vec<u8> =
        names.iter().map(|name| name.and_then(Kind::from_name).map_or(0, |kind| kind as u8)).collect();
    let keys = kind.keys().values();
    if let Some(key) = keys.iter().find(|key| kinds.get(usize::from(**key)).is_none_or(|kind| *kind == 0)) {
        let name = names.iter().nth(usize::from(*key)).flatten().unwrap_or("nothing");
        return Err(format!(
            "unknown kind '{name}'; expected one of {}",
            Kind::ALL.map(Kind::name).join(" ")
        ));
    }
    fn primitive<T: arrow_array::ArrowPrimitiveType>(column: &ArrayRef) -> Result<&[T::Native], String> {
        let array =
            column.as_primitive_opt::<T>().ok_or("a column has another type than in the first batch")?;
        Ok(array.values())
    }
    let time_ns = primitive::<UInt64Type>(column("time_ns")?)?;
    let cpu = primitive::<UInt16Type>(column("cpu")?)?;
    let task = primitive::<UInt32Type>(column("task")?)?;
    let other = primitive::<UInt32Type>(column("other")?)?;
    let flags = primitive::<UInt8Type>(column("flags")?)?;
    let arg = primitive::<UInt32Type>(column("arg")?)?;
    let value = primitive::<UInt64Type>(column("value")?)?;
    records.clear();
    records.extend((0..batch.num_rows()).map(|i| Record {
        time_ns: time_ns[i],
        kind: kinds[usize::from(keys[i])],
        flags: flags[i],
        cpu: cpu[i],
        task: task[i],
        other: other[i],
        arg: arg[i],
        value: value[i],
    }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemLog;

    /// As many records as there may be, and one more.
    #[test]
    fn records_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.arrow");
        let header = LogHeader { nr_cpus: 1, ..LogHeader::default() };
        let records = vec![Record { kind: Kind::Note as u8, ..Record::default() }; 3];
        crate::write(&path, &MemLog { header, records }).unwrap();
        let log = ArrowLog::open(&path).unwrap();
        let read = |most: u64| {
            let (records, reader) = (Vec::new(), reader(&path).unwrap());
            let mut batches = ArrowBatches { log: &log, reader, records, start: 0, most };
            batches.next_batch().map(|batch| batch.map_or(0, <[Record]>::len))
        };
        assert_eq!(read(3).unwrap(), 3);
        let error = read(2).unwrap_err().to_string();
        assert!(error.contains("more than 2 records, which is the most that is read"), "{error}");
    }
}
