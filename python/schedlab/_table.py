"""Tables that any program with Arrow takes as they are, and the schedule log."""

from __future__ import annotations

import html
import importlib.util
import json
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

from . import _native

_ROWS_SHOWN = 20

#: Cells and exact runs of a timeline inside a notebook: at most about 0.6 MB.
_DETAIL = (16_000, 20_000)


class Table:
    """Columns with names; times are whole nanoseconds (`_ns`). An unknown value is null, never 0.

    `polars.DataFrame(table)`, `pyarrow.table(table)` and DuckDB (`SELECT * FROM table`) take it without a copy, through
    the Arrow PyCapsule interface. None of them is needed.
    """

    def __init__(self, native: _native.Table) -> None:
        self._native = native

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, object]]) -> Table:
        """Of dictionaries; the columns are their keys in order of first occurrence."""
        return cls(_native.table_of_json(json.dumps(list(rows))))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._native.__arrow_c_schema__()

    def __len__(self) -> int:
        return len(self._native)

    @property
    def column_names(self) -> list[str]:
        """Names of the columns in order."""
        return self._native.column_names

    def __getitem__(self, column: str) -> list[Any]:
        """The values of a column as a list."""
        return self._native.column(column)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Row by row; for small tables."""
        names = self.column_names
        for row in zip(*(self[name] for name in names), strict=True):
            yield dict(zip(names, row, strict=True))

    def to_dict(self) -> dict[str, list[Any]]:
        """Lists by column."""
        return {name: self[name] for name in self.column_names}

    def to_polars(self) -> Any:
        """A polars DataFrame, without a copy."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> Any:
        """A pandas DataFrame; by way of pyarrow if that is installed, else of lists."""
        import pandas

        if importlib.util.find_spec("pyarrow") is None:
            return pandas.DataFrame(self.to_dict())
        return self.to_arrow().to_pandas()

    def to_arrow(self) -> Any:
        """A pyarrow Table, without a copy."""
        import pyarrow

        table: Any = pyarrow.table
        return table(self)

    def addresses(self) -> dict[str, list[int | None]]:
        """Where the values of each column lie in memory, piece by piece."""
        return self._native.addresses()

    def __repr__(self) -> str:
        return f"<schedlab {type(self).__name__}: {len(self)} rows of {', '.join(self.column_names)}>"

    def _repr_html_(self) -> str:
        names = self.column_names
        columns = [self[name][:_ROWS_SHOWN] for name in names]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        lines = ("".join(f"<td>{_cell(value)}</td>" for value in row) for row in zip(*columns, strict=True))
        rows = [f"<tr>{line}</tr>" for line in lines]
        shown = f"the first {_ROWS_SHOWN} of {len(self):,} rows" if len(self) > _ROWS_SHOWN else f"{len(self):,} rows"
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table><p>{shown}</p>"


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,}" if type(value) is int else html.escape(str(value))


class Log:
    """A schedule log, record by record: the columns of docs/logs.md.

    Records become columns once; from then on every taker shares them. A log of more than 16 million records is not kept:
    each taker gets it streamed, a million records at a time.
    """

    def __init__(self, native: _native.Log) -> None:
        self._native = native

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._native.__arrow_c_schema__()

    def __len__(self) -> int:
        return len(self._native)

    @property
    def column_names(self) -> list[str]:
        """Names of the columns in order."""
        return self._native.column_names

    def table(self) -> Table:
        """All of it in memory."""
        return Table(self._native.table())

    def __getitem__(self, column: str) -> list[Any]:
        """The values of a column as a list."""
        return self.table()[column]

    def to_polars(self) -> Any:
        """A polars DataFrame, without a copy."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> Any:
        """A pandas DataFrame; by way of pyarrow if that is installed, else of lists."""
        return self.table().to_pandas()

    def to_arrow(self) -> Any:
        """A pyarrow Table, without a copy."""
        import pyarrow

        table: Any = pyarrow.table
        return table(self)

    def addresses(self) -> dict[str, list[int | None]]:
        """Where the values of each column lie in memory, piece by piece."""
        return self._native.addresses()

    def runs(self) -> Table:
        """Who ran when: `task`, `pid`, `name`, `cpu`, `start_ns`, `end_ns`, `stop`, `waited_ns`."""
        return Table(self._native.runs())

    def waits(self) -> Table:
        """Who waited for a CPU when: `task`, `pid`, `name`, `cpu`, `start_ns`, `end_ns`, `cause`."""
        return Table(self._native.waits())

    def write(self, path: str | PathLike[str]) -> None:
        """Writes it: as Arrow if the name ends in `.arrow`, else as text."""
        self._native.write(path)

    def __repr__(self) -> str:
        return f"<schedlab Log: {len(self)} records>"

    def _repr_html_(self) -> str:
        return _frame(self._native.html("schedule log", *_DETAIL))


def open_log(path: str | PathLike[str]) -> Log:
    """Opens a schedule log, text or Arrow: of a run, a guest, a host."""
    return Log(_native.open_log(path))


def _frame(page: str, height: int = 640) -> str:
    """A whole page inside a notebook: it neither sees nor changes anything outside, and loads nothing."""
    return (
        f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts" '
        f'style="width:100%;height:{height}px;border:1px solid #8884"></iframe>'
    )
