"""Makes pages of records: tables for people, frames for programs."""
