//! Decimal arithmetic: sums, differences and products of numbers as written are exact.
//!
//! A double represents `0.1` and `100.1` only approximately, so `100.1-100` in doubles is 0.0999999999999943. Users see
//! decimals, and a double represents at most one decimal with up to fifteen digits. Therefore the decimal is recovered
//! from the double ([`Decimal::of`]), the computation is done on integers, and the result is converted to the nearest
//! double. Numbers with more digits (`10/3`) are not decimals; they are computed in doubles.
//!
//! Times are an exception: seconds since 1970 with nine decimal places need nineteen digits. Times are represented as
//! [`Number::Nanos`], and sums and differences with times are exact, too.
//!
//! Not here: parsing and formatting ([`super`]).

use quarry_stdx::number::{f64_of, integer_part};

use super::{MAX_EXACT_INTEGER, NANOS_PER_UNIT, Number, PLAIN_INTEGER_BOUND, parse_nanos};

/// Maximum number of digits of a decimal that is recovered from its double.
const DIGITS_MAX: u32 = 15;
/// Maximum number of digits of a decimal that is recovered from a double with rounding errors.
const NOISY_DIGITS_MAX: u32 = 13;
/// Tolerated rounding error, relative to the value: between two and four units in the last place.
const ROUNDING_TOLERANCE: f64 = 2.0 * f64::EPSILON;
/// Exponent up to which a power of ten is an exact double.
const SCALE_MAX: u32 = 22;
/// Seconds since 1970 with ten digits, 2001 to 2262: numbers of this size keep nine decimal places.
const EPOCH_SECS_RANGE: std::ops::Range<i64> = 1_000_000_000..9_223_372_036;

/// `units / 10^scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    /// The digits as a signed integer.
    pub units: i128,
    /// Number of decimal places.
    pub scale: u32,
}

/// Upper bound for integers of [`DIGITS_MAX`] digits.
const DIGITS_BOUND: f64 = 1e15;
/// Upper bound for integers of [`NOISY_DIGITS_MAX`] digits.
const NOISY_BOUND: f64 = 1e13;
const _: () = assert!(DIGITS_MAX == 15 && NOISY_DIGITS_MAX == 13);

/// Powers of ten that are exact doubles.
static POWERS: [f64; SCALE_MAX as usize + 1] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// Power of ten; `None` beyond 128 bits.
fn power_of_ten(exponent: u32) -> Option<i128> {
    match 10i64.checked_pow(exponent) {
        Some(power) => Some(power.into()),
        None => 10i128.checked_pow(exponent),
    }
}

/// The quotient `a / b` and the remainder. Nearly all numbers fit 64 bits, for which processors have native division.
fn quotient_and_remainder(a: i128, b: i128) -> Option<(i128, i128)> {
    if let (Ok(a), Ok(b)) = (i64::try_from(a), i64::try_from(b))
        && let Some(whole) = a.checked_div(b)
    {
        return Some((whole.into(), (a % b).into()));
    }
    Some((a.checked_div(b)?, a.checked_rem(b)?))
}

fn to_f64(units: i128) -> f64 {
    i64::try_from(units).map_or_else(|_| f64_of(units), f64_of)
}

impl Decimal {
    fn new(units: i128, scale: u32) -> Decimal {
        let (mut units, mut scale) = (units, scale);
        if let Ok(mut small) = i64::try_from(units) {
            while scale > 0 && small % 10 == 0 {
                (small, scale) = (small / 10, scale - 1);
            }
            return Decimal { units: small.into(), scale };
        }
        while scale > 0 && units % 10 == 0 {
            (units, scale) = (units / 10, scale - 1);
        }
        Decimal { units, scale }
    }

    /// The decimal of a number; `None` for a double with more digits than a decimal may have.
    pub fn of(number: Number) -> Option<Decimal> {
        match number {
            Number::Int(value) => Some(Decimal { units: i128::from(value), scale: 0 }),
            Number::Nanos(ns) => Some(Decimal::new(i128::from(ns), 9)),
            Number::Float(value) => {
                Decimal::of_float(value).or_else(|| Some(Decimal::new(nanos_of_float(value)?.into(), 9)))
            }
        }
    }

