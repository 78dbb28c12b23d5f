"""Two readings of the files compared: what changed, in words."""

from __future__ import annotations

import json
from typing import NamedTuple

import msgspec

from mcpd.api.masks import mask_url
from mcpd.config.fields import join
from mcpd.config.spec import Config, Faulty, Server


class Difference(msgspec.Struct, frozen=True):
    """Names of servers, sorted."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()


def diff(old: Config, new: Config) -> Difference:
    """How the servers of two configurations differ, faulty ones included."""
    before, after = entries(old), entries(new)
    both = sorted(before.keys() & after.keys())
    return Difference(
        added=tuple(sorted(after.keys() - before.keys())),
        changed=tuple(name for name in both if before[name] != after[name]),
        removed=tuple(sorted(before.keys() - after.keys())),
        unchanged=tuple(name for name in both if before[name] == after[name]),
    )


def entries(config: Config) -> dict[str, Server | Faulty]:
    """All servers by name, those that cannot be used included."""
    return {**config.faulty, **config.servers}


class Applied(NamedTuple):
    """One change, as it is shown to the operator. No values of variables or headers are in it (D12)."""

    place: str
    """`servers.NAME`, `agents.NAME`, `tool_policies.PATTERN`, `defaults.FIELD` or `servers_dir`."""
    what: str


def applied(old: Config, new: Config) -> tuple[Applied, ...]:
    """What differs between two configurations, in words: what a reload has to show (a03)."""
    found = [Applied(join("servers", name), what) for name, what in _changed_servers(old, new)]
    found += [
        Applied(join("agents", name), _became(old.agents.get(name), new.agents.get(name)))
        for name in sorted(old.agents.keys() | new.agents.keys())
        if old.agents.get(name) != new.agents.get(name)
    ]
    before, after = dict(old.tool_policies), dict(new.tool_policies)
    found += [
        Applied(join("tool_policies", pattern), _became(before.get(pattern), after.get(pattern)))
        for pattern in sorted(before.keys() | after.keys())
        if before.get(pattern) != after.get(pattern)
    ]
    return (
        *found,
        *(
            Applied(
                setting(field),
                f"{_worded(getattr(old.settings, field))} -> {_worded(getattr(new.settings, field))}",
            )
            for field in differing(old.settings, new.settings)
        ),
    )


def _changed_servers(old: Config, new: Config) -> list[tuple[str, str]]:
    before, after = entries(old), entries(new)
    return [
        (name, _server_became(before.get(name), after.get(name)))
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _server_became(old: Server | Faulty | None, new: Server | Faulty | None) -> str:
    if new is None:
        return "removed"
    if isinstance(new, Faulty):
        return f"cannot be used: {new.message}"
    target = mask_url(new.url) if new.url else json.dumps([new.command, *new.args], ensure_ascii=False)
    names = [words for field in ("env", "headers") if (words := _names(field, old, new))]
    if not isinstance(old, Server):
        return "; ".join((f"{'new' if old is None else 'mended'}: {target}", *names))
    fields = [field for field in differing(old, new) if field not in ("source", "disabled_by", "keeps")]
    what = f"{', '.join('default_policy' if f == 'policy' else f for f in fields) or 'source'} changed"
    return "; ".join((f"{what}: {target}" if old.digest != new.digest else what, *names))


def _names(field: str, old: Server | Faulty | None, new: Server) -> str:
    """Which of the variables or headers came, went or changed, without a value: LD_PRELOAD is one too."""
    before = getattr(old, field) if isinstance(old, Server) else {}
    after = getattr(new, field)
    told = [
        f"{name} {'removed' if name not in after else 'changed' if name in before else 'added'}"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]
    return f"{field}: {', '.join(told)}" if told else ""


def _became(old: msgspec.Struct | None, new: msgspec.Struct | None) -> str:
    """Only for structs whose fields hold no secrets."""
    if new is None:
        return "removed"
    if old is None:
        return f"new: {_listed({field: getattr(new, field) for field in new.__struct_fields__})}"
    return "; ".join(
        f"{field} {_worded(getattr(old, field))} -> {_worded(getattr(new, field))}"
        for field in differing(old, new)
    )


def _listed(said: dict[str, object]) -> str:
    """What is set."""
    words = {field: _worded(value) for field, value in said.items() if field not in ("name", "source")}
    return ", ".join(f"{field} {word}" for field, word in words.items() if word != "unset")


def _worded(value: object) -> str:
    if value is None:
        return "unset"
    if isinstance(value, msgspec.Struct):
        return _listed({field: getattr(value, field) for field in value.__struct_fields__}) or "unset"
    return msgspec.json.encode(value).decode() if isinstance(value, tuple) else str(value)


def differing(old: msgspec.Struct, new: msgspec.Struct) -> list[str]:
    """The fields in which two structs of one type differ."""
    return [field for field in old.__struct_fields__ if getattr(old, field) != getattr(new, field)]


def setting(field: str) -> str:
    """The place of a setting in config.toml."""
    return field if field == "servers_dir" else f"defaults.{field}"
