"""Which qconv this is, also where it is run from its sources and no metadata says so."""

__version__ = "0.1.0"