    /// The decimal in a text of digits with an optional minus sign and point; `None` for other texts and beyond 128
    /// bits.
    pub fn of_text(text: &str) -> Option<Decimal> {
        let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let is_plain = !whole.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let scale = u32::try_from(fraction.len()).ok()?;
        let units: i128 = if is_plain { format!("{whole}{fraction}").parse().ok()? } else { return None };
        Some(Decimal::new(sign * units, scale))
    }

    /// The decimal that a double represents: the double itself if it is an integer below 10^16, otherwise a decimal of
    /// at most fifteen digits; `None` if there is no such decimal.
    pub fn of_float(value: f64) -> Option<Decimal> {
        let whole: i64 = integer_part(value);
        if f64_of(whole) == value && value.abs() < PLAIN_INTEGER_BOUND {
            return Some(Decimal { units: whole.into(), scale: 0 });
        }
        if value.is_nan() || value.abs() >= DIGITS_BOUND {
            return None;
        }
        for (scale, unit) in (1..).zip(&POWERS[1..]) {
            let scaled = value * unit;
            if scaled.abs() >= DIGITS_BOUND - 0.5 {
                return None;
            }
            // This rounds to the nearest integer; the check below detects a wrong result.
            let units: i64 = integer_part(scaled + 0.5f64.copysign(scaled));
            let missed = (f64_of(units) / unit - value).abs();
            let is_noise = missed <= value.abs() * ROUNDING_TOLERANCE && f64_of(units.unsigned_abs()) < NOISY_BOUND;
            if missed == 0.0 || is_noise {
                return Some(Decimal::new(units.into(), scale));
            }
        }
        None
    }

    /// The decimal as a number: an integer if it has no decimal places and fits, a double if it has few digits,
    /// otherwise a time if it fits, or the nearest double.
    pub fn to_number(self) -> Number {
        let Decimal { units, scale } = Decimal::new(self.units, self.scale);
        if scale == 0
            && let Ok(whole) = i64::try_from(units)
        {
            return Number::Int(whole);
        }
        let float = to_f64(units);
        if let Some(unit) = POWERS.get(scale as usize).filter(|_| float.abs() < DIGITS_BOUND) {
            return Number::Float(float / unit);
        }
        match self.to_nanos() {
            Some(ns) if EPOCH_SECS_RANGE.contains(&(ns / NANOS_PER_UNIT).abs()) => Number::Nanos(ns),
            _ => Number::Float(format!("{units}e-{scale}").parse().unwrap_or(f64::NAN)),
        }
    }

    /// The decimal in billionths; `None` if the conversion is not exact or the result does not fit.
    fn to_nanos(self) -> Option<i64> {
        let missing = 9u32.checked_sub(self.scale)?;
        self.units.checked_mul(power_of_ten(missing)?).and_then(|ns| i64::try_from(ns).ok())
    }

    /// Converts both decimals to the larger of their scales.
    fn align_scales(self, other: Decimal) -> Option<(i128, i128, u32)> {
        let scale = self.scale.max(other.scale);
        let a = self.units.checked_mul(power_of_ten(scale - self.scale)?)?;
        let b = other.units.checked_mul(power_of_ten(scale - other.scale)?)?;
        Some((a, b, scale))
    }
}

/// The billionths of a double in the range of timestamps, according to the digits with which it is formatted.
fn nanos_of_float(value: f64) -> Option<i64> {
    EPOCH_SECS_RANGE.contains(&integer_part::<i64>(value.abs())).then(|| parse_nanos(&value.to_string())).flatten()
}

/// `+ - * / %` of two decimals: exact, except that a quotient is rounded to the nearest double. `None` if the numbers
/// are too large for an exact result.
impl Decimal {
    /// `self + other`.
    #[inline]
    pub fn plus(self, other: Decimal) -> Option<Number> {
        let (a, b, scale) = self.align_scales(other)?;
        Some(Decimal { units: a.checked_add(b)?, scale }.to_number())
    }

    /// `self - other`.
    #[inline]
    pub fn minus(self, other: Decimal) -> Option<Number> {
        self.plus(Decimal { units: other.units.checked_neg()?, ..other })
    }

    /// `self * other`.
    #[inline]
    pub fn times(self, other: Decimal) -> Option<Number> {
        Some(Decimal { units: self.units.checked_mul(other.units)?, scale: self.scale + other.scale }.to_number())
    }

