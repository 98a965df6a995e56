//! Where is a file to be looked for that is not there?

use std::path::Path;

/// Where to look for what is not there: the nearest folder above it that is.
pub fn whereabouts(path: &Path) -> String {
    let here = Path::new(".");
    let above = path.ancestors().skip(1).map(|above| if above.as_os_str().is_empty() { here } else { above });
    let is_there = above.into_iter().find(|above| above.is_dir()).unwrap_or(here);
    let folder = if is_there == here {
        std::env::current_dir().unwrap_or_else(|_| here.to_path_buf())
    } else {
        is_there.to_path_buf()
    };
    format!("the folder that is there is {}: look in it for the right name", folder.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_folder_that_is_there_is_named() {
        let there = std::env::temp_dir();
        let path = there.join("schedlab-not-there/neither/x");
        assert!(whereabouts(&path).contains(&format!("is {}:", there.display())), "{}", whereabouts(&path));
    }
}
