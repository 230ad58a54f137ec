//! Commands that look for patterns in all rows; what they mean is told in [`crate::ast::AnalyticsCommand`].

use quarry_event::time::{Span as TimeSpan, SpanUnit};

use super::cursor::{Parser, Read};
use super::options::Known;
use crate::ast::{
    AnalyticsCommand, AnomaliesCommand, AnomalousValueCommand, AnomalyAction, AnomalyDetectionCommand, ArulesCommand,
    AssociateCommand, BucketDirCommand, CofilterCommand, Command, DiffCommand, ErexCommand, FieldPattern,
    KMeansCommand, KMeansDistance, LocalizeCommand, OutlierCommand, SelfJoinCommand, Span, TablesCommand,
};
use crate::diagnostic::Diagnostic;

/// Groups of kmeans at most, and how far fewest and most may be apart.
const GROUPS_MAX: usize = 1_000;
const GROUPS_RANGE_MAX: usize = 100;
/// Rows that anomalies looks back at most.
const WINDOW_MAX: usize = 10_000;

const KMEANS: Known = Known {
    command: "kmeans",
    names: &["k", "reps", "maxiters", "t", "dt", "cfield", "cnumfield", "showcentroid"],
    ignored: &[],
};
const ANOMALIES: Known = Known {
    command: "anomalies",
    names: &[
        "threshold",
        "labelonly",
        "normalize",
        "maxvalues",
        "field",
        "denylist",
        "denylistthreshold",
        "blacklist",
        "blacklistthreshold",
    ],
    ignored: &[],
};
const ANOMALOUSVALUE: Known = Known {
    command: "anomalousvalue",
    names: &["action", "pthresh", "minsupcount", "minsupfreq", "maxanofreq", "minnormfreq"],
    ignored: &["usefields"],
};
const ANOMALYDETECTION: Known = Known {
    command: "anomalydetection",
    names: &["method", "action", "pthresh", "cutoff", "param", "uselower", "mark"],
    ignored: &[],
};
const ASSOCIATE: Known = Known { command: "associate", names: &["supcnt", "supfreq", "improv"], ignored: &[] };
const CORRELATE: Known = Known { command: "correlate", names: &[], ignored: &["type"] };
const ARULES: Known = Known { command: "arules", names: &["sup", "conf"], ignored: &[] };
const EREX: Known =
    Known { command: "erex", names: &["examples", "counterexamples", "fromfield", "maxtrainers"], ignored: &[] };
const SELFJOIN: Known = Known { command: "selfjoin", names: &["overwrite", "max", "keepsingle"], ignored: &[] };
const ANALYZEFIELDS: Known = Known { command: "analyzefields", names: &["classfield"], ignored: &[] };
const BUCKETDIR: Known =
    Known { command: "bucketdir", names: &["pathfield", "sizefield", "maxcount", "countfield", "sep"], ignored: &[] };

const DIFF: Known = Known {
    command: "diff",
    names: &["position1", "position2", "attribute", "diffheader", "context", "maxlen"],
    ignored: &[],
};
const LOCALIZE: Known = Known { command: "localize", names: &["maxpause", "timeafter", "timebefore"], ignored: &[] };
/// Bytes of a text that diff compares unless told otherwise.
const DIFF_BYTES: usize = 100_000;
/// Seconds that regions of localize begin earlier and end later by.
const AROUND_SECONDS: u64 = 30;

fn no_item(place: Span) -> Diagnostic {
    Diagnostic::error("cofilter: no field of items is given", place).with_hint("write `cofilter user item`")
}

