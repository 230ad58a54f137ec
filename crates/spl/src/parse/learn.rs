//! fit, apply, score, summary, listmodels and deletemodel.

use super::cursor::{Parser, Read};
use super::options::Known;
use crate::ast::{
    ALGORITHMS, APPLY_OPTIONS, AlgorithmKind, AlgorithmRow, ApplyCommand, FieldPattern, FitCommand, LearnCommand,
    LearnOption, ModelName, SCORES, ScoreCommand, ScoreRow,
};
use crate::diagnostic::Diagnostic;

const APPLY: Known = Known { command: "apply", names: APPLY_OPTIONS, ignored: &[] };
/// The algorithm that has `by`.
const GROUPED: &str = "DensityFunction";
/// Fields of `by` at most.
const BY_MAX: usize = 5;
/// Longest name of a model, in bytes.
const MODEL_NAME_MAX: usize = 200;

/// Which list the next field of `fit` belongs to.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    First,
    From,
    By,
}

impl Parser<'_> {
    /// The command of this name, or `None` when it is none of this family.
    pub(crate) fn learn_command(&mut self, name: &str) -> Read<Option<LearnCommand>> {
        Ok(Some(match name {
            "fit" => LearnCommand::Fit(self.fit()?),
            "apply" => LearnCommand::Apply(self.apply()?),
            "score" => LearnCommand::Score(self.score()?),
            "summary" => LearnCommand::Summary(self.model_name("summary")?),
            "listmodels" => LearnCommand::ListModels,
            "deletemodel" => LearnCommand::DeleteModel(self.model_name("deletemodel")?),
            _ => return Ok(None),
        }))
    }

    fn fit(&mut self) -> Read<FitCommand> {
        let word = self.expect_field("an algorithm")?;
        let Some(algorithm) = ALGORITHMS.iter().find(|row| row.name == word.text) else {
            self.unsupported(format!("algorithm:{}", word.text));
            let names: Vec<&str> = ALGORITHMS.iter().map(|row| row.name).collect();
            let message = format!("fit: there is no algorithm `{}`; there are {}", word.text, names.join(", "));
            return Err(Diagnostic::error(message, word.span).suggest(&word.text, names));
        };
        let known = Known { command: "fit", names: algorithm.options, ignored: &[] };
        let (mut model, mut output, mut options) = (None, None, Vec::new());
        let (mut first, mut from, mut by) = (Vec::new(), Vec::new(), Vec::new());
        let mut part = Part::First;
        loop {
            while let Some(option) = self.option(known)? {
                options.push(LearnOption { name: option.name, value: option.value, span: option.value_span });
            }
            self.skip_separators();
            if self.at_end() {
                break;
            }
            if self.eat_keyword("from") {
                part = Part::From;
            } else if self.eat_keyword("by") {
                part = Part::By;
            } else if self.eat_keyword("into") {
                model = Some(self.model_name("fit")?);
            } else if self.eat_keyword("as") {
                output = Some(self.expect_field("the name of a field")?.text);
            } else {
                let field = self.expect_field("a field")?.field();
                match part {
                    Part::First => first.push(field),
                    Part::From => from.push(field),
                    Part::By => by.push(field),
                }
            }
        }
        let by = self.fit_by(algorithm, &by)?;
        let (target, features) = self.fit_fields(algorithm, first, from, part != Part::First)?;
        Ok(FitCommand { algorithm, span: word.span, target, features, by, model, output, options })
    }

    /// The fields of `by`, of which several may stand in one pair of quotes.
    fn fit_by(&mut self, algorithm: &AlgorithmRow, by: &[FieldPattern]) -> Read<Vec<String>> {
        let Some(first) = by.first() else { return Ok(Vec::new()) };
        if algorithm.name != GROUPED {
            let message = format!("fit: {} has no `by`; {GROUPED} has", algorithm.name);
            return Err(Diagnostic::error(message, first.span));
        }
        let names = by.iter().flat_map(|field| field.text.split(',')).map(|name| name.trim().to_owned());
        let names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
        if names.len() > BY_MAX {
            let message = format!("fit: {} fields behind `by`, the limit is {BY_MAX}", names.len());
            return Err(Diagnostic::error(message, first.span));
        }
        Ok(names)
    }

    /// What is foretold, and of what.
    fn fit_fields(
        &mut self,
        algorithm: &AlgorithmRow,
        mut first: Vec<FieldPattern>,
        from: Vec<FieldPattern>,
        has_more: bool,
    ) -> Read<(Option<FieldPattern>, Vec<FieldPattern>)> {
        let name = algorithm.name;
        if algorithm.kind == AlgorithmKind::Transformer {
            first.extend(from);
            let Some(field) = first.first() else {
                let remark = Diagnostic::error(format!("fit: {name} has no fields to learn from"), self.here());
                return Err(remark.with_hint(format!("write `fit {name} FIELD...`, or `fit {name} *`")));
            };
            if name == GROUPED && first.len() > 1 {
                return Err(Diagnostic::error(format!("fit: {name} takes one field"), field.span));
            }
            return Ok((None, first));
        }
        let hint = format!("write `fit {name} FIELD from FIELD...`");
        let Some(target) = first.first().cloned() else {
            let remark = Diagnostic::error(format!("fit: {name} has no field to foretell"), self.here());
            return Err(remark.with_hint(hint));
        };
        if first.len() > 1 || target.is_wildcard() || !has_more || from.is_empty() {
            let message = format!("fit: {name} wants one field to foretell, `from`, and fields to learn from");
            return Err(Diagnostic::error(message, target.span).with_hint(hint));
        }
        Ok((Some(target), from))
    }

    fn apply(&mut self) -> Read<ApplyCommand> {
        let model = self.model_name("apply")?;
        let (mut output, mut options) = (None, Vec::new());
        loop {
            while let Some(option) = self.option(APPLY)? {
                options.push(LearnOption { name: option.name, value: option.value, span: option.value_span });
            }
            self.skip_separators();
            if self.at_end() {
                return Ok(ApplyCommand { model, output, options });
            }
            if self.eat_keyword("as") {
                output = Some(self.expect_field("the name of a field")?.text);
            } else {
                let word = self.expect_field("`as` or an option")?;
                return Err(Diagnostic::error(format!("apply: unexpected `{}`", word.text), word.span));
            }
        }
    }

    fn score(&mut self) -> Read<ScoreCommand> {
        let word = self.expect_field("a method")?;
        let Some(method): Option<&'static ScoreRow> = SCORES.iter().find(|row| row.name == word.text) else {
            self.unsupported(format!("score:{}", word.text));
            let names: Vec<&str> = SCORES.iter().map(|row| row.name).collect();
            let message = format!("score: there is no method `{}`; there are {}", word.text, names.join(", "));
            return Err(Diagnostic::error(message, word.span).suggest(&word.text, names));
        };
        let known = Known { command: "score", names: method.options, ignored: &[] };
        let (mut actual, mut predicted, mut options) = (Vec::new(), Vec::new(), Vec::new());
        let mut is_against = false;
        loop {
            while let Some(option) = self.option(known)? {
                options.push(LearnOption { name: option.name, value: option.value, span: option.value_span });
            }
            self.skip_separators();
            if self.at_end() {
                break;
            }
            if !is_against && (self.eat_keyword("against") || self.eat('~')) {
                is_against = true;
                continue;
            }
            let field = self.expect_field("a field")?.field();
            if is_against { predicted.push(field) } else { actual.push(field) }
        }
        if actual.is_empty() || predicted.is_empty() {
            let remark = Diagnostic::error(format!("score: {} has nothing to compare", method.name), word.span);
            return Err(remark.with_hint(format!("write `score {} FIELD against FIELD`", method.name)));
        }
        Ok(ScoreCommand { method, actual, predicted, options, span: word.span })
    }

    /// `NAME` or `app:NAME`.
    fn model_name(&mut self, command: &str) -> Read<ModelName> {
        let word = self.expect_field("the name of a model")?;
        let (shared, text) = match word.text.split_once(':') {
            Some(("app", name)) => (true, name),
            _ => (false, word.text.as_str()),
        };
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if text.is_empty() || text.len() > MODEL_NAME_MAX || !text.chars().all(is_of_name) {
            let message = format!("{command}: `{}` is no name of a model", word.text);
            let remark = Diagnostic::error(message, word.span);
            return Err(
                remark.with_hint("write letters, digits, `_` and `-`, with `app:` in front for one that is shared")
            );
        }
        Ok(ModelName { text: text.to_owned(), shared, span: word.span })
    }
}

