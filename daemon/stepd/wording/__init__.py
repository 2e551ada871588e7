"""How what the daemon knows reads for a person, on a terminal and on the page."""
