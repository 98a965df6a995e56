//! Which field of which variable lies at an address of a kernel object's memory?
//!
//! ```text
//! the file       runqueues at 0x431540, struct rq; nr_running at 4 in it
//! the process    object at 0x7f..., CPU 1's variables at ram+0x190000
//! ram+0x196544   rq1.nr_running, as the kernel's own cpu_rq(1)->nr_running
//! ```
//!
//! Types are those of kernel/sched/sched.h, which has queues and tasks. What it does not declare has a name and no
//! fields.

use crate::abi::{Boot, Task};
use crate::elf::{Elf, SymbolKind};
use crate::symbols::Symbols;
use addr2line::gimli::{
    self, AttributeValue, DebuggingInformationEntry, Dwarf, EndianSlice, LittleEndian, SectionId, Unit,
};
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::Path;

/// The file whose types are read: it includes kernel/sched/sched.h. (With the flavour `race` the kernel's own files
/// tell of lines alone.)
const FILE: &str = "arch/warp/kernel/may_run.c";
/// Where per-CPU variables lie in the object; each CPU has a copy.
const PER_CPU: &str = ".warp_percpu";

type Slice<'a> = EndianSlice<'a, LittleEndian>;
/// A type by its place in the unit.
type TypeAt = usize;

enum Shape {
    /// A number, a pointer.
    Plain,
    /// Another name for a type.
    Same(TypeAt),
    Elements {
        of: TypeAt,
        count: u64,
    },
    /// Of a structure or a union: name, place, type.
    Fields(Vec<(String, u64, TypeAt)>),
}

struct Type {
    size: u64,
    shape: Shape,
}

/// What lies where.
pub struct Layout {
    variables: Symbols,
    types: HashMap<TypeAt, Type>,
    structs: HashMap<String, TypeAt>,
    type_of: HashMap<String, TypeAt>,
    per_cpu: Range<u64>,
}

/// A running object: what its addresses are called.
pub struct Placed {
    layout: Layout,
    /// Where it lies in this process.
    object: u64,
    /// What each CPU's copies are away from the object's.
    offsets: Vec<u64>,
    /// The workload's tasks: their structures.
    tasks: Vec<u64>,
}

