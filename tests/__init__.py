"""A package, so that a test can take what another has: from tests.templates.test_simt_sanitizers import check."""
