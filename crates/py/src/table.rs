//! A table in memory that any program with Arrow takes as it is: `__arrow_c_stream__`, the PyCapsule interface.

use crate::{columns, errors};
use arrow_array::cast::AsArray;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrowPrimitiveType, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, Schema};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Columns with names, in one or several pieces.
#[derive(Clone)]
#[pyclass(frozen, module = "schedlab._native")]
pub struct Table {
    schema: Arc<Schema>,
    batches: Vec<RecordBatch>,
}

impl Table {
    /// Of pieces with this schema.
    pub fn new(schema: Arc<Schema>, batches: Vec<RecordBatch>) -> Table {
        Table { schema, batches }
    }

    /// Of one piece.
    pub fn of(batch: RecordBatch) -> Table {
        Table { schema: batch.schema(), batches: vec![batch] }
    }

    /// Its pieces one after the other; the columns are shared, not copied.
    pub fn reader(&self) -> Box<dyn RecordBatchReader + Send> {
        let batches = self.batches.clone().into_iter().map(Ok::<_, ArrowError>);
        Box::new(RecordBatchIterator::new(batches, self.schema.clone()))
    }
}

/// A capsule with the stream, as the Arrow PyCapsule interface wants it; whoever takes it releases it.
pub fn stream_capsule<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
}

/// A capsule with the schema.
pub fn schema_capsule<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(|error| errors::internal(py, &error))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

/// The values of a column as Python's; null is None.
fn values<'py>(py: Python<'py>, list: &Bound<'py, PyList>, column: &dyn Array) -> PyResult<()> {
    fn numbers<'py, T: ArrowPrimitiveType>(list: &Bound<'py, PyList>, column: &dyn Array) -> PyResult<()>
    where
        T::Native: IntoPyObject<'py>,
    {
        column.as_primitive::<T>().iter().try_for_each(|value| list.append(value))
    }
    match column.data_type() {
        DataType::Int64 => numbers::<Int64Type>(list, column),
        DataType::UInt8 => numbers::<UInt8Type>(list, column),
        DataType::UInt16 => numbers::<UInt16Type>(list, column),
        DataType::UInt32 => numbers::<UInt32Type>(list, column),
        DataType::UInt64 => numbers::<UInt64Type>(list, column),
        DataType::Float64 => numbers::<Float64Type>(list, column),
        DataType::Boolean => column.as_boolean().iter().try_for_each(|value| list.append(value)),
        DataType::Utf8 => column.as_string::<i32>().iter().try_for_each(|value| list.append(value)),
        DataType::Dictionary(..) => {
            let column = column.as_dictionary::<UInt8Type>();
            let words = PyList::empty(py);
            values(py, &words, column.values())?;
            column.keys().iter().try_for_each(|key| match key {
                Some(key) => list.append(words.get_item(key.into())?),
                None => list.append(py.None()),
            })
        }
        other => Err(errors::internal(py, &format!("a column of {other} cannot be listed"))),
    }
}

#[pymethods]
impl Table {
    /// A stream of its pieces. What is asked for by `requested_schema` is left to the taker, as the interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        stream_capsule(py, self.reader())
    }

    /// Names and types.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Names of the columns in order.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Where the values of each column lie in memory, piece by piece.
    pub fn addresses<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (place, field) in self.schema.fields().iter().enumerate() {
            let of = |batch: &RecordBatch| {
                let data = batch.column(place).to_data();
                data.buffers().first().map(|values| values.as_ptr().addr())
            };
            dict.set_item(field.name(), self.batches.iter().map(of).collect::<Vec<_>>())?;
        }
        Ok(dict)
    }

    /// The values of a column.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let Ok(place) = self.schema.index_of(name) else {
            let names = self.column_names().join(", ");
            return Err(PyKeyError::new_err(format!("there is no column '{name}'; there are {names}")));
        };
        let list = PyList::empty(py);
        self.batches.iter().try_for_each(|batch| values(py, &list, batch.column(place)))?;
        Ok(list)
    }
}

/// A table of a JSON list of objects.
#[pyfunction]
pub fn table_of_json(py: Python<'_>, json: &str) -> PyResult<Table> {
    let rows: Vec<Map<String, Value>> =
        serde_json::from_str(json).map_err(|error| errors::internal(py, &error))?;
    columns::of_rows(&rows).map(Table::of).map_err(|error| errors::internal(py, &error))
}
