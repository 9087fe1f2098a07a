//! What several connections do to one server: stories that hold for Redis and for us.

use crate::support::{Client, script, show};
use std::time::{Duration, Instant};

type Connect<'a> = &'a dyn Fn() -> Client;

fn next(client: &mut Client) -> String {
    show(&client.reply().expect("the connection is open"))
}

fn id(client: &mut Client) -> u64 {
    client.ask("CLIENT ID").trim_start_matches(':').parse().unwrap()
}

/// The texts of commands about connections.
pub(crate) const CLIENT_TEXTS: &str = "
CLIENT KILL -> -ERR wrong number of arguments for 'client|kill' command
CLIENT KILL 1.2.3.4:5 -> -ERR No such client
CLIENT KILL ID x -> -ERR client-id should be greater than 0
CLIENT KILL ID 99999 -> :0
CLIENT KILL TYPE foo -> -ERR Unknown client type 'foo'
CLIENT KILL USER nope -> -ERR No such user 'nope'
CLIENT KILL SKIPME maybe -> -ERR syntax error
CLIENT KILL FOO bar -> -ERR syntax error
CLIENT KILL ID 9 ADDR -> -ERR syntax error
CLIENT LIST ID -> -ERR syntax error
CLIENT LIST ID x -> -ERR Invalid client ID
CLIENT LIST TYPE foo -> -ERR Unknown client type 'foo'
CLIENT LIST FOO -> -ERR syntax error
CLIENT LIST TYPE pubsub -> ''
CLIENT LIST TYPE replica -> ''
CLIENT LIST ID 99999 -> ''
CLIENT PAUSE x -> -ERR timeout is not an integer or out of range
CLIENT PAUSE -1 -> -ERR timeout is negative
CLIENT PAUSE 1 FOO -> -ERR CLIENT PAUSE mode must be WRITE or ALL
CLIENT PAUSE 1 WRITE -> OK
CLIENT UNPAUSE -> OK
CLIENT UNBLOCK 99999 -> :0
CLIENT UNBLOCK x -> -ERR value is not an integer or out of range
CLIENT UNBLOCK 1 FOO -> -ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR
CLIENT NO-EVICT FOO -> -ERR syntax error
CLIENT REPLY FOO -> -ERR syntax error
CLIENT GETREDIR -> :-1
CLIENT TRACKINGINFO -> ['flags' ['off'] 'redirect' :-1 'prefixes' []]
CLIENT TRACKING FOO -> -ERR syntax error
CLIENT TRACKING ON FOO -> -ERR syntax error
CLIENT TRACKING ON PREFIX a -> -ERR PREFIX option requires BCAST mode to be enabled
CLIENT TRACKING ON BCAST OPTIN -> -ERR OPTIN and OPTOUT are not compatible with BCAST
CLIENT TRACKING ON OPTIN OPTOUT -> -ERR You can't specify both OPTIN mode and OPTOUT mode
CLIENT TRACKING ON REDIRECT 99999 -> -ERR The client ID you want redirect to does not exist
CLIENT TRACKING ON REDIRECT x -> -ERR value is not an integer or out of range
CLIENT TRACKING ON BCAST PREFIX a PREFIX ab -> -ERR Prefix 'a' overlaps with another provided \
    prefix 'ab'. Prefixes for a single client must not overlap.
CLIENT TRACKING ON BCAST PREFIX x: NOLOOP -> OK
CLIENT TRACKINGINFO -> ['flags' ['on' 'bcast' 'noloop'] 'redirect' :0 'prefixes' ['x:']]
CLIENT GETREDIR -> :0
CLIENT TRACKING ON BCAST PREFIX x:y -> -ERR Prefix 'x:y' overlaps with an existing prefix 'x:'. \
    Prefixes for a single client must not overlap.
CLIENT TRACKING ON -> -ERR You can't switch BCAST mode on/off before disabling tracking for this \
    client, and then re-enabling it with a different mode.
CLIENT TRACKING ON BCAST PREFIX z -> OK
CLIENT TRACKINGINFO -> ['flags' ['on' 'bcast'] 'redirect' :0 'prefixes' ['x:' 'z']]
CLIENT CACHING YES -> -ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.
CLIENT TRACKING OFF -> OK
CLIENT CACHING YES -> -ERR CLIENT CACHING can be called only when the client is in tracking mode \
    with OPTIN or OPTOUT mode enabled
";

