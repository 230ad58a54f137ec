//! Splunk .conf text to layered, typed settings with origin.