    /// `self / other`, computed on integers of the same scale: 0.3/0.1 is 3/1. A whole quotient is exact; any other is
    /// the double nearest to the true quotient if both integers are exact in doubles, or a time (`divide_instant`).
    #[inline]
    pub fn divided_by(self, other: Decimal) -> Option<Number> {
        let (a, b, _) = self.align_scales(other)?;
        let (whole, rest) = quotient_and_remainder(a, b)?;
        if rest == 0 {
            return Some(Decimal { units: whole, scale: 0 }.to_number());
        }
        let holds = |value: i128| value.unsigned_abs() <= integer_part::<u128>(MAX_EXACT_INTEGER);
        match holds(a) && holds(b) {
            true => Some(Number::of_float(to_f64(a) / to_f64(b))),
            false => self.divide_instant(a, b),
        }
    }

    /// The quotient of a time with more digits than a double, in billionths, if the quotient is also in the range of
    /// times. The mean of times needs it.
    fn divide_instant(self, a: i128, b: i128) -> Option<Number> {
        let (whole, rest) = quotient_and_remainder(a.checked_mul(i128::from(NANOS_PER_UNIT))?, b)?;
        let rounds_up = rest.checked_mul(2)?.unsigned_abs() >= b.unsigned_abs();
        let units = whole + if rounds_up { a.signum() * b.signum() } else { 0 };
        let decimal = Decimal { units, scale: 9 };
        let is_instant = |ns: i64| EPOCH_SECS_RANGE.contains(&(ns / NANOS_PER_UNIT).abs());
        (self.scale > 0 && decimal.to_nanos().is_some_and(is_instant)).then(|| decimal.to_number())
    }

    /// Formats with `digits` decimal places, including zeros; halves are rounded away from zero. `None` if the digits
    /// do not fit 128 bits.
    pub fn to_fixed(self, digits: u32) -> Option<String> {
        let units = match digits.checked_sub(self.scale) {
            Some(missing) => self.units.checked_mul(power_of_ten(missing)?)?,
            None => {
                let unit = power_of_ten(self.scale - digits)?;
                let (whole, rest) = quotient_and_remainder(self.units, unit)?;
                whole + if rest.unsigned_abs() * 2 >= unit.unsigned_abs() { self.units.signum() } else { 0 }
            }
        };
        let sign = if units < 0 { "-" } else { "" };
        let least = digits as usize + 1;
        let text = format!("{:0>least$}", units.unsigned_abs());
        let (whole, fraction) = text.split_at(text.len() - digits as usize);
        Some(if digits == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") })
    }

    /// The remainder of `self / other`, with the sign of `self`.
    #[inline]
    pub fn remainder(self, other: Decimal) -> Option<Number> {
        let (a, b, scale) = self.align_scales(other)?;
        Some(Decimal { units: quotient_and_remainder(a, b)?.1, scale }.to_number())
    }
}

/// The result of `decimal` if both numbers are decimals and the result fits, otherwise the result of `double`.
fn decimal_or_float(
    a: Number,
    b: Number,
    decimal: impl Fn(Decimal, Decimal) -> Option<Number>,
    double: impl Fn(f64, f64) -> f64,
) -> Number {
    let exact = Decimal::of(a).zip(Decimal::of(b)).and_then(|(a, b)| decimal(a, b));
    exact.unwrap_or_else(|| Number::of_float(double(a.as_f64(), b.as_f64())))
}

impl Number {
    /// Converts a double; the result is an integer if the double is exactly an integer below 10^16.
    pub fn of_float(value: f64) -> Number {
        let whole: i64 = integer_part(value);
        if f64_of(whole) == value && value.abs() < PLAIN_INTEGER_BOUND {
            Number::Int(whole)
        } else {
            Number::Float(value)
        }
    }

    /// The number in billionths, if it has no smaller digits and fits.
    pub fn to_nanos(self) -> Option<i64> {
        match self {
            Number::Int(value) => value.checked_mul(NANOS_PER_UNIT),
            Number::Nanos(ns) => Some(ns),
            Number::Float(_) => Decimal::of(self)?.to_nanos(),
        }
    }

