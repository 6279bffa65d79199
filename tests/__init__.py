"""The tests, a package so that tests can import from each other: from tests.templates.test_simt_sanitizers import
check."""
