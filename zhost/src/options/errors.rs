//! What is wrong with a configuration: all of it, each with what to write instead.

use core::fmt;
use core::ops::RangeInclusive;

use zcore::{Timeout, TimeoutOutOfRange};

/// One thing that is wrong with a configuration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigError {
    option: String,
    problem: String,
}

impl ConfigError {
    pub(crate) fn new(option: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { option: option.into(), problem: problem.into() }
    }

    /// The option.
    pub fn option(&self) -> &str {
        &self.option
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { option, problem } = self;
        write!(f, "`{option}`: {problem}")
    }
}

impl core::error::Error for ConfigError {}

/// Everything that is wrong with a configuration.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ConfigErrors {
    errors: Vec<ConfigError>,
}

impl ConfigErrors {
    /// Each violation, in the order of the options.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.errors.iter()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    pub(crate) fn push(&mut self, error: ConfigError) {
        self.errors.push(error);
    }

    /// Notes what the core says of a value.
    pub(crate) fn take<T, E: fmt::Display>(
        &mut self,
        option: &str,
        value: Result<T, E>,
    ) -> Option<T> {
        value.map_err(|error| self.push(ConfigError::new(option, error.to_string()))).ok()
    }

    /// Notes a span that is no timeout. None is replaced silently (B-96).
    pub(crate) fn timeout(
        &mut self,
        option: &str,
        value: Result<Timeout, TimeoutOutOfRange>,
    ) -> Option<Timeout> {
        self.take(option, value)
    }

    /// Notes a number outside its range.
    pub(crate) fn range(
        &mut self,
        option: &str,
        value: u64,
        valid: RangeInclusive<u64>,
        unit: &str,
    ) {
        if !valid.contains(&value) {
            let (least, most) = valid.into_inner();
            let problem = format!("{value}{unit} is outside {least}..={most}{unit}");
            self.push(ConfigError::new(option, problem));
        }
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { errors } = self;
        for (index, error) in errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl core::error::Error for ConfigErrors {}
