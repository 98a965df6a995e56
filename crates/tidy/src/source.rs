//! What does a source file hold? Its lines, functions and public names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A parsed file.
pub struct SourceFile {
    /// Its path below the checkout.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    parsed: syn::File,
}

/// A function, method or test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line that it begins on, from 1.
    pub line: usize,
    /// Lines from its signature to its last bracket.
    pub nr_lines: usize,
}

/// Something that other crates may name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublicName {
    /// The name.
    pub name: String,
    /// The line that it stands on, from 1.
    pub line: usize,
}

impl SourceFile {
    /// Reads and parses a file of the checkout `root`.
    ///
    /// # Panics
    /// If it cannot be read, or is no Rust.
    pub fn read(root: &Path, path: &Path) -> SourceFile {
        let text =
            std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let path = path.strip_prefix(root).unwrap_or(path).to_path_buf();
        SourceFile { path, text, parsed }
    }

    /// Lines with more than `columns` characters, from 1, with their length.
    pub fn long_lines(&self, columns: usize) -> Vec<(usize, usize)> {
        let lengths = self.text.lines().map(|line| line.chars().count());
        lengths.enumerate().filter(|(_, length)| *length > columns).map(|(at, n)| (at + 1, n)).collect()
    }

    /// Every function of the file, those in others' bodies too.
    pub fn functions(&self) -> Vec<Function> {
        let mut functions = Functions(Vec::new());
        functions.visit_file(&self.parsed);
        functions.0
    }

    /// Every item and method that is `pub` without restriction, outside tests.
    pub fn public_names(&self) -> Vec<PublicName> {
        let mut names = Names(Vec::new());
        names.visit_file(&self.parsed);
        names.0.sort();
        names.0
    }

    /// Types and traits that this file, a crate's `lib.rs`, gives to other crates by name: defined here, or taken up
    /// from the crate's own modules by `pub use`. What it passes on from other crates is not among them.
    pub fn types_given(&self) -> Vec<String> {
        let modules: Vec<String> = self
            .parsed
            .items
            .iter()
            .filter_map(
                |item| if let syn::Item::Mod(item) = item { Some(item.ident.to_string()) } else { None },
            )
            .collect();
        let mut given = Vec::new();
        for item in &self.parsed.items {
            let (visibility, name) = match item {
                syn::Item::Use(item) => (&item.vis, None),
                syn::Item::Struct(item) => (&item.vis, Some(&item.ident)),
                syn::Item::Enum(item) => (&item.vis, Some(&item.ident)),
                syn::Item::Trait(item) => (&item.vis, Some(&item.ident)),
                syn::Item::Type(item) => (&item.vis, Some(&item.ident)),
                _ => continue,
            };
            if !matches!(visibility, syn::Visibility::Public(_)) {
                continue;
            }
            given.extend(name.map(syn::Ident::to_string));
            if let syn::Item::Use(item) = item
                && let syn::UseTree::Path(path) = &item.tree
                && (path.ident == "crate"
                    || path.ident == "self"
                    || modules.contains(&path.ident.to_string()))
            {
                names_used(&path.tree, &mut given);
            }
        }
        // constants are all capitals, functions begin small
        given.retain(|name| name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase));
        given.sort();
        given.dedup();
        given
    }
}

/// The names that a `use` brings, by the name that it gives them.
fn names_used(tree: &syn::UseTree, names: &mut Vec<String>) {
    match tree {
        syn::UseTree::Path(path) => names_used(&path.tree, names),
        syn::UseTree::Name(name) => names.push(name.ident.to_string()),
        syn::UseTree::Rename(rename) => names.push(rename.rename.to_string()),
        syn::UseTree::Glob(_) => {}
        syn::UseTree::Group(group) => group.items.iter().for_each(|tree| names_used(tree, names)),
    }
}

struct Functions(Vec<Function>);

impl Functions {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let (from, to) = (signature.span().start().line, block.span().end().line);
        let name = signature.ident.to_string();
        self.0.push(Function { name, line: from, nr_lines: to - from + 1 });
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }
    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }
}

struct Names(Vec<PublicName>);

impl Names {
    fn add(&mut self, visibility: &syn::Visibility, ident: &syn::Ident) {
        if matches!(visibility, syn::Visibility::Public(_)) {
            self.0.push(PublicName { name: ident.to_string(), line: ident.span().start().line });
        }
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && matches!(&attribute.meta, syn::Meta::List(list) if list.tokens.to_string() == "test")
    })
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.vis, &item.sig.ident);
    }
    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.vis, &item.sig.ident);
    }
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.add(&item.vis, &item.ident);
    }
    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.add(&item.vis, &item.ident);
    }
    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.add(&item.vis, &item.ident);
    }
    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.add(&item.vis, &item.ident);
    }
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.add(&item.vis, &item.ident);
    }
    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.add(&item.vis, &item.ident);
    }
}

/// How often each word stands in code: comments do not count, but for what they hold between ``` lines
/// (examples are compiled).
pub fn words<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut words: BTreeMap<&str, usize> = BTreeMap::new();
    for text in texts {
        let mut in_example = false;
        for line in text.lines() {
            let trimmed = line.trim_start();
            let is_comment = trimmed.starts_with("//");
            if is_comment && trimmed.trim_start_matches(['/', '!', ' ']).starts_with("```") {
                in_example = !in_example;
                continue;
            }
            if is_comment && !in_example {
                continue;
            }
            in_example &= is_comment;
            let is_letter = |c: char| c.is_alphanumeric() || c == '_';
            for word in line.split(|c| !is_letter(c)).filter(|word| !word.is_empty()) {
                *words.entry(word).or_default() += 1;
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> SourceFile {
        SourceFile {
            path: "x.rs".into(),
            text: text.to_owned(),
            parsed: syn::parse_file(text).expect("it is Rust"),
        }
    }

    #[test]
    fn functions_and_names_are_found_where_they_stand() {
        let file = file(
            "/// Doc.\npub fn one() {\n    fn inner() {}\n}\nimpl A {\n    pub fn two(&self) -> u8 {\n        1\n    \
                }\n}\n\
             #[cfg(test)]\nmod tests {\n    pub fn three() {}\n}\npub(crate) struct Four;\n",
        );
        let functions = file.functions();
        let lengths: Vec<(&str, usize)> = functions.iter().map(|f| (f.name.as_str(), f.nr_lines)).collect();
        assert_eq!(lengths, [("one", 3), ("inner", 1), ("two", 3), ("three", 1)]);
        let names: Vec<String> = file.public_names().into_iter().map(|name| name.name).collect();
        assert_eq!(names, ["one", "two"]);
        assert_eq!(file.long_lines(27), [(6, 29)]);
    }

    #[test]
    fn a_crate_gives_its_own_types_and_not_those_of_others() {
        let text = "mod a;\npub use a::{One, b::Two as Three, CONST, function};\npub use other::Four;\nuse a::Five;\n\
                    pub struct Six;\npub(crate) struct Seven;\n";
        assert_eq!(file(text).types_given(), ["One", "Six", "Three"]);
    }

    #[test]
    fn comments_are_no_use_but_examples_are() {
        let text = "/// alpha\n/// ```\n/// beta();\n/// ```\nfn gamma() { delta(); delta() }\n";
        let words = words([text].into_iter());
        assert_eq!((words.get("alpha"), words.get("beta")), (None, Some(&1)));
        assert_eq!((words["gamma"], words["delta"]), (1, 2));
    }
}
