use super::*;

const RANGE: TimeRange = TimeRange { earliest: Some(10), latest: Some(100) };

fn slab(bucket: u64) -> SlabIdentity {
    SlabIdentity { store: 0, bucket, slab: 0, deleted: 0 }
}

fn part(pages: u64) -> WindowPart {
    WindowPart { folded: None, pages, scanned: 0, matched: 0 }
}

fn plan(states: &Arc<PartialStates>, name: &str) -> Option<PlanStates> {
    states.of_plan(name.to_owned(), RANGE)
}

#[test]
fn a_plan_has_states_from_its_second_search_on() {
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
fn what_was_used_longest_ago_makes_room() {
    let states = PartialStates::new(3 * ENTRY_BYTES).unwrap();
    plan(&states, "a");
    let a = plan(&states, "a").unwrap();
    let keys: Vec<PartKey> = (0..5).map(|bucket| a.key(slab(bucket), 0)).collect();
    a.put(keys[..3].iter().map(|key| (*key, part(1))).collect());
    a.get(&keys[0]);
    a.put(vec![(keys[3], part(1)), (keys[4], part(1))]);
    assert_eq!([0, 1, 2, 3, 4].map(|at| a.get(&keys[at]).is_some()), [true, false, false, true, true]);
    a.put(vec![(keys[4], part(2))]);
    assert_eq!(states.held(), (3 * ENTRY_BYTES, 3));
    assert_eq!(a.get(&keys[4]).unwrap().pages, 2);
}

#[test]
fn a_forgotten_plan_starts_anew() {
    let states = PartialStates::new(1 << 20).unwrap();
    plan(&states, "a");
    let before = plan(&states, "a").unwrap();
    let key = before.key(slab(1), 0);
    before.put(vec![(key, part(1))]);
    for at in 0..PLANS_MAX {
        plan(&states, &format!("other {at}"));
    }
    assert!(plan(&states, "a").is_none());
    let after = plan(&states, "a").unwrap();
    assert_ne!(after.key(slab(1), 0), key);
    assert!(after.get(&after.key(slab(1), 0)).is_none());
    let inner = states.lock();
    assert_eq!((inner.plans.len(), inner.plans_by_use.len()), (PLANS_MAX, PLANS_MAX));
}

#[test]
fn a_plan_that_makes_too_much_is_left_alone() {
    let states = PartialStates::new(1 << 20).unwrap();
    plan(&states, "a");
    plan(&states, "a").unwrap().give_up();
    assert!(plan(&states, "a").is_none());
}
