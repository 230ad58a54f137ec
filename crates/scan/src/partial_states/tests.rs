use super::*;

const RANGE: TimeRange = TimeRange { earliest: Some(10), latest: Some(100) };

fn slab(bucket: u64) -> SlabIdentity {
    SlabIdentity { store: 0, bucket, slab: 0, deleted: 0 }
}

fn part(pages: u64) -> WindowPart {
    WindowPart { folded: None, pages, scanned: 0, matched: 0 }
}

fn plan(states: &Arc<PartialStates>, name: &str) -> Option<PlanStates> {
    states.states_for_plan(name.to_owned(), RANGE)
}

#[test]
fn states_are_cached_from_the_second_search_of_a_plan() {
    let states = PartialStates::new(1 << 20).unwrap();
    assert!(PartialStates::new(0).is_none());
    assert!(plan(&states, "a").is_none());
    assert!(plan(&states, "b").is_none());
    let a = plan(&states, "a").unwrap();
    let b = plan(&states, "b").unwrap();
    let (key_a, key_b) = (a.key(slab(1), 0), b.key(slab(1), 0));
    a.put(vec![(key_a, part(7))]);
    assert_eq!(plan(&states, "a").unwrap().get(&key_a).unwrap().pages, 7);
    assert!(b.get(&key_b).is_none());
    assert!([a.key(slab(2), 0), a.key(slab(1), 1)].iter().all(|other| a.get(other).is_none()));
    let covered = [(10, 99), (9, 99), (10, 100), (9, 100), (50, 50)].map(|(first, last)| a.covers(first, last));
    assert_eq!(covered, [true, false, false, false, true]);
}

#[test]
fn least_recently_used_parts_are_evicted() {
    let states = PartialStates::new(3 * ENTRY_OVERHEAD_BYTES).unwrap();
    plan(&states, "a");
    let a = plan(&states, "a").unwrap();
    let keys: Vec<PartKey> = (0..5).map(|bucket| a.key(slab(bucket), 0)).collect();
    a.put(keys[..3].iter().map(|key| (*key, part(1))).collect());
    a.get(&keys[0]);
    a.put(vec![(keys[3], part(1)), (keys[4], part(1))]);
    assert_eq!([0, 1, 2, 3, 4].map(|at| a.get(&keys[at]).is_some()), [true, false, false, true, true]);
    a.put(vec![(keys[4], part(2))]);
    assert_eq!(states.usage(), (3 * ENTRY_OVERHEAD_BYTES, 3));
    assert_eq!(a.get(&keys[4]).unwrap().pages, 2);
}

#[test]
fn evicted_plans_start_without_states() {
    let states = PartialStates::new(1 << 20).unwrap();
    plan(&states, "a");
    let before = plan(&states, "a").unwrap();
    let key = before.key(slab(1), 0);
    before.put(vec![(key, part(1))]);
    for at in 0..CACHED_PLANS_MAX {
        plan(&states, &format!("other {at}"));
    }
    assert!(plan(&states, "a").is_none());
    let after = plan(&states, "a").unwrap();
    assert_ne!(after.key(slab(1), 0), key);
    assert!(after.get(&after.key(slab(1), 0)).is_none());
    let inner = states.lock();
    assert_eq!((inner.plans.len(), inner.plans_by_use.len()), (CACHED_PLANS_MAX, CACHED_PLANS_MAX));
}

#[test]
fn plans_with_oversized_states_are_not_cached() {
    let states = PartialStates::new(1 << 20).unwrap();
    plan(&states, "a");
    plan(&states, "a").unwrap().mark_too_large();
    assert!(plan(&states, "a").is_none());
}