/// Connections are listed and closed by what they are.
pub(crate) fn killing(connect: Connect<'_>) {
    let mut me = connect();
    let mut others: Vec<Client> = (0..5).map(|_| connect()).collect();
    let ids: Vec<u64> = others.iter_mut().map(id).collect();
    others[3].ask("SUBSCRIBE news");
    let listed = me.text(&format!("CLIENT LIST ID {} {} 77777", ids[0], ids[2]));
    let starts: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(starts, [format!("id={}", ids[0]), format!("id={}", ids[2])]);
    let listeners = me.text("CLIENT LIST TYPE pubsub");
    assert!(listeners.starts_with(&format!("id={} ", ids[3])), "{listeners}");
    assert!(listeners.contains(" flags=P "), "{listeners}");
    assert_eq!(me.ask(&format!("CLIENT KILL ID {}", ids[0])), ":1");
    assert!(others[0].reply().is_none());
    let address = others[1].socket.local_addr().unwrap();
    assert_eq!(me.ask(&format!("CLIENT KILL {address}")), "OK");
    assert!(others[1].reply().is_none());
    let address = others[2].socket.local_addr().unwrap();
    assert_eq!(me.ask(&format!("CLIENT KILL ADDR {address} TYPE pubsub")), ":0");
    assert_eq!(me.ask(&format!("CLIENT KILL ADDR {address} TYPE normal")), ":1");
    assert!(others[2].reply().is_none());
    assert_eq!(me.ask("CLIENT KILL TYPE pubsub"), ":1");
    assert!(others[3].reply().is_none());
    assert_eq!(others[4].ask("PING"), "PONG");
    assert_eq!(me.ask("CLIENT KILL TYPE normal USER default"), ":1", "it spares itself");
    assert!(others[4].reply().is_none());
    let own = id(&mut me);
    assert_eq!(me.ask(&format!("CLIENT KILL ID {own} SKIPME no")), ":1");
    assert!(me.reply().is_none());
}

/// Requests wait while a pause holds.
pub(crate) fn pausing(connect: Connect<'_>) {
    let (mut me, mut writer, mut reader) = (connect(), connect(), connect());
    me.ask("SET a 1");
    assert_eq!(me.ask("CLIENT PAUSE 20000 WRITE"), "OK");
    writer.send(b"*2\r\n$4\r\nINCR\r\n$1\r\na\r\n");
    // It has been received when this has been answered several times.
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(reader.ask("GET a"), "'1'");
    }
    assert_eq!(me.ask("CLIENT UNPAUSE"), "OK");
    assert_eq!(next(&mut writer), ":2");
    let began = Instant::now();
    assert_eq!(me.ask("CLIENT PAUSE 150"), "OK");
    assert_eq!(reader.ask("GET a"), "'2'");
    assert!(began.elapsed() >= Duration::from_millis(149));
}

/// Who tracks keys in the new dialect is told of every write.
pub(crate) fn tracking(connect: Connect<'_>) {
    let (mut ear, mut writer) = (connect(), connect());
    ear.ask("HELLO 3");
    assert_eq!(ear.ask("CLIENT TRACKING ON BCAST PREFIX user: PREFIX item:"), "OK");
    let told = |keys: &str| format!(">['invalidate' [{keys}]]");
    script(&mut writer, "SET other 1 -> OK\nSET user:1 x -> OK");
    assert_eq!(next(&mut ear), told("'user:1'"));
    for (line, keys) in [
        ("APPEND item:1 x", "'item:1'"),
        ("EXPIRE item:1 100", "'item:1'"),
        ("COPY user:1 item:2", "'item:2'"),
        ("BITOP NOT item:3 user:1", "'item:3'"),
        ("MSETNX item:4 1 other2 1", "'item:4'"),
        ("GETDEL item:4", "'item:4'"),
    ] {
        writer.ask(line);
        assert_eq!(next(&mut ear), told(keys), "{line}");
    }
    writer.ask("MSET user:1 1 user:2 2");
    let both = next(&mut ear);
    let orders = [told("'user:1' 'user:2'"), told("'user:2' 'user:1'")];
    assert!(orders.contains(&both), "{both}");
    script(&mut writer, "MULTI -> OK\nINCR user:1 -> QUEUED\nGET user:2 -> QUEUED");
    assert_eq!(writer.ask("EXEC"), "[:2 '2']");
    assert_eq!(next(&mut ear), told("'user:1'"));
    writer.ask("FLUSHALL");
    assert_eq!(next(&mut ear), ">['invalidate' nil]");
    // Its own writes, unless it does not want them.
    ear.send(b"SET user:3 1\r\n");
    let mut both = [next(&mut ear), next(&mut ear)];
    both.sort();
    assert_eq!(both, [told("'user:3'"), "OK".into()]);
    assert_eq!(ear.ask("CLIENT TRACKING OFF"), "OK");
    assert_eq!(ear.ask("CLIENT TRACKING ON BCAST NOLOOP"), "OK");
    assert_eq!(ear.ask("SET user:3 1"), "OK");
    writer.ask("SET user:4 1");
    assert_eq!(next(&mut ear), told("'user:4'"));
    assert_eq!(ear.ask("CLIENT TRACKING OFF"), "OK");
    writer.ask("SET user:4 1");
    assert_eq!(ear.ask("PING"), "PONG");
}

