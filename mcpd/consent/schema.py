"""The tables of state.db: one version for all books that keep something in it."""

from __future__ import annotations

from typing import Final

from mcpd.database import Schema

_SERVERS: Final = """
    create table servers (
        name text primary key,
        enabled integer not null,
        changed_at real not null
    )
"""
#: Of the endpoint there is one row at most.
_ENDPOINT: Final = """
    create table tokens (
        agent text primary key,
        digest blob not null,
        made_at real not null
    );
    create table endpoint (
        number integer primary key check (number = 1),
        enabled integer not null,
        port integer not null
    )
"""
#: What a person has agreed to is filed under the server's name and its destination (n24). `accepted` is the
#: configuration that was accepted last, without values of env and headers; `launched` what a launcher was
#: found to start. Of the second factor there is one row at most.
_CONSENT: Final = """
    create table accepted (
        kind text not null,
        name text not null,
        digest text not null,
        destination text not null,
        value text not null,
        accepted_at real not null,
        primary key (kind, name)
    );
    create table launched (
        server text not null,
        destination text not null,
        place text not null,
        digest text not null,
        words text not null,
        found text not null,
        seen_at real not null,
        primary key (server, destination)
    );
    create table trust (
        server text not null,
        destination text not null,
        trusted_at real not null,
        primary key (server, destination)
    );
    create table grants (
        id text primary key,
        server text not null,
        destination text not null,
        terms text not null,
        used integer not null
    );
    create table pins (
        server text not null,
        destination text not null,
        kind text not null,
        name text not null,
        digest text not null,
        definition text not null,
        pinned_at real not null,
        primary key (server, destination, kind, name)
    );
    create table factor (
        number integer primary key check (number = 1),
        salt blob not null,
        hash blob not null,
        set_at real not null
    )
"""

SCHEMA: Final = Schema(
    version=3,
    script=f"{_SERVERS}; {_ENDPOINT}; {_CONSENT}",
    probe="""
    select servers.name, servers.enabled, changed_at, agent, tokens.digest, made_at,
        endpoint.number, port, accepted.kind, accepted.digest, accepted.value, accepted_at, launched.place,
        launched.digest, launched.words, found, seen_at, trusted_at, terms, used,
        definition, pinned_at, salt, hash, set_at
    from servers, tokens, endpoint, accepted, launched, trust, grants, pins, factor limit 1
    """,
    steps={1: _ENDPOINT, 2: f"alter table servers drop column accepted_digest; {_CONSENT}"},
)