impl Layout {
    /// Reads an object's symbols and debug information.
    ///
    /// # Errors
    /// The file cannot be read, or is no object.
    pub fn read(object: &Path) -> io::Result<Layout> {
        let data = std::fs::read(object)?;
        let elf = Elf::parse(&data).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: no ELF file", object.display()))
        })?;
        let per_cpu = elf.section(PER_CPU).map_or(0..0, |s| s.address..s.address + s.data.len() as u64);
        let mut layout = Layout {
            variables: Symbols::of(&elf, &[SymbolKind::Variable]),
            types: HashMap::new(),
            structs: HashMap::new(),
            type_of: HashMap::new(),
            per_cpu,
        };
        // without debug information names are left
        let _ = layout.read_types(&elf);
        Ok(layout)
    }

    fn read_types(&mut self, elf: &Elf<'_>) -> gimli::Result<()> {
        let section = |id: SectionId| -> gimli::Result<Slice<'_>> {
            let data = elf.section(id.name()).map_or(&[][..], |section| section.data);
            Ok(EndianSlice::new(data, LittleEndian))
        };
        let dwarf = Dwarf::load(section)?;
        let mut units = dwarf.units();
        while let Some(header) = units.next()? {
            let unit = dwarf.unit(header)?;
            let is_it = unit.name.is_some_and(|name| name.to_string_lossy().ends_with(FILE));
            if is_it {
                return self.read_unit(&dwarf, &unit);
            }
        }
        Ok(())
    }

    fn read_unit<'a>(&mut self, dwarf: &Dwarf<Slice<'a>>, unit: &Unit<Slice<'a>>) -> gimli::Result<()> {
        // structures and arrays that are being read, with their depth
        let mut open: Vec<(isize, TypeAt)> = Vec::new();
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            let depth = entry.depth();
            open.retain(|(of, _)| *of < depth);
            let name = || {
                let value = entry.attr_value(gimli::DW_AT_name)?;
                Some(dwarf.attr_string(unit, value).ok()?.to_string_lossy().into_owned())
            };
            let (at, of) = (entry.offset().0, type_of(entry));
            let size = number(entry, gimli::DW_AT_byte_size).unwrap_or(0);
            let shape = match entry.tag() {
                gimli::DW_TAG_structure_type | gimli::DW_TAG_union_type => {
                    if let (Some(name), true) = (name(), size > 0) {
                        self.structs.insert(name, at);
                    }
                    Shape::Fields(Vec::new())
                }
                gimli::DW_TAG_array_type => Shape::Elements { of: of.unwrap_or(0), count: 1 },
                gimli::DW_TAG_typedef | gimli::DW_TAG_const_type | gimli::DW_TAG_volatile_type => {
                    Shape::Same(of.unwrap_or(0))
                }
                gimli::DW_TAG_member => {
                    let bits = number(entry, gimli::DW_AT_data_bit_offset).map(|bits| bits / 8);
                    let place = number(entry, gimli::DW_AT_data_member_location).or(bits).unwrap_or(0);
                    if let (Some((_, parent)), Some(of)) = (open.last(), of) {
                        self.member(*parent, (name().unwrap_or_default(), place, of));
                    }
                    continue;
                }
                gimli::DW_TAG_subrange_type => {
                    let last = number(entry, gimli::DW_AT_upper_bound).map(|last| last.saturating_add(1));
                    let nr = number(entry, gimli::DW_AT_count).or(last).unwrap_or(0);
                    if let Some((_, parent)) = open.last() {
                        self.dimension(*parent, nr);
                    }
                    continue;
                }
                gimli::DW_TAG_variable if depth == 1 => {
                    if let (Some(name), Some(of)) = (name(), of) {
                        self.type_of.insert(name, of);
                    }
                    continue;
                }
                gimli::DW_TAG_base_type | gimli::DW_TAG_enumeration_type => Shape::Plain,
                gimli::DW_TAG_pointer_type => {
                    self.types.insert(at, Type { size: 8, shape: Shape::Plain });
                    continue;
                }
                _ => continue,
            };
            if matches!(shape, Shape::Fields(_) | Shape::Elements { .. }) {
                open.push((depth, at));
            }
            self.types.insert(at, Type { size, shape });
        }
        Ok(())
    }

    fn member(&mut self, parent: TypeAt, member: (String, u64, TypeAt)) {
        if let Some(Type { shape: Shape::Fields(fields), .. }) = self.types.get_mut(&parent) {
            fields.push(member);
        }
    }

    fn dimension(&mut self, parent: TypeAt, nr: u64) {
        if let Some(Type { shape: Shape::Elements { count, .. }, .. }) = self.types.get_mut(&parent) {
            *count = count.saturating_mul(nr);
        }
    }

    fn size(&self, of: TypeAt, depth: u32) -> u64 {
        match self.types.get(&of) {
            Some(Type { shape: Shape::Same(of), .. }) if depth < DEPTH => self.size(*of, depth + 1),
            Some(Type { shape: Shape::Elements { of, count }, .. }) if depth < DEPTH => {
                self.size(*of, depth + 1).saturating_mul(*count)
            }
            Some(found) => found.size,
            None => 0,
        }
    }

    /// The path of fields to a place in a type: `.cfs.nr_running`, `.tasks[3].next`, `+4` within a number.
    fn path(&self, mut of: TypeAt, mut at: u64) -> String {
        let mut path = String::new();
        for _ in 0..DEPTH {
            match self.types.get(&of).map(|found| &found.shape) {
                Some(Shape::Same(next)) => of = *next,
                Some(Shape::Elements { of: next, .. }) if self.size(*next, 0) > 0 => {
                    let size = self.size(*next, 0);
                    path += &format!("[{}]", at / size);
                    (of, at) = (*next, at % size);
                }
                Some(Shape::Fields(fields)) => {
                    let holds = |(_, place, next): &&(String, u64, TypeAt)| {
                        *place <= at && at < place + self.size(*next, 0).max(1)
                    };
                    let Some((name, place, next)) = fields.iter().find(holds) else { break };
                    if !name.is_empty() {
                        path += &format!(".{name}");
                    }
                    (of, at) = (*next, at - place);
                }
                _ => break,
            }
        }
        if at > 0 {
            path += &format!("+{at}");
        }
        // the word of a lock is the lock
        let lock =
            path.strip_suffix(".raw_lock.locked").map(|lock| lock.strip_suffix(".rlock").unwrap_or(lock));
        lock.map(str::to_owned).unwrap_or(path)
    }

    /// What lies at an address of the file: a variable, and the fields to there.
    fn variable(&self, at: u64) -> Option<(&str, String)> {
        let (name, within) = self.variables.find(at)?;
        let path = self.type_of.get(name).map(|of| self.path(*of, within));
        let plain = || if within > 0 { format!("+{within:#x}") } else { String::new() };
        Some((name, path.unwrap_or_else(plain)))
    }

    /// The object as it lies in this process, booted, with so many CPUs.
    ///
    /// # Safety
    /// The object of this layout is loaded at `object` and has booted.
    pub unsafe fn placed(self, object: u64, nr_cpus: u32) -> Placed {
        let address = |name: &str| self.variables.address(name).map(|at| (object + at) as usize);
        let offsets = address("__per_cpu_offset").map_or(Vec::new(), |at| {
            let first = std::ptr::with_exposed_provenance::<u64>(at);
            // SAFETY: the kernel has an element for each CPU that it may have.
            (0..nr_cpus as usize).map(|cpu| unsafe { *first.add(cpu) }).collect()
        });
        let tasks = address("warp_boot_info").map_or(Vec::new(), |at| {
            // SAFETY: the simulator has filled it before the boot, and its tasks stay where they are.
            let boot: &Boot = unsafe { &*std::ptr::with_exposed_provenance(at) };
            let task = |id: usize| -> u64 {
                // SAFETY: there are `max_tasks` of them.
                let task: &Task = unsafe { &*boot.tasks.add(id) };
                task.task.expose_provenance() as u64
            };
            (0..boot.max_tasks as usize).map(task).collect()
        });
        Placed { layout: self, object, offsets, tasks }
    }
}