/// Who tracks what it has read is told once of each key that is changed, expires or is removed.
pub(crate) fn tracking_reads(connect: Connect<'_>) {
    let (mut reader, mut writer) = (connect(), connect());
    let told = |keys: &str| format!(">['invalidate' [{keys}]]");
    reader.ask("HELLO 3");
    script(&mut writer, "FLUSHALL -> OK\nSET a 1 -> OK\nSET b 2 -> OK\nSET other 1 -> OK");
    assert_eq!(reader.ask("CLIENT TRACKING ON"), "OK");
    assert!(reader.text("CLIENT INFO").contains(" flags=t "));
    for (read, write) in [
        ("GET a", "SET a 2"),
        ("STRLEN a", "APPEND a 3"),
        ("GET none", "SET none 1"),
        ("TTL a", "PEXPIRE a 100000"),
        ("EXISTS a", "RENAME a c"),
        ("GET c", "RENAME c a"),
        ("GETRANGE a 0 1", "GETEX a EX 100"),
        ("TYPE a", "COPY b a REPLACE"),
        ("DUMP a", "EVAL redis.call('set',KEYS[1],'1') 1 a"),
    ] {
        assert!(!reader.ask(read).starts_with('-'));
        writer.ask("SET other 2");
        assert!(!writer.ask(write).starts_with('-'), "{write}");
        let key = read.split(' ').nth(1).unwrap();
        assert_eq!(next(&mut reader), told(&format!("'{key}'")), "{read}, {write}");
        // Nothing is told a second time, nor if nothing is changed.
        script(&mut writer, "SETNX b 5 -> :0\nSET none 2 -> OK\nDEL missing -> :0\nSET c 1 -> OK");
        assert_eq!(reader.ask("PING"), "PONG", "{read}, {write}");
    }
    // Of a transaction, a script and several keys at once.
    script(&mut reader, "MULTI -> OK\nGET a -> QUEUED\nEXEC -> ['1']");
    writer.ask("SET a 3");
    assert_eq!(next(&mut reader), told("'a'"));
    reader.ask("EVAL return(redis.call('get',KEYS[1])) 1 a");
    script(&mut writer, "MULTI -> OK\nINCR a -> QUEUED\nEXEC -> [:4]");
    assert_eq!(next(&mut reader), told("'a'"));
    reader.ask("MGET a b");
    writer.ask("DEL b");
    assert_eq!(next(&mut reader), told("'b'"));
    // An entry that expires.
    writer.ask("SET a 1 PX 30");
    assert_eq!(next(&mut reader), told("'a'"));
    if reader.ask("GET a") == "'1'" {
        assert_eq!(next(&mut reader), told("'a'"));
    }
    // Its own writes, unless it does not want them.
    reader.ask("GET b");
    reader.send(b"SET b 1\r\n");
    let mut both = [next(&mut reader), next(&mut reader)];
    both.sort();
    assert_eq!(both, [told("'b'"), "OK".into()]);
    assert_eq!(reader.ask("CLIENT TRACKING ON NOLOOP"), "OK");
    reader.ask("GET b");
    script(&mut reader, "SET b 2 -> OK\nPING -> PONG\nGET b -> '2'");
    writer.ask("SET b 3");
    assert_eq!(next(&mut reader), told("'b'"));
    reader.ask("GET b");
    writer.ask("FLUSHDB");
    assert_eq!(next(&mut reader), ">['invalidate' nil]");
    assert_eq!(reader.ask("CLIENT TRACKING OFF"), "OK");
    reader.ask("GET b");
    writer.ask("SET b 4");
    assert_eq!(reader.ask("PING"), "PONG");
}