impl Parser<'_> {
    /// The command of this name, or `None` when it is none of this family.
    pub(crate) fn analytics_command(&mut self, name: &str) -> Read<Option<Command>> {
        let command = match name {
            "predict" => AnalyticsCommand::Predict(self.predict()?),
            "kmeans" => AnalyticsCommand::KMeans(self.kmeans()?),
            "anomalies" => AnalyticsCommand::Anomalies(self.anomalies()?),
            "anomalousvalue" => AnalyticsCommand::AnomalousValue(self.anomalous_value(ANOMALOUSVALUE)?),
            "anomalydetection" => return self.anomaly_detection().map(Some),
            "associate" => AnalyticsCommand::Associate(self.associate()?),
            "correlate" => {
                while self.option(CORRELATE)?.is_some() {}
                AnalyticsCommand::Correlate
            }
            "arules" => AnalyticsCommand::Arules(self.arules()?),
            "erex" => AnalyticsCommand::Erex(self.erex()?),
            "selfjoin" => AnalyticsCommand::SelfJoin(self.selfjoin()?),
            "bucketdir" => AnalyticsCommand::BucketDir(self.bucketdir()?),
            "cofilter" => AnalyticsCommand::Cofilter(CofilterCommand {
                user: self.expect_field("a field of users")?.text,
                item: self.next_field().map(|field| field.text).ok_or_else(|| no_item(self.here()))?,
            }),
            "analyzefields" | "af" => AnalyticsCommand::AnalyzeFields(self.analyzefields()?),
            "diff" => AnalyticsCommand::Diff(self.diff()?),
            "localize" => AnalyticsCommand::Localize(self.localize()?),
            // The words are those of the whole search, which is not read yet.
            "relevancy" => AnalyticsCommand::Relevancy(Vec::new()),
            _ => return Ok(None),
        };
        Ok(Some(Command::Analytics(command)))
    }

    /// The next field of a list, if one is left.
    fn next_field(&mut self) -> Option<FieldPattern> {
        self.skip_separators();
        self.field_word().map(super::cursor::Word::field)
    }

    fn kmeans(&mut self) -> Read<KMeansCommand> {
        let mut command = KMeansCommand {
            groups: (2, 2),
            starts: 10,
            rounds: 10_000,
            tolerance: 0.0,
            distance: KMeansDistance::Squares,
            output: "CLUSTERNUM".to_owned(),
            shows_centre: true,
            fields: Vec::new(),
        };
        loop {
            while let Some(option) = self.option(KMEANS)? {
                match option.name.as_str() {
                    "k" => {
                        let (low, high) = option.value.split_once('-').unwrap_or((&option.value, &option.value));
                        let read = low.trim().parse::<usize>().ok().zip(high.trim().parse::<usize>().ok());
                        let fits = |&(low, high): &(usize, usize)| {
                            (1..=high).contains(&low) && high <= GROUPS_MAX && high - low <= GROUPS_RANGE_MAX
                        };
                        let wants = || format!("a count up to {GROUPS_MAX}, or two with `-` between");
                        command.groups = read.filter(fits).ok_or_else(|| option.refuse(&wants()))?;
                    }
                    "reps" => command.starts = option.number::<usize>()?.max(1),
                    "maxiters" => command.rounds = option.number::<usize>()?.max(1),
                    "t" => command.tolerance = option.number()?,
                    "cfield" | "cnumfield" => command.output = option.value,
                    "showcentroid" => command.shows_centre = option.boolean()?,
                    _ => {
                        command.distance = match option.value.to_ascii_lowercase().as_str() {
                            "l1" | "l1norm" | "cityblock" | "cb" => KMeansDistance::Sum,
                            "sqeuclidean" | "l2" | "l2norm" | "sq" => KMeansDistance::Squares,
                            "cosine" | "cos" => KMeansDistance::Angle,
                            _ => return Err(option.refuse("l1, sqeuclidean or cosine")),
                        }
                    }
                }
            }
            match self.next_field() {
                Some(field) => command.fields.push(field),
                None => return Ok(command),
            }
        }
    }

    fn diff(&mut self) -> Read<DiffCommand> {
        let field = "_raw".to_owned();
        let mut command =
            DiffCommand { positions: (1, 2), field, header: false, context: false, bytes_max: DIFF_BYTES };
        let mut place = self.here();
        while let Some(option) = self.option(DIFF)? {
            match option.name.as_str() {
                "position1" => command.positions.0 = option.number()?,
                "position2" => command.positions.1 = option.number()?,
                "attribute" => command.field = option.value,
                "diffheader" => command.header = option.boolean()?,
                "context" => command.context = option.boolean()?,
                _ => command.bytes_max = option.number()?,
            }
            if option.name.starts_with("position") {
                place = option.value_span;
            }
        }
        let (first, second) = command.positions;
        if first == 0 || second <= first {
            let remark = Diagnostic::error("diff: position1 is a row from 1 on, and position2 one after it", place);
            return Err(remark.with_hint("write `diff position1=1 position2=2`"));
        }
        Ok(command)
    }

    fn localize(&mut self) -> Read<LocalizeCommand> {
        let around = Some(TimeSpan::new(AROUND_SECONDS, SpanUnit::Second));
        let max_pause = Some(TimeSpan::new(1, SpanUnit::Minute));
        let mut command = LocalizeCommand { max_pause, before: around, after: around };
        while let Some(option) = self.option(LOCALIZE)? {
            let is_none = option.value.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse() == Ok(0);
            let span = if is_none { None } else { Some(option.time_span()?) };
            match option.name.as_str() {
                "maxpause" => command.max_pause = span,
                "timebefore" => command.before = span,
                _ => command.after = span,
            }
        }
        Ok(command)
    }

    fn anomalies(&mut self) -> Read<AnomaliesCommand> {
        let mut command = AnomaliesCommand {
            threshold: 0.01,
            label_only: false,
            normalizes: true,
            window: 100,
            field: "_raw".to_owned(),
            denied: None,
            denied_threshold: 0.05,
            by: Vec::new(),
        };
        loop {
            while let Some(option) = self.option(ANOMALIES)? {
                match option.name.as_str() {
                    "threshold" => command.threshold = option.number()?,
                    "labelonly" => command.label_only = option.boolean()?,
                    "normalize" => command.normalizes = option.boolean()?,
                    "maxvalues" => command.window = option.number::<usize>()?.clamp(1, WINDOW_MAX),
                    "denylist" | "blacklist" => command.denied = Some((option.value, option.value_span)),
                    "denylistthreshold" | "blacklistthreshold" => command.denied_threshold = option.number()?,
                    _ => command.field = option.value,
                }
            }
            if !self.eat_keyword("by") {
                return Ok(command);
            }
            command.by = self.by_fields(ANOMALIES)?;
        }
    }

    fn anomaly_action(option: &super::options::OptionArg) -> Read<AnomalyAction> {
        Ok(match option.value.to_ascii_lowercase().as_str() {
            "filter" => AnomalyAction::Filter,
            "annotate" => AnomalyAction::Annotate,
            "summary" => AnomalyAction::Summary,
            _ => return Err(option.refuse("filter, annotate or summary")),
        })
    }

    fn anomalous_value(&mut self, known: Known) -> Read<AnomalousValueCommand> {
        let mut command = AnomalousValueCommand {
            action: AnomalyAction::Filter,
            threshold: 0.01,
            support: (100, 0.05),
            anomalous_share: 0.05,
            normal_share: 0.01,
            fields: Vec::new(),
        };
        loop {
            while let Some(option) = self.option(known)? {
                match option.name.as_str() {
                    "method" => {}
                    "action" => command.action = Self::anomaly_action(&option)?,
                    "pthresh" => command.threshold = option.number()?,
                    "minsupcount" => command.support.0 = option.number()?,
                    "minsupfreq" => command.support.1 = option.number()?,
                    "maxanofreq" => command.anomalous_share = option.number()?,
                    "minnormfreq" => command.normal_share = option.number()?,
                    other => return Err(option.refuse(&format!("another method: {other} belongs to another"))),
                }
            }
            match self.next_field() {
                Some(field) => command.fields.push(field),
                None => return Ok(command),
            }
        }
    }

    /// `anomalydetection`: `method=histogram` is its own, the others are outlier and anomalousvalue.
    fn anomaly_detection(&mut self) -> Read<Command> {
        let mut command = AnomalyDetectionCommand {
            action: AnomalyAction::Filter,
            threshold: None,
            cutoff: true,
            fields: Vec::new(),
        };
        let start = self.pos;
        let (mut method, mut action) = ("histogram".to_owned(), None);
        let mut quartiles =
            OutlierCommand { removes: false, marks: false, factor: 2.5, lower: false, fields: Vec::new() };
        loop {
            while let Some(option) = self.option(ANOMALYDETECTION)? {
                match option.name.as_str() {
                    "method" => method = option.value.to_ascii_lowercase(),
                    "action" => action = Some(option),
                    "pthresh" => command.threshold = Some(option.number()?),
                    "cutoff" => command.cutoff = option.boolean()?,
                    "param" => quartiles.factor = option.number()?,
                    "uselower" => quartiles.lower = option.boolean()?,
                    _ => quartiles.marks = option.boolean()?,
                }
            }
            match self.next_field() {
                Some(field) => command.fields.push(field),
                None => break,
            }
        }
        match method.as_str() {
            "histogram" => {
                if let Some(action) = &action {
                    command.action = Self::anomaly_action(action)?;
                }
                Ok(Command::Analytics(AnalyticsCommand::AnomalyDetection(command)))
            }
            "zscore" => {
                self.pos = start;
                self.anomalous_value(ANOMALYDETECTION).map(AnalyticsCommand::AnomalousValue).map(Command::Analytics)
            }
            "iqr" => {
                if let Some(action) = action {
                    quartiles.removes = match action.value.to_ascii_lowercase().as_str() {
                        "rm" | "remove" => true,
                        "tf" | "transform" => false,
                        _ => return Err(action.refuse("remove or transform")),
                    };
                }
                quartiles.fields = command.fields;
                Ok(Command::Tables(TablesCommand::Outlier(quartiles)))
            }
            _ => {
                let message = format!("anomalydetection: there is no method `{method}`");
                Err(Diagnostic::error(message, self.since(start)).with_hint("use histogram, zscore or iqr"))
            }
        }
    }

    fn associate(&mut self) -> Read<AssociateCommand> {
        let mut command = AssociateCommand { support: 100, support_share: 0.1, improvement: 0.5, fields: Vec::new() };
        loop {
            while let Some(option) = self.option(ASSOCIATE)? {
                match option.name.as_str() {
                    "supcnt" => command.support = option.number()?,
                    "supfreq" => command.support_share = option.number()?,
                    _ => command.improvement = option.number()?,
                }
            }
            match self.next_field() {
                Some(field) => command.fields.push(field),
                None => return Ok(command),
            }
        }
    }

    fn arules(&mut self) -> Read<ArulesCommand> {
        let mut command = ArulesCommand { support: 3, confidence: 0.5, fields: Vec::new() };
        loop {
            while let Some(option) = self.option(ARULES)? {
                match option.name.as_str() {
                    "sup" => command.support = option.number()?,
                    _ => command.confidence = option.number()?,
                }
            }
            match self.next_field() {
                Some(field) => command.fields.push(field),
                None => break,
            }
        }
        if command.fields.len() < 2 {
            return Err(Diagnostic::error("arules: two fields are needed at least", self.here()));
        }
        Ok(command)
    }

    fn erex(&mut self) -> Read<ErexCommand> {
        let mut command = ErexCommand {
            output: String::new(),
            field: "_raw".to_owned(),
            examples: Vec::new(),
            counterexamples: Vec::new(),
            rows: 100,
            span: self.here(),
        };
        let listed = |text: &str| -> Vec<String> {
            text.split(',').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
        };
        loop {
            while let Some(option) = self.option(EREX)? {
                match option.name.as_str() {
                    "examples" => {
                        command.examples = listed(&option.value);
                        command.span = option.value_span;
                    }
                    "counterexamples" => command.counterexamples = listed(&option.value),
                    "fromfield" => command.field = option.value,
                    _ => command.rows = option.number::<usize>()?.clamp(1, 1_000),
                }
            }
            match self.next_field() {
                Some(field) if command.output.is_empty() => command.output = field.text,
                Some(field) => {
                    return Err(Diagnostic::error(format!("erex: unexpected `{}`", field.text), field.span));
                }
                None => break,
            }
        }
        if command.examples.is_empty() {
            let remark = Diagnostic::error("erex: no examples= are given", self.here());
            return Err(remark.with_hint("write `erex port examples=\"80, 443\"`"));
        }
        if command.output.is_empty() {
            command.output = "field".to_owned();
        }
        Ok(command)
    }

    fn selfjoin(&mut self) -> Read<SelfJoinCommand> {
        let mut command = SelfJoinCommand { overwrites: true, max: 1, keeps_single: false, fields: Vec::new() };
        loop {
            while let Some(option) = self.option(SELFJOIN)? {
                match option.name.as_str() {
                    "overwrite" => command.overwrites = option.boolean()?,
                    "max" => command.max = option.number()?,
                    _ => command.keeps_single = option.boolean()?,
                }
            }
            match self.next_field() {
                Some(field) => command.fields.push(field),
                None => break,
            }
        }
        if command.fields.is_empty() {
            return Err(Diagnostic::error("selfjoin: no field is given", self.here()));
        }
        Ok(command)
    }

    /// `analyzefields classfield=FIELD`.
    fn analyzefields(&mut self) -> Read<String> {
        let mut class = None;
        while let Some(option) = self.option(ANALYZEFIELDS)? {
            class = Some(option.value);
        }
        class.ok_or_else(|| {
            let remark = Diagnostic::error("analyzefields: no classfield= is given", self.here());
            remark.with_hint("write `analyzefields classfield=status`")
        })
    }

    fn bucketdir(&mut self) -> Read<BucketDirCommand> {
        let mut command = BucketDirCommand {
            path: String::new(),
            size: String::new(),
            max: 10,
            least: 0,
            count: None,
            separator: "/".to_owned(),
        };
        while let Some(option) = self.option(BUCKETDIR)? {
            match option.name.as_str() {
                "pathfield" => command.path = option.value,
                "sizefield" => command.size = option.value,
                "maxcount" => command.max = option.number::<usize>()?.max(1),
                "countfield" => command.count = Some(option.value),
                _ => command.separator = option.value,
            }
        }
        if command.path.is_empty() || command.size.is_empty() || command.separator.is_empty() {
            return Err(Diagnostic::error("bucketdir: pathfield= and sizefield= are needed", self.here()));
        }
        Ok(command)
    }
}
