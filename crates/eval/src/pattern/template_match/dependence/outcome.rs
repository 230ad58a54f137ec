//! Reads the result of the analysis from the configurations that the walk reached: which variables decide it, and the
//! positions of the groups.
//!
//! A variable is decisive if configurations with different results diverge at it. The layers of the walk are therefore
//! followed backwards, from the final configurations to the first variable.
//!
//! Not here: the walk itself ([`super`]).

use std::sync::Arc;

use super::{Configuration, Dependence, GroupDependence, GroupRanges, Layer, Position};

/// Derives the dependence of the requested groups from the final configurations.
pub(super) fn dependence_of(
    finals: &[Configuration],
    deciding: Vec<usize>,
    wanted: &[usize],
    groups: usize,
) -> Dependence {
    let mut read = deciding.clone();
    let mut add = |part| {
        if !read.contains(&part) {
            read.push(part);
        }
    };
    let mut positions: Vec<Option<GroupRanges>> = Vec::new();
    for one in finals {
        let Some(registers) = &one.matched else {
            positions.push(None);
            continue;
        };
        let mut found: Option<GroupRanges> = Some(vec![None; groups]);
        for (at, group) in wanted.iter().enumerate() {
            let start = if *group == 0 { registers[0] } else { registers[1 + at * 2] };
            let (Some(start), Some(end)) = (start, registers[2 + at * 2]) else { continue };
            let (first, last) = (part_of(start, false), part_of(end, true));
            (first..last).for_each(&mut add);
            match (start, end) {
                (Position::Fixed(start), Position::Fixed(end)) => {
                    if let Some(position) = found.as_mut().and_then(|found| found.get_mut(*group)) {
                        *position = Some((start, end));
                    }
                }
                _ => found = None,
            }
        }
        positions.push(found);
    }
    let same = positions
        .first()
        .cloned()
        .flatten()
        .filter(|first| positions.iter().all(|other| other.as_ref() == Some(first)));
    read.sort_unstable();
    let of_matches = || {
        let mut matches =
            finals.iter().zip(&positions).filter(|(one, _)| one.matched.is_some()).map(|(_, position)| position);
        let first = matches.next()?.clone()?;
        matches.all(|other| other.as_ref() == Some(&first)).then_some(first)
    };
    let decision = if same.is_some() { None } else { of_matches().map(|positions| (positions, deciding)) };
    Dependence { groups: same, read, decision, apart: None }
}

/// The parts on which the match depends, and those on which each single group depends.
pub(super) fn group_dependence_of(
    layers: &[Arc<Layer>],
    finals: &[Configuration],
    wanted: &[usize],
) -> GroupDependence {
    let is_match = |one: &Configuration| Verdict::Answer(usize::from(one.matched.is_some()));
    let matched = deciding_parts(layers, finals.iter().map(is_match).collect());
    let mut groups = Vec::with_capacity(wanted.len());
    for (at, group) in wanted.iter().enumerate() {
        let of_match = |one: &Configuration| {
            let registers = one.matched.as_ref()?;
            let start = if *group == 0 { registers[0] } else { registers[1 + at * 2] };
            Some((start, registers[2 + at * 2]))
        };
        let answers: Vec<_> = finals.iter().map(of_match).collect();
        let verdicts = answers.iter().map(|answer| match answer {
            Some(_) => Verdict::Answer(answers.iter().position(|known| known == answer).unwrap_or_default()),
            None => Verdict::Nothing,
        });
        let mut parts = deciding_parts(layers, verdicts.collect());
        for answer in answers.iter().flatten() {
            if let (Some(start), Some(end)) = *answer {
                parts.extend(part_of(start, false)..part_of(end, true));
            }
        }
        parts.sort_unstable();
        parts.dedup();
        groups.push(parts);
    }
    GroupDependence { matched, groups }
}

/// The first part after a position, or the part in which it is.
fn part_of(position: Position, is_end: bool) -> usize {
    match position {
        Position::Fixed(position) if is_end && position.offset > 0 => position.part + 1,
        Position::Fixed(position) => position.part,
        Position::Within(part, _) if is_end => part + 1,
        Position::Within(part, _) => part,
        Position::Here | Position::Earlier(_) => 0,
    }
}

/// The variables at which configurations with different results (a match with its groups, or no match) diverge.
pub(super) fn deciding_variables(layers: &[Arc<Layer>], finals: &[Configuration]) -> Vec<usize> {
    let wanted = |one: &Configuration| one.matched.as_ref().map(|registers| registers[1..].to_vec());
    let answers: Vec<_> = finals.iter().map(wanted).collect();
    let first_of = |answer| answers.iter().position(|known| known == answer).map_or(Verdict::Open, Verdict::Answer);
    deciding_parts(layers, answers.iter().map(first_of).collect())
}

/// Result of the texts that pass through a configuration, if it is determined there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The result of these texts does not matter.
    Nothing,
    /// All these texts have this result.
    Answer(usize),
    /// The result depends on later values.
    Open,
}

/// The variables at which configurations with different answers diverge; `verdicts` are the verdicts of the
/// final configurations.
///
/// Configurations for which later values have the same effect form a *class*: configurations with the same answer
/// at the end, and configurations whose successors are all in one class. A variable that leads to configurations of a
/// single class decides nothing, even if they differ for a while, for example in the byte before the position.
fn deciding_parts(layers: &[Arc<Layer>], verdicts: Vec<Verdict>) -> Vec<usize> {
    let mut deciding = Vec::new();
    let mut classes = verdicts.len();
    let class_of_answer = |verdict: Verdict| match verdict {
        Verdict::Answer(_) => verdicts.iter().position(|other| *other == verdict),
        Verdict::Nothing | Verdict::Open => None,
    };
    let of_finals = verdicts.iter().enumerate();
    let mut behind: Vec<(Verdict, usize)> =
        of_finals.map(|(at, verdict)| (*verdict, class_of_answer(*verdict).unwrap_or(at))).collect();
    for layer in layers.iter().rev() {
        let Layer { variable, next } = &**layer;
        let mut before = Vec::with_capacity(next.len());
        let mut is_deciding = false;
        for numbers in next {
            let successors = || numbers.iter().filter_map(|number| behind.get(*number));
            let verdict = successors().map(|(verdict, _)| *verdict).reduce(|one, other| match (one, other) {
                (Verdict::Nothing, verdict) | (verdict, Verdict::Nothing) => verdict,
                (one, other) if one == other => one,
                _ => Verdict::Open,
            });
            let verdict = verdict.unwrap_or(Verdict::Open);
            let class = class_of_answer(verdict).or_else(|| {
                let first = successors().next().map(|(_, class)| *class)?;
                successors().all(|(_, class)| *class == first).then_some(first)
            });
            is_deciding |= class.is_none() && verdict == Verdict::Open;
            before.push((verdict, class.unwrap_or(classes)));
            classes += usize::from(class.is_none());
        }
        if let Some(variable) = variable.filter(|_| is_deciding) {
            deciding.push(variable);
        }
        behind = before;
    }
    deciding.reverse();
    deciding
}
