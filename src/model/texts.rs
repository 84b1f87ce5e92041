//! Enums of constant texts: condition types, reasons, kinds of journal entries.

use std::fmt;
use std::marker::PhantomData;

use serde::de::Visitor;

/// A text that gitfleet writes, with what it means.
#[derive(Clone, Debug)]
pub struct Known<T> {
    /// The text.
    pub value: T,
    /// What it is written on.
    pub section: &'static str,
    /// What it says and when.
    pub meaning: &'static str,
    /// The facts that go with it, by name.
    pub fields: &'static [&'static str],
}

/// Reads such a text without a copy of it.
pub(crate) struct AsText<T>(PhantomData<T>);

impl<T> AsText<T> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: for<'a> From<&'a str>> Visitor<'_> for AsText<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        Ok(T::from(text))
    }
}

/// Declares an enum whose variants are written as they are spelled. A text that no variant spells is kept as `Other`: records of
/// another version are read and written without loss.
macro_rules! text_enum {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident {
            $($section:literal {
                $($(#[doc = $meaning:literal])+ $variant:ident $([$($field:literal),+])?,)+
            })+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($($(#[doc = $meaning])+ $variant,)+)+
            /// A text of another version.
            Other(Box<str>),
        }

        impl $name {
            /// Every variant with what it means, in the order of their declaration.
            pub const ALL: &'static [$crate::model::texts::Known<Self>] = &[$($(
                $crate::model::texts::Known {
                    value: Self::$variant,
                    section: $section,
                    meaning: concat!($($meaning),+),
                    fields: &[$($($field),+)?],
                },
            )+)+];

            /// Returns the text as it is written.
            pub fn as_str(&self) -> &str {
                match self {
                    $($(Self::$variant => stringify!($variant),)+)+
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $($(stringify!($variant) => Self::$variant,)+)+
                    other => Self::Other(other.into()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str($crate::model::texts::AsText::new())
            }
        }
    };
}

pub(crate) use text_enum;
