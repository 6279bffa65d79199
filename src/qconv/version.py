"""The version of qconv, which is known without installed metadata."""

__version__ = "0.1.0"