/// OPTIN, OPTOUT and CLIENT CACHING, and the dialect that needs another connection.
pub(crate) fn choosing_reads(connect: Connect<'_>) {
    let (mut reader, mut ear, mut writer) = (connect(), connect(), connect());
    let ear_id = id(&mut ear);
    ear.ask("SUBSCRIBE __redis__:invalidate");
    let told = |key: &str| format!("['message' '__redis__:invalidate' ['{key}']]");
    script(&mut writer, "SET a 1 -> OK\nSET b 1 -> OK");
    let on = |mode: &str| format!("CLIENT TRACKING ON {mode} REDIRECT {ear_id}");
    assert_eq!(reader.ask(&on("OPTIN")), "OK");
    let lines = "
        GET a -> '1'
        CLIENT CACHING NO -> -ERR CLIENT CACHING NO is only valid when tracking is enabled in \
            OPTOUT mode.
        CLIENT CACHING x -> -ERR syntax error
        CLIENT CACHING YES -> OK
        GET b -> '1'
        GET a -> '1'";
    script(&mut reader, &lines.replace("\\\n            ", ""));
    let state = format!("['flags' ['on' 'optin'] 'redirect' :{ear_id} 'prefixes' []]");
    assert_eq!(reader.ask("CLIENT TRACKINGINFO"), state);
    assert_eq!(reader.ask("CLIENT CACHING YES"), "OK");
    let state =
        format!("['flags' ['on' 'optin' 'caching-yes'] 'redirect' :{ear_id} 'prefixes' []]");
    assert_eq!(reader.ask("CLIENT TRACKINGINFO"), state);
    script(&mut reader, "MULTI -> OK\nGET c -> QUEUED\nEXEC -> [nil]\nGET d -> nil");
    for key in ["a", "d", "b", "c"] {
        writer.ask(&format!("SET {key} 2"));
    }
    assert_eq!([next(&mut ear), next(&mut ear)], [told("b"), told("c")]);
    let refused = "-ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this \
                   client, and then re-enabling it with a different mode.";
    assert_eq!(reader.ask(&on("OPTOUT")), refused);
    assert_eq!(reader.ask("CLIENT TRACKING OFF"), "OK");
    assert_eq!(reader.ask(&on("OPTOUT")), "OK");
    script(&mut reader, "CLIENT CACHING NO -> OK\nGET a -> '2'\nGET b -> '2'");
    script(&mut writer, "SET a 3 -> OK\nSET b 3 -> OK");
    assert_eq!(next(&mut ear), told("b"));
    assert_eq!(reader.ask("RESET"), "RESET");
    assert_eq!(reader.ask("CLIENT GETREDIR"), ":-1");
}

