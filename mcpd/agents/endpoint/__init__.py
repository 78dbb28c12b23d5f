"""The agents' face over Streamable HTTP, for hosts that want it (n23, protocol reference 3.2, 3.3, 8.1).

`head` judges the head of a request, `event` writes and keeps server-sent events, `streams` carries what one
session says to the responses it belongs to, `rooms` owns the sessions, `app` ties them together (ASGI).
"""
