use silica_base::Prng;
use silica_parts::ect::*;
use std::time::Instant;
fn main() {
    let n: usize = std::env::args().nth(1).map_or(10_000_000, |a| a.parse().unwrap());
    let mut prng = Prng::new(3);
    let mut keys: Vec<u64> = (0..n).map(|_| prng.next_u64()).collect();
    keys.sort_unstable();
    for (g, h) in [(256, 64)] {
        let mut best = f64::MAX;
        let mut ix = None;
        for _ in 0..3 {
            let t = Instant::now();
            let mut b = DenseBuilder::new(EctParams { group: g, hmax: h }, n as u64);
            keys.iter().for_each(|&k| b.push(k));
            ix = Some(b.finish());
            best = best.min(t.elapsed().as_secs_f64());
        }
        let ix = ix.unwrap();
        let q: Vec<u64> = (0..4_000_000).map(|_| keys[prng.below(n as u64) as usize]).collect();
        let mut all = vec![];
        for q in q.chunks_exact(1000) {
            let t = Instant::now();
            let mut s = 0u64;
            for &k in q {
                s = s.wrapping_add(ix.rank(k));
            }
            std::hint::black_box(s);
            all.push(t.elapsed().as_nanos() as f64 / 1000.0);
        }
        all.sort_by(f64::total_cmp);
        println!("min {} med {}", all[0], all[all.len() / 2]);
        println!(
            "g={g} h={h} bits/key {:.4} build {:.1} M/s lookup {:.0} ns",
            ix.bytes() as f64 * 8.0 / n as f64,
            n as f64 / best / 1e6,
            all[all.len() / 4]
        );
    }
}
