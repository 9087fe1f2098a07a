//! Sizes of objects.

/// Bytes of a page, the unit of spans.
pub const PAGE_BYTES: u64 = 4096;
/// Objects above this have a span of their own.
pub(super) const CLASS_BYTES_MAX: u64 = 32 << 10;
/// Pages of a span of small objects at most.
const SPAN_PAGES_MAX: u64 = 16;
/// Multiples of 16 up to 128, then four in each doubling.
pub(super) const CLASSES: usize = 8 + 4 * 8;

/// Bytes of an object of a class.
pub(super) fn class_bytes(class: usize) -> u64 {
    match class {
        0..8 => 16 * (class as u64 + 1),
        _ => {
            let (doubling, quarter) = ((class - 8) / 4, (class - 8) % 4);
            (128 << doubling) / 4 * (5 + quarter as u64)
        }
    }
}

/// The smallest class whose objects have `bytes` bytes; `None` if there is none.
pub(super) fn class_of(bytes: u64) -> Option<usize> {
    if bytes > CLASS_BYTES_MAX {
        return None;
    }
    if bytes <= 128 {
        return Some(bytes.div_ceil(16).max(1) as usize - 1);
    }
    let doubling = (bytes - 1).ilog2() - 7;
    let quarter = (bytes - 1) / ((128 << doubling) / 4) - 4;
    Some(8 + 4 * doubling as usize + quarter as usize)
}

/// Pages of a span of a class.
pub(super) fn span_pages(class: usize) -> u64 {
    let bytes = class_bytes(class);
    let left_over = |pages: &u64| pages * PAGE_BYTES % bytes;
    let fitting = (1..=SPAN_PAGES_MAX).filter(|pages| pages * PAGE_BYTES >= bytes);
    let tight = fitting.clone().find(|pages| left_over(pages) * 32 <= pages * PAGE_BYTES);
    let share = |pages: &u64| left_over(pages) * SPAN_PAGES_MAX * PAGE_BYTES / pages;
    tight.unwrap_or_else(|| fitting.min_by_key(share).expect("the largest has room"))
}

/// Objects in a span of a class.
pub(super) fn span_objects(class: usize) -> u32 {
    (span_pages(class) * PAGE_BYTES / class_bytes(class)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_the_next_larger_class() {
        let sizes: Vec<u64> = (0..CLASSES).map(class_bytes).collect();
        assert!(sizes.is_sorted());
        assert_eq!((sizes[7], sizes[8], sizes[11]), (128, 160, 256));
        assert_eq!(sizes[CLASSES - 1], CLASS_BYTES_MAX);
        for bytes in 1..=CLASS_BYTES_MAX {
            let class = class_of(bytes).unwrap();
            assert!(sizes[class] >= bytes, "{bytes}");
            assert!(class == 0 || sizes[class - 1] < bytes, "{bytes}");
        }
        assert_eq!(class_of(CLASS_BYTES_MAX + 1), None);
    }

    #[test]
    fn spans_leave_little_over() {
        for class in 0..CLASSES {
            let used = u64::from(span_objects(class)) * class_bytes(class);
            let all = span_pages(class) * PAGE_BYTES;
            assert!(used * 8 >= all * 7, "{} of {all} in class {class}", used);
        }
    }
}
