//! Printing that does not panic if nobody reads.

/// As the standard library's, but what nobody reads is no reason to panic.
#[macro_export]
macro_rules! println {
    ($($text:tt)*) => {
        drop(std::io::Write::write_fmt(
            &mut std::io::stdout(),
            format_args!("{}\n", format_args!($($text)*)),
        ))
    };
}

/// As the standard library's, but what nobody reads is no reason to panic.
#[macro_export]
macro_rules! eprintln {
    ($($text:tt)*) => {
        drop(std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!("{}\n", format_args!($($text)*)),
        ))
    };
}
