//! A program adds schedulers of its own at its start. One test in a process of its own: the registry is the process's.

use schedlab_policies::{ExtendError, Fifo, PolicyInfo, extend, find, registry};

const fn named(name: &'static str) -> PolicyInfo {
    PolicyInfo::new(name, "mine", "this test", &[], |_| Ok(Box::new(Fifo::default())))
}

#[test]
fn a_programs_own_schedulers_are_found_like_all_others() {
    assert_eq!(extend(&[named("fifo")]), Err(ExtendError::Taken("fifo")));
    assert_eq!(extend(&[named("mine"), named("mine")]), Err(ExtendError::Taken("mine")));
    for name in ["", "a:b", "a=b", "a,b", "-a", "a b", "linux:x", "host"] {
        assert_eq!(extend(&[named(name)]), Err(ExtendError::NotAName(name)));
    }
    assert_eq!(extend(&[named("mine"), named("o2-3.0")]), Ok(()));
    assert_eq!(find("mine").map(|info| info.summary), Some("mine"));
    let names: Vec<&str> = registry().iter().map(|info| info.name).collect();
    assert_eq!(&names[names.len() - 2..], ["mine", "o2-3.0"]);
    assert_eq!(extend(&[named("late")]), Err(ExtendError::TooLate));
}