/// Types within types, at most.
const DEPTH: u32 = 24;

impl Placed {
    /// What an address of this process is called, with its field: a variable, CPU 1's queue (`rq1`) or other variable
    /// (`hrtimer_bases@1`), the workload's task 3 (`t3`).
    pub fn name(&self, address: u64) -> Option<String> {
        let in_file = |offset: u64| address.wrapping_sub(offset).wrapping_sub(self.object);
        for (cpu, offset) in self.offsets.iter().enumerate() {
            if self.layout.per_cpu.contains(&in_file(*offset)) {
                return self.layout.variable(in_file(*offset)).map(|(name, path)| match name {
                    "runqueues" => format!("rq{cpu}{path}"),
                    _ => format!("{name}@{cpu}{path}"),
                });
            }
        }
        let task = self.layout.structs.get("task_struct").copied();
        if let Some(of) = task {
            let size = self.layout.size(of, 0);
            let is_there = |start: &u64| *start > 0 && (*start..start + size).contains(&address);
            if let Some(id) = self.tasks.iter().position(is_there) {
                return Some(format!("t{id}{}", self.layout.path(of, address - self.tasks[id])));
            }
        }
        self.layout.variable(in_file(0)).map(|(name, path)| format!("{name}{path}"))
    }
}

fn number(entry: &DebuggingInformationEntry<Slice<'_>>, name: gimli::DwAt) -> Option<u64> {
    entry.attr_value(name)?.udata_value()
}

fn type_of(entry: &DebuggingInformationEntry<Slice<'_>>) -> Option<TypeAt> {
    match entry.attr_value(gimli::DW_AT_type)? {
        AttributeValue::UnitRef(at) => Some(at.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct a { long x; struct { int y; int z[3]; } b; union { short u; long v; }; }`
    fn layout() -> Layout {
        let plain = |size| Type { size, shape: Shape::Plain };
        let fields = |size, list: &[(&str, u64, TypeAt)]| Type {
            size,
            shape: Shape::Fields(list.iter().map(|(name, at, of)| ((*name).into(), *at, *of)).collect()),
        };
        let types = [
            (1, plain(8)),
            (2, plain(4)),
            (3, Type { size: 0, shape: Shape::Elements { of: 9, count: 3 } }),
            (4, fields(16, &[("y", 0, 2), ("z", 4, 3)])),
            (5, plain(2)),
            (6, fields(8, &[("u", 0, 5), ("v", 0, 1)])),
            (7, fields(32, &[("x", 0, 1), ("b", 8, 4), ("", 24, 6)])),
            (8, Type { size: 0, shape: Shape::Same(7) }),
            (9, Type { size: 0, shape: Shape::Same(2) }),
        ];
        Layout {
            variables: Symbols::default(),
            types: types.into_iter().collect(),
            structs: HashMap::from([("a".to_owned(), 7)]),
            type_of: HashMap::new(),
            per_cpu: 0..0,
        }
    }

    #[test]
    fn a_place_has_a_path_of_fields() {
        let layout = layout();
        let path = |at| layout.path(8, at);
        assert_eq!([path(0), path(4), path(8)], [".x", ".x+4", ".b.y"]);
        assert_eq!([path(12), path(20), path(22)], [".b.z[0]", ".b.z[2]", ".b.z[2]+2"]);
        assert_eq!([path(24), path(26), path(40)], [".u", ".v+2", "+40"]);
        assert_eq!((layout.size(8, 0), layout.size(3, 0)), (32, 12));
    }

    #[test]
    fn types_that_lead_in_a_circle_end() {
        let mut layout = layout();
        layout.types.insert(8, Type { size: 0, shape: Shape::Same(8) });
        assert_eq!((layout.path(8, 0), layout.size(8, 0)), (String::new(), 0));
    }
}
