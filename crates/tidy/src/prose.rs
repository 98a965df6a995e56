//! How long are the sentences of a page?
//!
//! A page is Markdown. Its paragraphs, list items and cells are prose; code blocks are not. A piece of code in a
//! line counts as one word: `schedlab run samples/gzip --cpus 2` is one thing that the reader sees at once.
//!
//! ```
//! let page = "One thought a sentence. `make test` proves it, on any machine.\n\n- A list item\n";
//! let words: Vec<usize> = schedlab_tidy::sentences(page).iter().map(|s| s.nr_words).collect();
//! assert_eq!(words, [4, 6, 3]);
//! ```

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// A sentence of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// The line of the page on which its paragraph begins, from 1.
    pub line: usize,
    /// How many words it has; code in a line is one word.
    pub nr_words: usize,
    /// Whether it stands in a table, where a cell is no whole sentence.
    pub in_table: bool,
    /// The sentence itself, without marks of Markdown.
    pub text: String,
}

/// All sentences of the prose of `page`, in order. Headings and code blocks are left out.
pub fn sentences(page: &str) -> Vec<Sentence> {
    let mut found = Vec::new();
    let (mut text, mut line, mut skipped, mut in_table) = (String::new(), 1, 0_usize, false);
    for (event, range) in Parser::new_ext(page, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(_) | Tag::Heading { .. } | Tag::HtmlBlock) => skipped += 1,
            Event::End(TagEnd::CodeBlock | TagEnd::Heading(_) | TagEnd::HtmlBlock) => skipped -= 1,
            Event::Start(Tag::Table(_)) => in_table = true,
            Event::End(TagEnd::Table) => in_table = false,
            Event::Start(Tag::Paragraph | Tag::Item | Tag::TableCell) => {
                split(&mut text, line, in_table, &mut found);
                line = page[..range.start].matches('\n').count() + 1;
            }
            Event::End(TagEnd::Paragraph | TagEnd::Item | TagEnd::TableCell) => {
                split(&mut text, line, in_table, &mut found);
            }
            Event::Text(piece) if skipped == 0 => text.push_str(&piece),
            Event::Code(code) if skipped == 0 => text.extend(code.chars().map(one_word)),
            Event::SoftBreak | Event::HardBreak => text.push(' '),
            _ => {}
        }
    }
    found
}

/// What stands in code neither ends a sentence nor divides a word.
fn one_word(c: char) -> char {
    match c {
        ' ' => '_',
        '.' | '!' | '?' => '·',
        c => c,
    }
}

/// Takes the sentences out of a paragraph's `text`.
fn split(text: &mut String, line: usize, in_table: bool, found: &mut Vec<Sentence>) {
    let mut words: Vec<&str> = Vec::new();
    let mut take = |words: &mut Vec<&str>| {
        let nr_words = words.iter().filter(|word| word.chars().any(char::is_alphanumeric)).count();
        if nr_words > 0 {
            found.push(Sentence { line, nr_words, in_table, text: words.join(" ") });
        }
        words.clear();
    };
    for word in text.split_whitespace() {
        words.push(word);
        if word.trim_end_matches(['"', ')', '*', '”']).ends_with(['.', '!', '?']) {
            take(&mut words);
        }
    }
    take(&mut words);
    text.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(page: &str) -> Vec<(usize, usize)> {
        sentences(page).iter().map(|s| (s.line, s.nr_words)).collect()
    }

    #[test]
    fn sentences_end_at_stops_and_versions_do_not() {
        assert_eq!(
            counts("Linux 6.12 runs. It does\nso on 4 CPUs (always). Yes\n"),
            [(1, 3), (1, 7), (1, 1)]
        );
    }

    #[test]
    fn code_and_headings_are_no_prose() {
        let page = "# A heading of five words\n\nSee `run --cpus 2. Now` here.\n\n```\nno prose. none\n```\n";
        assert_eq!(counts(page), [(3, 3)]);
    }

    #[test]
    fn items_and_cells_stand_alone() {
        let page = "* one two\n* three\n\n| a | b c |\n|---|---|\n| d | e f g |\n";
        assert_eq!(counts(page), [(1, 2), (2, 1), (4, 1), (4, 2), (6, 1), (6, 3)]);
        assert!(sentences(page)[2].in_table && !sentences(page)[1].in_table);
    }
}
