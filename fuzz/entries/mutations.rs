//! Seeded mutations of known inputs: a small fuzzing run that is the same every time.

/// Calls `run` with `rounds` mutations of `seeds`; the same arguments give the same mutations.
pub(crate) fn for_each_mutation(seeds: &[Vec<u8>], rounds: u64, mut run: impl FnMut(&[u8])) {
    for round in 0..rounds {
        let mut rng = Rng(round.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut input = seeds[rng.below(seeds.len())].clone();
        for _ in 0..1 + rng.below(6) {
            mutate(&mut input, seeds, &mut rng);
        }
        run(&input);
    }
}

/// Bytes with a special meaning in the formats.
const TELLING: &[u8] = b"\0\x01\x7f\x80\xff[]{}()\"'\\|=,*%\n\r #$";

fn mutate(input: &mut Vec<u8>, seeds: &[Vec<u8>], rng: &mut Rng) {
    let at = rng.below(input.len() + 1);
    match rng.below(8) {
        0 => input.truncate(at),
        1 if at < input.len() => input[at] ^= 1 << rng.below(8),
        2 if at < input.len() => input[at] = rng.below(256) as u8,
        3 if at < input.len() => input[at] = TELLING[rng.below(TELLING.len())],
        4 => input.insert(at, TELLING[rng.below(TELLING.len())]),
        5 => {
            let end = (at + rng.below(16)).min(input.len());
            input.drain(at..end);
        }
        6 => {
            let end = (at + rng.below(64)).min(input.len());
            let copy = input[at..end].to_vec();
            let to = rng.below(input.len() + 1);
            input.splice(to..to, copy);
        }
        7 => {
            let other = &seeds[rng.below(seeds.len())];
            let start = rng.below(other.len() + 1);
            let end = (start + rng.below(64)).min(other.len());
            input.splice(at..at, other[start..end].iter().copied());
        }
        _ => {}
    }
}

struct Rng(u64);

impl Rng {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit.max(1)
    }
}
