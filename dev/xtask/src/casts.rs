//! The rule that product code converts numbers without losing something unnoticed.
//!
//! Casts to types that may be too small for the value are refused, which includes casts to doubles: they round integers
//! beyond 2^53. Casts from a double to an integer are refused too. The types of expressions are not known here: an
//! expression counts as a double if it has a literal, a method, a declared name or a field that shows it. `self` is the
//! variant of an enum, whose cast is exact. `quarry_stdx::number` has the conversions, and is not checked.

use std::collections::BTreeSet;

use syn::visit::Visit;
use syn::{BinOp, Expr, Pat, Type};

use crate::import_cycles::is_for_tests;
use crate::tidy::{crate_of, is_test_file, product_lines, word};

/// The file with the conversions.
const CONVERSIONS: &str = "crates/stdx/src/number.rs";

/// Methods that only doubles have, or whose results are doubles.
const DOUBLE_METHODS: &[&str] = &[
    "as_f64",
    "as_secs_f64",
    "cbrt",
    "ceil",
    "exp",
    "floor",
    "fract",
    "ln",
    "log10",
    "log2",
    "powf",
    "powi",
    "round",
    "sqrt",
    "to_degrees",
    "to_radians",
    "trunc",
];
/// Methods whose results have the type of their receiver.
const SAME_TYPE_METHODS: &[&str] =
    &["abs", "clamp", "copied", "copysign", "max", "min", "mul_add", "rem_euclid", "unwrap_or", "unwrap_or_default"];

/// Appends a fault for each cast of a file that may lose something.
pub(crate) fn check(name: &str, text: &str, faults: &mut Vec<String>) -> Result<(), String> {
    if crate_of(name).is_none() || is_test_file(name) || name == CONVERSIONS {
        return Ok(());
    }
    faults.extend(narrowing_casts(text).map(|line| {
        format!(
            "{name}:{line}: a cast that may lose something: use try_from and an error, or quarry_stdx::number where an \
             invariant holds or the loss is meant"
        )
    }));
    if text.contains("f64") || text.contains("Float") {
        let tree = syn::parse_file(text).map_err(|error| format!("{name}: {error}"))?;
        faults.extend(double_casts(&tree).into_iter().map(|function| {
            format!(
                "{name}: `{function}` casts a double to an integer; use `quarry_stdx::number::integer_part`, which \
                 says how it rounds"
            )
        }));
    }
    Ok(())
}

/// Line number of each cast in the product part of a file to a type that may be too small.
fn narrowing_casts(text: &str) -> impl Iterator<Item = usize> {
    (1..).zip(product_lines(text)).flat_map(|(number, line)| {
        let code: Vec<&str> = line.split("//").next().unwrap_or_default().split(" as ").collect();
        let casts = code.windows(2).filter(|sides| is_narrow(sides[1]) && !sides[0].ends_with("self")).count();
        std::iter::repeat_n(number, casts)
    })
}

fn is_narrow(rest: &str) -> bool {
    matches!(word(rest).as_str(), "u8" | "u16" | "u32" | "i8" | "i16" | "i32" | "f32" | "f64")
}

/// Names of the functions with a cast from a double to an integer, once for each cast.
fn double_casts(tree: &syn::File) -> Vec<String> {
    let mut declared = Doubles::default();
    declared.visit_file(tree);
    let mut finder = DoubleCasts { declared, doubles: BTreeSet::new(), function: String::new(), found: Vec::new() };
    finder.visit_file(tree);
    finder.found
}

/// Names that a file declares as doubles.
#[derive(Default)]
struct Doubles {
    fields: BTreeSet<String>,
    /// Constants, and functions that return doubles.
    items: BTreeSet<String>,
}

impl<'ast> Visit<'ast> for Doubles {
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.items.extend(is_double(&item.ty).then(|| item.ident.to_string()));
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        let name = field.ident.as_ref().filter(|_| is_double(&field.ty));
        self.fields.extend(name.map(ToString::to_string));
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        if let syn::ReturnType::Type(_, kind) = &signature.output {
            self.items.extend(is_double(kind).then(|| signature.ident.to_string()));
        }
    }
}

