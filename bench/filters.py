"""The options of scripts that take some rows of a csv of layers or pairs."""

from __future__ import annotations

import argparse


def add_filters(parser: argparse.ArgumentParser, rows: str, kinds: str) -> None:
    """Add the options that select rows of a csv and give them a batch."""
    parser.add_argument("--only", default="", metavar="REGEX", help=f"over the names of the {rows}")
    parser.add_argument("--kinds", default="", metavar="REGEX", help=f"over the csv's kinds: {kinds}")
    parser.add_argument("--batch", type=int, metavar="N", help="instead of the batch of the csv")
