use super::*;

#[test]
fn ranges_that_touch_become_one() {
    let mut writes = Writes::default();
    let mut delete = |lower: &[u8], upper: Option<&[u8]>| {
        writes.delete_range(lower.to_vec(), upper.map(<[u8]>::to_vec));
        let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
        let all = writes.deleted().iter();
        let all = all.map(|(l, u)| format!("{}-{}", text(l), u.as_deref().map_or("".into(), text)));
        all.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(delete(b"d", Some(b"f")), "d-f");
    assert_eq!(delete(b"f", Some(b"f")), "d-f");
    assert_eq!(delete(b"h", Some(b"k")), "d-f h-k");
    assert_eq!(delete(b"a", Some(b"b")), "a-b d-f h-k");
    assert_eq!(delete(b"f", Some(b"h")), "a-b d-k");
    assert_eq!(delete(b"e", Some(b"g")), "a-b d-k");
    assert_eq!(delete(b"x", None), "a-b d-k x-");
    assert_eq!(delete(b"b", None), "a-");
}