/// Finds casts of doubles, function by function.
struct DoubleCasts {
    declared: Doubles,
    /// Names in the current function that are doubles.
    doubles: BTreeSet<String>,
    function: String,
    found: Vec<String>,
}

impl DoubleCasts {
    fn enter(&mut self, signature: &syn::Signature) {
        self.function = signature.ident.to_string();
        self.doubles.clear();
        for input in &signature.inputs {
            if let syn::FnArg::Typed(input) = input {
                self.note_pattern(&input.pat, is_double(&input.ty));
            }
        }
    }

    /// Notes whether the name that a pattern declares is a double.
    fn note_pattern(&mut self, pattern: &Pat, is_double: bool) {
        match pattern {
            Pat::Ident(name) if is_double => {
                self.doubles.insert(name.ident.to_string());
            }
            Pat::Ident(name) => {
                self.doubles.remove(&name.ident.to_string());
            }
            Pat::Reference(inner) => self.note_pattern(&inner.pat, is_double),
            _ => {}
        }
    }

    fn is_double_expr(&self, expr: &Expr) -> bool {
        let is_declared = |name: &syn::Ident| self.declared.items.contains(&name.to_string());
        match expr {
            Expr::Lit(literal) => matches!(literal.lit, syn::Lit::Float(_)),
            Expr::Paren(inner) => self.is_double_expr(&inner.expr),
            Expr::Unary(inner) => self.is_double_expr(&inner.expr),
            Expr::Index(inner) => self.is_double_expr(&inner.expr),
            Expr::Binary(both) => {
                let is_arithmetic =
                    matches!(both.op, BinOp::Add(_) | BinOp::Sub(_) | BinOp::Mul(_) | BinOp::Div(_) | BinOp::Rem(_));
                is_arithmetic && (self.is_double_expr(&both.left) || self.is_double_expr(&both.right))
            }
            Expr::Cast(cast) => is_double(&cast.ty),
            Expr::Field(field) => {
                matches!(&field.member, syn::Member::Named(name) if self.declared.fields.contains(&name.to_string()))
            }
            Expr::MethodCall(call) => {
                let method = call.method.to_string();
                DOUBLE_METHODS.contains(&method.as_str())
                    || (SAME_TYPE_METHODS.contains(&method.as_str()) && self.is_double_expr(&call.receiver))
            }
            Expr::Path(path) => match path.path.get_ident().map(ToString::to_string) {
                Some(name) if name.starts_with(char::is_lowercase) => self.doubles.contains(&name),
                _ => path.path.segments.last().is_some_and(|last| is_declared(&last.ident)),
            },
            Expr::Call(call) => match &*call.func {
                Expr::Path(path) => {
                    let mut segments = path.path.segments.iter();
                    segments.any(|segment| {
                        segment.ident == "f64" || segment.ident == "f64_of" || is_declared(&segment.ident)
                    })
                }
                _ => false,
            },
            _ => false,
        }
    }
}

impl<'ast> Visit<'ast> for DoubleCasts {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.enter(&item.sig);
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.enter(&item.sig);
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        syn::visit::visit_local(self, local);
        match (&local.pat, &local.init) {
            (Pat::Type(typed), _) => self.note_pattern(&typed.pat, is_double(&typed.ty)),
            (Pat::Tuple(names), Some(init)) => {
                if let Expr::Tuple(values) = &*init.expr {
                    names.elems.iter().zip(&values.elems).for_each(|(name, value)| {
                        let is_double = self.is_double_expr(value);
                        self.note_pattern(name, is_double);
                    });
                }
            }
            (pattern, Some(init)) => {
                let is_double = self.is_double_expr(&init.expr);
                self.note_pattern(pattern, is_double);
            }
            (_, None) => {}
        }
    }

    fn visit_pat_type(&mut self, typed: &'ast syn::PatType) {
        self.note_pattern(&typed.pat, is_double(&typed.ty));
    }

    fn visit_pat_tuple_struct(&mut self, pattern: &'ast syn::PatTupleStruct) {
        let is_double = pattern.path.segments.last().is_some_and(|last| last.ident == "Float");
        pattern.elems.iter().for_each(|inner| self.note_pattern(inner, is_double));
        syn::visit::visit_pat_tuple_struct(self, pattern);
    }

    fn visit_expr_closure(&mut self, closure: &'ast syn::ExprClosure) {
        closure.inputs.iter().for_each(|input| self.note_pattern(input, false));
        syn::visit::visit_expr_closure(self, closure);
    }

    fn visit_expr_cast(&mut self, cast: &'ast syn::ExprCast) {
        if !is_double(&cast.ty) && self.is_double_expr(&cast.expr) {
            self.found.push(self.function.clone());
        }
        syn::visit::visit_expr_cast(self, cast);
    }
}

