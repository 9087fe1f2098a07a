//! Sets against a model: members, members by chance, and what several sets have in common.

use silica_base::{Prng, test_size};
use silica_types::{
    Kind, MemoryPages, Object, Set, check, distinct_below, intersect, subtract, unite, visit_ranks,
};
use std::collections::BTreeSet;

type Model = BTreeSet<Vec<u8>>;

fn member(prng: &mut Prng, range: u64) -> Vec<u8> {
    format!("m{}", prng.below(range)).into_bytes()
}

#[test]
fn a_set_has_what_was_added_and_not_removed() {
    for seed in 0..test_size(10, 40, 1000) {
        let mut prng = Prng::new(seed);
        let (mut object, mut pages) = (Object::new(Kind::Set), MemoryPages::default());
        let mut model = Model::new();
        for round in 0..2000 {
            let member = member(&mut prng, [30, 1000][(seed % 2) as usize]);
            let mut set = Set::of(&mut object, &mut pages);
            match prng.below(10) {
                0..6 => assert_eq!(set.add(&member).unwrap(), model.insert(member)),
                6..8 => assert_eq!(set.remove(&member).unwrap(), model.remove(&member)),
                8 => assert_eq!(set.contains(&member).unwrap(), model.contains(&member)),
                _ => {
                    let count = prng.below(4) * prng.below(40);
                    let popped = set.pop(count, &mut prng).unwrap();
                    assert_eq!(popped.len() as u64, count.min(model.len() as u64));
                    assert!(popped.iter().all(|member| model.remove(member)));
                }
            }
            if round % 100 == 0 {
                assert_eq!(check(&object, &mut pages).unwrap().elements, model.len() as u64);
                let mut all = Vec::new();
                Set::of(&mut object, &mut pages)
                    .scan(&mut |member| {
                        all.push(member.to_vec());
                        true
                    })
                    .unwrap();
                assert_eq!(all, model.iter().cloned().collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn sets_are_intersected_united_and_subtracted() {
    for seed in 0..test_size(40, 200, 4000) {
        let mut prng = Prng::new(seed);
        let mut pages = MemoryPages::default();
        let mut models = Vec::new();
        let mut objects = Vec::new();
        let range = [20, 300, 5000][(seed % 3) as usize];
        for _ in 0..=prng.below(4) {
            let (mut object, mut model) = (Object::new(Kind::Set), Model::new());
            // Some far larger than others, some without a member.
            for _ in 0..prng.below(range) * prng.below(2) + prng.below(20) {
                let member = member(&mut prng, range);
                Set::of(&mut object, &mut pages).add(&member).unwrap();
                model.insert(member);
            }
            objects.push(object);
            models.push(model);
        }
        let all = |model: Model| model.into_iter().collect::<Vec<_>>();
        let fold = |op: fn(&Model, &Model) -> Model| {
            all(models[1..].iter().fold(models[0].clone(), |a, b| op(&a, b)))
        };
        let wants = [fold(|a, b| a & b), fold(|a, b| a | b), fold(|a, b| a - b)];
        for (op, want) in [intersect, unite, subtract].into_iter().zip(wants) {
            let mut sets: Vec<&mut Object> = objects.iter_mut().collect();
            let mut got = Vec::new();
            op(&mut sets, &mut pages, &mut |member| {
                got.push(member.to_vec());
                true
            })
            .unwrap();
            assert_eq!(got, want, "{seed}");
            let (mut some, max) = (0, want.len() / 2);
            op(&mut sets, &mut pages, &mut |_| {
                some += 1;
                some < max
            })
            .unwrap();
            assert_eq!(some, if want.is_empty() { 0 } else { max.max(1) }, "it ends early");
        }
    }
}

#[test]
fn an_intersection_reads_few_pages_of_the_large_set() {
    let mut pages = Counted::default();
    let (mut large, mut small) = (Object::new(Kind::Set), Object::new(Kind::Set));
    for n in 0..100_000u32 {
        Set::of(&mut large, &mut pages).add(format!("{n:06}").as_bytes()).unwrap();
    }
    for n in 0..10u32 {
        Set::of(&mut small, &mut pages).add(format!("{:06}", n * 9000).as_bytes()).unwrap();
    }
    pages.reads = 0;
    let mut count = 0;
    intersect(&mut [&mut large, &mut small], &mut pages, &mut |_| {
        count += 1;
        true
    })
    .unwrap();
    assert_eq!(count, 10);
    assert!(pages.reads <= 10 * 8, "{} reads", pages.reads);
    pages.reads = 0;
    let all: Vec<u64> = (0..large.len(0)).step_by(2).collect();
    let mut found = Vec::new();
    visit_ranks(&mut large.tree(0, &mut pages), &all, &mut |(member, _)| {
        found.push(String::from_utf8(member.clone()).unwrap());
        true
    })
    .unwrap();
    assert_eq!(found, all.iter().map(|rank| format!("{rank:06}")).collect::<Vec<_>>());
    let leaves = pages.inner.pages.len();
    assert!(pages.reads < 4 * leaves, "{} reads of {leaves} pages", pages.reads);
}

#[derive(Default)]
struct Counted {
    inner: MemoryPages,
    reads: usize,
}

impl silica_types::Pages for Counted {
    fn get(
        &mut self,
        page: silica_types::PageId,
    ) -> silica_base::Result<std::sync::Arc<silica_types::Page>> {
        self.reads += 1;
        self.inner.get(page)
    }

    fn put(&mut self, page: silica_types::PageId, bytes: std::sync::Arc<silica_types::Page>) {
        self.inner.put(page, bytes);
    }

    fn remove(&mut self, page: silica_types::PageId) {
        self.inner.remove(page);
    }

    fn new_id(&mut self) -> silica_base::Result<u64> {
        self.inner.new_id()
    }
}

#[test]
fn each_of_the_numbers_below_a_bound_may_be_chosen() {
    let mut prng = Prng::new(3);
    for (len, count) in [(0, 0), (1, 1), (10, 3), (10, 9), (10, 10), (10, 50), (1000, 999)] {
        let mut seen = BTreeSet::new();
        for _ in 0..200 {
            let chosen = distinct_below(len, count, &mut prng);
            assert_eq!(chosen.len() as u64, count.min(len));
            assert!(chosen.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(chosen.iter().all(|number| *number < len));
            seen.extend(chosen);
        }
        assert_eq!(seen.len() as u64, len, "{count} of {len}");
    }
}

#[test]
fn encodings_are_those_of_redis() {
    let encoding = |members: &[&str]| {
        let (mut object, mut pages) = (Object::new(Kind::Set), MemoryPages::default());
        let mut set = Set::of(&mut object, &mut pages);
        for member in members {
            set.add(member.as_bytes()).unwrap();
        }
        Set::encoding(&object)
    };
    assert_eq!(encoding(&["1", "-5", "0", "9223372036854775807"]), "intset");
    for other in ["01", "+1", "-0", "", "1.0", " 1", "9223372036854775808", "a"] {
        assert_eq!(encoding(&["1", other]), "hashtable", "{other}");
    }
    let many: Vec<String> = (0..513).map(|n| n.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(encoding(&many[..512]), "intset");
    assert_eq!(encoding(&many), "hashtable");
}
