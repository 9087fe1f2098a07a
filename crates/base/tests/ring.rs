//! A ring between threads.

use silica_base::ring;
use std::sync::Arc;

#[test]
fn values_come_out_in_their_order_and_no_more_fit_than_there_are_places() {
    let (mut sender, mut receiver) = ring(4);
    for round in 0..10 {
        assert!(receiver.is_empty());
        for n in 0..4 {
            assert_eq!(sender.push(format!("{round} {n}")), None);
        }
        assert_eq!(sender.push("late".into()).as_deref(), Some("late"));
        assert_eq!(receiver.pop(), Some(format!("{round} 0")));
        assert_eq!(sender.push(format!("{round} 4")), None);
        for n in 1..5 {
            assert!(!receiver.is_empty());
            assert_eq!(receiver.pop(), Some(format!("{round} {n}")));
        }
        assert_eq!(receiver.pop(), None);
    }
    let value = Arc::new(());
    sender.push("left".into());
    drop((sender, receiver));
    let (mut sender, receiver) = ring(2);
    sender.push(Arc::clone(&value));
    drop((sender, receiver));
    assert_eq!(Arc::strong_count(&value), 1, "what is left goes with the ring");
}

#[test]
fn a_thread_gets_all_that_another_sends() {
    const COUNT: u64 = 20_000;
    let (mut sender, mut receiver) = ring(4);
    let thread = std::thread::spawn(move || {
        for n in 0..COUNT {
            let mut value = Box::new(n);
            while let Some(back) = sender.push(value) {
                value = back;
                std::thread::yield_now();
            }
        }
    });
    for n in 0..COUNT {
        let value = loop {
            if let Some(value) = receiver.pop() {
                break value;
            }
            std::thread::yield_now();
        };
        assert_eq!(*value, n);
    }
    thread.join().unwrap();
}
