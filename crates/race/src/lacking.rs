//! Which function does a kernel's file lack, that it does not become a target? The compiler and the linker say so in
//! their words.

use crate::RaceError;

/// What each target calls of the file under test.
const CALLED: [(&str, &[&str]); 2] = [
    ("cpupri", &["cpupri_init", "cpupri_set", "cpupri_find"]),
    ("cpudl", &["cpudl_init", "cpudl_set", "cpudl_clear", "cpudl_find"]),
];

/// Names a function that is missed. Other errors stay as they are.
pub(crate) fn named(error: RaceError, target: &str, file: &str, version: &str) -> RaceError {
    let RaceError::Compile { text, .. } = &error else { return error };
    let called = CALLED.iter().find(|(name, _)| *name == target).map_or(&[][..], |(_, called)| called);
    let Some(function) = missed(text).map(str::to_owned) else { return error };
    match called.contains(&function.as_str()) {
        true => RaceError::Lacks {
            file: file.to_owned(),
            version: version.to_owned(),
            function,
            target: target.to_owned(),
        },
        false => RaceError::NoStandIn { file: file.to_owned(), version: version.to_owned(), function },
    }
}

/// The first name that the compiler has no declaration of, or the linker no function.
fn missed(text: &str) -> Option<&str> {
    text.lines().find_map(missed_in)
}

fn missed_in(line: &str) -> Option<&str> {
    let is_quote = |c: char| matches!(c, '\'' | '`' | '‘' | '’');
    let marks = ["undefined reference to ", "implicit declaration of function "];
    let named = marks.into_iter().find_map(|mark| line.split(mark).nth(1));
    let named = named.or_else(|| line.split_once(" undeclared")?.0.rsplit("error: ").next());
    named?.trim_start_matches(is_quote).split(is_quote).next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_is_missed_has_a_name() {
        let said = [
            "ld: /tmp/target_cpudl.c.o: in function `change':\ntarget_cpudl.c:63: undefined reference to `cpudl_clear'",
            "target_cpudl.c:63:9: error: implicit declaration of function ‘cpudl_clear’ [-Werror]",
            "target_cpudl.c:63:9: error: 'cpudl_clear' undeclared (first use in this function)",
        ];
        for text in said {
            let error = RaceError::Compile { what: "cpudl".into(), text: text.into() };
            let text = named(error, "cpudl", "kernel/sched/cpudeadline.c", "6.12").to_string();
            assert!(text.contains("kernel/sched/cpudeadline.c of Linux 6.12 has no cpudl_clear()"), "{text}");
        }
        let other =
            RaceError::Compile { what: "cpudl".into(), text: "x.c:1: error: expected ‘;’".into() };
        assert!(named(other, "cpudl", "", "").to_string().contains("cannot be compiled"));
    }
}
