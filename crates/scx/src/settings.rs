//! What does `--param NAME=VALUE` write into a scheduler's memory?
//!
//! ```text
//! fifo_sched=1                 const volatile bool fifo_sched            one byte
//! slice_ns=0x1000              const volatile u64 slice_ns               eight bytes
//! tune_input.slice_ns=5000     a member
//! cpu_order[3]=7               an element
//! ops.timeout_ms=2000          struct sched_ext_ops
//! ops.flags=SCX_OPS_ENQ_LAST   an enumerator of the kernel's; several with |
//! ```

use std::collections::BTreeMap;

use schedlab_btf::{Btf, TypeId, TypeKind};

/// A place for a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// From the variable's start, in bytes.
    pub(crate) offset: u64,
    /// 1, 2, 4 or 8.
    pub(crate) bytes: u32,
    pub(crate) signed: bool,
    /// The scheduler cannot change it.
    pub(crate) is_const: bool,
}

/// `cpu_order[3].x` -> `cpu_order`, `[3].x`
pub(crate) fn split(name: &str) -> (&str, &str) {
    let end = name.find(['.', '[']).unwrap_or(name.len());
    name.split_at(end)
}

/// Where the rest of a path (`[3].x`) leads within a value of this type; else why nowhere.
pub(crate) fn resolve(btf: &Btf, mut id: TypeId, path: &str) -> Result<Place, String> {
    let mut offset = 0u64;
    let mut rest = path;
    let mut is_const = false;
    loop {
        let (plain, constant) = btf.plain(id);
        is_const |= constant;
        match btf.kind(plain) {
            TypeKind::Int { bytes, signed } if rest.is_empty() => {
                return Ok(Place { offset, bytes: *bytes, signed: *signed, is_const });
            }
            TypeKind::Enum { bytes, .. } if rest.is_empty() => {
                return Ok(Place { offset, bytes: *bytes, signed: false, is_const });
            }
            TypeKind::Array { element, length } => {
                let Some((index, after)) = rest.strip_prefix('[').and_then(|r| r.split_once(']')) else {
                    return Err(format!("it is an array of {length}: write NAME[0]"));
                };
                let index: u32 = index.parse().map_err(|_| format!("'{index}' is not a number"))?;
                if index >= *length {
                    return Err(format!("[{index}] is beyond its {length} elements"));
                }
                offset += u64::from(index) * u64::from(btf.size(*element));
                (id, rest) = (*element, after);
            }
            TypeKind::Composite { members, .. } => {
                let known = || members.iter().map(|m| m.name.as_str()).collect::<Vec<_>>().join(", ");
                let Some(inner) = rest.strip_prefix('.') else {
                    return Err(format!("it is a structure of {}: write NAME.MEMBER", known()));
                };
                let (name, after) = split(inner);
                let Some(member) = members.iter().find(|m| m.name == name) else {
                    return Err(format!("there is no member '{name}'; there are {}", known()));
                };
                if member.width_bits != 0 {
                    return Err(format!("'{name}' is a bit field"));
                }
                offset += u64::from(member.offset_bits / 8);
                (id, rest) = (member.id, after);
            }
            _ if rest.is_empty() => return Err("it is not a number".to_owned()),
            _ => return Err(format!("'{rest}' leads nowhere")),
        }
    }
}

/// The number that a text stands for: decimal, hexadecimal, true and false, enumerators; several with `|`.
pub(crate) fn number(
    text: &str,
    enumerators: &BTreeMap<String, i64>,
    bytes: u32,
    signed: bool,
) -> Result<u64, String> {
    let one = |word: &str| -> Result<i128, String> {
        let (sign, digits) = word.strip_prefix('-').map_or((1, word), |rest| (-1, rest));
        let parsed = match digits.strip_prefix("0x") {
            Some(hex) => i128::from_str_radix(hex, 16).ok(),
            None => digits.replace('_', "").parse().ok(),
        };
        match (parsed, word) {
            (Some(n), _) => Ok(sign * n),
            (None, "true" | "y") => Ok(1),
            (None, "false" | "n") => Ok(0),
            (None, name) => enumerators
                .get(name)
                .map(|n| i128::from(*n as u64))
                .ok_or_else(|| format!("'{name}' is neither a number nor an enumerator of the kernel's")),
        }
    };
    let mut value = 0i128;
    for word in text.split('|') {
        value |= one(word.trim())?;
    }
    let bits = bytes * 8;
    let (low, high) =
        if signed { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) };
    // a negative number for an unsigned variable is what C makes of it
    if value > (1i128 << bits) - 1 || value < low.min(-(1i128 << (bits - 1))) {
        return Err(format!("{text} is not between {low} and {high}"));
    }
    Ok(value as u64 & (u64::MAX >> (64 - bits)))
}

/// A number as it stands in memory.
pub(crate) fn show(place: Place, raw: u64) -> i128 {
    let unused = 64 - place.bytes * 8;
    if place.signed {
        i128::from((raw << unused) as i64 >> unused)
    } else {
        i128::from(raw << unused >> unused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_numbers() {
        let names = BTreeMap::from([("SCX_A".to_owned(), 1), ("SCX_B".to_owned(), 8)]);
        let u64_of = |text| number(text, &names, 8, false);
        assert_eq!(u64_of("20_000"), Ok(20_000));
        assert_eq!(u64_of("0xffffffffffffffff"), Ok(u64::MAX));
        assert_eq!(u64_of("SCX_A|SCX_B"), Ok(9));
        assert_eq!(number("-1", &names, 4, true), Ok(0xffff_ffff));
        assert_eq!(number("true", &names, 1, false), Ok(1));
        assert!(number("300", &names, 1, false).unwrap_err().contains("between 0 and 255"));
        assert!(u64_of("many").unwrap_err().contains("'many' is neither"));
        let place = Place { offset: 0, bytes: 4, signed: true, is_const: false };
        assert_eq!(show(place, 0xffff_ffff), -1);
    }
}
