//! Which maps does a scheduler define, and what is in the small ones?
//!
//! ```text
//! struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 4); __type(key, u32); __type(value, u64); }
//!     stats SEC(".maps");
//!   type: pointer to an array of 2      key: pointer to u32      value: pointer to u64      -> a map of 4 x 8 bytes
//! ```
//!
//! An arena is no map here but memory: [`reserve`] sets it aside where its addresses fit into 32 bits.

use std::ffi::{CString, c_void};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Scx, peek};
use crate::abi::{Field, MAX_FIELDS, Map};
use crate::userspace::UserSpace;
use schedlab_btf::{Member, TypeId, TypeKind};

/// A map, for reading.
pub(super) struct MapInfo {
    pub(super) name: String,
    kind: u32,
    value: TypeId,
    max_entries: u32,
    definition: usize,
}

const MAP_ARRAY: u32 = 2;
const MAP_PERCPU_ARRAY: u32 = 6;
const MAP_USER_RINGBUF: u32 = 31;
const MAP_ARENA: u32 = 33;

const PAGE: u64 = 4096;

impl Scx {
    pub(super) fn find_maps(&mut self, user_space: &UserSpace) -> Result<(), String> {
        for (name, id) in self.btf.section(".maps") {
            // several files may define one map together
            if self.maps.iter().any(|known| known.name == name) {
                continue;
            }
            let Some(variable) = self.variables.get(&name).copied() else {
                return Err(format!("the map {name} has no symbol"));
            };
            let TypeKind::Composite { members, .. } = self.btf.kind(self.btf.plain(id).0) else {
                return Err(format!("the map {name} is not defined as libbpf asks for"));
            };
            let members = members.clone();
            let (mut map, value) = self.describe(&name, &members, variable.address)?;
            if let Some((_, entries)) = user_space.entries.iter().find(|(map, _)| *map == name) {
                map.max_entries = *entries;
            }
            if map.kind == MAP_USER_RINGBUF {
                return Err(format!(
                    "the map {name} is a user ring buffer: the scheduler's user-space half decides and writes into \
                     it, and no half runs here (of those that decide there, scx:userland has a stand-in)"
                ));
            }
            if map.kind == MAP_ARENA {
                let pages = u64::from(map.max_entries).min(largest_arena() / PAGE);
                let memory = reserve(pages * PAGE)
                    .map_err(|e| format!("its arena of {pages} pages cannot be had below 4 GiB: {e}"))?;
                (self.request.arena, self.request.arena_pages) = (memory, pages);
            }
            if let Some((_, count)) = user_space.filled.iter().find(|(map, _)| *map == name) {
                let pattern = members.iter().find(|m| m.name == "values").and_then(|m| self.pattern(m.id));
                let Some((inner, inner_members)) = pattern else {
                    return Err(format!("the map {name} does not say what its elements are"));
                };
                let (inner, _) = self.describe(&inner, &inner_members, 0)?;
                self._maps.push(inner);
                (map.inner_like, map.nr_inner) = (self._maps.len() as u32, *count);
            }
            let (kind, max_entries, definition) = (map.kind, map.max_entries, variable.address);
            self.maps.push(MapInfo { name, kind, value, max_entries, definition });
            self._maps.push(map);
        }
        self.request.maps = self._maps.as_mut_ptr();
        self.request.nr_maps = self._maps.len() as u32;
        Ok(())
    }

    /// Name and members of what an array of maps holds: `__array(values, struct inner)`.
    fn pattern(&self, id: TypeId) -> Option<(String, Vec<Member>)> {
        let TypeKind::Array { element, .. } = self.btf.kind(self.btf.plain(id).0) else { return None };
        let TypeKind::Pointer(to) = self.btf.kind(self.btf.plain(*element).0) else { return None };
        match self.btf.kind(self.btf.plain(*to).0) {
            TypeKind::Composite { name, members, .. } => Some((name.clone(), members.clone())),
            _ => None,
        }
    }

