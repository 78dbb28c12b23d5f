"""URIs of several servers side by side: exactly one qualifier, and nothing lost on the way back (n03)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AnyUrl

from mcpd.catalog.names import server_name_problem
from mcpd.catalog.qualify import qualified, split, unqualified

servers = st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,31}", fullmatch=True).filter(
    lambda name: server_name_problem(name) is None
)
uris = (
    st.text(max_size=30)
    | st.builds("{}://{}/{}".format, st.sampled_from(["mcpd", "file", "test"]), servers, st.text(max_size=20))
    | st.sampled_from(
        ["note:///{id}", "test://a/{+path}{?q,r}", "mcpd://", "mcpd:///x", "mcpd://s/", "a%20b", "x#y?z", ""]
    )
)


@given(servers, uris)
def test_what_is_qualified_comes_back(server: str, uri: str) -> None:
    assert split(qualified(server, uri)) == (server, uri)
    assert unqualified(server, qualified(server, uri)) == uri


@given(servers, servers, uris)
def test_exactly_one_qualifier_is_added_and_taken_off(server: str, other: str, uri: str) -> None:
    """A server may itself be an mcpd, and have a server of the same name."""
    nested = qualified(server, qualified(other, uri))
    assert nested.count("mcpd://") == uri.count("mcpd://") + 2
    assert split(nested) == (server, qualified(other, uri))
    assert unqualified(server, nested) == qualified(other, uri)


@given(st.lists(st.tuples(servers, uris), max_size=6, unique=True))
def test_no_two_become_one(pairs: list[tuple[str, str]]) -> None:
    assert len({qualified(*pair) for pair in pairs}) == len(pairs)


@given(servers, uris)
def test_a_template_is_expanded_as_it_would_be_alone(server: str, uri: str) -> None:
    """The qualifier has no expression of its own (RFC 6570)."""
    expanded = qualified(server, uri).replace("{id}", "7")
    assert split(expanded) == (server, uri.replace("{id}", "7"))


@pytest.mark.parametrize(
    "uri",
    ["", "note:///7", "mcpd", "mcpd:/s/x", "mcpd://", "mcpd://s", "mcpd:///x", "MCPD://s/x", " mcpd://s/x"],
)
def test_anything_else_is_not_qualified(uri: str) -> None:
    assert split(uri) is None
    assert unqualified("s", uri) == uri


def test_the_qualifier_of_another_server_stays() -> None:
    assert unqualified("s", "mcpd://t/x") == "mcpd://t/x"


@given(servers, st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=30))
def test_clients_that_want_a_url_take_it(server: str, uri: str) -> None:
    """`mcp` 1.x drops a whole list for one URI that is none; what it sends back names the server."""
    found = split(str(AnyUrl(qualified(server, uri))))
    assert found is not None
    assert found[0] == server
