//! The words of a command line of the shell, as SQLite's shell takes them.

use silica::{Error, ErrorKind, Result};

/// Splits `line` at white space. Within single quotes everything is taken as it is; within double
/// quotes `\n`, `\r`, `\t`, `\\` and `\"` stand for one character.
///
/// # Errors
/// `Config` if a quote is not closed.
pub(super) fn split(line: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = line.trim_start().chars().peekable();
    while let Some(first) = rest.next() {
        let mut word = String::new();
        if matches!(first, '\'' | '"') {
            loop {
                match rest.next() {
                    None => {
                        let message = format!("a quote is opened and not closed: {first}{word}");
                        return Err(Error::new(ErrorKind::Config, message));
                    }
                    Some(end) if end == first => break,
                    Some('\\') if first == '"' => word.extend(rest.next().map(escaped)),
                    Some(other) => word.push(other),
                }
            }
        } else {
            word.push(first);
            while let Some(next) = rest.next_if(|next| !next.is_whitespace()) {
                word.push(next);
            }
        }
        words.push(word);
        while rest.next_if(|next| next.is_whitespace()).is_some() {}
    }
    Ok(words)
}

fn escaped(letter: char) -> char {
    match letter {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        other => other,
    }
}

/// True if `text` has white space and comments only, so that a command may follow.
pub(super) fn is_blank(text: &str) -> bool {
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = match (rest.strip_prefix("--"), rest.strip_prefix("/*")) {
            (Some(comment), _) => comment.split_once('\n').map_or("", |(_, behind)| behind),
            (_, Some(comment)) => match comment.split_once("*/") {
                Some((_, behind)) => behind,
                // It goes on in the next line.
                None => return false,
            },
            _ => return false,
        };
        rest = end.trim_start();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_words_together() {
        let words = split(r#".import 'a b.csv' "t""#).expect("split");
        assert_eq!(words, [".import", "a b.csv", "t"]);
        assert_eq!(split(r#".separator "\t" '\n' "#).expect("split"), [".separator", "\t", "\\n"]);
        assert_eq!(split(".quit").expect("split"), [".quit"]);
        assert!(split(".read 'a").is_err());
    }

    #[test]
    fn comments_are_blank() {
        for text in ["", " \n", "-- a\n", "/* a;\n */ -- b\n\n"] {
            assert!(is_blank(text), "{text}");
        }
        for text in ["SELECT 1", "-- a\nSELECT", "/* a", "/* a */ x"] {
            assert!(!is_blank(text), "{text}");
        }
    }
}
