//! Numbers as people read them: about three digits, the unit that fits.

/// `0`, `17 ns`, `4.20 us`, `12.3 ms`, `1.50 s`, `312 s`: three digits.
pub fn time(ns: u64) -> String {
    let (scale, unit) = match ns {
        0 => return "0".to_string(),
        1..1_000 => return format!("{ns} ns"),
        1_000..999_500 => (1e3, "us"),
        999_500..999_500_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let value = ns as f64 / scale;
    let digits = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.digits$} {unit}")
}

/// `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `part` of `whole` in percent: `93.4 %`; `0 %` of nothing.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "0.0 %".to_string() } else { format!("{:.1} %", 100.0 * part as f64 / whole as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_the_unit_that_fits() {
        for (ns, text) in [
            (0, "0"),
            (1, "1 ns"),
            (999, "999 ns"),
            (1_000, "1.00 us"),
            (9_994, "9.99 us"),
            (9_996, "10.0 us"),
            (99_949, "99.9 us"),
            (99_951, "100 us"),
            (999_499, "999 us"),
            (999_500, "1.00 ms"),
            (12_345_678, "12.3 ms"),
            (999_499_999, "999 ms"),
            (1_500_000_000, "1.50 s"),
            (3_600_000_000_000, "3600 s"),
        ] {
            assert_eq!(time(ns), text);
        }
        assert_eq!(
            ["0", "999", "1,000", "1,234,567"],
            [0, 999, 1_000, 1_234_567].map(count).each_ref().map(|s| &**s)
        );
        assert_eq!([percent(1, 3), percent(0, 0)], ["33.3 %", "0.0 %"]);
    }
}
