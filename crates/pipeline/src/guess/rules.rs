//! `[rule::…]` and `[delayedrule::…]` stanzas of props.conf, which assign a sourcetype by the share of matching lines.
//!
//! A rule takes precedence over format detection; a delayed rule applies only if detection recognises no format, so
//! that the sourcetype would otherwise be the plain one or derived from the file's name. The first matching rule in the
//! files wins.

use quarry_conf::{PropsResolver, SourcetypeRule};

use super::{Guess, PLAIN_SOURCETYPE, complete_lines, guess_data};
use crate::error::PipelineError;
use crate::pattern::Pattern;

/// Compiled rules.
#[derive(Debug, Default)]
pub(crate) struct GuessRules {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    sourcetype: String,
    more_than: Vec<(usize, Pattern)>,
    less_than: Vec<(usize, Pattern)>,
    is_delayed: bool,
}

impl GuessRules {
    /// The rules of props.conf.
    pub(crate) fn new(props: &PropsResolver) -> Result<GuessRules, PipelineError> {
        let rules = props.sourcetype_rules().iter().map(Rule::new).collect::<Result<_, _>>()?;
        Ok(GuessRules { rules })
    }

    /// Guesses the sourcetype by rules, name and first bytes of a source.
    pub(crate) fn guess(&self, sample: &[u8], source: &str, may_continue: bool) -> Guess {
        let lines = complete_lines(sample);
        if let Some(guess) = self.guess_by_rule(&lines, false) {
            return guess;
        }
        let guess = guess_data(sample, source, may_continue);
        let tells_little =
            guess.sourcetype == PLAIN_SOURCETYPE || super::file_stem(source).as_ref() == Some(&guess.sourcetype);
        let delayed = if tells_little { self.guess_by_rule(&lines, true) } else { None };
        delayed.unwrap_or(guess)
    }

    fn guess_by_rule(&self, lines: &[&[u8]], delayed: bool) -> Option<Guess> {
        let mut rules = self.rules.iter().filter(|rule| rule.is_delayed == delayed && !lines.is_empty());
        let rule = rules.find(|rule| rule.matches(lines))?;
        Some(Guess { sourcetype: rule.sourcetype.clone(), reason: "a [rule::] stanza fits" })
    }
}

impl Rule {
    fn new(rule: &SourcetypeRule) -> Result<Rule, PipelineError> {
        let compile = |(percent, text): &(usize, String)| {
            let wrong = |reason| PipelineError::of_rule("props.conf", &rule.stanza, "pattern", text, &reason);
            Ok((*percent, Pattern::new(text).map_err(wrong)?))
        };
        let all = |shares: &[(usize, String)]| shares.iter().map(compile).collect::<Result<Vec<_>, PipelineError>>();
        Ok(Rule {
            sourcetype: rule.sourcetype.clone(),
            more_than: all(&rule.more_than)?,
            less_than: all(&rule.less_than)?,
            is_delayed: rule.is_delayed,
        })
    }

    fn matches(&self, lines: &[&[u8]]) -> bool {
        let matching = |pattern: &Pattern| lines.iter().filter(|line| pattern.is_match(line)).count() * 100;
        self.more_than.iter().all(|(percent, pattern)| matching(pattern) > percent * lines.len())
            && self.less_than.iter().all(|(percent, pattern)| matching(pattern) < percent * lines.len())
    }
}

#[cfg(test)]
mod tests {
    use quarry_conf::layers::Layer;
    use quarry_conf::{ConfSource, Layers};

    use super::*;

    fn guess(text: &str, sample: &str) -> String {
        let file = "props.conf".to_owned();
        let source = ConfSource { layer: Layer::SystemLocal, app: None, file, text: text.to_owned() };
        let layers = Layers::new([source]);
        assert_eq!(layers.warnings(), []);
        GuessRules::new(&PropsResolver::new(&layers)).unwrap().guess(sample.as_bytes(), "/x/a.log", false).sourcetype
    }

    #[test]
    fn share_of_matching_lines_decides() {
        let rules = "[rule::shop]\nsourcetype = shop\nMORE_THAN_60 = ^order\nLESS_THAN_30 = ^!\n";
        assert_eq!(guess(rules, "order 1\norder 2\nother\n"), "shop");
        assert_eq!(guess(rules, "order 1\nother\n"), PLAIN_SOURCETYPE);
        assert_eq!(guess(rules, "order 1\norder 2\n!\n"), PLAIN_SOURCETYPE);
    }

    #[test]
    fn delayed_rules_apply_after_the_format_guess() {
        let rule = |kind: &str| format!("[{kind}::any]\nsourcetype = any\nMORE_THAN_0 = .\n");
        let json = "{\"a\":1}\n{\"a\":2}\n";
        assert_eq!(guess(&rule("rule"), json), "any");
        assert_eq!(guess(&rule("delayedrule"), json), "_json");
        assert_eq!(guess(&rule("delayedrule"), "nothing in particular\n"), "any");
    }
}
