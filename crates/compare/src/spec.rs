//! A scheduler with its parameters in one word: `linux-6.12:base_slice_ns=700000`.

/// `NAME[:KEY=VALUE]...`, as `--sched` of a comparison takes it.
///
/// ```
/// let spec: schedlab_compare::ContenderSpec = "linux-6.12:base_slice_ns=700000:features=NO_DELAY_DEQUEUE,HRTICK".parse().unwrap();
/// assert_eq!((spec.name.as_str(), spec.params.len()), ("linux-6.12", 2));
/// let scx: schedlab_compare::ContenderSpec = "scx:my.bpf.c:slice_us=3000".parse().unwrap();
/// assert_eq!(scx.name, "scx:my.bpf.c");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContenderSpec {
    /// The scheduler's name.
    pub name: String,
    /// Its parameters, in the order given.
    pub params: Vec<(String, String)>,
    /// All of it, as typed.
    pub text: String,
}

impl std::str::FromStr for ContenderSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<ContenderSpec, String> {
        let expected = "expected NAME[:KEY=VALUE]..., for example linux-6.12:base_slice_ns=700000";
        let mut parts = text.split(':');
        let mut name = parts.next().unwrap_or_default().to_string();
        let mut params = Vec::new();
        for part in parts {
            match part.split_once('=') {
                Some((key, value)) if !key.is_empty() => params.push((key.to_string(), value.to_string())),
                // scx:FILE is one name
                None if name == "scx" && !part.is_empty() => name = format!("{name}:{part}"),
                _ => return Err(format!("'{part}' in '{text}' is not KEY=VALUE; {expected}")),
            }
        }
        if name.is_empty() || name.contains('=') {
            return Err(format!("'{text}' names no scheduler; {expected}"));
        }
        Ok(ContenderSpec { name, params, text: text.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_specs_say_what_is_wrong() {
        for (text, word) in [
            ("", "no scheduler"),
            (":a=1", "no scheduler"),
            ("a=1", "no scheduler"),
            ("fifo:", "KEY=VALUE"),
            ("rr:quantum", "KEY=VALUE"),
            ("rr:quantum=1ms:x", "KEY=VALUE"),
            ("rr:=1", "KEY=VALUE"),
        ] {
            let error = text.parse::<ContenderSpec>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
        assert_eq!(
            "rr:quantum=".parse::<ContenderSpec>().unwrap().params,
            [("quantum".into(), String::new())]
        );
    }
}
