//! Names of models, shared by the machine learning commands.

use super::cursor::{ParseResult, Parser};
use crate::ast::ModelName;
use crate::diagnostic::Diagnostic;

/// Maximum bytes of a model's name.
const MODEL_NAME_BYTES_MAX: usize = 200;

impl Parser<'_> {
    /// Parses `NAME` or `app:NAME`.
    pub(crate) fn model_name(&mut self, command: &str) -> ParseResult<ModelName> {
        let word = self.expect_field("the name of a model")?;
        let (shared, text) = match word.text.split_once(':') {
            Some(("app", name)) => (true, name),
            _ => (false, word.text.as_str()),
        };
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if text.is_empty() || text.len() > MODEL_NAME_BYTES_MAX || !text.chars().all(is_of_name) {
            let message = format!("{command}: `{}` is not a model name", word.text);
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
    use crate::ast::Command;
    use crate::parse;

    fn one(text: &str) -> Result<Command, String> {
        let parsed = parse(text);
        match (parsed.pipeline.commands.last().map(|stage| stage.command.clone()), parsed.diagnostics.first()) {
            (Some(command), None) => Ok(command),
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
            let Ok(Command::Fit(fit)) = one(text) else { panic!("{text}") };
            assert_eq!(fit.target.unwrap().text, "y");
            let features: Vec<&str> = fit.features.iter().map(|field| field.text.as_str()).collect();
            assert_eq!(features, ["a", "b c", "x*"]);
            let model = fit.model.unwrap();
            assert_eq!((model.text.as_str(), model.shared, fit.output.as_deref()), ("m", true, Some("p")));
            assert_eq!((fit.options[0].name.as_str(), fit.options[0].value.as_str()), ("probabilities", "t"));
        }
        let text = "* | fit DensityFunction n by \"HourOfDay,isWeekend\" into m_1 dist=norm show_density=true";
        let Ok(Command::Fit(fit)) = one(text) else { panic!("{text}") };
        assert_eq!(fit.by, ["HourOfDay", "isWeekend"]);
        let Ok(Command::Score(score)) = one("* | score f1_score a against predicted(a) average=weighted") else {
            panic!("score")
        };
        assert_eq!((score.predicted[0].text.as_str(), score.options.len()), ("predicted(a)", 1));
        let Ok(Command::Apply(apply)) = one("* | apply app:m threshold=0.005 as x") else { panic!("apply") };
        assert_eq!((apply.model.shared, apply.output.as_deref()), (true, Some("x")));
    }

    #[test]
    fn errors_suggest_what_to_write() {
        for (text, want) in [
            ("* | fit KMean x", "there is no algorithm `KMean`"),
            ("* | fit KMean x", "did you mean `KMeans`?"),
            ("* | fit LinearRegression y", "write `fit LinearRegression FIELD from FIELD...`"),
            ("* | fit LinearRegression y z from x", "needs one field"),
            ("* | fit KMeans", "has no fields"),
            ("* | fit KMeans x by y", "KMeans has no `by`"),
            ("* | fit KMeans x into ../m", "is not a model name"),
            ("* | fit KMeans x into other:m", "is not a model name"),
            ("* | fit KMeans x epsilon=2", "unknown option `epsilon`"),
            ("* | fit DensityFunction x by a b c d e f", "the limit is 5"),
            ("* | apply m x", "unexpected `x`"),
            ("* | score accuracy_scor a against b", "did you mean `accuracy_score`?"),
            ("* | score r2_score a", "write `score r2_score FIELD against FIELD`"),
        ] {
            let reported = one(text).unwrap_err();
            assert!(reported.contains(want), "{text}: {reported}");
        }
    }
}