    /// `self + other`.
    pub fn plus(self, other: Number) -> Number {
        if let (Number::Int(a), Number::Int(b)) = (self, other)
            && let Some(sum) = a.checked_add(b)
        {
            return Number::Int(sum);
        }
        decimal_or_float(self, other, Decimal::plus, |a, b| a + b)
    }

    /// `-self`.
    pub fn negated(self) -> Number {
        match self {
            Number::Int(value) => value.checked_neg().map_or(Number::Float(-f64_of(value)), Number::Int),
            Number::Float(value) => Number::Float(-value),
            Number::Nanos(ns) => ns.checked_neg().map_or(Number::Float(-self.as_f64()), Number::Nanos),
        }
    }

    /// `self - other`.
    pub fn minus(self, other: Number) -> Number {
        if let (Number::Int(a), Number::Int(b)) = (self, other)
            && let Some(difference) = a.checked_sub(b)
        {
            return Number::Int(difference);
        }
        self.plus(other.negated())
    }

    /// `self * other`.
    pub fn times(self, other: Number) -> Number {
        if let (Number::Int(a), Number::Int(b)) = (self, other)
            && let Some(product) = a.checked_mul(b)
        {
            return Number::Int(product);
        }
        decimal_or_float(self, other, Decimal::times, |a, b| a * b)
    }

    /// `self / other`; `None` for division by zero.
    pub fn divided_by(self, other: Number) -> Option<Number> {
        if other.as_f64() == 0.0 {
            return None;
        }
        if let (Number::Int(a), Number::Int(b)) = (self, other) {
            if a.checked_rem(b) == Some(0) {
                return Some(Number::Int(a / b));
            }
            // The nearest double of the quotient, if doubles hold both numbers.
            if a.unsigned_abs().max(b.unsigned_abs()) <= integer_part::<u64>(MAX_EXACT_INTEGER) {
                return Some(Number::of_float(f64_of(a) / f64_of(b)));
            }
        }
        let exact = Decimal::of(self).zip(Decimal::of(other)).and_then(|(a, b)| a.divided_by(b));
        Some(exact.unwrap_or_else(|| Number::of_float(self.as_f64() / other.as_f64())))
    }

