"""The benchmark: the daemon's figures beside a bare server's, taken in one run on one machine."""
