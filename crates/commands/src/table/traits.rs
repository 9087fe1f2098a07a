//! What is special about commands, as words of their rows.

/// Something that is special about a command. COMMAND does not show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trait {
    /// `long`: it goes over the whole store, so it runs apart from other clients' requests.
    Long,
    /// `blind`: it writes its keys and does not tell what they hold.
    Blind,
    /// `looks`: it tells of its keys only what everybody may know.
    Looks,
    /// `own`: it changes nothing but what its connection's later requests mean.
    Own,
    /// `unqueued`: MULTI does not queue it, because it acts on the queue or ends it.
    Unqueued,
    /// `immediate`: it is answered when MULTI queues it.
    Immediate,
    /// `deferred`: in a transaction it takes effect when all of that is done.
    Deferred,
    /// `listening`: a connection that listens to channels may ask for it in either dialect.
    Listening,
    /// `names`: it tells names of keys which the client has not named.
    Names,
    /// `clears`: it removes all keys of a database.
    Clears,
    /// `into-first`: it reads all keys but the first, which it writes.
    IntoFirst,
    /// `merges`: it reads all keys and writes the first.
    Merges,
    /// `into-second`: it reads the first key and writes the second.
    IntoSecond,
    /// `moves`: it reads the first key, and writes it and the second.
    Moves,
    /// `runs-queue`: it runs what MULTI has queued, if the client may run all of that.
    RunsQueue,
    /// `watches`: it watches its keys outside of MULTI.
    Watches,
    /// `reads-with-get`: it tells what its key holds only if GET stands among its options.
    ReadsWithGet,
    /// `writes-with-set`: it writes its key only if SET or INCRBY stands among its arguments.
    WritesWithSet,
    /// `to-channel`: its first argument is a channel, which gets a message.
    ToChannel,
    /// `channels`: its arguments are channels to listen to.
    Channels,
    /// `counted-keys`: its second argument says how many of those behind it are keys.
    CountedKeys,
    /// `numbered-first`: its first argument says how many of those behind it are keys.
    NumberedFirst,
    /// `numbered-second`: its second argument does; the first is a key if the row says so.
    NumberedSecond,
    /// `stores`: it reads the first key, and writes the one behind its last STORE or STOREDIST.
    Stores,
    /// `looks-up`: BY and GET among its options name keys by patterns.
    LooksUp,
    /// `streams`: its keys are the first half of what stands behind STREAMS.
    Streams,
    /// `patterns`: its arguments are patterns for channels to listen to.
    Patterns,
    /// `queued`: it may be part of a transaction, though it is about a whole database.
    Queued,
    /// `behind-keys`: its keys stand behind KEYS, if that is there.
    BehindKeys,
    /// `confirms`: its answers are told like messages, also where CLIENT REPLY has switched replies
    /// off.
    Confirms,
}

/// Every trait and its word.
const WORDS: &[(Trait, &str)] = &[
    (Trait::Long, "long"),
    (Trait::Blind, "blind"),
    (Trait::Looks, "looks"),
    (Trait::Own, "own"),
    (Trait::Unqueued, "unqueued"),
    (Trait::Immediate, "immediate"),
    (Trait::Deferred, "deferred"),
    (Trait::Listening, "listening"),
    (Trait::Names, "names"),
    (Trait::Clears, "clears"),
    (Trait::IntoFirst, "into-first"),
    (Trait::Merges, "merges"),
    (Trait::IntoSecond, "into-second"),
    (Trait::Moves, "moves"),
    (Trait::RunsQueue, "runs-queue"),
    (Trait::Watches, "watches"),
    (Trait::ReadsWithGet, "reads-with-get"),
    (Trait::WritesWithSet, "writes-with-set"),
    (Trait::ToChannel, "to-channel"),
    (Trait::Channels, "channels"),
    (Trait::Patterns, "patterns"),
    (Trait::CountedKeys, "counted-keys"),
    (Trait::NumberedFirst, "numbered-first"),
    (Trait::NumberedSecond, "numbered-second"),
    (Trait::Stores, "stores"),
    (Trait::LooksUp, "looks-up"),
    (Trait::Streams, "streams"),
    (Trait::Queued, "queued"),
    (Trait::BehindKeys, "behind-keys"),
    (Trait::Confirms, "confirms"),
];

/// A set of traits, a bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Traits(u32);

impl Traits {
    /// The traits whose words stand in `flags`.
    pub(super) const fn of(flags: &str) -> Self {
        let (mut bits, mut n) = (0, 0);
        while n < WORDS.len() {
            if has_word(flags, WORDS[n].1) {
                bits |= 1 << WORDS[n].0 as u32;
            }
            n += 1;
        }
        Traits(bits)
    }

    /// True if `which` is one of them.
    #[inline]
    pub(super) const fn has(self, which: Trait) -> bool {
        self.0 & 1 << which as u32 != 0
    }
}

/// True if `word` is one of the words of `text`, which blanks separate.
const fn has_word(text: &str, word: &str) -> bool {
    let (text, word) = (text.as_bytes(), word.as_bytes());
    let mut start = 0;
    while start + word.len() <= text.len() {
        let end = start + word.len();
        let begins = start == 0 || text[start - 1] == b' ';
        let ends = end == text.len() || text[end] == b' ';
        let mut same = 0;
        while same < word.len() && text[start + same] == word[same] {
            same += 1;
        }
        if begins && ends && same == word.len() {
            return true;
        }
        start += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::COMMANDS;
    use super::*;

    #[test]
    fn words_are_whole() {
        assert!(has_word("admin long", "long") && has_word("long", "long"));
        assert!(!has_word("admin longer", "long") && !has_word("along", "long"));
        let traits = Traits::of("write / blind into-first");
        assert!(traits.has(Trait::Blind) && traits.has(Trait::IntoFirst));
        assert!(!traits.has(Trait::Long) && !traits.has(Trait::Looks));
    }

    #[test]
    fn every_word_behind_a_slash_means_something() {
        let categories =
            ["admin", "dangerous", "keyspace", "connection", "list", "set", "sortedset"];
        let is_known =
            |word: &&str| categories.contains(word) || WORDS.iter().any(|(_, known)| known == word);
        for command in COMMANDS.iter().chain(COMMANDS.iter().flat_map(|c| c.subs)) {
            let (shown, hidden) = command.flags.split_once('/').unwrap_or((command.flags, ""));
            assert!(hidden.split_whitespace().all(|word| is_known(&word)), "{}", command.name);
            // `admin` is a flag, too.
            let is_hidden = |word: &str| word != "admin" && is_known(&word);
            assert!(!shown.split_whitespace().any(is_hidden), "{}", command.name);
        }
    }
}
