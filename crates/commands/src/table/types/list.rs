//! Commands on lists.

use crate::resp::types::list;
use crate::table::{Command, FIRST_OF_MANY, NUMBERED, ONE, Run, TWO};

pub(super) static COMMANDS: &[Command] = table! {
    "blmove" 6 "write denyoom blocking" TWO "list" "6.2.0" Run::Type(&list::MOVE),
        "Moves a value from one list to another, and waits until there is one.";
    "blmpop" -5 "write blocking / numbered-second" NUMBERED "list" "7.0.0"
        Run::Type(&list::BMPOP), "Removes values from the first list that has any; waits for it.";
    "blpop" -3 "write blocking" FIRST_OF_MANY "list" "2.0.0" Run::Type(&list::BPOP),
        "Removes the first value of the first list that has any, and waits for it.";
    "brpop" -3 "write blocking" FIRST_OF_MANY "list" "2.0.0" Run::Type(&list::BPOP),
        "Removes the last value of the first list that has any, and waits for it.";
    "brpoplpush" 4 "write denyoom blocking" TWO "list" "2.2.0" Run::Type(&list::MOVE),
        "Moves the last value of a list to the front of another, and waits until there is one.";
    "lindex" 3 "readonly" ONE "list" "1.0.0" Run::Type(&list::LINDEX),
        "Returns the value at a place of a list.";
    "linsert" 5 "write denyoom" ONE "list" "2.2.0" Run::Type(&list::LINSERT),
        "Inserts a value before or behind another one.";
    "llen" 2 "readonly fast" ONE "list" "1.0.0" Run::Type(&list::LLEN),
        "Returns how many values a list has.";
    "lmove" 5 "write denyoom" TWO "list" "6.2.0" Run::Type(&list::MOVE),
        "Moves a value from one list to another.";
    "lmpop" -4 "write / numbered-first" NUMBERED "list" "7.0.0" Run::Type(&list::MPOP),
        "Removes values from the first list that has any.";
    "lpop" -2 "write fast" ONE "list" "1.0.0" Run::Type(&list::POP),
        "Removes the first values of a list and returns them.";
    "lpos" -3 "readonly" ONE "list" "6.0.6" Run::Type(&list::LPOS),
        "Returns where a value stands in a list.";
    "lpush" -3 "write denyoom fast" ONE "list" "1.0.0" Run::Type(&list::PUSH),
        "Adds values at the front of a list.";
    "lpushx" -3 "write denyoom fast" ONE "list" "2.2.0" Run::Type(&list::PUSH),
        "Adds values at the front of a list that is there.";
    "lrange" 4 "readonly" ONE "list" "1.0.0" Run::Type(&list::LRANGE),
        "Returns a range of the values of a list.";
    "lrem" 4 "write" ONE "list" "1.0.0" Run::Type(&list::LREM),
        "Removes values that are equal to one.";
    "lset" 4 "write denyoom" ONE "list" "1.0.0" Run::Type(&list::LSET),
        "Replaces the value at a place of a list.";
    "ltrim" 4 "write" ONE "list" "1.0.0" Run::Type(&list::LTRIM),
        "Keeps a range of the values of a list and removes the others.";
    "rpop" -2 "write fast" ONE "list" "1.0.0" Run::Type(&list::POP),
        "Removes the last values of a list and returns them.";
    "rpoplpush" 3 "write denyoom" TWO "list" "1.2.0" Run::Type(&list::MOVE),
        "Moves the last value of a list to the front of another.";
    "rpush" -3 "write denyoom fast" ONE "list" "1.0.0" Run::Type(&list::PUSH),
        "Adds values at the end of a list.";
    "rpushx" -3 "write denyoom fast" ONE "list" "2.2.0" Run::Type(&list::PUSH),
        "Adds values at the end of a list that is there.";
};