/// Whether a type is a double, or a reference, slice, array or list of doubles.
fn is_double(kind: &Type) -> bool {
    match kind {
        Type::Path(path) => path.path.segments.last().is_some_and(|last| {
            last.ident == "f64"
                || match &last.arguments {
                    syn::PathArguments::AngleBracketed(of) if last.ident == "Vec" || last.ident == "Option" => {
                        of.args.iter().any(|of| matches!(of, syn::GenericArgument::Type(of) if is_double(of)))
                    }
                    _ => false,
                }
        }),
        Type::Reference(inner) => is_double(&inner.elem),
        Type::Slice(inner) => is_double(&inner.elem),
        Type::Array(inner) => is_double(&inner.elem),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_that_may_lose_something_are_refused_in_product_code() {
        let text = "//! Head.\nlet a = b as u8 + c as u64; // d as u32\nlet e = (f as i32) as usize + g as f64 + self as u8;\n#[cfg(test)]\nmod tests {\n    h as u8\n}\n";
        assert_eq!(narrowing_casts(text).collect::<Vec<_>>(), [2, 3, 3]);
        let faults = |name: &str| {
            let mut faults = Vec::new();
            check(name, "fn f(a: u64) -> f64 {\n    a as f64\n}\n", &mut faults).unwrap();
            faults.len()
        };
        assert_eq!((faults("crates/event/src/value.rs"), faults("crates/event/src/tests.rs")), (1, 0));
        assert_eq!(faults(CONVERSIONS), 0, "the conversions themselves");
    }

    #[test]
    fn casts_of_doubles_to_integers_are_found() {
        let casts = |body: &str| {
            let text = format!(
                "const SHARE: f64 = 0.5;\nstruct Tree {{\n    values: Vec<f64>,\n    rows: Vec<u32>,\n}}\n\
                 fn f(x: f64, n: u32, tree: &Tree, list: &[f64]) {{\n{body}\n}}\n"
            );
            double_casts(&syn::parse_file(&text).unwrap()).len()
        };
        for lossy in [
            "x as u64;",
            "(x * 2.0).round() as i64;",
            "x.max(0.0) as usize;",
            "f64_of(n) as u64;",
            "let y = x + 1.0;\ny as usize;",
            "let (a, b) = (n, x);\nb as u64;",
            "tree.values[0] as usize;",
            "list[0] as usize;",
            "SHARE as u64;",
            "(u64::from(n) as f64 / 2.0) as u64;",
            "match m { Number::Float(value) => value as i64, _ => 0 };",
            "let g = |y: f64| y as u64;",
        ] {
            assert_eq!(casts(lossy), 1, "{lossy}");
        }
        for exact in [
            "n as usize;",
            "tree.rows[0] as usize;",
            "list.len() as u64;",
            "(x < 1.0) as usize;",
            "let x = integer_part::<i64>(x);\nx as i128;",
            "let (a, b) = (n, x);\na as u64;",
            "match m { Number::Float(value) => value, Number::Int(value) => value as i128 };",
            "names.map(|x| x as usize);",
        ] {
            assert_eq!(casts(exact), 0, "{exact}");
        }
    }

    #[test]
    fn tests_may_cast() {
        let tree =
            syn::parse_file("#[cfg(test)]\nmod tests {\n    fn f(x: f64) -> u64 {\n        x as u64\n    }\n}\n");
        assert!(double_casts(&tree.unwrap()).is_empty());
    }
}
