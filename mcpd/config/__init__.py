"""Configuration: the files of the user, read into data and watched.

`spec` is the data, `units` and `expand` read single values, `fields` and `entry` read
tables, `load` reads the files, `change` compares two readings, `save` writes one
server's file, `watch` says when files changed. Nobody else reads or writes TOML.
"""
