//! Rows as Parquet: written whole, read a few rows at a time.
//!
//! Each column is optional and has one value a row. Files hold row groups of some thousand rows, zstd. Equal rows make
//! equal bytes.

use crate::error::SweepError;
use crate::key::Summing;
use crate::row::{Cell, Column, ColumnType, TableRow};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread::JoinHandle;

/// zstd's level: 3 is its default.
const ZSTD: i32 = 3;
/// Rows that are read at once: of hundreds of files side by side.
const BATCH: usize = 256;

fn schema(columns: &[Column]) -> Result<TypePtr, ParquetError> {
    let field = |column: &Column| {
        let (physical, logical) = match column.kind {
            ColumnType::Int => (Physical::INT64, None),
            ColumnType::Bool => (Physical::BOOLEAN, None),
            ColumnType::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        Type::primitive_type_builder(column.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()
            .map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<_, _>>()?;
    Type::group_type_builder("schema").with_fields(fields).build().map(Arc::new)
}

/// A file that grows in a folder of its own; [`TableWriter::finish`] makes it whole. A thread compresses a group while
/// the next one is collected.
pub(crate) struct TableWriter {
    path: PathBuf,
    /// Rows of the group that is being collected.
    rows: Vec<TableRow>,
    nr_rows: u64,
    /// `None` after an error.
    encoder: Option<EncoderThread>,
}

/// The thread and the way to it; it ends with the sum of the file, if that became whole.
type EncoderThread = (SyncSender<Step>, JoinHandle<Result<Option<[u8; 32]>, SweepError>>);

/// What the thread is to do.
enum Step {
    Group(Vec<TableRow>),
    /// What a file without this step is stays unfinished.
    Finish,
}

/// Rows of one group.
const GROUP: usize = 10_000;

/// A file whose bytes are summed on their way.
struct Sink {
    out: BufWriter<File>,
    sum: Summing,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write_all(bytes)?;
        self.sum.write_all(bytes)?;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// `map_err` for writing: a full disk shows as an error of the system inside one of the format's.
fn unwritten(path: &Path) -> impl Fn(ParquetError) -> SweepError {
    let path = path.to_owned();
    move |error| {
        let source = match error {
            ParquetError::External(inner) => match inner.downcast::<io::Error>() {
                Ok(error) => *error,
                Err(other) => io::Error::other(other.to_string()),
            },
            other => io::Error::other(other.to_string()),
        };
        SweepError::io("write", &path)(source)
    }
}

impl TableWriter {
    /// Begins the file `path`, over whatever is there.
    pub(crate) fn create(path: &Path, columns: &'static [Column]) -> Result<TableWriter, SweepError> {
        let mut encoder = Encoder::create(path, columns)?;
        let (steps, received) = mpsc::sync_channel(1);
        let work = move || {
            for step in received {
                match step {
                    Step::Group(rows) => encoder.group(&rows)?,
                    Step::Finish => return encoder.finish().map(Some),
                }
            }
            Ok(None)
        };
        let thread = std::thread::Builder::new().name("parquet".to_owned()).spawn(work);
        let thread = thread.map_err(SweepError::io("write", path))?;
        Ok(TableWriter {
            path: path.to_owned(),
            rows: Vec::new(),
            nr_rows: 0,
            encoder: Some((steps, thread)),
        })
    }

    pub(crate) fn push(&mut self, row: TableRow) -> Result<(), SweepError> {
        self.rows.push(row);
        self.nr_rows += 1;
        if self.rows.len() == GROUP { self.group() } else { Ok(()) }
    }

    pub(crate) fn nr_rows(&self) -> u64 {
        self.nr_rows
    }

    fn group(&mut self) -> Result<(), SweepError> {
        let rows = std::mem::replace(&mut self.rows, Vec::with_capacity(GROUP));
        let is_taken = self.encoder.as_ref().is_some_and(|(steps, _)| steps.send(Step::Group(rows)).is_ok());
        if is_taken { Ok(()) } else { self.end().map(|_| ()) }
    }

    /// Waits for the thread. A thread that ended before it was asked to has an error.
    fn end(&mut self) -> Result<[u8; 32], SweepError> {
        let unwritten = || SweepError::Internal(format!("{}: its writer has ended", self.path.display()));
        let (steps, thread) = self.encoder.take().ok_or_else(unwritten)?;
        drop(steps);
        match thread.join() {
            Ok(done) => done?.ok_or_else(unwritten),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Completes the file, has the disk keep it, and gives the SHA-256 of its bytes.
    pub(crate) fn finish(mut self) -> Result<[u8; 32], SweepError> {
        if !self.rows.is_empty() {
            self.group()?;
        }
        if let Some((steps, _)) = &self.encoder {
            // (a thread that is gone has an error, which comes next)
            let _ = steps.send(Step::Finish);
        }
        self.end()
    }
}

/// The file itself.
struct Encoder {
    columns: &'static [Column],
    writer: SerializedFileWriter<Sink>,
    path: PathBuf,
}

impl Encoder {
    /// Begins the file `path`, over whatever is there.
    fn create(path: &Path, columns: &'static [Column]) -> Result<Encoder, SweepError> {
        let file = File::create(path).map_err(SweepError::io("create", path))?;
        let level = ZstdLevel::try_new(ZSTD).expect("a level that zstd has");
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_created_by("schedlab".to_owned())
            .build();
        let sink = Sink { out: BufWriter::new(file), sum: Summing::default() };
        let schema = schema(columns).map_err(unwritten(path))?;
        let writer =
            SerializedFileWriter::new(sink, schema, Arc::new(properties)).map_err(unwritten(path))?;
        Ok(Encoder { columns, writer, path: path.to_owned() })
    }

    fn group(&mut self, rows: &[TableRow]) -> Result<(), SweepError> {
        let fail = unwritten(&self.path);
        let mut group = self.writer.next_row_group().map_err(&fail)?;
        for (at, column) in self.columns.iter().enumerate() {
            let mut writer = group.next_column().map_err(&fail)?.expect("as many columns as in the schema");
            let levels: Vec<i16> = rows.iter().map(|row| i16::from(row[at] != Cell::Null)).collect();
            let cells = rows.iter().map(|row| &row[at]);
            let written = match column.kind {
                ColumnType::Int => {
                    let values: Vec<i64> = cells.filter_map(Cell::int).collect();
                    writer.typed::<Int64Type>().write_batch(&values, Some(&levels), None)
                }
                ColumnType::Bool => {
                    let is = |cell: &Cell| if let Cell::Bool(is) = cell { Some(*is) } else { None };
                    let values: Vec<bool> = cells.filter_map(is).collect();
                    writer.typed::<BoolType>().write_batch(&values, Some(&levels), None)
                }
                ColumnType::Text => {
                    let values: Vec<ByteArray> =
                        cells.filter_map(Cell::as_str).map(ByteArray::from).collect();
                    writer.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)
                }
            };
            written.map_err(&fail)?;
            writer.close().map_err(&fail)?;
        }
        group.close().map_err(&fail)?;
        Ok(())
    }

    fn finish(self) -> Result<[u8; 32], SweepError> {
        let sink = self.writer.into_inner().map_err(unwritten(&self.path))?;
        let file = sink.out.into_inner().map_err(io::IntoInnerError::into_error);
        let file = file.map_err(SweepError::io("write", &self.path))?;
        file.sync_all().map_err(SweepError::io("write", &self.path))?;
        Ok(sink.sum.sum())
    }
}

/// Reads a file's rows in order, some columns or all.
pub(crate) struct TableReader {
    path: PathBuf,
    file: SerializedFileReader<File>,
    /// The file's column for each that is wanted, and what it holds.
    wanted: Vec<(usize, ColumnType)>,
    next_group: usize,
    readers: Vec<ColumnReader>,
    left: usize,
    batch: VecDeque<TableRow>,
}

impl TableReader {
    /// Opens it; the wanted columns must be there.
    pub(crate) fn open(path: &Path, columns: &[Column]) -> Result<TableReader, SweepError> {
        let file = File::open(path).map_err(SweepError::io("open", path))?;
        let file = SerializedFileReader::new(file).map_err(SweepError::damaged(path))?;
        let fields = file.metadata().file_metadata().schema().get_fields().to_vec();
        let wanted = columns.iter().map(|column| {
            let at = fields.iter().position(|field| field.name() == column.name);
            at.map(|at| (at, column.kind)).ok_or_else(|| SweepError::NoDataset {
                path: path.to_owned(),
                what: format!(
                    "it has no column '{}': another version of schedlab wrote it, or another program; take a \
                     new folder",
                    column.name
                ),
            })
        });
        let wanted = wanted.collect::<Result<_, _>>()?;
        let path = path.to_owned();
        Ok(TableReader {
            path,
            file,
            wanted,
            next_group: 0,
            readers: Vec::new(),
            left: 0,
            batch: VecDeque::new(),
        })
    }

    pub(crate) fn nr_rows(&self) -> u64 {
        self.file.metadata().file_metadata().num_rows().max(0) as u64
    }

    /// The next row; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<TableRow>, SweepError> {
        while self.batch.is_empty() {
            if self.left == 0 {
                if self.next_group == self.file.num_row_groups() {
                    return Ok(None);
                }
                let fail = SweepError::damaged(&self.path);
                let group = self.file.get_row_group(self.next_group).map_err(&fail)?;
                let readers = self.wanted.iter().map(|(at, _)| group.get_column_reader(*at));
                self.readers = readers.collect::<Result<_, _>>().map_err(&fail)?;
                self.left = group.metadata().num_rows().max(0) as usize;
                self.next_group += 1;
                continue;
            }
            self.fill()?;
        }
        Ok(self.batch.pop_front())
    }

    fn fill(&mut self) -> Result<(), SweepError> {
        let nr = self.left.min(BATCH);
        let mut rows: Vec<TableRow> = (0..nr).map(|_| Vec::with_capacity(self.wanted.len())).collect();
        for (reader, (_, kind)) in self.readers.iter_mut().zip(&self.wanted) {
            let cells = match (kind, reader) {
                (ColumnType::Int, ColumnReader::Int64ColumnReader(reader)) => {
                    cells(reader, nr, |number| Some(Cell::Int(*number)))
                }
                (ColumnType::Bool, ColumnReader::BoolColumnReader(reader)) => {
                    cells(reader, nr, |is| Some(Cell::Bool(*is)))
                }
                (ColumnType::Text, ColumnReader::ByteArrayColumnReader(reader)) => {
                    cells(reader, nr, |text| Some(Cell::text(std::str::from_utf8(text.data()).ok()?)))
                }
                _ => Err("a column has another type".to_owned()),
            };
            let cells = cells.map_err(SweepError::damaged(&self.path))?;
            for (row, cell) in rows.iter_mut().zip(cells) {
                row.push(cell);
            }
        }
        self.left -= nr;
        self.batch.extend(rows);
        Ok(())
    }
}

/// The next `nr` cells of a column.
fn cells<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    nr: usize,
    cell: impl Fn(&T::T) -> Option<Cell>,
) -> Result<Vec<Cell>, String> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    while levels.len() < nr {
        let (records, ..) = reader
            .read_records(nr - levels.len(), Some(&mut levels), None, &mut values)
            .map_err(|error| error.to_string())?;
        if records == 0 {
            return Err(format!("a column ends {} rows early", nr - levels.len()));
        }
    }
    let mut values = values.iter();
    let mut next = || values.next().and_then(&cell).ok_or_else(|| "a value is no text".to_owned());
    levels.iter().map(|level| if *level == 0 { Ok(Cell::Null) } else { next() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[
        Column { name: "a", kind: ColumnType::Int, help: "" },
        Column { name: "b", kind: ColumnType::Text, help: "" },
        Column { name: "c", kind: ColumnType::Bool, help: "" },
    ];

    fn row(number: i64) -> TableRow {
        let null = |cell: Cell, every: i64| if number % every == 0 { Cell::Null } else { cell };
        vec![
            null(Cell::Int(number - 5), 3),
            null(Cell::text(format!("text {number}")), 5),
            null(Cell::Bool(number % 2 == 0), 7),
        ]
    }

    #[test]
    fn rows_come_back_and_equal_rows_are_equal_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let path = folder.path().join(name);
            let mut table = TableWriter::create(&path, COLUMNS).unwrap();
            (0..25_000).for_each(|number| table.push(row(number)).unwrap());
            (path, table.finish().unwrap())
        };
        let ((one, sum), (other, same)) = (write("one"), write("other"));
        assert_eq!(sum, same);
        assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(other).unwrap());
        let mut table = TableReader::open(&one, &COLUMNS[..2]).unwrap();
        assert_eq!(table.nr_rows(), 25_000);
        for number in 0..25_000 {
            assert_eq!(table.next().unwrap().unwrap(), row(number)[..2], "{number}");
        }
        assert!(table.next().unwrap().is_none());
    }

    #[test]
    fn a_cut_file_is_damaged_and_a_foreign_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.parquet");
        let mut table = TableWriter::create(&path, COLUMNS).unwrap();
        (0..100).for_each(|number| table.push(row(number)).unwrap());
        table.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        for length in [0, 3, bytes.len() / 2, bytes.len() - 1] {
            std::fs::write(&path, &bytes[..length]).unwrap();
            let error = TableReader::open(&path, COLUMNS).err().expect("cut short");
            assert!(matches!(error, SweepError::Damaged { .. }), "{error}");
        }
        std::fs::write(&path, &bytes).unwrap();
        let other = [Column { name: "nosuch", kind: ColumnType::Int, help: "" }];
        let error = TableReader::open(&path, &other).err().expect("no such column").to_string();
        assert!(error.contains("no column 'nosuch'"), "{error}");
    }
}
