"""Parsing of database URLs, and their display without passwords."""

from __future__ import annotations

import os
import re

from sqlalchemy import URL, make_url
from sqlalchemy.exc import SQLAlchemyError

from qconv.errors import DatabaseError

# The URL of a server. An @ inside a user, a password or a query must be escaped; otherwise the end of the password
# would be ambiguous.
_OF_SERVER = re.compile(r"(?P<scheme>[\w+.-]+)://(?:(?P<user>[^@:/?#]*)(?::[^@/?#]*)?@)?(?P<rest>[^@?]*)(?:\?[^@]*)?")
_PORT = re.compile(r"(?:\[[^\]]*\]|[^:]*)(?::\d*)?")


def read(url_or_path: str | os.PathLike[str]) -> URL:
    given = os.fspath(url_or_path)
    if not given.strip() or "\0" in given:
        raise DatabaseError(f"{given!r} names no database; give a path, or a URL (sqlite:// is one in memory)")
    if "://" not in given:
        return URL.create("sqlite", database=given)
    if not given.startswith("sqlite") and _parts(given) is None:
        raise DatabaseError(
            f"the database URL {shown(given)} cannot be read: within a user, a password or a query, write @ as %40, "
            "/ as %2F, ? as %3F and # as %23; the whole is dialect+driver://user:password@host:port/name"
        )
    try:
        return make_url(given)
    except (SQLAlchemyError, ValueError):
        # The cause repeats the URL, so it is left out.
        raise DatabaseError("the database URL cannot be read; give dialect+driver://user:password@host/name") from None


def where_of(url: URL) -> str:
    """Return the name of the database for messages: the file, or the URL without its password."""
    if url.get_backend_name() == "sqlite":
        return url.database or "the database in memory"
    return shown(url.render_as_string(hide_password=False))


def shown(url: str) -> str:
    """Return the URL of a server without its password and without its query, which may hold passwords under several
    names. Of an ambiguous URL only the scheme is shown."""
    if (parts := _parts(url)) is None:
        return f"{url.partition('://')[0]}://..."
    user = "" if parts["user"] is None else f"{parts['user']}:***@"
    return f"{parts['scheme']}://{user}{parts['rest']}"


def _parts(url: str) -> re.Match[str] | None:
    parts = _OF_SERVER.fullmatch(url)
    if parts is None or not _PORT.fullmatch(parts["rest"].partition("/")[0]):
        return None
    return parts
