"""`servers.*`."""

from __future__ import annotations

from mcpd import admin, trusting
from mcpd.api import Params
from mcpd.api.servers import (
    AcceptServer,
    AddServer,
    Logs,
    Removed,
    Review,
    ServerDetails,
    ServerInfo,
    ServerLogs,
    ServerName,
    Servers,
    ServerTest,
)
from mcpd.control.operator import Operator


async def list_servers(operator: Operator, params: Params) -> Servers:
    return Servers(admin.list_servers(operator.broker))


async def get(operator: Operator, params: ServerName) -> ServerDetails:
    return admin.get_server(operator.broker, params.server)


async def add(operator: Operator, params: AddServer) -> ServerInfo:
    return await admin.add_server(operator.broker, params)


async def remove(operator: Operator, params: ServerName) -> Removed:
    return Removed(await admin.remove_server(operator.broker, params.server))


async def enable(operator: Operator, params: ServerName) -> ServerInfo:
    return await admin.enable(operator.broker, params.server)


async def disable(operator: Operator, params: ServerName) -> ServerInfo:
    return await admin.disable(operator.broker, params.server)


async def reconnect(operator: Operator, params: ServerName) -> ServerInfo:
    return admin.reconnect(operator.broker, params.server)


async def trust(operator: Operator, params: ServerName) -> ServerInfo:
    await trusting.trust(operator.broker, params.server)
    return admin.one(operator.broker, params.server)


async def untrust(operator: Operator, params: ServerName) -> ServerInfo:
    await trusting.untrust(operator.broker, params.server)
    return admin.one(operator.broker, params.server)


async def review(operator: Operator, params: ServerName) -> Review:
    return await trusting.review(operator.broker, params.server)


async def accept(operator: Operator, params: AcceptServer) -> ServerInfo:
    await trusting.accept(operator.broker, params.server, params.shown)
    return admin.one(operator.broker, params.server)


async def test(operator: Operator, params: ServerName) -> ServerTest:
    return await admin.test_server(operator.broker, params.server)


async def logs(operator: Operator, params: ServerLogs) -> Logs:
    return admin.server_logs(operator.broker, params.server, params.lines)
