"""The daemon process: start, sockets, stop. Import-free: the guard is forked before anything large loads."""
