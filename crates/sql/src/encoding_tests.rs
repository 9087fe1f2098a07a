//! Keys against a comparison of the columns as `sqlite3VdbeRecordCompare` does it.

use super::*;
use silica_base::Prng;
use std::cmp::Ordering;

fn class(field: &Field<'_>) -> u8 {
    match field {
        Field::Null => 0,
        Field::Real(number) if number.is_nan() => 0,
        Field::Integer(_) | Field::Real(_) => 1,
        Field::Text(_) => 2,
        Field::Blob(_) => 3,
    }
}

/// As `sqlite3IntFloatCompare` does it.
fn integer_to_real(integer: i64, real: f64) -> Ordering {
    if real < -9_223_372_036_854_775_808.0 {
        return Ordering::Greater;
    }
    if real >= 9_223_372_036_854_775_808.0 {
        return Ordering::Less;
    }
    let whole = real as i64;
    integer.cmp(&whole).then_with(|| (integer as f64).partial_cmp(&real).expect("no NaN"))
}

/// As `nocaseCollatingFunc` and `sqlite3StrNICmp` do it.
fn compare_folded(left: &[u8], right: &[u8]) -> Ordering {
    for (l, r) in left.iter().zip(right) {
        let (l, r) = (l.to_ascii_lowercase(), r.to_ascii_lowercase());
        if l == 0 || l != r {
            return l.cmp(&r).then(left.len().cmp(&right.len()));
        }
    }
    left.len().cmp(&right.len())
}

fn compare_texts(collation: Collation, left: &[u8], right: &[u8]) -> Ordering {
    let trimmed = |text: &[u8]| {
        let mut text = text.to_vec();
        while text.last() == Some(&b' ') {
            text.pop();
        }
        text
    };
    match collation {
        Collation::Binary => left.cmp(right),
        Collation::NoCase => compare_folded(left, right),
        Collation::Rtrim => trimmed(left).cmp(&trimmed(right)),
    }
}

fn compare_values(collation: Collation, left: &Field<'_>, right: &Field<'_>) -> Ordering {
    match (left, right) {
        (Field::Integer(left), Field::Integer(right)) => left.cmp(right),
        (Field::Integer(left), Field::Real(right)) if !right.is_nan() => {
            integer_to_real(*left, *right)
        }
        (Field::Real(left), Field::Integer(right)) if !left.is_nan() => {
            integer_to_real(*right, *left).reverse()
        }
        (Field::Real(left), Field::Real(right)) if !left.is_nan() && !right.is_nan() => {
            left.partial_cmp(right).expect("no NaN")
        }
        (Field::Text(left), Field::Text(right)) => compare_texts(collation, left, right),
        (Field::Blob(left), Field::Blob(right)) => left.cmp(right),
        _ => class(left).cmp(&class(right)),
    }
}

/// What `KEYINFO_ORDER_DESC` and `KEYINFO_ORDER_BIGNULL` make of it.
fn compare(column: Column, left: &Field<'_>, right: &Field<'_>) -> Ordering {
    let order = compare_values(column.collation, left, right);
    let has_null = class(left) == 0 || class(right) == 0;
    let is_turned = match column.moves_nulls {
        false => column.is_descending,
        true => column.is_descending != has_null,
    };
    if is_turned { order.reverse() } else { order }
}

fn compare_all(columns: &[Column], left: &[Field<'_>], right: &[Field<'_>]) -> Ordering {
    let pairs = columns.iter().zip(left.iter().zip(right));
    let orders = pairs.map(|(column, (left, right))| compare(*column, left, right));
    orders.fold(Ordering::Equal, Ordering::then)
}

fn key(columns: &[Column], fields: &[Field<'_>]) -> Vec<u8> {
    let mut key = Vec::new();
    encode(&mut key, columns, fields);
    key
}

fn all_columns() -> Vec<Column> {
    let mut columns = Vec::new();
    for collation in [Collation::Binary, Collation::NoCase, Collation::Rtrim] {
        for (is_descending, moves_nulls) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            columns.push(Column { collation, is_descending, moves_nulls });
        }
    }
    columns
}

/// Numbers where integers and doubles part.
fn hard_numbers() -> Vec<Field<'static>> {
    let mut fields = Vec::new();
    let mut reals = vec![
        0.0,
        -0.0,
        0.5,
        -0.5,
        f64::MIN_POSITIVE,
        5e-324,
        -5e-324,
        f64::MAX,
        f64::MIN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1e300,
    ];
    for power in [0, 1, 31, 32, 52, 53, 54, 55, 61, 62, 63, 64] {
        for base in [2_f64.powi(power), -(2_f64.powi(power))] {
            reals.extend([base, base.next_up(), base.next_down(), base + 0.5, base - 1.0]);
        }
    }
    for power in [0, 1, 8, 31, 32, 52, 53, 54, 55, 61, 62, 63] {
        for near in -3..=3_i128 {
            for number in [(1_i128 << power) + near, -(1_i128 << power) + near] {
                if let Ok(number) = i64::try_from(number) {
                    fields.push(Field::Integer(number));
                }
            }
        }
    }
    for number in [i64::MAX - 511, i64::MAX - 512, i64::MAX - 1023, i64::MAX - 1024, i64::MIN + 512]
    {
        fields.push(Field::Integer(number));
    }
    fields.extend(reals.into_iter().map(Field::Real));
    fields.push(Field::Null);
    fields
}