    /// A map by its definition, and the type of its values. `address`: of the definition; 0 for a pattern.
    fn describe(&mut self, name: &str, members: &[Member], address: usize) -> Result<(Map, TypeId), String> {
        let c_name = CString::new(name).unwrap_or_default();
        let mut map = Map {
            definition: address as *mut c_void,
            name: c_name.as_ptr(),
            kind: 0,
            key_size: 0,
            value_size: 0,
            max_entries: 0,
            flags: 0,
            nr_fields: 0,
            fields: [Field::default(); MAX_FIELDS],
            inner: ptr::null_mut(),
            nr_inner: 0,
            inner_like: 0,
            map_extra: 0,
        };
        self._names.push(c_name);
        let mut value = 0;
        for m in members {
            // __uint(x, n): pointer to an array of n; __type(x, T): pointer to T
            let to = match self.btf.kind(self.btf.plain(m.id).0) {
                TypeKind::Pointer(to) => *to,
                TypeKind::Array { .. } => 0,
                _ => continue,
            };
            let length = match self.btf.kind(self.btf.plain(to).0) {
                TypeKind::Array { length, .. } => *length,
                _ => 0,
            };
            match m.name.as_str() {
                "type" => map.kind = length,
                "max_entries" => map.max_entries = length,
                "map_flags" => map.flags = length,
                "map_extra" => map.map_extra = u64::from(length),
                "key_size" => map.key_size = length,
                "value_size" => map.value_size = length,
                "key" => map.key_size = self.btf.size(to),
                "value" => {
                    map.value_size = self.btf.size(to);
                    value = to;
                }
                "values" => {
                    // the initial contents follow in the definition
                    map.inner = (address + (m.offset_bits / 8) as usize) as *mut *mut c_void;
                }
                _ => {}
            }
        }
        if !map.inner.is_null() {
            map.nr_inner = map.max_entries;
        }
        for (kind, wanted) in [(1, "bpf_spin_lock"), (2, "bpf_timer"), (3, "bpf_wq")] {
            let mut places = Vec::new();
            self.btf.find_inside(value, wanted, 0, &mut places);
            for (offset, size) in places {
                if map.nr_fields as usize == MAX_FIELDS {
                    return Err(format!("the map {name} has more than {MAX_FIELDS} locks and timers"));
                }
                map.fields[map.nr_fields as usize] = Field { kind, offset, size, reserved: 0 };
                map.nr_fields += 1;
            }
        }
        map.fields[..map.nr_fields as usize].sort_by_key(|f| f.offset);
        Ok((map, value))
    }

    /// Elements of a small array of numbers, over all CPUs.
    pub(super) fn sums(&self, map: &MapInfo) -> Vec<u64> {
        const LARGEST: u32 = 64;
        let is_counter = match self.btf.kind(self.btf.plain(map.value).0) {
            TypeKind::Int { bytes, .. } => *bytes == 8,
            // value_size only: counters, if the name says so
            TypeKind::Opaque => map.name.contains("stat"),
            _ => false,
        };
        if !is_counter || map.max_entries > LARGEST || ![MAP_ARRAY, MAP_PERCPU_ARRAY].contains(&map.kind) {
            return Vec::new();
        }
        let cpus = if map.kind == MAP_PERCPU_ARRAY { self.nr_cpus } else { 1 };
        let sum = |index: u32| {
            let one = |cpu: u32| {
                // SAFETY: nothing runs; the function computes an address from the map's own structure.
                let at = unsafe { ((*self.abi).value)(map.definition as *mut c_void, index, cpu) };
                // SAFETY: a value of at least eight bytes, as checked above.
                if at.is_null() { 0 } else { unsafe { peek(at as usize, 8) } }
            };
            (0..cpus).map(one).fold(0, u64::wrapping_add)
        };
        let found: Vec<u64> = (0..map.max_entries).map(sum).collect();
        if found.iter().all(|&v| v == 0) { Vec::new() } else { found }
    }
}

/// Where the next arena begins: behind those of other schedulers. Below 4 GiB nothing else lives: this program is
/// position-independent.
static NEXT_ARENA: AtomicUsize = AtomicUsize::new(0x1000_0000);

/// Up to the end of the lowest 4 GiB.
fn largest_arena() -> u64 {
    (1 << 32) - NEXT_ARENA.load(Ordering::Relaxed) as u64
}

/// Address space for an arena; memory is used as it is touched.
fn reserve(bytes: u64) -> io::Result<*mut c_void> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let wanted = NEXT_ARENA.load(Ordering::Relaxed);
    // SAFETY: a new mapping, which replaces none.
    let at = unsafe { libc::mmap(wanted as *mut c_void, bytes as usize, protection, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    if at as usize != wanted {
        // SAFETY: the mapping just made, which nothing refers to.
        unsafe { libc::munmap(at, bytes as usize) };
        return Err(io::Error::from(io::ErrorKind::AddrInUse));
    }
    NEXT_ARENA.store(wanted + bytes as usize, Ordering::Relaxed);
    Ok(at)
}
