//! The first line of scripts and libraries: `#!lua name=mylib` or `#!lua flags=no-writes`.

/// What is special about a script or a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ScriptFlags {
    /// It calls no command that writes.
    pub(crate) no_writes: bool,
}

impl ScriptFlags {
    /// The flags of these names, of which all are known; others mean nothing here.
    pub(crate) fn of<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        ScriptFlags { no_writes: names.into_iter().any(|name| name == "no-writes") }
    }
}

/// A script's text without the words of its first line, whose line end stays so that errors name
/// the right line; and its flags.
pub(crate) fn of_script(text: &[u8]) -> Result<(&[u8], ScriptFlags), String> {
    if !text.starts_with(b"#!") {
        return Ok((text, ScriptFlags::default()));
    }
    let Some(end) = text.iter().position(|byte| *byte == b'\n') else {
        return Err("ERR Invalid script shebang".into());
    };
    let line = String::from_utf8_lossy(&text[..end]).into_owned();
    let mut words = line.split_ascii_whitespace();
    let engine = words.next().unwrap_or_default();
    if engine != "#!lua" {
        return Err(format!("ERR Unexpected engine in script shebang: {engine}"));
    }
    let mut flags = ScriptFlags::default();
    for word in words {
        let Some(names) = word.strip_prefix("flags=") else {
            return Err(format!("ERR Unknown lua shebang option: {word}"));
        };
        let names = || names.split(',').filter(|name| !name.is_empty());
        if let Some(name) = names().find(|name| !silica_lua::FLAGS.contains(name)) {
            return Err(format!("ERR Unexpected flag in script shebang: {name}"));
        }
        flags = ScriptFlags::of(names());
    }
    Ok((&text[end..], flags))
}

/// A library's name, and its text as [`of_script`] leaves it.
pub(crate) fn of_library(text: &[u8]) -> Result<(String, &[u8]), String> {
    if !text.starts_with(b"#!") {
        return Err("ERR Missing library metadata".into());
    }
    let Some(end) = text.iter().position(|byte| *byte == b'\n') else {
        return Err("ERR Invalid library metadata".into());
    };
    let line = String::from_utf8_lossy(&text[2..end]).into_owned();
    let mut words = line.split_ascii_whitespace();
    let engine = words.next().unwrap_or_default();
    let mut name = None;
    for word in words {
        match word.strip_prefix("name=") {
            Some(_) if name.is_some() => {
                return Err(
                    "ERR Invalid metadata value, name argument was given multiple times".into()
                );
            }
            Some(text) => name = Some(text.to_string()),
            None => return Err(format!("ERR Invalid metadata value given: {word}")),
        }
    }
    let name = name.ok_or("ERR Library name was not given")?;
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || !name.bytes().all(is_word) {
        return Err("ERR Library names can only contain letters, numbers, or underscores(_) and \
                    must be at least one character long"
            .into());
    }
    if !engine.eq_ignore_ascii_case("lua") {
        return Err(format!("ERR Engine '{engine}' not found"));
    }
    Ok((name, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_are_read() {
        assert_eq!(of_script(b"return 1"), Ok((&b"return 1"[..], ScriptFlags::default())));
        let (rest, flags) = of_script(b"#!lua flags=no-writes,allow-stale\nreturn 1").unwrap();
        assert_eq!((rest, flags.no_writes), (&b"\nreturn 1"[..], true));
        assert_eq!(of_script(b"#!lua").unwrap_err(), "ERR Invalid script shebang");
        let refused = of_script(b"#!lua flags=nope\n").unwrap_err();
        assert_eq!(refused, "ERR Unexpected flag in script shebang: nope");
        let refused = of_script(b"#!py\n").unwrap_err();
        assert_eq!(refused, "ERR Unexpected engine in script shebang: #!py");
        assert_eq!(of_library(b"#!lua name=a\nx").unwrap(), ("a".into(), &b"\nx"[..]));
        assert_eq!(of_library(b"#!lua\nx").unwrap_err(), "ERR Library name was not given");
        assert_eq!(of_library(b"#!py name=a\nx").unwrap_err(), "ERR Engine 'py' not found");
        assert_eq!(of_library(b"x").unwrap_err(), "ERR Missing library metadata");
    }
}
