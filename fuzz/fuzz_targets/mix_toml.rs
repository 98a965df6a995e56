//! Any bytes as a mix: an error that points into the text, or a workload that keeps the rules. Its parts are
//! one small recording.
#![no_main]

use libfuzzer_sys::fuzz_target;
use schedlab_workload::mix::Mix;
use schedlab_workload::{parse_text, read_binary, write_binary};
use std::path::Path;

const PART: &str = "schedlab-workload 1
CGROUP /batch weight=50 max=20ms/100ms cpuset=0-3
- INIT 0 0 1 runnable name=worker nice=5
- INIT 0 0 2 blocked name=collector cgroup=/batch
- FORK 1 1ms 3 name=child
REPEAT 3 {
  @sent BLOCK 1 4ms
  - WAKEUP 1 6ms
  - WAKEUP 2 0 @sent 1 10us
  - BLOCK 2 300us
}
- EXIT 3 7ms
- EXIT 1 1ms
";

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    match Mix::parse(Path::new("fuzz.toml"), &text) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(mix) => {
            let part = parse_text("part", PART.as_bytes()).expect("the part is good");
            match mix.build(&mut |_| Ok(part.clone())) {
                Err(error) => assert!(!error.to_string().is_empty()),
                Ok(workload) => {
                    workload.check().expect("a mix keeps the rules");
                    let mut written = Vec::new();
                    write_binary(&workload, &mut written).expect("a vector takes everything");
                    assert_eq!(read_binary(&written[..]).expect("what is written can be read"), workload);
                }
            }
        }
    }
});