#[cfg(test)]
mod tests {
    use crate::ast::{Command, LearnCommand};
    use crate::parse;

    fn one(text: &str) -> Result<LearnCommand, String> {
        let parsed = parse(text);
        match (parsed.pipeline.commands.last().map(|stage| stage.command.clone()), parsed.diagnostics.first()) {
            (Some(Command::Learn(command)), None) => Ok(command),
            (_, Some(remark)) => Err(remark.to_string()),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn clauses_come_in_any_order() {
        let texts = [
            "* | fit LogisticRegression y from a \"b c\" x* into app:m as p probabilities=t",
            "* | fit LogisticRegression probabilities=t y from a, 'b c' x* as p into app:m",
        ];
        for text in texts {
            let Ok(LearnCommand::Fit(fit)) = one(text) else { panic!("{text}") };
            assert_eq!(fit.target.unwrap().text, "y");
            let features: Vec<&str> = fit.features.iter().map(|field| field.text.as_str()).collect();
            assert_eq!(features, ["a", "b c", "x*"]);
            let model = fit.model.unwrap();
            assert_eq!((model.text.as_str(), model.shared, fit.output.as_deref()), ("m", true, Some("p")));
            assert_eq!((fit.options[0].name.as_str(), fit.options[0].value.as_str()), ("probabilities", "t"));
        }
        let text = "* | fit DensityFunction n by \"HourOfDay,isWeekend\" into m_1 dist=norm show_density=true";
        let Ok(LearnCommand::Fit(fit)) = one(text) else { panic!("{text}") };
        assert_eq!(fit.by, ["HourOfDay", "isWeekend"]);
        let Ok(LearnCommand::Score(score)) = one("* | score f1_score a against predicted(a) average=weighted") else {
            panic!("score")
        };
        assert_eq!((score.predicted[0].text.as_str(), score.options.len()), ("predicted(a)", 1));
        let Ok(LearnCommand::Apply(apply)) = one("* | apply app:m threshold=0.005 as x") else { panic!("apply") };
        assert_eq!((apply.model.shared, apply.output.as_deref()), (true, Some("x")));
    }

    #[test]
    fn faults_say_what_to_write() {
        for (text, want) in [
            ("* | fit KMean x", "there is no algorithm `KMean`"),
            ("* | fit KMean x", "did you mean `KMeans`?"),
            ("* | fit LinearRegression y", "write `fit LinearRegression FIELD from FIELD...`"),
            ("* | fit LinearRegression y z from x", "wants one field"),
            ("* | fit KMeans", "has no fields"),
            ("* | fit KMeans x by y", "KMeans has no `by`"),
            ("* | fit KMeans x into ../m", "is no name of a model"),
            ("* | fit KMeans x into other:m", "is no name of a model"),
            ("* | fit KMeans x epsilon=2", "unknown option `epsilon`"),
            ("* | fit DensityFunction x by a b c d e f", "the limit is 5"),
            ("* | apply m x", "unexpected `x`"),
            ("* | score accuracy_scor a against b", "did you mean `accuracy_score`?"),
            ("* | score r2_score a", "write `score r2_score FIELD against FIELD`"),
        ] {
            let told = one(text).unwrap_err();
            assert!(told.contains(want), "{text}: {told}");
        }
    }
}
