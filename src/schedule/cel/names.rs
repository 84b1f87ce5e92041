//! The names of functions and types that expressions may use.

use cel::common::ast::{CallExpr, Expr, operators};

use super::formats;

/// The variable that holds the scores of a cluster; no expression can name it.
pub(super) const SCORES: &str = "@scores";

/// The library's `matches` compiles its pattern at each call: calls of `matches` are replaced by this function.
pub(super) const MATCHES: &str = "@matches";

/// Lists a cluster's scores of an AddOnPlacementScore.
pub(super) const SCORES_FUNCTION: &str = "scores";
/// Functions that take a regular expression.
pub(super) const REGEX: [&str; 3] = ["matches", "find", "findAll"];
/// Functions whose result, or whose work, grows with the product of their arguments.
pub(super) const PRODUCT: [&str; 7] = ["replace", "join", "split", "indexOf", "lastIndexOf", "quote", "format"];
/// Functions that read a text to its end, however long it is.
pub(super) const LINEAR: [&str; 13] = [
    "charAt",
    "contains",
    "duration",
    "isURL",
    "lowerAscii",
    "parseJSON",
    "reverse",
    "substring",
    "timestamp",
    "trim",
    "upperAscii",
    "url",
    "validate",
];
/// Names of types, which expressions may use as values.
pub(super) const TYPES: [&str; 10] =
    ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];

const GLOBAL: &[&str] = &[
    "size",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "bool",
    "dyn",
    "type",
    "matches",
    "quantity",
    "isQuantity",
    "semver",
    "isSemver",
    "timestamp",
    "duration",
    "ip",
    "isIP",
    "cidr",
    "isCIDR",
    "url",
    "isURL",
];
const QUALIFIED: [&str; 6] =
    ["optional.of", "optional.none", "optional.ofNonZeroValue", "strings.quote", "ip.isCanonical", formats::NAMED];
const MEMBER: &[&str] = &[
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "find",
    "findAll",
    "charAt",
    "indexOf",
    "lastIndexOf",
    "join",
    "lowerAscii",
    "upperAscii",
    "trim",
    "replace",
    "split",
    "substring",
    "reverse",
    "parseJSON",
    SCORES_FUNCTION,
    "hasValue",
    "value",
    "or",
    "orValue",
    "isSorted",
    "sum",
    "min",
    "max",
    "isInteger",
    "asInteger",
    "asApproximateFloat",
    "sign",
    "add",
    "sub",
    "compareTo",
    "isGreaterThan",
    "isLessThan",
    "major",
    "minor",
    "patch",
    "format",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "family",
    "isUnspecified",
    "isLoopback",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isGlobalUnicast",
    "containsIP",
    "containsCIDR",
    "ip",
    "masked",
    "prefixLength",
    "getScheme",
    "getHost",
    "getHostname",
    "getPort",
    "getEscapedPath",
    "getQuery",
    "validate",
];
const OPERATORS: &[&str] = &[
    operators::CONDITIONAL,
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::SUBSTRACT,
    operators::ADD,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::GREATER_EQUALS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::LESS,
    operators::NEGATE,
    operators::INDEX,
    operators::OPT_INDEX,
    operators::OPT_SELECT,
    operators::NOT_STRICTLY_FALSE,
    operators::IN,
];

/// Returns the name with its namespace that a call spells, such as `optional.of`.
pub(super) fn qualified(call: &CallExpr) -> Option<String> {
    let Expr::Ident(namespace) = &call.target.as_ref()?.expr else { return None };
    let name = format!("{namespace}.{}", call.func_name);
    (QUALIFIED.contains(&name.as_str()) || formats::of(&name).is_some()).then_some(name)
}

/// Tells whether a called function exists.
pub(super) fn exists(call: &CallExpr, qualified: Option<&str>) -> bool {
    let name = call.func_name.as_str();
    match (&call.target, qualified) {
        (_, Some(_)) => true,
        (Some(_), None) => MEMBER.contains(&name),
        (None, None) => GLOBAL.contains(&name) || OPERATORS.contains(&name),
    }
}
