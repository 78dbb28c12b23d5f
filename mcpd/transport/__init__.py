"""Bytes to and from servers and agents. Import-free: the guard process loads `sweep` alone."""