const HARD_BYTES: &[&[u8]] = &[
    b"",
    b"\0",
    b"\0\0",
    b"\0\xff",
    b"\0\x01",
    b"\x01",
    b"\xff",
    b"\xff\xff",
    b"\xff\0",
    b" ",
    b"  ",
    b" \0",
    b"a",
    b"A",
    b"a ",
    b"a  b",
    b"a\0",
    b"A\0",
    b"a\0b",
    b"a\0C",
    b"a\0bc",
    b"a\x01",
    b"a\x1f",
    b"ab",
    b"aB",
    b"Ab ",
    b"b",
    b"[",
    b"`",
    b"z",
    b"{",
    b"a\xff",
    "\u{e4}".as_bytes(),
    "\u{c4}".as_bytes(),
];

fn hard_fields() -> Vec<Field<'static>> {
    let mut fields = hard_numbers();
    fields.extend(HARD_BYTES.iter().map(|bytes| Field::Text(bytes)));
    fields.extend(HARD_BYTES.iter().map(|bytes| Field::Blob(bytes)));
    fields
}

#[test]
fn hard_values_are_in_the_order_of_sqlite() {
    let fields = hard_fields();
    for column in all_columns() {
        let keys: Vec<_> = fields.iter().map(|field| key(&[column], &[*field])).collect();
        for (left, left_key) in fields.iter().zip(&keys) {
            assert!(![0, BEHIND].contains(&left_key[0]), "{left:?}");
            for (right, right_key) in fields.iter().zip(&keys) {
                let wanted = compare(column, left, right);
                assert_eq!(left_key.cmp(right_key), wanted, "{left:?} to {right:?}, {column:?}");
                let is_prefix = right_key.starts_with(left_key) && left_key != right_key;
                assert!(!is_prefix, "{left:?} begins {right:?}, {column:?}");
            }
        }
    }
}

fn random_bytes(prng: &mut Prng) -> Vec<u8> {
    const LETTERS: &[u8] = b"\0\x01 aAbBzZ\x7f\xfe\xff";
    (0..prng.below(5)).map(|_| LETTERS[prng.below(LETTERS.len() as u64) as usize]).collect()
}

fn random_number<'f>(prng: &mut Prng) -> Field<'f> {
    let number = prng.next_u64() as i64 >> prng.below(64);
    match prng.below(4) {
        0 => Field::Integer(number),
        // Near an integer that is no double, as like as not.
        1 => Field::Real(number as f64),
        2 => Field::Real((number as f64).next_down()),
        _ => Field::Real(f64::from_bits(prng.next_u64())),
    }
}

#[test]
fn random_rows_are_in_the_order_of_sqlite() {
    let mut prng = Prng::new(11);
    let columns = all_columns();
    for _ in 0..silica_base::test_size(5_000, 50_000, 2_000_000) {
        let texts: Vec<_> = (0..6).map(|_| random_bytes(&mut prng)).collect();
        let of = |prng: &mut Prng| -> Vec<_> {
            let number = random_number(prng);
            (0..3)
                .map(|at| match prng.below(6) {
                    0 => Field::Null,
                    // The rows are often equal in the first columns.
                    1 => Field::Integer(7),
                    2 => number,
                    3 => Field::Blob(&texts[at]),
                    _ => Field::Text(&texts[at + prng.below(3) as usize]),
                })
                .collect()
        };
        let (left, right) = (of(&mut prng), of(&mut prng));
        let some: Vec<_> =
            (0..3).map(|_| columns[prng.below(columns.len() as u64) as usize]).collect();
        let wanted = compare_all(&some, &left, &right);
        let (left_key, right_key) = (key(&some, &left), key(&some, &right));
        assert_eq!(left_key.cmp(&right_key), wanted, "{left:?} to {right:?} by {some:?}");
        for count in 0..3 {
            let prefix = key(&some, &left[..count]);
            let begins = compare_all(&some[..count], &left[..count], &right[..count]).is_eq();
            assert_eq!(right_key.starts_with(&prefix), begins, "{left:?}, {right:?}, {count}");
            let behind = [&prefix[..], &[BEHIND]].concat();
            assert!(!begins || right_key < behind);
        }
    }
}

/// Bytes as `docs/formats/sql.md` has them: databases that exist hold them.
#[test]
fn keys_are_as_the_format_says() {
    let plain = Column::default();
    let folded = Column { collation: Collation::NoCase, ..plain };
    let descending = Column { is_descending: true, ..plain };
    let moved = Column { moves_nulls: true, ..plain };
    let is = |column: Column, field: Field<'_>, wanted: &[u8]| {
        assert_eq!(key(&[column], &[field]), wanted, "{field:?}");
    };
    is(plain, Field::Null, b"\x10");
    is(moved, Field::Null, b"\x50");
    is(plain, Field::Integer(1), b"\x20\xbf\xf0\0\0\0\0\0\0");
    is(plain, Field::Real(-1.0), b"\x20\x40\x0f\xff\xff\xff\xff\xff\xff");
    is(plain, Field::Real(-0.0), b"\x20\x80\0\0\0\0\0\0\0");
    is(plain, Field::Integer((1 << 53) + 1), b"\x20\xc3\x40\0\0\0\0\0\0\0\x01");
    is(plain, Field::Integer(i64::MAX), b"\x20\xc3\xdf\xff\xff\xff\xff\xff\xff\x03\xff");
    is(plain, Field::Text(b"a\0B"), b"\x30a\0\xffB\0\0");
    is(folded, Field::Text(b"aB"), b"\x30ab\0\0");
    is(folded, Field::Text(b"A\0bc"), b"\x30a\0\xff\0\0\0\x04\0\0");
    is(Column { collation: Collation::Rtrim, ..plain }, Field::Text(b"a  "), b"\x30a\0\0");
    is(plain, Field::Blob(b"\xff"), b"\x40\xff\0\0");
    is(descending, Field::Text(b"a"), b"\xcf\x9e\xff\xff");
}