/// In the old dialect another connection is told.
pub(crate) fn redirected_tracking(connect: Connect<'_>) {
    let (mut reader, mut ear, mut writer) = (connect(), connect(), connect());
    let ear_id = id(&mut ear);
    let on = format!("CLIENT TRACKING ON BCAST REDIRECT {ear_id}");
    assert_eq!(reader.ask(&on), "OK");
    assert_eq!(reader.ask("CLIENT GETREDIR"), format!(":{ear_id}"));
    writer.ask("SET early 1");
    assert_eq!(ear.ask("PING"), "PONG", "it listens to no channel yet");
    ear.ask("SUBSCRIBE __redis__:invalidate");
    writer.ask("SET a 1");
    assert_eq!(next(&mut ear), "['message' '__redis__:invalidate' ['a']]");
    reader.ask("SET b 1");
    assert_eq!(next(&mut ear), "['message' '__redis__:invalidate' ['b']]");
    let line = reader.text("CLIENT INFO");
    assert!(line.contains(" flags=tB ") && line.contains(&format!("redir={ear_id} ")));
    // When that connection goes, those who can be told are told.
    reader.ask("HELLO 3");
    drop(ear);
    let mut answer = String::new();
    for _ in 0..200 {
        writer.ask("SET a 2");
        answer = reader.ask("CLIENT GETREDIR");
        if answer.starts_with('>') {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(answer, format!(">['tracking-redir-broken' :{ear_id}]"));
    assert!(reader.text_after_pushes("CLIENT INFO").contains(" flags=tRB "));
}

/// What becomes of connections when their users change.
pub(crate) fn changing_users(connect: Connect<'_>) {
    let (mut admin, mut user, mut other) = (connect(), connect(), connect());
    assert_eq!(admin.ask("ACL SETUSER eve on >pw ~k* +get +set +multi +exec +ping"), "OK");
    assert_eq!(user.ask("AUTH eve pw"), "OK");
    assert_eq!(user.ask("SET k 1"), "OK");
    let listed = admin.text("CLIENT LIST");
    assert_eq!(listed.matches(" user=eve ").count(), 1, "{listed}");
    // What it may do changes at once, also between MULTI and EXEC.
    assert_eq!(user.ask("MULTI"), "OK");
    assert_eq!(user.ask("GET k"), "QUEUED");
    assert_eq!(admin.ask("ACL SETUSER eve -set resetkeys ~j*"), "OK");
    let answer = user.ask("EXEC");
    assert!(answer.contains("NOPERM") || answer.contains("EXECABORT"), "{answer}");
    let denied = "-NOPERM this user has no permissions to access one of the keys used as arguments";
    assert_eq!(user.ask("GET k"), denied);
    assert_eq!(
        user.ask("SET j 1"),
        "-NOPERM this user has no permissions to run the 'set' command"
    );
    // A user that is off is not let in; who is in stays.
    assert_eq!(admin.ask("ACL SETUSER eve off"), "OK");
    assert_eq!(user.ask("PING"), "PONG");
    assert!(other.ask("AUTH eve pw").starts_with("-WRONGPASS"));
    // Whose user is gone is closed.
    assert_eq!(admin.ask("ACL DELUSER eve"), ":1");
    assert!(user.reply().is_none());
    // A password for everybody is asked of new connections only.
    assert_eq!(admin.ask("ACL SETUSER default resetpass >secret"), "OK");
    assert_eq!(other.ask("PING"), "PONG");
    let mut late = connect();
    assert_eq!(late.ask("PING"), "-NOAUTH Authentication required.");
    assert_eq!(
        late.ask("AUTH wrong"),
        "-WRONGPASS invalid username-password pair or user is disabled."
    );
    assert_eq!(late.ask("AUTH secret"), "OK");
    assert_eq!(late.ask("PING"), "PONG");
    // Everybody may be shut out of all but what is named.
    assert_eq!(admin.ask("ACL SETUSER safe on nopass +@all ~*"), "OK");
    assert_eq!(admin.ask("AUTH safe x"), "OK");
    assert_eq!(admin.ask("ACL SETUSER default off"), "OK");
    let mut late = connect();
    assert_eq!(late.ask("PING"), "-NOAUTH Authentication required.");
    assert!(late.ask("AUTH secret").starts_with("-WRONGPASS"));
    assert_eq!(late.ask("AUTH safe x"), "OK");
    assert_eq!(admin.ask("ACL SETUSER default on nopass"), "OK");
}

/// Who listens to a channel that its user may hear no more is closed, and nobody else.
pub(crate) fn losing_channels(connect: Connect<'_>) {
    let mut admin = connect();
    let ear = |user: &str, line: &str| {
        let mut ear = connect();
        assert_eq!(ear.ask(&format!("AUTH {user} pw")), "OK");
        assert!(ear.ask(line).contains("subscribe"), "{line}");
        ear
    };
    let may = "on >pw resetchannels +subscribe +psubscribe +ping +hello";
    assert_eq!(admin.ask(&format!("ACL SETUSER ann {may} &news* &sport")), "OK");
    assert_eq!(admin.ask(&format!("ACL SETUSER bob {may} &news* &sport")), "OK");
    let mut lost = [
        ear("ann", "SUBSCRIBE sport"),
        ear("ann", "SUBSCRIBE news sport"),
        ear("ann", "SUBSCRIBE sport"),
    ];
    let mut kept = [
        ear("ann", "SUBSCRIBE news"),
        ear("ann", "PSUBSCRIBE news*"),
        ear("bob", "SUBSCRIBE sport news"),
    ];
    assert_eq!(admin.ask("PUBLISH sport 1"), ":4");
    // Another right, and the same channels.
    assert_eq!(admin.ask("ACL SETUSER ann +get"), "OK");
    assert_eq!(admin.ask("PUBLISH sport 2"), ":4");
    assert!(next(&mut lost[1]).contains("'sport'"), "the second confirmation");
    for ear in &mut lost {
        for payload in ["'1'", "'2'"] {
            let told = next(ear);
            assert!(told.contains(payload), "{told}");
        }
    }
    assert_eq!(admin.ask("ACL SETUSER ann resetchannels &news*"), "OK");
    assert_eq!(admin.ask("PUBLISH sport 3"), ":1");
    assert_eq!(admin.ask("PUBLISH news 4"), ":3");
    for ear in &mut lost {
        assert!(ear.reply().is_none(), "nothing of what came later");
    }
    for ear in &mut kept {
        while !next(ear).contains("'4'") {}
        assert!(ear.ask("PING").contains("pong"));
    }
    // A pattern must be the very one that was given.
    assert_eq!(admin.ask("ACL SETUSER ann resetchannels &n*"), "OK");
    assert_eq!(admin.ask("PUBLISH news 5"), ":2");
    assert!(kept[1].reply().is_none());
    assert!(next(&mut kept[0]).contains("'5'"));
    assert_eq!(admin.ask("ACL DELUSER ann bob"), ":2");
    assert!(kept[0].reply().is_none());
}
