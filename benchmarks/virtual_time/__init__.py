"""Attempts in virtual time: the engine model in the place of a process, a socket and a clock."""
