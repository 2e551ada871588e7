"""The wire types of stepd's protocol, version 1: import the modules of this package by name."""
