//! The shape of an explained search, whose content the node provides. Not here: planning (engine).

use super::shape::Shape;

/// An explained search.
pub(super) const EXPLAINED: Shape = Shape::Object(&[
    ("search", Shape::Text),
    ("expanded", Shape::Text),
    ("macros", Shape::List(&Shape::Object(&[("name", Shape::Text), ("text", Shape::Text)]))),
    ("plan", Shape::Named("Plan")),
    ("messages", TEXTS),
]);
/// Plan of a search.
pub(super) const PLAN: Shape = Shape::Object(&[
    ("events", Shape::Nullable(&READ)),
    ("exchanges", Shape::List(&EXCHANGE)),
    (
        "stages",
        Shape::List(&Shape::Object(&[
            ("command", Shape::Text),
            ("text", Shape::Text),
            ("phase", Shape::Text),
            ("takes", Shape::Text),
        ])),
    ),
    ("subsearches", Shape::List(&Shape::Named("Plan"))),
]);
const TEXTS: Shape = Shape::List(&Shape::Text);
const TIME: Shape = Shape::Nullable(&Shape::Text);
/// The exchange of rows between workers in one round.
const EXCHANGE: Shape = Shape::Object(&[
    ("rows", Shape::Text),
    (
        "columns",
        Shape::List(&Shape::Object(&[
            ("name", Shape::Text),
            ("type", Shape::Text),
            ("content", Shape::Text),
            ("of", Shape::Nullable(&Shape::Text)),
            ("state", Shape::Nullable(&Shape::Text)),
        ])),
    ),
    ("patterns", TEXTS),
]);
/// The events that a search reads.
const READ: Shape = Shape::Object(&[
    ("indexes", TEXTS),
    ("earliest", TIME),
    ("latest", TIME),
    ("terms", Shape::Text),
    ("prunes_by", TEXTS),
    (
        "fields",
        Shape::Object(&[
            ("all", Shape::Flag),
            ("names", TEXTS),
            ("patterns", TEXTS),
            ("tested", TEXTS),
            ("text", Shape::Flag),
        ]),
    ),
    ("pushed", TEXTS),
    ("newest_first", Shape::Flag),
    (
        "summaries",
        Shape::Nullable(&Shape::Object(&[("object", Shape::Text), ("slabs", Shape::Count), ("of", Shape::Count)])),
    ),
    (
        "pruning",
        Shape::List(&Shape::Object(&[
            ("after", Shape::Text),
            ("buckets", Shape::Count),
            ("slabs", Shape::Count),
            ("pages", Shape::Count),
            ("events", Shape::Count),
        ])),
    ),
]);