    /// The remainder of `self / other`, with the sign of `self`; `None` for division by zero.
    pub fn remainder(self, other: Number) -> Option<Number> {
        if other.as_f64() == 0.0 {
            return None;
        }
        Some(decimal_or_float(self, other, Decimal::remainder, |a, b| a % b))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::value::{format_number, parse_exact_number, write_nanos};

    fn number(text: &str) -> Number {
        parse_exact_number(text).unwrap()
    }

    fn text(number: Number) -> String {
        match number {
            Number::Int(value) => value.to_string(),
            Number::Float(value) => format_number(value),
            Number::Nanos(ns) => {
                let mut out = String::new();
                write_nanos(ns, &mut out);
                out
            }
        }
    }

    #[test]
    fn decimal_arithmetic_is_exact() {
        for (a, op, b, result) in [
            ("0.1", '+', "0.2", "0.3"),
            ("100.1", '-', "100", "0.1"),
            ("1.1", '*', "1.1", "1.21"),
            ("0.014", '*', "0.23", "0.00322"),
            ("0.3", '/', "0.1", "3"),
            ("10", '/', "3", "3.3333333333333335"),
            ("2", '/', "3", "0.6666666666666666"),
            ("1.1", '%', "0.1", "0"),
            ("-7", '%', "3", "-1"),
            ("1.10", '-', "1.1", "0"),
            ("9007199254740993", '+', "2", "9007199254740995"),
            ("9223372036854775807", '-', "9223372036854775806", "1"),
            ("9223372036854775807", '+', "1", "9.223372036854776e+18"),
            ("4611686018427387904", '*', "2", "9.223372036854776e+18"),
            ("9223372036854775807", '*', "0.1", "9.223372036854776e+17"),
            ("1700000000.456789", '-', "1700000000.123456", "0.333333"),
            ("1700000000.123456789", '+', "0.000000001", "1700000000.12345679"),
            ("1700000000.123456789", '-', "1700000000", "0.123456789"),
            ("1700000000.333", '-', "1700000000", "0.333"),
            ("3.3333333333333335", '*', "3", "10"),
            ("9007199254740994.0", '*', "1223.12", "1.1016885552458805e+19"),
            ("9999999999999998.0", '+', "1", "9999999999999999"),
            ("1e300", '*', "1e300", "inf"),
            ("1e-300", '+', "1", "1"),
        ] {
            let (a, b) = (number(a), number(b));
            let found = match op {
                '+' => a.plus(b),
                '-' => a.minus(b),
                '*' => a.times(b),
                '/' => a.divided_by(b).unwrap(),
                _ => a.remainder(b).unwrap(),
            };
            assert_eq!(text(found), result, "{} {op} {}", text(a), text(b));
        }
        let most = MAX_EXACT_INTEGER as i64;
        for (a, b) in [(1, 3), (-7, 9), (most, 7), (most, -3), (most - 1, most), (most + 2, 3), (i64::MIN, 7)] {
            let decimals = Decimal::of(Number::Int(a)).zip(Decimal::of(Number::Int(b)));
            let expected = decimals.and_then(|(a, b)| a.divided_by(b)).unwrap_or(Number::of_float(a as f64 / b as f64));
            assert_eq!(Number::Int(a).divided_by(Number::Int(b)), Some(expected), "{a} / {b}");
        }
        assert_eq!(number("1").divided_by(number("0.0")), None);
        assert_eq!(number("1").remainder(Number::Int(0)), None);
        assert_eq!(Number::Int(i64::MIN).remainder(Number::Int(-1)), Some(Number::Int(0)));
    }

    #[test]
    fn rounding_noise_is_removed_and_thirds_are_not_decimals() {
        assert_eq!(Decimal::of_float(0.1 + 0.2), Some(Decimal { units: 3, scale: 1 }));
        assert_eq!(Decimal::of_float(1.1 * 1.1), Some(Decimal { units: 121, scale: 2 }));
        for value in [1.0 / 3.0, 10.0 / 3.0, 1.0 / 9.0, f64::MIN_POSITIVE, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(Decimal::of_float(value), None, "{value}");
        }
        let third = Number::Int(1).divided_by(Number::Int(3)).unwrap();
        assert_eq!(third.plus(third).plus(third), Number::Int(1));
    }

    /// Finite doubles: of any size, of common sizes, and whole numbers.
    fn any_double() -> impl Strategy<Value = f64> {
        let any_size = any::<u64>().prop_map(f64::from_bits).prop_filter("finite", |value| value.is_finite());
        let usual_size = (any::<i64>(), -40i32..80).prop_map(|(units, exponent)| {
            let fraction = units as f64 / i64::MAX as f64;
            fraction * 2f64.powi(exponent)
        });
        let whole = (any::<i64>(), 0u32..63).prop_map(|(units, shift)| (units >> shift) as f64);
        prop_oneof![any_size, usual_size, whole]
    }

    proptest! {
        #[test]
        fn subtraction_reverses_addition(a in -999_999_999_999i64..999_999_999_999, b in -999_999_999_999i64..999_999_999_999, scale in 0u32..9) {
            let of = |units: i64| Decimal::new(units.into(), scale).to_number();
            prop_assert_eq!(of(a).plus(of(b)), of(a + b));
            prop_assert_eq!(of(a + b).minus(of(b)), of(a));
            prop_assert_eq!(text(of(a)), text(number(&text(of(a)))));
        }

        #[test]
        fn arithmetic_on_times_keeps_nanoseconds(a in 1_000_000_000_000_000_000i64..9_000_000_000_000_000_000, by in -1_000_000_000i64..1_000_000_000) {
            let moved = Number::Nanos(a).plus(Decimal::new(by.into(), 9).to_number());
            prop_assert_eq!(moved.minus(Number::Nanos(a)), Decimal::new(by.into(), 9).to_number());
        }

        #[test]
        fn arithmetic_on_numbers_agrees_with_their_texts(value in any_double(), other in -1_000_000i64..1_000_000, scale in 0u32..7) {
            let (a, b) = (Number::of_float(value), Decimal::new(other.into(), scale).to_number());
            let read = number(&text(a));
            prop_assert_eq!(text(read.plus(b)), text(a.plus(b)));
            prop_assert_eq!(text(read.times(b)), text(a.times(b)));
        }
    }
}
