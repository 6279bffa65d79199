"""The URL of a database: read, and shown without a password that it may hold."""

from __future__ import annotations

import os
import re

from sqlalchemy import URL, make_url
from sqlalchemy.exc import SQLAlchemyError

from qconv.errors import DatabaseError

# The URL of a server. Within a user, a password or a query an @ is escaped: else nobody can tell which @ ends
# the password.
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
        # Without its cause, which repeats the URL.
        raise DatabaseError("the database URL cannot be read; give dialect+driver://user:password@host/name") from None


def where_of(url: URL) -> str:
    """For messages: the file, or the URL as it is shown."""
    if url.get_backend_name() == "sqlite":
        return url.database or "the database in memory"
    return shown(url.render_as_string(hide_password=False))


def shown(url: str) -> str:
    """The URL of a server without its password, and without its query, which holds passwords under several names.
    Nothing behind the scheme is shown of one that can be read in two ways."""
    if (parts := _parts(url)) is None:
        return f"{url.partition('://')[0]}://..."
    user = "" if parts["user"] is None else f"{parts['user']}:***@"
    return f"{parts['scheme']}://{user}{parts['rest']}"


def _parts(url: str) -> re.Match[str] | None:
    parts = _OF_SERVER.fullmatch(url)
    if parts is None or not _PORT.fullmatch(parts["rest"].partition("/")[0]):
        return None
    return parts
