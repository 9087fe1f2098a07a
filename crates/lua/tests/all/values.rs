//! Values that scripts answer, and what libraries compute. The expected ones are Redis 7.0.15's.

use crate::support::answer;

fn check(cases: &[(&str, &str)]) {
    for (script, want) in cases {
        assert_eq!(answer(script), *want, "{script}");
    }
}

#[test]
fn values_become_answers() {
    check(&[
        ("return {1,2,{3,'x'}, 3.99, true, false, nil, 5}", "[:1 :2 [:3 x] :3 :1 null]"),
        (
            "return {tostring(1/0), 2^53, -3.7, 1e20}",
            "[inf :9007199254740992 :-3 :-9223372036854775808]",
        ),
        ("return {ok='ab\\r\\ncd'}", "+ab  cd"),
        ("return {err='MY thing'}", "-MY thing"),
        ("return redis.error_reply('-My Err')", "-My Err"),
        ("return {double=1.5}", ",1.5"),
        ("return {map={a=1}}", "%[a=:1]"),
        ("return {set={a=true}}", "~[a]"),
        ("return {big_number='12'}", "(12"),
        ("return {verbatim_string={string='a',format='txt'}}", "=txt:a"),
        ("redis.setresp(3) return {true, false}", "[true false]"),
        ("return {ok=5}", "[]"),
        ("return cjson.null", "null"),
        ("return function() end", "null"),
        ("return KEYS[1]..KEYS[2]..ARGV[1]..#KEYS..#ARGV", "k1k2a121"),
        ("KEYS[2]='x' return KEYS[2]", "x"),
        ("return 'a\\0b'", "a\0b"),
    ]);
}

#[test]
fn replies_become_values() {
    check(&[
        ("return redis.call('ECHO', 'hi')", "hi"),
        ("return redis.call('ECHO', 12345678901234567)", "12345678901234568"),
        ("return redis.call('ECHO', 1e15)", "1000000000000000"),
        ("return redis.call('ECHO', 0.1)", "0.10000000000000001"),
        ("return tostring(redis.call('NULL'))", "false"),
        ("redis.setresp(3) return tostring(redis.call('NULL'))", "nil"),
        ("return redis.call('STATUS').ok", "FINE"),
        ("return redis.call('LIST', 'a', 'b')[3]", "b"),
        ("return redis.pcall('FAIL').err", "WRONG it failed"),
        ("return redis.call('RAW', '%1\\r\\n+a\\r\\n:2\\r\\n').map", "[]"),
        (
            "for k, v in pairs(redis.call('RAW', '%1\\r\\n$1\\r\\na\\r\\n:2\\r\\n').map) do \
             return k..v end",
            "a2",
        ),
        ("return redis.call('RAW', '~1\\r\\n$1\\r\\na\\r\\n').set.a and 1", ":1"),
        ("return tostring(redis.call('RAW', ',2.5\\r\\n').double)", "2.5"),
        ("return redis.call('RAW', '=5\\r\\ntxt:a\\r\\n').verbatim_string.format", "txt"),
        ("return tostring(redis.call('RAW', '#t\\r\\n'))", "true"),
        ("return redis.call('RAW', '(12\\r\\n').big_number", "12"),
        ("return {redis.acl_check_cmd('ECHO'), redis.acl_check_cmd('FAIL')}", "[:1 null]"),
    ]);
}

#[test]
fn json_is_written_and_read() {
    check(&[
        ("return cjson.encode({1,2,nil,4})", "[1,2,null,4]"),
        ("return cjson.encode({})", "{}"),
        ("return cjson.encode({[1.5]=1})", "{\"1.5\":1}"),
        (
            "return cjson.encode({1/3, 1e100, 0.1, 123456789012345678})",
            "[0.33333333333333,1e+100,0.1,1.2345678901235e+17]",
        ),
        ("return cjson.encode('a/b\"\\\\\\1\\127')", "\"a\\/b\\\"\\\\\\u0001\\u007f\""),
        ("return cjson.encode(cjson.null)", "null"),
        (
            "return cjson.encode(cjson.decode('{\"a\":[1,{\"b\":null}]}'))",
            "{\"a\":[1,{\"b\":null}]}",
        ),
        ("return cjson.decode('\"\\\\ud83d\\\\ude00\\\\u00e9\"')", "😀é"),
        ("return tostring(cjson.decode('[0x10]')[1])", "16"),
        ("return tostring(cjson.decode('[1e400]')[1])", "inf"),
        ("return tostring(cjson.decode('[012]')[1])", "12"),
        ("return tostring(cjson.decode('[-1.5e2]')[1])", "-150"),
        ("return {cjson.encode_number_precision(3), cjson.encode(1/3)}", "[:3 0.333]"),
        (
            "cjson.encode_sparse_array(true) return cjson.encode({[1]=1,[100]=2})",
            "{\"1\":1,\"100\":2}",
        ),
    ]);
}

#[test]
fn message_pack_is_written_and_read() {
    check(&[
        (
            "return {cmsgpack.unpack(cmsgpack.pack(1, 'x', {1,{a=true}}, false, -5, 1.5, 2^40))}",
            "[:1 x [:1 []] null :-5 :1 :1099511627776]",
        ),
        ("return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3))}", "[:1 :1]"),
        ("return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3),2)}", "[:2 :1 :2]"),
        ("return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3), 2)}", "[:-1 :3]"),
    ]);
    let packed = "local h = '' local p = \
     cmsgpack.pack(0,127,128,-1,-33,65536,0.5,0.1,{},{1},{a=1}) \
                  for i = 1, #p do h = h..bit.tohex(p:byte(i), 2) end return h";
    let want = "007fcc80ffd0dfce00010000ca3f000000cb3fb999999999999a9091018 1a16101";
    assert_eq!(answer(packed), want.replace(' ', ""));
}

#[test]
fn structs_and_bits() {
    check(&[
        ("return struct.pack('>I2', 1, 2)", "\0\u{1}"),
        ("return {struct.unpack('<i2bHc0', '\\255\\255\\1\\3\\0abc')}", "[:-1 :1 abc :9]"),
        ("return struct.size('!8 b l')", ":16"),
        ("return {struct.unpack('s', 'ab\\0c')}", "[ab :4]"),
        ("return {struct.unpack('>d<f', struct.pack('>d<f', 1e10, 7))}", "[:10000000000 :7 :13]"),
        ("return {struct.unpack('>i16', struct.pack('>i16', -7))}", "[:-7 :17]"),
        ("return bit.tohex(255,4)..bit.tohex(-1,-8)..bit.tobit(2^31)", "00ffFFFFFFFF-2147483648"),
        ("return {bit.bnot(0), bit.band(255,15), bit.bor(1,6), bit.bxor(5,1)}", "[:-1 :15 :7 :4]"),
        (
            "return {bit.lshift(1,31), bit.rshift(-1,28), bit.arshift(-16,2), bit.rol(1,33), \
             bit.ror(1,1), bit.bswap(1)}",
            "[:-2147483648 :15 :-4 :2 :-2147483648 :16777216]",
        ),
    ]);
}

#[test]
fn random_numbers_are_those_of_the_seed() {
    check(&[
        (
            "math.randomseed(5) return math.random(100)..' '..math.random(100)..' '..math.random()",
            "53 28 0.7885994686692",
        ),
        (
            "local a = math.random(1000000) math.randomseed(0) return a == math.random(1000000)",
            ":1",
        ),
    ]);
}
